"""Search for a problem that a model solves incorrectly: the smallest one, or any.

All small problems are tried first, in order of size. Structured problems follow, such as long
chains of carries, then mutations of the problems with the lowest scores. A model with cell inputs
can fail on a problem only if one of its cell inputs is incorrect. That test needs no network.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch

from canvas.cells.check import places
from canvas.cells.drawn import drawn_cell_inputs
from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import TOKEN, input_name
from canvas.drawing import Drawing, WorkedDrawing
from canvas.problems import Problems
from canvas.sampling import FAMILIES, family_problems, sample
from canvas.symbols import decode
from canvas.task import Task
from canvas.texts import TextTask
from trm.cells.computing import run_wavefront
from trm.cells.model import CellModel
from trm.cells.proof.compare import Comparison
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.solver import Solver

_SMALL = 30_000  # sizes with more problems are not enumerated
_AT_ONCE = 500
_KEPT = 50  # problems that are mutated
_MARGINS = ((0, 0), (1, 0), (1, 1))  # blank columns on the left and on the right of a canvas
_TARGETS = 64  # incorrect op inputs that the search aims at
_LONGEST = 40  # digits of a mutated operand


class Counterexample(NamedTuple):
    """A problem with an incorrect solution."""

    problem: str  # as text, like 12 x 34
    operands: tuple[int, ...]
    canvas: np.ndarray  # uint8 [H, W], the model's solution
    truth: np.ndarray  # uint8 [H, W], the correct solution
    given: np.ndarray  # bool [H, W]
    smallest: bool = False  # True: all smaller problems are solved correctly
    left: int = 0  # blank columns of the canvas beside its solution
    right: int = 0
    # Height and width of a canvas on which `trm solve` shows it. A side is None if its option can
    # be left out. None: no such canvas was found.
    size: tuple[int | None, int | None] | None = None

    def record(self) -> dict[str, Any]:
        """Return the counterexample as plain data."""
        worked, right = ([decode(row) for row in canvas] for canvas in (self.canvas, self.truth))
        found: dict[str, Any] = {"problem": self.problem, "smallest": self.smallest}
        found |= {"blank_columns": [self.left, self.right], "canvas_size": self.size}
        return found | {"worked": worked, "right": right}


class BySolving:
    """Scorer of any model: the score is the confidence of a solution, 0 if incorrect."""

    def __init__(self, solver: Solver):
        self.solver, self.task = solver, solver.task
        self.most_operands = solver.predictor.most_operands

    def score(self, problems: Problems) -> np.ndarray:
        found = self.solver.solve(problems, with_truth=True)
        return np.array([one.confidence if one.exact else 0.0 for one in found])

    def solve(self, problem: Problems) -> Counterexample | None:
        (one,) = self.solver.solve(problem, with_truth=True)
        if one.exact or one.truth is None:
            return None
        found = Counterexample(one.problem, one.operands, one.canvas, one.truth, one.given)
        return _placed(found, self.solver.draw(problem))


class ByOpInputs:
    """Scorer of a model whose op inputs have been compared with the rule.

    A problem's score is the smallest number of parts in which one of its op inputs differs from an
    incorrect one. If no op input is incorrect, the score is the problem's smallest margin.
    """

    def __init__(self, model: CellModel, rule: LocalRule, task: Task, comparison: Comparison):
        self.model, self.rule, self.task, self.comparison = model, rule, task, comparison
        self.most_operands = rule.most_operands
        wrong = comparison.wrong
        some = np.random.default_rng(0).permutation(len(wrong))[:_TARGETS]
        self.targets = _parts(rule, wrong[some]) if len(wrong) else None

    def score(self, problems: Problems) -> np.ndarray:
        found = np.full(len(problems), np.inf)
        for index, drawing in drawings(self.task, problems):
            seen = drawn_cell_inputs(self.rule, drawing)
            number, cell_input = self.rule.op_input_ids(seen.cell_inputs, seen.outputs)
            names = self.task.names(problems[index])
            at = places(self.comparison.numbers, number, seen, cell_input, names, self.rule)
            if self.targets is None:
                score = self.comparison.margin[at].astype(float)
            else:
                parts = _parts(self.rule, number)
                score = np.full(len(number), np.inf)
                for target in self.targets:
                    np.minimum(score, (parts != target).sum(axis=1), out=score)
                score[~self.comparison.right[at]] = 0
            np.minimum.at(found, index[seen.canvas[cell_input]], score)
        return found

    @standard_settings(threads=1)
    def solve(self, problem: Problems) -> Counterexample | None:
        for _, drawing in drawings(self.task, problem):
            canvas = run_wavefront(self.model, torch.from_numpy(drawing.masked)).tokens.numpy()
            if (canvas != drawing.truth).any():
                found = Counterexample(
                    self.task.names(problem)[0],
                    problem.to_ints()[0],
                    canvas[0].astype(np.uint8),
                    drawing.truth[0],
                    drawing.given[0],
                )
                return _placed(found, drawing)
        return None


def shown_on(found: Counterexample, solver: Solver) -> Counterexample:
    """Add the size of a canvas on which the solver shows the error, the usual one if possible.

    If the error needs blank columns beside the solution, `Counterexample.canvas` is replaced, too.
    """
    problem = solver.task.problems([found.operands])
    rows, columns = (int(side[0]) for side in solver.task.canvas_layout.sizes(problem))
    usual = solver.canvas.size(rows, columns)
    sizes: list[tuple[int | None, int | None]] = [(None, None)]
    for more in (found.left + found.right, 0, 1, 2):
        sizes += [(None, columns + more)] * (not solver.canvas.cut)
        sizes += [(rows, columns + more), (max(rows, usual[0]), columns + more)]
    for size in dict.fromkeys(sizes):
        both = size[0] or solver.canvas.height, size[1] or solver.canvas.width
        canvas = replace(solver.canvas, height=both[0], width=both[1])
        one = replace(solver, canvas=canvas)
        if any(one.misfits(problem)):
            continue
        (shown,) = one.solve(problem, with_truth=True)
        if shown.exact or shown.truth is None:
            continue
        found = found._replace(size=size)
        if not found.left + found.right:
            return found
        found = found._replace(canvas=shown.canvas, truth=shown.truth, given=shown.given)
        return _placed(found, one.draw(problem))
    return found


def _placed(found: Counterexample, drawing: Drawing) -> Counterexample:
    """Add the numbers of blank columns beside the solution."""
    left, width = int(drawing.left[0]), int(drawing.widths[0])
    return found._replace(left=left, right=drawing.canvases.shape[2] - left - width)


# `score` returns a float [B] for B problems: 0 or less if the model may fail on one. `solve` runs
# the model on one of them and returns None if every cell is correct.
Scorer = BySolving | ByOpInputs


def drawings(task: Task, problems: Problems) -> Iterator[tuple[np.ndarray, WorkedDrawing]]:
    """Yield problems size by size, int64 indices and their canvases, with and without margins."""
    different, which = np.unique(task.canvas_layout.sizes(problems).T, axis=0, return_inverse=True)
    for number, (height, width) in enumerate(different.tolist()):
        index = np.flatnonzero(which.reshape(-1) == number)
        for left, right in _MARGINS:
            size = height, left + width + right
            yield index, task.canvas_layout.draw_worked(problems[index], *size, 0, left)


def _parts(rule: LocalRule, numbers: np.ndarray) -> np.ndarray:
    """Return the parts of op inputs, int64 [N, 2 * inputs]: the op, repeated, then each input."""
    directions = rule.encoding.directions.items()
    names = [
        TOKEN,
        *(input_name(direction, name) for direction, of in directions for name in ("", *of)),
    ]
    found = np.full((len(numbers), 2 * len(names)), -1)
    for number, (_, here, seen) in enumerate(rule.encoding.decode(numbers)):
        found[here, : len(names)] = number
        for name, part in seen.items():
            found[here, len(names) + names.index(name)] = part
    return found


def smallest_wrong(scorer: Scorer) -> tuple[Counterexample | None, int]:
    """Return the smallest incorrect problem, if any, and the number of problems tried."""
    looked = 0
    for operands in small_problems(scorer.task, scorer.most_operands):
        problems = _known(scorer.task, operands)
        report("small problems", looked, looked + len(problems))
        for i in np.flatnonzero(scorer.score(problems) <= 0):
            if found := scorer.solve(problems[i : i + 1]):
                return found._replace(smallest=True), looked + int(i) + 1
        looked += len(problems)
    return None, looked


def small_problems(task: Task, most_operands: int | None = None) -> Iterator[list[tuple[int, ...]]]:
    """Yield all problems by total digits, then by largest operand, at most `_AT_ONCE` at once.

    Args:
        task: of the problems.
        most_operands: a limit; None: as many as the task takes.
    """
    fewest, most = task.arity
    most = min(most, most_operands or most)
    digits, base = fewest, task.base
    while True:
        found: list[tuple[int, ...]] = []
        for count in range(fewest, min(most, fewest + 1) + 1):
            for lengths in product(range(1, digits + 1), repeat=count):
                if sum(lengths) == digits:
                    least = (base ** (n - 1) if n > 1 else task.smallest for n in lengths)
                    found += product(*map(range, least, (base**n for n in lengths)))
            if len(found) > _SMALL:
                return
        found.sort(key=lambda operands: (max(operands), operands))
        yield from (found[i : i + _AT_ONCE] for i in range(0, len(found), _AT_ONCE))
        digits += 1


def hunt(scorer: Scorer, most: int) -> Counterexample | None:
    """Try so many structured problems, and mutations of those with the lowest scores."""
    task, random = scorer.task, np.random.default_rng(0)
    nearest: list[tuple[float, tuple[int, ...]]] = []
    known: set[tuple[int, ...]] = set()
    looked = 0
    lengths = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # of operands; some problems of each family and length
    structured = (
        family_problems(task, family, digits, 20, seed=digits).to_ints()
        for digits, family in product(lengths, FAMILIES)
    )
    if isinstance(task, TextTask) or task.arity[0] > 2:  # without families: drawn, of training
        every = range(0, most, _AT_ONCE)
        structured = (
            sample(task, 0, "train", 0, np.arange(first, first + _AT_ONCE)).to_ints()
            for first in every
        )
    while looked < most:
        batch = next(structured, None) if looked < most / 2 or not nearest else None
        if batch is None:
            parents = [one for _, one in nearest]
            batch = [_mutated(task, parents, random) for _ in range(_AT_ONCE)]
        batch = [one for one in dict.fromkeys(batch) if one not in known]
        known.update(batch)
        looked += max(1, len(batch))
        problems = _known(task, batch)
        batch = problems.to_ints()
        if not batch:
            continue
        scores = scorer.score(problems)
        for i in np.flatnonzero(scores <= 0):
            if found := scorer.solve(problems[i : i + 1]):
                return shrunk(scorer, found)
        nearest = sorted({*nearest, *zip(scores.tolist(), batch, strict=True)})[:_KEPT]
        report("structured problems, and what is near to going wrong", min(looked, most), most)
    return None


def _mutated(
    task: Task, parents: list[tuple[int, ...]], random: np.random.Generator
) -> tuple[int, ...]:
    """Change, add or leave out one to three digits of a random parent."""
    operands = [list(_digits(n, task.base)) for n in parents[random.integers(len(parents))]]
    for _ in range(random.integers(1, 4)):
        digits = operands[random.integers(len(operands))]
        place, what = random.integers(len(digits)), random.integers(4)
        if what == 0 and len(digits) < _LONGEST:
            digits.insert(place, int(random.integers(task.base)))
        elif what == 1 and len(digits) > 1:
            del digits[place]
        else:
            digits[place] = int(random.integers(task.base))
    return tuple(max(task.smallest, _number(digits, task.base)) for digits in operands)


def shrunk(scorer: Scorer, found: Counterexample) -> Counterexample:
    """Leave out digits, or lower them, one by one, while the problem stays incorrect."""
    task = scorer.task
    while True:
        smaller: set[tuple[int, ...]] = set()
        for k, number in enumerate(found.operands):
            digits = list(_digits(number, task.base))
            for place, digit in enumerate(digits):
                rest = digits[:place], digits[place + 1 :]
                for middle in ([], *([d] for d in range(digit))):
                    value = max(task.smallest, _number([*rest[0], *middle, *rest[1]], task.base))
                    smaller.add((*found.operands[:k], value, *found.operands[k + 1 :]))
        ordered = sorted(smaller - {found.operands}, key=lambda operands: (max(operands), operands))
        problems = _known(task, ordered)
        better = None
        for i in np.flatnonzero(scorer.score(problems) <= 0) if len(problems) else ():
            if better := scorer.solve(problems[i : i + 1]):
                break
        if better is None:
            return found
        found = better


def _known(task: Task, operands: list[tuple[int, ...]]) -> Problems:
    """Return those problems that the task accepts, as tasks have limits of their own."""
    problems = Problems.from_ints(operands, task.base)
    refused = task.refused(problems) if operands else []
    return problems[np.array([i for i, why in enumerate(refused) if why is None], dtype=np.int64)]


def _digits(number: int, base: int) -> Iterator[int]:
    """Yield the digits of a number, the lowest first."""
    yield number % base
    while number := number // base:
        yield number % base


def _number(digits: list[int], base: int) -> int:
    return sum(digit * base**place for place, digit in enumerate(digits))
