"""The network of a cell model on canvases, for `trm.cells.predictor`."""

import numpy as np
import torch

from trm.cells.model import CellContext, CellModel, CellState
from trm.cells.predictor import CellPredictor, Worked
from trm.cells.wavefront import Wavefront, run_wavefront
from trm.models.iterative import Loop, all_right
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings, tensor_for
from trm.solving.noise import generator_of


@standard_settings(threads=1)
@torch.inference_mode()
def every_cell_once(predictor: CellPredictor, canvases: np.ndarray) -> Wavefront:
    """Fill in masked cells of canvases, uint8 [B, H, W], in the order of writing."""
    tokens = tensor_for(predictor.model, canvases)
    return run_wavefront(predictor.model, tokens, predictor.cache)


@standard_settings(threads=1)
@torch.inference_mode()
def in_steps(predictor: CellPredictor, canvases: np.ndarray) -> tuple[Wavefront, Worked]:
    """Update all cells at once, step by step, until nothing changes or the steps run out."""
    model, options = predictor.model, predictor.options
    tokens, on_step = tensor_for(model, canvases), options.on_step
    loop = Loop(model, tokens, predictor.cache)
    if options.start_seed is not None:
        loop.state = _random_states(model, loop.context, canvases, options.start_seed)
        if on_step is not None:
            symbols_now = loop.state.symbols.byte().cpu().numpy()
            nothing = np.full(symbols_now.shape[:2], np.nan, np.float32)
            on_step(0, np.arange(len(tokens)), symbols_now, nothing)
    masked, bound = loop.context.masked, model.settling_steps(loop.context)
    steps, settled = torch.zeros_like(bound), torch.zeros_like(bound, dtype=torch.bool)
    number = 0
    while number < (predictor.max_steps or int(bound.max())) and not settled.all():
        before = loop.state
        loop.step()
        number += 1
        report("supervision steps, at most", number, int(bound.max()), solving=True)
        differ = (before.messages != loop.state.messages).any(dim=-1)
        changed = (differ | (before.symbols != loop.state.symbols)).any(dim=2)
        if not model.encoding.ordered:  # then each row depends on all others
            changed = changed.any(dim=1, keepdim=True).expand_as(changed)
        steps[changed] = number
        settled = (changed.cumsum(dim=1) == 0) | ((number >= bound) & model.encoding.ordered)
        halt_logits = all_right(loop.state.log_right.masked_fill(~masked, 0).sum(dim=2))
        if on_step is not None and (number == 1 or changed.any()):
            sure = halt_logits.sigmoid() if not predictor.proved else torch.ones_like(halt_logits)
            sure = sure.masked_fill(~settled, torch.nan)
            shown = (one.cpu().numpy() for one in (loop.state.symbols.byte(), sure))
            on_step(number, np.arange(len(tokens)), *shown)
    found = Wavefront(
        loop.state.symbols.to(tokens.dtype),
        halt_logits,
        torch.zeros_like(loop.state.log_right),
        model.passed(loop.context, loop.state),
    )
    return found, Worked(steps.cummax(dim=1).values.cpu().numpy(), settled.cpu().numpy())


def _random_states(
    model: CellModel, context: CellContext, canvases: np.ndarray, seed: int
) -> CellState:
    """Return a random state of each canvas, which does not depend on the others."""
    one_by_one = [
        model.random_state(context.select(torch.tensor([i])), generator_of(seed, canvas, "start"))
        for i, canvas in enumerate(canvases)
    ]
    return CellState(*map(torch.cat, zip(*one_by_one, strict=True)))
