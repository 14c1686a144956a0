"""A view of a canvas, a symmetry followed by a shift, applied and undone on batches of canvases.

Shifts roll: cells that leave at one edge come in at the other, and `undo_views` gives all back.
Views are drawn such that no *content* crosses an edge: what comes round is blank, or a mask's line
that stays full. A canvas is masked first and viewed after: the mask then lies wherever the view has
moved its row.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from augment import symmetry as symmetries


@dataclass(frozen=True)
class View:
    """A symmetry of the square, then a shift of the content by whole cells."""

    symmetry: str = "e"  # a name from `augment.symmetry.SYMMETRIES`; some turn H × W into W × H
    down: int = 0  # cells to move after the symmetry; negative is up, or left
    right: int = 0

    def __post_init__(self) -> None:
        symmetries.lookup(self.symmetry)


class Room(NamedTuple):
    """How far the content of each canvas can move each way, `int64 [B]`."""

    up: Tensor
    down: Tensor
    left: Tensor
    right: Tensor


def possible_shifts(content: Tensor) -> Room:
    """How far content `bool [B, H, W]`, turned already, can be shifted before it is cut off."""
    height, width = content.shape[1:]
    top, bottom = _first_and_last(content.any(dim=2))
    leftmost, rightmost = _first_and_last(content.any(dim=1))
    return Room(top, height - 1 - bottom, leftmost, width - 1 - rightmost)


def distinct_views(
    content: Tensor, symmetries_allowed: Sequence[str], most: int, seed: int
) -> list[View]:
    """At most so many different views of one canvas: the identity, then others in random order.

    Every symmetry comes once before any comes with another shift: turned canvases differ more to a
    model than shifted ones. The same content, `bool [H, W]`, and seed give the same views, whatever
    `most` is. ValueError if an allowed symmetry transposes, and H and W differ.
    """
    possible = []
    for name in sorted({"e", *symmetries_allowed}, key=list(symmetries.SYMMETRIES).index):
        turned = symmetries.apply(name, content)
        if turned.shape != content.shape:
            raise ValueError(f"the view {name} makes {list(content.shape)} {list(turned.shape)}")
        up, down, left, right = map(int, possible_shifts(turned[None]))
        possible += [
            View(name, i, j) for i in range(-up, down + 1) for j in range(-left, right + 1)
        ]
    others = [view for view in possible if view != View()]
    order = torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))
    seen, turn = Counter(["e"]), {}
    for view in (others[i] for i in order.tolist()):
        turn[view] = seen[view.symmetry]
        seen[view.symmetry] += 1
    return [View(), *sorted(turn, key=turn.__getitem__)[: most - 1]]


def apply_views(views: Sequence[View], canvases: Tensor) -> Tensor:
    """Each of B samples in a view of its own: `[B, H, W, ...]` of any dtype, which stays.

    ValueError: a view exchanges rows and columns, and H and W differ.
    """
    return _gather_cells(canvases, _source_index(views, canvases))


def undo_views(views: Sequence[View], viewed: Tensor) -> Tensor:
    """The inverse of `apply_views`, for any dtype and any trailing dimensions."""
    flat, index = _flatten_cells(viewed, _source_index(views, viewed))
    return torch.empty_like(flat).scatter_(1, index, flat).view(viewed.shape)


def _source_index(views: Sequence[View], canvases: Tensor) -> Tensor:
    """For each cell of B viewed canvases, the cell that it came from: `int64 [B, H * W]`."""
    batch, height, width = canvases.shape[:3]
    device = canvases.device
    table = torch.tensor(
        [(*symmetries.lookup(view.symmetry), view.down, view.right) for view in views],
        device=device,
    ).reshape(batch, 5)
    if height != width and bool(table[:, 0].any()):
        raise ValueError(
            f"a batch of {height} x {width} canvases cannot mix views that exchange height and "
            "width with others; use square canvases, or symmetries e, r180, h, v"
        )
    transpose, flip_rows, flip_columns, down, right = table.unsqueeze(2).unbind(1)  # each [B, 1]
    # Backwards through the view: first the shift, then the flips, last the transpose.
    rows = (torch.arange(height, device=device) - down) % height  # [B, H]
    columns = (torch.arange(width, device=device) - right) % width  # [B, W]
    rows = torch.where(flip_rows.bool(), height - 1 - rows, rows).unsqueeze(2)
    columns = torch.where(flip_columns.bool(), width - 1 - columns, columns).unsqueeze(1)
    straight, crossed = rows * width + columns, columns * width + rows  # [B, H, W]
    return torch.where(transpose.bool().unsqueeze(2), crossed, straight).flatten(1)


def _gather_cells(canvases: Tensor, source: Tensor) -> Tensor:
    flat, index = _flatten_cells(canvases, source)
    return flat.gather(1, index).view(canvases.shape)


def _flatten_cells(canvases: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """`[B, H, W, ...]` as `[B, H * W, ...]`, and the index `[B, H * W]` expanded to that shape."""
    flat = canvases.flatten(1, 2)
    return flat, index.view(*index.shape, *[1] * (flat.dim() - 2)).expand_as(flat)


def _first_and_last(occupied: Tensor) -> tuple[Tensor, Tensor]:
    """First and last true position of `bool [B, N]`; N and -1 where there is none."""
    positions = torch.arange(occupied.shape[1], device=occupied.device)
    first = torch.where(occupied, positions, occupied.shape[1]).amin(dim=1)
    return first, torch.where(occupied, positions, -1).amax(dim=1)
