"""Weights of other projects: the published TRM and nanoGPT, from their names to ours and back."""
