"""Settings of the networks, as in a config file.

Raises:
    ValueError: a size is out of range, sizes do not fit together, or a name is unknown.
"""

from dataclasses import dataclass, fields
from typing import Any

from canvas.choices import check_choices, one_of
from canvas.symbols import VOCAB_SIZE
from trm.released import moved, today
from trm.runtime.limits import MOST_CHANNELS, MOST_LAYERS, MOST_STEPS

POSITIONS = {  # position encodings, and the class of each
    "none": "trm.models.positions.NoPosition",
    "learned": "trm.models.positions.Learned",
    "learned_2d": "trm.models.positions.Learned2D",
    "rope_1d": "trm.models.positions.Rope1D",
    "rope_2d": "trm.models.positions.Rope2D",
    "sinusoidal": "trm.models.positions.Sinusoidal",
    "randomised": "trm.models.positions.Randomised",
    "abacus": "trm.models.positions.Abacus",
    "alibi": "trm.models.position_biases.Alibi",
    "fire": "trm.models.position_biases.Fire",
    "t5": "trm.models.position_biases.T5",
    "shaw": "trm.models.position_biases.Shaw",
    "deberta": "trm.models.position_biases.Deberta",
    "relative_2d": "trm.models.position_biases.Relative2D",
}
RANDOMISED_RANGE = 2048  # number of positions among which randomised ones are
_MOST = {
    "hidden_size": MOST_CHANNELS,
    "intermediate_size": 4 * MOST_CHANNELS,
    "num_layers": MOST_LAYERS,
    **dict.fromkeys(("H_cycles", "L_cycles", "loops", "pauses"), MOST_STEPS),
}
NEIGHBOURHOODS = ("all", "local", "local_lines", "local_farthest")
HALT_POOLS = ("first", "mask", "every")  # the first token; the mean of masked ones; each by itself


@dataclass
class RecursiveConfig:
    """Settings of a ``TinyRecursiveModel``; the defaults are the reference's."""

    height: int = 20  # of the canvas that learned positions are made for
    width: int = 20  # the same
    vocab_size: int = VOCAB_SIZE  # symbols of a cell
    hidden_size: int = 512  # channels of a token
    num_heads: int = 8  # attention heads
    num_layers: int = 2  # blocks in the one network
    H_cycles: int = 3  # per supervision step, of which the last with gradient
    L_cycles: int = 6  # updates of z_L per H cycle
    intermediate_size: int | None = None  # inside SwiGLU; None: see `swiglu_size`
    skip_blank: bool = False  # whether blank cells are left out, and only the others are tokens
    crop: bool = False  # whether cells outside the box of all that is not blank are left out
    position: str = one_of("rope_1d", POSITIONS, open=True)  # how it is encoded
    neighbourhood: str = one_of("all", NEIGHBOURHOODS)  # cells that attention reads
    radius: int = 2  # of the local square, and of the exact offsets of relative_2d
    direction_bias: float = 0.0  # relative_2d: of each head, at the start
    # The reference calls the next three num_puzzle_identifiers, puzzle_emb_len, puzzle_emb_ndim.
    num_prefixes: int = 0  # learned prefixes to choose from ("puzzle" identifiers); 0: no prefix
    prefix_length: int = 0  # tokens of a prefix
    prefix_size: int | None = None  # numbers learned per prefix, zero-padded; None: all of them
    halt_pool: str = one_of("first", HALT_POOLS)  # tokens that the halting head reads

    def __post_init__(self) -> None:
        self.neighbourhood = today(self.neighbourhood)
        check_sizes(self, may_be_0=("radius", "num_prefixes", "prefix_length"))
        if self.position in ("randomised", "abacus"):
            raise ValueError(
                f"{self.position} positions are random in every batch, so the positions of a "
                "carry's states would change: choose another position, or train a GPT."
            )
        if self.direction_bias and self.position != "relative_2d" and "." not in self.position:
            raise ValueError(
                f"direction_bias is of relative_2d alone, got {self.direction_bias} with position "
                f"{self.position}: set direction_bias to 0 or position to relative_2d."
            )
        if (self.num_prefixes > 0) != (self.prefix_length > 0):
            raise ValueError(
                "num_prefixes and prefix_length go together, both 0 or both positive, "
                f"got {self.num_prefixes} and {self.prefix_length}."
            )
        if (self.prefix_size or 0) > self.prefix_length * self.hidden_size:
            raise ValueError(
                "prefix_size must be at most prefix_length * hidden_size = "
                f"{self.prefix_length * self.hidden_size}, got {self.prefix_size}."
            )


@dataclass
class GPTConfig:
    """Settings of a ``GPT``; the defaults are those of the smallest GPT-2."""

    height: int = 20  # of the canvas that learned positions are made for
    width: int = 20  # the same
    vocab_size: int = VOCAB_SIZE  # symbols of a cell
    hidden_size: int = 768  # channels of a token
    num_heads: int = 12  # attention heads
    num_layers: int = 12  # blocks
    loops: int = 1  # times that the stack of blocks is applied; with halting, the most
    halting: bool = False  # whether a head decides after each loop if a token needs more of them
    pauses: int = 0  # tokens that it reads between the operands and the answer
    intermediate_size: int | None = None  # inside the MLP; None: 4 * hidden_size
    position: str = one_of("learned_2d", POSITIONS, open=True)  # how it is encoded
    bias: bool = False  # in linear layers and layer norms

    def __post_init__(self) -> None:
        check_sizes(self, may_be_0=("pauses",))
        length = 1 + self.height * (self.width + 1)
        if self.position == "randomised" and length > RANDOMISED_RANGE:
            raise ValueError(
                f"position randomised takes random ones of {RANDOMISED_RANGE} places, and a "
                f"{self.height} x {self.width} canvas has {length} tokens: take a smaller canvas."
            )


def check_sizes(config: Any, may_be_0: tuple[str, ...] = ()) -> None:
    """Check names and sizes.

    Raises:
        ValueError: a name is unknown, or a whole number is out of range.
    """
    check_choices(config)
    for part in fields(config):
        value, least = getattr(config, part.name), 0 if part.name in may_be_0 else 1
        if part.type in (int, int | None) and value is not None and value < least:
            raise ValueError(f"{part.name} must be {least} or more, got {value}.")
        if part.name in _MOST and (value or 0) > _MOST[part.name]:
            most = _MOST[part.name]
            raise ValueError(f"{part.name} must be {most:,} or less, got {value:,}.")
    if config.num_heads and config.hidden_size % config.num_heads:
        raise ValueError(
            "hidden_size must be a multiple of num_heads, "
            f"got {config.hidden_size} and {config.num_heads}."
        )


__getattr__ = moved(__name__)
