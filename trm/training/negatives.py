"""Row steps that teach the confidence alone: turned, guessed and incorrect canvases.

Example: the second row step of 12 x 34 in the layout `standard`, with ``M`` for a masked cell, and
the kinds of negatives made of it::

    upright   turned   guessed   digit    other
    __12_     ___M_    _____     __12_    __12_
    x_34_     248M_    248__     x_34_    x_34_
    __48_     134M_    134__     __47_    __52_
    MMMMM     ___M_    _____     MMMMM    MMMMM
    _____     _x_M_    _xMMM     _____    _____

A guess masks the row that an upright canvas would have masked, here the fourth written one. The
kind `own` has a row above that the model wrote, see `with_own_rows`.
`NegativesConfig` has the shares of all kinds.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import torch

from augment.views import View, apply_views
from canvas.drawing import RowSteps, WorkedDrawing
from canvas.problems import Problems, random_below, random_shares, split_of
from canvas.symbols import BLANK, MASK, Alphabet, digits_of, ids_of
from canvas.task import Task
from trm.models.iterative import Batch, IterativeModel
from trm.solving.predictor import Predictor
from trm.solving.teacher_forced import TeacherForced
from trm.training.configs import check_range
from trm.training.random_bits import Purpose, SampleKeys
from trm.training.samples import SHOWN, RowStepSamples, TrainingBatch, corner, whole_rows


@dataclass
class NegativesConfig:
    """Shares of the training samples that teach the confidence alone.

    Their cells have no loss, and the halting head learns that the row is incorrect. All other
    samples are upright, and the head learns of these whether the predicted row is correct. So the
    confidence is that of "this canvas is upright, its rows are correct, and so is this one".
    Where chance leaves a sample correct, as the identity leaves a canvas, it is learned as others.

    Attributes:
        turned: masked first, then turned by `data.transforms`.
        guessed: turned by them first, then masked in the row in which an upright canvas has it: an
            incorrect guess of the orientation.
        digit: a digit in the rows above is another one.
        other: the rows above are those of a problem that differs in one digit.
        own: the row above is the model's own, which may be correct.
    """

    turned: float = 0.0
    guessed: float = 0.0
    digit: float = 0.0
    other: float = 0.0
    own: float = 0.0

    def __post_init__(self) -> None:
        for name, share in vars(self).items():
            check_range(f"data.negatives.{name}", share, 0, 1)
        if (total := sum(vars(self).values())) > 1:
            raise ValueError(f"data.negatives: the shares are at most 1 in all, not {total:g}")

    @property
    def turns(self) -> bool:
        """True if some samples are turned, or incorrect guesses of the orientation."""
        return self.turned + self.guessed > 0


# What a sample of each kind is, for people. Negatives have the names of their shares in
# `NegativesConfig`.
KINDS = {
    "plain": "row step",
    "turned": "masked, then turned",
    "guessed": "turned, then masked",
    "digit": "another digit above",
    "other": "rows above of another problem",
    "own": "row above is the model's own",
}


def random_kinds(negatives: NegativesConfig, words: np.ndarray) -> np.ndarray:
    """Choose the kind of each sample, a name in `KINDS`, from random words [B]."""
    shares = asdict(negatives)
    kind = np.searchsorted(np.cumsum([*shares.values()]), random_shares(words), side="right")
    return np.array([*shares, "plain"])[kind]


@dataclass(eq=False)
class SamplesWithNegatives(RowStepSamples):
    """Batches of row steps, a share of which teach the confidence alone.

    A batch also has ``correct``: bool [B], whether the canvas is upright and its rows are correct;
    and, with a share of ``own``, ``above``: bool [B, H, W], the row above, which the model is to
    fill in first. Only turned and guessed samples are transformed.
    """

    negatives: NegativesConfig = field(default_factory=NegativesConfig)

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        drawn = self.draw_batch(indices)
        problems, drawing, inserted, keys = drawn
        words = keys.words(Purpose.NEGATIVE, 3)  # the kind, and what is incorrect
        kind = random_kinds(self.negatives, words[:, 0])
        rows = self.random_rows(drawn)
        rows = with_incorrect_rows(self.task, problems, drawing, rows, kind, words[:, 1:])
        arrays, given = self.arrays_of(rows, drawn), inserted(drawing.given, False)
        arrays, correct = self._with_turned(arrays, given, kind, keys)
        batch = self.as_batch(arrays, keys) | {"correct": torch.from_numpy(correct)}
        if self.negatives.own:
            own = (kind == "own") & (rows.row > 0)
            above = drawing.cells_of_row(rows.row - 1) & own[:, None, None]
            batch["above"] = torch.from_numpy(whole_rows(inserted, above))
        return batch

    def kinds(self, indices: Sequence[int]) -> np.ndarray:
        """Return the kind of each sample, a name in `KINDS`."""
        words = self.keys(indices).words(Purpose.NEGATIVE, 1)
        return random_kinds(self.negatives, words[:, 0])

    def shown(self, indices: Sequence[int]) -> tuple[np.ndarray, list[str]]:
        """Return inputs of a batch to look at, uint8 [N, H, W], and what each of them is.

        They are two samples of every kind, and so many more that at least `SHOWN` are shown.
        """
        batch, kinds = self.__getitems__(indices), self.kinds(indices)
        found = {kind: np.flatnonzero(kinds == kind)[:2] for kind in KINDS}
        plain = np.flatnonzero(kinds == "plain")
        negatives = sum(map(len, found.values())) - len(found["plain"])
        found["plain"] = plain[: max(2, SHOWN - negatives)]
        chosen = np.concatenate([*found.values()])
        notes = ["" if one else "\nconfidence alone" for one in batch["correct"][chosen].tolist()]
        names = [KINDS[kinds[i]] + note for i, note in zip(chosen, notes, strict=True)]
        return batch["inputs"].numpy()[chosen], names

    def _with_turned(
        self, arrays: list[np.ndarray], given: np.ndarray, kind: np.ndarray, keys: SampleKeys
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Transform the turned and the guessed samples of a batch.

        Args:
            arrays: inputs, labels, answer and further maps, [B, H, W] each.
            given: given cells, bool [B, H, W].
            kind: of each sample, a name in `KINDS`.
            keys: of the samples.

        Returns:
            The arrays with them, and whether each canvas is upright and correct, bool [B].
        """
        arrays = [part.copy() for part in arrays]
        inputs, labels, answer, *_ = arrays
        correct = ((inputs == labels) | answer).all(axis=(1, 2))
        turned = np.flatnonzero((kind == "turned") | (kind == "guessed"))
        if not len(turned):
            return arrays, correct
        before = [part[turned] for part in arrays]
        with_given = [*before, given[turned].view(np.uint8)]
        keys = keys._replace(indices=keys.indices[turned])
        *after, still_given = self._transformed(with_given, keys)
        row = answer[turned].any(axis=2).argmax(axis=1) - corner(labels[turned])[:, 0]
        guess = (kind[turned] == "guessed")[:, None, None]
        guessed = masked_at(row, after[0], after[2], still_given.view(np.bool_))
        after[0] = np.where(guess, guessed[0], after[0])
        after[2] = np.where(guess, guessed[1], after[2])
        for part, result in zip(arrays, after, strict=True):
            part[turned] = result
        correct[turned] = only_shifted(before[:2], after[:2])
        return arrays, correct


