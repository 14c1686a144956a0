"""Files of weights of other projects: their content, their kind, and the names in them."""

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

# Values of the ACT wrapper's training that carry no weight.
_LOCAL = ("puzzle_emb.local_weights", "puzzle_emb.local_ids")
# Wrappers around the inner model: torch.compile, the loss head, the ACT wrapper.
_WRAPPERS = ("_orig_mod.", "model.", "inner.")

TRM, NANOGPT = "trm", "nanogpt"
# A weight that all files of a kind have → the kind.
_KINDS = {"embed_tokens.embedding_weight": TRM, "transformer.wte.weight": NANOGPT}

Source = str | Path | Mapping[str, Any]  # a file, or its content
M = TypeVar("M", bound=nn.Module)


class _PositionEmbedding(enum.Enum):
    """Stands for the class of that name in checkpoints of the note, which torch.load refuses."""

    ABS_LEARNED = 1
    SINUSODIAL = 2
    TOKEN_ROTARY = 3
    QK_ROTARY = 4
    CUSTOM_PID = 5
    ROPE_2D = 6


def kind_of(content: Mapping[str, Any]) -> str | None:
    """Return `TRM` or `NANOGPT`, by the names in a file; None: neither."""
    names = unwrapped(checkpoint_weights(content)[0])
    return next((kind for name, kind in _KINDS.items() if name in names), None)


def content_of(source: Source) -> Mapping[str, Any]:
    """Return the content of a file, or content that was read already; see `read_file`."""
    return source if isinstance(source, Mapping) else read_file(source)


def read_file(file: str | Path) -> Mapping[str, Any]:
    """Return the content of a file written by torch.save; code in it is refused.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, of another kind, or not one of names and tensors.
    """
    enums = [(_PositionEmbedding, "model.PositionEmbedding")]
    try:
        with torch.serialization.safe_globals(enums):  # type: ignore[arg-type]
            content: Any = torch.load(file, map_location="cpu", weights_only=True)
    except (FileNotFoundError, PermissionError):
        raise
    except Exception:  # other bytes can fail in any way; PyTorch's message advises running code
        raise ValueError(
            f"{file} is not a file of plain tensors written by torch.save, or it is damaged"
        ) from None
    if not isinstance(content, Mapping):
        raise ValueError(f"{file} holds a {type(content).__name__}, not a state dict")
    return content


def matrix(weights: Mapping[str, Tensor], name: str) -> Tensor:
    """Return a weight of two dimensions.

    Raises:
        ValueError: there is none of that name and form.
    """
    found = weights.get(name)
    if found is None or found.ndim != 2 or not found.numel():
        how = "lack" if found is None else "have no matrix"
        raise ValueError(f"these weights {how} {name}, so they are of another model")
    return found


def checkpoint_weights(content: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the state dict in a checkpoint of nanoGPT, and its settings; of others no settings."""
    if isinstance(content.get("model"), Mapping) and isinstance(content.get("model_args"), Mapping):
        return content["model"], content["model_args"]
    return content, {}


def unwrapped(weights: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return tensors without the names of wrappers in front of theirs."""
    unwrapped = {}
    for name, value in weights.items():
        name = str(name)
        while name.startswith(_WRAPPERS):
            name = name.split(".", 1)[1]
        if isinstance(value, Tensor) and name not in _LOCAL:
            unwrapped[name] = value
    return unwrapped


def renamed(ours: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return detached weights by their names."""
    found = {}
    for key, value in ours.items():
        for their_part, our_part in reversed(list(names.items())):
            key = key.replace(our_part, their_part)
        found[key] = value.detach().clone()
    return found


def filled(model: M, weights: Mapping[str, Tensor], names: Mapping[str, str], wrong: str) -> M:
    """Return the model with weights of their names.

    Raises:
        ValueError: they do not fit, with the text ``wrong`` and the first reason.
    """
    ours = {}
    for key, value in weights.items():
        if not torch.isfinite(value).all():
            raise ValueError(f"{key} holds numbers that are not finite")
        for their_part, our_part in names.items():
            key = key.replace(their_part, our_part)
        ours[key] = value.float()
    try:
        model.load_state_dict(ours)
    except RuntimeError as error:
        reasons = [line.strip() for line in str(error).splitlines()[1:]]
        raise ValueError(f"{wrong}: {(reasons or [str(error)])[0]}") from error
    return model
