"""Shares of correct solutions for made-up grids, by the lengths of a and b."""


def right(a: int, b: int) -> float:
    """Return 1 for lengths within the training range of `made_up_grid`, less for others."""
    return 1.0 if a <= 3 and b <= 2 else 0.5 if b <= 2 else 0.25


def short_only(a: int, b: int) -> float | None:
    return right(a, b) if b <= 2 else None
