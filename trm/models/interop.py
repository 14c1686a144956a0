"""Models from weights of the published TRM and of nanoGPT.

The TRM is that of SamsungSAILMontreal/TinyRecursiveModels; the GPT is karpathy/nanoGPT and its
canvas variants of birdswimming/NanoGPT-multi, an earlier experiment: ABS_LEARNED is nanoGPT itself;
SINUSODIAL, CUSTOM_PID and ROPE_2D differ in their positions alone.
"""

import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from canvas.choices import check_choice
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel

# Their name, our name; every weight's name is changed by these replacements and no others.
_TRM_NAMES = {
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
_TRM_NEEDED = (
    "embed_tokens.embedding_weight",
    "lm_head.weight",
    "q_head.weight",
    "H_init",
    "L_level.layers.0.mlp.down_proj.weight",
    "L_level.layers.0.self_attn.qkv_proj.weight",  # not its MLP mixer
)
# Values of the ACT wrapper's training that carry no weight.
_LOCAL = ("puzzle_emb.local_weights", "puzzle_emb.local_ids")
_GPT_NAMES = {
    "transformer.wte.": "embed_tokens.",
    "transformer.h.": "layers.",
    "transformer.ln_f.": "norm.",
    "ln_1.": "attention_norm.",
    "ln_2.": "mlp_norm.",
    "attn.c_attn.": "attention.qkv.",
    "attn.c_proj.": "attention.out.",
    "mlp.c_fc.": "up.",
    "mlp.c_proj.": "down.",
}
_GPT_NEEDED = (
    "transformer.wte.weight",
    "transformer.h.0.attn.c_attn.weight",
    "transformer.h.0.mlp.c_fc.weight",
    "transformer.ln_f.weight",
)
# Fixed tables and masks, which carry no weight.
_BUFFERS = ("sinusoidal_pe", "pos_x", "pos_y", "cos_x", "sin_x", "cos_y", "sin_y", ".attn.bias")
_GPT_POSITIONS = {  # what in a file shows its positions
    "transformer.wpe.weight": "learned",
    "transformer.wpe_h.weight": "learned_2d",
    "sinusoidal_pe": "sinusoidal",
    "transformer.h.0.attn.pos_x": "rope_2d",
}
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

    Args:
        source: a checkpoint file or its state dict, of the inner model or any of its wrappers.
        height, width: of the canvas, height * width being the reference's ``seq_len``.
        num_heads, H_cycles, L_cycles: see `RecursiveConfig`.
        position: "rope_1d" or "none"; a file with learned positions says so itself.
        prefix_length: ``puzzle_emb_len``; 0: as many tokens as the embedding fills, as the
            reference means it; None: from the learned positions, else 16, its default.

    Raises:
        ValueError: the file holds something else, or its shapes do not fit the arguments.
        FileNotFoundError: there is no such file.
    """
    name, content = _read(source)
    theirs = _unwrapped(content)
    _check_kind(name, "a reference TRM", theirs, _TRM_NEEDED)
    learned, prefix = theirs.get("embed_pos.embedding_weight"), theirs.get("puzzle_emb.weights")
    vocab_size, hidden_size = theirs["embed_tokens.embedding_weight"].shape
    if prefix is None:
        prefix_length = 0
    elif prefix_length is None:
        prefix_length = 16 if learned is None else learned.shape[0] - height * width
        if prefix_length < 1:
            raise ValueError(
                f"{name} has fewer learned positions than {height} x {width} cells and a prefix. "
                "Check height and width."
            )
    elif prefix_length == 0:
        prefix_length = math.ceil(prefix.shape[1] / hidden_size)
    config = RecursiveConfig(
        height=height,
        width=width,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_layers=len({key.split(".")[2] for key in theirs if key.startswith("L_level.layers.")}),
        intermediate_size=theirs["L_level.layers.0.mlp.down_proj.weight"].shape[1],
        H_cycles=H_cycles,
        L_cycles=L_cycles,
        position="learned" if learned is not None else position,
        num_prefixes=0 if prefix is None else prefix.shape[0],
        prefix_length=prefix_length,
        prefix_size=None if prefix is None else prefix.shape[1],
    )
    fits = f"{name} does not fit a {height} x {width} canvas with prefix_length {prefix_length} "
    fits += f"and position {config.position}"
    weights = {key: value for key, value in theirs.items() if key not in _LOCAL}
    return _filled(TinyRecursiveModel(config), weights, _TRM_NAMES, fits)


def load_nanogpt(
    source: Source,
    *,
    height: int,
    width: int,
    num_heads: int | None = None,
    position: str | None = None,
) -> GPT:
    """Build a model from nanoGPT's weights; what the file tells is read from it.

    Token ids keep the meaning that they had where the weights were trained.

    Args:
        source: a checkpoint as nanoGPT's ``train.py`` writes it, or a state dict.
        height, width: of the canvas, row ends not counted. Learned tables for longer sequences or
            larger canvases are cut.
        num_heads: attention heads; only for a state dict, a checkpoint says so itself.
        position: "none", "sinusoidal" or "rope_2d"; only where neither learned tables nor stored
            buffers say so.

    Raises:
        ValueError: the file holds something else, its shapes do not fit the arguments, or it does
            not say what was left out.
        FileNotFoundError: there is no such file.
    """
    name, content = _read(source)
    arguments: Mapping[str, Any] = {}
    if "model_args" in content and isinstance(content.get("model"), Mapping):
        content, arguments = content["model"], content["model_args"]
    theirs = _unwrapped(content)
    _check_kind(name, "a nanoGPT checkpoint", theirs, _GPT_NEEDED)
    tied = theirs["transformer.wte.weight"]
    if not torch.equal(theirs.get("lm_head.weight", tied), tied):
        raise ValueError(f"{name} has a head of its own; here, embedding and head share weights.")
    shown = next((ours for key, ours in _GPT_POSITIONS.items() if key in theirs), None)
    if shown is None and position is not None:
        check_choice("position", position, ("none", "sinusoidal", "rope_2d"))

    def agreed(field: str, stored: Any, wanted: Any) -> Any:
        """What the file says or what the caller says."""
        if stored is None and wanted is None:
            raise ValueError(f"{name} does not say its {field}: give {field}.")
        if stored is not None and wanted is not None and stored != wanted:
            raise ValueError(f"{name} has {field} {stored}, not {wanted}: leave {field} out.")
        return wanted if stored is None else stored

    vocab_size, hidden_size = tied.shape
    config = GPTConfig(
        height=height,
        width=width,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_heads=agreed("num_heads", arguments.get("n_head"), num_heads),
        num_layers=len({key.split(".")[2] for key in theirs if key.startswith("transformer.h.")}),
        intermediate_size=theirs["transformer.h.0.mlp.c_fc.weight"].shape[0],
        position=agreed("position", shown, position),
        bias="transformer.ln_f.bias" in theirs,
    )

    def cut(key: str, needed: int) -> Tensor:
        _check_kind(name, "a nanoGPT checkpoint", theirs, (key,))
        if len(theirs[key]) < needed:
            raise ValueError(
                f"{name} has {len(theirs[key])} learned positions in {key}; a {height} x {width} "
                f"canvas needs {needed}. Check height and width."
            )
        return theirs[key][:needed].float()

    ours = {}
    columns = width + 1  # the row end is a column
    if config.position == "learned":
        ours["position.weight"] = cut("transformer.wpe.weight", 1 + height * columns)
    elif config.position == "learned_2d":  # row 0 and column 0 are the start token's
        by_row = cut("transformer.wpe_h.weight", 1 + height)
        by_column = cut("transformer.wpe_w.weight", 1 + columns)
        ours["position.prefix"] = by_row[:1] + by_column[:1]
        ours["position.rows"], ours["position.columns"] = by_row[1:], by_column[1:]
    head_dim = hidden_size // config.num_heads
    # They turn neighbouring channels of a head together, we those half a head apart: both the first
    # half of these pairs by the column, the second by the row.
    order = torch.arange(head_dim).view(-1, 2).T.flatten()
    for key, value in theirs.items():
        if key.endswith(_BUFFERS) or key == "lm_head.weight" or ".wpe" in key:
            continue
        if config.position == "rope_2d" and ".attn.c_attn." in key:
            q, k, v = value.unflatten(0, (3, -1, head_dim))  # [heads, head_dim, ...] each
            value = torch.stack((q[:, order], k[:, order], v)).flatten(0, 2)
        ours[key] = value
    return _filled(GPT(config), ours, _GPT_NAMES, f"{name} does not fit nanoGPT's shape")


M = TypeVar("M", bound=nn.Module)


def _filled(model: M, weights: Mapping[str, Tensor], names: Mapping[str, str], wrong: str) -> M:
    """The model with their weights, by our names; ValueError: they do not fit."""
    ours = {}
    for key, value in weights.items():
        for their_part, our_part in names.items():
            key = key.replace(their_part, our_part)
        ours[key] = value.float()
    try:
        model.load_state_dict(ours)
    except RuntimeError as error:
        raise ValueError(f"{wrong}: {error}") from error
    return model


def _read(source: Source) -> tuple[str, Mapping[str, Any]]:
    """What to call a source, and its contents; a file has to be one of plain tensors."""
    if isinstance(source, Mapping):
        return "the state dict", source
    try:
        content = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise ValueError(
            f"{source} is not a file of plain tensors written by torch.save: {error}"
        ) from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{source} holds a {type(content).__name__}, expected a state dict.")
    return str(source), content


def _unwrapped(weights: Mapping[str, Any]) -> dict[str, Any]:
    """The same weights without the prefixes that wrappers put in front of their names."""
    unwrapped = {}
    for key, value in weights.items():
        name = str(key)
        while name.startswith(_WRAPPERS):
            name = name.split(".", 1)[1]
        unwrapped[name] = value
    return unwrapped


def _check_kind(
    name: str, wanted: str, weights: Mapping[str, Any], needed: tuple[str, ...]
) -> None:
    """Raise a ValueError that says what kind of file this is, unless it is the one wanted."""
    missing = [key for key in needed if key not in weights]
    if missing or any(key.startswith("H_level.") for key in weights):
        lacks = f" It lacks {', '.join(missing)}." if missing else ""
        raise ValueError(f"{name} is not {wanted}; it looks like {kind_of(weights)}.{lacks}")


def kind_of(content: Mapping[str, Any]) -> str:
    """What a file's content looks like, from its keys."""
    keys = list(_unwrapped(content))
    for starts, kind in {
        ("H_level.",): "an HRM with separate H and L networks",
        ("pytorch-lightning_version",): "a Lightning checkpoint",
        ("transformer.", "model_args"): "a nanoGPT checkpoint",
        ("L_level.",): "a reference TRM",
        ("layers.0.mixing.", "layers.0.attention."): "a state dict of this package",
    }.items():
        if any(key.startswith(starts) for key in keys):
            return kind
    return f"something else (it has {', '.join(keys[:4]) or 'nothing'}, ...)"
