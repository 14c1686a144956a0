"""The commands of `trm` that are not Lightning's own: each adds its arguments and runs."""
