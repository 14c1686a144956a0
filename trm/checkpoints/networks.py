"""The network of a file, built from checked settings and weights, and its solver."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from canvas.canvas_size import Canvas
from canvas.check import check_once
from canvas.choices import OwnCodeError, check_imported, load_class
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.content import network_weights, with_tensors
from trm.checkpoints.loading import (
    check_family,
    checked_symmetries,
    primed_task,
    restored,
    restored_task,
)
from trm.registry import NETWORKS
from trm.released import today
from trm.runtime.torch_settings import standard_settings
from trm.solving.calibration import Calibration
from trm.solving.families import family_named
from trm.solving.predictor import Predictor
from trm.solving.solver import Solver

_MOST_UPDATES = 10_000  # of the states in a supervision step

Network = TypeVar("Network", bound=nn.Module)


@standard_settings()
def with_network(
    path: str | Path, content: dict[str, Any], steps: int | None, device: str
) -> Solver:
    """Return a solver with the network of a file, on the canvas of training.

    Args:
        path: of the file, for messages.
        content: see `trm.checkpoints.content.read_checkpoint`.
        steps: see `trm.checkpoints.loading.load_solver`.
        device: as there.

    Raises:
        ValueError: as there.
    """
    content = with_tensors(content)
    about, data = content[CHECKPOINT_KEY], content[DATA_KEY]
    with fitting(path):
        predictor = predictor_of(about, network_weights(content), steps)
        task, canvas = restored_task(data["task"]), restored(Canvas, data["canvas"])
        check_once(task)
        predictor = predictor.for_task(task)
        symmetries, primed = checked_symmetries(data), primed_task(data)
    to_device(predictor.model.eval(), device)
    return Solver(predictor, task, canvas, symmetries, primed=primed)


@contextmanager
def fitting(path: str | Path) -> Iterator[None]:
    """Raise errors of building a file's model as a ValueError that names the file."""
    try:
        yield
    except OwnCodeError as error:
        raise OwnCodeError(f"{path}: {error}") from None
    except (AttributeError, RuntimeError, TypeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"{path} does not fit this version's models ({reason}): use the version that trained it"
        ) from None


def to_device(model: nn.Module, name: str) -> None:
    """Move a network to a device, like cpu, cuda:1 or auto.

    Raises:
        ValueError: there is no such device.
    """
    model.to(_device(name))


@standard_settings()
def predictor_of(about: dict[str, Any], weights: dict[str, Tensor], steps: int | None) -> Predictor:
    """Return the predictor of a checkpoint of any family, see `with_network`."""
    check_family(about)
    family = family_named(about["family"])
    if "calibration" in about:
        about = about | {"calibration": restored(Calibration, about["calibration"])}
    predictor = family.predictor(_network(about, family.network, weights), about, steps)
    if about.get("calibration") == Calibration():  # that of training has fitted a curve
        predictor.uncalibrated_reason = "no validation has calibrated it"
    return predictor


def _network(about: dict[str, Any], kind: type[Network], weights: dict[str, Tensor]) -> Network:
    """Return the network of a file with its weights.

    Raises:
        ValueError: sizes are too large, before anything large is built, or weights are not finite.
    """
    name = today(str(about["network"]))
    if name.rpartition(".")[0] not in NETWORKS:
        check_imported(name, "network", ())
    found: Any = load_class(name, kind, "network")
    config: Any = restored(get_type_hints(found.__init__)["config"], about["model"])
    updates = getattr(config, "H_cycles", 1) * (getattr(config, "L_cycles", 0) + 1)
    updates *= getattr(config, "loops", 1)
    layers = getattr(config, "num_layers", 1)
    if layers > len(weights) or updates > _MOST_UPDATES:
        raise ValueError(f"{layers} layers, {updates} updates of the states in a step")
    for weight, value in weights.items():
        if not torch.isfinite(value).all():
            raise ValueError(f"{weight} holds numbers that are not finite")
    with torch.device("meta"), _NoInitialisation():  # shapes without memory
        shapes = found(config)
        dtypes = {weight: value.dtype for weight, value in shapes.state_dict().items()}
    shapes.load_state_dict(weights, assign=True)  # raises if shapes do not fit
    for weight, dtype in dtypes.items():  # PyTorch would convert numbers to integers
        if not dtype.is_floating_point and weights[weight].dtype != dtype:
            raise ValueError(f"{weight} holds {weights[weight].dtype}, and needs {dtype}")
    with _NoInitialisation():
        network = found(config)
    network.load_state_dict(weights)
    network.check_weights()
    return network


class _NoInitialisation(TorchFunctionMode):
    """Leaves parameters as they are, which weights of a file replace, and tensors without memory.

    On the meta device random numbers would import PyTorch's compiler.
    """

    _RANDOM = (Tensor.normal_, Tensor.uniform_, Tensor.random_, Tensor.erfinv_)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func in self._RANDOM or getattr(func, "__module__", None) == nn.init.__name__:
            tensor = args[0] if args else named["tensor"]
            if tensor.is_meta or isinstance(tensor, nn.Parameter):
                return tensor
        return func(*args, **named)


def _device(name: str) -> torch.device:
    kind, colon, index = name.partition(":")
    if kind in ("auto", "gpu"):
        there = torch.accelerator.is_available()
        found = torch.accelerator.current_accelerator() if there else None
        if found is None and kind == "gpu":
            raise ValueError("there is no GPU to compute on: take cpu or auto")
        kind = found.type if found else "cpu"
    try:
        device = torch.device(kind if kind == "cpu" else f"{kind}{colon}{index}")
        torch.zeros(1, device=device).item()  # fails on "meta"
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        if reason.startswith("Expected one of"):  # two dozen kinds, most of them rare
            reason = "take auto, cpu, cuda or mps"
        raise ValueError(f"there is no device {name!r} to compute on: {reason}") from None
    return device
