"""Row by row: a model fills a canvas, each row built on the rows it wrote itself."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from canvas import symbols
from canvas.render import Drawing, RowSteps, row_steps

OnRow = Callable[[int, np.ndarray], None]


@dataclass(frozen=True)
class Filled:
    """What a model wrote on a batch of canvases, one row each.

    Attributes:
        canvases: ``uint8 [B, H, W]``, every cell as the model sees it; only masked cells count.
        confidence: ``float32 [B]``, 0 to 1: how sure the model is that the row is right.
        steps: ``int64 [B]``, supervision steps used; 0 where a model has no such thing.
    """

    canvases: np.ndarray
    confidence: np.ndarray
    steps: np.ndarray


@dataclass(frozen=True)
class Rollout:
    """Canvases that a model filled on its own, one column of figures for each row it wrote.

    Attributes:
        canvases: ``uint8 [B, H, W]``.
        rows_exact: ``bool [B, S]``, every cell of the row as it should be; False beyond the last.
        confidence: ``float32 [B, S]``, 1 beyond the last row.
        steps: ``int64 [B, S]``, 0 beyond the last row.
    """

    canvases: np.ndarray
    rows_exact: np.ndarray
    confidence: np.ndarray
    steps: np.ndarray


@dataclass(frozen=True)
class Curve:
    """How sure a model is along the way to one row.

    Attributes:
        confidence: ``float [N]``, 0 to 1, at each point of the way.
        right: ``bool [N]``, whether what it holds there is right.
        halt: the point, from 1, at which it stops; 0 where it does not.
        outcome: how it ended, in words.
    """

    confidence: np.ndarray
    right: np.ndarray
    halt: int
    outcome: str


class Look(Protocol):
    """A batch of rows under the glass.

    Attributes:
        heading: what the curves show.
        answers: ``uint8 [B, H, W]``, what the model wrote; only masked cells count.
    """

    heading: str

    @property
    def answers(self) -> np.ndarray: ...  # noqa: D102

    def curves(self, labels: np.ndarray) -> list[Curve]:
        """One curve a sample, judged by labels ``uint8 [B, H, W]``."""


class Filler(ABC):
    """A model as it solves, of whatever family."""

    model: Any  # the network, in evaluation mode, where it is to run

    @abstractmethod
    def __call__(self, inputs: np.ndarray) -> Filled:
        """Fill in the masked row of every canvas ``uint8 [B, H, W]``."""

    @abstractmethod
    def accepts(self, height: int, width: int) -> bool:
        """Whether the model can work on canvases of that size."""

    @abstractmethod
    def look(self, inputs: np.ndarray, steps: int | None = None) -> Look:
        """Fill in the masked rows of ``uint8 [B, H, W]`` and tell how.

        Args:
            inputs: canvases with a masked row.
            steps: supervision steps to show, for a model that has them; None: as many as it solves
                with.
        """

    def free_running(self, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
        """Fill every row of every canvas, each from the rows that it wrote itself.

        Args:
            drawing: problems; of the finished working only the geometry and the givens are shown
                to the model, the rest is compared with what it wrote.
            on_row: called with the step and all canvases before each row (the row masked) and
                after.
        """
        return free_running(self, drawing, on_row)


def free_running(
    filler: Callable[[np.ndarray], Filled], drawing: Drawing, on_row: OnRow | None = None
) -> Rollout:
    """Fill every row of every canvas, from the operands alone.

    Args:
        filler: fills in the masked row of canvases, see `Filler`.
        drawing, on_row: see `Filler.free_running`.
    """
    canvases = drawing.unsolved()
    B, S = len(drawing), int(drawing.steps.max())
    rows_exact = np.zeros((B, S), dtype=bool)
    confidence = np.ones((B, S), dtype=np.float32)
    steps = np.zeros((B, S), dtype=np.int64)
    for step in range(S):
        active = np.flatnonzero(drawing.steps > step)
        answer = drawing.answer_cells(step)[active]
        inputs = np.where(answer, np.uint8(symbols.MASK), canvases[active])
        if on_row:
            shown = canvases.copy()
            shown[active] = inputs
            on_row(step, shown)
        filled = filler(inputs)
        canvases[active] = np.where(answer, filled.canvases, inputs)
        right = (filled.canvases == drawing.canvases[active]) | ~answer
        rows_exact[active, step] = right.all(axis=(1, 2))
        confidence[active, step], steps[active, step] = filled.confidence, filled.steps
        if on_row:
            on_row(step, canvases)
    return Rollout(canvases, rows_exact, confidence, steps)


@dataclass(frozen=True)
class TeacherForced:
    """Single rows that a model filled, each from the true rows before it: all steps in a batch."""

    steps: RowSteps
    filled: Filled
    cells_right: np.ndarray  # float [N], share of each row's masked cells that are right
    rows_exact: np.ndarray  # bool [N]


def teacher_forced(filler: Callable[[np.ndarray], Filled], drawing: Drawing) -> TeacherForced:
    """Fill every row of every problem from the true rows before it.

    The model sees as many rows at once as there are problems, as in `free_running`.
    """
    steps, size = row_steps(drawing), len(drawing)
    parts = [filler(steps.inputs[i : i + size]) for i in range(0, len(steps.inputs), size)]
    filled = Filled(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Filled))
    )
    right = (filled.canvases == steps.labels) & steps.answer
    share = right.sum(axis=(1, 2)) / steps.answer.sum(axis=(1, 2))
    return TeacherForced(steps, filled, share, share == 1)
