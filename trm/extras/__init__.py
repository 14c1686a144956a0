"""Extras: what looks at models, compares, converts and shares them.

Only commands and `trm.api` import them.
"""
