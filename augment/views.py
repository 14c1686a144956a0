"""A view of a canvas, a symmetry followed by a shift, applied and undone on batches of canvases.

Shifts roll: cells that leave at one edge come in at the other. A view is accepted only when no
*content* would cross an edge, so what comes round is blank, or a mask's line that wraps onto
itself and stays full. Rolling loses nothing, hence `undo(apply(x)) == x` exactly, for canvases,
answer masks and log-probabilities alike. A canvas is masked first and viewed after, never the
other way round: the mask then lies wherever the view has moved its row.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from augment import symmetry as symmetries
from canvas.symbols import BLANK, MASK


@dataclass(frozen=True)
class View:
    """A symmetry of the square, then a shift of the content by whole cells.

    Args:
        symmetry: a name from `augment.symmetry.SYMMETRIES`; some turn H × W into W × H.
        down: cells to move down, after the symmetry; negative is up.
        right: cells to move right, after the symmetry; negative is left.

    Raises:
        ValueError: an unknown symmetry.
    """

    symmetry: str = "e"
    down: int = 0
    right: int = 0

    def __post_init__(self) -> None:
        symmetries.lookup(self.symmetry)


class Room(NamedTuple):
    """Free cells beside the content of each canvas, `int64 [B]`: how far it can move each way."""

    up: Tensor
    down: Tensor
    left: Tensor
    right: Tensor


def possible_shifts(content: Tensor) -> Room:
    """How far the content of each canvas can be shifted before it leaves the canvas.

    Shifts `-up..down` by `-left..right` are possible. Give the content after the symmetry:
    `possible_shifts(symmetry.apply("r90", canvases != BLANK))`.

    Args:
        content: `bool [B, H, W]`. A canvas without content can move by its whole size.
    """
    height, width = content.shape[1:]
    top, bottom = _first_and_last(content.any(dim=2))
    leftmost, rightmost = _first_and_last(content.any(dim=1))
    return Room(top, height - 1 - bottom, leftmost, width - 1 - rightmost)


def distinct_views(
    content: Tensor, symmetries_allowed: Sequence[str], most: int, seed: int
) -> list[View]:
    """Different views of one canvas: the identity first, the others in random order.

    None comes twice, and every symmetry comes once before any comes with another shift: turned
    canvases differ more to a model than shifted ones.

    Args:
        content: `bool [H, W]`, before the views; square if any allowed symmetry transposes.
        symmetries_allowed: the names to draw from, besides the identity.
        most: how many; fewer where there are no more.
        seed: the same views for the same content and seed; the first of them whatever `most` is.

    Raises:
        ValueError: not even one; unknown symmetries; a transposing symmetry with H ≠ W.
    """
    if most < 1:
        raise ValueError(f"a canvas is looked at in at least one view, not {most}")
    possible = []
    for name in sorted({"e", *symmetries_allowed}, key=list(symmetries.SYMMETRIES).index):
        turned = symmetries.apply(name, content)
        if turned.shape != content.shape:
            raise ValueError(f"the view {name} makes {list(content.shape)} {list(turned.shape)}")
        up, down, left, right = map(int, possible_shifts(turned[None]))
        possible += [
            View(name, i, j) for i in range(-up, down + 1) for j in range(-left, right + 1)
        ]
    identity = View()
    others = [view for view in possible if view != identity]
    order = torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))
    seen = Counter([identity.symmetry])
    rounds: list[tuple[int, View]] = []
    for view in (others[i] for i in order.tolist()):
        rounds.append((seen[view.symmetry], view))
        seen[view.symmetry] += 1
    rounds.sort(key=lambda turn: turn[0])
    return [identity, *(view for _, view in rounds[: most - 1])]


def apply(view: View, canvases: Tensor, content: Tensor | None = None) -> Tensor:
    """One view of a whole batch: `[B, H, W, ...]` to `[B, H', W', ...]`, of the same dtype.

    Use the same `content` for the inputs, labels and answer mask of a sample: it is what decides
    whether the view is accepted.

    Args:
        view: the view; a transposing symmetry gives H' = W and W' = H.
        canvases: `uint8` canvases, or with `content` any dtype and any trailing dimensions.
        content: `bool [B, H, W]`, the cells that must stay on the canvas: the non-blank cells of
            the finished canvas, or while solving the operands and the space that the working may
            take. Default: the cells that are neither blank nor masked.

    Raises:
        ValueError: the shift would push content off the canvas; wrong shapes; no `content` for a
            tensor that is not a `uint8` canvas.
    """
    content = symmetries.apply(view.symmetry, _content(canvases, content))
    _refuse_overflow([view] * len(canvases), content)
    turned = symmetries.apply(view.symmetry, canvases, axes=(1, 2))
    return torch.roll(turned, (view.down, view.right), dims=(1, 2))


def undo(view: View, viewed: Tensor) -> Tensor:
    """The inverse of `apply`: `[B, H', W', ...]` to `[B, H, W, ...]`, of the same dtype.

    Any dtype and any trailing dimensions, so log-probabilities `[B, H', W', V]` go back cell by
    cell.

    Raises:
        ValueError: fewer than three dimensions.
    """
    _require_batch(viewed)
    back = torch.roll(viewed, (-view.down, -view.right), dims=(1, 2))
    return symmetries.apply(symmetries.invert(view.symmetry), back, axes=(1, 2))


def apply_views(views: Sequence[View], canvases: Tensor, content: Tensor | None = None) -> Tensor:
    """As `apply`, with a view of its own for each sample of the batch.

    Args:
        views: B views.
        canvases: `[B, H, W, ...]` as in `apply`; square if any symmetry transposes.
        content: `bool [B, H, W]` as in `apply`.

    Raises:
        ValueError: as in `apply`; not one view per canvas; a transposing symmetry with H ≠ W.
    """
    content = _content(canvases, content)
    _refuse_overflow(views, _turn_content(views, content))
    return gather_cells(canvases, _source_index(views, canvases))


def undo_views(views: Sequence[View], viewed: Tensor) -> Tensor:
    """The inverse of `apply_views`, for any dtype and any trailing dimensions.

    Raises:
        ValueError: not one view per canvas; a transposing symmetry with H ≠ W.
    """
    _require_batch(viewed)
    flat, index = _flatten_cells(viewed, _source_index(views, viewed))
    return torch.empty_like(flat).scatter_(1, index, flat).view(viewed.shape)


def source_cells(moves: Tensor, down: Tensor, right: Tensor, height: int, width: int) -> Tensor:
    """For each cell of B viewed canvases, the cell that it came from: `int64 [B, height * width]`.

    Args:
        moves: `int64 [B, 3]`, the elementary moves of each one's symmetry, 0 or 1; without a
            transpose where height ≠ width.
        down, right: `int64 [B]`, its shift.
    """
    transpose, flip_rows, flip_columns = moves.unsqueeze(2).unbind(1)  # each [B, 1]
    # Backwards through the view: first the shift, then the flips, last the transpose.
    rows = (torch.arange(height, device=moves.device) - down[:, None]) % height  # [B, H]
    columns = (torch.arange(width, device=moves.device) - right[:, None]) % width  # [B, W]
    rows = torch.where(flip_rows.bool(), height - 1 - rows, rows).unsqueeze(2)
    columns = torch.where(flip_columns.bool(), width - 1 - columns, columns).unsqueeze(1)
    straight, crossed = rows * width + columns, columns * width + rows  # [B, H, W]
    return torch.where(transpose.bool().unsqueeze(2), crossed, straight).flatten(1)


def gather_cells(canvases: Tensor, source: Tensor) -> Tensor:
    """Canvases `[B, H, W, ...]` whose cells come from those of `source_cells`."""
    flat, index = _flatten_cells(canvases, source)
    return flat.gather(1, index).view(canvases.shape)


def _source_index(views: Sequence[View], canvases: Tensor) -> Tensor:
    """For each cell of each viewed canvas, the cell that it came from: `int64 [B, H * W]`."""
    batch, height, width = canvases.shape[:3]
    if len(views) != batch:
        raise ValueError(f"got {len(views)} views for {batch} canvases; give one view per canvas")
    table = torch.tensor(
        [(*symmetries.lookup(view.symmetry), view.down, view.right) for view in views],
        device=canvases.device,
    ).reshape(batch, 5)
    if height != width and bool(table[:, 0].any()):
        raise ValueError(
            f"a batch of {height} x {width} canvases cannot mix views that exchange height and "
            "width with others; use square canvases, or symmetries e, r180, h, v"
        )
    return source_cells(table[:, :3], table[:, 3], table[:, 4], height, width)


def _turn_content(views: Sequence[View], content: Tensor) -> Tensor:
    """Content `bool [B, H, W]` after each sample's symmetry, before its shift."""
    return gather_cells(content, _source_index([View(view.symmetry) for view in views], content))


