"""A view of a canvas, a symmetry followed by a shift, applied and undone on batches of canvases.

Shifts roll: cells that leave at one edge come in at the other, and `undo_views` gives all back.
Views are drawn such that no *content* crosses an edge: what comes round is blank, or a mask's line
that stays full. A canvas is masked first and viewed after: the mask then lies wherever the view has
moved its row.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from augment import symmetry as symmetries


class View(NamedTuple):
    """A symmetry of the square, then a shift of the content by whole cells."""

    symmetry: str = "e"  # a name from `augment.symmetry.SYMMETRIES`; some turn H × W into W × H
    down: int = 0  # cells to move after the symmetry; negative is up, or left
    right: int = 0
    rollout: int = 0  # number of the noise with which a model works on the view; 0: without noise


def possible_shifts(content: np.ndarray) -> np.ndarray:
    """Return the room around turned content `bool [B, H, W]` before a shift cuts it off.

    Cells up, down, left and right, `int64 [4, B]`.
    """
    rows, columns = np.any(content, axis=2), np.any(content, axis=1)
    sides = rows, rows[:, ::-1], columns, columns[:, ::-1]
    # Blank lines before the first one that is not.
    return np.stack([np.where(one.any(1), one.argmax(1), one.shape[1]) for one in sides])


def distinct_views(
    content: np.ndarray,
    symmetries_allowed: Sequence[str],
    most: int,
    seed: int,
    along_rows: bool = False,
) -> list[View]:
    """At most so many different views of one canvas: the identity, then others in random order.

    Every symmetry comes once before any comes with another shift: turned canvases differ more to a
    model than shifted ones. The same content, `bool [H, W]`, and seed give the same views, whatever
    `most` is.

    With ``along_rows``, shifts move the content along its own rows alone. For a model that does not
    see where a canvas lies, shifts across rows give the same input again. Shifts along a row do
    not: more of the row, which is masked over its full width, then lies on one side.
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
    """Each of B samples in a view of its own: `[B, H, W]` of any dtype, which stays.

    Of views that exchange rows and columns H and W have to be the same.
    """
    viewed = np.empty_like(canvases)
    for view, canvas, result in zip(views, canvases, viewed, strict=True):
        turned = symmetries.apply(view.symmetry, canvas)
        result[:] = np.roll(turned, (view.down, view.right), (0, 1))
    return viewed


def undo_views(views: Sequence[View], viewed: np.ndarray) -> np.ndarray:
    """The inverse of `apply_views`."""
    canvases = np.empty_like(viewed)
    for view, canvas, result in zip(views, viewed, canvases, strict=True):
        back = np.roll(canvas, (-view.down, -view.right), (0, 1))
        result[:] = symmetries.apply(symmetries.invert(view.symmetry), back)
    return canvases
