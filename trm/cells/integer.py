"""A cell model in integers: the same decisions on every machine, bit for bit.

It is the network of `trm.cells.network` with other numbers. Every operation below has integers as
inputs and as its result, and no sum can overflow (`IntegerCellModel.check`). So nothing is rounded
in an order that a machine could choose, and a proof needs no bound on rounding.

- *Weights* are of 8 or 4 bits. Each row of a matrix, and each embedding, has its own fraction.
- *Inputs of matrices* are of 8 bits, −127 to 127. So are queries, keys, values and gates.
- *States*, and what is added to them, have `FRACTION` bits after the binary point.
- *Fractions* are ``(x * multiplier + half) >> shift`` (Jacob et al. 2018).
- *Softmax* reads powers of two from a table of 256, and divides integers.
- *SiLU* is a table of the 255 gates.
- *RMS norm* divides by the integer root of the integer sum of squares.

`trm.cells.quantise` computes the integers from a trained `CellModel`.
"""

from collections.abc import Sequence
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn

from trm.cells.configs import IntegerCellConfig
from trm.cells.model import CellModel
from trm.cells.op_inputs import OpInputs
from trm.models.iterative import recur
from trm.models.sites import Site

FRACTION = 10  # bits after the point of states and logits
MOST = 127  # of an input of a matrix
GATES = 2 * MOST + 1

MOST_STATE = 2**20  # states are clamped to plus and minus this
_MOST_TERM = 2**24  # of an embedding, or of a layer's output
_MOST_TERMS = 64  # of a sum of embeddings
_MOST_CHANNELS = 4096
_MOST_SCORE = 2**29  # more than a score of attention can be
_EXACT = 2**24  # float32 contains all integers up to this
_INT32 = 2**31
_OCTAVE = 8  # bits of the table of powers of two
_HALF_POWERS = [round(2 ** (15 - i / 2**_OCTAVE)) for i in range(2**_OCTAVE)]
_EPS = 10  # of RMS norm: 1e-5 with 2 * FRACTION bits
_FINER = 4  # more bits of the root in RMS norm


