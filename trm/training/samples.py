"""Training samples and validation problems, drawn as whole batches.

A training sample is one row step of one problem, or, for a sequence model, the whole problem.
Which problem, which of its rows, where on the canvas, which blank rows and columns and which
augmentation are functions of (seed, split, epoch, index) alone: the same for any number of workers
or devices, and after any resume. A canvas that is cut to its batch is the one exception: how large
it is, and so where a problem lies on it, depends on the rest of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from augment.transforms import SampleTransform
from canvas.canvas_size import Blanks, Canvas, Insertion
from canvas.cell_inputs import NEIGHBOURS, SYMBOL, TOKEN, LocalRule
from canvas.choices import check_choice
from canvas.pages import page_cell_inputs
from canvas.problems import Problems, Split, keys, random_below, random_words
from canvas.render import WorkedDrawing, row_steps, sequences
from canvas.sampling import sample
from canvas.symbols import BLANK, MASK
from canvas.task import Task

TrainingBatch = dict[str, Any]

# Purposes of random keys; 0 draws the problem.
_STEP, _PLACE, _TRANSFORM, _MARGIN, _MODEL, _BLANKS = range(1, 7)
SHIFTS_ALONE = (
    "data.transforms turn or reflect canvases, but a GPT writes from the lowest digit up, row "
    "below row: take augment.transforms.CanvasShift alone"
)
_FIXED = {"layout", "base"}  # settings of a task that stay the same in all stages of a curriculum


@dataclass
class Stage:
    """Some of a task's problems, for the first epochs of a run or those after the last stage."""

    until: int  # epochs of the run after which the stage is over
    task: dict[str, Any]  # settings that differ until then, like ``{digits_a: [1, 2]}``


class Curriculum:
    """The tasks that training problems are drawn from, by epochs (Bengio et al. 2009).

    After the last stage it is the whole task. ValueError: stages do not follow one another, draw
    problems that are not the task's, or none of the training split.
    """

    def __init__(self, task: Task, stages: Sequence[Stage] = ()) -> None:
        ends = [stage.until for stage in stages]
        if [0, *ends] != sorted({0, *ends}):
            raise ValueError(
                "data.curriculum: stages are listed in order, each with an `until` of more epochs "
                f"than the one before, from 1 up, not {', '.join(map(str, ends))}"
            )
        self.task = task
        self.stages = []
        for stage in stages:
            try:
                self.stages.append((stage.until, _narrowed(task, stage.task)))
            except (TypeError, ValueError) as error:
                raise ValueError(f"data.curriculum, until epoch {stage.until}: {error}") from None

    def at(self, epoch: int) -> Task:
        """What the problems of an epoch, from 0, are drawn from."""
        return next((task for until, task in self.stages if epoch < until), self.task)


def _narrowed(task: Task, settings: dict[str, Any]) -> Task:
    names = {part.name for part in fields(task)} - _FIXED  # type: ignore[arg-type]
    for name in settings:
        check_choice("a setting", name, sorted(names))
    found: Task = replace(task, **settings)  # type: ignore[type-var]
    for measure, (low, high) in found.ranges.items():
        least, most = task.ranges[measure]
        if low < least or high > most:
            raise ValueError(
                f"{measure} [{low}, {high}] is not within the task's own, [{least}, {most}]: a "
                "curriculum chooses among the task's problems"
            )
    sample(found, 0, "train", 0, np.arange(1))
    return found


@dataclass(eq=False)
class Samples(Dataset):
    """An index is epoch · size + i."""

    task: Task
    canvas: Canvas
    split: Split
    seed: int
    size: int  # of an epoch, over all devices
    batch_size: int  # the same

    def __len__(self) -> int:
        return self.size

    def _keys(self, epoch: int, index: np.ndarray, purpose: int) -> np.ndarray:
        return keys(self.seed, self.split, epoch, index, purpose)

    def _draw(
        self, problems: Problems, sizes: np.ndarray, canvas: tuple[int, int], words: np.ndarray
    ) -> WorkedDrawing:
        """Problems of these sizes ``[2, B]`` on a canvas, at places drawn from words ``[B, 2]``.

        What is placed is as large as the operands' lengths alone call for: the position of the
        operands must not tell how long their product is.
        """
        free = np.array(canvas) - sizes.T
        assert (free >= 0).all(), "the canvas was checked against the task, or cut to fit"
        top, left = random_below(words, free + 1).T
        return self.task.layout_impl.draw_worked(problems, *canvas, top=top, left=left)


