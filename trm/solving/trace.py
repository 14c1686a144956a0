"""What a recursive model thinks after each supervision step, without stopping it early."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from canvas.symbols import MASK
from trm.models.recursive import TinyRecursiveModel
from trm.solving.rollout import Curve

Cells = TypeVar("Cells", np.ndarray, torch.Tensor)


# Steps in succession that must leave a row as it is before it counts as settled.
PATIENCE = 2


def unchanged(cells: Cells, before: Cells, masked: Cells) -> Cells:
    """Whether a supervision step left rows as they were, ``bool [..., B]``.

    A row has settled, and its sample may stop, when it is held more likely right than wrong and
    `PATIENCE` steps in succession have left it so. The halting head alone stops too early: of rows
    that it trusts, some still change, mostly for the better. In a row longer than any of training a
    carry may still be on its way when one step changes nothing.

    Args:
        cells: ``[..., B, H, W]``, the symbols after the step.
        before: the same before it.
        masked: ``bool [B, H, W]``, the cells to fill in.
    """
    return ((cells == before) | ~masked).all(-1).all(-1)


@dataclass(frozen=True)
class Trace:
    """Every supervision step of a batch of rows.

    Attributes:
        canvases: ``uint8 [T, B, H, W]``, the most likely symbol of every cell after each of T
            supervision steps; only masked cells count.
        halt_logits: ``float32 [T, B]``, of "the row is right".
        masked: ``bool [B, H, W]``, the cells to fill in.
    """

    heading = "confidence over supervision steps"

    canvases: np.ndarray
    halt_logits: np.ndarray
    masked: np.ndarray

    @property
    def confidence(self) -> np.ndarray:
        """The probability, to the model, that the row is right: ``float32 [T, B]``."""
        return (1 / (1 + np.exp(-np.clip(self.halt_logits, -80, 80)))).astype(np.float32)

    @property
    def halts_at(self) -> np.ndarray:
        """The step, from 1, after which each sample would stop: ``int64 [B]``, 0 if none."""
        wants = self.halt_logits > 0
        same = np.zeros(wants.shape, dtype=bool)  # as after the step before
        same[1:] = unchanged(self.canvases[1:], self.canvases[:-1], self.masked)
        for back in range(PATIENCE):
            wants[:back] = False
            wants[back:] &= same[: len(same) - back]
        return np.where(wants.any(axis=0), wants.argmax(axis=0) + 1, 0)

    @property
    def answers(self) -> np.ndarray:
        """``uint8 [B, H, W]`` at the step of halting, or after the last step without one."""
        last = np.where(self.halts_at > 0, self.halts_at, len(self.canvases)) - 1
        return self.canvases[last, np.arange(self.canvases.shape[1])]

    def rows_exact(self, labels: np.ndarray) -> np.ndarray:
        """Whether every cell to fill in was right after each step.

        Args:
            labels: ``uint8 [B, H, W]``.

        Returns:
            ``bool [T, B]``.
        """
        return ((self.canvases == labels) | ~self.masked).all(axis=(2, 3))

    def curves(self, labels: np.ndarray) -> list[Curve]:
        """See `trm.solving.rollout.Look`: a point after each supervision step."""
        exact, steps = self.rows_exact(labels), len(self.canvases)
        curves = []
        for i, halt in enumerate(self.halts_at.tolist()):
            end = f"halts at step {halt}" if halt else f"does not halt in {steps} steps"
            verdict = "right" if exact[(halt or steps) - 1, i] else "wrong"
            curves.append(Curve(self.confidence[:, i], exact[:, i], halt, f"{end}, row {verdict}"))
        return curves


@torch.no_grad()
def trace(model: TinyRecursiveModel, inputs: np.ndarray, steps: int) -> Trace:
    """Run a model for a number of supervision steps, whatever its halting head says.

    Args:
        model: on the device where it is to run; autocast is the caller's.
        inputs: canvases with a masked row, ``uint8 [B, H, W]``.
        steps: supervision steps; may exceed those of training.

    Raises:
        ValueError: fewer than one step, or canvases that the model refuses.
    """
    if steps < 1:
        raise ValueError(f"a trace takes at least one supervision step, not {steps}")
    tokens = torch.from_numpy(inputs).to(next(model.parameters()).device)
    context = model.encode(tokens)
    state = model.initial_state(context)
    cells, halting = [], []
    for _ in range(steps):
        state = model.iterate(context, state)
        logits, halt_logits = model.read(state, context)
        cells.append(logits.argmax(dim=-1).to(tokens.dtype))
        halting.append(halt_logits)
    return Trace(
        torch.stack(cells).cpu().numpy(),
        torch.stack(halting).float().cpu().numpy(),
        inputs == MASK,
    )
