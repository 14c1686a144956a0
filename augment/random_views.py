"""A view of each training sample, drawn and shown for a whole batch where the batch is.

What `augment.transforms` does with one albumentations call a sample, the symmetries and the shift
alone, as tensors: nothing waits for the device, and no worker is needed. `tests/augment` holds
both to the same distribution.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from augment import symmetry
from augment.views import gather_cells, possible_shifts, source_cells
from canvas.symbols import BLANK


class Drawn(NamedTuple):
    """What is drawn for B samples on canvases of H x W.

    Attributes:
        symmetry: ``int64 [B]``, indices in `augment.symmetry.SYMMETRIES`.
        source: ``int64 [B, H * W]``, for each cell the one that it comes from.
    """

    symmetry: Tensor
    source: Tensor

    def show(self, canvases: Tensor) -> Tensor:
        """``[B, H, W]`` of any dtype as the samples' views show them."""
        return gather_cells(canvases, self.source)


@dataclass
class RandomViews:
    """Which views training samples are shown in.

    Attributes:
        symmetries: names from `augment.symmetry.SYMMETRIES`, each as likely as the others; unless
            named, all eight. `e` alone turns nothing.
        shift: whether the content then moves to a place on the canvas, each as likely as the
            others at which it lies inside.
    """

    symmetries: list[str] = field(default_factory=lambda: list(symmetry.SYMMETRIES))
    shift: bool = False

    def __post_init__(self) -> None:
        if not self.symmetries or len(set(self.symmetries)) < len(self.symmetries):
            raise ValueError(
                "data.views: symmetries are one or more names, each once, like [e, r180], not "
                f"[{', '.join(map(str, self.symmetries))}]"
            )
        for name in self.symmetries:
            symmetry.lookup(name)

    def draw(self, labels: Tensor, numbers: Tensor) -> Drawn:
        """A view of each sample.

        Args:
            labels: ``uint8 [B, H, W]``, the canvases with their answers: what is not blank stays
                on the canvas.
            numbers: ``float [B, 3]``, random, from 0 up to, and without, 1, on the same device.

        Raises:
            ValueError: a symmetry exchanges H and W, and they differ.
        """
        height, width = labels.shape[1:]
        if height != width and any(symmetry.lookup(name).transpose for name in self.symmetries):
            raise ValueError(
                "data.views exchange rows and columns: give data.canvas an equal height and width, "
                "or square: true, or leave r90, r270, t and hvt out of data.views.symmetries"
            )
        known = list(symmetry.SYMMETRIES)
        allowed = torch.tensor([known.index(name) for name in self.symmetries])
        moves = torch.tensor(list(symmetry.SYMMETRIES.values()), dtype=torch.int64)
        first, *places = numbers.unbind(1)
        which = allowed.to(labels.device)[(first * len(allowed)).long()]
        moved = moves.to(labels.device)[which]
        down = right = torch.zeros_like(which)
        if self.shift:
            turned = gather_cells(labels, source_cells(moved, down, right, height, width))
            room = possible_shifts(turned != BLANK)
            down, right = (
                (place * (before + after + 1)).long() - before
                for place, before, after in zip(places, room[::2], room[1::2], strict=True)
            )
        return Drawn(which, source_cells(moved, down, right, height, width))
