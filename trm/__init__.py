"""Tiny recursive transformers that fill canvases, and what trains and drives them."""
