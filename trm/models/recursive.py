"""The tiny recursive model: one small network, applied again and again to two states.

After Jolicoeur-Martineau 2025, "Less is More: Recursive Reasoning with Tiny Networks", and its
code, SamsungSAILMontreal/TinyRecursiveModels:
- two states per token, z_H (the answer so far) and z_L (the reasoning), one network for both
- an H cycle: z_L is updated L_cycles times from z_L + z_H + input, then z_H once from z_H + z_L
- a supervision step: H_cycles of them, of which only the last carries a gradient
- post-norm blocks without biases: attention or a mixer over tokens, then SwiGLU
- a halting head that says whether the answer is right
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trm.models.canvas_transformer import CanvasTransformer, Context
from trm.models.configs import RecursiveConfig
from trm.models.layers import truncated_normal_


class RecursiveState(NamedTuple):
    """The two states, [B, P + S, D] each: z_H the answer so far, z_L the reasoning."""

    z_H: Tensor  # noqa: N815
    z_L: Tensor  # noqa: N815


class TinyRecursiveModel(CanvasTransformer):
    """Two states, of which the heads read the one that holds the answer."""

    config: RecursiveConfig
    H_init: Tensor
    L_init: Tensor

    def __init__(self, config: RecursiveConfig):
        super().__init__(config)
        for name in ("H_init", "L_init"):  # fixed, and not among the parameters
            self.register_buffer(name, truncated_normal_(torch.empty(config.hidden_size), 1.0))

    @property
    def updates(self) -> tuple[str, ...]:  # type: ignore[override]
        """In every H cycle z_L some times, then z_H."""
        return (*["z_L"] * self.config.L_cycles, "z_H") * self.config.H_cycles

    def initial_state(self, context: Context) -> RecursiveState:
        """The fixed start of both states for every token."""
        like = context.inputs
        H, L = (init.to(like.dtype).expand_as(like) for init in (self.H_init, self.L_init))
        return RecursiveState(H, L)

    def iterate(self, context: Context, state: RecursiveState) -> RecursiveState:
        """One supervision step: all H cycles, of which only the last carries a gradient."""
        with torch.no_grad():
            for _ in range(self.config.H_cycles - 1):
                state = self._cycle(context, state)
        return self._cycle(context, state)

    def read(self, state: RecursiveState, context: Context) -> tuple[Tensor, Tensor]:
        """Of z_H, see `CanvasTransformer.heads`."""
        return self.heads(state.z_H, context)

    def _cycle(self, context: Context, state: RecursiveState) -> RecursiveState:
        z_H, z_L = state
        injected = z_H + context.inputs
        for _ in range(self.config.L_cycles):
            z_L = self.network(z_L + injected, context)
        return RecursiveState(self.network(z_H + z_L, context), z_L)
