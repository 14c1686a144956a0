"""Training samples and validation problems, made as whole batches.

A training sample is one row step of one problem, or, for a sequence model, the whole problem. Its
problem, row, place on the canvas, blank rows and columns, and augmentation are functions of
(seed, split, epoch, index) alone: the same for any number of workers or devices, and after any
resume. The one exception is a canvas cut to its batch: its size, and so a problem's place on it,
depends on the rest of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

from augment.transforms import SampleTransform
from canvas.canvas_size import Blanks, Canvas, Insertion
from canvas.drawing import UNDEFINED, RowSteps, WorkedDrawing, row_steps
from canvas.problems import Problems, Split, random_below
from canvas.sampling import sample
from canvas.sequences import IGNORE, at_writers, sequences
from canvas.symbols import BLANK, MASK
from canvas.task import Task
from trm.released import moved
from trm.training.auxiliary import AuxiliaryConfig, draw_classes
from trm.training.mixture import Mixture
from trm.training.random_bits import Purpose, SampleKeys

TrainingBatch = dict[str, Any]
SHOWN = 8  # samples of a batch to look at

SHIFTS_ALONE = (
    "data.transforms turn or reflect canvases, but a GPT writes from the lowest digit up, row "
    "below row: use only augment.transforms.CanvasShift"
)


class DrawnProblems(NamedTuple):
    """Problems of a batch on canvases, before blank rows and columns are inserted."""

    problems: Problems
    drawing: WorkedDrawing
    inserted: Insertion  # inserts the blank lines into arrays of the drawing
    keys: SampleKeys


@dataclass(eq=False)
class Samples(Dataset):
    """Problems on canvases, random ones of a split: base of all data sets of arithmetic.

    The index of sample i of an epoch is epoch · size + i.
    """

    task: Task
    canvas: Canvas
    split: Split
    seed: int
    size: int  # of an epoch, over all devices
    batch_size: int  # over all devices

    def __len__(self) -> int:
        return self.size

    def keys(self, indices: Sequence[int]) -> SampleKeys:
        """Return the random keys of samples of one epoch."""
        index = np.asarray(indices) % self.size
        return SampleKeys(self.seed, self.split, indices[0] // self.size, index)

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
        spare = np.array(canvas) - sizes.T
        assert (spare >= 0).all(), "the canvas was checked against the task, or cut to fit"
        top, left = random_below(words, spare + 1).T
        return self.task.canvas_layout.draw_worked(problems, *canvas, top=top, left=left)


@dataclass(eq=False)
class TrainingSamples(Samples):
    """Base of the training samples of all families: the same problems at the same places.

    A subclass makes batches of them: row steps, sequences or single cells.
    """

    transform: SampleTransform | None = None
    mixture: Mixture = field(default_factory=Mixture)  # of their problems
    epochs: int | None = None  # of the whole run
    blanks: Blanks = field(default_factory=Blanks)
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)

    def draw_batch(self, indices: Sequence[int]) -> DrawnProblems:
        """Draw the problems of a batch at random places."""
        keys = self.keys(indices)
        problems = self.mixture.sample(self.task, keys, self.epochs)
        sizes = self.task.canvas_layout.sizes(problems)
        rows, columns = sizes.max(axis=1).tolist()
        # The margin and the number of blank lines are the same in the whole batch.
        spare = self._of_batch(keys, Purpose.MARGIN, (self.canvas.margin,) * 2)
        more = self._of_batch(keys, Purpose.BLANKS, (self.blanks.rows, self.blanks.columns))
        height, width = self.canvas.size(rows + more[0], columns + more[1], spare)
        more = min(more[0], height - rows), min(more[1], width - columns)
        where = keys.words(Purpose.PLACE, 2 + sum(more))
        drawing = self._draw(problems, sizes, (height - more[0], width - more[1]), where[:, :2])
        inserted = Insertion.random(drawing, more, where[:, 2:])
        return DrawnProblems(problems, drawing, inserted, keys)

    def _of_batch(self, keys: SampleKeys, purpose: int, most: tuple[int, int]) -> tuple[int, int]:
        """Return two random numbers from 0 to ``most``, the same in the whole batch."""
        batch = keys._replace(indices=keys.indices[:1] // self.batch_size)
        first, second = random_below(batch.words(purpose, 2), np.array(most) + 1)[0].tolist()
        return first, second

    def _auxiliary(self, drawn: DrawnProblems, row: np.ndarray | None = None) -> list[np.ndarray]:
        """Draw the classes that auxiliary heads learn in an epoch: uint8 [B, H, W] each.

        Cells of inserted blank rows and columns are `UNDEFINED`.
        """
        names = self.auxiliary.at(drawn.keys.epoch, self.epochs)
        if not names:
            return []
        classes = draw_classes(self.task, names, drawn.drawing, row)
        return [drawn.inserted(of_name, UNDEFINED) for of_name in classes]

    def _transformed(self, arrays: list[np.ndarray], keys: SampleKeys) -> list[np.ndarray]:
        """Apply each sample's own transform, if there is one.

        Args:
            arrays: inputs; labels, whose non-blank cells `CanvasShift` keeps on the canvas; answer;
                further maps; [B, H, W] each.
            keys: of the samples.
        """
        if self.transform is None:
            return arrays
        seeds = keys.of(Purpose.TRANSFORM) >> np.uint64(33)  # of 31 bits
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
        drawn = self.draw_batch(indices)
        arrays = self.arrays_of(self.random_rows(drawn), drawn)
        return self.as_batch(self._transformed(arrays, drawn.keys), drawn.keys)

    def random_rows(self, drawn: DrawnProblems) -> RowSteps:
        """Return one row step of each problem."""
        row = random_below(drawn.keys.words(Purpose.ROW, 1)[:, 0], drawn.drawing.num_rows)
        if practice := self.mixture.practice:
            row = practice.rows(drawn.problems, drawn.keys, row)
        return row_steps(drawn.drawing, row)

    def arrays_of(self, rows: RowSteps, drawn: DrawnProblems) -> list[np.ndarray]:
        """Return inputs, labels, answer and auxiliary classes with blank lines, [B, H, W] each."""
        inserted = drawn.inserted
        inputs, labels = inserted(rows.inputs, BLANK), inserted(rows.labels, BLANK)
        answer = whole_rows(inserted, rows.answer)
        inputs[answer] = MASK
        return [inputs, labels, answer, *self._auxiliary(drawn, rows.row)]

    def as_batch(self, arrays: list[np.ndarray], keys: SampleKeys) -> TrainingBatch:
        """Return the result of `arrays_of`, perhaps transformed, as tensors."""
        inputs, labels, answer, *learned = arrays
        batch = {"inputs": inputs, "labels": labels, "answer": answer}
        batch["seeds"] = keys.of(Purpose.MODEL).view(np.int64)
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
        drawn = self.draw_batch(indices)
        drawing, inserted = drawn.drawing, drawn.inserted
        truth, given = inserted(drawing.truth, BLANK), inserted(drawing.given, False)
        # Nothing before an inserted blank row predicts it.
        given |= (inserted.rows < 0)[:, :, None]
        first = inserted.row(drawing.canvas_row(0))
        learned = self._auxiliary(drawn)
        if self.transform is not None:
            # All of a solution's space stays on the canvas, as in votes: the place of the operands
            # must not reveal the length of the answer.
            space = np.where(inserted(drawing.space, False), MASK, BLANK).astype(np.uint8)
            before = corner(space)
            unmoved = truth
            arrays = self._transformed([truth, space, given, *learned], drawn.keys)
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
class ValidationProblems(Samples):
    """Batches of whole problems, which a validation or a test solves, with their solutions.

    ``lengths`` sets the number of digits of each operand; None: the lengths of training.
    """

    lengths: tuple[int, ...] | None = None

    def __getitems__(self, indices: Sequence[int]) -> tuple[Problems, WorkedDrawing]:
        # Lightning counts epochs here, too. The same problems each time make scores comparable,
        # and a canvas large enough for all makes scores independent of the batch size.
        keys = self.keys(indices)._replace(epoch=0)
        problems = sample(self.task, *keys, self.lengths)
        words = keys.words(Purpose.PLACE, 2)
        longest = self.lengths or self.task.longest
        size = self.canvas.size(*self.task.canvas_layout.extent(longest, self.task.base))
        return problems, self._draw(problems, self.task.canvas_layout.sizes(problems), size, words)


__getattr__ = moved(__name__)
