"""Symmetries and shifts of a canvas, and their inverses."""
