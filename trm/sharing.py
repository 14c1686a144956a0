"""Sharing of models: a folder with a model card, local or on a hub, and networks as ONNX.

Functions have the names of Hugging Face's `PyTorchModelHubMixin`, which saves a network only. The
folder has a file of weights of this project, which also contains task, canvas, figures, proof, and
a hash of all. The hub needs the extra ``hub``, ONNX the extra ``onnx``.
"""

import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from canvas.symbols import MASK
from trm.checkpoints import SUFFIX
from trm.checkpoints.content import unpack
from trm.checkpoints.loading import load_solver
from trm.checkpoints.proofs import proof_digest, with_new_keys
from trm.evaluation.grid import share
from trm.files import make_folder, write_text
from trm.markdown import safe, table
from trm.models.cell import CellModel
from trm.models.integer import IntegerCellModel
from trm.models.iterative import where
from trm.models.recursive import RecursiveState, TinyRecursiveModel
from trm.solving.solver import Solver
from trm.torch_settings import standard_settings

_LIBRARY = "library_name: canvas-trm"  # in a model card


def save_pretrained(weights: str | Path, folder: str | Path, repo_id: str | None = None) -> None:
    """Copy a file of `trm inspect --export` into a folder, and add a model card.

    ``repo_id`` is the model's name in the card; None: the folder.

    Raises:
        ValueError: it is no such file, or the folder contains other weights or another README.md.
    """
    file, copy = Path(weights), Path(folder) / f"model{SUFFIX}"
    notes = copy.with_name("README.md")
    if file.suffix != SUFFIX:
        raise ValueError(f"{file} is no {SUFFIX}: write one with `trm inspect --export`")
    if copy.exists() and copy.read_bytes() != file.read_bytes():
        raise ValueError(f"{copy} is there already, and holds other weights: name another folder")
    if notes.exists() and _LIBRARY not in notes.read_text(encoding="utf-8"):
        raise ValueError(f"{notes} is there already, and no model card: name another folder")
    card = model_card(load_solver(file, device="cpu"), unpack(file)["card"], repo_id or str(folder))
    make_folder(Path(folder))
    copy.write_bytes(file.read_bytes())
    write_text(notes, card)


def push_to_hub(weights: str | Path, repo_id: str, **options: Any) -> str:
    """Upload the folder of `save_pretrained` to the hub; return its URL.

    ``repo_id`` is like ``me/multiply``; options are those of `create_repo`.
    """
    hub = _hub(f"to push {repo_id}")
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(weights, folder, repo_id)
        hub.create_repo(repo_id, exist_ok=True, **options)
        return str(hub.upload_folder(repo_id=repo_id, folder_path=folder))


def from_pretrained(name: str | Path, revision: str | None = None, **options: Any) -> Solver:
    """Load the model in such a folder, or on the hub; options are those of `load_solver`."""
    if not Path(name).exists():
        hub = _hub(f"there is no folder {name}, and to look for it on the hub")
        name = hub.snapshot_download(str(name), revision=revision, allow_patterns=f"*{SUFFIX}")
    return load_solver(name, **options)


def _hub(why: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise ImportError(f"{why} huggingface_hub is needed: pip install huggingface_hub") from None
    return huggingface_hub


def model_card(solver: Solver, card: dict[str, Any], name: str) -> str:
    """Describe exported weights as Markdown; ``card`` is the card in their header."""
    task, model = solver.task, solver.predictor.model
    size = model.num_parameters
    parts = [
        f"---\n{_LIBRARY}\n---\n\n# {safe(name)}",
        f"A `{type(model).__name__}` of {size:,} parameters for {task.name} in base {task.base}, "
        f"layout `{task.layout}`, trained on {solver.trained_on}.",
    ]
    proof = card.get("proof") or {}
    if solver.predictor.proved and proof.get("digest") == proof_digest(model, task):
        proof = with_new_keys(proof)
        of = f"{proof['op_inputs']:,} cell inputs, smallest margin {proof['smallest_margin']:.1f}"
        parts.append(f"**Proved correct at every length** ({of}).")
    if cells := card.get("cells"):
        rows = [[str(c["row"]), str(c["column"]), share(c).short] for c in cells]
        parts.append("Held-out problems whose whole solution is correct, with 95 % intervals:")
        parts.append(table([*card["settings"]["axes"], "correct"], rows))
    code = f'solve("12{task.sign}3", from_pretrained("{name}"))'
    imports = "from trm import solve\nfrom trm.sharing import from_pretrained"
    return "\n\n".join([*parts, f"```python\n{imports}\n\n{code}\n```\n"])


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
    network.model = model
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
            state = where(begins, model.initial_state(context), RecursiveState(z_H, z_L))
            state = model.iterate(context, state)
            return *model.read(state, context), *state

        network.forward = step
        outputs += ["new_z_H", "new_z_L"]
        tokens = torch.full((2, height, width), MASK)
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
