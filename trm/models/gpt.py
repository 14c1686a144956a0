"""GPT on a canvas: the cells as a sequence, generated token by token.

The architecture of nanoGPT (Radford et al. 2019; karpathy/nanoGPT):

- pre-norm blocks: causal attention, then an MLP with GELU of four times the width
- layer norms with learned gains; no biases by default
- embedding and head share one matrix
- normal initial weights of deviation 0.02; those that end a residual branch are scaled by depth
- any position encoding of `trm.models.positions`; a row end counts as one more column
- greedy or sampled decoding with a cache of keys and values
- optional pause tokens between operands and answer (`trm.models.pauses`)

A looped GPT applies its stack of blocks several times, with the embedded tokens added before every
loop (Yang et al. 2023, "Looped Transformers are Better at Learning Learning Algorithms"). Keys and
values are then kept for every loop of every block, so that decoding with a cache is exact.

With ``halting`` the number of loops adapts to the token (Graves 2016, "Adaptive Computation Time
for Recurrent Neural Networks"). A head reads the state after each loop and predicts "the likeliest
token is correct", as that of the tiny recursive model predicts "the row is correct". A token is
written when its halt logit is above 0 and it has not changed for
`trm.models.settling.UNCHANGED_STEPS` loops, or after the last loop. Later loops read a token only
when a later token needs them.
"""

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trm.models.attention import Attention, KeyValueCache, Linear, Terms, compute_dtype
from trm.models.configs import GPTConfig
from trm.models.coordinates import Coordinates
from trm.models.iterative import Network
from trm.models.pauses import FIRST, Pauses
from trm.models.positions import Learned, Learned2D, check_canvas, make_position
from trm.models.sampling import Sampler
from trm.models.settling import Settling
from trm.runtime.progress import report
from trm.runtime.torch_settings import float32_default

INITIAL_STD = 0.02

