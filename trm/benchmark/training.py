"""Problems to train on, of the training and validation splits, in which no suite has any."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from canvas.addition import Addition
from canvas.problems import Problems, Split
from canvas.sampling import sample
from canvas.task import Task
from trm.benchmark.suites import Item, Suite, make_canvases, make_numbers
from trm.evaluation.grid_schema import FAMILY, Key

_TRIES = 40  # draws for each problem that is wanted: few short ones differ
_SHARE = 10  # one problem of validation for so many of training


@dataclass(frozen=True)
class Training:
    """What to draw to train on.

    Attributes:
        problems: how many.
        digits: fewest and most of an operand.
        addends: fewest and most of a sum.
        seed: which ones.
    """

    problems: int
    digits: tuple[int, int] = (1, 4)
    addends: tuple[int, int] = (2, 3)
    seed: int = 0

    def __str__(self) -> str:
        digits, addends = ("{} to {}".format(*ends) for ends in (self.digits, self.addends))
        return f"numbers of {digits} digits, in sums {addends} of them, seed {self.seed}"


def training_items(suite: Suite, training: Training, split: Split) -> Iterator[Item]:
    """Problems of a suite's kind, different from each other, of another split than the suite's.

    Lengths are drawn evenly, digits at random. Of canvases every row of the suite has equally many.

    Args:
        suite: whose kind of problems these are.
        training: what to draw.
        split: train; or validation, which has a tenth as many.
    """
    count = training.problems if split == "train" else max(1, training.problems // _SHARE)
    if not suite.whole:
        task = _within(suite.task, training)
        problems = _drawn(task, split, count, training.seed)
        cells = list(_cells(suite, task, problems))
        yield from make_numbers(task, _names(split, 0, len(cells)), problems, cells)
        return
    number = 0
    for k, (row, (usual, view)) in enumerate(suite.canvases.items()):
        task = _within(usual, training)
        wanted = count // len(suite.canvases) + (k < count % len(suite.canvases))
        if not wanted:
            break
        problems = _drawn(task, split, wanted, training.seed + k)
        cells = [(row, column) for _, column in _cells(suite, task, problems)]
        names = _names(split, number, len(cells))
        yield from make_canvases(task, names, problems, cells, view)
        number += len(cells)


def _names(split: Split, first: int, count: int) -> list[str]:
    return [f"{split}/{first + i:07d}" for i in range(count)]


def _within(task: Task, training: Training) -> Task:
    """The task with the sizes that are trained on."""
    if isinstance(task, Addition):
        return replace(task, digits=training.digits, addends=training.addends)
    return replace(task, digits_a=training.digits, digits_b=training.digits)  # type: ignore


def _drawn(task: Task, split: Split, count: int, seed: int) -> Problems:
    """Different problems, in the order of drawing; fewer where there are not as many."""
    found: dict[tuple[int, ...], None] = {}
    start, step = 0, max(1, count)
    while len(found) < count and start < _TRIES * count:
        drawn = sample(task, seed, split, 0, np.arange(start, start + step))
        found |= dict.fromkeys(drawn.to_ints())
        start += step
    return Problems.from_ints(list(found)[:count], task.base)


def _cells(suite: Suite, task: Task, problems: Problems) -> Iterator[Key]:
    """The cell of each problem, as the suite's axes have it; ``random`` is its family."""
    sizes = {name: numbers.tolist() for name, numbers in task.measures(problems).items()}
    longest = problems.lengths.max(axis=1).tolist()
    for i in range(len(problems)):
        if suite.axes[0] == FAMILY:
            yield "random", longest[i]
        else:
            yield sizes[suite.axes[0]][i], sizes[suite.axes[1]][i]
