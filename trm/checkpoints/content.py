"""The content of checkpoints and of exported weights: read safely, and written as exported weights.

Nothing in a file is executed, and a small file needs little memory.

A file is a Lightning checkpoint or exported weights: safetensors with JSON in the header. The JSON
has the names of `_HEADER`; ``symbols``, the characters of all ids; ``card``, a description for
people; and `_DIGEST`, a hash of all that and the tensors. Damaged files are refused: exported
weights by the digest, checkpoints by the CRCs of their archive.

Example of a header: ``{"model": {"family": "cell", ...}, "data": {"task": {...}, ...}, "step": 800,
"epoch": 4, "cost": {...}, "symbols": "...", "card": {...}, "sha256": "..."}``.

`read_checkpoint` reads exported weights without PyTorch.
"""

from __future__ import annotations

import hashlib
import json
import pickletools
import re
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open

from canvas.canvas_size import Canvas
from canvas.choices import class_name
from canvas.symbols import CHARACTERS, VOCAB_SIZE
from canvas.task import Task
from canvas.tasks import task_data
from trm.checkpoints import (
    AUXILIARY,
    AUXILIARY_HEAD,
    CHECKPOINT_KEY,
    COST_KEY,
    DATA_KEY,
    FORMAT,
    HEADER,
    find_checkpoint,
    is_weights,
)
from trm.io.files import write_bytes
from trm.models.weights import contiguous_bytes, dtype_name, uncompiled
from trm.released import released, today

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

_DIGEST = "sha256"  # an entry of the entry `HEADER`
_HEADER = {"model": CHECKPOINT_KEY, "data": DATA_KEY}  # by name there: the key in a checkpoint
_HEADER |= {"step": "global_step", "epoch": "epoch", "cost": COST_KEY}
_PREFIX = "model."  # of the names of the network's weights in a checkpoint
_COMPILED = "_orig_mod."  # after it, where `torch.compile` had wrapped the network
_WRITTEN = "take one written by `trm fit` or `trm inspect --export`"

_LONGEST = 100_000  # characters of settings as JSON
_VIEWS = 4  # tensors may have this many times the file's size: tied weights count twice

