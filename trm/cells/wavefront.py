"""Direct computation of a cell model's fixed point, every cell once, in the order of writing.

No cell depends on a later one. So updating each cell once, after all cells that it depends on,
gives the same as `CellModel.iterate` after as many steps as the longest chain of cells. Without an
order of writing all cells are updated until nothing changes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trm.cells.cache import CellCache
from trm.cells.model import CellModel
from trm.models.iterative import all_right


class Wavefront(NamedTuple):
    """Canvases computed in the order of writing."""

    tokens: Tensor  # [B, H, W], with masked cells filled in; dtype as given
    halt_logits: Tensor  # float32 [B, H], of "all filled-in cells of the row are correct"
    log_symbol: Tensor  # float32 [B, H, W], log-softmax of filled-in symbols; else 0
    # int16 [B, H + 1, W + 2, 1 + signals], the messages, as for `LocalRule.around`: 1 for a cell
    # that was computed, then its classes.
    messages: Tensor


@torch.no_grad()
def run_wavefront(model: CellModel, tokens: Tensor, cache: CellCache | None = None) -> Wavefront:
    """Fill in masked cells; compute every cell once, after all cells that it depends on.

    All cells of a front are updated together, see `canvas.cells.order`.

    Args:
        model: in evaluation mode.
        tokens: symbol ids, integers [B, H, W]; masked cells are filled in.
        cache: decisions computed before; new ones are added.
    """
    context = model.encode(tokens, cache)
    canvas, row, column, _, sizes, _ = order = context.order
    B, H, W = tokens.shape
    filled = tokens.clone()
    log_symbol = torch.zeros(B, H, W, dtype=torch.float32, device=tokens.device)
    margin = tokens.new_zeros(B, H + 1, W + 2, 1 + len(model.signals), dtype=torch.int16)
    log_right = log_symbol[..., 0].clone()
    if sizes:
        token, masked = context.tokens[canvas, row, column], context.masked[canvas, row, column]
        messages = margin.new_zeros(len(token) + 1, margin.shape[-1])
        if order.most:
            context.cache.settle(token, messages, order)
        decided = context.cache.compute(token, messages, order.fronts)
        symbols = torch.where(masked, decided.classes[:, 0], token)
        filled[canvas, row, column] = symbols.to(tokens.dtype)
        log_symbol[canvas, row, column] = decided.log_symbol * masked
        log_right.index_put_((canvas, row), decided.log_right * masked, accumulate=True)
        margin[canvas, row + 1, column + 1] = messages[:-1]
    return Wavefront(filled, all_right(log_right), log_symbol, margin)
