"""Solving: a batch of problems to worked canvases with confidence."""
