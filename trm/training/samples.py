"""Training samples and validation problems, made as whole batches.

A training sample is one row step of one problem, or, for a sequence model, the whole problem. Its
problem, row, place on the canvas, blank rows and columns, and augmentation are functions of
(seed, split, epoch, index) alone: the same for any number of workers or devices, and after any
resume. The one exception is a canvas cut to its batch: its size, and so a problem's place on it,
depends on the rest of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from augment.transforms import SampleTransform
from canvas.canvas_size import Blanks, Canvas, Insertion
from canvas.drawing import UNDEFINED, RowSteps, WorkedDrawing, row_steps
from canvas.problems import Problems, Split, keys, random_below, random_words
from canvas.sampling import sample
from canvas.sequences import IGNORE, at_writers, sequences
from canvas.symbols import BLANK, MASK
from canvas.task import Task
from trm.families import moved
from trm.training.auxiliary import draw_classes
from trm.training.configs import AuxiliaryConfig
from trm.training.mixture import Mixture
from trm.training.random_bits import Purpose

TrainingBatch = dict[str, Any]
SHOWN = 8  # samples of a batch to look at

SHIFTS_ALONE = (
    "data.transforms turn or reflect canvases, but a GPT writes from the lowest digit up, row "
    "below row: use only augment.transforms.CanvasShift"
)


@dataclass(eq=False)
class Samples(Dataset):
    """Base of data sets; an index is epoch · size + i."""

    task: Task
    canvas: Canvas
    split: Split
    seed: int
    size: int  # of an epoch, over all devices
    batch_size: int  # over all devices

    def __len__(self) -> int:
        return self.size

    def keys_of(self, epoch: int, index: np.ndarray, purpose: int) -> np.ndarray:
        """Return a key of random numbers for each sample, as `canvas.problems.keys` does."""
        return keys(self.seed, self.split, epoch, index, purpose)

    def words(self, epoch: int, index: np.ndarray, purpose: int, n: int) -> np.ndarray:
        """Return n random words for each sample, uint64 [B, n]; other purposes have others."""
        return random_words(self.keys_of(epoch, index, purpose), n)

    def _draw(
        self, problems: Problems, sizes: np.ndarray, canvas: tuple[int, int], words: np.ndarray
    ) -> WorkedDrawing:
        """Draw problems on a canvas, at random places.

        Sizes follow from the operands' lengths alone: the position of the operands must not reveal
        the length of their product.

        Args:
            problems: B problems.
            sizes: rows and columns of each, int64 [2, B].
            canvas: height and width.
            words: random words that choose the places, [B, 2].
        """
        free = np.array(canvas) - sizes.T
        assert (free >= 0).all(), "the canvas was checked against the task, or cut to fit"
        top, left = random_below(words, free + 1).T
        return self.task.canvas_layout.draw_worked(problems, *canvas, top=top, left=left)


@dataclass(eq=False)
class TrainingSamples(Samples):
    """Training samples of any family: the same problems at the same places."""

    transform: SampleTransform | None = None
    mixture: Mixture = field(default_factory=Mixture)  # of their problems
    epochs: int | None = None  # of the whole run
    blanks: Blanks = field(default_factory=Blanks)
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)

    def draw_batch(
        self, indices: Sequence[int]
    ) -> tuple[Problems, WorkedDrawing, Insertion, int, np.ndarray]:
        """Draw problems; return them with the blank rows and columns to insert afterwards."""
        epoch, index = indices[0] // self.size, np.asarray(indices) % self.size
        of = self.seed, self.split, epoch, index
        problems = self.mixture.sample(self.task, *of, self.epochs)
        sizes = self.task.canvas_layout.sizes(problems)
        rows, columns = sizes.max(axis=1).tolist()
        # The margin and the number of blank lines are the same in the whole batch.
        spare = self._of_batch(epoch, index, Purpose.MARGIN, (self.canvas.margin,) * 2)
        more = self._of_batch(epoch, index, Purpose.BLANKS, (self.blanks.rows, self.blanks.columns))
        height, width = self.canvas.size(rows + more[0], columns + more[1], spare)
        more = min(more[0], height - rows), min(more[1], width - columns)
        where = self.words(epoch, index, Purpose.PLACE, 2 + sum(more))
        drawing = self._draw(problems, sizes, (height - more[0], width - more[1]), where[:, :2])
        return problems, drawing, Insertion.random(drawing, more, where[:, 2:]), epoch, index

    def _of_batch(
        self, epoch: int, index: np.ndarray, purpose: int, most: tuple[int, int]
    ) -> tuple[int, int]:
        """Return two random numbers from 0 to ``most``, the same in the whole batch."""
        words = self.words(epoch, index[:1] // self.batch_size, purpose, 2)
        first, second = random_below(words, np.array(most) + 1)[0].tolist()
        return first, second

    def _auxiliary(
        self,
        drawing: WorkedDrawing,
        inserted: Insertion,
        epoch: int,
        row: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Draw the classes that auxiliary heads learn in an epoch: uint8 [B, H, W] each.

        Cells of inserted blank rows and columns are `UNDEFINED`.
        """
        names = self.auxiliary.at(epoch, self.epochs)
        if not names:
            return []
        classes = draw_classes(self.task, names, drawing, row)
        return [inserted(of_name, UNDEFINED) for of_name in classes]

    def _transformed(
        self, arrays: list[np.ndarray], epoch: int, index: np.ndarray
    ) -> list[np.ndarray]:
        """Apply each sample's own transform, if there is one.

        Args:
            arrays: inputs, labels, whose non-blank cells `CanvasShift` keeps on the canvas, answer
                and further maps, [B, H, W] each.
            epoch, index: of the samples.
        """
        if self.transform is None:
            return arrays
        seeds = self.keys_of(epoch, index, Purpose.TRANSFORM) >> np.uint64(33)
        moved = [
            self.transform(given, label, masked, int(seed), *others)
            for seed, given, label, masked, *others in zip(seeds, *arrays, strict=True)
        ]
        return [np.stack(part) for part in zip(*moved, strict=True)]


