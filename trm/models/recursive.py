"""The tiny recursive model: one small network, applied again and again to two states.

After Jolicoeur-Martineau 2025, "Less is More: Recursive Reasoning with Tiny Networks", and its
code, SamsungSAILMontreal/TinyRecursiveModels:

- two states per token, z_H (the answer so far) and z_L (the reasoning), one network for both
- an H cycle: z_L is updated L_cycles times from z_L + z_H + input, then z_H once from z_H + z_L
- a supervision step: H_cycles of them, of which only the last carries a gradient
- post-norm blocks without biases: attention over tokens, then SwiGLU
- a halting head that predicts "the answer is correct"

With one cycle of each kind it is a looped transformer with input injection (Yang et al. 2023,
"Looped Transformers are Better at Learning Learning Algorithms"; Fan et al. 2024, "Looped
Transformers for Length Generalization").
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.choices import refuse_renamed
from canvas.symbols import BLANK, MASK
from trm.models.attention import Linear, PostNormBlock, compute_dtype, truncated_normal_
from trm.models.configs import RecursiveConfig
from trm.models.context import Context as Context
from trm.models.context import cell_tokens
from trm.models.coordinates import Coordinates, box, neighbourhood_mask
from trm.models.halting import HaltHead
from trm.models.iterative import IterativeModel, check_tokens, cycle_passes, recur
from trm.models.positions import check_canvas, make_position
from trm.runtime.torch_settings import float32_default

_CERTAIN = 30.0  # logit of the blank symbol in cells that are no tokens


class RecursiveState(NamedTuple):
    """The two states, [B, P + S, D] each: z_H the answer so far, z_L the reasoning."""

    z_H: Tensor  # noqa: N815
    z_L: Tensor  # noqa: N815


class TinyRecursiveModel(IterativeModel):
    """Two states over the tokens of a canvas; both heads read z_H, the answer so far.

    Under autocast the states are kept in autocast's dtype, and norms and softmax are computed in
    float32.
    """

    config: RecursiveConfig
    H_init: Tensor
    L_init: Tensor

    def __init_subclass__(cls) -> None:
        """Refuse earlier names."""
        refuse_renamed(cls, {"network": "apply_layers", "heads": "read", "halt_logits": "read"})

    @float32_default()
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
            std=std,
            amplitude=std * math.sqrt(2),  # as strong as a token embedding
            direction_bias=config.direction_bias,
            bias_scale=self.embed_scale,  # a learning rate changes it as much as an embedding
        )
        self.layers = nn.ModuleList(
            PostNormBlock(D, config.num_heads, config.intermediate_size)
            for _ in range(config.num_layers)
        )
        self.lm_head = Linear(D, config.vocab_size)
        self.halt_head = HaltHead(config.halt_pool, D)
        for name in ("H_init", "L_init"):  # fixed, and not among the parameters
            self.register_buffer(name, truncated_normal_(torch.empty(D), 1.0))

    def initial_state(self, context: Context) -> RecursiveState:
        like = context.inputs
        H, L = (init.to(like.dtype).expand_as(like) for init in (self.H_init, self.L_init))
        # Strides of later states: with others the first step would be compiled by itself.
        return RecursiveState(H.contiguous(), L.contiguous())

    def iterate(self, context: Context, state: RecursiveState) -> RecursiveState:
        """Take one supervision step: all H cycles, of which only the last carries a gradient."""
        cycles = self.config.H_cycles, self.config.L_cycles
        layers = partial(self.apply_layers, context=context)
        return RecursiveState(*recur(layers, context.inputs, *state, *cycles))

    def apply_layers(self, x: Tensor, context: Context) -> Tensor:
        """Apply all layers once, [B, P + S, D] to [B, P + S, D]."""
        for layer in self.layers:
            x = layer(x, context.terms)
        return x

    def read(self, state: RecursiveState, context: Context) -> tuple[Tensor, Tensor]:
        config, z = self.config, state.z_H  # [B, P + S, D]
        logits = self.lm_head(z[:, config.prefix_length :])
        blank = logits.new_zeros(logits.shape[-1])
        if context.cell_numbers is not None:
            blank[BLANK] = _CERTAIN  # puzzles have no blank symbol, but all cells are tokens
        halt = self.halt_head.logits(z, context.halt_weights)
        return context.on_canvas(logits, blank), halt

    def encode(self, tokens: Tensor, prefix_ids: Tensor | None = None) -> Context:
        """Embed canvases, and compute the position terms of attention.

        Args:
            tokens: symbol ids, integers [B, H, W].
            prefix_ids: index of each sample's learned prefix, integers [B]; None: the first.

        Raises:
            ValueError: the shape, the dtype or the canvas size does not suit the model.
        """
        check_tokens(tokens)
        config, P = self.config, self.config.prefix_length
        batch, height, width = tokens.shape
        check_canvas(self, height, width)
        kept = None
        if self.ragged:
            filled = tokens != BLANK
            kept = filled if config.skip_blank else box(filled)
        symbols, coordinates, cell_numbers = cell_tokens(tokens, P, kept)
        inputs = self.embed_tokens(symbols.int())  # [B, S, D]
        if self.prefix is not None:
            if prefix_ids is None:
                prefix_ids = symbols.new_zeros(batch)
            prefix = F.embedding(prefix_ids.long(), self.prefix)
            prefix = F.pad(prefix, (0, P * config.hidden_size - prefix.shape[1]))
            inputs = torch.cat((prefix.unflatten(1, (P, -1)), inputs), dim=1)  # [B, P + S, D]
        written = F.pad((symbols != BLANK) & (symbols != MASK), (P, 0), value=True)
        allowed = neighbourhood_mask(coordinates, config.neighbourhood, config.radius, written)
        terms = self.position.terms(coordinates, compute_dtype(inputs), allowed)
        if terms.vectors is not None:
            inputs = (inputs + terms.vectors) * math.sqrt(0.5)  # keeps the variance
        inputs = (inputs * self.embed_scale).to(compute_dtype(inputs))
        weights = self.halt_head.token_weights(symbols, coordinates.present, P)
        terms = terms._replace(vectors=None)
        return Context(inputs, weights, height, width, cell_numbers, terms)

    @property
    def updates(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the updated states: in every H cycle z_L, L_cycles times, then z_H."""
        cycles = self.config.H_cycles, self.config.L_cycles
        return tuple(state for state, _, _ in cycle_passes(*cycles))

    @property
    def ragged(self) -> bool:  # type: ignore[override]
        """True if only some cells are tokens."""
        return self.config.skip_blank or self.config.crop

    @property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """True if only some cells are tokens, and their positions are relative."""
        return self.ragged and not self.position.absolute

    def accepts(self, height: int, width: int) -> bool:
        return self.position.accepts(Coordinates.canvas(height, width, self.config.prefix_length))

    def cell_states(self, state: RecursiveState, context: Context) -> Tensor:
        """Return z_H of every cell, [B, H, W, D]; 0 where a cell is no token."""
        z = state.z_H[:, self.config.prefix_length :]
        return context.on_canvas(z, z.new_zeros(z.shape[-1]))