# Incorrect rows above


def with_incorrect_rows(
    task: Task,
    problems: Problems,
    drawing: WorkedDrawing,
    rows: RowSteps,
    kind: np.ndarray,
    words: np.ndarray,
) -> RowSteps:
    """Replace rows above in the inputs of the kinds ``digit`` and ``other``.

    Inputs stay as they are where there is no row above, or no other one.

    Args:
        task: of the problems.
        problems: B problems.
        drawing: their solutions.
        rows: one row step of each.
        kind: of each sample, a name in `KINDS`.
        words: random, uint64 [B, 2].
    """
    above = np.arange(rows.inputs.shape[1]) < drawing.canvas_row(rows.row)[:, None]
    written = above[:, :, None] & drawing.unknown  # cells of rows that a model writes
    inputs = rows.inputs.copy()
    if len(index := np.flatnonzero(kind == "other")):
        others = other_problems(problems[index], words[index])
        _, height, width = inputs.shape
        place = drawing.top[index], drawing.left[index]
        other = task.canvas_layout.draw_worked(others, height, width, *place).truth
        # Rows of held-out problems stay unseen.
        shown = written[index] & (split_of(others) == 0)[:, None, None]
        inputs[index] = np.where(shown, other, inputs[index])
    digits = written & (kind == "digit")[:, None, None]
    digits &= digits_of(task.base)[inputs] >= 0
    return rows._replace(inputs=_change_a_digit(inputs, digits, task.base, words))


def other_problems(problems: Problems, words: np.ndarray) -> Problems:
    """Change one digit of each problem's first operand; its length stays.

    Args:
        problems: B problems. Those without another digit, as 1 in base 2, stay the same.
        words: random, uint64 [B, 2].
    """
    first = problems.operands[0]
    place = random_below(words[:, 0], first.lengths)
    at = np.arange(len(problems)), place
    least = ((place == first.lengths - 1) & (first.lengths > 1)).astype(np.int64)  # no leading 0
    different = first.base - least
    if isinstance(first.base, Alphabet):
        least, different = np.ones_like(least), np.full_like(least, first.base.letters)
    more = random_below(words[:, 1], np.maximum(different - 1, 1))
    digits = first.digits.copy()
    digits[at] = least + (digits[at].astype(np.int64) - least + 1 + more) % different
    return Problems((replace(first, digits=digits), *problems.operands[1:]))


