"""Views of canvases: a symmetry, then a shift, applied and undone.

Shifts never push the room of a solution over an edge. What wraps around is blank, a part of the
masked line, or a symbol that a model wrote outside that room; `undo_views` restores every cell. A
canvas is masked before it is viewed, and the mask moves with its row.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from augment import symmetry as symmetries


class View(NamedTuple):
    """A symmetry of the square, then a shift by whole cells."""

    symmetry: str = "e"  # a name in `augment.symmetry.SYMMETRIES`
    down: int = 0  # rows to move down after the symmetry; negative: up
    right: int = 0  # columns to move right; negative: left
    rollout: int = 0  # number of a model's run in this view; all but 0 have noise on its states


def possible_shifts(content: np.ndarray) -> np.ndarray:
    """Return the blank lines above, below, left and right of content: int64 [4, B].

    Args:
        content: cells that a shift must keep on the canvas, bool [B, H, W].
    """
    rows, columns = np.any(content, axis=2), np.any(content, axis=1)
    sides = rows, rows[:, ::-1], columns, columns[:, ::-1]
    return np.stack([np.where(one.any(1), one.argmax(1), one.shape[1]) for one in sides])


def distinct_views(
    content: np.ndarray,
    symmetries_allowed: Sequence[str],
    most: int,
    seed: int,
    along_rows: bool = False,
) -> list[View]:
    """Return different views of one canvas: the identity, then others in random order.

    Every symmetry comes once before any comes with another shift, because turned canvases differ
    more to a model than shifted ones. A larger ``most`` only adds views at the end.

    Args:
        content: cells that stay on the canvas, bool [H, W].
        symmetries_allowed: their names.
        most: highest number of views.
        seed: of the random order.
        along_rows: shift content along its own rows alone. To a translation-invariant model a shift
            across rows is the same input again. A shift along them is not: the masked row spans the
            full width, so more of it then lies on one side.
    """
    import torch  # the seeds of released results are those of its generator

    views = []
    for name in sorted({"e", *symmetries_allowed}, key=list(symmetries.SYMMETRIES).index):
        turned = symmetries.apply(name, content[None])
        up, down, left, right = possible_shifts(turned)[:, 0].tolist()
        if along_rows and symmetries.lookup(name).transpose:
            left = right = 0
        elif along_rows:
            up = down = 0
        views += [View(name, i, j) for i in range(-up, down + 1) for j in range(-left, right + 1)]
    others = [view for view in views if view != View()]
    order = torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))
    seen, turn = Counter(["e"]), {}
    for view in (others[i] for i in order.tolist()):
        turn[view] = seen[view.symmetry]
        seen[view.symmetry] += 1
    return [View(), *sorted(turn, key=turn.__getitem__)[: most - 1]]


def apply_views(views: Sequence[View], canvases: np.ndarray) -> np.ndarray:
    """Return B canvases, each in a view of its own: [B, H, W], any dtype.

    Views that exchange rows and columns need H = W.
    """
    viewed = np.empty_like(canvases)
    for view, canvas, result in zip(views, canvases, viewed, strict=True):
        turned = symmetries.apply(view.symmetry, canvas)
        result[:] = np.roll(turned, (view.down, view.right), (0, 1))
    return viewed


def undo_views(views: Sequence[View], viewed: np.ndarray) -> np.ndarray:
    """Return canvases, [B, H, W], from their views; the inverse of `apply_views`."""
    canvases = np.empty_like(viewed)
    for view, canvas, result in zip(views, viewed, canvases, strict=True):
        back = np.roll(canvas, (-view.down, -view.right), (0, 1))
        result[:] = symmetries.apply(symmetries.invert(view.symmetry), back)
    return canvases
