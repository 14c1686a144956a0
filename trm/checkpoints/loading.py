"""From a file to a solver."""

import logging
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from augment.symmetry import SYMMETRIES
from canvas.canvas_size import Canvas
from canvas.choices import check_choice
from canvas.plugins import OwnCodeError, check_imported
from canvas.task import Task, describe_ranges
from canvas.tasks import task_class
from trm.checkpoints import keys
from trm.checkpoints.exported import network_weights, unpack
from trm.checkpoints.keys import CHECKPOINT_KEY, COST_KEY, DATA_KEY, FORMAT
from trm.checkpoints.limits import check_archive, check_settings, check_tensors
from trm.checkpoints.paths import SUFFIX, find_checkpoint
from trm.checkpoints.settings import (
    PACKAGES,
    config_class,
    network,
    network_class,
    restored,
)
from trm.models.gpt import GPT
from trm.models.interop import kind_of
from trm.models.iterative import IterativeModel
from trm.plain_data import fits
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver

_log = logging.getLogger(__name__)


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint file, or of exported weights; nothing in it is executed.

    Raises:
        FileNotFoundError: there is none.
        ValueError: the file is not a checkpoint of this package, or holds more than it can.
    """
    path = find_checkpoint(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols of strange files
            if path.suffix == SUFFIX:
                content = unpack(path)
            else:
                check_archive(path)
                content = torch.load(path, map_location="cpu", weights_only=True)
        check_tensors(content, path.stat().st_size)
    except PermissionError:
        raise
    except Exception:
        # Bytes that are no checkpoint can fail in any way. PyTorch's own sentence is not passed
        # on: it advises to load the file together with its code.
        raise ValueError(
            f"{path} cannot be read as a checkpoint: it is cut short, packed, of another kind, or "
            "holds code, which is never executed; take one written by `trm fit` or `trm export`"
        ) from None
    if not isinstance(content, dict) or CHECKPOINT_KEY not in content or DATA_KEY not in content:
        kind = kind_of(content) if isinstance(content, dict) else f"a {type(content).__name__}"
        raise ValueError(
            f"{path} holds no model of this package, it looks like {kind[:200]}: take a checkpoint "
            "written by `trm fit` or `trm export`. Models of the reference TRM and of nanoGPT are "
            "made by trm.models.interop and trm.models.interop_gpt"
        )
    try:
        for key in (CHECKPOINT_KEY, DATA_KEY, "global_step", "epoch"):
            check_settings(content[key])
        check_settings(content.get(COST_KEY))
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path} does not say which model it holds ({error}): take a checkpoint written by "
            "`trm fit` or `trm export`"
        ) from None
    return content


def load_solver(
    path: str | Path,
    steps: int | None = None,
    height: int | None = None,
    width: int | None = None,
    device: str = "auto",
) -> Solver:
    """A solver from a checkpoint.

    Args:
        path: a checkpoint file, or the folder of a run.
        steps: supervision steps a row gets at most, or loops of a looped GPT; None: as the
            checkpoint says. A GPT that is not looped has no use for it.
        height, width: the canvas to solve on; None: as in training, or cut to the problems if
            training's was cut.
        device: where to compute; `auto` takes an accelerator if there is one.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: the file is not a checkpoint of this package, its network is code of one's own
            that has not been imported, or there is no such device.
    """
    content = load_checkpoint(path)
    about, data = content[CHECKPOINT_KEY], content[DATA_KEY]
    try:
        weights = network_weights(content)
        if about["family"] not in _PREDICTORS or about["format"] != FORMAT:
            raise ValueError(f"it holds a {about['family']} model in format {about['format']}")
        predictor = _PREDICTORS[about["family"]](about, weights, steps)
        task, canvas = _task(data["task"]), restored(Canvas, data["canvas"])
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
    predictor.model.eval().to(_device(device))
    canvas = replace(canvas, height=height or canvas.height, width=width or canvas.width)
    _log.debug(
        "%s: %s, %s parameters, %s in base %d, %s, on %s",
        find_checkpoint(path),
        about["family"],
        f"{sum(p.numel() for p in predictor.model.parameters()):,}",
        task.layout,
        task.base,
        describe_ranges(task.ranges),
        predictor.device,
    )
    return Solver(predictor, task, canvas, symmetries)


def _task(data: dict[str, Any]) -> Task:
    """A task as a checkpoint describes it; code of one's own is not imported for it."""
    settings = dict(data)
    name = settings.pop("task")
    check_imported(str(name), "task", PACKAGES)
    return restored(task_class(name), settings)


def _iterative(about: dict[str, Any], weights: dict[str, Any], steps: int | None) -> Predictor:
    kind: Any = network_class(about["network"], IterativeModel)
    if not fits(about["solve_steps"], int):
        raise ValueError(f"solve_steps is {about['solve_steps']!r}")
    model = network(kind, restored(config_class(kind), about["model"]), weights)
    return IterativePredictor(model, steps or about["solve_steps"])


def _gpt(about: dict[str, Any], weights: dict[str, Any], steps: int | None) -> Predictor:
    kind = network_class(about["network"], GPT)
    model = network(kind, restored(config_class(kind), about["model"]), weights)
    loops = steps if model.config.loops > 1 else None
    return GPTPredictor(model, restored(Calibration, about["calibration"]), loops=loops)


_PREDICTORS = {keys.ITERATIVE: _iterative, keys.GPT: _gpt}


def _device(name: str) -> torch.device:
    if name == "auto":
        there = torch.accelerator.is_available()
        return (torch.accelerator.current_accelerator() if there else None) or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # "meta" has no numbers
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        if reason.startswith("Expected one of"):  # two dozen, most of which nobody has
            reason = "take auto, cpu, cuda or mps"
        raise ValueError(f"there is no device {name!r} to compute on: {reason}") from None
    return device
