"""Proofs that a model is right at every length, or the smallest problem that it gets wrong."""
