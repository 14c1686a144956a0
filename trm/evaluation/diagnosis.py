"""Diagnosis of errors: which explanation fits the first wrong cell of a solution.

A model builds each row on the rows that it wrote before. Below a wrong row nothing can be compared
with the true solution, so one row of each incorrect problem is diagnosed: its first wrong row. All
rows above that are correct. In that row the first wrong cell in the order of writing counts, from
the least significant digit up.

`KINDS` are the explanations. The first one that fits is counted, else `OTHER`; so the order of the
table decides where several fit. `shifted`, `copied` and `multiplier` compare at least two digits,
and come first. The others compare one symbol. Some symbols fit by chance: `tally` also returns the
share of all wrong symbols that would fit in the same cell.

Example, 47 x 8 in the layout `standard`:

    __47
    *__8
    _326   true is _376: the 7 is 4 · 8 = 32 and the carry 5; the 2 lacks the carry → carry
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from canvas import symbols
from canvas.cells.drawn import drawn_cell_inputs
from canvas.cells.local_rule import LocalRule
from canvas.choices import OwnCodeError, failure
from canvas.drawing import WorkedDrawing
from canvas.layouts import PARTIAL, ROW_KINDS
from canvas.problems import Problems
from canvas.task import Task
from trm.evaluation.other_carries import CARRIES, symbols_with_other_carries
from trm.evaluation.statistics import Share
from trm.solving.solution import Solution
from trm.solving.solver import Solver

OTHER = "other"  # no explanation fits


@dataclass(frozen=True)
class WrongRow:
    """First wrong row of a problem. Arrays begin at the right end of the canvas.

    Cells that are given in the row are blank in `truth`, `written` and `above`.
    """

    truth: np.ndarray  # uint8 [W], ids of the true row
    written: np.ndarray  # uint8 [W], ids of the model's row
    above: np.ndarray  # uint8 [W], ids of the row above, which is correct
    at: int  # index of the first wrong cell
    base: int  # of the digits
    kind: str = ROW_KINDS[PARTIAL]  # one of `canvas.layouts.ROW_KINDS`
    multiplies: bool = True  # False: the row adds numbers that are written above it
    multipliers: tuple[int, ...] = ()  # digits that the rows multiply by, if there are signals
    # Classes of the layout's signals in the true row, uint8 [W] by name; empty: no local rule.
    signals: dict[str, np.ndarray] = field(default_factory=dict)
    # Symbols that the layout's rule writes in the first wrong cell if one carry is different.
    with_other_carries: frozenset[int] = frozenset()


def shifted(row: WrongRow) -> bool:
    """Test if the rest of the row is the true one, moved by one column.

    The rest begins at the first wrong cell. It contains two digits, or the only digit of the row.
    So a digit that is left out or repeated within a number fits, too.
    """
    rest, blank = row.written[row.at :], np.full(1, symbols.BLANK, row.truth.dtype)
    least = min(2, _filled(row.truth))
    for moved in (np.concatenate([blank, row.truth[:-1]]), np.concatenate([row.truth[1:], blank])):
        moved_rest = moved[row.at :]
        if np.array_equal(rest, moved_rest) and _filled(moved_rest) >= least:
            return True
    return False


def copied(row: WrongRow) -> bool:
    """Test if the rest of the row contains the digits of the row above, at least two.

    The rest begins at the first wrong cell. A sign in the row above counts as blank.
    """
    above = row.above[row.at :]
    above = np.where(symbols.digits_of(row.base)[above] >= 0, above, symbols.BLANK)
    return np.array_equal(row.written[row.at :], above) and _filled(above) >= 2


def other_multiplier(row: WrongRow) -> bool:
    """Test if a partial product is that of another digit of the multiplier.

    The first wrong digit and the next one on its left are those of such a product, or the whole
    row is.
    """
    if row.kind != ROW_KINDS[PARTIAL]:
        return False
    pair = slice(row.at, row.at + 2)
    for digit in {*row.multipliers}:
        other = _times(row, digit)
        same = np.array_equal(row.written[pair], other[pair]) and _filled(other[pair]) == 2
        if same or np.array_equal(row.written, other):
            return True
    return False


def _times(row: WrongRow, multiplier: int) -> np.ndarray:
    """Return the row of the multiplicand's product with a digit, uint8 [W]."""
    found, carried = np.full_like(row.truth, symbols.BLANK), 0
    places = [at for at in range(len(found)) if _digit(row, "multiplicand", at) is not None]
    for at in range(places[0], len(found)) if places else ():
        digit = _digit(row, "multiplicand", at) if multiplier else None
        carried, written = divmod((digit or 0) * multiplier + carried, row.base)
        if digit is not None or written or (at == places[0]):
            found[at] = symbols.DIGIT_IDS[written]
    return found


