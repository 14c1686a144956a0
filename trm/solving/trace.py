"""How rows came about: after each supervision step, without stopping early, or symbol by symbol."""

from dataclasses import dataclass

import numpy as np
import torch

from canvas.symbols import MASK
from trm.models.iterative import IterativeModel
from trm.solving.iteration import Settling, iterate
from trm.solving.rollout import ConfidenceCurve


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
        settling = Settling(torch.from_numpy(self.masked))
        settled = [
            settling.seen(torch.from_numpy(cells), torch.from_numpy(halt_logits)).numpy()
            for cells, halt_logits in zip(self.canvases, self.halt_logits, strict=True)
        ]
        stops = np.stack(settled)
        return np.where(stops.any(axis=0), stops.argmax(axis=0) + 1, 0)

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

    def curves(self, labels: np.ndarray) -> list[ConfidenceCurve]:
        """See `trm.solving.rollout.Look`: a point after each supervision step."""
        exact, steps = self.rows_exact(labels), len(self.canvases)
        curves = []
        for i, halt in enumerate(self.halts_at.tolist()):
            end = f"halts at step {halt}" if halt else f"does not halt in {steps} steps"
            verdict = "right" if exact[(halt or steps) - 1, i] else "wrong"
            curves.append(
                ConfidenceCurve(self.confidence[:, i], exact[:, i], halt, f"{end}, row {verdict}")
            )
        return curves


@dataclass(frozen=True)
class SymbolTrace:
    """Rows that were written symbol by symbol, each once.

    Attributes:
        answers: ``uint8 [B, H, W]``; only masked cells count.
        log_probs: ``float32 [B, H, W]``, of each symbol that was written, given those before; else
            0.
        masked: ``bool [B, H, W]``, the cells to fill in.
    """

    heading = "confidence symbol by symbol, as it writes"

    answers: np.ndarray
    log_probs: np.ndarray
    masked: np.ndarray

    def curves(self, labels: np.ndarray) -> list[ConfidenceCurve]:
        """See `trm.solving.rollout.Look`: a point for each symbol, from the lowest digit up."""
        curves = []
        for answer, label, log_probs, masked in zip(
            self.answers, labels, self.log_probs, self.masked, strict=True
        ):
            right = (answer == label)[masked][::-1]
            outcome = f"row {'right' if right.all() else 'wrong'}"
            curves.append(ConfidenceCurve(np.exp(log_probs[masked][::-1]), right, 0, outcome))
        return curves


@torch.no_grad()
def trace(model: IterativeModel, inputs: np.ndarray, steps: int) -> Trace:
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
    seen = [
        (step.cells, step.halt_logits.float())
        for step in iterate(model, tokens, tokens == MASK, steps, halt=False)
    ]
    cells, halting = (torch.stack(parts).cpu().numpy() for parts in zip(*seen, strict=True))
    return Trace(cells, halting, inputs == MASK)