class Fraction(nn.Module):
    """Product of integers and fractions, rounded: int32 [..., count] to the same shape.

    Example: multiplier 3 and shift 2 make 10 to (10 * 3 + 2) >> 2 = 8.
    """

    multiplier: Tensor  # int32 [count], at least 0
    shift: Tensor  # int32 [count], 1 to 30

    def __init__(self, count: int = 1) -> None:
        super().__init__()
        self.register_buffer("multiplier", torch.zeros(count, dtype=torch.int32))
        self.register_buffer("shift", torch.ones(count, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        """Multiply integers, [..., count] or of a shape that broadcasts to it."""
        return (x * self.multiplier + self._half) >> self.shift

    @property
    def _half(self) -> Tensor:
        return torch.ones_like(self.shift) << (self.shift - 1)

    def set(self, fractions: Tensor, largest: Tensor) -> None:
        """Choose the finest multipliers that do not overflow.

        Args:
            fractions: float64 [count], at least 0.
            largest: sizes of the largest integers to multiply, int64 [count].

        Raises:
            ValueError: a fraction is too large.
        """
        for i, (fraction, size) in enumerate(
            zip(fractions.tolist(), largest.tolist(), strict=True)
        ):
            for shift in range(30, 0, -1):
                multiplier = round(fraction * 2**shift)
                if multiplier * max(size, 1) + 2 ** (shift - 1) < _INT32:
                    break
            else:
                raise ValueError(f"a factor of {fraction:.3g} is too large for integers of 32 bits")
            self.multiplier[i], self.shift[i] = multiplier, shift

    def check(self, name: str, largest: Tensor, limit: int = _INT32) -> None:
        """Raise a ValueError if a product could overflow, or a result exceed a limit.

        Args:
            name: of the fraction, for the message.
            largest: sizes of the largest integers to multiply, int64 [count].
            limit: of the results.
        """
        multiplier, shift = self.multiplier.long(), self.shift.long()
        if not ((multiplier >= 0) & (shift >= 1) & (shift <= 30)).all():
            raise ValueError(f"{name} has a multiplier below 0, or a shift that is not 1 to 30")
        products = multiplier * largest + (torch.ones_like(shift) << (shift - 1))
        if not (products < _INT32).all() or not (products >> shift <= limit).all():
            raise ValueError(f"{name} has a multiplier with which integers overflow")


class Rows(nn.Module):
    """Rows of small integers, each with a fraction: a matrix, or a table of embeddings.

    Rows of 4 bits are packed: two columns, plus 8, in a byte, the lower bits first. Example:
    −8, 7 is the byte 0xF0.
    """

    def __init__(self, rows: int, columns: int, bits: int) -> None:
        super().__init__()
        self.columns, self.bits = columns, bits
        if bits == 8:
            start = torch.zeros(rows, columns, dtype=torch.int8)
            self.weight = nn.Parameter(start, requires_grad=False)
        else:
            start = torch.full((rows, -(-columns // 2)), 0x88, dtype=torch.uint8)
            self.packed = nn.Parameter(start, requires_grad=False)
        self.fraction = Fraction(rows)

    @property
    def integers(self) -> Tensor:
        """The rows without their fractions, int32 [rows, columns]."""
        if self.bits == 8:
            return self.weight.int()
        pairs = torch.stack((self.packed & 15, self.packed >> 4), dim=-1)
        return pairs.flatten(1)[:, : self.columns].int() - 8

    def set(self, integers: Tensor, fractions: Tensor, inputs: bool = True) -> None:
        """Set the rows.

        Args:
            integers: [rows, columns], of as many bits as the rows have.
            fractions: float64 [rows].
            inputs: whether the rows multiply inputs; if not, they are embeddings.
        """
        if self.bits == 8:
            self.weight.copy_(integers)
        else:
            padded = nn.functional.pad(integers, (0, self.columns % 2)).to(torch.uint8) + 8
            self.packed.copy_(padded[:, ::2] | (padded[:, 1::2] << 4))
        self.fraction.set(fractions, self.largest(inputs))

    def largest(self, inputs: bool) -> Tensor:
        """Return bounds on sums of products with any inputs, or on the integers, int64 [rows]."""
        sizes = self.integers.long().abs()
        return sizes.sum(dim=1) * MOST if inputs else sizes.amax(dim=1)

    def embeddings(self) -> Tensor:
        """Return the rows as states, int32 [rows, columns]."""
        return self.fraction(self.integers.T).T

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs, int32 [..., columns], to int32 [..., rows]."""
        # Units for float32 are the fastest that every machine has. All factors are integers below
        # 256, all sums below 2 ** 24: no order of summation rounds them, nor would TF32.
        with torch.autocast(x.device.type, enabled=False):
            sums = x.float() @ self.integers.float().T
        return self.fraction(sums.int())

    def check(self, name: str, limit: int, inputs: bool = True) -> None:
        """Raise a ValueError if sums or products could overflow; see `Fraction.check`."""
        largest = self.largest(inputs)
        if not (largest < _EXACT).all():
            raise ValueError(f"{name} has too many columns for exact sums")
        self.fraction.check(name, largest, limit)


class IntegerBlock(nn.Module):
    """Attention to messages and SwiGLU, each followed by an RMS norm; see `PostNormBlock`."""

    silu: Tensor  # int16 [GATES], of the gates from −127 to 127

    def __init__(self, config: IntegerCellConfig, directions: int) -> None:
        super().__init__()
        D, inner, bits = config.hidden_size, config.intermediate_size, config.weight_bits
        self.heads = config.num_heads
        self.to_query, self.query = Fraction(), Rows(D, D, bits)
        self.key_value = Rows(2 * D, D, bits)
        start = torch.zeros(config.num_heads, directions, dtype=torch.int32)
        self.direction = nn.Parameter(start, requires_grad=False)  # added to the scores
        self.octaves = Fraction()  # from differences of scores to powers of two
        self.out = Rows(D, D, bits)
        self.to_mlp, self.gate_up = Fraction(), Rows(2 * inner, D, bits)
        self.register_buffer("silu", torch.zeros(GATES, dtype=torch.int16))
        self.to_hidden, self.down = Fraction(), Rows(D, inner, bits)

    def forward(self, x: Tensor, keys_values: Tensor, present: Tensor) -> Tensor:
        """Map states, int32 [N, D], to states.

        Args:
            x: the states.
            keys_values: of the messages, int32 [N, directions, 2 * D].
            present: bool [N, directions], neighbours that exist.
        """
        x = x.clamp(-MOST_STATE, MOST_STATE)
        x = normed(x + self.out(self.attend(x, keys_values, present)))
        gate, up = small(self.gate_up(small(self.to_mlp(x)))).chunk(2, dim=-1)
        gated = self.silu[gate + MOST] * up
        return normed(x + self.down(small(self.to_hidden(gated))))

    def attend(self, x: Tensor, keys_values: Tensor, present: Tensor) -> Tensor:
        """Return the mean of the neighbours' values, int32 [N, D]; 0 without neighbours."""
        k, v = keys_values.unflatten(-1, (2, self.heads, -1)).unbind(2)
        q = small(self.query(small(self.to_query(x)))).unflatten(-1, (1, self.heads, -1))
        there = present.unsqueeze(-1)  # [N, directions, 1]
        scores = (q * k).sum(-1, dtype=torch.int32) + self.direction.T  # [N, directions, heads]
        scores = scores.masked_fill(~there, -_MOST_SCORE)
        below = (scores.amax(dim=1, keepdim=True) - scores).clamp(max=MOST_STATE)
        weights = powers(self.octaves(below)) * there
        total = weights.sum(1, keepdim=True, dtype=torch.int32).squeeze(1).unsqueeze(-1)
        mixed = (weights.unsqueeze(-1) * v).sum(1, dtype=torch.int32)
        return divided(mixed, total.clamp(min=1)).flatten(1)

    def check(self, name: str) -> None:
        """Raise a ValueError if integers could overflow; ``name`` is that of the block."""
        state, small_one = torch.tensor([MOST_STATE]), torch.tensor([MOST])
        for part in ("to_query", "to_mlp", "octaves"):
            getattr(self, part).check(f"{name}.{part}", state)
        self.to_hidden.check(f"{name}.to_hidden", self.silu.long().abs().amax() * small_one)
        for part in ("query", "key_value", "gate_up"):
            getattr(self, part).check(f"{name}.{part}", _INT32)
        for part in ("out", "down"):
            getattr(self, part).check(f"{name}.{part}", _MOST_TERM)
        if (self.direction.long().abs() > _MOST_TERM).any():
            raise ValueError(f"{name}.direction is larger than {_MOST_TERM:,}")


class IntegerCellModel(CellModel):
    """Cell model in integers; see this module's docstring. It cannot be trained.

    Logits and halt logits are multiples of 2 ** −`FRACTION`, and float32 contains them exactly.
    """

    arithmetic = "integers"
    config: IntegerCellConfig
    embed_tokens: Any  # `Rows`, as are the other two; `embed_ops` is None without ops
    embed_messages: Any
    embed_ops: Any
    to_message: Fraction
    to_head: Fraction
    head: Rows
    layers: Any  # of `IntegerBlock`

    def __init__(self, config: IntegerCellConfig) -> None:  # its type is that of settings in files
        super().__init__(config)

    def make_network(self) -> None:
        """Create the weights, all 0."""
        config, D, bits = self.config, self.config.hidden_size, self.config.weight_bits
        presence = 2 * any("" in names for of in self.encoding.inputs for names in of)
        self.embed_tokens = Rows(config.vocab_size, D, bits)
        self.embed_messages = Rows(sum(self.signals.values()) + presence, D, bits)
        self.embed_ops = Rows(len(self.encoding.ops), D, bits) if config.ops else None
        self.to_message = Fraction()
        directions = len(self.encoding.directions)
        self.layers = nn.ModuleList(
            IntegerBlock(config, directions) for _ in range(config.num_layers)
        )
        self.to_head, self.head = Fraction(), Rows(sum(self.outputs.values()) + 1, D, bits)
        start = torch.zeros(sum(self.outputs.values()) + 1, dtype=torch.int32)
        self.head_bias = nn.Parameter(start, requires_grad=False)  # the last is of halting
        for name in ("H_init", "L_init"):
            self.register_buffer(name, torch.zeros(D, dtype=torch.int32))

    def sites(self, states: Sequence[str] = ()) -> dict[str, Site]:
        """Return the sites of the network; its logits, one matrix with the halt logit, are none."""
        return {
            name: site._replace(text=site.text.replace("float ", "int32 "))
            if name.startswith("blocks.")
            else site
            for name, site in super().sites(states).items()
            if name != "op_logits"
        }

    @property
    def num_parameters(self) -> int:
        """Number of weights, of which a packed byte contains two."""
        rows = [part for part in self.modules() if isinstance(part, Rows) and part.bits < 8]
        return super().num_parameters + sum(
            part.columns * len(part.packed) - part.packed.numel() for part in rows
        )

    @property
    def computes_as_proved(self) -> bool:
        """True: integers are the same in every setting."""
        return True

    def message_tables(self) -> list[Tensor]:
        """Keys and values of all messages, int32 [message ids, 2 * D] for each layer."""
        sums = torch.cat(self.message_sums(self.embed_messages.embeddings()))
        messages = small(self.to_message(sums.clamp(-MOST_STATE, MOST_STATE)))
        return [small(block.key_value(messages)) for block in self.layers]

    def cells(
        self, op_inputs: OpInputs, tables: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute the outputs of N ops; see `CellModel.cells`."""
        tables = tables or self.message_tables()
        x = self.embed_tokens.embeddings()[op_inputs.token]
        if self.embed_ops is not None:
            x = x * op_inputs.reads_token + self.embed_ops.embeddings()[op_inputs.op]
        around = [table[op_inputs.places] for table in tables]

        def apply_layers(z: Tensor) -> Tensor:
            for block, keys_values in zip(self.layers, around, strict=True):
                z = block(z, keys_values, op_inputs.present)
            return z

        z_H, z_L = (init.expand_as(x) for init in (self.H_init, self.L_init))
        z_H, _ = recur(apply_layers, x, z_H, z_L, self.config.H_cycles, self.config.L_cycles)
        logits = self.head(small(self.to_head(z_H))) + self.head_bias
        exact = logits.clamp(1 - _EXACT, _EXACT - 1).float() * 2.0**-FRACTION
        return exact[:, :-1], exact[:, -1]

    def integers(self) -> dict[str, Tensor]:
        """Return all integers by name, as in the state dict; packed weights as ``weight``."""
        found = self.state_dict()
        for name, part in self.named_modules():
            if isinstance(part, Rows):
                found.pop(f"{name}.packed", None)
                found[f"{name}.weight"] = part.integers
        return found

    def relaxed(self, tokens: Tensor, messages: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Raise an error: integers have no gradients."""
        raise NotImplementedError("an integer model has no relaxed messages")

    def check_weights(self) -> None:
        """Check that no integers overflow, whatever the inputs are.

        Raises:
            ValueError: they could; the message names the weight.
        """
        if self.config.hidden_size > _MOST_CHANNELS:
            raise ValueError(f"hidden_size is more than {_MOST_CHANNELS:,}")
        if any(len(names) > _MOST_TERMS for names in self.encoding.directions.values()):
            raise ValueError(f"a message has more than {_MOST_TERMS} signals")
        state = torch.tensor([MOST_STATE])
        for name in ("to_message", "to_head"):
            getattr(self, name).check(name, state)
        for name in ("embed_tokens", "embed_messages", "embed_ops"):
            if (rows := getattr(self, name)) is not None:
                rows.check(name, _MOST_TERM, inputs=False)
        for i, block in enumerate(self.layers):
            block.check(f"layers.{i}")
        self.head.check("head", _MOST_TERM)
        for name in ("H_init", "L_init", "head_bias"):
            if (getattr(self, name).long().abs() > _MOST_TERM).any():
                raise ValueError(f"{name} is larger than {_MOST_TERM:,}")


def small(x: Tensor) -> Tensor:
    """Return integers clamped to 8 bits, −127 to 127; the dtype is kept."""
    return x.clamp(-MOST, MOST)


def divided(x: Tensor, y: Tensor) -> Tensor:
    """Return the integers nearest to x / y, halves rounded up, for positive y."""
    return torch.div(2 * x + y, 2 * y, rounding_mode="floor")


def powers(x: Tensor) -> Tensor:
    """Return 2 ** (15 − x / 256), rounded, for integers x of at least 0; the dtype is kept."""
    table = torch.tensor(_HALF_POWERS, dtype=x.dtype, device=x.device)
    return table[x & (2**_OCTAVE - 1)] >> (x >> _OCTAVE).clamp(max=31)


def root(x: Tensor) -> Tensor:
    """Return the integer roots of int64 [...] from 0 to 2 ** 60, rounded down."""
    found = torch.zeros_like(x)
    for bit in reversed(range(31)):
        more = found + (1 << bit)
        found = torch.where(more * more <= x, more, found)
    return found


def normed(x: Tensor) -> Tensor:
    """Return the RMS norm of states, int32 [..., D] to the same; see `rms_norm`."""
    x, D = x.clamp(-MOST_STATE, MOST_STATE).long(), x.shape[-1]
    squares = x.square().sum(-1, keepdim=True) + _EPS * D
    size = root(squares << (2 * _FINER))
    return divided(x * isqrt(D << (2 * (FRACTION + _FINER))), size).int()
