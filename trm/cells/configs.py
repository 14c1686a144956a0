"""Settings of cell models, as in a config file.

Raises:
    ValueError: a size is out of range, or sizes do not fit together.
"""

from dataclasses import dataclass, field
from typing import Any

from canvas.cells.local_rule import LocalRule
from canvas.symbols import VOCAB_SIZE
from trm.models.configs import check_sizes


@dataclass
class CellConfig:
    """Settings of a `CellModel`."""

    vocab_size: int = VOCAB_SIZE  # symbols of a cell
    hidden_size: int = 64  # channels of a cell
    num_heads: int = 8  # attention heads; 0: no attention, all messages are added
    num_layers: int = 1  # blocks in the one network
    intermediate_size: int = 128  # inside SwiGLU
    H_cycles: int = 1  # of which the last with gradient
    L_cycles: int = 1  # updates of z_L per H cycle
    direction_bias: float = 4.0  # initial bias of each attention head for one of the neighbours
    shared_classes: bool = False  # whether signals and outputs share embeddings, `SharedClasses`
    # From the layout's local rule, see `rule_settings`.
    messages: dict[str, dict[str, int]] = field(default_factory=dict)  # classes, by direction
    own: dict[str, int] = field(default_factory=dict)  # the same for signals that are not passed
    codes: dict[str, int] = field(default_factory=dict)  # number of codes by latent signal
    ops: list[dict[str, list[str]]] = field(default_factory=list)  # inputs and outputs of each

    def __post_init__(self) -> None:
        check_sizes(self, may_be_0=("num_heads", "L_cycles"))
        if self.shared_classes and self.codes:
            raise ValueError(
                "shared_classes is for signals with hints, as latent codes are no digits: leave "
                "out shared_classes or codes."
            )


@dataclass
class IntegerCellConfig(CellConfig):
    """Settings of an `IntegerCellModel`: those of the `CellModel`, and the size of its weights."""

    weight_bits: int = 8  # of a weight, 8 or 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared_classes or not self.num_heads:
            raise ValueError(
                "an integer model has attention, and a row for each class of each signal: take a "
                "model with num_heads above 0 and without shared_classes."
            )
        if self.weight_bits not in (8, 4):
            raise ValueError(f"weight_bits must be 8 or 4, got {self.weight_bits}.")


def rule_settings(rule: LocalRule) -> dict[str, Any]:
    """Return the settings of a `CellConfig` that follow from a rule: symbols, messages, ops."""
    passed = {
        direction: {name: rule.signals[name] for name in names}
        for direction, names in rule.messages.items()
        if names
    }
    found: dict[str, Any] = {"vocab_size": rule.vocab_size, "messages": passed}
    if rule.ops:
        found["ops"] = [
            {"outputs": list(op.outputs), "inputs": list(op.inputs or ())} for op in rule.ops
        ]
        everything = {name for names in passed.values() for name in names}
        found["own"] = {n: size for n, size in rule.signals.items() if n not in everything}
    return found
