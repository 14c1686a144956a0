"""Direct computation of a cell model's fixed point, every cell once, in the order of writing.

No cell depends on a later one. So updating each cell once, after all cells that it depends on,
gives the same as `CellModel.iterate` after as many steps as the longest chain of cells.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from canvas.cells.order import front_of, in_order
from trm.cells.cache import CellCache
from trm.cells.model import CellModel
from trm.models.iterative import all_right
from trm.runtime.progress import Report, silent


class Wavefront(NamedTuple):
    """Canvases computed in the order of writing."""

    tokens: Tensor  # [B, H, W], with masked cells filled in; dtype as given
    halt_logits: Tensor  # float32 [B, H], of "all filled-in cells of the row are correct"
    log_symbol: Tensor  # float32 [B, H, W], log-softmax of filled-in symbols; else 0
    # int16 [B, H + 1, W + 2, 1 + signals], the messages, as for `LocalRule.around`: 1 for a cell
    # that was computed, then its classes.
    messages: Tensor


def schedule(cells: Tensor) -> tuple[Tensor, list[int]]:
    """Return cells in the order of writing.

    Args:
        cells: bool [B, H, W], the cells to compute.

    Returns:
        Sample, row and column of each cell, int64 [N, 3], and the number of cells in each front.
    """
    found = cells.nonzero()
    fronts = front_of(found[:, 1], cells.shape[2] - 1 - found[:, 2])
    order, sizes = in_order(fronts.cpu().numpy())
    return found[torch.from_numpy(order).to(found.device)], sizes


@torch.no_grad()
def run_wavefront(
    model: CellModel, tokens: Tensor, cache: CellCache | None = None, report: Report = silent
) -> Wavefront:
    """Fill in masked cells; compute every cell once, after all cells that it depends on.

    All cells of a front are updated together, see `canvas.cells.order`.

    Args:
        model: in evaluation mode.
        tokens: symbol ids, integers [B, H, W]; masked cells are filled in.
        cache: decisions computed before; new ones are added.
        report: called as the work goes on.
    """
    context = model.encode(tokens, cache)
    B, H, W = tokens.shape
    cells, fronts = schedule(context.cells)
    canvas, row, column = cells.unbind(1)
    token, masked = context.tokens[canvas, row, column], context.masked[canvas, row, column]
    # Messages, with a margin around each canvas, as one list of cells.
    margin = tokens.new_zeros(B, H + 1, W + 2, 1 + len(model.signals), dtype=torch.int16)
    passed, place = margin.flatten(0, 2), (canvas * (H + 1) + row + 1) * (W + 2) + column + 1
    around = model.neighbours(W, place.device)
    found, done = [], 0
    for here, its in zip(place.split(fronts), token.split(fronts), strict=True):
        decided = context.cache.of_cells(its, passed[here.unsqueeze(1) + around].long())
        found.append((decided.classes[:, 0].clone(), decided.log_right, decided.log_symbol))
        decided.classes[:, 0] = 1
        passed[here] = decided.classes.to(passed.dtype)
        done += len(here)
        report("cells", done, len(place))
    filled = tokens.clone()
    log_symbol = torch.zeros(B, H, W, dtype=torch.float32, device=tokens.device)
    sure = log_symbol[..., 0].clone()
    if found:
        classes, right, log = map(torch.cat, zip(*found, strict=True))
        filled[canvas, row, column] = torch.where(masked, classes, token).to(tokens.dtype)
        log_symbol[canvas, row, column] = log * masked
        sure.index_put_((canvas, row), right * masked, accumulate=True)
    return Wavefront(filled, all_right(sure), log_symbol, margin)