@dataclass(eq=False)
class TrainingSamples(Samples):
    """What models of all families train on: the same problems at the same places."""

    transform: SampleTransform | None = None
    curriculum: Curriculum | None = None
    blanks: Blanks = field(default_factory=Blanks)

    def _drawing(
        self, indices: Sequence[int]
    ) -> tuple[Problems, WorkedDrawing, Insertion, int, np.ndarray]:
        """Problems drawn without the blank lines that are then to be inserted."""
        epoch, index = indices[0] // self.size, np.asarray(indices) % self.size
        task = self.curriculum.at(epoch) if self.curriculum else self.task
        problems = sample(task, self.seed, self.split, epoch, index)
        sizes = self.task.layout_impl.sizes(problems)
        rows, columns = sizes.max(axis=1).tolist()
        # The margin and the number of blank lines belong to the batch, wherever it is drawn.
        spare = self._of_batch(epoch, index, _MARGIN, (self.canvas.margin,) * 2)
        more = self._of_batch(epoch, index, _BLANKS, (self.blanks.rows, self.blanks.columns))
        height, width = self.canvas.size(rows + more[0], columns + more[1], spare)
        more = min(more[0], height - rows), min(more[1], width - columns)
        where = random_words(self._keys(epoch, index, _PLACE), 2 + sum(more))
        drawing = self._draw(problems, sizes, (height - more[0], width - more[1]), where[:, :2])
        return problems, drawing, Insertion.draw(drawing, more, where[:, 2:]), epoch, index

    def _of_batch(
        self, epoch: int, index: np.ndarray, purpose: int, most: tuple[int, int]
    ) -> tuple[int, int]:
        """Two numbers from 0 to the most, the same in the whole batch."""
        words = random_words(self._keys(epoch, index[:1] // self.batch_size, purpose), 2)
        first, second = random_below(words, np.array(most) + 1)[0].tolist()
        return first, second

    def _transformed(
        self,
        inputs: np.ndarray,
        labels: np.ndarray,
        answer: np.ndarray,
        epoch: int,
        index: np.ndarray,
    ) -> list[np.ndarray]:
        """Return the three arrays ``[B, H, W]`` after each sample's own transform, if there is one.

        `CanvasShift` keeps what is not blank in ``labels`` on the canvas.
        """
        arrays = [inputs, labels, answer]
        if self.transform is None:
            return arrays
        seeds = self._keys(epoch, index, _TRANSFORM) >> np.uint64(33)
        moved = [
            self.transform(given, label, asked, int(seed))
            for given, label, asked, seed in zip(*arrays, seeds, strict=True)
        ]
        return [np.stack(part) for part in zip(*moved, strict=True)]


class RowStepSamples(TrainingSamples):
    """Batches of row steps: ``inputs``, ``labels`` uint8 and ``answer`` bool, [B, H, W] each.

    And ``seeds`` int64 [B], of what the model draws.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        _, drawing, inserted, epoch, index = self._drawing(indices)
        word = random_words(self._keys(epoch, index, _STEP), 1)[:, 0]
        steps = row_steps(drawing, random_below(word, drawing.steps))
        inputs, labels = inserted(steps.inputs, BLANK), inserted(steps.labels, BLANK)
        answer = inserted(steps.answer, False)
        # In the row to fill in, new cells are masked, too.
        masked = inserted.blank & answer.any(axis=2, keepdims=True)
        inputs[masked], answer[masked] = MASK, True
        arrays = self._transformed(inputs, labels, answer, epoch, index)
        batch = dict(zip(("inputs", "labels", "answer"), arrays, strict=False))
        batch["seeds"] = self._keys(epoch, index, _MODEL).view(np.int64)
        return {name: torch.from_numpy(array) for name, array in batch.items()}


class SequenceSamples(TrainingSamples):
    """Batches of whole problems as `canvas.render.sequences`: ``ids`` and ``labels``, int64 [B, S].

    ``height`` and ``width`` are those of the canvas. A sequence is written in one direction only:
    transforms may shift a canvas, and a ValueError is raised if one turns or reflects it.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        _, drawing, inserted, epoch, index = self._drawing(indices)
        truth, given = inserted(drawing.truth, BLANK), inserted(drawing.given, False)
        # That a row is left blank follows from nothing before it.
        given |= (inserted.rows < 0)[:, :, None]
        first = inserted.row(drawing.row_of_step(0))
        if self.transform is not None:
            # All of a solution's space stays on the canvas, as in votes: where the operands are
            # must not tell how long the answer is.
            space = np.where(inserted(drawing.space, False), MASK, BLANK).astype(np.uint8)
            before = _corner(space)
            unmoved = truth
            truth, space, given = self._transformed(truth, space, given, epoch, index)
            shifts = _corner(space) - before
            for cells, shift, result in zip(unmoved, shifts, truth, strict=True):
                if (np.roll(cells, shift, (0, 1)) != result).any():
                    raise ValueError(SHIFTS_ALONE)
            first = first + shifts[:, 0]
        top = first - drawing.first_step
        ids, labels = sequences(replace(drawing, truth=truth, given=given, top=top))
        batch = {"ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}
        return batch | dict(zip(("height", "width"), truth.shape[1:], strict=True))


def _corner(space: np.ndarray) -> np.ndarray:
    """First row and first column that are not blank on each canvas: ``int64 [B, 2]``."""
    shown = space != BLANK
    return np.stack([shown.any(axis=2).argmax(axis=1), shown.any(axis=1).argmax(axis=1)], axis=1)


class CellInputSamples(TrainingSamples):
    """Batches of whole pages, of which every different op input is a sample, see `op_input_batch`.

    Of half the pages the first rows, as many as is drawn, are shown as they are written; all else
    is to be filled in. Three op inputs in five come more than once in a batch, those of blank cells
    most often: each counts once, so that rare ones are not drowned, at half the cost.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        _, drawing, _, epoch, index = self._drawing(indices)
        words = random_words(self._keys(epoch, index, _STEP), 2)
        known = random_below(words[:, 0], drawing.steps) * random_below(words[:, 1], 2)
        return self.batch(self.task.local_rule(), drawing, known)

    @staticmethod
    def batch(
        rule: LocalRule, drawing: WorkedDrawing, known: np.ndarray | None = None
    ) -> TrainingBatch:
        """What is seen on pages; of each the first rows may be known, as many as ``known`` says."""
        found = page_cell_inputs(rule, drawing, known)
        return op_input_batch(rule, np.unique(rule.seen(found.cell_inputs, found.outputs)[0]))


class PageSamples(TrainingSamples):
    """Batches of whole pages for networks that are not told all that their cells hand on.

    Of N cells, each after those that it depends on: ``tokens`` int64 [N]; ``labels`` int64 [N, 1 +
    fields], the symbol, −1 where it is given, then each field; ``sources``, which cells are its
    neighbours, −1 for none, int64 [N, ways]; ``places``, its row on the page and its column from
    the right, int64 [N, 2]; and ``pages``, which page it is of, int64 [N].
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        return self.batch(self.task.local_rule(latent=True), self._drawing(indices)[1])

    @staticmethod
    def batch(rule: LocalRule, drawing: WorkedDrawing) -> TrainingBatch:
        """Worked pages as tensors."""
        found = page_cell_inputs(rule, drawing)
        B, H, W = drawing.truth.shape
        cells = np.full((B, H + 1, W + 2), -1)
        at = found.page, found.row + 1, found.column + 1
        cells[at] = np.arange(len(found.page))
        directions = [NEIGHBOURS[direction] for direction, names in rule.messages.items() if names]
        sources = [cells[at[0], at[1] + down, at[2] + right] for down, right in directions]
        symbols = np.where(found.cell_inputs[TOKEN] == MASK, found.outputs[SYMBOL], -1)
        places = found.row - drawing.top[found.page], W - 1 - found.column
        batch = {
            "tokens": found.cell_inputs[TOKEN],
            "labels": np.stack([symbols, *(found.outputs[name] for name in rule.signals)], axis=1),
            "sources": np.stack(sources, axis=1),
            "places": np.stack(places, axis=1),
            "pages": found.page,
        }
        return {name: torch.from_numpy(array) for name, array in batch.items()}


def op_input_batch(rule: LocalRule, numbers: np.ndarray) -> TrainingBatch:
    """N op inputs as tensors, and what follows from them.

    ``numbers`` themselves; ``labels`` int64 [N, 1 + fields], the symbol, then each field; −1 where
    the head does not say it.
    """
    labels = rule.answers(numbers)
    batch = {
        "numbers": numbers,
        "labels": np.stack([labels[name] for name in (SYMBOL, *rule.signals)], axis=1),
    }
    return {name: torch.from_numpy(array) for name, array in batch.items()}


@dataclass(eq=False)
class SolvedProblems(Samples):
    """Batches of whole problems for validation: the operands and their drawings.

    With ``lengths``, problems of so many digits in each operand, instead of those of training.
    """

    lengths: tuple[int, ...] | None = None

    def __getitems__(self, indices: Sequence[int]) -> tuple[Problems, WorkedDrawing]:
        # Lightning counts epochs here, too; the same problems each time make scores comparable,
        # and a canvas that all of them fit on makes them independent of the batch size.
        index = np.asarray(indices) % self.size
        problems = sample(self.task, self.seed, self.split, 0, index, self.lengths)
        words = random_words(self._keys(0, index, _PLACE), 2)
        longest = self.lengths or self.task.longest
        size = self.canvas.size(*self.task.layout_impl.room(longest, self.task.base))
        return problems, self._draw(problems, self.task.layout_impl.sizes(problems), size, words)
