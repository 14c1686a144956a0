"""Weights without the rest of a checkpoint: a safetensors file that says what it holds.

The tensors have the model's own names. The header has one entry, `HEADER`, in JSON:

    model        family, config and how it solves: a checkpoint's entry `CHECKPOINT_KEY`
    data         task, canvas, seed and symmetries of training: its entry `DATA_KEY`
    symbols      the vocabulary: the character of each id
    step, epoch  of training
    cost         of training, see `trm.training.cost`; null where it is not known
    card         what people should know, for example figures of `trm evaluate`
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save

from canvas.symbols import CHARACTERS
from trm.checkpoints.keys import CHECKPOINT_KEY, COST_KEY, DATA_KEY
from trm.models.untrained import drawn_anew

HEADER = "canvas_trm"
_PREFIX = "model."  # of the network's weights in a checkpoint


def network_weights(content: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The network's weights in a checkpoint, by the network's own names.

    Averaged ones where training averaged them: those are the weights that it validated.
    """
    return {
        name.removeprefix(_PREFIX): value
        for name, value in content["state_dict"].items()
        if name.startswith(_PREFIX)
    }


def halved(content: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's content with its weights rounded to float16.

    Raises:
        ValueError: a weight is too large.
    """
    weights = {
        k: v.half() if v.is_floating_point() else v for k, v in content["state_dict"].items()
    }
    for name, value in weights.items():
        if not value.isfinite().all():
            raise ValueError(f"{name} has numbers that are too large for float16")
    return {**content, "state_dict": weights}


def untrained(content: dict[str, Any], model: torch.nn.Module) -> dict[str, Any]:
    """A checkpoint's content with weights drawn anew (seed 0), as before training.

    Args:
        content: of a checkpoint.
        model: its network.
    """
    fresh = drawn_anew(model).state_dict()
    weights = {_PREFIX + name: value.cpu() for name, value in fresh.items()}
    return {**content, "state_dict": weights, "global_step": 0, "epoch": 0, COST_KEY: None}


def is_half(content: dict[str, Any]) -> bool:
    """Whether a checkpoint's weights are float16."""
    return all(v.dtype == torch.float16 for v in network_weights(content).values())


def pack(content: dict[str, Any], card: dict[str, Any]) -> bytes:
    """A safetensors file's bytes.

    Args:
        content: of a checkpoint, see `trm.checkpoints.loading.load_checkpoint`.
        card: fit for JSON.
    """
    header = {
        "model": content[CHECKPOINT_KEY],
        "data": content[DATA_KEY],
        "symbols": CHARACTERS,
        "step": content["global_step"],
        "epoch": content["epoch"],
        "cost": content.get(COST_KEY),
        "card": card,
    }
    # Weights that share memory, as tied embeddings do, are stored one by one.
    tensors = {name: value.clone().contiguous() for name, value in network_weights(content).items()}
    return save(tensors, {HEADER: json.dumps(header)})


def unpack(path: Path) -> dict[str, Any]:
    """What a file written from `pack` holds, as a checkpoint's content with the card beside it.

    Raises:
        SafetensorError, OSError: the file cannot be read, or is of another kind.
        KeyError, TypeError, ValueError: it does not say what it holds, or has other symbols.
    """
    with safe_open(path, framework="pt", device="cpu") as file:
        header = json.loads((file.metadata() or {})[HEADER])
        if header["symbols"] != CHARACTERS:
            raise ValueError(f"{path} was written with another vocabulary")
        weights = {_PREFIX + name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return {
        CHECKPOINT_KEY: header["model"],
        DATA_KEY: header["data"],
        "state_dict": weights,
        "global_step": header["step"],
        "epoch": header["epoch"],
        COST_KEY: header.get("cost"),
        "card": header["card"],
    }
