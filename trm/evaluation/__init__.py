"""Evaluation: how often solutions are exact, with intervals."""
