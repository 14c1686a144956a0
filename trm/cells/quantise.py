"""Integers from a trained cell model: its weights and its activations, rounded.

The largest activations are those of the float network on inputs that cells can have. A weight
becomes the nearest multiple of its row's step. Steps of 8 bits are fine enough for that. For 4 bits
the model is first fine-tuned with rounded weights (`refined`), to decide as it did before; a
gradient goes through the rounding as if it was not there (Bengio et al. 2013, "Estimating or
propagating gradients through stochastic neurons").
"""

from collections import defaultdict
from copy import deepcopy
from dataclasses import asdict
from math import log
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from trm.cells.cache import CellCache
from trm.cells.configs import IntegerCellConfig
from trm.cells.integer import FRACTION, GATES, MOST, MOST_STATE, Fraction, IntegerCellModel, Rows
from trm.cells.model import CellModel
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings

MOST_INPUTS = 16_384  # whose activations are measured, or whose decisions are compared
# Fine-tuning, from the shortest: steps, and the learning rate at the first; it decays to 0. Small
# models need the longer one.
TUNING = ((300, 0.002), (2000, 0.005))
_BATCH = 2048
_SILU = 2**11 - 1  # largest integer of the table of SiLU
_UNIT = 2.0**FRACTION  # a state of 1, as an integer


