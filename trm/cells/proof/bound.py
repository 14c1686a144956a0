"""Bound on the rounding errors of the logits of a `CellModel`, in any order of summation.

Values are computed in float64. Each vector carries a bound on the Euclidean norm of its error: its
distance from the exact result. A layer multiplies the error by its Lipschitz constant around the
vector, and adds its own rounding by the standard model (Higham 2002, "Accuracy and Stability of
Numerical Algorithms"): a sum of n terms, in any order, has an error of at most
γ(n) = nu / (1 − nu) times the sum of their absolute values.

Assumed: exp, square root and division have errors of at most four units in the last place, and no
TF32 or bfloat16 is in use.
"""

from functools import reduce
from math import sqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from trm.cells.model import CellModel
from trm.cells.op_inputs import OpInputs

# The values are rounded as well, in float64: the bounds are on both together.
UNITS = {"float32": 2.0**-24 + 2.0**-53, "float64": 2.0**-52}
_UP = 1 + 1e-9  # for the rounding of the bounds themselves
_EPS = 1e-5  # of RMS norm


class Bounded(NamedTuple):
    """N vectors, and a bound on the distance of each from the exact one."""

    value: Tensor  # float64 [N, ..., D]
    error: Tensor  # float64 [N, ...], bound on the Euclidean norm of the error

    @property
    def norm(self) -> Tensor:
        """Bound on the norms of the exact vectors, float64 [N, ...]."""
        return self.value.norm(dim=-1) + self.error


class _Matrix:
    """A linear map without bias, whose outputs are split into ``heads`` vectors."""

    def __init__(self, weight: Tensor, heads: int = 1):
        self.weight = weight.detach().double()
        parts = self.weight.unflatten(0, (heads, -1))  # [heads, outputs, inputs]
        self.norm = torch.linalg.matrix_norm(parts, 2) * _UP
        self.size = torch.linalg.matrix_norm(parts.abs(), 2) * _UP  # of the sums of sizes
        self.heads = heads

    def __call__(self, x: Bounded, gamma: float) -> Bounded:
        """Map x: [N, inputs] to [N, heads, outputs]."""
        value = F.linear(x.value, self.weight).unflatten(-1, (self.heads, -1))
        return Bounded(value, x.error[:, None] * self.norm + gamma * self.size * x.norm[:, None])


