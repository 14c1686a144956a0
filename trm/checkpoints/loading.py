"""Loading a solver from a file. Nothing in it is executed, and a small file needs little memory.

A file is a Lightning checkpoint or exported weights: safetensors with JSON in the header. The JSON
has the names of `_HEADER`; ``symbols``, the characters of all ids; ``card``, a description for
people; and `_DIGEST`, a hash of all that and the tensors. Damaged files are refused: exported
weights by the digest, checkpoints by the CRCs of their archive.

Example of a header: ``{"model": {"family": "cell", ...}, "data": {"task": {...}, ...}, "step": 800,
"epoch": 4, "cost": {...}, "symbols": "...", "card": {...}, "sha256": "..."}``.
"""

import hashlib
import json
import logging
import pickletools
import re
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from augment.symmetry import SYMMETRIES
from canvas.canvas_size import Canvas
from canvas.check import check_layout
from canvas.choices import OPEN, OwnCodeError, check_choice, check_imported, load_class
from canvas.symbols import CHARACTERS, VOCAB_SIZE
from canvas.task import Task
from canvas.tasks import task_class
from trm.checkpoints import (
    AUXILIARY,
    AUXILIARY_HEAD,
    CHECKPOINT_KEY,
    COST_KEY,
    DATA_KEY,
    FORMAT,
    HEADER,
    SHIPPED,
    SUFFIX,
    find_checkpoint,
)
from trm.checkpoints.proofs import PROVED, REFUTED, noted_proof
from trm.limits import MOST_STEPS
from trm.solving.families import FAMILIES
from trm.solving.gpt_predictor import Calibration
from trm.solving.predictor import Predictor
from trm.solving.solver import Solver
from trm.solving.voting_settings import Voting
from trm.torch_settings import standard_settings

_DIGEST = "sha256"  # an entry of the entry `HEADER`
_HEADER = {"model": CHECKPOINT_KEY, "data": DATA_KEY}  # by name there: the key in a checkpoint
_HEADER |= {"step": "global_step", "epoch": "epoch", "cost": COST_KEY}
_PREFIX = "model."  # of the names of the network's weights in a checkpoint
_PACKAGES = ("canvas", "augment", "trm")  # packages with classes that a file may name
_NETWORKS = tuple(f"trm.models.{name}" for name in ("gpt", "cell", "recursive"))
_WRITTEN = "take one written by `trm fit` or `trm inspect --export`"

_LONGEST = 100_000  # characters of settings as JSON
_MOST_UPDATES = 10_000  # of the states in a supervision step
_VIEWS = 4  # tensors may have this many times the file's size: tied weights count twice

# Names that a checkpoint's pickle may contain: containers, tensors and their parts. `torch.load`
# also allows functions that make tensors or bytes of any size from a number.
_NAMES = re.compile(
    r"collections OrderedDict|(builtins|__builtin__) set|_codecs encode|torch (Size|device)"
    r"|torch\._utils _rebuild_(tensor_v2|parameter)|torch \w+Storage"
    r"|torch (bool|(b?float|u?int|complex)\w+)"
)

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
        ValueError: as in `load_checkpoint`; or there is no such device, the file needs code that
            was not imported, or the model cannot use such views.
    """
    if steps is not None and not 1 <= steps <= MOST_STEPS:
        raise ValueError(f"steps are from 1 to {MOST_STEPS:,}, not {steps:,}")
    path = SHIPPED if path is None else path
    content = load_checkpoint(path)
    about, data = content[CHECKPOINT_KEY], content[DATA_KEY]
    try:
        predictor = _predictor(about, network_weights(content), steps)
        task, canvas = restored_task(data["task"]), restored(Canvas, data["canvas"])
        check_layout(task)
        predictor.check_task(task)
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
    proof = noted_proof(path, content, predictor.model, task)
    predictor = predictor.for_task(task, proved=proof.get("verdict") == PROVED)
    predictor.model.eval().to(_device(device))
    canvas = replace(canvas, height=height or canvas.height, width=width or canvas.width)
    _log.debug("%s: %s, %s, on %s", path, about["network"], task, predictor.device)
    solver = Solver(predictor, task, canvas, symmetries)
    if proof.get("verdict") == REFUTED:
        try:
            solver = _refuted(solver, proof)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise ValueError(
                f"{path}: the note of its refutation is damaged: run `trm prove` again"
            ) from None
    return solver.with_voting(voting) if voting else solver


def _refuted(solver: Solver, proof: dict[str, Any]) -> Solver:
    """Limit a solver's confidence by the note of its refutation."""
    predictor, wrong = solver.predictor, proof.get("wrong_inputs")
    if proof.get("windows"):
        ids = np.unique(np.array(wrong or (), dtype=np.int64))
        predictor.limit(solver.task, ids, 1 - proof["wrong_windows"] / proof["windows"])
    if wrong:  # these inputs cover the counterexample, too
        return solver
    found = (proof.get("counterexample") or {}).get("problem", "")
    return replace(solver, known_wrong=(solver.task.parse(found),)) if found else solver


