"""Sampling of tokens: temperature and top-k, by the Gumbel-max trick."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor


class Sampler:
    """Draws tokens from softmax(logits / temperature), as generators decide.

    Each sample has a generator of its own, which is used once for each token that it writes. So a
    sample's tokens do not depend on the other samples of the batch.

    Args:
        temperature: above 0; towards 0 the likeliest token is always chosen.
        top_k: number of likeliest tokens that can be chosen; None: all.
        generators: one for each of B samples, on the CPU.
    """

    def __init__(self, temperature: float, top_k: int | None, generators: Sequence[Generator]):
        self.temperature, self.top_k, self.generators = temperature, top_k, generators
        self.words = torch.empty(0)  # random numbers of the current token, float32 [B, V]

    def next_token(self, writes: Tensor, vocab_size: int) -> None:
        """Draw the random numbers of the next token of the samples that write, bool [B]."""
        how: Any = {"dtype": torch.float32, "device": "cpu"}
        words = torch.full((len(writes), vocab_size), 0.5, **how)
        for i in writes.nonzero()[:, 0].tolist():
            words[i] = torch.rand(vocab_size, generator=self.generators[i], **how)
        self.words = words.clamp_min(torch.finfo(torch.float32).tiny).to(writes.device)

    def __call__(self, logits: Tensor) -> Tensor:
        """Return a token for each sample, int64 [B], from logits, float32 [B, V].

        The same random numbers serve all loops of a token.
        """
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, -math.inf)
        gumbel = -(-self.words.log()).log()
        return (logits / self.temperature + gumbel).argmax(dim=-1)
