"""Weights of the reference TRM (SamsungSAILMontreal/TinyRecursiveModels) into ours and back."""

import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel

# Their name, our name; every weight's name is changed by these replacements and no others.
_NAMES = (
    ("embed_tokens.embedding_weight", "embed_tokens.weight"),
    ("embed_pos.embedding_weight", "position.weight"),
    ("puzzle_emb.weights", "prefix"),
    ("q_head", "halt_head"),
    ("L_level.layers", "layers"),
    ("self_attn.qkv_proj", "mixing.qkv"),
    ("self_attn.o_proj", "mixing.out"),
    ("mlp_t", "mixing"),
    ("gate_up_proj", "gate_up"),
    ("down_proj", "down"),
)
# Wrappers around the inner model: torch.compile, the loss head, the ACT wrapper.
_WRAPPERS = ("_orig_mod.", "model.", "inner.")
# Values of the ACT wrapper's training that carry no weight.
_LOCAL = ("puzzle_emb.local_weights", "puzzle_emb.local_ids")


def load_reference_trm(
    source: str | Path | Mapping[str, Tensor],
    *,
    height: int,
    width: int,
    num_heads: int = 8,
    H_cycles: int = 3,
    L_cycles: int = 6,
    position: str = "rope_1d",
    expansion: float = 4.0,
    prefix_length: int | None = None,
) -> TinyRecursiveModel:
    """Build a model from the reference's weights; what their shapes tell is read from them.

    Args:
        source: a checkpoint file or its state dict, of the inner model or any of its wrappers.
        height: rows of the canvas, height * width being the reference's ``seq_len``.
        width: columns of the canvas.
        num_heads: attention heads.
        H_cycles: H cycles per supervision step.
        L_cycles: L cycles per H cycle.
        position: "rope_1d" or "none"; a file with learned positions or a mixer says so itself.
        expansion: of the mixer's token MLP.
        prefix_length: ``puzzle_emb_len``; 0: as many tokens as the embedding fills, as the
            reference means it; None: from the learned positions, else 16, its default.

    Raises:
        ValueError: the file holds something else, or its shapes do not fit the arguments.
        FileNotFoundError: there is no such file.
    """
    name = str(source) if isinstance(source, str | Path) else "the state dict"
    weights = source if isinstance(source, Mapping) else read_checkpoint(Path(source))
    theirs = unwrap(weights)
    _check_kind(name, theirs)
    learned = theirs.get("embed_pos.embedding_weight")
    mixer = "L_level.layers.0.mlp_t.down_proj.weight" in theirs
    prefix = theirs.get("puzzle_emb.weights")
    if prefix is None:
        prefix_length = 0
    elif prefix_length is None:
        prefix_length = 16 if learned is None else learned.shape[0] - height * width
        if learned is not None and prefix_length < 1:
            raise ValueError(
                f"{name} has learned positions for {learned.shape[0]} tokens, prefix included; "
                f"{height} x {width} leaves none for the prefix. Check height and width."
            )
    vocab_size, hidden_size = theirs["embed_tokens.embedding_weight"].shape
    if prefix is not None and prefix_length == 0:
        prefix_length = math.ceil(prefix.shape[1] / hidden_size)
    config = RecursiveConfig(
        height=height,
        width=width,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_layers=len({key.split(".")[2] for key in theirs if key.startswith("L_level.layers.")}),
        intermediate_size=theirs["L_level.layers.0.mlp.down_proj.weight"].shape[1],
        expansion=expansion,
        H_cycles=H_cycles,
        L_cycles=L_cycles,
        block="mixer" if mixer else "attention",
        position="learned" if learned is not None else "none" if mixer else position,
        num_prefixes=0 if prefix is None else prefix.shape[0],
        prefix_length=prefix_length,
        prefix_size=None if prefix is None else prefix.shape[1],
    )
    model = TinyRecursiveModel(config)
    ours = {_rename(key): value.float() for key, value in theirs.items() if key not in _LOCAL}
    try:
        model.load_state_dict(ours)
    except RuntimeError as error:
        raise ValueError(
            f"{name} does not fit a {height} x {width} canvas with prefix_length {prefix_length}, "
            f"position {config.position} and expansion {expansion}: {error}"
        ) from error
    return model


