"""Intervals for shares: a figure without one is not quoted."""

from dataclasses import dataclass
from math import hypot, sqrt


@dataclass(frozen=True)
class Share:
    """``right`` of ``total``, with its Wilson score interval (Wilson 1927)."""

    right: int
    total: int
    z: float = 1.96  # 95 %

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.total:
            raise ValueError(f"{self.right} of {self.total} is not a share")

    @property
    def value(self) -> float:
        """The share itself, nan of none."""
        return self.right / self.total if self.total else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end; (0, 1) of none."""
        if not self.total:
            return 0.0, 1.0
        n, p, z = self.total, self.value, self.z
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, centre - half), min(1.0, centre + half)

    def data(self) -> dict[str, float]:
        """As it is written to files: right, total, and both ends of the interval."""
        low, high = self.interval
        return {"right": self.right, "total": self.total, "low": low, "high": high}

    def __str__(self) -> str:
        if not self.total:
            return "none"
        low, high = self.interval
        return (
            f"{100 * self.value:.1f} % ({self.right} of {self.total}; "
            f"95 % interval {100 * low:.1f} to {100 * high:.1f} %)"
        )


def difference(one: Share, other: Share) -> tuple[float, float]:
    """Ends of the interval of one share less another, from -1 to 1 (Newcombe 1998, method 10).

    It is put together from both Wilson intervals, and takes what was asked as independent: where
    both were asked the same, the difference is known better than it says.
    """
    p, q = (share.value if share.total else 0.5 for share in (one, other))
    (low, high), (least, most) = one.interval, other.interval
    return p - q - hypot(p - low, most - q), p - q + hypot(high - p, q - least)