def carry(row: WrongRow) -> bool:
    """Test if the symbol is that of a different carry.

    The carry is dropped, or it is 1 where none is due. Of several carries in a column of a sum,
    one is dropped or all are.
    """
    return int(row.written[row.at]) in row.with_other_carries


def wrong_product(row: WrongRow) -> bool:
    """Test if the digit is that of a neighbouring digit product, with the right carry.

    One of the two factors is one more or one less, or the digit of the multiplicand is that of the
    next column on the right or left.
    """
    true, written = (int(symbols.DIGIT_OF[part[row.at]]) for part in (row.truth, row.written))
    if not row.multiplies or true < 0 or written < 0:
        return False
    a, b = (_digit(row, name, row.at) for name in ("multiplicand", "multiplier"))
    if a is None or b is None:
        return False
    beside = (_digit(row, "multiplicand", row.at + by) for by in (-1, 1))
    others = {(a - 1, b), (a + 1, b), (a, b - 1), (a, b + 1)}
    others |= {(digit, b) for digit in beside if digit is not None}
    inside = (pair for pair in others if all(0 <= digit < row.base for digit in pair))
    return any((x * y - a * b - (written - true)) % row.base == 0 for x, y in inside)


def ends(row: WrongRow) -> bool:
    """Test if the row ends here and should go on, or goes on where it should end."""
    early = not _filled(row.written[row.at :])
    digit = symbols.digits_of(row.base)[row.written[row.at]]
    late = not _filled(row.truth[row.at :]) and digit >= 0
    return bool(early or late)


def _filled(ids: np.ndarray) -> int:
    return int(np.count_nonzero(ids != symbols.BLANK))


def _digit(row: WrongRow, signal: str, at: int) -> int | None:
    """Return the digit of a signal's class; None where the class is no digit."""
    classes = row.signals.get(signal, ())
    found = int(classes[at]) if 0 <= at < len(classes) else 0
    return found - 1 if 1 <= found <= row.base else None


class Kind(NamedTuple):
    """Explanation of a wrong cell."""

    fits: Callable[[WrongRow], bool]
    meaning: str  # in a report
    # Left out of layouts whose local rule has none of these signals; empty: of no layout.
    signals: tuple[str, ...] = ()


KINDS = {
    "shifted": Kind(
        shifted, "from this cell on, the row is the true one, shifted by one column (alignment)"
    ),
    "copied": Kind(copied, "from this cell on, the row is copied from the row above"),
    "multiplier": Kind(
        other_multiplier,
        "the row is the product with another digit of the multiplier",
        ("multiplier",),
    ),
    "carry": Kind(carry, "a carry is dropped, or 1 is carried where no carry is due", CARRIES),
    "product": Kind(
        wrong_product,
        "the digit product is wrong: one factor is off by one, or is the next digit of the number",
        ("multiplicand",),
    ),
    "ends": Kind(ends, "the row ends too early or too late"),
}


def kinds_of(task: Task) -> list[str]:
    """Return the names of the kinds that a task's layout permits, in order, and `OTHER`.

    Raises:
        OwnCodeError: a kind is named like `OTHER`.
    """
    if OTHER in KINDS:
        raise OwnCodeError(f"the kind {OTHER!r} stands for all other errors: rename yours")
    rule = _rule(task)
    known = rule.signals if rule else {}
    names = [n for n, kind in KINDS.items() if not kind.signals or {*kind.signals} & {*known}]
    return [*names, OTHER]


def _rule(task: Task) -> LocalRule | None:
    """Return the local rule of a task's layout; None: it has none, or one for fewer addends."""
    if task.canvas_layout.local_rule is None:
        return None
    try:
        return task.local_rule()
    except ValueError:
        return None


def kind_of(row: WrongRow, names: Sequence[str] = tuple(KINDS)) -> str:
    """Return the first of the named kinds that fits a wrong row, else `OTHER`.

    Raises:
        OwnCodeError: the function of a kind failed.
    """
    for name in names:
        if name == OTHER:
            continue
        try:
            if KINDS[name].fits(row):
                return name
        except Exception as error:
            raise OwnCodeError(f"the kind {name} failed: {failure(error)}") from error
    return OTHER


def by_chance(row: WrongRow, names: Sequence[str]) -> dict[str, float]:
    """Return the share of all wrong symbols in the first wrong cell that are of each kind.

    The wrong symbols are all digits and the blank, but the true one. The rest of the row stays.
    """
    every = {*symbols.ids_of(row.base).tolist(), symbols.BLANK} - {int(row.truth[row.at])}
    found = dict.fromkeys(names, 0.0)
    for symbol in every:
        written = row.written.copy()
        written[row.at] = symbol
        found[kind_of(replace(row, written=written), names)] += 1 / len(every)
    return found


