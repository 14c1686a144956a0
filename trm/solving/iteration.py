"""An iterative model at work on rows: supervision steps, when a row has settled, what it believes.

How rows came about, step by step or symbol by symbol, is a `StepTrace` or a `SymbolTrace`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas.windows import UNDEFINED
from trm.models.iterative import IterativeModel, Loop

PATIENCE = 2  # steps in succession that must leave a row as it is before it counts as settled


class Settling:
    """Watches rows from step to step, and says which of them have settled.

    A row has settled, and its sample may stop, when it is held more likely right than wrong and
    `PATIENCE` steps in succession have left it as it was. The halting head alone stops too early:
    of rows that it trusts, some still change, mostly for the better. In a row longer than any of
    training a carry may still be on its way when one step changes nothing.

    Args:
        masked: bool [B, H, W], the cells to fill in: no others count.
    """

    def __init__(self, masked: Tensor) -> None:
        self.masked = masked
        self.before: Tensor | None = None
        self.calm = torch.zeros(len(masked), dtype=torch.long, device=masked.device)

    def seen(self, cells: Tensor, halt_logits: Tensor) -> Tensor:
        """Which rows have settled, bool [B], after one more step.

        Of its ``cells``, uint8 [B, H, W], and ``halt_logits``, [B], above 0 where a row is trusted.
        """
        if self.before is not None:  # before the first step there was no answer to keep
            unchanged = ((cells == self.before) | ~self.masked).all(-1).all(-1)
            self.calm = (self.calm + 1) * unchanged
        self.before = cells
        return (halt_logits > 0) & (self.calm >= PATIENCE)

    def keep(self, index: Tensor) -> None:
        """Go on with some rows, by bool [B]."""
        self.masked, self.calm = self.masked[index], self.calm[index]
        self.before = None if self.before is None else self.before[index]


class Step(NamedTuple):
    """What a model holds after one of its supervision steps."""

    number: int  # from 1
    samples: Tensor  # which ones are still at work, int64 [N]
    halt_logits: Tensor  # [N]
    cells: Tensor  # uint8 [N, H, W], the most likely symbols
    settled: Tensor  # bool [N], see `Settling`
    last: Tensor  # bool [N], whose last step this is


@torch.no_grad()
def iterate(
    model: IterativeModel,
    tokens: Tensor,
    masked: Tensor,
    steps: int,
    halt: bool = True,
) -> Iterator[Step]:
    """At most so many supervision steps on rows, of which those that have settled are left out.

    Args:
        model: on the device of the tokens.
        tokens, masked: [B, H, W], uint8 symbols, and bool, the cells to fill in.
        steps: from 1 up.
        halt: False goes on with all samples to the end.
    """
    loop, settling = Loop(model, tokens), Settling(masked)
    samples = torch.arange(len(tokens), device=tokens.device)
    for number in range(1, steps + 1):
        loop.step()
        logits, halt_logits = loop.read()
        cells = logits.argmax(dim=-1).to(tokens.dtype)
        settled = settling.seen(cells, halt_logits)
        last = settled & halt if number < steps else torch.ones_like(settled)
        yield Step(number, samples, halt_logits, cells, settled, last)
        if last.all():
            return
        if last.any():
            samples = samples[~last]
            loop.keep(~last)
            settling.keep(~last)


class ConfidenceCurve(NamedTuple):
    """How sure a model is along the way to one row."""

    confidence: np.ndarray  # float [N], 0 to 1, at each point of the way
    right: np.ndarray  # bool [N], whether what it holds there is right
    halt: int  # the point, from 1, at which it stops; 0 where it does not
    outcome: str  # how it ended, in words


@dataclass(frozen=True)
class StepTrace:
    """Every one of T supervision steps of a batch of rows, as if no row had settled."""

    heading = "confidence over supervision steps"

    canvases: np.ndarray  # uint8 [T, B, H, W], the likeliest symbols; only masked cells count
    halt_logits: np.ndarray  # float32 [T, B], of "the row is right"
    masked: np.ndarray  # bool [B, H, W], the cells to fill in

    @property
    def confidence(self) -> np.ndarray:
        """The probability, to the model, that the row is right: ``float32 [T, B]``."""
        return (1 / (1 + np.exp(-np.clip(self.halt_logits, -80, 80)))).astype(np.float32)

    @property
    def halts_at(self) -> np.ndarray:
        """The step, from 1, after which each sample would stop: ``int64 [B]``, 0 if none."""
        settling = Settling(torch.from_numpy(self.masked))
        steps = zip(self.canvases, self.halt_logits, strict=True)
        stops = np.stack([settling.seen(*map(torch.from_numpy, step)).numpy() for step in steps])
        return np.where(stops.any(axis=0), stops.argmax(axis=0) + 1, 0)

    @property
    def answers(self) -> np.ndarray:
        """``uint8 [B, H, W]`` at the step of halting, or after the last step without one."""
        last = np.where(self.halts_at > 0, self.halts_at, len(self.canvases)) - 1
        return self.canvases[last, np.arange(self.canvases.shape[1])]

    def rows_exact(self, labels: np.ndarray) -> np.ndarray:
        """Whether all masked cells are as in ``uint8 [B, H, W]``, step by step: ``bool [T, B]``."""
        return ((self.canvases == labels) | ~self.masked).all(axis=(2, 3))

    def curves(self, labels: np.ndarray) -> list[ConfidenceCurve]:
        """For each row a point after each step, judged by labels ``uint8 [B, H, W]``."""
        exact, steps = self.rows_exact(labels), len(self.canvases)
        curves = []
        for i, halt in enumerate(self.halts_at.tolist()):
            end = f"halts at step {halt}" if halt else f"does not halt in {steps} steps"
            verdict = "right" if exact[(halt or steps) - 1, i] else "wrong"
            outcome = f"{end}, row {verdict}"
            curves.append(ConfidenceCurve(self.confidence[:, i], exact[:, i], halt, outcome))
        return curves


@dataclass(frozen=True)
class SymbolTrace:
    """Rows that were written symbol by symbol, each once."""

    heading = "confidence symbol by symbol, as it writes"

    answers: np.ndarray  # uint8 [B, H, W]; only masked cells count
    log_probs: np.ndarray  # float32 [B, H, W], of what was written, given what was before; else 0
    masked: np.ndarray  # bool [B, H, W], the cells to fill in

    def curves(self, labels: np.ndarray) -> list[ConfidenceCurve]:
        """For each row a point for each symbol, from the lowest digit up; see `StepTrace`."""
        curves = []
        for i, masked in enumerate(self.masked):
            right = (self.answers[i] == labels[i])[masked][::-1]
            outcome = f"row {'right' if right.all() else 'wrong'}"
            confidence = np.exp(self.log_probs[i][masked][::-1])
            curves.append(ConfidenceCurve(confidence, right, 0, outcome))
        return curves


Trace = StepTrace | SymbolTrace  # how a model filled in a batch of rows


def right_cells(believed: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a field is right, and where there is something to be right about, ``bool [...]`` both.

    Of ``uint8 [...]`` classes, and the truth, see `canvas.windows.draw_fields`.
    """
    counted = (truth != UNDEFINED) & (believed != UNDEFINED)
    return (believed == truth) & counted, counted
