"""States of iterative models: a tensor [B, ...], or a named tuple of such tensors."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

State = Any  # see above


def named(state: State) -> dict[str, Tensor]:
    """Return the tensors of a state by name, in order. A single tensor is named ``state``."""
    return {"state": state} if isinstance(state, Tensor) else state._asdict()


def unnamed(like: State, parts: Mapping[str, Tensor]) -> State:
    """Return a state of the same type as another from tensors by name; the inverse of `named`."""
    return parts["state"] if isinstance(like, Tensor) else type(like)(**parts)


def map_state(function: Callable[..., Tensor], state: State, *others: State) -> State:
    """Apply a function to each tensor of a state, and to those of the same name in other states."""
    every = [named(one) for one in (state, *others)]
    return unnamed(state, {name: function(*(one[name] for one in every)) for name in every[0]})


def where_samples(chosen: Tensor, one: State, other: State) -> State:
    """Return ``one`` in chosen samples, bool [B], and ``other`` elsewhere; dtypes of ``one``."""

    def mixed(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(chosen.view(-1, *[1] * (a.ndim - 1)), a, b.to(a.dtype))

    return map_state(mixed, one, other)
