"""Sharing of models: a folder with a model card, local or on a hub, and networks as ONNX.

`Solver` has the methods of Hugging Face's `PyTorchModelHubMixin`, which saves a network only, and
calls these functions. A folder of a model has:

    model.safetensors    weights, with task, canvas, figures, proof, and a hash of all
    config.json          the settings in its header, for readers and for the hub
    README.md            the model card, see `trm.extras.model_card`
    model.decisions.npz  decisions of a proved model, if its weights had them beside them

The hub needs the extra ``hub``, ONNX the extra ``onnx``.
"""

import json
import logging
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from canvas.symbols import MASK
from trm.cells.integer import IntegerCellModel
from trm.cells.model import CellModel
from trm.checkpoints import (
    CHECKPOINT_KEY,
    DATA_KEY,
    DECISIONS_SUFFIX,
    SUFFIX,
    find_checkpoint,
    is_weights,
)
from trm.checkpoints.content import load_checkpoint, network_weights, pack
from trm.checkpoints.loading import load_solver
from trm.checkpoints.names import named_weights
from trm.checkpoints.puzzles import load_any
from trm.extras.model_card import LIBRARY, description, model_card
from trm.io.files import make_folder, read_object, write_json
from trm.models.recursive import RecursiveState, TinyRecursiveModel
from trm.models.states import where_samples
from trm.models.weights import uncompiled
from trm.runtime.torch_settings import standard_settings
from trm.solving.solver import Solver

_MODEL, _CONFIG, _CARD = f"model{SUFFIX}", "config.json", "README.md"  # files of a folder
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")  # owner/name
# Options of `from_pretrained` that are the hub's.
_HUB_OPTIONS = ("token", "cache_dir", "local_files_only", "force_download")


def from_pretrained(name: str | Path, revision: str | None = None, **options: Any) -> Solver:
    """Load a model, see `Solver.from_pretrained`."""
    hub = {key: options.pop(key) for key in _HUB_OPTIONS if key in options}
    file = _find(name, revision=revision, **hub)
    solver = load_solver(file, **options)
    config = read_object(file.with_name(_CONFIG)) if file.name == _MODEL else None
    if config is not None and config != _settings(load_checkpoint(file)):
        raise ValueError(
            f"{file.with_name(_CONFIG)} differs from the settings in {file.name}, which are "
            "used: save the model again, or delete that file"
        )
    return solver


def save_pretrained(
    model: Solver | str | Path, folder: str | Path, repo_id: str | None = None
) -> None:
    """Write the files of a model into a folder; this module's docstring lists them.

    Args:
        model: a checkpoint, the folder of a run, or a name that `trm models` lists; or a solver,
            whose weights are written as they are now, see `Solver.save_pretrained`.
        folder: is made.
        repo_id: the model's name in the card; None: the folder.

    Raises:
        FileNotFoundError: there are no such weights.
        ValueError: the folder contains other weights, or a README.md or config.json that this
            function has not written; or the solver is of no file.
    """
    weights = model.file if isinstance(model, Solver) else model
    if weights is None:
        raise ValueError("this solver was not loaded from a file: save a checkpoint, and load that")
    file, folder = find_checkpoint(weights), Path(folder)
    content = load_checkpoint(file)
    changed = _changed(model, content) if isinstance(model, Solver) else None
    if changed is not None:
        packed = pack(content, {}, changed)
    elif is_weights(file):
        packed = file.read_bytes()
    else:
        packed = pack(content, description(file, content, load_any(file, device="cpu")))
    copy, notes, config = (folder / name for name in (_MODEL, _CARD, _CONFIG))
    if copy.exists() and copy.read_bytes() != packed:
        raise ValueError(f"{copy} is there already, and holds other weights: name another folder")
    if notes.exists() and LIBRARY not in notes.read_text(encoding="utf-8"):
        raise ValueError(f"{notes} is there already, and no model card: name another folder")
    if config.exists() and (read_object(config) or {}).keys() != _settings(content).keys():
        raise ValueError(f"{config} is there already, of another model: name another folder")
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / _MODEL).write_bytes(packed)
        card = model_card(Path(made) / _MODEL, repo_id or str(folder))  # raises if it cannot load
        (Path(made) / _CARD).write_text(card, encoding="utf-8")
        write_json(Path(made) / _CONFIG, _settings(content))
        if changed is None and (table := file.with_suffix(DECISIONS_SUFFIX)).is_file():
            shutil.copyfile(table, Path(made) / _MODEL.replace(SUFFIX, DECISIONS_SUFFIX))
        make_folder(folder)
        for one in Path(made).iterdir():
            shutil.copyfile(one, folder / one.name)


