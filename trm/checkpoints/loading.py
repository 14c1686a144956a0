"""From a file to a solver: task, network and `Solver` are built from checked settings.

`trm.checkpoints.content` reads the file.
"""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from augment.symmetry import SYMMETRIES
from canvas.canvas_size import Canvas
from canvas.check import check_layout
from canvas.choices import OPEN, OwnCodeError, check_choice, check_imported, load_class
from canvas.problems import MOST_CELLS
from canvas.task import Task
from canvas.tasks import task_class
from trm.checkpoints import (
    CHECKPOINT_KEY,
    DATA_KEY,
    FORMAT,
    PROOF_SUFFIX,
    SHIPPED,
    find_checkpoint,
)
from trm.checkpoints.content import load_checkpoint, network_weights
from trm.families import EARLIER, FAMILIES, NETWORKS, RESTORE_NOTE, load, today
from trm.limits import MOST_STEPS, check_whole
from trm.solving.families import family_named
from trm.solving.gpt_predictor import Calibration
from trm.solving.predictor import Predictor
from trm.solving.solver import Solver
from trm.solving.voting_settings import Voting
from trm.torch_settings import standard_settings

_PACKAGES = ("canvas", "augment", "trm")  # packages with classes that a file may name
_MOST_UPDATES = 10_000  # of the states in a supervision step

T = TypeVar("T")
Network = TypeVar("Network", bound=nn.Module)

_log = logging.getLogger(__name__)


@standard_settings()
def load_solver(
    path: str | Path | None = None,
    steps: int | None = None,
    height: int | None = None,
    width: int | None = None,
    device: str = "auto",
    voting: Voting | None = None,
) -> Solver:
    """Load a model, ready to solve problems.

    Args:
        path: the file of a checkpoint; the folder of a run, which loads its best one; or a name
            that `trm models` lists. None: the shipped model.
        steps: highest number of supervision steps for a row, or loops of a looped GPT; None: that
            of the checkpoint. Ignored for other GPTs.
        height: of the canvas; None: as in training, or cut to the problems if training's was.
        width: as ``height``.
        device: like cpu or cuda:1; `auto` uses an accelerator if there is one.
        voting: number of views of a problem, and how they vote; None: one view.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: as in `load_checkpoint`; or there is no such device, a number is too small or
            too large, the file needs code that was not imported, or the model cannot use such
            views.
    """
    check_whole("steps", steps, 1, MOST_STEPS)
    for side, cells in (("height", height), ("width", width)):
        check_whole(side, cells, 1, MOST_CELLS)
    if not isinstance(voting, Voting | None):
        raise ValueError(f"voting is like Voting(views=4), from trm.solving.voting, not {voting!r}")
    path = SHIPPED if path is None else path
    content = load_checkpoint(path)
    about, data = content[CHECKPOINT_KEY], content[DATA_KEY]
    try:
        predictor = _predictor(about, network_weights(content), steps)
        task, canvas = restored_task(data["task"]), restored(Canvas, data["canvas"])
        check_layout(task)
        predictor = predictor.for_task(task)
        symmetries = tuple(data.get("symmetries", ["e"]))
        for name in symmetries:
            check_choice("a symmetry", name, SYMMETRIES)
    except OwnCodeError as error:
        raise OwnCodeError(f"{path}: {error}") from None
    except (AttributeError, RuntimeError, TypeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"{path} does not fit this version's models ({reason}): use the version that trained it"
        ) from None
    place = _device(str(device))
    predictor.model.eval().to(place)
    canvas = replace(canvas, height=height or canvas.height, width=width or canvas.width)
    _log.debug("%s: %s, %s, on %s", path, about["network"], task, predictor.device)
    solver = Solver(predictor, task, canvas, symmetries)
    if has_note(path, content):
        solver = load(RESTORE_NOTE)(solver, path, content)
    return solver.with_voting(voting) if voting else solver


