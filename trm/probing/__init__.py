"""Probing: what the states of a frozen model tell of the sub-tasks, and what it makes of them."""