Array = TypeVar("Array")


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
        """Map [B, T, D] to [B, T, D]; with a cache, the tokens follow those in it."""
        x = x + self.attention(self.attention_norm(x), terms, causal=True, cache=cache)
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Generated(NamedTuple, Generic[Array]):
    """Sequences that a model has written, [B, T] each; the last three are 0 for given tokens.

    They are tensors, or arrays of NumPy.
    """

    ids: Array  # int64, tokens
    # float32, log-probabilities: of the token, or with halting of "this token is correct"
    log_probs: Array
    loops: Array  # int64, loops after which the token was written
    unsettled: Array  # bool, whether the loops ran out before the halting head was settled


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
            causal=True,
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
        self.halt_head: nn.Linear | None = None
        if config.halting:
            self.halt_head = nn.Linear(D, 1)
            nn.init.zeros_(self.halt_head.weight)  # even odds at first
            nn.init.zeros_(self.halt_head.bias)
        self.pauses: nn.Parameter | None = None
        if config.pauses:
            self.pauses = nn.Parameter(torch.randn(config.pauses, D) * INITIAL_STD)

    def accepts(self, height: int, width: int) -> bool:
        """Return whether the position encoding supports canvases of that size."""
        return self.position.accepts(Coordinates.canvas(height, width + 1, prefix_length=1))

    def forward(
        self, ids: Tensor, height: int, width: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return logits of the token after each one, [B, T, V]; arguments as for `activations`."""
        return self.head(self.activations(ids, height, width, generator))

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
        return self.loop_states(ids, height, width, generator)[-1]

    def loop_states(
        self, ids: Tensor, height: int, width: int, generator: torch.Generator | None = None
    ) -> list[Tensor]:
        """Return the state of each token after each loop, [B, T, D] each, as for `activations`."""
        self._check(ids, height, width, most=1 + height * (width + 1))
        terms = self._terms(height, width, generator)
        if self.pauses is None:
            terms = terms.part(0, ids.shape[1])
            return self.hidden(ids, terms, self.position.token_vectors(ids, generator))
        pauses = Pauses.of(ids, len(self.pauses))
        ids, terms = pauses.inserted(ids), terms.at(pauses.sources)
        states = self.hidden(ids, terms, self.position.token_vectors(ids, generator))
        return [pauses.of_writers(x) for x in states]

    @torch.no_grad()
    def generate(
        self, forced: Tensor, height: int, width: int, end: int, sampler: Sampler | None = None
    ) -> Generated[Tensor]:
        """Write a token wherever none is given. Call in evaluation mode.

        All samples move in lock-step, until every sequence has its end token.

        Args:
            forced: int64 [B, T], given tokens, −1 where the model writes. The first token, the
                start, is always given. T is at most ``height * (width + 1) + 2``: start, cells and
                row ends, end.
            height: of the canvas.
            width: of the canvas.
            end: the end token. All tokens after it become ``end``, even given ones.
            sampler: chooses the tokens; None: the likeliest ones. Log-probabilities remain those of
                the model itself, at temperature 1.

        Raises:
            ValueError: the shape or the canvas size does not suit the model, or no start is given.
        """
        self._check(forced, height, width, most=2 + height * (width + 1))
        given = forced >= 0
        if not given[:, 0].all():
            raise ValueError("forced[:, 0] must be the start token in every sample, got -1.")
        pauses = None
        if self.pauses is not None:
            pauses = Pauses.of(forced, len(self.pauses))
            forced = pauses.inserted(forced)
            given = forced >= 0
        kind = forced.device.type
        # A CPU multiplies a handful of rows in float32 up to five times as fast as in bfloat16.
        autocast = kind != "cpu" and torch.is_autocast_enabled(kind)
        batch, length = forced.shape
        ids = torch.where(given, forced, end)
        log_probs = torch.zeros(batch, length, dtype=torch.float32, device=ids.device)
        loops, unsettled = torch.zeros_like(ids), torch.zeros_like(given)
        with torch.autocast(kind, enabled=autocast):
            terms = self._terms(height, width)
            if pauses is not None:  # the end token is never read, and has no terms
                terms = terms.at(pauses.sources[:, : length - 1])
            reading = _Reading(self, ids, terms)
            # The longest beginning that is given in all samples is read in one pass.
            first = int(given.all(dim=0).long().cumprod(dim=0).sum())
            ended = (ids[:, :first] == end).any(dim=1)
            for t in range(first, length):
                if ended.all():
                    break
                report("tokens, at most", t, length, solving=True)
                writes = ~given[:, t] & ~ended
                reading.read(t)
                chosen, known, *looped = self._next(reading, writes, sampler)
                ids[:, t] = torch.where(writes, chosen, ids[:, t])
                log_probs[:, t] = torch.where(writes, known, 0.0)
                for part, value in zip((loops, unsettled), looped, strict=True):
                    part[:, t] = value * writes
                ended |= ids[:, t] == end
        found = Generated(ids, log_probs, loops, unsettled)
        if pauses is not None:
            found = Generated(*map(pauses.removed, found))
        ids = found.ids.masked_fill((found.ids == end).cumsum(dim=1) > 0, end)
        return found._replace(ids=ids)

    def _next(
        self, reading: "_Reading", writes: Tensor, sampler: Sampler | None
    ) -> tuple[Tensor, ...]:
        """Run loops on the last token, until those samples have halted that write, bool [B].

        Returns:
            The next token and the other parts of a `Generated`, [B] each.
        """
        halting = self.halt_head is not None
        done = ~writes if halting else torch.zeros_like(writes)
        settled = torch.zeros_like(writes)
        settling = Settling(torch.ones_like(writes)[:, None, None])
        token = torch.zeros_like(writes, dtype=torch.int64)
        loops = torch.zeros_like(token)
        log_prob = torch.zeros(len(writes), dtype=torch.float32, device=writes.device)
        if sampler is not None:
            sampler.next_token(writes, self.config.vocab_size)
        for loop in range(self.config.loops):
            if done.all():
                break
            x = self.norm(reading.loop(loop)[:, -1])  # [B, D]
            logits = self.head(x).float()  # [B, V]
            chosen = logits.argmax(dim=-1) if sampler is None else sampler(logits)
            if halting:
                halt_logits = self.halt_logits(x)
                known = F.logsigmoid(halt_logits)
                settled = settling.update(chosen[:, None, None], halt_logits)
            else:
                known = logits.log_softmax(dim=-1).gather(1, chosen[:, None]).squeeze(1)
            token, log_prob = torch.where(done, token, chosen), torch.where(done, log_prob, known)
            loops = torch.where(done, loops, loop + 1)
            done = done | settled
        return token, log_prob, loops, ~done if halting else torch.zeros_like(done)

    def _terms(self, height: int, width: int, generator: torch.Generator | None = None) -> Terms:
        weight = self.embed_tokens.weight
        cells = Coordinates.canvas(height, width + 1, prefix_length=1, device=weight.device)
        return self.position.terms(cells, compute_dtype(weight), generator=generator)

    def hidden(self, ids: Tensor, terms: Terms, of_tokens: Tensor | None = None) -> list[Tensor]:
        """Return states after each loop and the last norm, [B, T, D]: the part to compile."""
        x = embedded = self.embed(ids, terms, of_tokens)
        states = []
        for loop in range(self.config.loops):
            if loop:
                x = x + embedded
            x = self.run_blocks(x, terms, loop)
            states.append(self.norm(x))
        return states

    def run_blocks(
        self, x: Tensor, terms: Terms, loop: int, caches: Sequence[KeyValueCache] = ()
    ) -> Tensor:
        """Apply all blocks once, [B, T, D] to [B, T, D].

        Args:
            x: states of the tokens.
            terms: position terms of attention.
            loop: its number, from 0, for `trm.models.hooks` alone.
            caches: one for each block, whose tokens come before these.
        """
        for layer, cache in zip(self.layers, caches or repeat(None), strict=False):
            x = layer(x, terms, cache)
        return x

    def embed(self, ids: Tensor, terms: Terms, of_tokens: Tensor | None = None) -> Tensor:
        """Return embedded tokens with the vectors of their positions, [B, T, D]."""
        if self.pauses is None:
            embedded = self.embed_tokens(ids)
        else:
            pause = ids >= FIRST
            embedded = self.embed_tokens(ids.masked_fill(pause, 0))
            of_pauses = self.pauses[(ids - FIRST).clamp(min=0)]
            embedded = torch.where(pause.unsqueeze(-1), of_pauses, embedded)
        for vectors in (terms.vectors, of_tokens):
            if vectors is not None:
                embedded = embedded + vectors
        return embedded.to(compute_dtype(self.embed_tokens.weight))

    def head(self, x: Tensor) -> Tensor:
        """Return logits [..., V] of the next token from activations [..., D]."""
        return F.linear(x, self.embed_tokens.weight)

    def halt_logits(self, x: Tensor) -> Tensor:
        """Return halt logits of "the likeliest token is correct", float32 [...].

        Above 0 means halt. States are [..., D]. The model must have a halting head.
        """
        assert self.halt_head is not None
        return self.halt_head(x).squeeze(-1).float()

    def _check(self, ids: Tensor, height: int, width: int, most: int) -> None:
        if ids.ndim != 2 or ids.dtype != torch.int64 or not 1 <= ids.shape[1] <= most:
            raise ValueError(
                f"a {height} x {width} canvas is a sequence of int64 [batch, tokens] with 1 to "
                f"{most} tokens, got {ids.dtype} {list(ids.shape)}."
            )
        check_canvas(self, height, width)


class _Reading:
    """Tokens that a GPT reads, with the keys and values of every loop of every block.

    A loop may lag behind: it reads the tokens that wait for it when it is run.
    """

    def __init__(self, model: GPT, ids: Tensor, terms: Terms) -> None:
        """Begin to read ``ids``, int64 [B, T], which may be written while they are read."""
        self.model, self.ids, self.terms, self.length = model, ids, terms, 0
        config = model.config
        loops = range(config.loops)
        self.caches: list[list[KeyValueCache]] = [[] for _ in loops]
        self.waiting: list[list[Tensor]] = [[] for _ in loops]  # inputs of each loop
        channels = config.hidden_size // config.num_heads
        self.size = (len(ids), config.num_heads, ids.shape[1] - 1, channels)
        self.embedded = torch.empty(0)

    def read(self, length: int) -> None:
        """Embed the tokens up to ``length``, which then wait for the first loop."""
        new, model = slice(self.length, length), self.model
        of_tokens = model.position.token_vectors(self.ids[:, :length])
        of_tokens = None if of_tokens is None else of_tokens[:, new]
        embedded = model.embed(self.ids[:, new], self.terms.part(self.length, length), of_tokens)
        if not self.length:
            shape = (len(self.ids), self.size[2], embedded.shape[-1])
            self.embedded = embedded.new_empty(shape)
        self.embedded[:, new] = embedded
        self.waiting[0].append(embedded)
        self.length = length

    def loop(self, index: int) -> Tensor:
        """Run a loop, from 0, on the K tokens that wait for it; return their states, [B, K, D]."""
        waiting, caches = self.waiting[index], self.caches[index]
        x = waiting[0] if len(waiting) == 1 else torch.cat(waiting, dim=1)
        waiting.clear()
        if not caches:
            layers = self.model.layers
            caches += [KeyValueCache(self.size, x.dtype, x.device) for _ in layers]
        first = caches[0].length
        terms = self.terms.part(first, self.length)
        x = self.model.run_blocks(x, terms, index, caches)
        if index + 1 < len(self.waiting):
            self.waiting[index + 1].append(x + self.embedded[:, first : self.length])
        return x
