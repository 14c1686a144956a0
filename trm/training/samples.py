"""Training samples and validation problems, drawn as whole batches.

A training sample is one row step of one problem, or, for a sequence model, the whole problem. Its
problem, row, place on the canvas, blank rows and columns, and augmentation are functions of
(seed, split, epoch, index) alone: the same for any number of workers or devices, and after any
resume. The one exception is a canvas cut to its batch: its size, and so a problem's place on it,
depends on the rest of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from augment.transforms import SampleTransform
from canvas.canvas_size import Blanks, Canvas, Insertion
from canvas.cells.drawn import UNDEFINED, drawn_cell_inputs
from canvas.cells.local_rule import LocalRule, OpSamples
from canvas.cells.spec import NEIGHBOURS, SYMBOL, TOKEN
from canvas.cells.subtasks import draw_subtasks
from canvas.choices import check_choice
from canvas.drawing import IGNORE, RowSteps, WorkedDrawing, at_writers, row_steps, sequences
from canvas.problems import Problems, Split, keys, random_below, random_words, split_of
from canvas.sampling import sample
from canvas.symbols import BLANK, DIGIT_IDS, DIGIT_OF, MASK
from canvas.task import Task
from trm.training.configs import AuxiliaryConfig, NegativesConfig, check_ends, stage_at

TrainingBatch = dict[str, Any]

# Purposes of random keys; purpose 0 draws the problem.
_STEP, _PLACE, _TRANSFORM, _MARGIN, _MODEL, _BLANKS, _NEGATIVE = range(1, 8)
# Kinds of negative samples, in the order of `NegativesConfig`; 0 is none.
_TURNED, _GUESSED, _DIGIT, _OTHER, _OWN = range(1, 6)
_POOLED = 1000  # problems worked out at once for a pool
SHIFTS_ALONE = (
    "data.transforms turn or reflect canvases, but a GPT writes from the lowest digit up, row "
    "below row: use only augment.transforms.CanvasShift"
)
_FIXED = {"layout", "base"}  # settings of a task that stay the same in all stages of a curriculum


@dataclass
class Stage:
    """Stage of a curriculum: a part of a task's problems, for some epochs of a run."""

    until: int | float  # epochs after which the stage is over; below 1: a share of the run
    task: dict[str, Any]  # task settings that differ until then, like ``{digits_a: [1, 2]}``


class Curriculum:
    """Task that training problems are drawn from, by epoch (Bengio et al. 2009).

    After the last stage it is the whole task.

    Raises:
        ValueError: stages do not follow one another, contain problems that are not the task's, or
            contain none of the training split.
    """

    def __init__(self, task: Task, stages: Sequence[Stage] = ()) -> None:
        self.ends = [stage.until for stage in stages]
        check_ends("data.curriculum: stages", self.ends)
        self.task, self.tasks = task, list[Task]()
        for stage in stages:
            try:
                self.tasks.append(_narrowed(task, stage.task))
            except (TypeError, ValueError) as error:
                raise ValueError(f"data.curriculum, until {stage.until}: {error}") from None

    def at(self, epoch: float, epochs: int | None = None) -> Task:
        """Return the task that the problems of an epoch, from 0, are drawn from.

        ``epochs`` is the length of the run, which stages with shares need.
        """
        return [*self.tasks, self.task][stage_at(self.ends, epoch, epochs)]


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
    """Base of data sets; an index is epoch · size + i."""

    task: Task
    canvas: Canvas
    split: Split
    seed: int
    size: int  # of an epoch, over all devices
    batch_size: int  # over all devices

    def __len__(self) -> int:
        return self.size

    def _keys(self, epoch: int, index: np.ndarray, purpose: int) -> np.ndarray:
        return keys(self.seed, self.split, epoch, index, purpose)

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
        return self.task.layout_impl.draw_worked(problems, *canvas, top=top, left=left)


