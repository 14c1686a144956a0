"""Settings that come from a file: their types and sizes are checked before anything is built."""

import math
from dataclasses import fields
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

_LARGEST = 1_000_000  # of whole numbers: cells, channels, steps
_UPDATES = 10_000  # of the states in a supervision step

T = TypeVar("T")
Network = TypeVar("Network", bound=nn.Module)


def restored(kind: type[T], settings: dict[str, Any]) -> T:
    """A dataclass as a file describes it.

    Raises:
        TypeError: a setting that the class does not have.
        ValueError: a setting of another type, or a number that nobody can have meant.
    """
    hints = get_type_hints(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in settings and not fits(settings[field.name], hints[field.name]):
            raise ValueError(f"{field.name} is {str(settings[field.name])[:40]!r}")
    return kind(**settings)


def fits(value: Any, kind: Any) -> bool:
    """Whether plain data is of a type: a number, text, a union or a tuple of such."""
    if kind is int:
        return type(value) is int and abs(value) <= _LARGEST
    if kind is float:
        return type(value) in (int, float) and abs(value) <= _LARGEST and math.isfinite(value)
    if kind in (str, bool, NoneType):
        return type(value) is kind
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        whole = isinstance(value, list | tuple) and len(value) == len(parts)
        return whole and all(map(fits, value, parts))
    return any(fits(value, part) for part in parts)  # a union


def network(kind: type[Network], config: Any, weights: dict[str, Tensor]) -> Network:
    """A network with the given weights.

    Args:
        kind: made from a config, with ``num_layers`` and perhaps ``H_cycles`` and ``L_cycles``.
        config: a checked one.
        weights: by the network's names.

    Raises:
        RuntimeError, ValueError: they do not fit; nothing large has been built then.
    """
    updates = getattr(config, "H_cycles", 1) * (getattr(config, "L_cycles", 0) + 1)
    if config.num_layers > len(weights) or updates > _UPDATES:
        raise ValueError(f"{config.num_layers} layers, {updates} updates of the states in a step")
    with torch.device("meta"):  # shapes without numbers
        shapes = {name: value.shape for name, value in kind(config).state_dict().items()}
    missing, unknown = shapes.keys() - weights.keys(), weights.keys() - shapes.keys()
    if missing or unknown:
        fault = f"lacks {min(missing)}" if missing else f"holds {min(unknown)}, which it should not"
        raise ValueError(f"it {fault[:100]}")
    for name, value in weights.items():
        if shapes[name] != value.shape:
            raise ValueError(
                f"{name} has shape {list(value.shape)} where the config says {list(shapes[name])}"
            )
        if not torch.isfinite(value).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    built = kind(config)
    built.load_state_dict(weights)
    return built
