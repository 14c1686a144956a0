"""From a file to a solver: task, network and `Solver` are built from checked settings.

`trm.checkpoints.content` reads the file, `trm.checkpoints.networks` builds the network. PyTorch is
imported where a network is needed.
"""

import json
import logging
import re
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from augment.symmetry import SYMMETRIES
from canvas.canvas_size import Canvas
from canvas.choices import OPEN, check_choice, check_imported
from canvas.problems import MOST_CELLS
from canvas.task import Task
from canvas.tasks import task_class
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY, FORMAT, PROOF_SUFFIX, SHIPPED, find_checkpoint
from trm.checkpoints.content import plain as plain  # its released place
from trm.checkpoints.content import read_checkpoint
from trm.registry import EARLIER, FAMILIES, RESTORE_NOTE, load
from trm.runtime.limits import MOST_STEPS, check_whole
from trm.solving.solver import Solver
from trm.solving.voting import Voting

_PACKAGES = ("canvas", "augment", "trm")  # packages with classes that a file may name

T = TypeVar("T")

_log = logging.getLogger(__name__)


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
    path = find_checkpoint(SHIPPED if path is None else path)
    content = read_checkpoint(path)
    if "puzzles" in content[DATA_KEY]:
        raise ValueError(
            f"{path} was trained on arrays of puzzles, not on arithmetic: `trm solve`, `trm "
            "inspect` and `trm evaluate --data FOLDER` read puzzles (in Python "
            "trm.load_puzzle_solver), and other commands do not"
        )
    solver = None if steps else _looked_up(path, content, str(device))
    if solver is None:
        from trm.checkpoints.networks import with_network

        solver = with_network(path, content, steps, str(device))
        if has_note(path, content):
            solver = load(RESTORE_NOTE)(solver, path, content)
    canvas = solver.canvas
    canvas = replace(canvas, height=height or canvas.height, width=width or canvas.width)
    about, predictor = content[CHECKPOINT_KEY], solver.predictor
    _log.debug("%s: %s, %s, on %s", path, about["network"], solver.task, predictor.device)
    solver = replace(solver, canvas=canvas, file=path.absolute())
    return solver.with_voting(voting) if voting else solver


def _looked_up(path: str | Path, content: dict[str, Any], device: str) -> Solver | None:
    """Return a solver that needs no network as yet; None: it needs one, or the file is damaged.

    `trm.checkpoints.networks.with_network` then names the damage.
    """
    about, data = content[CHECKPOINT_KEY], content[DATA_KEY]
    try:
        look_up = FAMILIES[about["family"]].look_up
        if not look_up or device not in ("auto", "cpu") or not has_note(path, content):
            return None
        check_family(about)
        task, canvas = restored_task(data["task"]), restored(Canvas, data["canvas"])
        predictor = load(look_up)(path, content, task, partial(_network, path, content, device))
        symmetries, primed = checked_symmetries(data), primed_task(data)
        return predictor and Solver(predictor, task, canvas, symmetries, primed=primed)
    except (AttributeError, TypeError, KeyError, ValueError):
        return None


def _network(path: str | Path, content: dict[str, Any], device: str) -> Any:
    """Return the network of a file on a device. The file itself is not read again."""
    import torch

    from trm.checkpoints.networks import with_network

    with torch.inference_mode(False):  # a later use of its weights may be outside of it
        return with_network(path, content, None, device).predictor.model


def checked_symmetries(data: dict[str, Any]) -> tuple[str, ...]:
    """Return the symmetries of canvases in training."""
    symmetries = tuple(data.get("symmetries", ["e"]))
    for name in symmetries:
        check_choice("a symmetry", name, SYMMETRIES)
    return symmetries


def primed_task(data: dict[str, Any]) -> Task | None:
    """Return the task of the longer problems in training, see `trm.training.priming`; None: none.

    Raises:
        ValueError, TypeError, KeyError: see `restored_task`.
    """
    return restored_task(data["primed"]["task"]) if "primed" in data else None


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
        # A large number would create as many cells, channels or steps.
        if not isinstance(value, str) and re.search(r"(?<![\d.])\d{8}", text):
            raise ValueError(f"{name} is {text[:40]}")
        if known[name] and isinstance(value, str) and "." in value:
            check_imported(value, name, _PACKAGES)
    text = json.dumps(settings)  # as JSON, which allows a list for a tuple
    with suppress(LookupError, NameError, TypeError, ValueError):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{name: _typed(part, hints[name]) for name, part in json.loads(text).items()})
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        reason = wrong["msg"].removeprefix("Value error, ")  # the class's own message
        if wrong["loc"]:
            reason = f"{wrong['loc'][0]} is {str(wrong['input'])[:40]!r}"
        raise ValueError(reason) from None


def _typed(value: Any, hint: Any) -> Any:
    """Return a value of a file's JSON as a setting of this type, like pydantic in strict mode.

    pydantic takes longer to import than to read all settings, and writes the messages.

    Raises:
        LookupError: the value does not fit, or the type is none of these: pydantic decides.
    """
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (bool, int, str, NoneType) and type(value) is kind:
        return value
    if kind is float and type(value) in (int, float) and abs(value) < 2**53:
        return float(value)
    if kind is UnionType and len(parts) == 2 and NoneType in parts:
        return None if value is None else _typed(value, next(p for p in parts if p is not NoneType))
    if kind is tuple and type(value) is list and len(value) == len(parts) and ... not in parts:
        return tuple(map(_typed, value, parts))
    if kind is list and type(value) is list and parts:
        return [_typed(one, parts[0]) for one in value]
    if kind is dict and type(value) is dict and parts[:1] == (str,):
        return {key: _typed(one, parts[1]) for key, one in value.items()}
    raise LookupError(hint)


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


def check_family(about: dict[str, Any]) -> None:
    """Raise a ValueError unless a file is of a family of this version."""
    if about["family"] in list(EARLIER):
        raise ValueError(EARLIER[about["family"]])
    if about["family"] not in list(FAMILIES) or about["format"] != FORMAT:
        raise ValueError(f"it holds a {about['family']} model in format {about['format']}")
    most = about.get("solve_steps", 1)
    if type(most) is not int or most > 10**7:
        raise ValueError(f"solve_steps is {most!r}")


def reinitialised(model: Any) -> Any:
    """Return a network of the same class, config and device with newly initialised weights."""
    import torch

    from trm.runtime.torch_settings import standard_settings

    with standard_settings(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        fresh = type(model)(model.config)
    return fresh.to(next(model.parameters()).device).eval()
