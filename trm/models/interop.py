"""Models from weights of the published TRM, SamsungSAILMontreal/TinyRecursiveModels."""

import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel

# Their name, our name; every weight's name is changed by these replacements and no others.
_NAMES = {
    "embed_tokens.embedding_weight": "embed_tokens.weight",
    "embed_pos.embedding_weight": "position.weight",
    "puzzle_emb.weights": "prefix",
    "q_head": "halt_head",
    "L_level.layers": "layers",
    "self_attn.qkv_proj": "mixing.qkv",
    "self_attn.o_proj": "mixing.out",
    "gate_up_proj": "gate_up",
    "down_proj": "down",
}
# Values of the ACT wrapper's training that carry no weight.
_LOCAL = ("puzzle_emb.local_weights", "puzzle_emb.local_ids")
# Wrappers around the inner model: torch.compile, the loss head, the ACT wrapper.
_WRAPPERS = ("_orig_mod.", "model.", "inner.")

Source = str | Path | Mapping[str, Any]  # a file, or what it holds


def load_reference_trm(
    source: Source,
    *,
    height: int,
    width: int,
    num_heads: int = 8,
    H_cycles: int = 3,
    L_cycles: int = 6,
    position: str = "rope_1d",
    prefix_length: int | None = None,
) -> TinyRecursiveModel:
    """Build a model from the reference's weights; what their shapes tell is read from them.

    ValueError: they are of something else, or their shapes do not fit the arguments.

    Args:
        source: a checkpoint file or its state dict, of the inner model or any of its wrappers.
        height, width: of the canvas, height * width being the reference's ``seq_len``.
        num_heads, H_cycles, L_cycles: see `RecursiveConfig`.
        position: "rope_1d" or "none". Ignored for a file with weights of learned positions.
        prefix_length: ``puzzle_emb_len``; 0: as many tokens as the embedding fills, as the
            reference means it; None: from the learned positions, else 16, its default.
    """
    theirs = _unwrapped(source if isinstance(source, Mapping) else _read(source))
    try:
        vocab_size, hidden_size = theirs["embed_tokens.embedding_weight"].shape
        intermediate_size = theirs["L_level.layers.0.mlp.down_proj.weight"].shape[1]
    except KeyError as error:
        raise ValueError(f"these are no weights of a reference TRM: they lack {error}") from None
    learned, prefix = theirs.get("embed_pos.embedding_weight"), theirs.get("puzzle_emb.weights")
    if prefix is None:
        prefix_length = 0
    elif prefix_length is None:
        prefix_length = 16 if learned is None else learned.shape[0] - height * width
    elif prefix_length == 0:
        prefix_length = math.ceil(prefix.shape[1] / hidden_size)
    config = RecursiveConfig(
        height=height,
        width=width,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_layers=len({key.split(".")[2] for key in theirs if key.startswith("L_level.layers.")}),
        intermediate_size=intermediate_size,
        H_cycles=H_cycles,
        L_cycles=L_cycles,
        position="learned" if learned is not None else position,
        num_prefixes=0 if prefix is None else prefix.shape[0],
        prefix_length=prefix_length,
        prefix_size=None if prefix is None else prefix.shape[1],
    )
    model, ours = TinyRecursiveModel(config), {}
    for key, value in theirs.items():
        for their_part, our_part in _NAMES.items():
            key = key.replace(their_part, our_part)
        ours[key] = value.float()
    try:
        model.load_state_dict(ours)
    except RuntimeError as error:
        raise ValueError(
            f"this does not fit a {height} x {width} canvas with prefix_length {prefix_length} "
            f"and position {config.position}: {error}"
        ) from error
    return model


def _read(file: str | Path) -> Mapping[str, Any]:
    """The state dict of a file, which has to be one of plain tensors."""
    try:
        content: Any = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"{file} is not a file of plain tensors written by torch.save: {error}"
        ) from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{file} holds a {type(content).__name__}, not a state dict")
    return content


def _unwrapped(weights: Mapping[str, Any]) -> dict[str, Any]:
    """The weights without what wrappers put in front of their names."""
    unwrapped = {}
    for name, value in weights.items():
        name = str(name)
        while name.startswith(_WRAPPERS):
            name = name.split(".", 1)[1]
        unwrapped[name] = value
    return {name: value for name, value in unwrapped.items() if name not in _LOCAL}