@dataclass(eq=False)
class RowStepSamples(TrainingSamples):
    """Batches of row steps.

    A batch has ``inputs``: uint8 [B, H, W], ``labels``: uint8 [B, H, W], ``answer``: bool
    [B, H, W], the masked cells, and ``seeds``: int64 [B], of the model's random numbers. As long as
    there are auxiliary losses, it has ``auxiliary``: uint8 [B, H, W, N], the class of each sub-task
    in the masked cells, elsewhere `UNDEFINED`.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        problems, drawing, inserted, epoch, index = self.draw_batch(indices)
        rows = self.random_rows(problems, drawing, epoch, index)
        arrays = self.on_canvases(rows, drawing, inserted, epoch)
        return self.as_batch(self._transformed(arrays, epoch, index), epoch, index)

    def random_rows(
        self, problems: Problems, drawing: WorkedDrawing, epoch: int, index: np.ndarray
    ) -> RowSteps:
        """Return one row step of each problem."""
        row = random_below(self.words(epoch, index, Purpose.ROW, 1)[:, 0], drawing.num_rows)
        if practice := self.mixture.practice:
            row = practice.rows(problems, self.words(epoch, index, Purpose.PRACTICE, 2), row)
        return row_steps(drawing, row)

    def on_canvases(
        self, rows: RowSteps, drawing: WorkedDrawing, inserted: Insertion, epoch: int
    ) -> list[np.ndarray]:
        """Return inputs, labels, answer and auxiliary classes with blank lines, [B, H, W] each."""
        inputs, labels = inserted(rows.inputs, BLANK), inserted(rows.labels, BLANK)
        answer = whole_rows(inserted, rows.answer)
        inputs[answer] = MASK
        return [inputs, labels, answer, *self._auxiliary(drawing, inserted, epoch, rows.row)]

    def as_batch(self, arrays: list[np.ndarray], epoch: int, index: np.ndarray) -> TrainingBatch:
        """Return the result of `on_canvases`, perhaps transformed, as tensors."""
        inputs, labels, answer, *learned = arrays
        batch = {"inputs": inputs, "labels": labels, "answer": answer}
        batch["seeds"] = self.keys_of(epoch, index, Purpose.MODEL).view(np.int64)
        if learned:
            classes = np.stack(learned, axis=-1)
            batch["auxiliary"] = np.where(answer[..., None], classes, np.uint8(UNDEFINED))
        return {name: torch.from_numpy(array) for name, array in batch.items()}

    def shown(self, indices: Sequence[int]) -> tuple[np.ndarray, list[str]]:
        """Return inputs of a batch to look at, uint8 [N, H, W], and what each of them is."""
        inputs: np.ndarray = self.__getitems__(indices)["inputs"].numpy()[:SHOWN]
        return inputs, ["row step"] * len(inputs)


def whole_rows(inserted: Insertion, cells: np.ndarray) -> np.ndarray:
    """Return cells of single rows, bool [B, H, W], with blank cells inserted into these rows."""
    moved = inserted(cells, False)
    return moved | (inserted.blank & moved.any(axis=2, keepdims=True))


def corner(cells: np.ndarray) -> np.ndarray:
    """Return the first non-blank row and column of canvases, uint8 [B, H, W]: int64 [B, 2]."""
    shown = cells != BLANK
    return np.stack([shown.any(axis=2).argmax(axis=1), shown.any(axis=1).argmax(axis=1)], axis=1)


class SequenceSamples(TrainingSamples):
    """Batches of whole problems as sequences, see `canvas.sequences.sequences`.

    A batch has ``ids``: int64 [B, S], ``labels``: int64 [B, S], and the canvas's ``height`` and
    ``width``. As long as there are auxiliary losses, it has ``auxiliary``: uint8 [B, S, N], the
    class of each sub-task in the cell that a token writes, `UNDEFINED` at tokens without a label. A
    sequence is written in one direction only, so transforms may shift a canvas and nothing else.

    Raises:
        ValueError: a transform turns or reflects a canvas.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        _, drawing, inserted, epoch, index = self.draw_batch(indices)
        truth, given = inserted(drawing.truth, BLANK), inserted(drawing.given, False)
        # Nothing before an inserted blank row predicts it.
        given |= (inserted.rows < 0)[:, :, None]
        first = inserted.row(drawing.canvas_row(0))
        learned = self._auxiliary(drawing, inserted, epoch)
        if self.transform is not None:
            # All of a solution's space stays on the canvas, as in votes: the place of the operands
            # must not reveal the length of the answer.
            space = np.where(inserted(drawing.space, False), MASK, BLANK).astype(np.uint8)
            before = corner(space)
            unmoved = truth
            arrays = self._transformed([truth, space, given, *learned], epoch, index)
            truth, space, given, *learned = arrays
            shifts = corner(space) - before
            for cells, shift, result in zip(unmoved, shifts, truth, strict=True):
                if (np.roll(cells, shift, (0, 1)) != result).any():
                    raise ValueError(SHIFTS_ALONE)
            first = first + shifts[:, 0]
        top = first - drawing.given_rows
        ids, labels = sequences(replace(drawing, truth=truth, given=given, top=top))
        batch = {"ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}
        if learned:
            classes = at_writers(np.stack(learned, axis=-1), UNDEFINED)
            classes[labels == IGNORE] = UNDEFINED
            batch["auxiliary"] = torch.from_numpy(classes)
        return batch | dict(zip(("height", "width"), truth.shape[1:], strict=True))


@dataclass(eq=False)
class SolvedProblems(Samples):
    """Batches of whole problems for validation: the operands and their drawings.

    ``lengths`` sets the number of digits of each operand; None: the lengths of training.
    """

    lengths: tuple[int, ...] | None = None

    def __getitems__(self, indices: Sequence[int]) -> tuple[Problems, WorkedDrawing]:
        # Lightning counts epochs here, too. The same problems each time make scores comparable,
        # and a canvas large enough for all makes scores independent of the batch size.
        index = np.asarray(indices) % self.size
        problems = sample(self.task, self.seed, self.split, 0, index, self.lengths)
        words = self.words(0, index, Purpose.PLACE, 2)
        longest = self.lengths or self.task.longest
        size = self.canvas.size(*self.task.canvas_layout.extent(longest, self.task.base))
        return problems, self._draw(problems, self.task.canvas_layout.sizes(problems), size, words)


def __getattr__(name: str) -> Any:
    return moved(__name__, name)
