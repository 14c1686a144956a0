"""Solving: from a batch of problems to solved canvases with confidence."""
