"""Figures drawn with matplotlib, for reports and for TensorBoard."""
