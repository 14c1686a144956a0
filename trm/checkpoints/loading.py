"""From a file to a solver; nothing in a file is executed, and a small one takes no large memory.

Files are Lightning's checkpoints, or exported weights: safetensors with JSON in their header. There
the names of `_HEADER` stand, ``symbols``, the characters of all ids, ``card``, what people should
know, and `_DIGEST` of all that and the tensors: damaged files are refused, checkpoints by their
archive's CRCs.
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
from canvas.rule_check import check_rule
from canvas.symbols import CHARACTERS, VOCAB_SIZE
from canvas.task import Task
from canvas.tasks import task_class
from trm.checkpoints import (
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
from trm.models.cell import CellModel
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel
from trm.solving.cell_predictor import CellPredictor, Refutation
from trm.solving.gpt_predictor import Calibration, GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver
from trm.solving.voting_settings import Voting
from trm.torch_settings import standard_settings

_DIGEST = "sha256"  # an entry of the entry `HEADER`
_HEADER = {"model": CHECKPOINT_KEY, "data": DATA_KEY}  # what stands there, and in a checkpoint
_HEADER |= {"step": "global_step", "epoch": "epoch", "cost": COST_KEY}
_PREFIX = "model."  # of the network's weights in a checkpoint
_PACKAGES = ("canvas", "augment", "trm")  # whose classes a file may name
_NETWORKS = tuple(f"trm.models.{name}" for name in ("gpt", "cell", "recursive"))
_WRITTEN = "take one written by `trm fit` or `trm inspect --export`"

_LONGEST = 100_000  # characters of settings as JSON
_MOST_UPDATES = 10_000  # of the states in a supervision step
_VIEWS = 4  # times a file's size that its tensors may come to: tied weights count twice

# What a checkpoint's pickle may name: containers, tensors, and what is in them. `torch.load` also
# knows functions that make tensors or bytes of any size from a number.
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
    """A model, ready to solve problems.

    Args:
        path: a checkpoint's file, the folder of a run: its best one, or a name that `trm models`
            lists; None: the shipped model.
        steps: supervision steps a row gets at most, or loops of a looped GPT; None: as the
            checkpoint says. A GPT that is not looped has no use for it.
        height, width: the canvas; None: as in training, or cut to the problems if training's was.
        device: where to compute, like cpu or cuda:1; `auto` takes an accelerator if there is one.
        voting: how many views of a problem are asked, and how they agree; None: one view.

    Errors as of `load_checkpoint`; ValueError: no such device, code that nobody imported, or views
    that the model has no use for.
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
        if isinstance(predictor, CellPredictor):
            rule = task.local_rule(latent=bool(predictor.model.config.codes))
            check_rule(task, rule)
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
    if isinstance(predictor, CellPredictor):
        predictor.proved = proof.get("verdict") == PROVED
        if rule.most_operands is not None:  # on other pages its cells see what these never show
            predictor = predictor.for_pages_of(task, rule)
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
    """A solver that is no surer than the note of its refutation allows."""
    predictor, wrong = solver.predictor, proof.get("wrong_inputs")
    if isinstance(predictor, CellPredictor) and proof.get("windows"):
        codes = predictor.model.config.codes
        rule = solver.task.local_rule(latent=bool(codes)).with_codes(codes)
        numbers = np.unique(np.array(wrong or (), dtype=np.int64))
        most = 1 - proof["wrong_windows"] / proof["windows"]
        predictor.refutation = Refutation(rule, numbers, most)
    if wrong:  # which cover the counterexample, too
        return solver
    found = (proof.get("counterexample") or {}).get("problem", "")
    return replace(solver, known_wrong=(solver.task.parse(found),)) if found else solver


@standard_settings()
def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint file, or of exported weights; nothing in it is executed.

    FileNotFoundError: there is none. ValueError: it is damaged, no checkpoint of this package, or
    holds more than one can.
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
        # Bytes that are no checkpoint can fail in any way. PyTorch's own sentence is not passed
        # on: it advises to load the file together with its code.
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
        said = [{COST_KEY: None, **content}[key] for key in _HEADER.values()]
        # Piece by piece, as what stands twice counts twice.
        text = "".join(islice(json.JSONEncoder().iterencode(said), _LONGEST))
        if len(text) >= _LONGEST:
            raise ValueError("settings too long to be any")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} does not say which model it holds ({error}): {_WRITTEN}"
        ) from None
    return content


def network_weights(content: dict[str, Any]) -> dict[str, Tensor]:
    """The network's weights in a checkpoint by its own names, averaged if training averaged."""
    found = content["state_dict"].items()
    return {k.removeprefix(_PREFIX): value for k, value in found if k.startswith(_PREFIX)}


def pack(
    content: dict[str, Any], card: dict[str, Any], weights: dict[str, Tensor] | None = None
) -> bytes:
    """The bytes of a safetensors file, with the weights of a checkpoint's content or others."""
    header = {name: content.get(key) for name, key in _HEADER.items()}
    header |= {"symbols": CHARACTERS[:VOCAB_SIZE], "card": card}  # letters have come later
    weights = network_weights(content) if weights is None else weights
    # Weights that share memory, as tied embeddings do, are stored one by one.
    tensors = {name: value.clone().contiguous() for name, value in weights.items()}
    return save(tensors, {HEADER: json.dumps(header | {_DIGEST: _digest(header, tensors)})})


