"""All layouts, and problems on which they differ."""

import random
from collections.abc import Callable

import pytest
from drawings import LAYOUTS

from canvas.layouts import Layout
from canvas.multiplication import Multiplication

Operands = tuple[int, ...]


@pytest.fixture(params=LAYOUTS.values(), ids=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Layout:
    """Every layout in turn."""
    return request.param


@pytest.fixture(scope="session")
def problems_of() -> Callable[[Layout, int], list[Operands]]:
    """Zeros, the smallest and largest operands of several lengths, then random ones."""

    def some(layout: Layout, base: int) -> list[Operands]:
        draw = random.Random(base)
        if layout.name in Multiplication.layouts:
            edges = [
                (a, b)
                for n in (1, 2, 5)
                for m in (1, 2, 4)
                for a in (base ** (n - 1), base**n - 1)
                for b in (base ** (m - 1), base**m - 1)
            ]
            edges += [(0, 0), *((0, b) for _, b in edges), *((a, 0) for a, _ in edges)]
            lengths = [(draw.randint(1, 12), draw.randint(1, 9)) for _ in range(40)] + [(40, 30)]
            return edges + [tuple(draw.randint(1, base**n) for n in both) for both in lengths]
        counts = [*range(2, 7), 40] if layout.name == "column" else [*range(2, min(6, base)), base]
        edges = [(base**n - 1,) * count for count in counts for n in (0, 1, 4, 40)]
        return edges + [
            tuple(draw.randrange(base ** draw.randint(0, 9)) for _ in range(count))
            for count in counts
            for _ in range(30)
        ]

    return some
