"""An iterative model as it solves: supervision steps until a row has settled."""

import numpy as np
import torch

from canvas import symbols
from trm.models.iterative import IterativeModel
from trm.solving.iteration import StepTrace, iterate
from trm.solving.rollout import Prediction, Predictor


class IterativePredictor(Predictor):
    """Fills rows with an iterative model, in as many supervision steps as each sample needs.

    A sample stops when its row has settled, see `Settling`; from then on it costs nothing.

    Args:
        model: on the device where it is to run.
        max_steps: supervision steps at most; may exceed those of training.
        halt: False runs every sample to ``max_steps``.

    Raises:
        ValueError: no step.
    """

    def __init__(self, model: IterativeModel, max_steps: int, halt: bool = True) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        self.model, self.max_steps, self.halt = model, max_steps, halt
        self.translation_invariant = model.translation_invariant

    def pairs(self, height: int, width: int) -> int:
        return self.model.pairs(height, width)

    @torch.no_grad()
    def trace(self, inputs: np.ndarray, steps: int | None = None) -> StepTrace:
        """See `Predictor`: its confidence after each of ``steps`` or else ``max_steps`` steps."""
        tokens, steps = self.tokens(inputs), steps or self.max_steps
        masked = tokens == symbols.MASK
        seen = [
            (step.cells, step.halt_logits.float())
            for step in iterate(self.model, tokens, masked, steps, halt=False)
        ]
        cells, halting = (torch.stack(parts).cpu().numpy() for parts in zip(*seen, strict=True))
        return StepTrace(cells, halting, inputs == symbols.MASK)

    @torch.no_grad()
    def __call__(self, inputs: np.ndarray) -> Prediction:
        """Fill in masked rows, in as many supervision steps as each needs."""
        tokens = self.tokens(inputs)
        cells, confidence = (
            torch.empty_like(tokens),
            tokens.new_empty(len(tokens), dtype=torch.float),
        )
        used = torch.empty_like(confidence, dtype=torch.long)
        settled = torch.empty_like(confidence, dtype=torch.bool)
        masked = tokens == symbols.MASK
        for step in iterate(self.model, tokens, masked, self.max_steps, self.halt):
            if self.on_step is not None:
                shown = (step.samples, step.cells, step.halt_logits.float().sigmoid())
                self.on_step(step.number, *(part.cpu().numpy() for part in shown))
            if not step.last.any():
                continue
            done, last = step.samples[step.last], step.last
            cells[done], used[done] = step.cells[last], step.number
            confidence[done] = step.halt_logits[last].float().sigmoid()
            settled[done] = step.settled[last]
        parts = (cells, confidence, used, settled)
        return Prediction(*(part.cpu().numpy() for part in parts))
