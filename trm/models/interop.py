"""Weights of others: the published TRM and nanoGPT, from their names to ours and back.

- TRM: SamsungSAILMontreal/TinyRecursiveModels.
- nanoGPT: karpathy/nanoGPT (learned positions), and birdswimming/NanoGPT-multi, the canvas variants
  of the note: SINUSODIAL, CUSTOM_PID (a learned vector per row and per column) and ROPE_2D. They
  differ in their positions alone.

Gradients of a converted model are those of the original. Token ids stay what they were, see
`renumbered`.
"""

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from canvas.choices import check_choice, did_you_mean
from canvas.symbols import CHARACTERS
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.positions import position_angles
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
# Values of the ACT wrapper's training that carry no weight.
_LOCAL = ("puzzle_emb.local_weights", "puzzle_emb.local_ids")
# nanoGPT's fixed tables and masks, which carry no weight.
_BUFFERS = ("sinusoidal_pe", "pos_x", "pos_y", "cos_x", "sin_x", "cos_y", "sin_y", ".attn.bias")
# Wrappers around the inner model: torch.compile, the loss head, the ACT wrapper.
_WRAPPERS = ("_orig_mod.", "model.", "inner.")
_TRAINED_AS = "_orig_mod.model.inner."  # names in the files that the TRM's training writes
_MULTIPLE = 256  # the TRM's inner size of SwiGLU is a multiple

TRM, NANOGPT = "trm", "nanogpt"
# A weight that all files of a kind have → the kind.
_KINDS = {"embed_tokens.embedding_weight": TRM, "transformer.wte.weight": NANOGPT}
_SHOWN = {  # weight or table → the positions of a GPT that has it
    "transformer.wpe.weight": "learned",
    "transformer.wpe_h.weight": "learned_2d",
    "sinusoidal_pe": "sinusoidal",
    "transformer.h.0.attn.pos_x": "rope_2d",
}
TRM_POSITIONS = {"none": "none", "learned": "learned", "rope_1d": "rope"}  # ours → theirs
# Ours → the variant in a comment for people; None: nanoGPT itself.
GPT_POSITIONS: dict[str, str | None] = {
    "learned": None,
    "none": None,
    "sinusoidal": "SINUSODIAL",
    "learned_2d": "CUSTOM_PID",
    "rope_2d": "ROPE_2D",
}

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
    names = _unwrapped(_weights(content)[0])
    return next((kind for name, kind in _KINDS.items() if name in names), None)


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
    """Build a model from weights of the published TRM. Sizes are read from their shapes.

    Args:
        source: a checkpoint file or its state dict, of the inner model or any of its wrappers.
        height: of the canvas; height * width is the reference's ``seq_len``.
        width: of the canvas.
        num_heads: see `RecursiveConfig`.
        H_cycles: see `RecursiveConfig`.
        L_cycles: see `RecursiveConfig`.
        position: "rope_1d" or "none"; ignored for a file with learned positions.
        prefix_length: ``puzzle_emb_len``; 0: as many tokens as the embedding fills, as the
            reference means it; None: from the learned positions, else 16, its default.

    Raises:
        ValueError: they are of something else, or their shapes do not fit the arguments.
    """
    theirs = _unwrapped(source if isinstance(source, Mapping) else read_file(source))
    check_choice("position", position, ("rope_1d", "none", "learned"))
    vocab_size, hidden_size = _matrix(theirs, "embed_tokens.embedding_weight").shape
    if any(".mlp_t." in name for name in theirs):
        raise ValueError(
            "these weights have an MLP over tokens in place of attention (mlp_t), which the models "
            "of this package have not"
        )
    intermediate_size = _matrix(theirs, "L_level.layers.0.mlp.down_proj.weight").shape[1]
    learned, prefix = (
        _matrix(theirs, name) if name in theirs else None
        for name in ("embed_pos.embedding_weight", "puzzle_emb.weights")
    )
    if prefix is None:
        prefix_length = 0
    elif prefix_length is None:
        prefix_length = 16 if learned is None else learned.shape[0] - height * width
    elif prefix_length == 0:
        prefix_length = math.ceil(prefix.shape[1] / hidden_size)
    wrong = (
        f"this does not fit a {height} x {width} canvas with prefix_length {prefix_length} "
        f"and position {'learned' if learned is not None else position}"
    )
    if prefix_length < 0:
        raise ValueError(f"{wrong}: there are fewer learned positions than cells")
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
    return _filled(TinyRecursiveModel(config), theirs, _TRM_NAMES, wrong)


