"""Base class of predictors, which fill in canvases with a model, and their settings."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from augment.views import View
from canvas import symbols
from canvas.choices import refuse_renamed
from canvas.drawing import Drawing
from canvas.problems import MOST_CELLS
from canvas.task import Task
from trm.solving.rows import (
    FilledCanvases,
    OnRow,
    Prediction,
    fill_row_by_row,
    in_views,
    solve_once,
)
from trm.solving.trace import ConfidenceCurve as ConfidenceCurve  # its released place
from trm.solving.trace import Trace

# Called after each supervision step, with its number, from 1, and for samples still being solved
# their indices, int64 [N], cells, uint8 [N, H, W], and the confidence, float32 [N]. A predictor
# that fills in all rows at once gives the confidence of every canvas row, float32 [N, H]; NaN
# where a row has not settled. It also calls it with 0 and the random symbols that it starts from.
OnStep = Callable[[int, np.ndarray, np.ndarray, np.ndarray], None]


@dataclass(frozen=True)
class Sampling:
    """Settings of a GPT that samples its symbols, see `trm.models.sampling.Sampler`.

    Attributes:
        temperature: divisor of the logits, above 0.
        top_k: number of likeliest symbols that can be chosen; None: all.
        seed: of the choices, which also depend on the canvas, and on nothing else.

    Raises:
        ValueError: a value is out of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"a temperature is a finite number above 0, not {self.temperature}; leave it out "
                "for the likeliest symbols"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top-k is a number of symbols from 1 up, not {self.top_k}")

    def __str__(self) -> str:
        among = "" if self.top_k is None else f", top-k {self.top_k}"
        return f"sampled at temperature {self.temperature:g}{among}, seed {self.seed}"


def masked(inputs: Any) -> Any:
    """Return the masked cells of canvases of ids, bool of the shape of ``inputs``."""
    return inputs == symbols.MASK


@dataclass(frozen=True)
class Options:
    """Settings of solving that do not belong to the model: stops, chance and callbacks.

    Raises:
        ValueError: the patience is below 1.
    """

    unknown: Callable[[Any], Any] = masked  # returns the cells to fill in, as `masked` does
    halt: bool = True  # False: no row stops before the most supervision steps
    # Unchanged steps after which a row stops even if the model predicts that it is incorrect, as in
    # a view that it was trained to reject; None: it goes on.
    patience: int | None = None
    noise: float = 0.0  # standard deviation of noise on the states, in rollouts above 0
    seed: int = 0  # of that noise
    start_seed: int | None = None  # of random initial states; None: the model's own
    sampling: Sampling | None = None  # of a GPT; None: the likeliest symbols
    on_step: OnStep | None = None  # callback after a step; a GPT never calls it
    on_row: OnRow | None = None  # callback before and after each row of a free-running solution

    def __post_init__(self) -> None:
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"a patience is one unchanged step or more, not {self.patience}")