def _flatten_cells(canvases: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """`[B, H, W, ...]` as `[B, H * W, ...]`, and the index `[B, H * W]` expanded to that shape."""
    flat = canvases.flatten(1, 2)
    return flat, index.view(*index.shape, *[1] * (flat.dim() - 2)).expand_as(flat)


def _first_and_last(occupied: Tensor) -> tuple[Tensor, Tensor]:
    """First and last true position of `bool [B, N]`; N and -1 where there is none."""
    positions = torch.arange(occupied.shape[1], device=occupied.device)
    first = torch.where(occupied, positions, occupied.shape[1]).amin(dim=1)
    return first, torch.where(occupied, positions, -1).amax(dim=1)


def _require_batch(canvases: Tensor) -> None:
    if canvases.dim() < 3:
        raise ValueError(
            f"views act on batches [B, H, W, ...], got shape {list(canvases.shape)}; "
            "add a batch dimension with canvas[None]"
        )


def _content(canvases: Tensor, content: Tensor | None) -> Tensor:
    """The content to keep on the canvas, `bool [B, H, W]`: as given, or read off the canvases."""
    _require_batch(canvases)
    if content is not None:
        if content.dtype != torch.bool or content.shape != canvases.shape[:3]:
            raise ValueError(
                f"content must be bool {list(canvases.shape[:3])} to match the canvases, "
                f"got {content.dtype} {list(content.shape)}"
            )
        return content
    if canvases.dtype != torch.uint8 or canvases.dim() != 3:
        raise ValueError(
            "content can only be read off uint8 canvases [B, H, W], got "
            f"{canvases.dtype} {list(canvases.shape)}; pass content= for other tensors"
        )
    return (canvases != BLANK) & (canvases != MASK)


def _refuse_overflow(views: Sequence[View], content: Tensor) -> None:
    """Raise a ValueError if a shift would push content, turned already, off its canvas."""
    if all(view.down == 0 and view.right == 0 for view in views):
        return
    room = possible_shifts(content)
    down = torch.tensor([view.down for view in views], device=content.device)
    right = torch.tensor([view.right for view in views], device=content.device)
    overflow = torch.stack(
        [-down - room.up, down - room.down, -right - room.left, right - room.right]
    )
    if not bool((overflow > 0).any()):
        return
    sample = int((overflow > 0).any(dim=0).nonzero()[0])
    edges = ("top", "bottom", "left edge", "right edge")
    excess = " and ".join(
        f"{cells} cell{'s' if cells > 1 else ''} over the {edge}"
        for cells, edge in zip(overflow[:, sample].tolist(), edges, strict=True)
        if cells > 0
    )
    raise ValueError(
        f"{views[sample]} pushes the content of canvas {sample} {excess}; it can move "
        f"{-int(room.up[sample])}..{int(room.down[sample])} cells down and "
        f"{-int(room.left[sample])}..{int(room.right[sample])} cells right"
    )
