"""A layout's local rule held against drawn pages, and sets of reachable inputs against them, too.

A rule is code of its own beside the layout and the task, so all three can differ. Pages are drawn
by the layout and worked out by the rule, cell by cell, and their answers are compared with the
task's. The pages have numbers of training's lengths and longer ones; zeros, single digits, nines
and numbers with zeros inside are always among them.

This finds a difference, or none on these pages. It proves nothing of others.
"""

import inspect
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np

from canvas.arithmetic import Numbers
from canvas.cells.local_rule import LocalRule
from canvas.cells.pages import PageCellInputs, page_cell_inputs
from canvas.cells.spec import SYMBOL, TOKEN
from canvas.choices import OwnCodeError, failure
from canvas.drawing import WorkedDrawing
from canvas.problems import Problems
from canvas.sampling import sample
from canvas.symbols import BLANK, CHARACTERS, DIGIT_IDS, MASK, decode
from canvas.task import Task

QUICK = 64, 32  # pages of training's lengths, and longer ones, wherever a rule is used
THOROUGH = 20_000, 2000  # and where a proof rests on it
_AT_ONCE, _LONGER_AT_ONCE = 1000, 100
_MOST_CELLS = 20_000_000  # of all pages of training's lengths: of long numbers there are fewer
_MOST_SAMPLED, _SHORTER = 100, 30  # digits; where training has more, so many are drawn
_LONGEST = 24  # digits of the longer numbers
_MOST_MORE = 2  # operands beyond those of training
_MOST_SHOWN = 200  # cells of a page in a sentence
_TRIES = 20  # at a problem that the task allows


class DrawnPages(NamedTuple):
    """Pages that were drawn, and worked out by the rule."""

    problems: Problems
    drawing: WorkedDrawing
    found: PageCellInputs
    trained: bool  # of the lengths of training, and of its split
    names: list[str]  # of the problems, as people write them


def checked_pages(
    task: Task, rule: LocalRule, how_many: tuple[int, int] = QUICK
) -> Iterator[DrawnPages]:
    """Pages of a task, batch after batch, on each of which the rule agrees with layout and task.

    Args:
        task: of which pages are drawn.
        rule: of its layout; one of a model with latent codes is of the true classes.
        how_many: pages of training's lengths, and longer ones; edge cases come before them.

    Raises:
        OwnCodeError: names the first page and cell that differ, with what either says.
    """
    # Each kind has its own, so that pages of training do not depend on how many others there are.
    randoms = {kind: np.random.default_rng(0) for kind in (False, True)}
    for problems, trained in _problems(task, rule, *how_many):
        if not len(problems):
            continue
        try:
            pages = _checked(
                task, rule, problems, _drawn(task, problems, randoms[trained]), trained
            )
        except (OwnCodeError, MemoryError):
            raise
        except Exception as error:
            where = failure(error, inspect.getfile(type(rule)))
            raise OwnCodeError(
                f"the layout {task.layout}, or {_rule_name(rule)}, is wrong: {where}"
            ) from error
        yield pages


def check_rule(task: Task, rule: LocalRule, how_many: tuple[int, int] = QUICK) -> int:
    """Hold a rule against drawn pages; returns how many they were. Raises as `checked_pages`."""
    return sum(len(pages.problems) for pages in checked_pages(task, rule, how_many))


def check_reachable(
    task: Task, rule: LocalRule, numbers: np.ndarray, how_many: tuple[int, int] = QUICK
) -> None:
    """Compare a set of reachable cell inputs with drawn pages.

    Args:
        task: draws the pages.
        rule: of its layout.
        numbers: ids of the set, sorted, see `canvas.cells.reachable.reachable_cell_inputs`.
        how_many: see `checked_pages`.

    Raises:
        OwnCodeError: a page has an input that the set lacks; the message names page and cell.
    """
    for pages in checked_pages(task, rule, how_many):
        found = pages.found
        shown = rule.whole.numbers(0, found.cell_inputs)
        places(numbers, shown, found, np.arange(len(shown)), pages.names, rule)


