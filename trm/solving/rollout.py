"""Row by row: a model fills a canvas, each row built on the rows it wrote itself."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol, TypeVar

import numpy as np
import torch

from canvas import symbols
from canvas.render import Drawing, RowSteps, row_steps
from trm.models.recursive import TinyRecursiveModel


@dataclass(frozen=True)
class Filled:
    """What a model wrote on a batch of canvases, one row each.

    Attributes:
        canvases: ``uint8 [B, H, W]``, every cell as the model sees it; only masked cells count.
        confidence: ``float32 [B]``, 0 to 1: how sure the model is that the row is right.
        steps: ``int64 [B]``, supervision steps used.
    """

    canvases: np.ndarray
    confidence: np.ndarray
    steps: np.ndarray


class RowFiller(Protocol):
    """A model that fills in the masked row of every canvas ``uint8 [B, H, W]``."""

    def __call__(self, inputs: np.ndarray) -> Filled:
        """Fill one row of each canvas."""


Cells = TypeVar("Cells", np.ndarray, torch.Tensor)


def settled(halt_logits: Cells, cells: Cells, before: Cells, masked: Cells) -> Cells:
    """Whether samples may stop: the row is held right, and is what it was a step before.

    The halting head alone stops too early: of rows that it trusts after one step, some still
    change, mostly for the better.

    Args:
        halt_logits: ``[..., B]``, above 0 where the row is held more likely right than wrong.
        cells: ``[..., B, H, W]``, the symbols after this step.
        before: the same after the step before.
        masked: ``bool [B, H, W]``, the cells to fill in.

    Returns:
        ``bool [..., B]``.
    """
    return (halt_logits > 0) & ((cells == before) | ~masked).all(-1).all(-1)


class RecursiveFiller:
    """Fills rows with a recursive model, in as many supervision steps as each sample needs.

    A sample stops when it has `settled`; from then on it costs nothing.

    Args:
        model: on the device where it is to run.
        max_steps: supervision steps at most; may exceed those of training.
        halt: False runs every sample to ``max_steps``.
    """

    def __init__(self, model: TinyRecursiveModel, max_steps: int, halt: bool = True) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        self.model, self.max_steps, self.halt = model, max_steps, halt

    @torch.no_grad()
    def __call__(self, inputs: np.ndarray) -> Filled:
        """See `RowFiller`."""
        device = next(self.model.parameters()).device
        tokens = torch.from_numpy(inputs).to(device)
        cells = torch.empty_like(tokens)
        confidence = torch.empty(len(tokens), device=device)
        used = torch.empty(len(tokens), dtype=torch.long, device=device)
        context = self.model.encode(tokens)
        state = self.model.initial_state(context)
        active = torch.arange(len(tokens), device=device)
        before, masked = tokens, tokens == symbols.MASK
        for step in range(1, self.max_steps + 1):
            state = self.model.iterate(context, state)
            logits, halt_logits = self.model.read(state, context)
            now = logits.argmax(dim=-1).to(cells.dtype)
            # After the first step there is nothing to compare with.
            done = settled(halt_logits, now, before, masked) & (self.halt and step > 1)
            if step == self.max_steps:
                done = torch.ones_like(done)
            before = now
            if not done.any():
                continue
            finished = active[done]
            cells[finished] = now[done]
            confidence[finished] = halt_logits[done].float().sigmoid()
            used[finished] = step
            active, before, masked = active[~done], before[~done], masked[~done]
            if not len(active):
                break
            state, context = state.select(~done), context.select(~done)
        return Filled(cells.cpu().numpy(), confidence.cpu().numpy(), used.cpu().numpy())


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


def free_running(
    filler: RowFiller, drawing: Drawing, on_row: Callable[[int, np.ndarray], None] | None = None
) -> Rollout:
    """Fill every row of every canvas, from the operands alone.

    Args:
        filler: the model.
        drawing: problems; of the finished working only the geometry and the givens are shown to
            the model, the rest is compared with what it wrote.
        on_row: called with the step and all canvases before each row (the row masked) and after.
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


def teacher_forced(filler: RowFiller, drawing: Drawing) -> TeacherForced:
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
