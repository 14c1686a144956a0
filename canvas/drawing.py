"""Problems on canvases, their row steps, and reversed sequences; `canvas.layouts` draws them."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from canvas import symbols

IGNORE = -100  # a label that no loss counts


@dataclass(frozen=True)
class Drawing:
    """A batch of problems on canvases of one size, to be worked out: nothing of the answer."""

    heights: np.ndarray  # int64 [B], as the widths: the space that each solution needs at most
    widths: np.ndarray
    first_step: np.ndarray  # int64 [B], the first of its rows that has to be worked out
    canvases: np.ndarray  # uint8 [B, H, W] ids, blank but for what is given
    given: np.ndarray  # bool [B, H, W], cells that are shown from the start
    top: np.ndarray  # int64 [B], as left: where each worked solution's space begins
    left: np.ndarray

    def __len__(self) -> int:
        return len(self.heights)

    @property
    def steps(self) -> np.ndarray:
        """Rows to work out, ``int64 [B]``."""
        return self.heights - self.first_step

    def row_of_step(self, step: np.ndarray | int) -> np.ndarray:
        """The canvas row ``int64 [B]`` that a step (from 0) fills in."""
        return self.top + self.first_step + step

    def __getitem__(self, index: np.ndarray) -> Self:
        """Some of the problems, in another order, or more than once: ``int64 [N]``."""
        return replace(self, **{name: part[index] for name, part in vars(self).items()})

    def answer_cells(self, step: np.ndarray | int) -> np.ndarray:
        """The cells that a step fills in, ``bool [B, H, W]``: its full row but for the givens."""
        row = np.arange(self.canvases.shape[1]) == self.row_of_step(step)[:, None]
        return row[:, :, None] & ~self.given

    @property
    def unknown(self) -> np.ndarray:
        """All cells that are filled in, ``bool [B, H, W]``: full rows but for the givens."""
        row = np.arange(self.canvases.shape[1]) - self.row_of_step(0)[:, None]
        return ((row >= 0) & (row < self.steps[:, None]))[:, :, None] & ~self.given

    @property
    def space(self) -> np.ndarray:
        """The space that each solution needs at most, blank cells in it too: ``bool [B, H, W]``."""
        parts = []
        for size, first, extent in zip(
            self.canvases.shape[1:], (self.top, self.left), (self.heights, self.widths), strict=True
        ):
            line = np.arange(size) - first[:, None]
            parts.append((line >= 0) & (line < extent[:, None]))
        return parts[0][:, :, None] & parts[1][:, None, :]

    @property
    def masked(self) -> np.ndarray:
        """The canvases with all cells masked that are to be filled in, uint8 [B, H, W]."""
        return np.where(self.unknown, np.uint8(symbols.MASK), self.canvases)


@dataclass(frozen=True)
class WorkedDrawing(Drawing):
    """The same with the worked solutions, for training and evaluation."""

    truth: np.ndarray  # uint8 [B, H, W] ids, blank outside a worked solution
    kinds: np.ndarray  # int8 [B, R], which of `canvas.layouts.ROW_KINDS`; `ABSENT` below the last

    def rows_right(self, canvases: np.ndarray) -> np.ndarray:
        """Which steps' rows are right in every cell: ``bool [B, S]``, False beyond the last."""
        steps = np.arange(int(self.steps.max()))
        rows = self.row_of_step(0)[:, None] + steps
        same = (canvases == self.truth).all(axis=2)
        present = steps < self.steps[:, None]
        return same[np.arange(len(self))[:, None], rows.clip(max=same.shape[1] - 1)] & present


class RowSteps(NamedTuple):
    """A batch of single steps: fill in one row."""

    inputs: np.ndarray  # uint8 [B, H, W], the rows so far, the next masked over the full width
    labels: np.ndarray  # uint8 [B, H, W], the same with that row filled in
    answer: np.ndarray  # bool [B, H, W], the masked cells
    problem: np.ndarray  # int64 [B], which problem of the drawing each step belongs to
    step: np.ndarray  # int64 [B], which of its steps, from 0


def row_steps(drawing: WorkedDrawing, step: np.ndarray | None = None) -> RowSteps:
    """One step of each of B problems, ``int64 [B]`` from 0; None: all, problem by problem."""
    problem = np.arange(len(drawing))
    if step is None:
        problem = problem.repeat(drawing.steps)
        step = np.arange(len(problem)) - (np.cumsum(drawing.steps) - drawing.steps)[problem]
    row = np.arange(drawing.truth.shape[1])[:, None]
    target = (drawing.row_of_step(0)[problem] + step)[:, None, None]
    unknown = ~drawing.given[problem]
    answer = unknown & (row == target)
    labels = np.where(unknown & (row > target), np.uint8(symbols.BLANK), drawing.truth[problem])
    inputs = np.where(answer, np.uint8(symbols.MASK), labels)
    return RowSteps(inputs, labels, answer, problem, step)


def sequences(drawing: WorkedDrawing) -> tuple[np.ndarray, np.ndarray]:
    """Canvases as sequences in the order in which people write: what a GPT reads.

    Every row is reversed, so that low digits come first, and ends with ``#``; a start and an end
    symbol enclose the whole. Ids and labels are ``int64 [B, H · (W + 1) + 1]``; labels are the ids
    one place on, and `IGNORE` where `tokens_to_write` is False.
    """
    ids = to_sequences(drawing.truth)
    following = np.concatenate([ids[:, 1:], np.full((len(ids), 1), symbols.END)], axis=1)
    return ids, np.where(tokens_to_write(drawing)[:, 1:], following, IGNORE)


def tokens_to_write(drawing: Drawing) -> np.ndarray:
    """Which tokens of a sequence follow from what is before them: ``bool [B, H · (W + 1) + 2]``.

    All behind the operands' last row, the end included, but for a lattice's margin digits.
    """
    B, height, width = drawing.given.shape
    shown = np.zeros((B, height, width + 1), dtype=bool)
    shown[:, :, :width] = drawing.given[:, :, ::-1]
    free = np.ones((B, 2 + height * (width + 1)), dtype=bool)
    free[:, 1:-1] = ~shown.reshape(B, -1)
    first = drawing.row_of_step(0) * (width + 1)
    free[np.arange(free.shape[1]) <= first[:, None]] = False
    return free


def to_sequences(canvases: np.ndarray) -> np.ndarray:
    """Canvases ``uint8 [B, H, W]`` as ids ``int64 [B, H · (W + 1) + 1]``, without an end symbol."""
    B, height, width = canvases.shape
    ids = np.full((B, 1 + height * (width + 1)), symbols.ROW_END, dtype=np.int64)
    ids[:, 0] = symbols.START
    ids[:, 1:].reshape(B, height, width + 1)[:, :, :width] = canvases[:, :, ::-1]
    return ids


def from_sequences(ids: np.ndarray, height: int, width: int) -> np.ndarray:
    """Canvases ``uint8 [B, H, W]`` from sequences; what is left out or after an end is blank."""
    cells = np.full((len(ids), height * (width + 1)), symbols.BLANK, dtype=np.uint8)
    body = ids[:, 1 : 1 + cells.shape[1]]
    ended = (body == symbols.END).cumsum(axis=1) > 0
    cells[:, : body.shape[1]] = np.where(ended, symbols.BLANK, body)
    return cells.reshape(len(ids), height, width + 1)[:, :, :width][:, :, ::-1]