class Predictor(ABC):
    """Interface for solving with a model of any family.

    A family defines ``__call__``, which fills in one row of each canvas, and which
    `free_running` calls row after row.

    Attributes:
        model: the network, in evaluation mode, on the device where it is to run.
        fills: what is filled in at once. A ``row`` in supervision steps, from the rows above it;
            all rows of a ``canvas`` together, also in supervision steps, at least when the model is
            watched; or one ``symbol`` of a sequence after the other, as a GPT.
        translation_invariant: True if shifting all cells never changes the output.
        most_operands: limit on a problem's operands; None: the task's.
        certain: True if the model is known to be correct at every length, upright.
        uncalibrated_reason: why its confidence is not calibrated, whatever the problem; empty: it
            is.
        max_steps: most steps of a row, or loops of a symbol; None: not limited.
        options: settings that do not belong to the model.
    """

    model: Any
    fills: Literal["row", "canvas", "symbol"] = "row"
    translation_invariant: bool = False
    most_operands: int | None = None
    certain: bool = False
    uncalibrated_reason: str = ""
    max_steps: int | None = None
    options: Options = Options()

    def __init_subclass__(cls) -> None:
        """Refuse an earlier name."""
        refuse_renamed(cls, {"unit": "fills"})

    @abstractmethod
    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        """Fill in the masked row of every canvas.

        Args:
            inputs: canvases, uint8 [B, H, W].
            rollouts: number that selects the noise of each canvas, int64 [B], see `Options`;
                0 or None: no noise.
        """

    def free_running(
        self,
        drawing: Drawing,
        views: Sequence[View] | None = None,
        problem_of: np.ndarray | None = None,
    ) -> FilledCanvases:
        """Fill every row of every canvas, each from the rows that it wrote itself.

        Args:
            drawing: B problems.
            views: in which each canvas is filled, all its rows; they keep every solution on its
                canvas. The output is in the problems' own frame. None: as it is drawn.
            problem_of: problem that each canvas shows, int64 [B]; None: each shows another one.
                Where several views of a problem are equal, the first alone counts the steps.
        """

        def fill(inputs: np.ndarray, active: np.ndarray, row: int) -> Prediction:
            shown = None if problem_of is None else problem_of[active]
            if views is None:
                return solve_once(self, inputs, problem_of=shown)
            return in_views(self, inputs, [views[i] for i in active], shown)

        return fill_row_by_row(fill, drawing, self.options.on_row)

    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        """Fill in masked rows and record the confidence after each step.

        Args:
            inputs: canvases, uint8 [B, H, W].
            labels: true canvases, uint8 [B, H, W].
            steps: supervision steps to record, if the model has any; None: as in solving.
        """
        raise NotImplementedError

    def longest_chain(self, drawing: Drawing) -> np.ndarray | None:
        """Return the most steps that each problem can need, if all rows are filled in together.

        The result is int64 [B]; None: it is not known, or no steps are taken.
        """
        return None

    def for_task(self, task: Task, turned: bool = False) -> "Predictor":
        """Return the predictor for a task's problems.

        Args:
            task: of the problems.
            turned: whether canvases may be turned; some models have confidence in upright ones
                alone.

        Raises:
            OwnCodeError: what the model follows and the task's layout contradict each other.
            ValueError: the model cannot work on turned canvases.
        """
        return self

    def with_options(self, **changes: Any) -> Self:
        """Return a copy with other `Options`, and without cached results of earlier canvases.

        Raises:
            ValueError: the model takes no supervision steps, has no states for noise, or writes no
                symbols one by one.
        """
        if changes.get("sampling") and self.fills != "symbol":
            raise ValueError(
                "sampling is for GPTs, which write symbol by symbol, and this model fills in whole "
                "rows: leave out --temperature and --top-k"
            )
        if changes.get("noise") and self.fills != "row":
            raise ValueError(
                "noise is added to the states of a recursive model, and this model has none: leave "
                "out --rollouts and --noise"
            )
        if changes.get("start_seed") is not None and self.fills == "symbol":
            raise ValueError(
                "--start noise is for models that take supervision steps, and this one takes none: "
                "leave it out"
            )
        one = copy(self)
        one.options = replace(self.options, **changes)
        return one

    @property
    def steps_in_words(self) -> str:
        """Name of the steps of a row."""
        return "loops of a symbol" if self.fills == "symbol" else "supervision steps"

    @property
    def device(self) -> str:
        """Kind of the model's device: cpu, cuda or mps."""
        return str(next(self.model.parameters()).device.type)

    def at_once(self, height: int, width: int) -> int:
        """Return the largest number of canvases in one batch; 0: it accepts none of that size."""
        accepted = self.model.accepts(height, width)
        return batch_size(self.device, (height * width) ** 2) if accepted else 0

    def accepts(self, height: int, width: int) -> bool:
        """Return whether canvases of a size can be solved, at least one at a time."""
        return self.at_once(height, width) > 0


def batch_size(device: str, pairs: int) -> int:
    """Return the largest number of canvases in one batch; 0: a single one is too large.

    Args:
        device: kind of the model's device.
        pairs: of cells that attend to each other on a canvas, at most.
    """
    if pairs > MOST_CELLS**2:
        return 0
    return max(1, (2**18 if device == "cpu" else 2**27) // pairs)
