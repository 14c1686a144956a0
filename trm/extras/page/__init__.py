"""A web page that shows a model at work, in any browser."""