def unpack(path: Path) -> dict[str, Any]:
    """What a file written from `pack` holds, as a checkpoint's content with the card beside it."""
    with safe_open(path, framework="pt", device="cpu") as file:
        header = json.loads((file.metadata() or {})[HEADER])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if header.pop(_DIGEST, None) not in (None, _digest(header, tensors)):  # once there was none
        raise ValueError("it is not what was written")
    if not CHARACTERS.startswith(header["symbols"]):
        raise ValueError("it was written with another vocabulary")
    content = {key: header.get(name) for name, key in _HEADER.items()}
    weights = {_PREFIX + name: value for name, value in tensors.items()}
    return content | {"state_dict": weights, "card": header["card"]}


def _digest(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """SHA-256 of exported weights: the JSON, then each tensor's name, type, shape and bytes."""
    found = hashlib.sha256(json.dumps(header).encode())
    for name, value in sorted(tensors.items()):
        found.update(f"\n{name} {value.dtype} {list(value.shape)}\n".encode())
        found.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _check_archive(file: Path) -> None:
    """Refuse a file for `torch.load` that is damaged, larger inside, or names more than data."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
        if packed or sum(entry.file_size for entry in entries) > file.stat().st_size:
            raise ValueError("larger inside than outside")
        for entry in entries:
            held = archive.read(entry)  # which compares the CRC
            if entry.filename.endswith(".pkl"):
                for opcode, argument, _ in pickletools.genops(held):
                    if opcode.name == "GLOBAL" and not _NAMES.fullmatch(str(argument)):
                        raise ValueError(f"it names {argument}")


def _check_tensors(content: Any, size: int) -> None:
    """Refuse tensors below lists and dicts that a file of ``size`` bytes cannot hold."""
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
    """A dataclass as a file describes it; refuses numbers out of all proportion, too."""
    known = {field.name: field.metadata.get(OPEN) for field in fields(kind)}  # type: ignore[arg-type]
    for name, value in settings.items():
        if name not in known:
            raise ValueError(f"there is no setting {name}")
        text = json.dumps(value, allow_nan=False)
        if re.search(r"(?<![\d.])\d{8}", text):  # of which cells, channels or steps would be made
            raise ValueError(f"{name} is {text[:40]}")
        if known[name] and isinstance(value, str) and "." in value:
            check_imported(value, name, _PACKAGES)
    try:  # as JSON, in which a list is as good as a tuple
        return TypeAdapter(kind).validate_json(json.dumps(settings), strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        told = wrong["msg"].removeprefix("Value error, ")  # what the class itself says
        if wrong["loc"]:
            told = f"{wrong['loc'][0]} is {str(wrong['input'])[:40]!r}"
        raise ValueError(told) from None


def restored_task(data: dict[str, Any]) -> Task:
    """A task as `canvas.tasks.task_data` describes it.

    ValueError, TypeError, KeyError: it is none. OwnCodeError: its code was not imported.
    """
    settings = dict(data)
    name = settings.pop("task")
    settings.pop("repeats", None)  # of older files: how problems of training were drawn
    check_imported(str(name), "task", _PACKAGES)
    found = restored(task_class(name), settings)
    assert isinstance(found, Task)
    return found


def plain(config: Any) -> dict[str, Any]:
    """A dataclass's settings as JSON has them."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items()}


def _predictor(about: dict[str, Any], weights: dict[str, Tensor], steps: int | None) -> Predictor:
    if about["family"] == "local":
        raise ValueError("it is of an earlier version, which called cell models local")
    if about["family"] not in ("iterative", "cell", "gpt") or about["format"] != FORMAT:
        raise ValueError(f"it holds a {about['family']} model in format {about['format']}")
    if about["family"] == "gpt":
        if steps and about["model"].get("loops", 1) > 1:
            about = about | {"model": about["model"] | {"loops": steps}}
        calibration = restored(Calibration, about["calibration"])
        return GPTPredictor(_network(about, GPT, weights), calibration)
    if about["family"] == "cell":
        return CellPredictor(_network(about, CellModel, weights))
    if type(about["solve_steps"]) is not int or about["solve_steps"] > 10**7:
        raise ValueError(f"solve_steps is {about['solve_steps']!r}")
    network = _network(about, IterativeModel, weights)  # type: ignore[type-abstract]
    return IterativePredictor(network, steps or about["solve_steps"])


def _network(about: dict[str, Any], kind: type[Network], weights: dict[str, Tensor]) -> Network:
    """The network that a file names, with its weights; refused before anything large is built."""
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
    with torch.device("meta"), _Undrawn():  # shapes without numbers
        shapes = found(config)
    shapes.load_state_dict(weights, assign=True)  # which says what does not fit
    network = found(config)
    network.load_state_dict(weights)
    return network


class _Undrawn(TorchFunctionMode):
    """Weights are made and not drawn: on the meta device that imports PyTorch's compiler."""

    _DRAWS = (Tensor.normal_, Tensor.uniform_, Tensor.random_, Tensor.erfinv_)  # in place

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
        torch.zeros(1, device=device).item()  # "meta" has no numbers
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        if reason.startswith("Expected one of"):  # two dozen, most of which nobody has
            reason = "take auto, cpu, cuda or mps"
        raise ValueError(f"there is no device {name!r} to compute on: {reason}") from None
    return device


@standard_settings()
def reinitialised(model: Any) -> Any:
    """A network of the same class and config on the same device, with weights drawn anew."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        fresh = type(model)(model.config)
    return fresh.to(next(model.parameters()).device).eval()
