"""Weights of nanoGPT and of its canvas variants, in and out.

- karpathy/nanoGPT: learned positions.
- birdswimming/NanoGPT-multi, the canvas variants of the note: SINUSODIAL, CUSTOM_PID (a learned
  vector per row and per column) and ROPE_2D. They differ in their positions alone.

Gradients of a converted model are those of the original.
"""

from typing import Any

import torch
from torch import Tensor

from canvas.choices import check_choice
from trm.extras.interop.weight_files import (
    Source,
    checkpoint_weights,
    content_of,
    filled,
    matrix,
    renamed,
    unwrapped,
)
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.models.positions import position_angles

# Their name, our name; every weight's name is changed by these replacements and no others.
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
# nanoGPT's fixed tables and masks, which carry no weight.
_BUFFERS = ("sinusoidal_pe", "pos_x", "pos_y", "cos_x", "sin_x", "cos_y", "sin_y", ".attn.bias")
_SHOWN = {  # weight or table → the positions of a GPT that has it
    "transformer.wpe.weight": "learned",
    "transformer.wpe_h.weight": "learned_2d",
    "sinusoidal_pe": "sinusoidal",
    "transformer.h.0.attn.pos_x": "rope_2d",
}
# Ours → the variant in a comment for people; None: nanoGPT itself.
GPT_POSITIONS: dict[str, str | None] = {
    "learned": None,
    "none": None,
    "sinusoidal": "SINUSODIAL",
    "learned_2d": "CUSTOM_PID",
    "rope_2d": "ROPE_2D",
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
    content, settings = checkpoint_weights(content_of(source))
    theirs = unwrapped(content)

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
    tied = matrix(theirs, "transformer.wte.weight")
    vocab_size, hidden_size = tied.shape
    inner = matrix(theirs, "transformer.h.0.mlp.c_fc.weight").shape[0]
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
        table = matrix(theirs, key)
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
    return filled(GPT(config), ours, _GPT_NAMES, "this does not fit nanoGPT's shape")


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
        f"{config.pauses} pauses": not config.pauses,
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
    for key, value in renamed(ours, _GPT_NAMES).items():
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