@standard_settings()
def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Return the content of a checkpoint file or of exported weights; nothing in it is executed.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, no checkpoint of this package, or too large for one.
    """
    path = find_checkpoint(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols of strange files
            if path.suffix == SUFFIX:
                content = unpack(path)
            else:
                _check_archive(path)
                content = torch.load(path, map_location="cpu", weights_only=True)
        _check_tensors(content, path.stat().st_size)
    except PermissionError:
        raise
    except Exception:
        # Other bytes can fail in any way. PyTorch's own message is not passed on: it advises
        # loading the file together with its code.
        raise ValueError(
            f"{path} cannot be read as a checkpoint: it is damaged, cut short, packed, of another "
            f"kind, or holds code, which is never executed; {_WRITTEN}"
        ) from None
    if not isinstance(content, dict) or not {CHECKPOINT_KEY, DATA_KEY} <= content.keys():
        held = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise ValueError(
            f"{path} holds no model of this package, but {held[:60] or 'nothing'}: {_WRITTEN}. "
            "Models of the published TRM are made by trm.models.interop"
        )
    try:
        entries = [{COST_KEY: None, **content}[key] for key in _HEADER.values()]
        # Encoded piece by piece, as repeated references could make the text huge.
        text = "".join(islice(json.JSONEncoder().iterencode(entries), _LONGEST))
        if len(text) >= _LONGEST:
            raise ValueError("settings are too long")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} does not describe its model ({error}): {_WRITTEN}") from None
    return content


def network_weights(content: dict[str, Any]) -> dict[str, Tensor]:
    """Return the network's weights in a checkpoint by name, averaged if training averaged them."""
    found = content["state_dict"].items()
    return {k.removeprefix(_PREFIX): value for k, value in found if k.startswith(_PREFIX)}


def auxiliary_weights(content: dict[str, Any]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return weight, [classes, D], and bias, [classes], of a checkpoint's auxiliary heads.

    They are by sub-task. Exported weights have none.
    """
    found, ending = content["state_dict"], f"{AUXILIARY_HEAD}.weight"
    return {
        name.removeprefix(AUXILIARY).removesuffix(ending): (weight, found[f"{name[:-6]}bias"])
        for name, weight in found.items()
        if name.startswith(AUXILIARY) and name.endswith(ending)
    }


def pack(
    content: dict[str, Any],
    card: dict[str, Any],
    weights: dict[str, Tensor] | None = None,
    dtype: torch.dtype | None = None,
) -> bytes:
    """Return the bytes of a safetensors file.

    Args:
        content: of a checkpoint.
        card: description for people, as plain data.
        weights: None: those of ``content``.
        dtype: of floating-point weights in the file; None: their own.
    """
    header = {name: content.get(key) for name, key in _HEADER.items()}
    header |= {"symbols": CHARACTERS[:VOCAB_SIZE], "card": card}  # letters have come later
    weights = network_weights(content) if weights is None else weights
    # Weights that share memory, such as tied embeddings, are stored one by one.
    tensors = {
        name: value.to(dtype if value.is_floating_point() else None, copy=True).contiguous()
        for name, value in weights.items()
    }
    return save(tensors, {HEADER: json.dumps(header | {_DIGEST: _digest(header, tensors)})})


def unpack(path: Path) -> dict[str, Any]:
    """Read a file written from `pack`: a checkpoint's content with the additional key ``card``.

    Weights in bfloat16 are returned in float32, as NumPy has no bfloat16.
    """
    with safe_open(path, framework="pt", device="cpu") as file:
        header = json.loads((file.metadata() or {})[HEADER])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if header.pop(_DIGEST, None) not in (None, _digest(header, tensors)):  # old files have none
        raise ValueError("its content does not match its digest")
    if not CHARACTERS.startswith(header["symbols"]):
        raise ValueError("it was written with another vocabulary")
    content = {key: header.get(name) for name, key in _HEADER.items()}
    weights = {
        _PREFIX + name: value.float() if value.dtype == torch.bfloat16 else value
        for name, value in tensors.items()
    }
    return content | {"state_dict": weights, "card": header["card"]}


def _digest(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of exported weights: JSON, then each tensor's name, type, shape, bytes."""
    found = hashlib.sha256(json.dumps(header).encode())
    for name, value in sorted(tensors.items()):
        found.update(f"\n{name} {value.dtype} {list(value.shape)}\n".encode())
        found.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _check_archive(file: Path) -> None:
    """Raise a ValueError unless `torch.load` is safe: no damage, compression or code."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
        if packed or sum(entry.file_size for entry in entries) > file.stat().st_size:
            raise ValueError("its content is larger than the file")
        for entry in entries:
            held = archive.read(entry)  # checks the CRC
            if entry.filename.endswith(".pkl"):
                for opcode, argument, _ in pickletools.genops(held):
                    if opcode.name == "GLOBAL" and not _NAMES.fullmatch(str(argument)):
                        raise ValueError(f"it names {argument}")


def _check_tensors(content: Any, size: int) -> None:
    """Raise a ValueError for nested tensors that a file of ``size`` bytes cannot contain."""
    todo, seen, total = [content], set[int](), 0
    while todo:
        value = todo.pop()
        if id(value) in seen or not isinstance(value, dict | list | tuple | set | Tensor):
            continue
        seen.add(id(value))
        if not isinstance(value, Tensor):
            todo += value.values() if isinstance(value, dict) else value
        elif value.layout != torch.strided or value.device.type != "cpu":
            raise ValueError("a tensor without numbers")
        else:
            total += value.numel() * value.element_size()
    if total > _VIEWS * size:
        raise ValueError(f"tensors of {total:,} bytes")


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
    if about["family"] == "local":
        raise ValueError("it is of an earlier version, which called cell models local")
    family = next((family for family in FAMILIES if family.name == about["family"]), None)
    if family is None or about["format"] != FORMAT:
        raise ValueError(f"it holds a {about['family']} model in format {about['format']}")
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
    name = str(about["network"])
    if name.rpartition(".")[0] not in _NETWORKS:
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
    shapes.load_state_dict(weights, assign=True)  # raises if shapes do not fit
    network = found(config)
    network.load_state_dict(weights)
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