# Names that a checkpoint's pickle may contain: containers, tensors and their parts. `torch.load`
# also allows functions that make tensors or bytes of any size from a number.
_NAMES = re.compile(
    r"collections OrderedDict|(builtins|__builtin__) set|_codecs encode|torch (Size|device)"
    r"|torch\._utils _rebuild_(tensor_v2|parameter)|torch \w+Storage"
    r"|torch (bool|(b?float|u?int|complex)\w+)"
)


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Return the content of a checkpoint file or of exported weights; nothing in it is executed.

    Raises:
        FileNotFoundError, ValueError: see `read_checkpoint`.
    """
    return with_tensors(read_checkpoint(path))


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Return the same as `load_checkpoint`, with exported weights as NumPy arrays.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, no checkpoint of this package, or too large for one.
    """
    path = find_checkpoint(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols of strange files
            content = _unpacked(path) if is_weights(path) else _unpickled(path)
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
            "`trm convert` reads weights of the published TRM and of nanoGPT"
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


def with_tensors(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of `read_checkpoint` with tensors in place of NumPy arrays."""
    weights = content.get("state_dict")
    if not isinstance(weights, dict) or not any(
        isinstance(v, np.ndarray) for v in weights.values()
    ):
        return content
    import torch

    return content | {"state_dict": {k: torch.from_numpy(value) for k, value in weights.items()}}


def network_weights(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the network's weights in a checkpoint by name, averaged if training averaged them.

    Those in the content of `read_checkpoint` may be NumPy arrays.
    """
    found = content["state_dict"].items()
    return {
        k.removeprefix(_PREFIX).removeprefix(_COMPILED): value
        for k, value in found
        if k.startswith(_PREFIX)
    }


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


def plain(config: Any) -> dict[str, Any]:
    """Return the settings of a dataclass as JSON data, with lists for tuples."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items()}


def network_entry(model: nn.Module, **settings: Any) -> dict[str, Any]:
    """Return the entry `CHECKPOINT_KEY` of a network: its class, config and family.

    ``settings`` of solving replace those of the family, see `trm.solving.families.Family`.
    """
    from trm.solving.families import family_of

    model = uncompiled(model)
    family, config = family_of(model), plain(model.config)
    about = {"format": FORMAT, "network": released(class_name(type(model))), "model": config}
    return {**about, "family": family.name, **family.settings, **settings}


def check_same_network(model: nn.Module, content: Mapping[str, Any]) -> None:
    """Check that the network of a checkpoint has the class and the settings of a network.

    Weights of another model may have the same shapes and a different meaning.

    Args:
        model: the network.
        content: of the checkpoint.

    Raises:
        ValueError: the checkpoint holds another model.
    """
    held = content.get(CHECKPOINT_KEY, {})
    mine = {"network": class_name(type(model)), **plain(model.config)}
    # A setting that did not exist when the checkpoint was written is at its default.
    theirs = {"network": str(held.get("network")), **plain(type(model.config)())}
    theirs |= held.get("model", {})
    mine, theirs = ({k: today(value) for k, value in of.items()} for of in (mine, theirs))
    different = [k for k, value in mine.items() if theirs.get(k) != value]
    # None stands for a size, which may be the other's; the shapes of the weights tell.
    by_default = all(None in (mine[k], theirs.get(k)) for k in different)
    if different and not (by_default and _same_shapes(model, content)):
        differ = [f"{k} {theirs.get(k)} (here {mine[k]})" for k in different]
        raise ValueError(
            f"the checkpoint holds another model: {', '.join(differ[:4])}. Take its own config, or "
            "another checkpoint"
        )


def _same_shapes(model: nn.Module, content: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint's weights have the names and shapes of a network's."""
    mine, theirs = uncompiled(model).state_dict(), network_weights(content)
    return {k: tuple(w.shape) for k, w in mine.items()} == {
        k: tuple(w.shape) for k, w in theirs.items()
    }


def new_content(
    model: nn.Module, task: Task, canvas: Canvas | None = None, **settings: Any
) -> dict[str, Any]:
    """Return the content of a checkpoint, without weights, of a network from no training.

    Args:
        model: of any family.
        task: of its problems.
        canvas: None: cut to the problems.
        settings: of solving, see `network_entry`.
    """
    data = {"task": task_data(task), "canvas": asdict(canvas or Canvas()), "seed": None}
    about = {
        CHECKPOINT_KEY: network_entry(model, **settings),
        DATA_KEY: data | {"symmetries": ["e"]},
    }
    return about | {"global_step": 0, "epoch": 0, COST_KEY: None}


def save_model(
    file: str | Path, model: nn.Module, task: Task, canvas: Canvas | None = None, **settings: Any
) -> None:
    """Write a network that you have made as a file of weights, which every command accepts.

    Example: ``save_model("mine.safetensors", model, Addition("column"))``, then ``trm solve
    --checkpoint mine.safetensors 12+34``.

    Args:
        file: replaced if it exists.
        model: of any family.
        task: of its problems.
        canvas: size of its canvases; None: cut to the problems.
        settings: of solving, such as ``solve_steps=8`` of a recursive transformer.

    Raises:
        ValueError: the model belongs to no family, or the task is none.
    """
    if not isinstance(task, Task):
        raise ValueError(f"a task is like canvas.multiplication.Multiplication(), not {task!r}")
    content = new_content(model, task, canvas, **settings)
    write_bytes(Path(file), pack(content, {}, dict(uncompiled(model).state_dict())))


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
    from safetensors.torch import save

    header = {name: content.get(key) for name, key in _HEADER.items()}
    header |= {"symbols": CHARACTERS[:VOCAB_SIZE], "card": card}  # letters have come later
    weights = network_weights(content) if weights is None else weights
    # Weights that share memory, such as tied embeddings, are stored one by one.
    tensors = {
        name: value.to(dtype if value.is_floating_point() else None, copy=True).contiguous()
        for name, value in weights.items()
    }
    about = {name: (str(value.dtype), _array(value)) for name, value in tensors.items()}
    return save(tensors, {HEADER: json.dumps(header | {_DIGEST: _digest(header, about)})})


def unpack(path: Path) -> dict[str, Any]:
    """Read a file written from `pack`: a checkpoint's content with the additional key ``card``.

    Weights in bfloat16 are returned in float32, as NumPy has no bfloat16.
    """
    return with_tensors(_unpacked(path))


def _unpacked(path: Path) -> dict[str, Any]:
    """Return the same as `unpack`, with NumPy arrays."""
    with safe_open(path, framework="np") as file:
        header = json.loads((file.metadata() or {})[HEADER])
        names = file.keys()
        halves = {name for name in names if file.get_slice(name).get_dtype() == "BF16"}
        stored = {name: file.get_tensor(name) for name in names if name not in halves}
    weights = {_PREFIX + name: value for name, value in stored.items()}
    about = {name: (dtype_name(value.dtype), value) for name, value in stored.items()}
    if halves:
        import torch

        with safe_open(path, framework="pt", device="cpu") as file:
            tensors = {name: file.get_tensor(name) for name in halves}
        about |= {name: (str(torch.bfloat16), _array(value)) for name, value in tensors.items()}
        weights |= {_PREFIX + name: value.float().numpy() for name, value in tensors.items()}
    if header.pop(_DIGEST, None) not in (None, _digest(header, about)):  # old files have none
        raise ValueError("its content does not match its digest")
    if not CHARACTERS.startswith(header["symbols"]):
        raise ValueError("it was written with another vocabulary")
    content = {key: header.get(name) for name, key in _HEADER.items()}
    weights = {_PREFIX + name: weights[_PREFIX + name] for name in names}  # in the file's order
    return content | {"state_dict": weights, "card": header["card"]}


def _array(tensor: Tensor) -> np.ndarray:
    """Return a tensor's numbers as an array; those in bfloat16 as their bits, int16."""
    import torch

    half = tensor.dtype == torch.bfloat16
    found: np.ndarray = (tensor.view(torch.int16) if half else tensor).numpy()
    return found


def _digest(header: dict[str, Any], weights: Mapping[str, tuple[str, np.ndarray]]) -> str:
    """Return the SHA-256 of exported weights: JSON, then each tensor's name, type, shape, bytes."""
    found = hashlib.sha256(json.dumps(header).encode())
    for name, (dtype, value) in sorted(weights.items()):
        found.update(f"\n{name} {dtype} {list(value.shape)}\n".encode())
        found.update(contiguous_bytes(value))
    return found.hexdigest()


def _unpickled(path: Path) -> Any:
    """Return what a Lightning checkpoint contains.

    Raises:
        Exception: of any kind; the file is damaged or contains something else.
    """
    import torch

    from trm.runtime.torch_settings import standard_settings

    _check_archive(path)
    with standard_settings(), path.open("rb") as stream:  # a path's ending would choose the format
        content = torch.load(stream, map_location="cpu", weights_only=True)
    _check_tensors(content, path.stat().st_size)
    return content


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
    import torch
    from torch import Tensor

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
