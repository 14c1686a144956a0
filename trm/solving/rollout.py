"""Row by row: a model fills a canvas, each row built on the rows it wrote itself."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from augment.views import View, apply_views, possible_shifts, undo_views
from canvas import symbols
from canvas.render import Drawing, RowSteps, WorkedDrawing, row_steps
from canvas.task import Task

OnRow = Callable[[int, np.ndarray], None]
# Fills in the masked row of canvases uint8 [N, H, W]; is given which samples of a drawing they are,
# int64 [N], and which step.
Fill = Callable[[np.ndarray, np.ndarray, int], "Prediction"]
# Called after each supervision step, from 1, of the samples that are still being worked on: which
# they are, int64 [N], their cells, uint8 [N, H, W], and how sure the model is, float32 [N]. A model
# that works in order calls it after each cell; those to come are masked, and until the last one it
# is not a number how sure it is.
OnStep = Callable[[int, np.ndarray, np.ndarray, np.ndarray], None]


@dataclass(frozen=True)
class Prediction:
    """What a model wrote on a batch of canvases, one row each."""

    canvases: np.ndarray  # uint8 [B, H, W], all cells as the model sees them; masked ones count
    confidence: np.ndarray  # float32 [B], 0 to 1: how sure the model is that the row is right
    steps: np.ndarray  # int64 [B], supervision steps used; 0 where a model has no such thing
    # bool [B], whether the model was done with the row, rather than out of steps; all by default
    settled: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.settled is None:
            object.__setattr__(self, "settled", np.ones(len(self.steps), dtype=bool))

    def take(self, index: np.ndarray) -> "Prediction":
        """Samples in another order, some perhaps more than once or never."""
        return Prediction(*(part[index] for part in vars(self).values()))

    @staticmethod
    def joined(predictions: "list[Prediction]") -> "Prediction":
        """One batch of several."""
        parts = zip(*(vars(one).values() for one in predictions), strict=True)
        return Prediction(*map(np.concatenate, parts))


class Rollout(NamedTuple):
    """Canvases that a model filled on its own, one column of figures for each row it wrote."""

    canvases: np.ndarray  # uint8 [B, H, W]
    confidence: np.ndarray  # float32 [B, S], 1 beyond the last row
    steps: np.ndarray  # int64 [B, S], 0 beyond the last row
    settled: np.ndarray  # bool [B, S], see `Prediction`; True beyond the last row

    @classmethod
    def begun(cls, drawing: Drawing) -> "Rollout":
        """One of problems of which nothing has been written yet."""
        shape = len(drawing), int(drawing.steps.max())
        figures = np.ones(shape, np.float32), np.zeros(shape, np.int64), np.ones(shape, bool)
        return cls(drawing.canvases.copy(), *figures)


class ConfidenceCurve(NamedTuple):
    """How sure a model is along the way to one row."""

    confidence: np.ndarray  # float [N], 0 to 1, at each point of the way
    right: np.ndarray  # bool [N], whether what it holds there is right
    halt: int  # the point, from 1, at which it stops; 0 where it does not
    outcome: str  # how it ended, in words


class Trace(NamedTuple):
    """How a model filled in a batch of rows."""

    heading: str  # of the curves
    answers: np.ndarray  # uint8 [B, H, W], what it wrote; only masked cells count
    curves: list[ConfidenceCurve]  # on the way to each row

    @classmethod
    def by_symbol(
        cls, inputs: np.ndarray, answers: np.ndarray, log_probs: np.ndarray, labels: np.ndarray
    ) -> "Trace":
        """Of rows written symbol by symbol, each once: a point for each, lowest digit first.

        Canvases are ``uint8 [B, H, W]``; log-probabilities, ``float32 [B, H, W]``, are those of
        what was written, given what was before.
        """
        curves = []
        for i, masked in enumerate(inputs == symbols.MASK):
            right = (answers[i] == labels[i])[masked][::-1]
            outcome = f"row {'right' if right.all() else 'wrong'}"
            curves.append(ConfidenceCurve(np.exp(log_probs[i][masked][::-1]), right, 0, outcome))
        return cls("confidence symbol by symbol, as it writes", answers, curves)


class Predictor(ABC):
    """A model as it solves, of whatever family."""

    model: Any  # the network, in evaluation mode, where it is to run
    translation_invariant = False  # whether it answers alike wherever the same cells lie
    row_by_row = True  # whether a row follows from those above it, alone and as one of a solution
    proved = False  # whether it is right at every length on upright pages, see `trm prove`
    most_operands: int | None = None  # that problems can have; None: as many as the task knows
    cell_by_cell = False  # whether it works a row out cell by cell from the right, without steps
    on_step: OnStep | None = None  # who is shown how a row comes about; a GPT shows nothing

    def for_any_view(self, task: Task) -> "Predictor":
        """The same for canvases that may be turned, of which a cell model is sure of upright ones.

        ValueError: it can work on none.
        """
        return self

    def with_noise(self, noise: float, seed: int) -> "Predictor":
        """The same, able to work on a canvas several times, with noise on its states.

        ValueError: it has no states to put noise on.
        """
        raise ValueError(
            "noise goes onto the states of a recursive model, and this model has none: leave out "
            "--rollouts and --noise"
        )

    @abstractmethod
    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        """Fill in the masked row of every canvas ``uint8 [B, H, W]``.

        ``rollouts``, int64 [B], tell which noise each gets, see `with_noise`; 0, or None: none.
        """

    def clear_cache(self) -> None:  # noqa: B027 - most remember nothing
        """Drop what is remembered of earlier canvases; the next ones take all the work again."""

    def watched(self, on_step: OnStep) -> "Predictor":
        """The same, with somebody to show steps to."""
        one = copy(self)
        one.on_step = on_step
        return one

    def tokens(self, canvases: np.ndarray) -> torch.Tensor:
        """Canvases ``uint8 [B, H, W]`` where the model is."""
        return torch.from_numpy(canvases).to(next(self.model.parameters()).device)

    @property
    def device(self) -> str:
        """The kind of device that it computes on: cpu, cuda or mps."""
        return str(next(self.model.parameters()).device.type)

    def accepts(self, height: int, width: int) -> bool:
        """Whether the model can work on canvases of that size."""
        return bool(self.model.accepts(height, width))

    def pairs(self, height: int, width: int) -> int:
        """At most how many pairs of cells of such a canvas attend to each other."""
        return (height * width) ** 2

    def at_once(self, height: int, width: int) -> int:
        """How many canvases are filled at once where there are more than enough of them."""
        most = 2**18 if self.device == "cpu" else 2**27  # pairs of cells that attend to each other
        return max(1, most // self.pairs(height, width))

    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        """Fill in the masked rows of ``uint8 [B, H, W]``, and say how, judged by labels as large.

        ``steps`` supervision steps are shown of a model that has them; None: as it solves with.
        """
        raise NotImplementedError

    def free_running(self, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
        """Fill every row of every canvas, each from the rows that it wrote itself.

        ``on_row`` is called with the step and all canvases before each row (masked) and after.
        """
        return free_running(lambda inputs, *_: self(inputs), drawing, on_row)

    def free_running_views(
        self, drawing: Drawing, views: Sequence[View], rollouts: np.ndarray | None = None
    ) -> Rollout:
        """As `free_running`, each sample seen in a view of its own from the first row to the last.

        Views move no working off its canvas; what was written is in the problems' own frame.
        ``rollouts`` are as for `__call__`.
        """

        def fill(inputs: np.ndarray, active: np.ndarray, step: int) -> Prediction:
            with_noise = None if rollouts is None else rollouts[active]
            return self.in_views(inputs, [views[i] for i in active], with_noise)

        return free_running(fill, drawing)

    def in_views(
        self, inputs: np.ndarray, views: Sequence[View], rollouts: np.ndarray | None = None
    ) -> Prediction:
        """Fill in the masked rows of canvases, each seen in a view of its own.

        As they are masked already, the mask moves with them. What looks the same in two views, as
        small canvases often do, is worked out once; to a `translation_invariant` model it looks the
        same wherever it lies. All that is returned is in the problems' own frame. ``rollouts`` are
        as for `__call__`.
        """
        # Views keep the room of a solution on its canvas. What a model has written beside it may
        # come in again at the other edge, and goes back on undoing.
        viewed = apply_views(views, inputs)
        if self.translation_invariant:
            ups, _, lefts, _ = possible_shifts(viewed != symbols.BLANK).tolist()
            views = [
                View(view.symmetry, view.down - up, view.right - left)
                for view, up, left in zip(views, ups, lefts, strict=True)
            ]
            viewed = apply_views(views, inputs)
        seen = viewed.reshape(len(viewed), -1)
        if rollouts is not None:
            seen = np.concatenate([seen, rollouts[:, None]], axis=1)
        _, first, which = np.unique(seen, axis=0, return_index=True, return_inverse=True)
        parts = np.split(first, range(most := self.at_once(*inputs.shape[1:]), len(first), most))
        filled = Prediction.joined(
            [self(viewed[i]) if rollouts is None else self(viewed[i], rollouts[i]) for i in parts]
        ).take(which.reshape(-1))
        canvases = undo_views(views, filled.canvases)
        steps = np.zeros_like(filled.steps)
        steps[first] = filled.steps[first]  # what was worked out once has cost once
        return replace(filled, canvases=canvases, steps=steps)


def free_running(fill: Fill, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
    """Fill every row of every canvas, from the operands alone, see `Predictor.free_running`."""
    rollout = Rollout.begun(drawing)
    canvases = rollout.canvases
    for step in range(int(drawing.steps.max())):
        active = np.flatnonzero(drawing.steps > step)
        answer = drawing.answer_cells(step)[active]
        inputs = np.where(answer, np.uint8(symbols.MASK), canvases[active])
        if on_row:
            shown = canvases.copy()
            shown[active] = inputs
            on_row(step, shown)
        filled = fill(inputs, active, step)
        canvases[active] = np.where(answer, filled.canvases, inputs)
        rollout.confidence[active, step] = filled.confidence
        rollout.steps[active, step] = filled.steps
        rollout.settled[active, step] = filled.settled
        if on_row:
            on_row(step, canvases)
    return rollout


class TeacherForced(NamedTuple):
    """Single rows that a model filled, each from the true rows before it: all steps in a batch."""

    steps: RowSteps
    filled: Prediction
    cells_right: np.ndarray  # float [N], share of each row's masked cells that are right
    rows_exact: np.ndarray  # bool [N]


def teacher_forced(
    predictor: Callable[[np.ndarray], Prediction],
    drawing: WorkedDrawing,
    written: Rollout | None = None,
) -> TeacherForced:
    """Fill every row of every problem from the true rows before it.

    The model sees as many rows at once as there are problems, all first rows before all second
    ones, as in `free_running`. If ``written`` is what the same model wrote on its own, and it is
    `row_by_row`, its rows below rows that are right are not worked out again.
    """
    steps, size = row_steps(drawing), len(drawing)
    known = np.zeros(len(steps.step), dtype=bool)
    parts = []
    if written is not None:
        below_right = np.logical_and.accumulate(drawing.rows_right(written.canvases), axis=1)
        below_right = np.pad(below_right, ((0, 0), (1, 0)), constant_values=True)
        known = below_right[steps.problem, steps.step]
        of, at = steps.problem[known], steps.step[known]
        cells = np.where(steps.answer[known], written.canvases[of], steps.inputs[known])
        figures = written.confidence[of, at], written.steps[of, at]
        parts.append(Prediction(cells, *figures, settled=written.settled[of, at]))
    order = np.flatnonzero(~known)
    order = order[steps.step[order].argsort(kind="stable")]
    parts += [predictor(steps.inputs[order[i : i + size]]) for i in range(0, len(order), size)]
    place = np.concatenate([np.flatnonzero(known), order]).argsort()
    filled = Prediction.joined(parts).take(place)
    right = (filled.canvases == steps.labels) & steps.answer
    share = right.sum(axis=(1, 2)) / steps.answer.sum(axis=(1, 2))
    return TeacherForced(steps, filled, share, share == 1)
