"""A page in which a model is seen working, in any browser."""
