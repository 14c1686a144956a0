"""The recursive model as it solves: supervision steps until a row has settled."""

import numpy as np
import torch

from canvas import symbols
from trm.models.recursive import TinyRecursiveModel
from trm.solving.rollout import Filled, Filler
from trm.solving.trace import PATIENCE, Trace, trace, unchanged


class RecursiveFiller(Filler):
    """Fills rows with a recursive model, in as many supervision steps as each sample needs.

    A sample stops when its row has settled, see `unchanged`; from then on it costs nothing.

    Args:
        model: on the device where it is to run.
        max_steps: supervision steps at most; may exceed those of training.
        halt: False runs every sample to ``max_steps``.
    """

    def __init__(self, model: TinyRecursiveModel, max_steps: int, halt: bool = True) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        self.model, self.max_steps, self.halt = model, max_steps, halt

    def accepts(self, height: int, width: int) -> bool:
        """See `Filler`."""
        return self.model.accepts(height, width)

    def look(self, inputs: np.ndarray, steps: int | None = None) -> Trace:
        """See `Filler`: its confidence after each of ``steps`` or else ``max_steps`` steps."""
        return trace(self.model, inputs, steps or self.max_steps)

    @torch.no_grad()
    def __call__(self, inputs: np.ndarray) -> Filled:
        """See `Filler`."""
        device = next(self.model.parameters()).device
        tokens = torch.from_numpy(inputs).to(device)
        cells = torch.empty_like(tokens)
        confidence = torch.empty(len(tokens), device=device)
        used = torch.empty(len(tokens), dtype=torch.long, device=device)
        context = self.model.encode(tokens)
        state = self.model.initial_state(context)
        active = torch.arange(len(tokens), device=device)
        before, masked = tokens, tokens == symbols.MASK
        calm = torch.zeros_like(used)  # steps in succession that changed nothing
        for step in range(1, self.max_steps + 1):
            state = self.model.iterate(context, state)
            logits, halt_logits = self.model.read(state, context)
            now = logits.argmax(dim=-1).to(cells.dtype)
            calm = (calm + 1) * unchanged(now, before, masked)
            done = (halt_logits > 0) & (calm >= PATIENCE) & self.halt
            if step == self.max_steps:
                done = torch.ones_like(done)
            before = now
            if not done.any():
                continue
            finished = active[done]
            cells[finished] = now[done]
            confidence[finished] = halt_logits[done].float().sigmoid()
            used[finished] = step
            active, before, masked, calm = (x[~done] for x in (active, before, masked, calm))
            if not len(active):
                break
            state, context = state.select(~done), context.select(~done)
        return Filled(cells.cpu().numpy(), confidence.cpu().numpy(), used.cpu().numpy())