@dataclass(eq=False)
class TrainingSamples(Samples):
    """Training samples of any family: the same problems at the same places."""

    transform: SampleTransform | None = None
    curriculum: Curriculum | None = None
    epochs: int | None = None  # of the whole run
    blanks: Blanks = field(default_factory=Blanks)
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)

    def _drawing(
        self, indices: Sequence[int]
    ) -> tuple[Problems, WorkedDrawing, Insertion, int, np.ndarray]:
        """Draw problems; return them with the blank rows and columns to insert afterwards."""
        epoch, index = indices[0] // self.size, np.asarray(indices) % self.size
        task = self.curriculum.at(epoch, self.epochs) if self.curriculum else self.task
        problems = sample(task, self.seed, self.split, epoch, index)
        sizes = self.task.layout_impl.sizes(problems)
        rows, columns = sizes.max(axis=1).tolist()
        # The margin and the number of blank lines are the same in the whole batch.
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
        """Return two random numbers from 0 to ``most``, the same in the whole batch."""
        words = random_words(self._keys(epoch, index[:1] // self.batch_size, purpose), 2)
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
        maps = draw_subtasks(self.task.local_rule(), drawing, step, written=True)
        return [inserted(maps[name], UNDEFINED) for name in names]

    def _transformed(
        self,
        inputs: np.ndarray,
        labels: np.ndarray,
        answer: np.ndarray,
        epoch: int,
        index: np.ndarray,
        *more: np.ndarray,
    ) -> list[np.ndarray]:
        """Apply each sample's own transform, if there is one, to arrays [B, H, W].

        `CanvasShift` keeps all non-blank cells of ``labels`` on the canvas.
        """
        arrays = [inputs, labels, answer]
        if self.transform is None:
            return [*arrays, *more]
        seeds = self._keys(epoch, index, _TRANSFORM) >> np.uint64(33)
        moved = [
            self.transform(given, label, masked, int(seed), *others)
            for given, label, masked, seed, *others in zip(*arrays, seeds, *more, strict=True)
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
        problems, drawing, inserted, epoch, index = self._drawing(indices)
        word = random_words(self._keys(epoch, index, _STEP), 1)[:, 0]
        step = random_below(word, drawing.steps)
        steps = row_steps(drawing, step)
        if self.negatives:
            words = random_words(self._keys(epoch, index, _NEGATIVE), 4)
            kind = _kinds(self.negatives, words[:, 0])
            above = replace_rows_above(self.task, problems, drawing, steps, kind, words[:, 1:])
            steps = steps._replace(inputs=np.where(steps.answer, np.uint8(MASK), above))
        inputs, labels = inserted(steps.inputs, BLANK), inserted(steps.labels, BLANK)
        answer = inserted(steps.answer, False)
        # Inserted cells in the row to fill in are masked, too.
        masked = inserted.blank & answer.any(axis=2, keepdims=True)
        inputs[masked], answer[masked] = MASK, True
        learned = self._auxiliary(drawing, inserted, epoch, step)
        if self.negatives:
            given = inserted(drawing.given, False)
            batch, learned = self._with_negatives(
                inputs, labels, answer, given, kind, epoch, index, learned
            )
            if self.negatives.own:
                before = inserted(drawing.answer_cells(step - 1), False)
                before &= ((kind == _OWN) & (step > 0))[:, None, None]
                batch["above"] = before
        else:
            arrays = self._transformed(inputs, labels, answer, epoch, index, *learned)
            batch = dict(zip(("inputs", "labels", "answer"), arrays, strict=False))
            learned = arrays[3:]
        batch["seeds"] = self._keys(epoch, index, _MODEL).view(np.int64)
        if learned:
            classes = np.stack(learned, axis=-1)
            batch["auxiliary"] = np.where(batch["answer"][..., None], classes, np.uint8(UNDEFINED))
        return {name: torch.from_numpy(array) for name, array in batch.items()}

    def _with_negatives(
        self,
        inputs: np.ndarray,
        labels: np.ndarray,
        answer: np.ndarray,
        given: np.ndarray,
        kind: np.ndarray,
        epoch: int,
        index: np.ndarray,
        more: list[np.ndarray],
    ) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
        """Turn the turned and the guessed samples; return the batch, and ``more`` maps moved.

        Args:
            inputs, labels, answer, more: as for `_transformed`.
            given: given cells, bool [B, H, W].
            kind: of each sample, int64 [B].
            epoch, index: of the samples.
        """
        correct = ((inputs == labels) | answer).all(axis=(1, 2))
        guessed, turned = kind == _GUESSED, np.flatnonzero((kind == _GUESSED) | (kind == _TURNED))
        row = answer.any(axis=2).argmax(axis=1) - _corner(labels)[:, 0]  # below the first one
        inputs[guessed] = np.where(answer[guessed], np.uint8(BLANK), inputs[guessed])
        B, H, W = inputs.shape
        places = [np.broadcast_to(line, (B, H, W)) for line in np.ix_(range(H), range(W))]
        maps = [given.view(np.uint8), *(place.astype(np.uint8) for place in places), *more]
        if len(turned):
            mine = [part[turned] for part in (inputs, labels, answer)]
            moved = self._transformed(*mine, epoch, index[turned], *(part[turned] for part in maps))
            for part, result in zip(
                (inputs, labels, answer, *maps[:1], *more), [*moved[:4], *moved[6:]], strict=True
            ):
                part[turned] = result
            correct[turned] = _upright(*moved[4:6])
            line = np.arange(H) == (_corner(inputs)[:, 0] + row)[:, None]
            masked = (line[:, :, None] & ~given)[guessed]
            answer[guessed] = masked
            inputs[guessed] = np.where(masked, np.uint8(MASK), inputs[guessed])
            correct &= answer.any(axis=(1, 2))
        batch = {"inputs": inputs, "labels": labels, "answer": answer, "correct": correct}
        return batch, more


def _upright(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return which canvases a transform has only shifted, bool [B].

    Args:
        rows: the row of each cell before, modulo 256, uint8 [B, H, W].
        columns: its column.
    """
    found = np.ones(len(rows), dtype=bool)
    for axis, lines in ((1, rows), (2, columns)):
        step = np.roll(lines, -1, axis) - lines  # 1, but for the last line of the canvas
        found &= (step == 1).sum(axis=(1, 2)) > step[0].size / 2
    return found


def _kinds(negatives: NegativesConfig, words: np.ndarray) -> np.ndarray:
    """Draw the kind of each sample from random words, int64 [B]: 0 is an ordinary one."""
    shares = [negatives.turned, negatives.guessed, negatives.digit, negatives.other, negatives.own]
    uniform = (words >> np.uint64(11)) / float(2**53)
    kind = 1 + np.searchsorted(np.cumsum(shares), uniform, side="right")
    return np.where(kind > len(shares), 0, kind)


def replace_rows_above(
    task: Task,
    problems: Problems,
    drawing: WorkedDrawing,
    steps: RowSteps,
    kind: np.ndarray,
    words: np.ndarray,
) -> np.ndarray:
    """Return the inputs of row steps, some with incorrect rows above, uint8 [B, H, W].

    Rows are left as they are where there is no row above, or no other one.

    Args:
        task: of the problems.
        problems: B problems.
        drawing: their solutions.
        steps: one row step of each.
        kind: of each sample, int64 [B].
        words: random words, [B, 3].
    """
    inputs = steps.inputs.copy()
    row = np.arange(inputs.shape[1])
    above = row < drawing.row_of_step(steps.step)[:, None]
    written = above[:, :, None] & drawing.unknown  # cells of rows that a model writes
    if len(mine := np.flatnonzero(kind == _OTHER)):
        first = problems.operands[0][mine]
        digits, places = first.digits.copy(), random_below(words[mine, 0], first.lengths)
        at = np.arange(len(mine)), places
        least = ((places == first.lengths - 1) & (first.lengths > 1)).astype(np.int64)
        # Another digit; a number's first one is not 0.
        shift = random_below(words[mine, 1], np.maximum(first.base - 1 - least, 1))
        value = digits[at].astype(np.int64) - least
        digits[at] = least + (value + 1 + shift) % (first.base - least)
        changed = Problems((replace(first, digits=digits), *problems[mine].operands[1:]))
        size, where = (
            drawing.truth.shape[1:],
            {"top": drawing.top[mine], "left": drawing.left[mine]},
        )
        others = task.layout_impl.draw_worked(changed, *size, **where)
        # Rows of held-out problems stay unseen.
        shown = written[mine] & (split_of(changed) == 0)[:, None, None]
        inputs[mine] = np.where(shown, others.truth, inputs[mine])
    candidates = written & (DIGIT_OF[inputs] >= 0) & (kind == _DIGIT)[:, None, None]
    some = candidates.any(axis=(1, 2))
    if some.any():
        flat = candidates.reshape(len(inputs), -1)
        nth = random_below(words[:, 0], flat.sum(axis=1).clip(1))
        cell = (flat.cumsum(axis=1) > nth[:, None]).argmax(axis=1)
        who = np.flatnonzero(some)
        at = who, *(place[who] for place in np.unravel_index(cell, inputs.shape[1:]))
        shift = 1 + random_below(words[who, 1], task.base - 1)
        inputs[at] = DIGIT_IDS[(DIGIT_OF[inputs[at]] + shift) % task.base]
    return inputs


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
        _, drawing, inserted, epoch, index = self._drawing(indices)
        truth, given = inserted(drawing.truth, BLANK), inserted(drawing.given, False)
        # Nothing before an inserted blank row predicts it.
        given |= (inserted.rows < 0)[:, :, None]
        first = inserted.row(drawing.row_of_step(0))
        learned = self._auxiliary(drawing, inserted, epoch)
        if self.transform is not None:
            # All of a solution's space stays on the canvas, as in votes: the place of the operands
            # must not reveal the length of the answer.
            space = np.where(inserted(drawing.space, False), MASK, BLANK).astype(np.uint8)
            before = _corner(space)
            unmoved = truth
            arrays = self._transformed(truth, space, given, epoch, index, *learned)
            truth, space, given, *learned = arrays
            shifts = _corner(space) - before
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


def _corner(space: np.ndarray) -> np.ndarray:
    """Return the first non-blank row and column of each canvas: int64 [B, 2]."""
    shown = space != BLANK
    return np.stack([shown.any(axis=2).argmax(axis=1), shown.any(axis=1).argmax(axis=1)], axis=1)


@dataclass(eq=False)
class CellInputSamples(TrainingSamples):
    """Batches of whole solutions, in which each distinct op input is a sample.

    A batch has ``ops``: int64 [N], ``inputs``: int64 [N, width] and ``labels``: int64
    [N, 1 + signals], see `canvas.cells.local_rule.OpSamples`.

    In half the solutions a random number of first rows is given; all other rows are to be filled
    in. Three op inputs in five occur more than once in a batch, those of blank cells most often.
    Each counts once, so that rare ones keep their weight, at half the cost.

    With a ``pool`` the distinct op inputs of so many problems are collected once, no row of which
    is given. A batch is then drawn evenly from them, and N is the batch size.
    """

    pool: int = 0  # problems of the pool; 0: new problems in each batch

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        if self.pool:
            keys = self._keys(indices[0] // self.size, np.asarray(indices) % self.size, _STEP)
            chosen = random_below(random_words(keys, 1)[:, 0], len(self.pooled.ops))
            return as_batch(OpSamples(*(part[chosen] for part in self.pooled)))
        _, drawing, _, epoch, index = self._drawing(indices)
        words = random_words(self._keys(epoch, index, _STEP), 2)
        known = random_below(words[:, 0], drawing.steps) * random_below(words[:, 1], 2)
        return self.batch(self.task.local_rule(), drawing, known)

    @cached_property
    def pooled(self) -> OpSamples:
        """Distinct op inputs of the first ``pool`` training problems, with their labels."""
        data, rule = replace(self, size=self.pool, pool=0), self.task.local_rule()
        ids = np.zeros(0, dtype=np.int64)
        for start in range(0, self.pool, _POOLED):
            drawing = data._drawing(range(start, min(start + _POOLED, self.pool)))[1]
            found = drawn_cell_inputs(rule, drawing)
            ids = np.union1d(ids, rule.op_input_ids(found.cell_inputs, found.outputs)[0])
        return rule.samples_of(ids)

    @staticmethod
    def batch(
        rule: LocalRule, drawing: WorkedDrawing, known: np.ndarray | None = None
    ) -> TrainingBatch:
        """Return the distinct op inputs of solutions.

        Args:
            rule: the layout's local rule.
            drawing: the solutions.
            known: number of given first rows of each, int64 [B]; None: none.
        """
        found = drawn_cell_inputs(rule, drawing, known)
        return as_batch(rule.samples(found.cell_inputs, found.outputs))


class SolutionSamples(TrainingSamples):
    """Batches of whole solutions for models with latent codes.

    A batch has N cells, each after those that it depends on:

    - ``tokens``: int64 [N].
    - ``labels``: int64 [N, 1 + signals]. The symbol, −1 where it is given, then each signal.
    - ``sources``: int64 [N, directions]. Indices of the neighbouring cells, −1 for none.
    - ``places``: int64 [N, 2]. The row in the solution, and the column from the right.
    - ``canvases``: int64 [N]. The index of the solution.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        return self.batch(self.task.local_rule(latent=True), self._drawing(indices)[1])

    @staticmethod
    def batch(rule: LocalRule, drawing: WorkedDrawing) -> TrainingBatch:
        """Return the cells of solutions as tensors."""
        found = drawn_cell_inputs(rule, drawing)
        B, H, W = drawing.truth.shape
        cells = np.full((B, H + 1, W + 2), -1)
        at = found.canvas, found.row + 1, found.column + 1
        cells[at] = np.arange(len(found.canvas))
        directions = [NEIGHBOURS[direction] for direction, names in rule.messages.items() if names]
        sources = [cells[at[0], at[1] + down, at[2] + right] for down, right in directions]
        symbols = np.where(found.cell_inputs[TOKEN] == MASK, found.outputs[SYMBOL], -1)
        places = found.row - drawing.top[found.canvas], W - 1 - found.column
        batch = {
            "tokens": found.cell_inputs[TOKEN],
            "labels": np.stack([symbols, *(found.outputs[name] for name in rule.signals)], axis=1),
            "sources": np.stack(sources, axis=1),
            "places": np.stack(places, axis=1),
            "canvases": found.canvas,
        }
        return {name: torch.from_numpy(array) for name, array in batch.items()}


def as_batch(samples: OpSamples) -> TrainingBatch:
    """Return op samples as tensors, by the names of their parts."""
    return {name: torch.from_numpy(part) for name, part in samples._asdict().items()}


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
        words = random_words(self._keys(0, index, _PLACE), 2)
        longest = self.lengths or self.task.longest
        size = self.canvas.size(*self.task.layout_impl.room(longest, self.task.base))
        return problems, self._draw(problems, self.task.layout_impl.sizes(problems), size, words)
