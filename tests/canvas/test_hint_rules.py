"""Every hint follows from its neighbours, as in a cellular automaton.

A rule sees what a small model does: the symbols of the canvas that it is given and the hints of the
cells around its own. Here it is said which: wherever these are alike, the hint is, and so is the
digit that is to be written.
"""

import numpy as np
import pytest

from canvas import symbols
from canvas.addition import Addition
from canvas.hints import NONE, UNDEFINED, draw_hints
from canvas.multiplication import Multiplication
from canvas.render import draw_worked, row_step
from canvas.sampling import sample

REACH = 2  # two layers of a model that sees 3 x 3 cells in each
WRITTEN = "the digit to write"
STEPS = {"^": (-1, 0), "v": (1, 0), "<": (0, -1), ">": (0, 1)}  # up, down, left, right

# What each hint follows from, here or some steps away. What a layout has no hint of is left out.
OF_PRODUCTS = {
    "row_kind": (
        "symbol symbolv row_kind^^ row_kind^ multiplicand^ multiplicand^> multiplicand^>> "
        "column_multiplier^ column_multiplier^< column_multiplier^> column_multiplier^>>"
    ),
    "multiplicand": ("row_kind row_kind^ symbol multiplicand^ multiplicand^> column_multiplicand^"),
    "column_multiplier": "row_kind row_kind^ symbol column_multiplier^",
    "column_multiplicand": "row_kind row_kind^ symbol column_multiplicand^",
    "multiplier": "row_kind row_kind^ multiplicand multiplicand> column_multiplier multiplier>",
    "carry": (
        "row_kind row_kind^ multiplicand multiplier carry> "  # of a product, or of a sum
        "sum^ symbol^ column_multiplier column_multiplier>"
    ),
    "product": "row_kind row_kind^ multiplicand multiplicand> multiplier carry>",
    "total": "row_kind row_kind^ symbol^ multiplicand multiplicand> multiplier carry> sum_carry",
    "sum": "row_kind row_kind^ sum^ symbol^ carry> sum_carry>",
    "sum_carry": (
        "row_kind row_kind^ sum_carry> sum^ symbol^ column_multiplier column_multiplier> "
        "symbol^> product> total> multiplicand> multiplicand>>"
    ),
    "diagonal": "symbol diagonal^< adding^<",
    "adding": "column_multiplier^ column_multiplier^> adding> adding^ diagonal",
    WRITTEN: (
        "row_kind row_kind^ multiplicand multiplier product carry> sum symbol^ sum_carry total"
    ),
}
OF_LATTICES = {
    "row_kind": "symbol symbol> symbol>> symbolv symbolv> symbolv>>",
    "multiplicand": "row_kind row_kind^ symbol multiplicand^",
    "multiplier": "row_kind symbol symbol> symbol>> multiplier>",
    "product": "row_kind multiplicand^< multiplier> symbol> carry>",
    "carry": "row_kind multiplicand^< multiplier> symbol> carry>",
    "sum_carry": "row_kind row_kind^ sum_carry> multiplicand multiplicand> symbol^< product>",
    "addend": ("row_kind row_kind^ symbol symbol^< product> sum_carry> multiplicand multiplier>"),
    WRITTEN: "row_kind row_kind^ symbol^< product> sum_carry>",
}
OF_SUMS = {
    "row_kind": "symbol row_kindv symbol^ row_kind^",
    "sum": "row_kind^ sum^ symbol^ sum_carry>",
    "sum_carry": "row_kind^ sum_carry> sum^ symbol^ symbol^>",
    "carry": "sum_carry sum_carry> carry^",
    "addend": "row_kind symbol",
    WRITTEN: "row_kind sum carry",
}

TASKS = [
    *(
        Multiplication(layout=layout, base=base, digits_a=(1, 4), digits_b=(1, 4))
        for layout in Multiplication.layouts
        for base in (2, 3, 10)
    ),
    *(
        Addition(layout=layout, base=base, digits=(1, 5), addends=(2, min(4, base)))
        for layout in Addition.layouts
        for base in (2, 3, 10)
    ),
]