def places(
    reachable: np.ndarray,
    shown: np.ndarray,
    found: PageCellInputs,
    cells: np.ndarray,
    names: list[str],
    rule: LocalRule,
) -> np.ndarray:
    """Places of the inputs that pages show in a sorted set of reachable inputs, int64 [M].

    Args:
        reachable: numbers of inputs, sorted.
        shown: numbers of the inputs of pages, int64 [M].
        found: the pages' cells.
        cells: which of these has each input, int64 [M].
        names: of the pages' problems.
        rule: the set's.

    Raises:
        OwnCodeError: the set lacks one.
    """
    at = np.searchsorted(reachable, shown).clip(max=max(0, len(reachable) - 1))
    missing = reachable[at] != shown if len(reachable) else np.ones(len(shown), dtype=bool)
    if missing.any():
        which = np.flatnonzero(missing)
        cell = _first(found, cells[which])
        row, column = found.row[cell], found.column[cell]
        raise OwnCodeError(
            f"the reachable inputs of {_rule_name(rule)} are too few: the cell in row {row + 1}, "
            f"column {column + 1} of {names[found.page[cell]]}, in which "
            f"{_symbol(int(found.cell_inputs[TOKEN][cell]))} stands, has an input that is not "
            f"among "
            "them. Nothing is proved: have the rule's `rows` name all that can stand on a page"
        )
    return at


def edge_problems(task: Task, rule: LocalRule | None = None) -> Problems:
    """Zeros, single digits, nines, powers, zeros inside: all pairs that the task allows.

    The digest of a proof is of these pages, too: another list makes saved proofs unreadable.
    """
    base = task.base
    edges = [0, 1, base - 1, base, base**3 + 1, base**5 - base, base**6 - 1]
    operands = list(product(edges, repeat=task.arity[0]))
    if rule and task.arity[0] == 2 < min(task.arity[1], rule.most_operands or task.arity[1]):
        operands += [(one, other, one) for one, other in product(edges[:3], edges)]
    return _allowed(task, operands)


def _allowed(task: Task, operands: list[tuple[int, ...]]) -> Problems:
    problems = Problems.from_ints(operands, task.base)
    return problems[np.flatnonzero(task.allows(problems))]


