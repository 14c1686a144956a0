"""Weights of nanoGPT (karpathy/nanoGPT) and its canvas variants into ours and back.

The variants are those of birdswimming/NanoGPT-multi, an earlier experiment: ABS_LEARNED is
nanoGPT itself; SINUSODIAL, CUSTOM_PID and ROPE_2D differ in their positions alone.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from canvas.choices import check_choice
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.models.interop import read_checkpoint, refuse, unwrap

# Their name, our name; every weight's name is changed by these replacements and no others.
_NAMES = (
    ("transformer.wte.", "embed_tokens."),
    ("transformer.h.", "layers."),
    ("transformer.ln_f.", "norm."),
    ("ln_1.", "attention_norm."),
    ("ln_2.", "mlp_norm."),
    ("attn.c_attn.", "attention.qkv."),
    ("attn.c_proj.", "attention.out."),
    ("mlp.c_fc.", "up."),
    ("mlp.c_proj.", "down."),
)
# Fixed tables and masks, which carry no weight.
_BUFFERS = ("sinusoidal_pe", "pos_x", "pos_y", "cos_x", "sin_x", "cos_y", "sin_y", ".attn.bias")
_NEEDED = (
    "transformer.wte.weight",
    "transformer.h.0.attn.c_attn.weight",
    "transformer.h.0.mlp.c_fc.weight",
    "transformer.ln_f.weight",
)
_WEIGHTLESS = ("none", "sinusoidal", "rope_2d")  # positions that a file may keep silent about


def load_nanogpt(
    source: str | Path | Mapping[str, Any],
    *,
    height: int,
    width: int,
    num_heads: int | None = None,
    position: str | None = None,
) -> GPT:
    """Build a model from nanoGPT's weights; what the file tells is read from it.

    Token ids keep the meaning that they had where the weights were trained.

    Args:
        source: a checkpoint as nanoGPT's ``train.py`` writes it, as a file or its contents, or a
            state dict.
        height: rows of the canvas.
        width: columns of the canvas, row ends not counted. Learned tables for longer sequences or
            larger canvases are cut.
        num_heads: attention heads; only for a state dict, a checkpoint says so itself.
        position: "none", "sinusoidal" or "rope_2d"; only where neither learned tables nor stored
            buffers say so.

    Raises:
        ValueError: the file holds something else, its shapes do not fit the arguments, or it does
            not say what was left out.
        FileNotFoundError: there is no such file.
    """
    name = str(source) if isinstance(source, str | Path) else "the state dict"
    content = source if isinstance(source, Mapping) else read_checkpoint(Path(source))
    arguments: Mapping[str, Any] = {}
    if "model_args" in content and isinstance(content.get("model"), Mapping):
        content, arguments = content["model"], content["model_args"]
    theirs = unwrap(content)
    missing = [key for key in _NEEDED if key not in theirs]
    if missing:
        refuse(name, "a nanoGPT checkpoint", content, missing)
    tied = theirs["transformer.wte.weight"]
    if not torch.equal(theirs.get("lm_head.weight", tied), tied):
        raise ValueError(f"{name} has a head of its own; here, embedding and head share weights.")
    num_heads = _agree(name, "num_heads", arguments.get("n_head"), num_heads)
    position = _agree(name, "position", _position(theirs), position)
    vocab_size, hidden_size = tied.shape
    config = GPTConfig(
        height=height,
        width=width,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_layers=len({key.split(".")[2] for key in theirs if key.startswith("transformer.h.")}),
        intermediate_size=theirs["transformer.h.0.mlp.c_fc.weight"].shape[0],
        position=position,
        bias="transformer.ln_f.bias" in theirs,
    )
    model = GPT(config)
    ours = _tables(name, theirs, config)
    for key, value in theirs.items():
        if key.endswith(_BUFFERS) or key == "lm_head.weight" or ".wpe" in key:
            continue
        if position == "rope_2d" and ".attn.c_attn." in key:
            value = _reorder(value, _rope_order(config))
        for old, new in _NAMES:
            key = key.replace(old, new)
        ours[key] = value.float()
    try:
        model.load_state_dict(ours)
    except RuntimeError as error:
        raise ValueError(f"{name} does not fit nanoGPT's shape: {error}") from error
    return model


def to_nanogpt_state_dict(model: GPT) -> dict[str, Tensor]:
    """The model's weights under nanoGPT's names, without the tables that its variants compute.

    Raises:
        ValueError: no variant of nanoGPT has such positions.
    """
    config = model.config
    if config.position not in ("learned", "learned_2d", "sinusoidal", "rope_2d"):
        raise ValueError(
            "nanoGPT and its variants know position learned, learned_2d, sinusoidal or rope_2d; "
            f"this model has {config.position}."
        )
    state: dict[str, Tensor] = {}
    ours = {key: value.detach() for key, value in model.state_dict().items()}
    if config.position == "learned":
        state["transformer.wpe.weight"] = ours["position.weight"]
    elif config.position == "learned_2d":
        # The start token sits at row 0, column 0, both for itself alone: only their sum matters.
        start = ours["position.prefix"]
        state["transformer.wpe_h.weight"] = torch.cat((start, ours["position.rows"]))
        state["transformer.wpe_w.weight"] = torch.cat((0 * start, ours["position.columns"]))
    for key, value in ours.items():
        if key.startswith("position."):
            continue
        if config.position == "rope_2d" and ".qkv." in key:
            value = _reorder(value, _rope_order(config).argsort())
        for old, new in reversed(_NAMES):
            key = key.replace(new, old)
        state[key] = value
    return state | {"lm_head.weight": ours["embed_tokens.weight"]}


def _position(theirs: Mapping[str, Tensor]) -> str | None:
    """The position encoding that a state dict shows, if it shows any."""
    signs = {
        "transformer.wpe.weight": "learned",
        "transformer.wpe_h.weight": "learned_2d",
        "sinusoidal_pe": "sinusoidal",
        "transformer.h.0.attn.pos_x": "rope_2d",
    }
    return next((position for key, position in signs.items() if key in theirs), None)


def _agree(name: str, field: str, stored: Any, wanted: Any) -> Any:
    """What the file says or what the caller says; an error where neither or both differently."""
    if stored is None and field == "position" and wanted is not None:
        check_choice("position", wanted, _WEIGHTLESS)
    if stored is None and wanted is None:
        raise ValueError(f"{name} does not say its {field}: give {field}.")
    if stored is not None and wanted is not None and stored != wanted:
        raise ValueError(f"{name} has {field} {stored}, not {wanted}: leave {field} out.")
    return wanted if stored is None else stored


def _tables(name: str, theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """Learned positions under our names, cut to the canvas."""
    height, columns = config.height, config.width + 1  # the row end is a column

    def cut(key: str, needed: int) -> Tensor:
        if key not in theirs:
            refuse(name, "a nanoGPT checkpoint", theirs, [key])
        table = theirs[key].float()
        if len(table) < needed:
            raise ValueError(
                f"{name} has {len(table)} learned positions in {key}; a {height} x {config.width} "
                f"canvas needs {needed}. Check height and width."
            )
        return table[:needed]

    if config.position == "learned":
        return {"position.weight": cut("transformer.wpe.weight", 1 + height * columns)}
    if config.position == "learned_2d":
        # Row 0 and column 0 are the start token's.
        by_row = cut("transformer.wpe_h.weight", 1 + height)
        by_column = cut("transformer.wpe_w.weight", 1 + columns)
        return {
            "position.prefix": by_row[:1] + by_column[:1],
            "position.rows": by_row[1:],
            "position.columns": by_column[1:],
        }
    return {}


def _rope_order(config: GPTConfig) -> Tensor:
    """Their channels of a head in our order, int64 [head_dim].

    They turn neighbouring channels together, the first half of a head by the column, the second by
    the row; we turn channels half a head apart.
    """
    pairs = torch.arange(config.hidden_size // config.num_heads).view(-1, 2)
    return pairs.T.flatten()


def _reorder(qkv: Tensor, order: Tensor) -> Tensor:
    """Queries and keys, [3 * D, ...] with the values, their channels in another order per head."""
    q, k, v = qkv.unflatten(0, (3, -1, len(order)))  # [heads, head_dim, ...] each
    return torch.stack((q[:, order], k[:, order], v)).flatten(0, 2)