def tally(task: Task, rows: Sequence[WrongRow]) -> dict[str, dict[str, Any]]:
    """Count the kinds of wrong rows: a `trm.evaluation.grid_format.Diagnosis` by kind."""
    names = kinds_of(task)
    found = [kind_of(row, names) for row in rows]
    chances = [by_chance(row, names) for row in rows]
    return {
        name: Share(found.count(name), len(rows)).data()
        | {"chance": float(np.mean([chance[name] for chance in chances])) if rows else None}
        for name in names
    }


def first_wrong_rows(task: Task, drawing: WorkedDrawing, canvases: np.ndarray) -> list[WrongRow]:
    """Return the first wrong row of each incorrect problem.

    Args:
        task: of the problems.
        drawing: B problems with their solutions.
        canvases: uint8 [B, H, W], the solutions of a model.
    """
    correct = drawing.correct_rows(canvases) | (
        np.arange(drawing.num_rows.max()) >= drawing.num_rows[:, None]
    )
    wrong = np.flatnonzero(~correct.all(axis=1))
    if not wrong.size:
        return []
    drawing, canvases = drawing[wrong], canvases[wrong]
    first = (~correct[wrong]).argmax(axis=1)
    rows, width, each = drawing.canvas_row(first), canvases.shape[2], np.arange(len(wrong))
    errors = (canvases != drawing.truth)[each, rows]
    columns = width - 1 - errors[:, ::-1].argmax(axis=1)
    signals: list[dict[str, np.ndarray]] = [{} for _ in wrong]
    others = [frozenset[int]()] * len(wrong)
    multipliers: list[tuple[int, ...]] = [()] * len(wrong)
    kinds = drawing.kinds[each, rows - drawing.top]
    multiplies = (kinds == PARTIAL) | ~(drawing.kinds == PARTIAL).any(axis=1)
    rule = _rule(task)
    if rule:
        cells = drawn_cell_inputs(rule, drawing)
        maps = {
            name: cells.on_canvases(cells.outputs[name], canvases.shape) for name in rule.signals
        }
        signals = [
            {name: of[i, row, ::-1].astype(np.uint8) for name, of in maps.items()}
            for i, row in enumerate(rows)
        ]
        multipliers = [_multipliers(rule, drawing, maps, i) for i in range(len(wrong))]
        others = symbols_with_other_carries(rule, drawing, cells, rows, columns, multiplies)
    found = []
    for i, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        free = ~drawing.given[i, row]
        lines = drawing.truth[i, row], canvases[i, row], drawing.truth[i, max(row - 1, 0)]
        true, written, above = (
            np.where(free, line, np.uint8(symbols.BLANK))[::-1] for line in lines
        )
        found.append(
            WrongRow(
                true,
                written,
                above,
                at=width - 1 - column,
                base=task.base,
                kind=ROW_KINDS[int(kinds[i])],
                multiplies=bool(multiplies[i]),
                multipliers=multipliers[i],
                signals=signals[i],
                with_other_carries=others[i],
            )
        )
    return found


def wrong_rows_of(
    solver: Solver, drawing: WorkedDrawing, solutions: list[Solution]
) -> list[WrongRow]:
    """Return the first wrong row of each incorrect solution of a solver.

    Args:
        solver: of the model.
        drawing: B problems with their solutions.
        solutions: those of the model, one for each problem.
    """
    swapped, rows = [], []
    canvases = drawing.truth.copy()
    for i, solution in enumerate(solutions):
        if solution.guess != solution.view:
            continue  # its rows are none of an upright solution
        if solution.truth is not None and np.array_equal(solution.truth, drawing.truth[i]):
            canvases[i] = solution.canvas
        elif not solution.exact:  # a vote has chosen the solution with the operands swapped
            swapped.append(solution)
    for one in swapped:
        problem = Problems.from_ints([one.operands[::-1]], solver.task.base)
        rows += first_wrong_rows(solver.task, solver.draw_worked(problem), one.canvas[None])
    return first_wrong_rows(solver.task, drawing, canvases) + rows


def _multipliers(
    rule: LocalRule, drawing: WorkedDrawing, maps: dict[str, np.ndarray], problem: int
) -> tuple[int, ...]:
    """Return the digits by which the partial products of a problem multiply, row by row."""
    if "multiplier" not in maps:
        return ()
    rows = drawing.top[problem] + np.flatnonzero(drawing.kinds[problem] == PARTIAL)
    classes = maps["multiplier"][problem, rows].max(axis=1)
    return tuple(int(one) - 1 for one in classes if 1 <= one <= rule.base)
