"""An iterative model as it solves: supervision steps until a row has settled."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas import symbols
from trm.models.iterative import IterativeModel, Loop
from trm.solving.rollout import ConfidenceCurve, Prediction, Predictor, Trace
from trm.torch_settings import standard_settings

PATIENCE = 2  # steps in succession that must leave a row as it is before it counts as settled


class Settling:
    """Watches rows from step to step, and says which of them have settled.

    A row has settled, and its sample may stop, when it is held more likely right than wrong and
    `PATIENCE` steps in succession have left it as it was. The halting head alone stops too early:
    of rows that it trusts, some still change, mostly for the better. In a row longer than any of
    training a carry may still be on its way when one step changes nothing.
    """

    def __init__(self, masked: Tensor) -> None:
        """Of the cells to fill in, bool [B, H, W]: no others count."""
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


class IterativePredictor(Predictor):
    """Fills rows with an iterative model, in as many supervision steps as each sample needs.

    A sample stops when its row has settled, see `Settling`; from then on it costs nothing. At
    ``max_steps`` it stops in any case, which may exceed those of training; without ``halt`` there
    alone. ValueError: no step.
    """

    def __init__(self, model: IterativeModel, max_steps: int, halt: bool = True) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        self.model, self.max_steps, self.halt = model, max_steps, halt
        self.translation_invariant = model.translation_invariant

    @standard_settings()
    @torch.no_grad()
    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        """See `Predictor`: a point after each of so many steps, as if no row had settled."""
        seen = [
            (step.cells, step.halt_logits.float().sigmoid(), step.settled)
            for step in self._steps(inputs, steps or self.max_steps, halt=False)
        ]
        cells, confidence, stops = (
            torch.stack(parts).cpu().numpy() for parts in zip(*seen, strict=True)
        )
        exact = ((cells == labels) | (inputs != symbols.MASK)).all(axis=(2, 3))  # [T, B]
        halts = np.where(stops.any(axis=0), stops.argmax(axis=0) + 1, 0)
        curves = []
        for i, halt in enumerate(halts.tolist()):
            end = f"halts at step {halt}" if halt else f"does not halt in {len(cells)} steps"
            outcome = f"{end}, row {'right' if exact[halt - 1, i] else 'wrong'}"
            curves.append(ConfidenceCurve(confidence[:, i], exact[:, i], halt, outcome))
        answers = cells[halts - 1, np.arange(len(inputs))]  # without a halt the last
        return Trace("confidence over supervision steps", answers, curves)

    @standard_settings()
    @torch.no_grad()
    def __call__(self, inputs: np.ndarray) -> Prediction:
        """Fill in masked rows, in as many supervision steps as each needs."""
        parts = []
        for step in self._steps(inputs, self.max_steps, self.halt):
            confidence = step.halt_logits.float().sigmoid()
            if self.on_step is not None:
                shown = (step.samples, step.cells, confidence)
                self.on_step(step.number, *(part.cpu().numpy() for part in shown))
            used = torch.full_like(step.samples, step.number)
            held, done = (step.cells, confidence, used, step.settled), step.last.nonzero()[:, 0]
            parts.append((step.samples[done], *(part[done] for part in held)))
        samples, *found = (torch.cat(of_steps) for of_steps in zip(*parts, strict=True))
        order = samples.argsort()
        return Prediction(*(part[order].cpu().numpy() for part in found))

    def _steps(self, inputs: np.ndarray, steps: int, halt: bool) -> Iterator[Step]:
        """At most so many supervision steps; to ``halt``, none of rows that have settled."""
        tokens = self.tokens(inputs)
        loop, settling = Loop(self.model, tokens), Settling(tokens == symbols.MASK)
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
