"""Comparison of local rules, and of sets of reachable inputs, with drawn canvases.

A rule is separate code beside the layout and the task, so all three can differ. The layout draws
canvases, and the rule computes them, cell by cell. Their answers are compared with the task's. The
canvases have numbers of training's lengths and longer ones. Zeros, single digits, nines and numbers
with zeros inside are always among them.

The comparison finds a difference, or none on these canvases. It proves nothing about others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np

from canvas.arithmetic import Numbers
from canvas.boxes import bounding_box
from canvas.cells.drawn import DrawnCellInputs, drawn_cell_inputs
from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import SYMBOL, TOKEN
from canvas.choices import OwnCodeError, failure
from canvas.drawing import WorkedDrawing
from canvas.problems import Problems
from canvas.sampling import sample
from canvas.symbols import ALL_CHARACTERS, BLANK, DIGIT_IDS, MASK, decode
from canvas.task import Task
from canvas.texts import TextTask

QUICK = 64, 32  # canvases of training's lengths, and longer ones, wherever a rule is used
THOROUGH = 20_000, 2000  # the same, wherever a proof depends on the rule
_AT_ONCE, _LONGER_AT_ONCE = 1000, 100  # canvases of a batch
_MOST_CELLS = 20_000_000  # of all canvases of training's lengths; longer numbers get fewer canvases
_MOST_SAMPLED, _SHORTER = 100, 30  # digits: above 100 in training, numbers of up to 30 are drawn
_LONGEST = 24  # digits of the longer numbers
_MOST_MORE = 2  # operands beyond those of training
_MOST_SHOWN = 200  # cells of a canvas that is printed in a message
_LONGER_TEXTS = 8  # rows of a maze beyond those of training
_EDGE_TEXTS = 8  # texts in place of edge cases that a task does not allow
_TRIES = 20  # attempts to draw problems that the task allows


class CheckedCanvases(NamedTuple):
    """Canvases drawn by the layout and computed by the rule."""

    problems: Problems
    drawing: WorkedDrawing
    found: DrawnCellInputs
    trained: bool  # the problems have training's lengths and are of its split
    names: list[str]  # of the problems, as people write them


def checked_canvases(
    task: Task, rule: LocalRule, how_many: tuple[int, int] = QUICK
) -> Iterator[CheckedCanvases]:
    """Yield batches of canvases on which the rule agrees with layout and task.

    Args:
        task: draws the canvases.
        rule: of its layout; for a model with latent codes, the rule with the true classes.
        how_many: canvases of training's lengths, and longer ones; edge cases come before them.

    Raises:
        OwnCodeError: a canvas differs. The message names its first cell that differs, and both
            symbols.
    """
    # One generator for each kind: canvases of training do not depend on the number of others.
    randoms = {kind: np.random.default_rng(0) for kind in (False, True)}
    for problems, trained in _problems(task, rule, *how_many):
        if not len(problems):
            continue
        try:
            canvases = _checked(
                task, rule, problems, _draw_anywhere(task, problems, randoms[trained]), trained
            )
        except (OwnCodeError, MemoryError):
            raise
        except Exception as error:
            where = failure(error, inspect.getfile(type(rule)))
            raise OwnCodeError(
                f"the layout {task.layout}, or {_rule_name(rule)}, is wrong: {where}"
            ) from error
        yield canvases


def check_rule(task: Task, rule: LocalRule, how_many: tuple[int, int] = QUICK) -> int:
    """Compare a rule with drawn canvases, and return their number. Raises as `checked_canvases`."""
    return sum(len(canvases.problems) for canvases in checked_canvases(task, rule, how_many))


def check_reachable(
    task: Task,
    rule: LocalRule,
    ids: np.ndarray,
    how_many: tuple[int, int] = QUICK,
    report: Callable[[str, int, int], object] | None = None,
) -> tuple[int, int]:
    """Compare a set of reachable cell inputs with drawn canvases.

    Args:
        task: draws the canvases.
        rule: of its layout.
        ids: of the set, sorted, see `canvas.cells.reachable.reachable_cell_inputs`.
        how_many: see `checked_canvases`.
        report: called after each batch of canvases.

    Returns:
        The number of canvases, and the digits of the longest operand on them.

    Raises:
        OwnCodeError: a canvas has an input that the set lacks; the message names canvas and cell.
    """
    looked = digits = 0
    for canvases in checked_canvases(task, rule, how_many):
        found = canvases.found
        occurring = rule.whole.encode(0, found.cell_inputs)
        places(ids, occurring, found, np.arange(len(occurring)), canvases.names, rule)
        looked += len(canvases.problems)
        digits = max(digits, int(canvases.problems.lengths.max(initial=0)))
        if report:
            report("comparing the rule with canvases", looked, sum(how_many))
    return looked, digits


def places(
    reachable: np.ndarray,
    occurring: np.ndarray,
    found: DrawnCellInputs,
    cells: np.ndarray,
    names: list[str],
    rule: LocalRule,
) -> np.ndarray:
    """Return the indices of canvases' inputs in a sorted set of reachable inputs, int64 [M].

    Args:
        reachable: ids of inputs, sorted.
        occurring: ids of the inputs of canvases, int64 [M].
        found: the canvases' cells.
        cells: indices of the cells with these inputs, int64 [M].
        names: of the canvases' problems.
        rule: of the set.

    Raises:
        OwnCodeError: the set lacks an input; the message names canvas and cell.
    """
    at = np.searchsorted(reachable, occurring).clip(max=max(0, len(reachable) - 1))
    missing = reachable[at] != occurring if len(reachable) else np.ones(len(occurring), dtype=bool)
    if missing.any():
        which = np.flatnonzero(missing)
        cell = _first(found, cells[which])
        row, column = found.row[cell], found.column[cell]
        raise OwnCodeError(
            f"the reachable inputs of {_rule_name(rule)} are too few: the cell in row {row + 1}, "
            f"column {column + 1} of {names[found.canvas[cell]]}, in which "
            f"{_symbol(int(found.cell_inputs[TOKEN][cell]))} stands, has an input that is not "
            f"among "
            "them. Nothing is proved: have the rule's `rows` name all that can stand on a canvas"
        )
    return at


def edge_problems(task: Task, rule: LocalRule | None = None) -> Problems:
    """Return all pairs of zeros, single digits, nines, powers and zeros inside.

    Pairs that the task does not allow are left out. The digest of a proof covers these canvases: a
    different list makes saved proofs invalid.
    """
    base = task.base
    edges = [0, 1, base - 1, base, base**3 + 1, base**5 - base, base**6 - 1]
    operands = list(product(edges, repeat=task.arity[0]))
    if rule and task.arity[0] == 2 < min(task.arity[1], rule.most_operands or task.arity[1]):
        operands += [(one, other, one) for one, other in product(edges[:3], edges)]
    found = _allowed(task, operands)
    if len(found) or not isinstance(task, TextTask):
        return found
    return sample(task, 0, "train", 0, np.arange(_EDGE_TEXTS))


def _allowed(task: Task, operands: list[tuple[int, ...]]) -> Problems:
    problems = Problems.from_ints(operands, task.base)
    return problems[np.flatnonzero(task.allows(problems))]


def _problems(
    task: Task, rule: LocalRule, in_range: int, longer: int
) -> Iterator[tuple[Problems, bool]]:
    """Yield edge cases, then longer problems, then those of training; True for the last kind."""
    lengths = None
    if max(task.longest) > _MOST_SAMPLED and rule.ordered:
        lengths = [min(n, _SHORTER) for n in task.longest]
    height, width = task.canvas_layout.extent(lengths or task.longest, task.base)
    # Without an order of writing each cell may be computed as often as there are cells.
    cells = (height * width) ** (1 if rule.ordered else 2)
    in_range = min(in_range, max(1, _MOST_CELLS // cells))
    longer = longer if rule.ordered else min(longer, max(1, in_range // 10))
    yield edge_problems(task, rule), False
    random = Random(0)
    for start in range(0, longer, _LONGER_AT_ONCE):
        count = min(_LONGER_AT_ONCE, longer - start)
        yield _longer(task, rule, random, count), False
    for start in range(0, in_range, _AT_ONCE):
        index = np.arange(start, min(in_range, start + _AT_ONCE))
        yield sample(task, 0, "train", 0, index, lengths), True


def _longer(task: Task, rule: LocalRule, random: Random, count: int) -> Problems:
    """Draw problems in which one number is longer than any of training, as the task allows."""
    if isinstance(task, TextTask) and not rule.ordered:
        more = task.length[1] + 1, task.length[1] + _LONGER_TEXTS
        drawn = replace(task, length=more)
        return sample(drawn, random.randrange(2**32), "train", 0, np.arange(count))
    longest = max(task.longest)
    fewest, most = task.arity
    most = min(most, rule.most_operands or most, len(task.longest) + _MOST_MORE)
    found: list[tuple[int, ...]] = []
    for _ in range(_TRIES):
        tried = []
        for _ in range(count - len(found)):
            size = longest + random.randint(1, min(longest, _LONGEST) + 2)
            size = min(size, max(_LONGEST, _SHORTER))
            lengths = [random.randint(1, size) for _ in range(random.randint(fewest, most))]
            lengths[random.randrange(len(lengths))] = size
            tried.append(tuple(_number(random, n, task.base) for n in lengths))
        found += _allowed(task, tried).to_ints()
        if len(found) == count:
            break
    return Problems.from_ints(found, task.base)


def _number(random: Random, digits: int, base: int) -> int:
    """Draw a number with that many digits: any number, or one of zeros and nines alone."""
    if random.random() < 0.7:
        return random.randrange(base ** (digits - 1), base**digits)
    drawn = [random.choice((1, base - 1)), *random.choices((0, base - 1), k=digits - 1)]
    return sum(digit * base**place for place, digit in enumerate(reversed(drawn)))


def _draw_anywhere(task: Task, problems: Problems, random: np.random.Generator) -> WorkedDrawing:
    """Draw a batch of canvases with up to two more blank columns on either side than the widest."""
    heights, widths = task.canvas_layout.sizes(problems)
    left, right = random.integers(0, 3, size=2)
    width = int(widths.max() + left + right)
    place = random.integers(0, width - widths + 1)
    return task.canvas_layout.draw_worked(problems, int(heights.max()), width, 0, place)


def _checked(
    task: Task, rule: LocalRule, problems: Problems, drawing: WorkedDrawing, trained: bool
) -> CheckedCanvases:
    """Compute the canvases of one batch by the rule, and compare them."""
    names, found = task.names(problems), drawn_cell_inputs(rule, drawing)
    masked = found.cell_inputs[TOKEN] == MASK
    drawn = drawing.truth[found.canvas, found.row, found.column].astype(np.int64)
    computed = found.outputs[SYMBOL]
    wrong = masked & (computed != drawn)
    bad_signal = ""
    for name, classes in rule.signals.items():
        outside = (found.outputs[name] < 0) | (found.outputs[name] >= classes)
        if outside.any():
            bad_signal, wrong = name, outside
            break
    if wrong.any():
        cell = _first(found, np.flatnonzero(wrong))
        canvas, row, column = found.canvas[cell], found.row[cell], found.column[cell]
        where = f"in row {row + 1}, column {column + 1} of {names[canvas]}"
        if bad_signal:
            raise OwnCodeError(
                f"{_rule_name(rule)} is wrong: {where} it returns class "
                f"{found.outputs[bad_signal][cell]} of {bad_signal}, which has the classes 0 to "
                f"{rule.signals[bad_signal] - 1}: make `cell` and `classes` agree"
            )
        raise OwnCodeError(
            f"{_rule_name(rule)} is wrong: {where} the rule returns {_symbol(computed[cell])}, and "
            f"the canvas{_text(drawing, int(canvas))} has {_symbol(drawn[cell])}: make the rule's "
            "`cell` and the layout's `rows` agree"
        )
    _check_answers(task, problems, drawing, names)
    return CheckedCanvases(problems, drawing, found, trained, names)


def _check_answers(
    task: Task, problems: Problems, drawing: WorkedDrawing, names: list[str]
) -> None:
    """Compare the answers on canvases with the task's.

    Only the answer's cells are read: `canvas.check.check_layout` reads whole canvases back.

    Raises:
        OwnCodeError: names the first canvas with another answer.
    """
    answers = Numbers.from_ints([task.answer(one) for one in problems.to_ints()], task.base)
    for i, (right, canvas) in enumerate(zip(answers.to_text(), drawing.truth, strict=True)):
        content = canvas[bounding_box(canvas != BLANK)]
        cells = [content[cell] for cell in task.canvas_layout.answer_cells(content)]
        drawn = decode(np.array(cells[::-1], dtype=np.uint8))
        if drawn[: len(drawn) - len(right)].strip("0") or not drawn.endswith(right):
            raise OwnCodeError(
                f"the layout {task.layout} is wrong: the canvas of {names[i]} has the answer "
                f"{drawn!r}, and the answer of the task {task.name} is {right}"
            )


def _first(found: DrawnCellInputs, cells: np.ndarray) -> int:
    """Return the first of some cells in the order of writing: first canvas, top row, right end."""
    order = np.lexsort((-found.column[cells], found.row[cells], found.canvas[cells]))
    return int(cells[order[0]])


def _symbol(symbol_id: int) -> str:
    """Return a symbol as it is printed; an id that is no symbol's is printed as that."""
    if 0 <= symbol_id < len(ALL_CHARACTERS):
        character = ALL_CHARACTERS[symbol_id]
        return character if symbol_id in DIGIT_IDS else repr(character)
    return f"{symbol_id}, which is no symbol"


def _text(drawing: WorkedDrawing, canvas: int) -> str:
    """Return a canvas's rows in brackets, or an empty text if the canvas is large."""
    rows = [decode(row) for row in drawing.truth[canvas, : drawing.heights[canvas]]]
    return f" ({' / '.join(rows)})" if sum(map(len, rows)) <= _MOST_SHOWN else ""


def _rule_name(rule: LocalRule) -> str:
    own = getattr(rule, "named_as", rule)  # what a rule that wraps another one is called
    return f"the local rule {type(own).__name__}"
