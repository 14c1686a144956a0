"""Training samples and validation problems, drawn as whole batches.

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
from canvas.drawing import IGNORE, UNDEFINED, WorkedDrawing, at_writers, row_steps, sequences
from canvas.problems import Problems, Split, keys, random_below, random_words
from canvas.sampling import sample
from canvas.symbols import BLANK, MASK
from canvas.task import Task
from trm.families import moved
from trm.training.auxiliary import draw_classes
from trm.training.configs import AuxiliaryConfig, NegativesConfig
from trm.training.mixture import Mixture
from trm.training.negatives import (
    WORDS,
    SampleKind,
    corner,
    draw_kinds,
    masked_at,
    shifted,
    with_incorrect_rows,
)
from trm.training.random_bits import Purpose

TrainingBatch = dict[str, Any]

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
        return problems, drawing, Insertion.draw(drawing, more, where[:, 2:]), epoch, index

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
        step: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Draw the classes that auxiliary heads learn in an epoch: uint8 [B, H, W] each.

        Cells of inserted blank rows and columns are `UNDEFINED`.
        """
        names = self.auxiliary.at(epoch, self.epochs)
        if not names:
            return []
        classes = draw_classes(self.task, names, drawing, step)
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

    With ``negatives`` it has ``correct``: bool [B], whether the canvas is upright and its rows are
    correct; and, with a share of ``own``, ``above``: bool [B, H, W], the row above, which the model
    is to fill in first. Only turned and guessed samples are transformed then.
    """

    negatives: NegativesConfig | None = None

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        problems, drawing, inserted, epoch, index = self.draw_batch(indices)
        step = random_below(self.words(epoch, index, Purpose.STEP, 1)[:, 0], drawing.steps)
        if practice := self.mixture.practice:
            step = practice.steps(problems, self.words(epoch, index, Purpose.PRACTICE, 2), step)
        steps = row_steps(drawing, step)
        kind = self.kinds_of(epoch, index)
        if self.negatives:
            words = self.words(epoch, index, Purpose.NEGATIVE, WORDS)
            steps = with_incorrect_rows(self.task, problems, drawing, steps, kind, words)
        inputs, labels = inserted(steps.inputs, BLANK), inserted(steps.labels, BLANK)
        answer = _whole_rows(inserted, steps.answer)
        inputs[answer] = MASK
        learned = self._auxiliary(drawing, inserted, epoch, steps.step)
        arrays = [inputs, labels, answer, *learned]
        more = {}
        if self.negatives:
            given = inserted(drawing.given, False)
            arrays, more["correct"] = self._with_turned(arrays, given, kind, epoch, index)
            if self.negatives.own:
                own = (kind == SampleKind.OWN) & (steps.step > 0)
                above = drawing.cells_of_step(steps.step - 1) & own[:, None, None]
                more["above"] = _whole_rows(inserted, above)
        else:
            arrays = self._transformed(arrays, epoch, index)
        inputs, labels, answer, *learned = arrays
        batch = {"inputs": inputs, "labels": labels, "answer": answer, **more}
        batch["seeds"] = self.keys_of(epoch, index, Purpose.MODEL).view(np.int64)
        if learned:
            classes = np.stack(learned, axis=-1)
            batch["auxiliary"] = np.where(answer[..., None], classes, np.uint8(UNDEFINED))
        return {name: torch.from_numpy(array) for name, array in batch.items()}

    def kinds_of(self, epoch: int, index: np.ndarray) -> np.ndarray:
        """Return the `SampleKind` of each sample, int64 [B]."""
        if self.negatives is None:
            return np.full(len(index), SampleKind.NONE)
        return draw_kinds(self.negatives, self.words(epoch, index, Purpose.NEGATIVE, WORDS))

    def shown(self, indices: Sequence[int], each: int = 2) -> tuple[np.ndarray, list[str]]:
        """Return inputs of a batch to look at, uint8 [N, H, W], and what each of them is.

        They are ``each`` samples of every kind, and so many more that at least eight are shown.
        """
        batch, epoch = self.__getitems__(indices), indices[0] // self.size
        kinds = self.kinds_of(epoch, np.asarray(indices) % self.size)
        found = [np.flatnonzero(kinds == kind)[:each] for kind in SampleKind]
        number = max(each, 8 - sum(map(len, found[1:])))
        found[0] = np.flatnonzero(kinds == SampleKind.NONE)[:number]
        chosen = np.concatenate(found)
        learned = batch.get("correct", torch.ones(len(kinds), dtype=torch.bool))
        notes = ["" if one else "\nconfidence alone" for one in learned[chosen].tolist()]
        names = [SampleKind(kinds[i]).label + note for i, note in zip(chosen, notes, strict=True)]
        return batch["inputs"].numpy()[chosen], names

    def _with_turned(
        self,
        arrays: list[np.ndarray],
        given: np.ndarray,
        kind: np.ndarray,
        epoch: int,
        index: np.ndarray,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Transform the turned and the guessed samples of a batch.

        Args:
            arrays: inputs, labels, answer and further maps, [B, H, W] each.
            given: given cells, bool [B, H, W].
            kind: `SampleKind` of each sample, int64 [B].
            epoch, index: of the samples.

        Returns:
            The arrays with them, and whether each canvas is upright and correct, bool [B].
        """
        arrays = [part.copy() for part in arrays]
        inputs, labels, answer, *_ = arrays
        correct = ((inputs == labels) | answer).all(axis=(1, 2))
        turned = np.flatnonzero((kind == SampleKind.TURNED) | (kind == SampleKind.GUESSED))
        if not len(turned):
            return arrays, correct
        before = [part[turned] for part in arrays]
        with_given = [*before, given[turned].view(np.uint8)]
        *after, still_given = self._transformed(with_given, epoch, index[turned])
        row = answer[turned].any(axis=2).argmax(axis=1) - corner(labels[turned])[:, 0]
        guess = (kind[turned] == SampleKind.GUESSED)[:, None, None]
        guessed = masked_at(row, after[0], after[2], still_given.view(np.bool_))
        after[0] = np.where(guess, guessed[0], after[0])
        after[2] = np.where(guess, guessed[1], after[2])
        for part, result in zip(arrays, after, strict=True):
            part[turned] = result
        correct[turned] = shifted(before[:2], after[:2])
        return arrays, correct


def _whole_rows(inserted: Insertion, cells: np.ndarray) -> np.ndarray:
    """Return cells of single rows, bool [B, H, W], with blank cells inserted into these rows."""
    moved = inserted(cells, False)
    return moved | (inserted.blank & moved.any(axis=2, keepdims=True))


class SequenceSamples(TrainingSamples):
    """Batches of whole problems as sequences, see `canvas.drawing.sequences`.

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
        first = inserted.row(drawing.row_of_step(0))
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
        top = first - drawing.first_step
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
