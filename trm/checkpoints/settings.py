"""Settings that come from a file: their types and sizes are checked before anything is built."""

import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from canvas.choices import OPEN
from canvas.plugins import check_imported, load_class
from trm.plain_data import misfit

PACKAGES = ("canvas", "augment", "trm")  # whose classes a file may name

_UPDATES = 10_000  # of the states in a supervision step
_HOMES = tuple(
    f"trm.models.{name}" for name in ("gpt", "looped", "recursive", "upright")
)  # of our networks

_DRAWS = (Tensor.normal_, Tensor.uniform_, Tensor.random_, Tensor.erfinv_)  # in place

T = TypeVar("T")
Network = TypeVar("Network", bound=nn.Module)


def restored(kind: type[T], settings: dict[str, Any]) -> T:
    """A dataclass as a file describes it.

    Raises:
        TypeError: a setting that the class does not have.
        ValueError: a setting of another type, or a number out of all proportion.
    """
    if wrong := misfit(kind, settings):
        raise ValueError(f"{wrong} is {str(settings[wrong])[:40]!r}")
    for field in fields(kind):  # type: ignore[arg-type]
        if field.metadata.get(OPEN) and "." in settings.get(field.name, ""):
            check_imported(settings[field.name], field.name, PACKAGES)
    return kind(**settings)


def network_class(name: Any, kind: type[Network]) -> type[Network]:
    """The class of a network from what a file calls it; only this project's own are imported.

    Args:
        name: as `class_name` has it.
        kind: what it has to be a subclass of.

    Raises:
        OwnCodeError: its module has not been imported.
        ValueError: there is no such class.
    """
    module, _, attribute = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if module in _HOMES:
        import_module(module)
    elif module:
        check_imported(str(name), "network", ())
        return load_class(name, kind, "network")
    found = getattr(sys.modules.get(module), attribute, None)
    if not isinstance(found, type) or not issubclass(found, kind):
        raise ValueError(f"its network {str(name)[:100]!r} is no {kind.__name__}")
    return found


def config_class(kind: type[nn.Module]) -> type:
    """The dataclass that a network is built from: the type of its constructor's ``config``."""
    return get_type_hints(kind.__init__)["config"]


class _Unfilled(TorchFunctionMode):
    """Weights are made and not drawn: on the meta device that imports PyTorch's compiler."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in _DRAWS or getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def network(kind: type[Network], config: Any, weights: dict[str, Tensor]) -> Network:
    """A network with the given weights.

    Args:
        kind: made from a config, which may say how many ``num_layers`` it has, and how often they
            are applied.
        config: a checked one.
        weights: by the network's names.

    Raises:
        RuntimeError, ValueError: they do not fit; nothing large has been built then.
    """
    updates = getattr(config, "H_cycles", 1) * (getattr(config, "L_cycles", 0) + 1)
    updates *= getattr(config, "loops_per_step", 1) * getattr(config, "loops", 1)
    layers = getattr(config, "num_layers", 1)
    if layers > len(weights) or updates > _UPDATES:
        raise ValueError(f"{layers} layers, {updates} updates of the states in a step")
    with torch.device("meta"), _Unfilled():  # shapes without numbers
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
