"""Halting head of a recursive transformer: "the answer is correct", read from a pool of tokens.

`RecursiveConfig.halt_pool` names the pool:

- ``first``: the head reads the first token, as in the published TRM.
- ``mask``: it reads the mean of the masked cells.
- ``every``: it reads each cell by itself, and the answer is correct if all of them are: the product
  of their probabilities. One incorrect cell is as clear on a large canvas as on a small one.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.symbols import MASK


class HaltHead(nn.Linear):
    """Predicts "the answer is correct"; at first "incorrect", whatever it reads.

    It has two outputs as in the published TRM; the second (continue) is not used. Nearly all early
    answers are incorrect, so the initial bias is -5. Where each token is judged by itself it is
    2.5, that is 92 %: some 60 of them have a product as low.
    """

    def __init__(self, pool: str, hidden_size: int):
        super().__init__(hidden_size, 2)
        self.pool = pool  # a value of `RecursiveConfig.halt_pool`
        nn.init.zeros_(self.weight)
        nn.init.constant_(self.bias, 2.5 if pool == "every" else -5.0)

    def token_weights(
        self, symbols: Tensor, present: Tensor | None, prefix_length: int
    ) -> Tensor | None:
        """Return the weights of tokens in the pool, float32 [B, P + S]; None: the first alone.

        Args:
            symbols: of the cells' tokens, integers [B, S].
            present: bool [B, P + S], False for padding; None: there is none.
            prefix_length: number of tokens before the cells, P.
        """
        if self.pool == "first":
            return None
        masked = F.pad(symbols == MASK, (prefix_length, 0))
        there = torch.ones_like(masked) if present is None else present
        if self.pool == "every":
            return F.pad(there[:, prefix_length:].float(), (prefix_length, 0))
        # On a canvas with nothing left to fill in, all tokens count.
        weights = (masked | (there & ~masked.any(dim=1, keepdim=True))).float()
        return weights / weights.sum(dim=1, keepdim=True)

    def logits(self, z: Tensor, weights: Tensor | None) -> Tensor:
        """Return halt logits of "the answer is correct", float32 [B]; above 0 means halt.

        Args:
            z: states of the tokens, [B, P + S, D].
            weights: see `token_weights`.
        """
        if weights is None:
            return self(z[:, 0])[:, 0].float()
        if self.pool == "mask":
            mean = (weights.to(z.dtype).unsqueeze(1) @ z).squeeze(1)  # [B, D]
            return self(mean)[:, 0].float()
        log_correct = F.logsigmoid(self(z)[..., 0].float())  # [B, P + S]
        return log_odds((log_correct * weights).sum(dim=1))


def log_odds(log_probability: Tensor) -> Tensor:
    """Return the log odds of an event from its log probability, float32 [...]; at most 16.2."""
    log = log_probability.clamp(max=-1e-7)
    return log - torch.log(-torch.expm1(log))