def _changed(solver: Solver, content: dict[str, Any]) -> dict[str, Tensor] | None:
    """Return the weights of a solver, by name; None: they are those of its file."""
    saved, model = network_weights(content), uncompiled(solver.predictor.model)
    now = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    if other := sorted(saved.keys() ^ now.keys()):
        raise ValueError(
            f"the weights of the network have other names than those in {solver.file}, such as "
            f"{other[0]}: undo what renames them, such as a parametrization"
        )
    same = all(torch.equal(now[name].to(value.dtype), value) for name, value in saved.items())
    return None if same else now


def push_to_hub(model: Solver | str | Path, repo_id: str, **options: Any) -> str:
    """Upload the folder of `save_pretrained` to the hub; see `Solver.push_to_hub`."""
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(model, folder, repo_id)
        hub = _hub(f"to push {repo_id}")
        to = {key: options[key] for key in options if key == "token"}
        try:
            hub.create_repo(repo_id, exist_ok=True, **options)
            return str(hub.upload_folder(repo_id=repo_id, folder_path=folder, **to))
        except TypeError:
            raise
        except Exception as error:  # of several packages, as in `_find`
            raise OSError(
                f"{repo_id} was not pushed to the hub ({_first_line(error)}): check the "
                "connection, and log in by `hf auth login`"
            ) from None


def _settings(content: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a checkpoint as JSON data."""
    found = {
        "library_name": LIBRARY.partition(": ")[2],
        "model": content[CHECKPOINT_KEY],
        "data": content[DATA_KEY],
    }
    return dict(json.loads(json.dumps(found)))


def _find(name: str | Path, **hub_options: Any) -> Path:
    """Return the file of a model, from the hub if it is not here."""
    text = str(name)
    if not _ON_HUB.fullmatch(text) or Path(text).exists() or text in named_weights():
        return find_checkpoint(name)
    hub = _hub(f"there is no folder {text}, and to look for it on the hub")
    patterns = [f"*{SUFFIX}", f"*{DECISIONS_SUFFIX}", _CONFIG]
    try:
        folder = hub.snapshot_download(text, allow_patterns=patterns, **hub_options)
    except TypeError:
        raise
    except Exception as error:  # of several packages, from no connection to no permission
        raise FileNotFoundError(
            f"there is no folder {text} here, and no model of that name could be read from the hub "
            f"({_first_line(error)})"
        ) from None
    return find_checkpoint(folder)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _hub(why: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise ImportError(f"{why} huggingface_hub is needed: pip install huggingface_hub") from None
    return huggingface_hub


@standard_settings()
def to_onnx(model: nn.Module, height: int, width: int) -> bytes:
    """Export a network as ONNX, for any number of samples.

    - Cell model: ``op_inputs`` (int64 [N], ids, see `canvas.cells.encoding.OpEncoding`) → logits of
      all outputs of ops, and halt logits.
    - Recursive model, one supervision step on canvases of this size: ``tokens``, ``begins`` (bool
      [B], True for samples without states) and both states → logits, halt logits and new states.

    Raises:
        ValueError: models of this kind cannot be exported.
    """
    network: Any = nn.Module()
    network.model = model = uncompiled(model)
    outputs = ["logits", "halt_logits"]
    if isinstance(model, IntegerCellModel):
        raise ValueError(
            "ONNX is not written of models in integers: take the model that this one was made from"
        )
    if isinstance(model, CellModel):
        network.forward = lambda op_inputs: model.cells(model.reader.decode(op_inputs))
        example: tuple[Tensor, ...] = (torch.arange(2),)
    elif isinstance(model, TinyRecursiveModel) and not model.ragged:

        def step(tokens: Tensor, begins: Tensor, z_H: Tensor, z_L: Tensor) -> tuple[Tensor, ...]:
            context = model.encode(tokens)
            state = where_samples(begins, model.initial_state(context), RecursiveState(z_H, z_L))
            state = model.iterate(context, state)
            return *model.read(state, context), *state

        network.forward = step
        outputs += ["new_z_H", "new_z_L"]
        last = model.config.vocab_size - 1  # puzzles may have fewer symbols
        tokens = torch.full((2, height, width), min(MASK, last))
        states = model.initial_state(model.encode(tokens))
        example = tokens, torch.ones(2, dtype=torch.bool), *states
    else:
        raise ValueError(
            "ONNX is for models of one cell, or of which all cells are tokens: for no GPT, and no "
            "model with skip_blank or crop"
        )
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # no hints about optional packages
    sizes = ({0: torch.export.Dim("batch")},) * len(example)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # warnings about PyTorch's own code
        program: Any = torch.onnx.export(
            network, example, output_names=outputs, dynamic_shapes=sizes, dynamo=True, verbose=False
        )  # fmt: skip
    return program.model_proto.SerializeToString()
