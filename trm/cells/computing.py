"""Canvases of a cell model's network: every cell once, in the order of writing, or in steps."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas.cells.order import settle, wavefront
from trm.cells.cache import CellCache, Decided
from trm.cells.model import CellContext, CellModel, CellState
from trm.cells.predictor import CellPredictor, Worked
from trm.models.halting import log_odds
from trm.models.iterative import Loop
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings, tensor_for
from trm.solving.noise import generator_of


class Wavefront(NamedTuple):
    """Canvases computed in the order of writing."""

    tokens: Tensor  # [B, H, W], with masked cells filled in; dtype as given
    halt_logits: Tensor  # float32 [B, H], of "all filled-in cells of the row are correct"
    log_symbol: Tensor  # float32 [B, H, W], log-softmax of filled-in symbols; else 0
    messages: Tensor  # int16 [B, H, W, 1 + signals]: 1 for a computed cell, then its classes


@torch.no_grad()
def run_wavefront(model: CellModel, tokens: Tensor, cache: CellCache | None = None) -> Wavefront:
    """Fill in masked cells; compute every cell once, after all cells that it depends on.

    No cell depends on a later one, so this gives the same as `CellModel.iterate` after as many
    steps as the longest chain of cells. All cells of a front are updated together, see
    `canvas.cells.order`. Without an order of writing all cells are updated until nothing changes.

    Args:
        model: in evaluation mode.
        tokens: symbol ids, integers [B, H, W]; masked cells are filled in.
        cache: decisions computed before; new ones are added.
    """
    context = model.encode(tokens, cache)
    canvas, row, column, sources, sizes, most = order = context.order
    B, H, W = tokens.shape
    filled = tokens.clone()
    log_symbol = torch.zeros(B, H, W, dtype=torch.float32, device=tokens.device)
    passed = tokens.new_zeros(B, H, W, 1 + len(model.signals), dtype=torch.int16)
    log_right = log_symbol[..., 0].clone()
    if sizes:
        token, masked = context.tokens[canvas, row, column], context.masked[canvas, row, column]
        # The last row is for no cell.
        messages = passed.new_zeros(len(token) + 1, passed.shape[-1])
        found: list[Decided] = []

        def decide(cells: slice | Tensor, around: Tensor) -> Tensor:
            found.append(context.cache.of_cells(token[cells], around.long()))
            decided = found[-1].classes.to(messages.dtype)
            decided[:, 0] = 1  # in place of the symbol
            if isinstance(cells, slice):
                report("cells", cells.stop, len(token), solving=True)
            else:
                report("updates, at most", len(found), most, solving=True)
            return decided

        if most:
            messages[:-1, 0] = 1
            settle(decide, messages, torch.arange(len(token), device=tokens.device), sources, most)
            found.clear()
        wavefront(decide, messages, order.fronts)
        every = Decided(*map(torch.cat, zip(*found, strict=True)))
        symbols = torch.where(masked, every.classes[:, 0], token)
        filled[canvas, row, column] = symbols.to(tokens.dtype)
        log_symbol[canvas, row, column] = every.log_symbol * masked
        log_right.index_put_((canvas, row), every.log_right * masked, accumulate=True)
        passed[canvas, row, column] = messages[:-1]
    return Wavefront(filled, log_odds(log_right), log_symbol, passed)


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
        halt_logits = log_odds(loop.state.log_right.masked_fill(~masked, 0).sum(dim=2))
        if on_step is not None and (number == 1 or changed.any()):
            sure = halt_logits.sigmoid() if not predictor.proved else torch.ones_like(halt_logits)
            sure = sure.masked_fill(~settled, torch.nan)
            shown = (one.cpu().numpy() for one in (loop.state.symbols.byte(), sure))
            on_step(number, np.arange(len(tokens)), *shown)
    there = loop.context.cells.unsqueeze(-1)
    found = Wavefront(
        loop.state.symbols.to(tokens.dtype),
        halt_logits,
        torch.zeros_like(loop.state.log_right),
        torch.cat((there, loop.state.messages), dim=-1) * there,
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