def seen(maps: dict[str, np.ndarray], names: str) -> np.ndarray:
    """What is some steps away from every cell, ``uint8 [names, B, H, W]``."""
    found = []
    for name in names.split():
        where = name.rstrip("".join(STEPS))
        if where in maps:
            down, right = np.sum([STEPS[step] for step in name[len(where) :]] or [(0, 0)], axis=0)
            assert max(abs(down), abs(right)) <= REACH, "not a neighbour"
            empty = symbols.BLANK if where == "symbol" else NONE
            margins = ((0, 0), (REACH, REACH), (REACH, REACH))
            cells = np.pad(maps[where], margins, constant_values=empty)
            rolled = np.roll(cells, (-down, -right), axis=(1, 2))
            found.append(rolled[:, REACH:-REACH, REACH:-REACH])
    return np.stack(found)


def leaves_a_gap(a: int, b: int, base: int) -> bool:
    """Whether a product is added beyond the end of the sum so far, or adds no digit, being 0."""
    places = [i for i in range(2, 5) if b // base**i]
    return not a or any(a * (b % base**i) < base ** (i - 1) for i in places)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.layout}-{task.base}")
def test_hints_and_the_digits_to_write_follow_from_the_neighbours(task):
    base, layout = task.base, task.rules
    zeros = [(0, 0), (0, base - 1), (base - 1, 0), (0, base**4 - base), (base**4 - base, 0)]
    drawn = sample(task, 0, "train", 0, np.arange(300)).to_ints() + zeros
    if task.layout == "running_sum":  # no rule sees how far away a product begins
        drawn = [one for one in drawn if not leaves_a_gap(*one, base)]
    problems = task.problems(drawn)
    worked = layout.work(problems)
    draw = np.random.default_rng(0)
    height, width = int(worked.heights.max()) + 1, int(worked.widths.max()) + 2
    top = draw.integers(0, height - worked.heights + 1)
    left = draw.integers(0, width - worked.widths + 1)
    drawing = draw_worked(worked, height, width, top=top, left=left)
    steps = row_step(drawing, draw.integers(0, drawing.steps))
    maps = {"symbol": steps.inputs, **draw_hints(layout, problems, drawing, steps.step)}
    digits = (steps.labels < symbols.BLANK) & (steps.inputs == symbols.MASK)
    rules = {"lattice": OF_LATTICES}.get(task.layout, OF_PRODUCTS)
    rules = OF_SUMS if task.layout in Addition.layouts else rules
    for name in (*layout.hints, WRITTEN):
        if name == WRITTEN and task.layout == "direct":
            continue  # without any working, the product follows from no neighbours
        truth = steps.labels if name == WRITTEN else maps[name]
        cells = digits if name == WRITTEN else truth != UNDEFINED
        known = maps
        if name == "row_kind":  # whatever the digits are
            known = {one: np.minimum(part, 1) for one, part in maps.items()} | {name: truth}
            known["symbol"] = np.where(steps.inputs < symbols.BLANK, np.uint8(1), steps.inputs)
        around = seen(known, rules[name])[:, cells].T
        alike, which, number = np.unique(around, axis=0, return_inverse=True, return_counts=True)
        assert len(alike) < 0.85 * len(around), f"{name}: too few alike to tell"
        if name == "row_kind":  # settled in one cell of a row at least, the others follow
            least, most = np.full(len(alike), 255, np.uint8), np.zeros(len(alike), np.uint8)
            np.minimum.at(least, which.ravel(), truth[cells])
            np.maximum.at(most, which.ravel(), truth[cells])
            settled = np.zeros(cells.shape, dtype=bool)
            settled[cells] = ((least == most) & (number > 1))[which.ravel()]
            rows = (cells & (truth > NONE)).any(axis=2)
            assert settled.any(axis=2)[rows].mean() > 0.998, "but for what is seen only once"
            continue
        both = np.unique(np.column_stack([around, truth[cells]]), axis=0)
        assert len(both) == len(alike), name
