"""What a model decided of a canvas, kept until the canvas's next row is to be filled in."""

from collections import OrderedDict

import torch
from torch import Tensor

from canvas.symbols import BLANK, MASK
from trm.models.iterative import Loop
from trm.models.rowwise import RowwiseLoop

_MOST = 4096  # canvases


class Memory:
    """The decisions of a `RowwiseLoop` on canvases as it filled them; of other loops, nothing.

    When a canvas comes again with one row more to fill in, all rows above it are as they were, and
    need not be worked out anew. It is found by what stands on it. What is found changes no answer,
    as that follows from what stands above alone; it comes in fewer steps.
    """

    def __init__(self) -> None:
        self.decided: OrderedDict[bytes, Tensor] = OrderedDict()

    def add(self, loop: Loop, filled: Tensor, which: Tensor) -> None:
        """Keep what a loop has decided.

        Args:
            loop: at its end.
            filled: uint8 [B, H, W], its canvases with what it wrote.
            which: bool [B], the samples to keep.
        """
        if not isinstance(loop, RowwiseLoop):
            return
        kept = loop.decided_cells()[which].cpu()
        for canvas, cells in zip(filled[which].cpu(), kept, strict=True):
            self.decided[_key(canvas)] = cells
        while len(self.decided) > _MOST:
            self.decided.popitem(last=False)

    def recall(self, loop: Loop, tokens: Tensor) -> None:
        """Let a loop that has not begun start from what is known of its canvases [B, H, W]."""
        if not isinstance(loop, RowwiseLoop) or not self.decided:
            return
        before = tokens.masked_fill(tokens == MASK, BLANK).cpu()
        found = [self.decided.get(_key(canvas)) for canvas in before]
        known = next((cells for cells in found if cells is not None), None)
        if known is None:
            return
        cells = torch.stack([torch.zeros_like(known) if one is None else one for one in found])
        is_known = torch.tensor([one is not None for one in found])
        loop.go_on(cells.to(tokens.device), is_known.to(tokens.device))


def _key(canvas: Tensor) -> bytes:
    return canvas.numpy().tobytes()