def nearest(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return the integers nearest to weights, and the size of a step in each row.

    Args:
        weight: float [rows, columns].
        bits: of an integer; the largest weight of each row becomes 2 ** (bits − 1) − 1.

    Returns:
        Integers as floats, [rows, columns], and steps, [rows], of the same dtype.
    """
    most = 2 ** (bits - 1) - 1
    steps = weight.abs().amax(dim=1).clamp(min=1e-9) / most
    return (weight / steps[:, None]).round(), steps


class _Rounded(nn.Module):
    """Rounds a weight in the forward pass alone."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def forward(self, weight: Tensor) -> Tensor:
        integers, steps = nearest(weight.detach(), self.bits)
        return weight + (integers * steps[:, None] - weight.detach())


@standard_settings(threads=1)
def refined(
    model: CellModel,
    ids: Tensor,
    bits: int,
    *,
    steps: int = TUNING[0][0],
    rate: float = TUNING[0][1],
) -> CellModel:
    """Return a copy that is fine-tuned to decide as the model does, with rounded weights.

    Args:
        model: in float32, on a CPU.
        ids: of op inputs that cells can have, int64 [N].
        bits: of a rounded weight.
        steps: of AdamW.
        rate: learning rate at the first step; it decays linearly to 0.
    """
    found = deepcopy(model).requires_grad_(True)
    rounded = [part for part in found.modules() if isinstance(part, nn.Linear | nn.Embedding)]
    for part in rounded:
        parametrize.register_parametrization(part, "weight", _Rounded(bits))
    optimiser = torch.optim.AdamW(found.parameters(), lr=rate, weight_decay=0.0)
    draw, decide = _Draw(model, ids), CellCache(model).decide
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * (1 - step / steps)
        some = draw(min(_BATCH, len(ids)))
        labels = torch.from_numpy(decide(some.numpy())).unbind(dim=1)
        logits = found.parts(found.cells(found.reader.decode(some))[0]).values()
        # Averaged over all op inputs: an output of fewer op inputs weighs less.
        losses = [
            F.cross_entropy(part, label, reduction="none", ignore_index=-1).mean()
            for part, label in zip(logits, labels, strict=True)
        ]
        optimiser.zero_grad()
        sum(losses, torch.zeros(())).backward()
        optimiser.step()
        report("fine-tuning with rounded weights", step + 1, steps)
    for part in rounded:
        parametrize.remove_parametrizations(part, "weight", leave_parametrized=False)
    return found.eval()


def differing(model: CellModel, other: CellModel, ids: Tensor) -> int:
    """Return the number of op inputs, int64 [N], for which two models decide differently."""
    one, two = (CellCache(each).decide(ids.numpy()) for each in (model, other))
    return int((one != two).any(axis=1).sum())


class _Draw:
    """Random op inputs of a model; of many, half are drawn from rare kinds as often as from others.

    Inputs of one kind have the same op, symbol and present neighbours. In a decimal lattice 34 of
    1,204,976 inputs are of cells with a given symbol.
    """

    def __init__(self, model: CellModel, ids: Tensor) -> None:
        self.ids, self.random = ids, torch.Generator().manual_seed(0)
        self.kinds: Tensor | None = None
        if len(ids) > _BATCH:  # else a batch has nearly all of them
            found = [model.reader.decode(part.contiguous()) for part in ids.split(2**16)]
            parts = [
                torch.cat([one.op[:, None], one.token[:, None], one.present.long()], dim=1)
                for one in found
            ]
            _, kind, self.counts = torch.cat(parts).unique(
                dim=0, return_inverse=True, return_counts=True
            )
            self.kinds = kind.argsort(stable=True)  # inputs, kind after kind
            self.starts = self.counts.cumsum(0) - self.counts

    def __call__(self, count: int) -> Tensor:
        """Return the ids of so many op inputs, int64 [count]."""
        if self.kinds is None:
            return self.ids[torch.randint(len(self.ids), (count,), generator=self.random)]
        even = torch.randint(len(self.ids), (count - count // 2,), generator=self.random)
        kind = torch.randint(len(self.counts), (count // 2,), generator=self.random)
        place = (torch.rand(count // 2, generator=self.random) * self.counts[kind]).long()
        rare = self.kinds[self.starts[kind] + place.minimum(self.counts[kind] - 1)]
        return self.ids[torch.cat((even, rare))]


def some_of(model: CellModel, ids: Tensor) -> Tensor:
    """Return all ids of op inputs, or `MOST_INPUTS` of them, of rare kinds as well."""
    return ids if len(ids) <= MOST_INPUTS else _Draw(model, ids)(MOST_INPUTS).unique()


@standard_settings(threads=1)
@torch.no_grad()
def quantised(model: CellModel, ids: Tensor, bits: int) -> IntegerCellModel:
    """Return the integer model of a trained model.

    Args:
        model: in float32, on a CPU; for 4 bits see `refined`.
        ids: of op inputs that cells can have, int64 [N].
        bits: of a weight, 8 or 4.

    Raises:
        ValueError: weights are too large for integers.
    """
    found = IntegerCellModel(IntegerCellConfig(**asdict(model.config), weight_bits=bits)).eval()
    seen = _observed(model, ids)

    def set_rows(rows: Any, weight: Tensor, unit: Any, inputs: bool = True) -> None:
        """Set rows by weights; ``unit`` is the integer of a result of 1, a float or [rows]."""
        assert isinstance(rows, Rows)
        integers, steps = nearest(weight.double(), bits)
        rows.set(integers.long(), steps * unit, inputs)

    def set_fraction(fraction: Fraction, value: float, largest: int = MOST_STATE) -> None:
        fraction.set(torch.tensor([value], dtype=torch.float64), torch.tensor([largest]))

    def step(x: Tensor) -> float:
        """Return the size of a step of 8 bits."""
        return max(float(x.abs().max()), 1e-6) / MOST

    def steps(*parts: Tensor) -> Tensor:
        """Return the steps of parts with several columns each, float64 [columns]."""
        each = [torch.full(part.shape[-1:], step(part), dtype=torch.float64) for part in parts]
        return torch.cat(each)

    for name, scale in (
        ("embed_tokens", model.scale),
        ("embed_messages", model.message_scale),
        ("embed_ops", model.scale),
    ):
        if (embed := getattr(model, name)) is not None:
            set_rows(getattr(found, name), embed.weight, scale * _UNIT, inputs=False)
    messages = torch.cat(model.message_vectors(model.embed_messages.weight))
    set_fraction(found.to_message, 1 / (_UNIT * step(messages)))
    D = model.config.hidden_size
    layers: Any = zip(model.blocks, found.layers, strict=True)
    for i, ((layer, mixing), block) in enumerate(layers):
        x, q, mlp, gates, hidden = (seen[f"{n}{i}"] for n in ("x", "q", "mlp", "gates", "hidden"))
        k, v = mixing.keys_values(messages).chunk(2, dim=-1)
        set_fraction(block.to_query, 1 / (_UNIT * step(x)))
        set_rows(block.query, mixing.qkv.weight[:D], step(x) / step(q))
        set_rows(block.key_value, mixing.qkv.weight[D:], step(messages) / steps(k, v))
        score = step(q) * step(k) * (D // block.heads) ** -0.5
        bias = model.position["direction"].double() * model.scale
        block.direction.copy_((bias / score).round())
        set_fraction(block.octaves, score / log(2) * 256)
        set_rows(block.out, mixing.out.weight, step(v) * _UNIT)
        set_fraction(block.to_mlp, 1 / (_UNIT * step(mlp)))
        gate, up = gates.chunk(2, dim=-1)
        set_rows(block.gate_up, layer.mlp.gate_up.weight, step(mlp) / steps(gate, up))
        silu = F.silu((torch.arange(GATES) - MOST).double() * step(gate))
        unit = float(silu.abs().max()) / _SILU
        block.silu.copy_((silu / unit).round())
        set_fraction(block.to_hidden, unit * step(up) / step(hidden), _SILU * MOST)
        set_rows(block.down, layer.mlp.down.weight, step(hidden) * _UNIT)
    set_fraction(found.to_head, 1 / (_UNIT * step(seen["last"])))
    heads = model.lm_head, model.halt_head
    set_rows(found.head, torch.cat([head.weight for head in heads]), step(seen["last"]) * _UNIT)
    bias = torch.cat([head.bias for head in heads])
    for name, value in (("head_bias", bias), ("H_init", model.H_init), ("L_init", model.L_init)):
        getattr(found, name).copy_((value.double() * _UNIT).round())
    found.check_weights()
    return found


def _observed(model: CellModel, ids: Tensor) -> dict[str, Tensor]:
    """Return activations of a float network, [N, ...] by name and layer, over all of its cycles.

    Names: x and q, inputs and results of the queries; mlp, gates, hidden, those of SwiGLU; last,
    the input of the heads.
    """
    found: dict[str, list[Tensor]] = defaultdict(list)
    model = deepcopy(model)

    def watch(part: Any, method: str, before: str, after: str = "") -> None:
        function = getattr(part, method)

        def run(x: Tensor) -> Tensor:
            y = function(x)
            for name, value in ((before, x), (after, y)):
                if name:
                    found[name].append(value)
            return y

        setattr(part, method, run)

    for i, (layer, mixing) in enumerate(model.blocks):
        watch(mixing, "queries", f"x{i}", f"q{i}")
        watch(layer.mlp.gate_up, "forward", f"mlp{i}", f"gates{i}")
        watch(layer.mlp.down, "forward", f"hidden{i}")
    watch(model.lm_head, "forward", "last")
    tables = model.message_tables()
    for part in ids[:: -(-len(ids) // MOST_INPUTS)].contiguous().split(_BATCH):
        model.cells(model.reader.decode(part), tables)
    return {name: torch.cat(parts) for name, parts in found.items()}
