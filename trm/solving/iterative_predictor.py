"""Solving with an iterative model: supervision steps until a row has settled."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trm.models.iterative import IterativeModel, Loop
from trm.models.settling import Settling
from trm.runtime.torch_settings import standard_settings, tensor_for
from trm.solving.noise import NoisyLoop
from trm.solving.predictor import Predictor
from trm.solving.rows import Prediction
from trm.solving.trace import Trace

# Sources of the confidence in a row: the halting head alone, or also the least certain cell.
CONFIDENCES = ("head", "cells")


class AfterStep(NamedTuple):
    """State of a solution after one supervision step."""

    number: int  # from 1
    samples: Tensor  # indices of the samples still being solved, int64 [N]
    confidence: Tensor  # float32 [N], 0 to 1: the probability that the row is correct
    logits: Tensor  # float [N, H, W, V], of all cells' symbols
    cells: Tensor  # uint8 [N, H, W], the most likely symbols
    settled: Tensor  # bool [N], see `Settling`
    last: Tensor  # bool [N], whether this is a sample's last step


Step = AfterStep  # its released name


class IterativePredictor(Predictor):
    """Fills rows with an iterative model, in as many supervision steps as each sample needs.

    A sample stops when its row has settled, see `Settling`, and costs nothing from then on.

    Args:
        model: on the device where it is to run.
        max_steps: supervision steps after which every sample stops; may exceed those of training.
        calibration: returns calibrated probabilities, float32 [N], of log-probabilities [N]. The
            confidence in a row is then the lesser of the probability of the halting head and the
            calibrated softmax probability of the least certain cell that is filled in. A row is
            correct only if the canvas can be read and every cell is right; the head judges the
            first, the cells the second. None: that of the head. Rows stop by the head alone.

    Raises:
        ValueError: ``max_steps`` is below 1.
    """

    max_steps: int

    def __init__(
        self,
        model: IterativeModel,
        max_steps: int,
        calibration: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        self.model, self.max_steps, self._calibration = model, max_steps, calibration
        self.translation_invariant = model.translation_invariant

    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        """Fill in masked rows, in as many supervision steps as each needs."""
        return self.with_certainty(inputs, rollouts)[0]

    @standard_settings()
    @torch.no_grad()
    def with_certainty(
        self, inputs: np.ndarray, rollouts: np.ndarray | None = None
    ) -> tuple[Prediction, np.ndarray]:
        """Fill in masked rows; return also the probability of each symbol, float32 [B, H, W]."""
        parts = []
        for step in self._steps(inputs, self.max_steps, rollouts):
            if self.options.on_step is not None:
                shown = (step.samples, step.cells, step.confidence)
                self.options.on_step(step.number, *(part.cpu().numpy() for part in shown))
            done, used = step.last.nonzero()[:, 0], torch.full_like(step.samples, step.number)
            held = (step.samples, step.cells, step.confidence, used, step.settled)
            certainty = step.logits[done].float().softmax(dim=-1).amax(dim=-1)
            parts.append((*(part[done] for part in held), certainty))
        samples, *found = (torch.cat(of_steps) for of_steps in zip(*parts, strict=True))
        order = samples.argsort()
        *filled, certainties = (part[order].cpu().numpy() for part in found)
        return Prediction(*filled), certainties

    def _steps(
        self, inputs: np.ndarray, steps: int, rollouts: np.ndarray | None = None
    ) -> Iterator[AfterStep]:
        """Yield at most ``steps`` supervision steps; settled rows drop out of the batch."""
        tokens, options = tensor_for(self.model, inputs), self.options
        noisy = rollouts is not None or options.start_seed is not None
        loop = (
            NoisyLoop(self.model, inputs, options, rollouts) if noisy else Loop(self.model, tokens)
        )
        settling = Settling(options.unknown(tokens), options.patience)
        samples = torch.arange(len(tokens), device=tokens.device)
        for number in range(1, steps + 1):
            loop.step()
            logits, halt_logits = loop.read()
            cells = logits.argmax(dim=-1).to(tokens.dtype)
            confidence = self._confidence(logits, halt_logits, settling.unknown)
            settled = settling.update(cells, halt_logits)
            last = settled & options.halt if number < steps else torch.ones_like(settled)
            yield AfterStep(number, samples, confidence, logits, cells, settled, last)
            if last.all():
                return
            if last.any():
                samples = samples[~last]
                loop.keep(~last)
                settling.keep(~last)

    def _confidence(self, logits: Tensor, halt_logits: Tensor, unknown: Tensor) -> Tensor:
        """Return the confidence in the row of each sample, float32 [N].

        Args:
            logits: of all cells' symbols, float [N, H, W, V].
            halt_logits: of "the row is correct", float [N].
            unknown: cells to fill in, bool [N, H, W].
        """
        head = halt_logits.float().sigmoid()
        if self._calibration is None:
            return head
        log_p = logits.float().log_softmax(dim=-1).amax(dim=-1).masked_fill(~unknown, 0)
        cells = self._calibration(log_p.flatten(1).amin(dim=1).cpu().numpy())
        return head.minimum(torch.from_numpy(cells).to(head))

    @standard_settings()
    @torch.no_grad()
    def every_step(
        self, inputs: np.ndarray, steps: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what each of T supervision steps gives; no row stops before the last one.

        Args:
            inputs: canvases, uint8 [B, H, W].
            steps: their number T; None: the most that solving takes.

        Returns:
            Cells, uint8 [T, B, H, W], the confidence in each row, float32 [T, B], and whether it
            has settled, bool [T, B].
        """
        seen = [
            (step.cells, step.confidence, step.settled)
            for step in self.with_options(halt=False)._steps(inputs, steps or self.max_steps)
        ]
        cells, confidence, settled = (
            torch.stack(part).cpu().numpy() for part in zip(*seen, strict=True)
        )
        return cells, confidence, settled

    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        """See `Predictor`. A curve has a point for each step, also after a row has settled."""
        return Trace.by_step(inputs, *self.every_step(inputs, steps), labels)