def reference_state(model: TinyRecursiveModel) -> dict[str, Tensor]:
    """Return a model's weights by the names in a file of the published TRM's training.

    Raises:
        ValueError: the published TRM has no such model.
    """
    config, inner = model.config, _inner_size(model)
    has = {
        f"position {config.position}": config.position in TRM_POSITIONS,
        f"neighbourhood {config.neighbourhood}": config.neighbourhood == "all",
        "skip_blank": not config.skip_blank,
        "crop": not config.crop,
        f"halt_pool {config.halt_pool}": config.halt_pool == "first",
        f"intermediate_size {inner} (not a multiple of {_MULTIPLE})": inner % _MULTIPLE == 0,
    }
    if lacks := [setting for setting, there in has.items() if not there]:
        raise ValueError(
            f"the published TRM has no {', no '.join(lacks)}: convert a model of `trm fit --config "
            "trm/reference`, which has its settings"
        )
    return {_TRAINED_AS + k: v for k, v in _renamed(model.state_dict(), _TRM_NAMES).items()}


def reference_settings(model: TinyRecursiveModel) -> dict[str, Any]:
    """Return a model's settings by their names in the published TRM's config, below ``arch``."""
    config, inner = model.config, _inner_size(model)
    D = config.hidden_size
    usual = -(-round(4 * D * 2 / 3) // _MULTIPLE) * _MULTIPLE
    return {
        "H_cycles": config.H_cycles,
        "L_cycles": config.L_cycles,
        "L_layers": config.num_layers,
        "hidden_size": D,
        "num_heads": config.num_heads,
        "expansion": 4 if inner == usual else inner * 3 / (2 * D),
        "pos_encodings": TRM_POSITIONS[config.position],
        "puzzle_emb_ndim": config.prefix_size or config.prefix_length * D,
        "puzzle_emb_len": config.prefix_length,
        "mlp_t": False,
        "forward_dtype": "float32",
    }


def load_nanogpt(
    source: Source,
    *,
    height: int | None = None,
    width: int | None = None,
    num_heads: int | None = None,
    position: str | None = None,
) -> GPT:
    """Build a model from weights of nanoGPT or its canvas variants.

    A setting can be left out if the file contains it. Those of the note contain all of them; one of
    nanoGPT itself has no height and width, and a state dict alone has no number of heads.

    Args:
        source: a checkpoint as nanoGPT's training writes it, or its state dict.
        height: of the canvas. Learned tables for larger canvases or longer sequences are cut.
        width: of the canvas, row ends not counted.
        num_heads: attention heads.
        position: "none", "sinusoidal" or "rope_2d", for a state dict without tables of positions.

    Raises:
        ValueError: it is something else, its shapes do not fit the arguments, a setting is missing,
            or an argument contradicts the file.
    """
    content, settings = _weights(source if isinstance(source, Mapping) else read_file(source))
    theirs = _unwrapped(content)

    def agreed(setting: str, stored: Any, wanted: Any) -> Any:
        if setting != "position" and stored is not None and type(stored) is not int:
            raise ValueError(f"the {setting} in the weights' settings is no number")
        if stored is None and wanted is None:
            raise ValueError(f"the weights of nanoGPT do not contain their {setting}: name it")
        if stored is not None and wanted not in (None, stored):
            raise ValueError(f"the weights have {setting} {stored}, not {wanted}: leave it out")
        return wanted if stored is None else stored

    shown = next((ours for key, ours in _SHOWN.items() if key in theirs), None)
    if shown is None and position is not None:
        check_choice("position", position, ("none", "sinusoidal", "rope_2d"))
    position = agreed("position", shown, position)
    tied = _matrix(theirs, "transformer.wte.weight")
    vocab_size, hidden_size = tied.shape
    inner = _matrix(theirs, "transformer.h.0.mlp.c_fc.weight").shape[0]
    if not torch.equal(theirs.get("lm_head.weight", tied), tied):
        raise ValueError(
            "the weights have an output head of their own; here embedding and head share a matrix"
        )
    # The height may differ from that of the file: only learned tables limit it.
    config = GPTConfig(
        height=height or agreed("height", settings.get("height"), None),
        width=agreed("width", settings.get("width"), width),
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_heads=agreed("num_heads", settings.get("n_head"), num_heads),
        num_layers=len({key.split(".")[2] for key in theirs if key.startswith("transformer.h.")}),
        intermediate_size=inner,
        position=position,
        bias="transformer.ln_f.bias" in theirs,
    )
    columns = config.width + 1  # the row end is a column

    def cut(key: str, needed: int) -> Tensor:
        table = _matrix(theirs, key)
        if len(table) < needed or table.shape[1] != hidden_size:
            raise ValueError(
                f"there are {len(table)} learned positions of {table.shape[1]} channels in {key}, "
                f"and a {config.height} x {config.width} canvas needs {needed} of {hidden_size}: "
                "check height and width"
            )
        return table[:needed]

    ours = {}
    if position == "learned":
        ours["position.weight"] = cut("transformer.wpe.weight", 1 + config.height * columns)
    elif position == "learned_2d":  # row 0 and column 0 are the start token's
        by_row = cut("transformer.wpe_h.weight", 1 + config.height)
        by_column = cut("transformer.wpe_w.weight", 1 + columns)
        ours["position.prefix"] = by_row[:1] + by_column[:1]
        ours["position.rows"], ours["position.columns"] = by_row[1:], by_column[1:]
    for key, value in theirs.items():
        if key.endswith(_BUFFERS) or key == "lm_head.weight" or ".wpe" in key:
            continue
        if position == "rope_2d" and ".attn.c_attn." in key and len(value) == 3 * hidden_size:
            value = _reordered(value, _half_a_head_apart(hidden_size // config.num_heads))
        ours[key] = value
    return _filled(GPT(config), ours, _GPT_NAMES, "this does not fit nanoGPT's shape")


def nanogpt_checkpoint(model: GPT) -> dict[str, Any]:
    """Return a checkpoint as nanoGPT's training writes it, with ``model`` and ``model_args``.

    Its position encoding is nanoGPT's (learned; without positions: a table of zeros) or that of a
    canvas variant.

    Raises:
        ValueError: no variant of nanoGPT has such a model.
    """
    config, ours = model.config, model.state_dict()
    D, height, columns = config.hidden_size, config.height, config.width + 1
    length = 1 + height * columns
    has = {
        f"position {config.position}": config.position in GPT_POSITIONS,
        f"{config.loops} loops": config.loops == 1,
        "halting": not config.halting,
        f"intermediate_size {config.intermediate_size} at hidden_size {D}": (
            config.intermediate_size in (None, 4 * D)
        ),
    }
    if lacks := [setting for setting, there in has.items() if not there]:
        raise ValueError(
            f"nanoGPT has no {', no '.join(lacks)}; it and its canvas variants have position "
            f"{', '.join(GPT_POSITIONS)}, one loop, and 4 x hidden_size channels inside"
        )
    state: dict[str, Tensor] = {}
    if config.position in ("learned", "none"):
        table = ours.get("position.weight")
        state["transformer.wpe.weight"] = torch.zeros(length, D) if table is None else table
    elif config.position == "learned_2d":  # of the start token's two vectors only the sum counts
        start = ours["position.prefix"]
        state["transformer.wpe_h.weight"] = torch.cat((start, ours["position.rows"]))
        state["transformer.wpe_w.weight"] = torch.cat((0 * start, ours["position.columns"]))
    elif config.position == "sinusoidal":
        turns = position_angles(torch.arange(length), D)
        state["sinusoidal_pe"] = torch.stack((turns.sin(), turns.cos()), dim=-1).flatten(-2)
    else:
        state |= _tables(config, D // config.num_heads)
    for key, value in _renamed(ours, _GPT_NAMES).items():
        if key.startswith("position."):
            continue
        if config.position == "rope_2d" and ".c_attn." in key:
            order = _half_a_head_apart(D // config.num_heads)
            value = _reordered(value, order.argsort())
        state[key] = value
    state["lm_head.weight"] = state["transformer.wte.weight"]
    settings = {
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        "n_embd": D,
        "block_size": length,
        "bias": config.bias,
        "vocab_size": config.vocab_size,
        "dropout": 0.0,
    }
    if GPT_POSITIONS[config.position]:
        settings |= {"height": config.height, "width": config.width}
    return {"model": state, "model_args": settings, "iter_num": 0, "best_val_loss": 1e9}


def renumbered(model: M, symbols: str, needed: Sequence[int], absent: int) -> M:
    """Return a model whose token ids are those of `canvas.symbols`.

    Example: ``renumbered(gpt, "0123456789*_#^$", needed, START)`` for a GPT of the note, whose id
    10 is the times sign.

    Args:
        model: a GPT or a recursive transformer with other ids.
        symbols: the character in `canvas.symbols.CHARACTERS` of each of its ids. Further ids of the
            model are dropped.
        needed: ids that the problems need.
        absent: symbols that the model lacks get the weights of this one, which no label was.

    Raises:
        ValueError: the symbols are not those of such a model.
    """
    config: Any = model.config
    at = {character: index for index, character in enumerate(symbols)}
    missing = "".join(CHARACTERS[i] for i in (*needed, absent) if CHARACTERS[i] not in at)
    unknown = "".join(c for c in at if c not in CHARACTERS)
    if unknown or missing or len(at) < len(symbols) or len(symbols) > config.vocab_size:
        why = f"the model has {config.vocab_size} ids"
        if unknown:
            why = f"{unknown} is no symbol{did_you_mean(unknown, CHARACTERS)}"
        elif missing:
            why = f"it lacks {missing}"
        elif len(at) < len(symbols):
            why = "a symbol occurs twice"
        raise ValueError(
            f"symbols {symbols}: {why}. Name the symbol of each id once; the symbols are "
            f"{' '.join(CHARACTERS)}"
        )
    most = max(max(needed) + 1, *(CHARACTERS.index(c) + 1 for c in symbols))
    rows = torch.tensor([at.get(c, at[CHARACTERS[absent]]) for c in CHARACTERS[:most]])
    weights = {
        name: value[rows] if name in ("embed_tokens.weight", "lm_head.weight") else value
        for name, value in model.state_dict().items()
    }
    kind: Any = type(model)
    changed: M = kind(replace(config, vocab_size=most))
    changed.load_state_dict(weights)
    return changed


def _matrix(weights: Mapping[str, Tensor], name: str) -> Tensor:
    """Return a weight of two dimensions.

    Raises:
        ValueError: there is none of that name and form.
    """
    found = weights.get(name)
    if found is None or found.ndim != 2 or not found.numel():
        how = "lack" if found is None else "have no matrix"
        raise ValueError(f"these weights {how} {name}, so they are of another model")
    return found


def _inner_size(model: TinyRecursiveModel) -> int:
    """Return the channels inside SwiGLU."""
    return int(model.state_dict()["layers.0.mlp.down.weight"].shape[1])


def _weights(content: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the state dict in a checkpoint of nanoGPT, and its settings; of others no settings."""
    if isinstance(content.get("model"), Mapping) and isinstance(content.get("model_args"), Mapping):
        return content["model"], content["model_args"]
    return content, {}


def _unwrapped(weights: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return tensors without the names of wrappers in front of theirs."""
    unwrapped = {}
    for name, value in weights.items():
        name = str(name)
        while name.startswith(_WRAPPERS):
            name = name.split(".", 1)[1]
        if isinstance(value, Tensor) and name not in _LOCAL:
            unwrapped[name] = value
    return unwrapped


def _renamed(ours: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return detached weights by their names."""
    found = {}
    for key, value in ours.items():
        for their_part, our_part in reversed(list(names.items())):
            key = key.replace(our_part, their_part)
        found[key] = value.detach().clone()
    return found


def _filled(model: M, weights: Mapping[str, Tensor], names: Mapping[str, str], wrong: str) -> M:
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


def _half_a_head_apart(head_dim: int) -> Tensor:
    """Return their channel of each of our channels of a head, int64 [head_dim].

    They rotate neighbouring channels together, we those half a head apart. Both rotate the first
    half of the pairs by the column, the second by the row. Example: 8 → 0 2 4 6 1 3 5 7.
    """
    return torch.arange(head_dim).view(-1, 2).T.flatten()


def _reordered(qkv: Tensor, order: Tensor) -> Tensor:
    """Return [3 * D, ...] with the channels of queries and keys, but not of values, in an order."""
    q, k, v = qkv.unflatten(0, (3, -1, len(order)))  # [heads, head_dim, ...] each
    return torch.stack((q[:, order], k[:, order], v)).flatten(0, 2)


def _tables(config: GPTConfig, head_dim: int) -> dict[str, Tensor]:
    """Return the tables that ROPE_2D stores in every block."""
    columns = config.width + 1
    row = torch.arange(1, config.height + 1).repeat_interleave(columns)
    column = torch.arange(1, columns + 1).repeat(config.height)
    first = torch.zeros(1, dtype=torch.int64)  # of the start token
    tables = {"pos_x": torch.cat((first, column)), "pos_y": torch.cat((first, row))}
    for axis, places in (("x", columns + 1), ("y", config.height + 1)):
        turns = position_angles(torch.arange(places), head_dim // 2)[None, None]
        tables |= {f"cos_{axis}": turns.cos(), f"sin_{axis}": turns.sin()}
    return {
        f"transformer.h.{layer}.attn.{name}": value.clone()
        for layer in range(config.num_layers)
        for name, value in tables.items()
    }