def has_note(path: str | Path, content: dict[str, Any]) -> bool:
    """Return whether there is a note of `trm prove`, beside a checkpoint or in its card."""
    card = content.get("card")
    beside = find_checkpoint(path).with_suffix(PROOF_SUFFIX)
    return beside.is_file() or bool(isinstance(card, dict) and card.get("proof"))


def restored(kind: type[T], settings: dict[str, Any]) -> T:
    """Return a dataclass with settings from a file.

    Example: ``restored(Canvas, {"height": 8, "width": 16})``.

    Raises:
        ValueError: a setting does not exist, has a wrong value, or is a huge number.
    """
    known = {field.name: field.metadata.get(OPEN) for field in fields(kind)}  # type: ignore[arg-type]
    for name, value in settings.items():
        if name not in known:
            raise ValueError(f"there is no setting {name}")
        text = json.dumps(value, allow_nan=False)
        if re.search(r"(?<![\d.])\d{8}", text):  # would create as many cells, channels or steps
            raise ValueError(f"{name} is {text[:40]}")
        if known[name] and isinstance(value, str) and "." in value:
            check_imported(value, name, _PACKAGES)
    try:  # as JSON, which allows a list for a tuple
        return TypeAdapter(kind).validate_json(json.dumps(settings), strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        reason = wrong["msg"].removeprefix("Value error, ")  # the class's own message
        if wrong["loc"]:
            reason = f"{wrong['loc'][0]} is {str(wrong['input'])[:40]!r}"
        raise ValueError(reason) from None


def restored_task(data: dict[str, Any]) -> Task:
    """Return the task with the settings of `canvas.tasks.task_data`.

    Raises:
        ValueError, TypeError, KeyError: there is no such task or setting.
        OwnCodeError: the task's code was not imported.
    """
    settings = dict(data)
    name = settings.pop("task")
    settings.pop("repeats", None)  # in older files, a setting of training
    check_imported(str(name), "task", _PACKAGES)
    found = restored(task_class(name), settings)
    assert isinstance(found, Task)
    return found


def plain(config: Any) -> dict[str, Any]:
    """Return the settings of a dataclass as JSON data, with lists for tuples."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items()}


def _predictor(about: dict[str, Any], weights: dict[str, Tensor], steps: int | None) -> Predictor:
    if about["family"] in list(EARLIER):
        raise ValueError(EARLIER[about["family"]])
    if about["family"] not in list(FAMILIES) or about["format"] != FORMAT:
        raise ValueError(f"it holds a {about['family']} model in format {about['format']}")
    family = family_named(about["family"])
    if "calibration" in about:
        about = about | {"calibration": restored(Calibration, about["calibration"])}
    most = about.get("solve_steps", 1)
    if type(most) is not int or most > 10**7:
        raise ValueError(f"solve_steps is {most!r}")
    return family.predictor(lambda about: _network(about, family.network, weights), about, steps)


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
    with torch.device("meta"), _Undrawn():  # shapes without memory
        shapes = found(config)
        dtypes = {weight: value.dtype for weight, value in shapes.state_dict().items()}
    shapes.load_state_dict(weights, assign=True)  # raises if shapes do not fit
    for weight, dtype in dtypes.items():  # PyTorch would convert numbers to integers
        if not dtype.is_floating_point and weights[weight].dtype != dtype:
            raise ValueError(f"{weight} holds {weights[weight].dtype}, and needs {dtype}")
    network = found(config)
    network.load_state_dict(weights)
    network.check_weights()
    return network


class _Undrawn(TorchFunctionMode):
    """Skips random initialisation, which imports PyTorch's compiler on the meta device."""

    _DRAWS = (Tensor.normal_, Tensor.uniform_, Tensor.random_, Tensor.erfinv_)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func in self._DRAWS or getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else named["tensor"]
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


@standard_settings()
def reinitialised(model: Any) -> Any:
    """Return a network of the same class, config and device with newly initialised weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        fresh = type(model)(model.config)
    return fresh.to(next(model.parameters()).device).eval()
