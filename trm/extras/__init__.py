"""Extras: analysis, comparison, conversion and sharing of models.

Only commands and `trm.api` import them.
"""
