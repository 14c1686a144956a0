"""Which digits, factors and carries meet in a cell, and which of these meetings a model gets wrong.

A model that works on a row cell by cell computes a table: from what meets in a cell to the digit
that is written there. Random problems rarely show the corners of that table, and one corner that
was never learned fails every long number in which it comes. Here every entry that problems of the
training range can show is shown, one row at a time from the true rows above it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from canvas.problems import Problems, Split
from canvas.sampling import sample
from canvas.symbols import BLANK
from canvas.task import Task
from trm.evaluation.errors import columns_of
from trm.solving.rollout import teacher_forced
from trm.solving.solver import Solver

ENDS = ("first", "inner", "last")  # digit of a row, from the right; a row's only one is its first
# What meets in a cell: the digit of the row's last addend, the factor of that (1 in a mere sum),
# what the other addends bring to the column, the carry, the cell's end of the row, and whether
# there are other addends at all. In a row of a lattice these are the digit of a, the multiplier
# digit, the digit handed down and the carry.
FIELDS = ("digit", "factor", "others", "carry", "end", "sum")
_SIZES = (10, 10, 2**16, 2**16, len(ENDS), 2)
_PART = 5_000  # problems that are looked through at once
_AT_ONCE = 256  # that are solved


@dataclass(frozen=True)
class ContextCoverage:
    """Every context that problems of a split showed, and how a model did in it."""

    contexts: np.ndarray  # int64 [C, 6], by `FIELDS`, ends by their index in `ENDS`
    trained: np.ndarray  # int64 [C], how often each was among the digits of problems of training
    shown: np.ndarray  # int64 [C], cells that the model filled in,
    right: np.ndarray  # int64 [C], and filled in right
    confidence: np.ndarray  # float64 [C], the mean probability that it gave to what it wrote
    searched: int  # problems of each split that were looked through
    digits: int  # of the rows of those of the training split, all together
    problems: int  # those of the test split that the model was shown

    def failing(self) -> np.ndarray:
        """The contexts that were wrong at least once, the most often wrong first: ``int64 [F]``."""
        wrong = np.flatnonzero(self.right < self.shown)
        return wrong[np.lexsort((self.trained[wrong], (self.right / self.shown)[wrong]))]

    def to_json(self) -> dict[str, Any]:
        """Plain data; a line for each context."""
        counts = np.column_stack([self.contexts, self.trained, self.shown, self.right]).tolist()
        sure = self.confidence.round(4).tolist()
        return {
            "searched": self.searched,
            "training_digits": self.digits,
            "problems": self.problems,
            "columns": [*FIELDS, "trained", "shown", "right", "confidence"],
            "contexts": [
                [*line[:4], ENDS[line[4]], bool(line[5]), *line[6:], confidence]
                for line, confidence in zip(counts, sure, strict=True)
            ],
        }


class Digits(NamedTuple):
    """Every digit of every row of some problems that is worked out, D in all."""

    contexts: np.ndarray  # int64 [D, 6], what meets there, by `FIELDS`
    problem: np.ndarray  # int64 [D], which of the problems it is of
    row: np.ndarray  # int64 [D], which row of all problems together
    place: np.ndarray  # int64 [D], from the row's right end

    @property
    def codes(self) -> np.ndarray:
        """Each context as one number, ``int64 [D]``."""
        return np.ravel_multi_index(tuple(self.contexts.T), _SIZES)


def digits_of(task: Task, problems: Problems) -> Digits:
    """What meets in every digit of every row that has to be worked out.

    ValueError: the task's layout does not say what its rows are sums of.
    """
    columns = columns_of(task, problems)
    if columns is None:
        raise ValueError(
            f"the layout {task.layout} does not say what its rows are sums of: it has no "
            "addends(), see canvas.layouts.Layout"
        )
    there = np.arange(columns.carry.shape[1]) < columns.lengths[:, None]
    there &= columns.addends[:, None] > 0  # a row of carries is no sum
    row, place = np.nonzero(there)
    digit, factor = columns.last[row, place], columns.factor[row]
    others = columns.sums[row, place] - digit * factor
    end = np.where(place == 0, 0, np.where(place == columns.lengths[row] - 1, 2, 1))
    parts = (digit, factor, others, columns.carry[row, place], end, columns.addends[row] > 1)
    return Digits(np.column_stack(parts).astype(np.int64), columns.problem[row], row, place)


def cover_contexts(
    solver: Solver,
    searched: int,
    times: int,
    seed: int = 0,
    done: Callable[[int], None] = lambda _: None,
) -> ContextCoverage:
    """Show a model every context that held-out problems of its training range have.

    So many problems of the test split are searched for what can be shown, and of the training split
    for what was met there. A context is shown so many times at least, where there are as many
    problems with it; ``done`` is told of problems when they have been looked through. ValueError:
    see `digits_of`.
    """
    task = solver.task

    def parts(split: Split) -> Iterator[tuple[Problems, Digits]]:
        for start in range(0, searched, _PART):
            index = np.arange(start, min(start + _PART, searched))
            problems = sample(task, seed, split, 0, index)
            yield problems, digits_of(task, problems)
            done(len(problems))

    met: Counter[int] = Counter()
    for _, digits in parts("train"):
        met.update(digits.codes.tolist())
    seen: Counter[int] = Counter()
    judged, problems_shown = [], 0
    for problems, digits in parts("test"):
        # One after the other, so that two problems are not taken for the same context.
        wanted, ends = [], np.flatnonzero(np.diff(digits.problem)) + 1
        for i, mine in enumerate(np.split(digits.codes, ends)):
            if any(seen[code] < times for code in mine.tolist()):
                wanted.append(digits.problem[[0, *ends][i]])
                seen.update(mine.tolist())
        problems_shown += len(wanted)
        chosen = problems[np.array(wanted, dtype=np.int64)]
        # Those whose operands are of the same lengths, as many at once as are quick to solve.
        _, which = np.unique(chosen.lengths, axis=0, return_inverse=True)
        for kind in np.unique(which):
            index = np.flatnonzero(which.reshape(-1) == kind)
            for some in np.split(index, range(_AT_ONCE, len(index), _AT_ONCE)):
                judged.append(_judged(solver, chosen[some]))
    all_codes, right, sure = (np.concatenate(part) for part in zip(*judged, strict=True))
    found, which, shown = np.unique(all_codes, return_inverse=True, return_counts=True)
    return ContextCoverage(
        np.column_stack(np.unravel_index(found, _SIZES)),
        np.array([met[code] for code in found.tolist()]),
        shown,
        np.bincount(which, right).astype(np.int64),
        np.bincount(which, sure) / shown,
        searched,
        met.total(),
        problems_shown,
    )


def _judged(solver: Solver, problems: Problems) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every digit its code ``int64 [D]``, whether a model wrote it, and how sure it was."""
    digits, drawing = digits_of(solver.task, problems), solver.draw_worked(problems)
    predictor = solver.predictor
    forced = teacher_forced(lambda inputs: predictor(inputs, log_probs=True), drawing)
    steps, filled = forced.steps, forced.filled
    assert filled.log_probs is not None
    row = digits.row
    line = (drawing.row_of_step(0)[steps.problem] + steps.step)[row]
    written = steps.answer[row, line] & (steps.labels[row, line] != BLANK)  # [D, W]
    column = written.shape[1] - 1 - written[:, ::-1].argmax(axis=1) - digits.place
    true, found = (of[row, line, column] for of in (steps.labels, filled.canvases))
    return digits.codes, true == found, np.exp(filled.log_probs[row, line, column].max(axis=1))
