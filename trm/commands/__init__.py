"""Commands of `trm` that are not Lightning's own: each module adds arguments and runs."""
