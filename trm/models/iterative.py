"""Iterative models: networks that are applied to their own state until the answer is settled.

A model is four functions: encode a batch of canvases (`encode`), the state before the first step
(`initial_state`), one supervision step (`iterate`), and the answer so far (`read`). `Loop` runs
them everywhere, in training as in solving. So schedules, random starts, the carry and halting work
on any model and any state.

A state is a tensor [B, ...], or a named tuple of such tensors.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trm.models.states import State, map_state
from trm.released import moved

Batch = dict[str, Tensor]  # tensors with one entry a sample, [B, ...] each


def recur(
    apply_layers: Callable[[Tensor], Tensor],
    inputs: Tensor,
    z_H: Tensor,
    z_L: Tensor,
    H_cycles: int,
    L_cycles: int,
) -> tuple[Tensor, Tensor]:
    """Run the H and L cycles of a tiny recursive model; return z_H and z_L.

    In each of ``H_cycles`` cycles z_L is updated ``L_cycles`` times from z_L + z_H + inputs, then
    z_H once from z_H + z_L, all by the same layers. Only the last H cycle carries a gradient
    (Jolicoeur-Martineau 2025, "Less is More: Recursive Reasoning with Tiny Networks"). Tensors are
    [..., D] of one shape and dtype.
    """
    for cycle in range(H_cycles):
        last = cycle == H_cycles - 1
        with torch.set_grad_enabled(last and torch.is_grad_enabled()):
            injected = z_H + inputs
            for _ in range(L_cycles):
                z_L = apply_layers(z_L + injected)
            z_H = apply_layers(z_H + z_L)
    return z_H, z_L


def cycle_passes(H_cycles: int, L_cycles: int) -> list[tuple[str, int, int]]:
    """Return the passes through the layers in `recur`: updated state, H cycle, L cycle.

    Cycles are numbered from 1; the L cycle is 0 where z_H is updated.

    Example: 1 H cycle, 2 L cycles → ``[("z_L", 1, 1), ("z_L", 1, 2), ("z_H", 1, 0)]``.
    """
    numbers = [*range(1, L_cycles + 1), 0]
    return [("z_L" if L else "z_H", H, L) for H in range(1, H_cycles + 1) for L in numbers]


class Network(nn.Module):
    """Base class of the models of all families."""

    def accepts(self, height: int, width: int) -> bool:
        """Return whether the model can read canvases of that size."""
        return True

    def check_weights(self) -> None:
        """Raise a ValueError if weights from a file are out of range."""

    @property
    def num_parameters(self) -> int:
        """Number of learned parameters; shared ones are counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


class IterativeModel(Network, ABC):
    """Network that reads a canvas and computes a symbol for every cell, and a halt logit.

    Attributes:
        config: a dataclass of plain settings, all with defaults. ``type(model)(model.config)`` is
            the same network with other weights. If it has ``height`` and ``width``, training sets
            them to the size of its canvases.
        translation_invariant: True if outputs stay the same, moved along, if all symbols of a
            canvas move together.
        ragged: True if samples can have different numbers of tokens, and states different sizes.
        updates: names of the state's tensors that a supervision step replaces, in order, one for
            every pass through ``layers``. For probing alone; empty if not known.

    A model may have a method ``cell_states(state, context)`` that returns the vector from which
    each cell is read, float [B, H, W, D] with D = ``config.hidden_size``. Auxiliary heads read it.
    """

    config: Any
    translation_invariant: bool = False
    ragged: bool = False
    updates: tuple[str, ...] = ()

    @abstractmethod
    def encode(self, tokens: Tensor) -> Any:
        """Return the context, which stays the same in all steps.

        Args:
            tokens: symbol ids, integers [B, H, W].

        Returns:
            A tensor [B, ...], or an object with a method ``select(index)`` that returns the same
            for some samples.
        """

    @abstractmethod
    def initial_state(self, context: Any) -> State:
        """Return the state of every sample before the first step."""

    @abstractmethod
    def iterate(self, context: Any, state: State) -> State:
        """Return the state after one more supervision step."""

    @abstractmethod
    def read(self, state: State, context: Any) -> tuple[Tensor, Tensor]:
        """Return the answer so far: logits [B, H, W, V] of symbols, and halt logits [B].

        Halt logits are of "the answer is correct". Above 0 means halt.
        """

    def forward(self, tokens: Tensor, *more: Any, steps: int = 1) -> tuple[Tensor, Tensor]:
        """Return the output of `read` after supervision steps on ``tokens``, see `encode`."""
        loop = Loop(self, tokens, *more)
        for _ in range(steps):
            loop.step()
        return loop.read()


class Loop:
    """Supervision steps of a model on a batch of canvases [B, H, W], encoded once.

    Attributes:
        state: of the model; may be replaced between steps.
    """

    def __init__(self, model: IterativeModel, tokens: Tensor, *more: Any) -> None:
        self.model = model
        self.context = model.encode(tokens, *more)
        self.state = model.initial_state(self.context)
        self._begun = False

    def step(self) -> None:
        """Take one supervision step. No gradient flows to the steps before it.

        The first step is not detached: a learned initial state gets its gradient from it alone.
        """
        before = map_state(Tensor.detach, self.state) if self._begun else self.state
        self.state, self._begun = self.model.iterate(self.context, before), True

    def advance(self, steps: int) -> None:
        """Take supervision steps without gradient."""
        with torch.no_grad():
            for _ in range(steps):
                self.step()

    def read(self) -> tuple[Tensor, Tensor]:
        """Return logits [B, H, W, V] and halt logits [B] of the current state."""
        return self.model.read(self.state, self.context)

    def keep(self, index: Tensor) -> None:
        """Keep only the samples of a mask, bool [B]."""
        self.state, context = map_state(lambda part: part[index], self.state), self.context
        self.context = context[index] if isinstance(context, Tensor) else context.select(index)


def check_tokens(tokens: Tensor) -> None:
    """Check that tokens are symbol ids of canvases.

    Raises:
        ValueError: wrong shape or dtype.
    """
    if tokens.ndim != 3 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise ValueError(
            "tokens must be symbol ids of integer dtype and shape [batch, height, width], "
            f"got {tokens.dtype} {list(tokens.shape)}."
        )


__getattr__ = moved(__name__)