def _change_a_digit(
    inputs: np.ndarray, digits: np.ndarray, base: int, words: np.ndarray
) -> np.ndarray:
    """Replace one of the marked digits of each canvas by another digit, uint8 [B, H, W].

    Args:
        inputs: uint8 [B, H, W].
        digits: the digits to choose from, bool [B, H, W]; a canvas without any stays the same.
        base: of the number system, or the alphabet of texts.
        words: random, uint64 [B, 2].
    """
    chosen = np.flatnonzero(digits.any(axis=(1, 2)))
    if not len(chosen):
        return inputs
    flat = digits[chosen].reshape(len(chosen), -1)
    nth = random_below(words[chosen, 0], flat.sum(axis=1))
    cell = (flat.cumsum(axis=1) > nth[:, None]).argmax(axis=1)
    at = chosen, *np.unravel_index(cell, inputs.shape[1:])
    ids = ids_of(base)[isinstance(base, Alphabet) :]  # texts have no digit 0
    more = 1 + random_below(words[chosen, 1], len(ids) - 1)
    changed = inputs.copy()
    places = np.searchsorted(ids, inputs[at], sorter=(order := ids.argsort()))
    changed[at] = ids[(order[places] + more) % len(ids)]
    return changed


# Turned canvases


def masked_at(
    row: np.ndarray, inputs: np.ndarray, answer: np.ndarray, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mask turned canvases as if they were upright; return inputs and answer.

    Where the row lies below the canvas, or all its cells are given, nothing is masked.

    Args:
        row: index of the row to mask, from the first written one, int64 [B].
        inputs: turned row steps, uint8 [B, H, W].
        answer: their masked cells, which become blank, bool [B, H, W].
        given: given cells, never masked, bool [B, H, W].
    """
    unmasked = np.where(answer, np.uint8(BLANK), inputs)
    line = np.arange(inputs.shape[1]) == (corner(unmasked)[:, 0] + row)[:, None]
    masked = line[:, :, None] & ~given
    return np.where(masked, np.uint8(MASK), unmasked), masked


def only_shifted(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> np.ndarray:
    """Return which row steps a transform has left as they were, but for their place: bool [B].

    Args:
        before: inputs and labels, uint8 [B, H, W] each.
        after: the same, transformed.
    """
    same = np.ones(len(after[1]), dtype=bool)
    shifts = corner(after[1]) - corner(before[1])
    for one, other in zip(before, after, strict=True):
        moved = [np.roll(cells, shift, (0, 1)) for cells, shift in zip(one, shifts, strict=True)]
        same &= (np.stack(moved) == other).all(axis=(1, 2))
    return same


@torch.no_grad()
def with_own_rows(
    model: IterativeModel, batch: Batch, steps: int, unwritten: tuple[int, int] = (BLANK, MASK)
) -> Batch:
    """Let the model fill in the row above in some samples of a batch.

    Choosing these samples waits for a GPU once. A batch without ``above`` is returned as it is.

    Args:
        model: an iterative model.
        batch: see `trm.training.step.fresh_step`; with ``correct`` and ``above``, bool [B, H, W],
            the cells of the row above in these samples, elsewhere False; of puzzles, any cells.
        steps: supervision steps.
        unwritten: symbols of the answer's cells, which wait for the row above, and of that row's.

    Returns:
        The batch without ``above``. In these samples ``inputs`` has the model's row, and
        ``correct`` is False if that is incorrect.
    """
    if "above" not in batch:
        return batch
    above, batch = batch["above"], {n: part for n, part in batch.items() if n != "above"}
    chosen = above.flatten(1).any(1)
    if not chosen.any():
        return batch
    above, inputs, labels = above[chosen], batch["inputs"].clone(), batch["labels"][chosen]
    later, now = unwritten
    first = torch.where(batch["answer"][chosen], later, inputs[chosen])
    logits, _ = model(torch.where(above, now, first), steps=steps)
    own = logits.argmax(-1).to(inputs.dtype)
    inputs[chosen] = torch.where(above, own, inputs[chosen])
    correct = batch["correct"].clone()
    correct[chosen] &= ((own == labels) | ~above).flatten(1).all(1)
    return {**batch, "inputs": inputs, "correct": correct}


def turned_metrics(
    predictor: Predictor, inputs: np.ndarray, symmetries: Sequence[str], forced: TeacherForced
) -> dict[str, tuple[float, int]]:
    """Return metrics of the confidence in turned canvases, and the number each of them is over.

    - ``confidence_correct``: mean confidence of correct rows.
    - ``confidence_turned``: that of the same row steps, one of each problem, turned.
    - ``turned_rejected``: share of these that the model predicts to be incorrect.

    Args:
        predictor: of the model.
        inputs: upright row steps, one of each problem, uint8 [B, H, W].
        symmetries: by which they are turned, one after the other.
        forced: upright rows of the same problems, filled in.
    """
    views = [View(symmetries[i % len(symmetries)]) for i in range(len(inputs))]
    turned = predictor(apply_views(views, inputs)).confidence
    metrics = {
        "confidence_turned": (float(turned.mean()), len(turned)),
        "turned_rejected": (float((turned <= 0.5).mean()), len(turned)),
    }
    if len(correct := forced.filled.confidence[forced.rows_exact]):
        metrics["confidence_correct"] = (float(correct.mean()), len(correct))
    return metrics
