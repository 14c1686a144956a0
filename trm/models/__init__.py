"""Models: they know tensors, not problems."""