def to_reference_state_dict(model: TinyRecursiveModel) -> dict[str, Tensor]:
    """The model's weights under the names of the reference's inner model.

    Raises:
        ValueError: the reference has no such position encoding, neighbourhood or halting head.
    """
    config = model.config
    if (
        config.position not in ("none", "learned", "rope_1d")
        or config.neighbourhood != "all"
        or config.skip_blank
        or config.halt_pool != "first"
    ):
        raise ValueError(
            "the reference knows position none, learned or rope_1d, neighbourhood all, skip_blank "
            f"false and halt_pool first; this model has {config.position}, {config.neighbourhood}, "
            f"{str(config.skip_blank).lower()} and {config.halt_pool}."
        )
    token_mlp = "mlp_t." if config.block == "mixer" else "mixing."
    state = {}
    for key, value in model.state_dict().items():
        name = key.replace("layers", "L_level.layers")
        for theirs, ours in _NAMES:
            if theirs not in ("mlp_t", "L_level.layers"):
                name = name.replace(ours, theirs)
        state[name.replace("mixing.", token_mlp)] = value.detach()
    return state


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """The contents of a file of plain tensors.

    Raises:
        ValueError: it is no such file, or does not hold a dict.
        FileNotFoundError: there is no such file.
    """
    if path.suffix == ".safetensors":
        raise ValueError(f"{path} looks like safetensors; give a file written by torch.save.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise ValueError(
            f"{path} is not a file of plain tensors written by torch.save: {error}"
        ) from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} holds a {type(content).__name__}, expected a state dict.")
    return content


def unwrap(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same weights without the prefixes that wrappers put in front of their names."""
    unwrapped = {}
    for key, value in weights.items():
        name = str(key)
        while name.startswith(_WRAPPERS):
            name = name.split(".", 1)[1]
        unwrapped[name] = value
    return unwrapped


def _rename(key: str) -> str:
    for theirs, ours in _NAMES:
        key = key.replace(theirs, ours)
    return key


def _check_kind(name: str, weights: Mapping[str, Tensor]) -> None:
    """Raise a ValueError that names what the file looks like unless it is a reference TRM."""
    needed = (
        "embed_tokens.embedding_weight",
        "lm_head.weight",
        "q_head.weight",
        "H_init",
        "L_level.layers.0.mlp.down_proj.weight",
    )
    missing = [key for key in needed if key not in weights]
    if missing or any(key.startswith("H_level.") for key in weights):
        refuse(name, "a reference TRM", weights, missing)


def refuse(name: str, wanted: str, weights: Mapping[str, Any], missing: list[str]) -> NoReturn:
    """Raise a ValueError that says what kind of file this is instead of the one wanted."""
    lacks = f" It lacks {', '.join(missing)}." if missing else ""
    raise ValueError(f"{name} is not {wanted}; it looks like {kind_of(weights)}.{lacks}")


def kind_of(content: Mapping[str, Any]) -> str:
    """What a file's content looks like, from its keys."""
    keys = list(unwrap(content))
    if any(key.startswith("H_level.") for key in keys):
        return "an HRM with separate H and L networks"
    if "pytorch-lightning_version" in keys:
        return "a Lightning checkpoint"
    if any(key.startswith("transformer.") for key in keys) or "model_args" in keys:
        return "a nanoGPT checkpoint"
    if any(key.startswith("L_level.") for key in keys):
        return "a reference TRM"
    if any(key.startswith(("layers.0.mixing.", "layers.0.attention.")) for key in keys):
        return "a state dict of this package"
    return f"something else (it has {', '.join(keys[:4]) or 'nothing'}, ...)"