def _problems(
    task: Task, rule: LocalRule, in_range: int, longer: int
) -> Iterator[tuple[Problems, bool]]:
    """Problems, and whether they are of training: edge cases, longer ones, those of training."""
    yield edge_problems(task, rule), False
    random = Random(0)
    for start in range(0, longer, _LONGER_AT_ONCE):
        number = min(_LONGER_AT_ONCE, longer - start)
        yield _longer(task, rule, random, number), False
    lengths = None
    if max(task.longest) > _MOST_SAMPLED:
        lengths = [min(n, _SHORTER) for n in task.longest]
    height, width = task.layout_impl.room(lengths or task.longest, task.base)
    in_range = min(in_range, max(1, _MOST_CELLS // (height * width)))
    for start in range(0, in_range, _AT_ONCE):
        index = np.arange(start, min(in_range, start + _AT_ONCE))
        yield sample(task, 0, "train", 0, index, lengths), True


def _longer(task: Task, rule: LocalRule, random: Random, number: int) -> Problems:
    """Problems of which one number is longer than any of training, as far as the task allows."""
    longest = max(task.longest)
    fewest, most = task.arity
    most = min(most, rule.most_operands or most, len(task.longest) + _MOST_MORE)
    found: list[tuple[int, ...]] = []
    for _ in range(_TRIES):
        tried = []
        for _ in range(number - len(found)):
            size = longest + random.randint(1, min(longest, _LONGEST) + 2)
            size = min(size, max(_LONGEST, _SHORTER))
            lengths = [random.randint(1, size) for _ in range(random.randint(fewest, most))]
            lengths[random.randrange(len(lengths))] = size
            tried.append(tuple(_number(random, n, task.base) for n in lengths))
        found += _allowed(task, tried).to_ints()
        if len(found) == number:
            break
    return Problems.from_ints(found, task.base)


def _number(random: Random, digits: int, base: int) -> int:
    """A number of so many digits: any, or of zeros and nines alone."""
    if random.random() < 0.7:
        return random.randrange(base ** (digits - 1), base**digits)
    drawn = [random.choice((1, base - 1)), *random.choices((0, base - 1), k=digits - 1)]
    return sum(digit * base**place for place, digit in enumerate(reversed(drawn)))


def _drawn(task: Task, problems: Problems, random: np.random.Generator) -> WorkedDrawing:
    """One batch of pages, with up to two blank columns more on either side than the widest has."""
    heights, widths = task.layout_impl.sizes(problems)
    left, beside = random.integers(0, 3, size=2)
    width = int(widths.max() + left + beside)
    place = random.integers(0, width - widths + 1)
    return task.layout_impl.draw_worked(problems, int(heights.max()), width, 0, place)


def _checked(
    task: Task, rule: LocalRule, problems: Problems, drawing: WorkedDrawing, trained: bool
) -> DrawnPages:
    """The pages of one batch, worked out by the rule and compared."""
    names, found = task.names(problems), page_cell_inputs(rule, drawing)
    asked = found.cell_inputs[TOKEN] == MASK
    shows = drawing.truth[found.page, found.row, found.column].astype(np.int64)
    says = found.outputs[SYMBOL]
    wrong = asked & (says != shows)
    bad_field = ""
    for name, classes in rule.signals.items():
        outside = (found.outputs[name] < 0) | (found.outputs[name] >= classes)
        if outside.any():
            bad_field, wrong = name, outside
            break
    if wrong.any():
        cell = _first(found, np.flatnonzero(wrong))
        page, row, column = found.page[cell], found.row[cell], found.column[cell]
        where = f"in row {row + 1}, column {column + 1} of {names[page]}"
        if bad_field:
            raise OwnCodeError(
                f"{_rule_name(rule)} is wrong: {where} it says class "
                f"{found.outputs[bad_field][cell]} of {bad_field}, which has the classes 0 to "
                f"{rule.signals[bad_field] - 1}: make `cell` and `classes` agree"
            )
        raise OwnCodeError(
            f"{_rule_name(rule)} is wrong: {where} the rule says {_symbol(says[cell])}, and the "
            f"page{_text(drawing, int(page))} shows {_symbol(shows[cell])}: make the rule's `cell` "
            "and the layout's `rows` agree"
        )
    _check_answers(task, problems, drawing, names)
    return DrawnPages(problems, drawing, found, trained, names)


def _check_answers(
    task: Task, problems: Problems, drawing: WorkedDrawing, names: list[str]
) -> None:
    """OwnCodeError names the first page that does not show the task's answer.

    The answer's cells are read alone: `canvas.check.check_layout` reads whole pages back.
    """
    filled = drawing.truth != BLANK
    ends = []
    for axis in (2, 1):  # first and last row, then column, of each page
        used = filled.any(axis=axis)
        ends += [used.argmax(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1)]
    boxes = zip(*(end.tolist() for end in ends), strict=True)
    answers = Numbers.from_ints([task.answer(one) for one in problems.to_ints()], task.base)
    for i, (right, box) in enumerate(zip(answers.to_text(), boxes, strict=True)):
        content = drawing.truth[i, box[0] : box[1], box[2] : box[3]]
        cells = [content[cell] for cell in task.layout_impl.answer_cells(content)]
        shown = decode(np.array(cells[::-1], dtype=np.uint8))
        if shown[: len(shown) - len(right)].strip("0") or not shown.endswith(right):
            raise OwnCodeError(
                f"the layout {task.layout} is wrong: the page of {names[i]} shows the answer "
                f"{shown!r}, and the task {task.name} says {right}"
            )


def _first(found: PageCellInputs, cells: np.ndarray) -> int:
    """The first of some cells in the order of writing: of the first page, from the top right."""
    order = np.lexsort((-found.column[cells], found.row[cells], found.page[cells]))
    return int(cells[order[0]])


def _symbol(number: int) -> str:
    """A symbol as a page shows it, or a number that is none."""
    if 0 <= number < len(CHARACTERS):
        return CHARACTERS[number] if number in DIGIT_IDS else repr(CHARACTERS[number])
    return f"{number}, which is no symbol"


def _text(drawing: WorkedDrawing, page: int) -> str:
    """A page in brackets, its rows one after the other; nothing of a large one."""
    rows = [decode(row) for row in drawing.truth[page, : drawing.heights[page]]]
    return f" ({' / '.join(rows)})" if sum(map(len, rows)) <= _MOST_SHOWN else ""


def _rule_name(rule: LocalRule) -> str:
    return f"the local rule {type(rule).__name__}"
