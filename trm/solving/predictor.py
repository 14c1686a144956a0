"""Base class of predictors, which fill in canvases with a model; traces of rows over steps."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from augment.views import View, apply_views, possible_shifts, undo_views
from canvas import symbols
from canvas.drawing import Drawing
from canvas.task import Task
from trm.progress import Report, part, silent
from trm.solving.rollout import OnRow, Prediction, Rollout, free_running

# Called after each supervision step, with its number, from 1, and for samples still being solved
# their indices, int64 [N], cells, uint8 [N, H, W], and the confidence, float32 [N]. A predictor
# that fills in all rows at once gives the confidence of every canvas row, float32 [N, H]; NaN
# where a row has not settled. It also calls it with 0 and the random symbols that it starts from.
OnStep = Callable[[int, np.ndarray, np.ndarray, np.ndarray], None]


class ConfidenceCurve(NamedTuple):
    """Confidence while one row is filled in, at N points."""

    confidence: np.ndarray  # float [N], 0 to 1
    right: np.ndarray  # bool [N], whether the row or symbol is correct at that point
    halt: int  # the point, from 1, at which the model stops; 0 where it does not
    outcome: str  # the result in words


class Trace(NamedTuple):
    """Record of a model that fills in a batch of rows."""

    heading: str  # of the curves
    answers: np.ndarray  # uint8 [B, H, W], the model's output; only masked cells count
    curves: list[ConfidenceCurve]  # one for each row
    points: str = "supervision step"  # name of the axis that counts the points of a curve

    @classmethod
    def by_symbol(
        cls, inputs: np.ndarray, answers: np.ndarray, log_probs: np.ndarray, labels: np.ndarray
    ) -> "Trace":
        """Trace rows written symbol by symbol: a point for each symbol, lowest digit first.

        Args:
            inputs: masked canvases, uint8 [B, H, W].
            answers: the model's output, uint8 [B, H, W].
            log_probs: of each symbol given those before it, float32 [B, H, W].
            labels: true canvases, uint8 [B, H, W].
        """
        curves = []
        for i, masked in enumerate(inputs == symbols.MASK):
            right = (answers[i] == labels[i])[masked][::-1]
            outcome = f"row {'correct' if right.all() else 'incorrect'}"
            curves.append(ConfidenceCurve(np.exp(log_probs[i][masked][::-1]), right, 0, outcome))
        points = "symbol of the row, lowest digit first"
        return cls("confidence symbol by symbol, as it writes", answers, curves, points)


def generator_of(seed: int, canvas: np.ndarray, purpose: object) -> torch.Generator:
    """Return a generator, on the CPU, that is a function of a seed, a canvas and a purpose.

    Args:
        seed: any whole number.
        canvas: uint8 [H, W].
        purpose: what is drawn; generators of different purposes differ.
    """
    about = f"{seed} {purpose} {canvas.shape} ".encode() + canvas.tobytes()
    number = int.from_bytes(hashlib.sha256(about).digest()[:8], "little", signed=True)
    return torch.Generator().manual_seed(number)


class Predictor(ABC):
    """Interface for solving with a model of any family."""

    model: Any  # the network, in evaluation mode, on the device where it is to run
    translation_invariant = False  # whether shifting all cells never changes the output
    row_by_row = True  # whether a row depends only on those above it
    most_confidence = 1.0  # of a row; below 1 where something is known that the model is not told
    doubt = ""  # why confidence is not calibrated although all inputs of cells are known; a reason
    certain = False  # whether it is known to be correct at every length on upright canvases
    most_operands: int | None = None  # limit on a problem's operands; None: the task's
    stepwise = False  # whether it takes supervision steps, at least when it is watched
    unit = "supervision steps"  # name of a row's steps
    max_loops = 1  # loops of a symbol; with halting the most; above 1 in a looped GPT alone
    rows_at_once = False  # whether it fills in all rows of a canvas together
    start_seed: int | None = None  # of random first states; None: the model's own first state
    on_step: OnStep | None = None  # callback after a step; a GPT never calls it
    report: Report = staticmethod(silent)  # called as the work goes on, see `reporting`

    def for_any_view(self, task: Task) -> "Predictor":
        """Return a predictor for canvases that may be turned.

        Some models have confidence only in upright ones.

        Raises:
            ValueError: the model cannot work on turned canvases.
        """
        return self

    def for_guesses(self, task: Task) -> "Predictor":
        """Return a predictor for canvases that are upright if a guess of it is right."""
        return self.for_any_view(task)

    def with_noise(self, noise: float, seed: int) -> "Predictor":
        """Return a predictor that can work on a canvas several times, with noise on its states.

        Raises:
            ValueError: the model has no states.
        """
        raise ValueError(
            "noise is added to the states of a recursive model, and this model has none: leave out "
            "--rollouts and --noise"
        )

    def from_noise(self, seed: int = 0) -> "Predictor":
        """Return a predictor that starts every canvas from a random state.

        Raises:
            ValueError: the model takes no supervision steps.
        """
        if not self.stepwise:
            raise ValueError(
                "--start noise is for models that take supervision steps, and this one takes none: "
                "leave it out"
            )
        one = copy(self)
        one.start_seed = seed
        return one

    def longest_chain(self, drawing: Drawing) -> np.ndarray | None:
        """Return the most steps that each problem can need, int64 [B]; None: it is not known."""
        return None

    def for_task(self, task: Task) -> "Predictor":
        """Return the predictor for a task's problems.

        Raises:
            OwnCodeError: what the model follows and the task's layout contradict each other.
        """
        return self

    def steps_of(self, inputs: np.ndarray) -> int:
        """Return the supervision steps that the slowest of some canvases takes in solving.

        Args:
            inputs: canvases, uint8 [B, H, W].
        """
        return int(self(inputs).steps.max())

    @abstractmethod
    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        """Fill in the masked row of every canvas.

        Args:
            inputs: canvases, uint8 [B, H, W].
            rollouts: number that selects the noise of each canvas, int64 [B], see `with_noise`;
                0 or None: no noise.
        """

    def clear_cache(self) -> None:  # noqa: B027 - most have no cache
        """Clear cached results of earlier canvases."""

    def watched(self, on_step: OnStep) -> "Predictor":
        """Return a copy that calls ``on_step``."""
        one = copy(self)
        one.on_step = on_step
        return one

    def reporting(self, report: Report) -> "Predictor":
        """Return a copy that calls ``report`` as its work goes on."""
        one = copy(self)
        one.report = report
        return one

    def tokens(self, canvases: np.ndarray) -> torch.Tensor:
        """Return canvases, uint8 [B, H, W], as a tensor on the model's device."""
        return torch.from_numpy(canvases).to(next(self.model.parameters()).device)

    @property
    def device(self) -> str:
        """Kind of the model's device: cpu, cuda or mps."""
        return str(next(self.model.parameters()).device.type)

    def accepts(self, height: int, width: int) -> bool:
        """Return whether the model can work on canvases of that size."""
        return bool(self.model.accepts(height, width))

    def pairs(self, height: int, width: int) -> int:
        """Return an upper bound of the pairs of cells that attend to each other."""
        return (height * width) ** 2

    def at_once(self, height: int, width: int) -> int:
        """Return the largest number of canvases in one batch."""
        most = 2**18 if self.device == "cpu" else 2**27  # pairs of cells that attend to each other
        return max(1, most // self.pairs(height, width))

    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        """Fill in masked rows and record the confidence after each step.

        Args:
            inputs: canvases, uint8 [B, H, W].
            labels: true canvases, uint8 [B, H, W].
            steps: supervision steps to record, if the model has any; None: as in solving.
        """
        raise NotImplementedError

    def last_changes(self, drawing: Drawing) -> np.ndarray:
        """Return the loop, from 1, that last changed each cell of the free-running solutions.

        A cell's symbol after a loop is the likeliest one then. The result is int64 [B, H, W], 0 for
        cells that were not filled in. Only models with `max_loops` above 1 have loops.
        """
        raise NotImplementedError

    def free_running(self, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
        """Fill every row of every canvas, each from the rows that it wrote itself.

        ``on_row`` is called with the step and all canvases before each row (masked) and after.
        """
        return free_running(lambda inputs, *_: self(inputs), drawing, on_row, self.report)

    def free_running_views(
        self, drawing: Drawing, views: Sequence[View], rollouts: np.ndarray | None = None
    ) -> Rollout:
        """Fill canvases as `free_running` does, each in a view of its own for all its rows.

        Views keep every solution on its canvas. The output is in the problems' own frame.
        ``rollouts`` are as for `__call__`.
        """

        def fill(inputs: np.ndarray, active: np.ndarray, step: int) -> Prediction:
            with_noise = None if rollouts is None else rollouts[active]
            return self.in_views(inputs, [views[i] for i in active], with_noise)

        return free_running(fill, drawing, report=self.report)

    def in_views(
        self, inputs: np.ndarray, views: Sequence[View], rollouts: np.ndarray | None = None
    ) -> Prediction:
        """Fill in the masked rows of canvases, each in a view of its own.

        The mask moves with the canvas. Equal canvases in different views, which are frequent for
        small canvases, are solved once. For a `translation_invariant` model, shifted canvases are
        equal. The output is in the problems' own frame. ``rollouts`` are as for `__call__`.
        """
        # Views keep the room of a solution on its canvas. Symbols that a model wrote outside this
        # room may wrap around the edge; undoing the view moves them back.
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
        found = []
        for number, i in enumerate(parts):
            with part(self.report, number, number + 1, len(parts)):
                found.append(self(viewed[i], None if rollouts is None else rollouts[i]))
        filled = Prediction.joined(found).take(which.reshape(-1))
        canvases = undo_views(views, filled.canvases)
        steps = np.zeros_like(filled.steps)
        steps[first] = filled.steps[first]  # a canvas that was solved once counts once
        return replace(filled, canvases=canvases, steps=steps)
