"""The tiny recursive model: one small network, applied again and again to two states.

After Jolicoeur-Martineau 2025, "Less is More: Recursive Reasoning with Tiny Networks", and its
code, SamsungSAILMontreal/TinyRecursiveModels:
- two states per token, z_H (the answer so far) and z_L (the working), one network for both
- an H cycle: z_L is updated L_cycles times from z_L + z_H + input, then z_H once from z_H + z_L
- a supervision step: H_cycles of them, of which only the last carries a gradient
- post-norm blocks without biases: attention or a mixer over tokens, then SwiGLU
- a halting head that judges the answer
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.choices import check_choices, one_of
from canvas.symbols import BLANK, MASK, VOCAB_SIZE
from trm.models.bias import all_pairs, attention_bias, few_keys
from trm.models.coordinates import NEIGHBOURHOODS, Cells
from trm.models.layers import (
    Attention,
    Linear,
    PostNormBlock,
    Rotation,
    SwiGLU,
    compute_dtype,
    swiglu_size,
    truncated_normal_,
)
from trm.models.positions import (
    POSITIONS,
    check_canvas,
    make_position,
)

_CERTAIN = 30.0  # logit of a blank cell that is no token

FEW_FROM = 1000  # tokens, for lists of keys in place of all pairs; see benchmarks/horizon.py

BLOCKS = ("attention", "mixer")
TOKENS = ("all", "written")
HALT_POOLS = ("first", "mean", "mask")


@dataclass
class RecursiveConfig:
    """The shape of a ``TinyRecursiveModel``; the defaults are the reference's.

    Raises:
        ValueError: a size is not positive, sizes do not fit together, or a name is unknown.
    """

    height: int = 20  # canvas that learned positions and the mixer are made for
    width: int = 20
    vocab_size: int = VOCAB_SIZE
    hidden_size: int = 512  # channels of a token
    num_heads: int = 8  # attention heads
    num_layers: int = 2  # blocks in the one network
    intermediate_size: int | None = None  # inside SwiGLU; None: from expansion
    expansion: float = 4.0  # 2/3 of expansion * width, up to a multiple of 256
    H_cycles: int = 3  # per supervision step, of which the last with gradient
    L_cycles: int = 6  # updates of z_L per H cycle
    block: str = one_of("attention", BLOCKS)  # mixer: an MLP over tokens, for one canvas size
    tokens: str = one_of("all", TOKENS)  # cells that become tokens; written: those not blank
    position: str = one_of("rope_1d", POSITIONS)  # how it is encoded; the mixer needs none
    neighbourhood: str = one_of("all", NEIGHBOURHOODS)  # cells that attention sees
    radius: int = 2  # of the near square, and of the exact offsets of relative_2d
    direction_bias: float = 0.0  # relative_2d: of each head, at the start
    rope_theta: float = 10000.0  # base of the rotations of rope_1d and rope_2d
    num_prefixes: int = 0  # learned prefixes to choose from ("puzzle" identifiers); 0: no prefix
    prefix_length: int = 0  # tokens of a prefix
    prefix_size: int | None = None  # numbers learned per prefix, zero-padded; None: all of them
    halt_pool: str = one_of("first", HALT_POOLS)  # tokens that the halting head reads
    norm_eps: float = 1e-5  # added under the root of the RMS norms

    def __post_init__(self) -> None:
        check_choices(self)
        if self.position == "randomised":
            raise ValueError(
                "randomised positions are drawn anew for every batch, under which a carry's states "
                "would change places: choose another position."
            )
        least = dict.fromkeys(("radius", "num_prefixes", "prefix_length"), 0)
        for field in fields(self):
            value, minimum = getattr(self, field.name), least.get(field.name, 1)
            if field.type in (int, int | None) and value is not None and value < minimum:
                raise ValueError(f"{field.name} must be {minimum} or more, got {value}.")
        if self.hidden_size % self.num_heads:
            raise ValueError(
                "hidden_size must be a multiple of num_heads, "
                f"got {self.hidden_size} and {self.num_heads}."
            )
        if self.expansion <= 0 or self.norm_eps <= 0 or self.rope_theta <= 0:
            raise ValueError("expansion, norm_eps and rope_theta must be greater than 0.")
        free = (self.position, self.neighbourhood, self.tokens)
        if self.block == "mixer" and free != ("none", "all", "all"):
            raise ValueError(
                "the mixer knows where each token is: set position to none, neighbourhood to all "
                f"and tokens to all, got {', '.join(free)}."
            )
        if self.direction_bias != 0 and self.position != "relative_2d":
            raise ValueError(
                f"direction_bias is of relative_2d alone, got {self.direction_bias} with position "
                f"{self.position}: set direction_bias to 0 or position to relative_2d."
            )
        if (self.num_prefixes > 0) != (self.prefix_length > 0):
            raise ValueError(
                "num_prefixes and prefix_length go together, both 0 or both positive, "
                f"got {self.num_prefixes} and {self.prefix_length}."
            )
        if (self.prefix_size or 0) > self.prefix_length * self.hidden_size:
            raise ValueError(
                "prefix_size must be at most prefix_length * hidden_size = "
                f"{self.prefix_length * self.hidden_size}, got {self.prefix_size}."
            )


@dataclass
class Context:
    """What a batch of canvases is to the model, worked out once for all supervision steps.

    Attributes:
        inputs: input embeddings, [B, P + S, D]; P prefix tokens in front of S cells: all H * W of
            them, or those that are not blank, padded to the sample that has most.
        rotation: cosines and sines for queries and keys, or None.
        bias: attention bias, [heads or 1, P + S, P + S], or None. Where samples differ in their
            tokens, or in what they see, rotation and bias have a batch dimension in front.
        keys: which tokens each token sees, int64 [B, S, K], where these are few and the canvas is
            large; bias is then [B, heads or 1, S, K].
        halt_weights: what each token counts for the halting head, [B, P + S]; None: first token.
        height: H.
        width: W.
        places: int64 [B, S], where on the canvas each cell is (H * W: padding), if blank ones are
            no tokens; else None.
    """

    inputs: Tensor
    rotation: Rotation | None
    bias: Tensor | None
    halt_weights: Tensor | None
    height: int
    width: int
    places: Tensor | None = None
    keys: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        """How many tokens of each sample are not padding, prefix included, int64 [B]."""
        batch, length, _ = self.inputs.shape
        if self.places is None:
            return torch.full((batch,), length, device=self.inputs.device)
        return length - (self.places == self.height * self.width).sum(dim=1)

    def select(self, index: Tensor) -> "Context":
        """The same for some samples, by bool [B] or int64 indices."""
        parts: dict[str, Any] = {"inputs": self.inputs[index]}
        for name in ("halt_weights", "places", "keys"):
            part = getattr(self, name)
            parts[name] = None if part is None else part[index]
        if self.bias is not None and self.bias.ndim == 4:
            parts["bias"] = self.bias[index]
        if self.rotation is not None and self.rotation[0].ndim == 4:
            parts["rotation"] = (self.rotation[0][index], self.rotation[1][index])
        return replace(self, **parts)


@dataclass
class State:
    """The two states, [B, P + S, D] each: z_H the answer so far, z_L the working."""

    z_H: Tensor  # noqa: N815
    z_L: Tensor  # noqa: N815

    def detach(self) -> "State":
        """The same numbers without their history."""
        return State(self.z_H.detach(), self.z_L.detach())

    def select(self, index: Tensor) -> "State":
        """The same for some samples, by bool [B] or int64 indices."""
        return State(self.z_H[index], self.z_L[index])


class TinyRecursiveModel(nn.Module):
    """Reads a canvas, proposes a symbol for every cell, and says whether it trusts them.

    ``encode`` once, ``initial_state`` once, then ``iterate`` per supervision step and ``read``
    after any of them. ``forward`` does it all. Under autocast the states are kept in autocast's
    dtype, and norms and softmax are computed in float32.
    """

    H_init: Tensor
    L_init: Tensor

    def __init__(self, config: RecursiveConfig):
        super().__init__()
        self.config = config
        D = config.hidden_size
        self.embed_scale = math.sqrt(D)
        std = 1 / self.embed_scale
        self.embed_tokens = nn.Embedding(config.vocab_size, D)
        truncated_normal_(self.embed_tokens.weight, std)
        self.prefix: nn.Parameter | None = None
        if config.num_prefixes:
            size = config.prefix_size or config.prefix_length * D
            self.prefix = nn.Parameter(torch.zeros(config.num_prefixes, size))
        self.position = make_position(
            config.position,
            hidden_size=D,
            num_heads=config.num_heads,
            height=config.height,
            width=config.width,
            prefix_length=config.prefix_length,
            radius=config.radius,
            rope_theta=config.rope_theta,
            std=std,
            amplitude=std * math.sqrt(2),  # as strong as a token embedding
            direction_bias=config.direction_bias,
            bias_scale=self.embed_scale,  # a learning rate moves it as much as an embedding
        )
        self.layers = nn.ModuleList(self._block() for _ in range(config.num_layers))
        self.lm_head = Linear(D, config.vocab_size)
        # Two outputs as in the reference, of which the second (continue) is not read. The start
        # at -5 says "wrong", which nearly all early answers are.
        self.halt_head = nn.Linear(D, 2)
        nn.init.zeros_(self.halt_head.weight)
        nn.init.constant_(self.halt_head.bias, -5.0)
        self.register_buffer("H_init", truncated_normal_(torch.empty(D), 1.0))
        self.register_buffer("L_init", truncated_normal_(torch.empty(D), 1.0))

    @property
    def num_parameters(self) -> int:
        """Learned numbers; the fixed initial states are not counted."""
        return sum(parameter.numel() for parameter in self.parameters())

    def accepts(self, height: int, width: int) -> bool:
        """Whether the mixer and the position encoding serve canvases of that size."""
        config = self.config
        if config.block == "mixer":
            return (height, width) == (config.height, config.width)
        return self.position.accepts(Cells.canvas(height, width, config.prefix_length))

    def encode(self, tokens: Tensor, prefix_ids: Tensor | None = None) -> Context:
        """Embed a batch of canvases.

        Args:
            tokens: symbol ids, any integer dtype, [B, H, W].
            prefix_ids: which learned prefix each sample has, integer [B]; only for a model with
                prefixes, which takes prefix 0 everywhere if it has no other.

        Raises:
            ValueError: the shape, the dtype or the canvas size does not suit the model, or
                prefix_ids are missing or not wanted.
        """
        if tokens.ndim != 3 or tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise ValueError(
                "tokens must be symbol ids of integer dtype and shape [batch, height, width], "
                f"got {tokens.dtype} {list(tokens.shape)}."
            )
        config = self.config
        batch, height, width = tokens.shape
        cells = Cells.canvas(height, width, config.prefix_length, tokens.device)
        if config.block == "mixer":
            check_canvas("the mixer", cells, config.height, config.width, exact=True)
        flat, P, places = tokens.flatten(1), config.prefix_length, None
        if config.tokens == "written":
            cells = cells.only(F.pad(flat != BLANK, (P, 0), value=True))
            places = cells.index[:, P:] - P
            flat = flat.gather(1, places)
            places = places.masked_fill(flat == BLANK, height * width)
        inputs = self.embed_tokens(flat.int())  # [B, S, D]
        prefix = self._embed_prefix(batch, prefix_ids)
        if prefix is not None:
            inputs = torch.cat((prefix, inputs), dim=1)  # [B, P + S, D]
        vectors = self.position.vectors(cells)
        if vectors is not None:
            inputs = (inputs + vectors) * math.sqrt(0.5)  # keeps the variance
        dtype = compute_dtype(inputs)
        inputs = (inputs * self.embed_scale).to(dtype)
        rotation = bias = keys = None
        if config.block == "attention":
            rotation = self.position.rotation(cells)
            if rotation is not None and cells.present is not None:
                rotation = (rotation[0].unsqueeze(1), rotation[1].unsqueeze(1))  # heads
            written = F.pad((flat != BLANK) & (flat != MASK), (P, 0), value=True)
            if self._sees_few:
                few, bias = few_keys(self.position, cells, config.radius, written)
                if len(cells) > FEW_FROM:
                    keys = few
                else:
                    bias = all_pairs(few, bias)
            else:
                bias = attention_bias(
                    self.position, cells, config.neighbourhood, config.radius, written
                )
        return Context(
            inputs,
            None if rotation is None else (rotation[0].to(dtype), rotation[1].to(dtype)),
            None if bias is None else bias.to(dtype),
            self._halt_weights(flat, cells.present),
            height,
            width,
            places,
            keys,
        )

    @property
    def _sees_few(self) -> bool:
        """Whether each token sees a few others alone, which can be listed."""
        config = self.config
        listed = config.neighbourhood == "horizon" and config.prefix_length == 0
        return listed and config.position != "alibi"

    def initial_state(self, context: Context) -> State:
        """The fixed start of both states for every token."""
        like = context.inputs
        return State(
            self.H_init.to(like.dtype).expand_as(like), self.L_init.to(like.dtype).expand_as(like)
        )

    def iterate(self, context: Context, state: State) -> State:
        """One supervision step: all H cycles, of which only the last carries a gradient."""
        with torch.no_grad():
            for _ in range(self.config.H_cycles - 1):
                state = self._cycle(context, state)
        return self._cycle(context, state)

    def read(self, state: State, context: Context) -> tuple[Tensor, Tensor]:
        """The answer so far.

        Returns:
            Logits of every cell's symbol, [B, H, W, V], and of "the answer is right", float32
            [B]; above 0 means halt.
        """
        logits = self.lm_head(state.z_H[:, self.config.prefix_length :])
        if context.places is not None:
            size, tokens = context.height * context.width, logits
            logits = tokens.new_zeros(len(tokens), size + 1, tokens.shape[-1])
            logits[..., BLANK] = _CERTAIN
            logits = logits.scatter(1, context.places.unsqueeze(-1).expand_as(tokens), tokens)
            logits = logits[:, :size]
        logits = logits.unflatten(1, (context.height, context.width))
        if context.halt_weights is None:
            judged = state.z_H[:, 0]
        else:
            weights = context.halt_weights.to(state.z_H.dtype)
            judged = (weights.unsqueeze(1) @ state.z_H).squeeze(1)  # [B, D]
        return logits, self.halt_head(judged)[:, 0].float()

    def forward(
        self, tokens: Tensor, prefix_ids: Tensor | None = None, steps: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Logits [B, H, W, V] and halt logits [B] after ``steps`` supervision steps.

        Each step starts from the last one's state without its history; arguments and errors as
        in ``encode``.
        """
        if steps < 1:
            raise ValueError(f"steps must be 1 or more, got {steps}.")
        context = self.encode(tokens, prefix_ids)
        state = self.initial_state(context)
        for _ in range(steps):
            state = self.iterate(context, state.detach())
        return self.read(state, context)

    def _block(self) -> PostNormBlock:
        config = self.config
        D, length = config.hidden_size, config.prefix_length + config.height * config.width
        mixing: Attention | SwiGLU
        if config.block == "attention":
            mixing = Attention(D, config.num_heads)
        else:
            mixing = SwiGLU(length, swiglu_size(length, config.expansion))
        inner = config.intermediate_size or swiglu_size(D, config.expansion)
        return PostNormBlock(mixing, SwiGLU(D, inner), config.norm_eps)

    def _cycle(self, context: Context, state: State) -> State:
        z_H, z_L = state.z_H, state.z_L
        injected = z_H + context.inputs
        for _ in range(self.config.L_cycles):
            z_L = self._network(z_L + injected, context)
        return State(self._network(z_H + z_L, context), z_L)

    def _network(self, x: Tensor, context: Context) -> Tensor:
        for layer in self.layers:
            x = layer(x, context.rotation, context.bias, context.keys)
        return x

    def _embed_prefix(self, batch: int, prefix_ids: Tensor | None) -> Tensor | None:
        """Prefix tokens, [B, P, D]."""
        if self.prefix is None:
            if prefix_ids is not None:
                raise ValueError("this model has no prefixes: leave prefix_ids out.")
            return None
        config = self.config
        if prefix_ids is None:
            if config.num_prefixes > 1:
                raise ValueError(f"prefix_ids must choose among {config.num_prefixes} prefixes.")
            prefix_ids = torch.zeros(batch, dtype=torch.long, device=self.prefix.device)
        if prefix_ids.shape != (batch,):
            raise ValueError(f"prefix_ids must have shape [{batch}], got {list(prefix_ids.shape)}.")
        prefix = F.embedding(prefix_ids.long(), self.prefix)
        missing = config.prefix_length * config.hidden_size - prefix.shape[1]
        return F.pad(prefix, (0, missing)).view(batch, config.prefix_length, config.hidden_size)

    def _halt_weights(self, tokens: Tensor, present: Tensor | None) -> Tensor | None:
        """What each token counts for the halting head, summing to 1, float32 [B, P + S]."""
        if self.config.halt_pool == "first":
            return None
        tokens = F.pad(tokens, (self.config.prefix_length, 0))
        counted = torch.ones_like(tokens, dtype=torch.bool) if present is None else present
        if self.config.halt_pool == "mask":
            masked = tokens == MASK
            # A canvas with nothing left to fill in is judged as a whole.
            counted = masked | (counted & ~masked.any(dim=1, keepdim=True))
        weights = counted.float()
        return weights / weights.sum(dim=1, keepdim=True)
