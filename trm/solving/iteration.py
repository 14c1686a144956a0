"""An iterative model at work on rows: supervision steps, and when a row has settled."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trm.models.draws import Noise
from trm.models.iterative import IterativeModel, Loop

PATIENCE = 2  # steps in succession that must leave a row as it is before it counts as settled


class Settling:
    """Watches rows from step to step, and says which of them have settled.

    A row has settled, and its sample may stop, when it is held more likely right than wrong and
    `PATIENCE` steps in succession have left it as it was. The halting head alone stops too early:
    of rows that it trusts, some still change, mostly for the better. In a row longer than any of
    training a carry may still be on its way when one step changes nothing.

    Args:
        masked: bool [B, H, W], the cells to fill in: no others count.
    """

    def __init__(self, masked: Tensor) -> None:
        self.masked = masked
        self.before: Tensor | None = None
        self.calm = torch.zeros(len(masked), dtype=torch.long, device=masked.device)

    def seen(self, cells: Tensor, halt_logits: Tensor) -> Tensor:
        """Which rows have settled, bool [B].

        Args:
            cells: uint8 [B, H, W], the symbols after one more step.
            halt_logits: [B], above 0 where the row is held more likely right than wrong.
        """
        if self.before is not None:  # before the first step there was no answer to keep
            unchanged = ((cells == self.before) | ~self.masked).all(-1).all(-1)
            self.calm = (self.calm + 1) * unchanged
        self.before = cells
        return (halt_logits > 0) & (self.calm >= PATIENCE)

    def keep(self, index: Tensor) -> None:
        """Go on with some rows, by bool [B]."""
        self.masked, self.calm = self.masked[index], self.calm[index]
        self.before = None if self.before is None else self.before[index]


@dataclass(frozen=True)
class Step:
    """What a model holds after one of its supervision steps.

    Attributes:
        number: of the step, from 1.
        samples: which samples are still at work, int64 [N].
        logits: of every cell's symbol, [N, H, W, V].
        halt_logits: [N].
        cells: uint8 [N, H, W], the most likely symbols.
        settled: bool [N], see `Settling`.
        last: bool [N], whose last step this is.
    """

    number: int
    samples: Tensor
    logits: Tensor
    halt_logits: Tensor
    cells: Tensor
    settled: Tensor
    last: Tensor


@torch.no_grad()
def iterate(
    model: IterativeModel,
    tokens: Tensor,
    masked: Tensor,
    steps: int,
    halt: bool = True,
    noise: Noise | None = None,
) -> Iterator[Step]:
    """Supervision steps on a batch of rows, of which those that have settled are left out.

    Args:
        model: on the device of the tokens.
        tokens: uint8 [B, H, W].
        masked: bool [B, H, W], the cells to fill in.
        steps: at most; at least one.
        halt: False goes on with all samples to the end.
        noise: added to the states before each step.
    """
    loop, settling = Loop(model, tokens), Settling(masked)
    samples = torch.arange(len(tokens), device=tokens.device)
    for number in range(1, steps + 1):
        if noise is not None:
            noise.on(loop, samples)
        loop.step()
        logits, halt_logits = loop.read()
        cells = logits.argmax(dim=-1).to(tokens.dtype)
        settled = settling.seen(cells, halt_logits)
        last = settled & halt if number < steps else torch.ones_like(settled)
        yield Step(number, samples, logits, halt_logits, cells, settled, last)
        if last.all():
            return
        if last.any():
            samples = samples[~last]
            loop.keep(~last)
            settling.keep(~last)