class RoundingBound:
    """Remaining margins of a model in the worst case of rounding.

    Args:
        model: with finite weights in float32.
        arithmetic: one of `UNITS`.
        fine: True: compute the Jacobian for each op input, slower, and several times tighter.
    """

    def __init__(self, model: CellModel, arithmetic: str, fine: bool = False):
        self.model, self.u, self.fine = model, UNITS[arithmetic], fine
        heads = model.config.num_heads
        self.mlps = []
        for layer, _ in model.blocks:
            gate, up = layer.mlp.gate_up.weight.chunk(2)
            self.mlps.append([_Matrix(part) for part in (gate, up, layer.mlp.down.weight)])
        self.tokens = model.token_weight.detach().double() * model.scale
        weight, bias = model.output_weights
        self.head = weight.detach().double(), bias.detach().double()
        embed, directions = model.message_weight.detach().double(), model.encoding.directions
        sums = model.message_vectors(embed)
        sizes = model.message_vectors(embed.norm(dim=-1, keepdim=True))
        terms = [self.gamma(len(names) + 3) for names in directions.values()]
        errors = [gamma * size[:, 0] for gamma, size in zip(terms, sizes, strict=True)]
        vectors, gamma = Bounded(torch.cat(sums), torch.cat(errors)), self.gamma(embed.shape[1])
        # For each layer keys and values of all messages, [messages, heads, d]; without heads the
        # messages, [messages, D].
        self.messages: list[tuple[Bounded, ...]] = [(vectors,)] * len(self.mlps)
        if heads:
            # [directions, heads]
            self.bias = model.position["direction"].detach().double().T * model.scale
            qkv = [
                [_Matrix(part, heads) for part in mixing.qkv.weight.chunk(3)]
                for _, mixing in model.blocks
            ]
            self.messages = [(k(vectors, gamma), v(vectors, gamma)) for _, k, v in qkv]
            self.attentions = [
                (q, _Matrix(mixing.out.weight))
                for (q, _, _), (_, mixing) in zip(qkv, model.blocks, strict=True)
            ]

    def gamma(self, n: int) -> float:
        """Return γ(n), see this module's docstring."""
        return n * self.u / (1 - n * self.u)

    @torch.no_grad()
    def left(self, numbers: Tensor, labels: Tensor) -> Tensor:
        """Return the smallest margin of any output less its largest error, float64 [N].

        Args:
            numbers: ids of op inputs, int64 [N].
            labels: correct classes, int64 [N, outputs]; −1: no label.
        """
        op_inputs = self.model.reader.decode(numbers)
        keys_values = [
            [Bounded(*(part[op_inputs.places] for part in parts)) for parts in layer]
            for layer in self.messages
        ]
        config, x = self.model.config, self._start(op_inputs)
        starts = (self.model.H_init, self.model.L_init)
        exact = torch.zeros_like(x.error)
        z_H, z_L = (Bounded(z.double().expand_as(x.value), exact) for z in starts)
        for _ in range(config.H_cycles):
            for _ in range(config.L_cycles):
                z_L = self._network(
                    self._sum(self._sum(z_L, z_H), x), keys_values, op_inputs.present
                )
            z_H = self._network(self._sum(z_H, z_L), keys_values, op_inputs.present)
        return self._margins(z_H, labels)

    def _start(self, op_inputs: OpInputs) -> Bounded:
        """Return the symbol's embedding, plus that of the op where there are several."""
        parts = [self.tokens[op_inputs.token]]
        if self.model.embed_ops is not None:
            heads = self.model.embed_ops.weight.detach().double() * self.model.scale
            parts = [parts[0] * op_inputs.reads_token, heads[op_inputs.op]]
        return reduce(self._sum, (Bounded(x, 2 * self.u * x.norm(dim=-1)) for x in parts))

    def _sum(self, x: Bounded, y: Bounded) -> Bounded:
        value, error = x.value + y.value, x.error + y.error
        return Bounded(value, error + self.u * (value.norm(dim=-1) + error))

    def _norm(self, x: Bounded) -> Bounded:
        """Compute the RMS norm: its Lipschitz constant around x is 1 / root of the mean square."""
        D = x.value.shape[-1]
        root = (x.value.square().mean(dim=-1) + _EPS).sqrt()
        nearest = (root - x.error / sqrt(D)).clamp(min=0)
        rounding = (self.gamma(D + 3) / 2 + 10 * self.u) * sqrt(D)
        return Bounded(x.value / root.unsqueeze(-1), x.error / nearest + rounding)

    def _network(self, x: Bounded, keys_values: list[list[Bounded]], present: Tensor) -> Bounded:
        """Run all layers, like `CellModel.apply_layers`."""
        for number, (mlp, parts) in enumerate(zip(self.mlps, keys_values, strict=True)):
            gamma = self.gamma(x.value.shape[-1] + 2)
            if self.model.config.num_heads:
                (query, out), (keys, values) = self.attentions[number], parts
                mixed = self._attention(query(x, gamma), keys, values, present)
                mixed = _whole(out(mixed, gamma))
            else:
                mixed = self._added(parts[0], present)
            x = self._norm(self._sum(x, mixed))
            x = self._norm(self._mlp(x, *mlp))
        return x

    def _added(self, messages: Bounded, present: Tensor) -> Bounded:
        """Add messages [N, directions, D] of those who are present to [N, D]."""
        there = present.unsqueeze(-1)
        size = (messages.norm * present).sum(1)
        error = (messages.error * present).sum(1) + self.gamma(present.shape[1]) * size
        return Bounded((messages.value * there).sum(1), error)

    def _attention(self, q: Bounded, k: Bounded, v: Bounded, present: Tensor) -> Bounded:
        """Attend: queries [N, heads, d], keys and values [N, directions, heads, d] to [N, D]."""
        u, d = self.u, q.value.shape[-1]
        q = Bounded(q.value * d**-0.5, (q.error + 2 * u * q.norm) * d**-0.5)
        q = Bounded(q.value.unsqueeze(1), q.error.unsqueeze(1))
        there = present.unsqueeze(-1)  # [N, directions, 1]
        alone = ~there.any(dim=1)  # [N, 1]
        scores = ((q.value * k.value).sum(-1) + self.bias).masked_fill(~there, -torch.inf)
        scores = scores.masked_fill(alone.unsqueeze(1), 0)  # [N, directions, heads]
        weights = torch.softmax(scores, dim=1)
        # Scores that move by d_j around their mean make weights exp(d_j) / sum(w_i exp(d_i)) times
        # as large, and that sum is 1 to exp(max(d)² / 2) (Jensen, Hoeffding).
        own = k.error * q.norm + self.gamma(d + 3) * q.norm * k.norm + 4 * u * self.bias.abs()
        own = own.masked_fill(~there, 0)
        mean = (weights.unsqueeze(-1) * k.value).sum(1, keepdim=True)
        moved = (k.value - mean).norm(dim=-1) * q.error + own + (weights * own).sum(1, keepdim=True)
        most = moved.masked_fill(~there, 0).amax(1, keepdim=True)
        grown = torch.expm1(moved + most.square() / 2)
        span = (scores.amax(1, keepdim=True) - scores).masked_fill(~there, 0).amax(1, keepdim=True)
        rounding = u * (20 + 3 * span)
        mixed = (weights.unsqueeze(-1) * v.value).sum(1, keepdim=True)
        away = (v.value - mixed).norm(dim=-1)
        each = grown * away + (1 + grown) * ((1 + rounding) * v.error + rounding * v.norm)
        error = (weights * each).sum(1).norm(dim=-1)  # heads are beside each other
        value = mixed.flatten(1)
        return Bounded(value.masked_fill(alone, 0), error.masked_fill(alone[:, 0], 0))

    def _mlp(self, x: Bounded, gate: _Matrix, up: _Matrix, down: _Matrix) -> Bounded:
        """Compute x + down(silu(g) · h), with g = gate(x) and h = up(x).

        To first order it changes by J dx, J = 1 + down · (a · gate + b · up), where
        a = silu'(g) · h and b = silu(g). The rest is bounded by |silu''| <= 1/2 and
        |silu'| <= 1.1.
        """
        gamma = self.gamma(x.value.shape[-1])
        g, h = _whole(gate(x, gamma)), _whole(up(x, gamma))
        sigmoid = torch.sigmoid(g.value)
        b = g.value * sigmoid
        a = h.value * (sigmoid + b * (1 - sigmoid))
        most_a, most_b = a.abs().amax(-1), b.abs().amax(-1)
        if self.fine:
            inner = a.unsqueeze(-1) * gate.weight + b.unsqueeze(-1) * up.weight  # [N, inner, D]
            slope = _norm_of(down.weight @ inner + torch.eye(x.value.shape[-1], dtype=a.dtype))
        else:
            gg, gh, hh = (
                (p * q).sum(1)
                for p, q in ((gate.weight, gate.weight), (gate.weight, up.weight), (up.weight,) * 2)
            )
            frobenius = (a.square() @ gg + 2 * (a * b) @ gh + b.square() @ hh).clamp(min=0)
            plain = most_a * gate.norm + most_b * up.norm
            slope = 1 + down.norm * torch.minimum(plain, frobenius.sqrt() * _UP)
        value = b * h.value
        rest = (most_a * gate.size + most_b * up.size) * gamma * x.norm
        rest = rest + h.value.abs().amax(-1) * g.error.square() / 4 + 1.1 * g.error * h.error
        rest += 12 * self.u * (value.norm(dim=-1) + rest + g.error * most_a + h.error * most_b)
        written = _whole(down(Bounded(value, rest), self.gamma(value.shape[-1])))
        total, error = x.value + written.value, slope * x.error + written.error
        return Bounded(total, error + self.u * (total.norm(dim=-1) + error))

    def _margins(self, z: Bounded, labels: Tensor) -> Tensor:
        """Smallest margin of a correct logit over all outputs, less the errors of both logits."""
        least = torch.full_like(z.error, torch.inf)
        gamma, start = self.gamma(z.value.shape[-1] + 2), 0
        for size, correct in zip(self.model.outputs.values(), labels.unbind(1), strict=True):
            weight, bias = (part[start : start + size] for part in self.head)
            logits = F.linear(z.value, weight, bias)  # [N, C]
            summed = F.linear(z.value.abs(), weight.abs(), bias.abs())
            summed = summed + weight.norm(dim=-1) * z.error.unsqueeze(-1)
            label = correct.clamp(min=0)
            apart = torch.cdist(weight, weight)[label] * _UP * z.error.unsqueeze(-1)
            apart = apart + gamma * (summed + summed.gather(1, label[:, None]))
            margin = logits.gather(1, label[:, None]) - logits - apart
            margin = margin.scatter(1, label[:, None], torch.inf).amin(1)
            least = torch.minimum(least, margin.masked_fill(correct < 0, torch.inf))
            start += size
        return least.masked_fill(least.isnan(), -torch.inf)  # an error without bounds


def _whole(x: Bounded) -> Bounded:
    """Reshape vectors of one head, [N, 1, D], to [N, D]."""
    return Bounded(x.value.flatten(1), x.error[:, 0])


def _norm_of(matrices: Tensor) -> Tensor:
    """Upper bound on the norm of each matrix, [N, D, D] to [N], at most 30 % too large."""
    power = matrices.mT @ matrices
    for _ in range(2):
        power = power @ power
    return power.flatten(1).norm(dim=1) ** (1 / 8) * _UP
