"""Shares of right solutions for made-up grids, by the lengths of a and b."""


def right(a: int, b: int) -> float:
    """All of the lengths that `made_up_grid` calls trained on, fewer of the others."""
    return 1.0 if a <= 3 and b <= 2 else 0.5 if b <= 2 else 0.25


def short_only(a: int, b: int) -> float | None:
    return right(a, b) if b <= 2 else None
