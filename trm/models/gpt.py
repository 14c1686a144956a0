"""GPT on a canvas: the cells as a sequence, generated token by token.

The architecture of nanoGPT (Radford et al. 2019; karpathy/nanoGPT):
- pre-norm blocks: causal attention, then an MLP with GELU of four times the width
- layer norms with learned gains; no biases by default
- embedding and head share one matrix
- normal initial weights of deviation 0.02; those that end a residual branch are scaled by depth
- any position encoding of `trm.models.positions`; a row end counts as one more column
- greedy or sampled decoding with a cache of keys and values

A looped GPT applies its stack of blocks several times, with the embedded tokens added before every
loop (Yang et al. 2023, "Looped Transformers are Better at Learning Learning Algorithms"). Keys and
values are then kept for every loop of every block, so that decoding with a cache is exact.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trm.models.attention import Attention, KeyValueCache, Linear, Terms, compute_dtype
from trm.models.configs import GPTConfig
from trm.models.coordinates import Coordinates
from trm.models.iterative import Network
from trm.models.positions import Learned, Learned2D, check_canvas, make_position
from trm.torch_settings import float32_default

INITIAL_STD = 0.02


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        D = config.hidden_size
        inner = config.intermediate_size or 4 * D
        self.attention_norm = nn.LayerNorm(D, bias=config.bias)
        self.attention = Attention(D, config.num_heads, config.bias)
        self.mlp_norm = nn.LayerNorm(D, bias=config.bias)
        self.up = Linear(D, inner, config.bias)
        self.down = Linear(inner, D, config.bias)

    def forward(self, x: Tensor, terms: Terms, cache: KeyValueCache | None = None) -> Tensor:
        """Map [B, T, D] to [B, T, D]. With a cache that contains tokens, T must be 1."""
        x = x + self.attention(self.attention_norm(x), terms, causal=True, cache=cache)
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class GPT(Network):
    """Predicts the next token of a canvas's sequence.

    A sequence is a start token, then each row's cells and its row end. Under autocast activations
    are kept in autocast's dtype.
    """

    @float32_default()
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        D = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, D)
        self.position = make_position(
            config.position,
            hidden_size=D,
            num_heads=config.num_heads,
            height=config.height,
            width=config.width + 1,  # the row end
            prefix_length=1,  # the start token
            bias_scale=math.sqrt(D),
        )
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(D, bias=config.bias)
        branches = 2 * config.num_layers  # GPT-2's initial weights from here on
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                ends_a_branch = name.endswith(("attention.out", "down"))
                std = INITIAL_STD / math.sqrt(branches) if ends_a_branch else INITIAL_STD
                nn.init.normal_(module.weight, std=std)
        if isinstance(self.position, Learned | Learned2D):
            for vectors in self.position.parameters():
                nn.init.normal_(vectors, std=INITIAL_STD)

    def accepts(self, height: int, width: int) -> bool:
        """Return whether the position encoding supports canvases of that size."""
        return self.position.accepts(Coordinates.canvas(height, width + 1, prefix_length=1))

    def forward(self, *read: Any, **more: Any) -> Tensor:
        """Return logits of the token after each one, [B, T, V]; arguments as for `activations`."""
        return self.head(self.activations(*read, **more))

    def activations(
        self, ids: Tensor, height: int, width: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the last hidden state of each token, [B, T, D].

        Args:
            ids: int64 [B, T], a start token, then rows of ``width`` cells and a row end in reading
                order, as far as they are known. T is at most ``height * (width + 1) + 1``.
            height: of the canvas.
            width: of the canvas.
            generator: in training, for ``randomised`` and ``abacus`` positions, which are the same
                for the whole batch; None: always the same positions.

        Raises:
            ValueError: the shape or the canvas size does not suit the model.
        """
        self._check(ids, height, width, most=1 + height * (width + 1))
        terms = self._terms(height, width, generator).part(0, ids.shape[1])
        return self.hidden(ids, terms, self.position.token_vectors(ids, generator))

    @torch.no_grad()
    def generate(self, forced: Tensor, height: int, width: int, end: int) -> tuple[Tensor, Tensor]:
        """Write the likeliest token wherever none is given. Call in evaluation mode.

        All samples move in lock-step, until every sequence has its end token.

        Args:
            forced: int64 [B, T], given tokens, −1 where the model writes. The first token, the
                start, is always given. T is at most ``height * (width + 1) + 2``: start, cells and
                row ends, end.
            height: of the canvas.
            width: of the canvas.
            end: the end token. All tokens after it become ``end``, even given ones.

        Returns:
            Tokens, int64 [B, T], and the log-probabilities of the written ones, float32 [B, T], 0
            for all others.

        Raises:
            ValueError: the shape or the canvas size does not suit the model, or no start is given.
        """
        self._check(forced, height, width, most=2 + height * (width + 1))
        given = forced >= 0
        if not given[:, 0].all():
            raise ValueError("forced[:, 0] must be the start token in every sample, got -1.")
        kind = forced.device.type
        # A CPU multiplies a handful of rows in float32 up to five times as fast as in bfloat16.
        autocast = kind != "cpu" and torch.is_autocast_enabled(kind)
        batch, length = forced.shape
        ids = torch.where(given, forced, end)
        log_probs = torch.zeros(batch, length, dtype=torch.float32, device=ids.device)
        with torch.autocast(kind, enabled=autocast):
            terms = self._terms(height, width)
            config, dtype = self.config, compute_dtype(self.embed_tokens.weight)
            size = (batch, config.num_heads, length - 1, config.hidden_size // config.num_heads)
            number = config.loops * config.num_layers  # for every loop of every block
            caches = [KeyValueCache(size, dtype, ids.device) for _ in range(number)]
            # The longest beginning that is given in all samples is read in one pass.
            first = int(given.all(dim=0).long().cumprod(dim=0).sum())
            ended, read = (ids[:, :first] == end).any(dim=1), 0
            for t in range(first, length):
                if ended.all():
                    break
                of_tokens = self.position.token_vectors(ids[:, :t])
                new = None if of_tokens is None else of_tokens[:, read:]
                x = self.hidden(ids[:, read:t], terms.part(read, t), new, caches)
                logits = self.head(x[:, -1]).float()  # [B, V]
                chosen = logits.argmax(dim=-1)
                known = logits.log_softmax(dim=-1).gather(1, chosen[:, None]).squeeze(1)
                writes = ~given[:, t] & ~ended
                ids[:, t] = torch.where(writes, chosen, ids[:, t])
                log_probs[:, t] = torch.where(writes, known, 0.0)
                ended |= ids[:, t] == end
                read = t
        return ids.masked_fill((ids == end).cumsum(dim=1) > 0, end), log_probs

    def _terms(self, height: int, width: int, generator: torch.Generator | None = None) -> Terms:
        weight = self.embed_tokens.weight
        cells = Coordinates.canvas(height, width + 1, prefix_length=1, device=weight.device)
        return self.position.terms(cells, compute_dtype(weight), generator=generator)

    def hidden(
        self,
        ids: Tensor,
        terms: Terms,
        of_tokens: Tensor | None = None,
        caches: list[KeyValueCache] | None = None,
    ) -> Tensor:
        """Return activations after the last norm, [B, T, D]: the part that is worth compiling."""
        embedded = self.embed_tokens(ids)
        for vectors in (terms.vectors, of_tokens):
            if vectors is not None:
                embedded = embedded + vectors
        x = embedded = embedded.to(compute_dtype(self.embed_tokens.weight))
        for loop in range(self.config.loops):
            if loop:
                x = x + embedded
            for index, layer in enumerate(self.layers, start=loop * len(self.layers)):
                x = layer(x, terms, None if caches is None else caches[index])
        return self.norm(x)

    def head(self, x: Tensor) -> Tensor:
        """Return logits [..., V] of the next token from activations [..., D]."""
        return F.linear(x, self.embed_tokens.weight)

    def _check(self, ids: Tensor, height: int, width: int, most: int) -> None:
        if ids.ndim != 2 or ids.dtype != torch.int64 or not 1 <= ids.shape[1] <= most:
            raise ValueError(
                f"a {height} x {width} canvas is a sequence of int64 [batch, tokens] with 1 to "
                f"{most} tokens, got {ids.dtype} {list(ids.shape)}."
            )
        check_canvas(self, height, width)
