"""Settled rows: when the supervision steps of a row can end."""

import torch
from torch import Tensor

UNCHANGED_STEPS = 2  # consecutive unchanged steps after which a trusted answer has settled


class Settling:
    """Tracks rows over supervision steps and decides which of them have settled.

    A looped GPT uses it on single tokens, over loops.

    A row has settled, and its sample may stop, when its halt logit is above 0 and it has not
    changed for `UNCHANGED_STEPS` steps. The halting head alone stops too early: some rows that it
    trusts still change, mostly for the better. One unchanged step is not enough either: in a row
    longer than those of training, a carry may still be under way.
    """

    def __init__(self, unknown: Tensor, patience: int | None = None) -> None:
        """Begin before the first step.

        Args:
            unknown: cells to fill in, which alone are compared, bool [B, H, W].
            patience: consecutive unchanged steps after which a row has settled whatever its halt
                logit; None: never.
        """
        self.unknown, self.patience = unknown, patience
        self.before: Tensor | None = None
        self.unchanged = torch.zeros(len(unknown), dtype=torch.long, device=unknown.device)

    def update(self, cells: Tensor, halt_logits: Tensor) -> Tensor:
        """Return the rows that have settled after one more step, bool [B].

        Args:
            cells: of this step, uint8 [B, H, W].
            halt_logits: [B], above 0 where the model predicts that the row is correct.
        """
        if self.before is not None:  # before the first step there was no answer to keep
            same = ((cells == self.before) | ~self.unknown).all(-1).all(-1)
            self.unchanged = (self.unchanged + 1) * same
        self.before = cells
        settled = (halt_logits > 0) & (self.unchanged >= UNCHANGED_STEPS)
        return settled if self.patience is None else settled | (self.unchanged >= self.patience)

    def keep(self, index: Tensor) -> None:
        """Continue with the rows of a mask, bool [B]."""
        self.unknown, self.unchanged = self.unknown[index], self.unchanged[index]
        self.before = None if self.before is None else self.before[index]
