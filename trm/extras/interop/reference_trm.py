"""Weights of the published TRM (SamsungSAILMontreal/TinyRecursiveModels), in and out.

Gradients of a converted model are those of the original.
"""

import math
from typing import Any

from torch import Tensor

from canvas.choices import check_choice
from trm.extras.interop.weight_files import Source, content_of, filled, matrix, renamed, unwrapped
from trm.models.configs import RecursiveConfig
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
_TRAINED_AS = "_orig_mod.model.inner."  # names in the files that the TRM's training writes
_MULTIPLE = 256  # the TRM's inner size of SwiGLU is a multiple
TRM_POSITIONS = {"none": "none", "learned": "learned", "rope_1d": "rope"}  # ours → theirs


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
    theirs = unwrapped(content_of(source))
    check_choice("position", position, ("rope_1d", "none", "learned"))
    vocab_size, hidden_size = matrix(theirs, "embed_tokens.embedding_weight").shape
    if any(".mlp_t." in name for name in theirs):
        raise ValueError(
            "these weights have an MLP over tokens in place of attention (mlp_t), which the models "
            "of this package have not"
        )
    intermediate_size = matrix(theirs, "L_level.layers.0.mlp.down_proj.weight").shape[1]
    learned, prefix = (
        matrix(theirs, name) if name in theirs else None
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
    return filled(TinyRecursiveModel(config), theirs, _TRM_NAMES, wrong)


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
    return {_TRAINED_AS + k: v for k, v in renamed(model.state_dict(), _TRM_NAMES).items()}


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


def _inner_size(model: TinyRecursiveModel) -> int:
    """Return the channels inside SwiGLU."""
    return int(model.state_dict()["layers.0.mlp.down.weight"].shape[1])
