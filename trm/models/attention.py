"""Attention: how tokens look at each other, and which of them a token of a canvas may see.

From the top: the layers that the transformers are built from (attention, SwiGLU, RMS norm); then
where tokens are on a canvas, and the neighbourhoods that attention can be kept to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

T = TypeVar("T")
_DIRECTIONS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]

Rotation = tuple[Tensor, Tensor]  # cosines and sines, [S, head_dim / 2] each


class RelativeKeys(NamedTuple):
    """Vectors that are added to keys, chosen by how a query and a key lie to each other."""

    vectors: Tensor  # [C, head_dim], the same for all heads
    classes: Tensor  # int64 [Q, K] or [B, Q, K], which of them a query meets at a key

    def scores(self, q: Tensor) -> Tensor:
        """What they add to the scores of queries [B, heads, Q, head_dim]: [B, heads, Q, K]."""
        each = (q * q.shape[-1] ** -0.5) @ self.vectors.to(q.dtype).T  # [B, heads, Q, C]
        classes = self.classes if self.classes.ndim == 2 else self.classes.unsqueeze(1)
        return each.gather(-1, classes.expand(*each.shape[:-1], -1))


class Terms(NamedTuple):
    """What is known of S tokens' places, as `trm.models.positions.Position` says it.

    Where samples differ a batch dimension stands in front.
    """

    vectors: Tensor | None = None  # to be added to embeddings, [S, D]
    rotation: Rotation | None = None  # of queries and keys; of samples [B, 1, S, head_dim / 2] each
    bias: Tensor | None = None  # of attention, [heads or 1, S, S]; minus infinity forbids
    relative: RelativeKeys | None = None  # what is added to keys

    def select(self, index: Tensor) -> "Terms":
        """The same for some samples, by bool [B] or int64 indices."""

        def some(part: Tensor | None, shared: int) -> Any:  # dimensions of what all samples share
            return part if part is None or part.ndim == shared else part[index]

        rotation, keys = self.rotation, self.relative
        return Terms(
            some(self.vectors, 2),
            None if rotation is None else (some(rotation[0], 2), some(rotation[1], 2)),
            some(self.bias, 3),
            None if keys is None else keys._replace(classes=some(keys.classes, 2)),
        )

    def part(self, first: int, last: int) -> "Terms":
        """The same for tokens ``first`` to ``last - 1``, which attend to 0 to ``last - 1``."""
        new, rotation, keys = slice(first, last), self.rotation, self.relative
        return Terms(
            None if self.vectors is None else self.vectors[..., new, :],
            None if rotation is None else (rotation[0][new], rotation[1][new]),
            None if self.bias is None else self.bias[:, new, :last],
            None if keys is None else keys._replace(classes=keys.classes[new, :last]),
        )

    def add(self, vectors: Tensor | None) -> "Terms":
        """With more vectors, if there are any."""
        if vectors is None:
            return self
        return self._replace(vectors=vectors if self.vectors is None else self.vectors + vectors)


class KeyValueCache:
    """Keys and values of a causal layer for the tokens seen so far, in memory taken once.

    Of shape [B, heads, S, head_dim], S being the longest sequence to come.
    """

    def __init__(self, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device):
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty_like(self.keys)
        self.length = 0

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append [B, heads, N, head_dim] each; returns all keys and all values so far."""
        new = slice(self.length, self.length + keys.shape[2])
        self.keys[:, :, new], self.values[:, :, new] = keys, values
        self.length = new.stop
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


# The longest bfloat16 sequence for which plain matrix products beat the blocked CPU kernel of
# scaled_dot_product_attention (at 45 tokens, forward and backward, by 6 to 10 times).
_CPU_EXPLICIT_TOKENS = 256


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype that activations on the tensor's device should have: autocast's, or its own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


def truncated_normal_(weight: Tensor, std: float) -> Tensor:
    """Fill from a normal cut at two deviations, whose deviation after the cut is ``std``.

    As JAX's ``truncated_normal`` initialisers do.
    """
    with torch.no_grad():
        # 0.8796...: deviation of a standard normal cut at plus and minus 2.
        return nn.init.trunc_normal_(weight, a=-2.0, b=2.0).mul_(std / 0.87962566103423978)


class Linear(nn.Linear):
    """``nn.Linear``, without a bias by default; initialised truncated LeCun normal (1998)."""

    def __init__(self, in_features: int, out_features: int, bias: bool = False):
        super().__init__(in_features, out_features, bias)

    def reset_parameters(self) -> None:
        """Draw the weights afresh, with deviation in ** -0.5; biases start at zero."""
        truncated_normal_(self.weight, 1 / math.sqrt(self.in_features))
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def rms_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x**2) + eps) over the last dimension, without learned gains; keeps the dtype.

    Zhang & Sennrich 2019. The mean is taken in float32, of float64 in that.
    """
    if x.device.type != "cpu":
        return F.rms_norm(x, (x.shape[-1],), eps=eps).to(x.dtype)
    # No slower than the library's on a CPU, and bit for bit the reference's on any layout: the
    # recursion makes a large difference out of a different rounding.
    exact = x if x.dtype == torch.float64 else x.float()
    return (exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn each pair of channels (i, i + D / 2) of [..., S, D] by its angle (RoFormer)."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Softmax attention, scores scaled by head_dim ** -0.5.

    On a CPU, learned biases and short sequences (bfloat16 or biased) go through plain matrix
    products, all else through ``scaled_dot_product_attention``: same result, whichever is faster.

    Args:
        q, k, v: queries [B, heads, Q, D], keys and values [B, heads, K, D].
        bias: added to the scores, broadcastable to [B, heads, Q, K]; minus infinity forbids.
        causal: query i (of Q == K) sees keys 0 to i only.

    Returns:
        [B, heads, Q, D], dtype of ``v``.
    """
    if bias is not None and causal:
        future = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        bias = bias.masked_fill(future, -math.inf)
        causal = False
    # The fused CPU kernels have no backward for the bias; they fall back to a slower plain path.
    learned_bias = bias is not None and bias.requires_grad and torch.is_grad_enabled()
    short = k.shape[-2] <= _CPU_EXPLICIT_TOKENS and (bias is not None or q.dtype != torch.float32)
    explicit = q.device.type == "cpu" and (short or learned_bias)
    if not explicit:
        # With a batch dimension the mask takes the fused CPU kernel, without it the plain path.
        mask = None if bias is None else bias.to(q.dtype).view(-1, *bias.shape[-3:])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # [B, heads, Q, K]
    if causal:  # added in place: a masked copy takes three times as long
        scores += torch.full(scores.shape[-2:], -math.inf, dtype=scores.dtype).triu(1)
    if bias is not None:
        scores += bias.to(scores.dtype)
    # In float32: exact, and faster than the CPU's bfloat16 softmax.
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
    return weights @ v


class Attention(nn.Module):
    """Multi-head self-attention, that of every model."""

    def __init__(self, hidden_size: int, num_heads: int, projection_bias: bool = False):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = Linear(hidden_size, 3 * hidden_size, projection_bias)
        self.out = Linear(hidden_size, hidden_size, projection_bias)

    def queries(self, x: Tensor) -> Tensor:
        """Of [..., D], the heads side by side: [..., D]."""
        D, bias = x.shape[-1], self.qkv.bias
        return F.linear(x, self.qkv.weight[:D], None if bias is None else bias[:D])

    def keys_values(self, x: Tensor) -> Tensor:
        """Of [..., D], all keys and then all values: [..., 2 * D]."""
        D, bias = x.shape[-1], self.qkv.bias
        return F.linear(x, self.qkv.weight[D:], None if bias is None else bias[D:])

    def project(self, x: Tensor, rotation: Rotation | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys (both rotated) and values of [B, S, D]: three of [B, heads, S, D/heads]."""
        q, k, v = (
            self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        )
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        return q, k, v

    def forward(
        self,
        x: Tensor,
        terms: Terms = Terms(),  # noqa: B008
        *,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Attend within [B, S, D].

        Args:
            x: tokens.
            terms: of their places.
            causal: a token sees itself and what is before it only.
            cache: of the tokens before these, which these join; if it holds any, S is 1.
        """
        q, k, v = self.project(x, terms.rotation)
        if cache is not None:
            k, v = cache.extend(k, v)
        alone = q.shape[2] < k.shape[2]  # it sees all that came before it
        assert not alone or q.shape[2] == 1
        bias = terms.bias
        if terms.relative is not None:
            own = terms.relative.scores(q)
            bias = own if bias is None else bias + own
        y = attend(q, k, v, bias, causal and not alone)
        return self.out(y.transpose(1, 2).flatten(2))


def swiglu_size(width: int) -> int:
    """Inner size of a SwiGLU: 2/3 of 4 * width, rounded up to a multiple of 256."""
    return -(-round(4 * width * 2 / 3) // 256) * 256


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)) over the last dimension, without biases (Shazeer 2020)."""

    def __init__(self, width: int, intermediate_size: int):
        super().__init__()
        self.gate_up = Linear(width, 2 * intermediate_size)
        self.down = Linear(intermediate_size, width)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to [..., width]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class PostNormBlock(nn.Module):
    """rms_norm(x + attention over tokens), then rms_norm(x + SwiGLU over channels)."""

    def __init__(self, mixing: Attention, mlp: SwiGLU):
        super().__init__()
        self.mixing, self.mlp = mixing, mlp

    def forward(self, x: Tensor, terms: Terms) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        return self.after(x, self.mixing(x, terms))

    def after(self, x: Tensor, mixed: Tensor) -> Tensor:
        """All that comes after attention has given ``mixed``, for each token [..., D] by itself."""
        x = rms_norm(x + mixed)
        return rms_norm(x + self.mlp(x))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Where each token of a sequence sits: ``S`` tokens, of which the first may be a prefix.

    All samples of a batch share one [S], or each has its own [B, S]. Compared by identity, so that
    what is derived from shared cells can be cached.
    """

    rows: Tensor  # int64 [S] or [B, S], 0 is the top row; -1 for prefix tokens
    columns: Tensor  # the same
    index: Tensor  # the same, flat position among prefix and cells in reading order
    height: int  # of the canvas
    width: int
    prefix_length: int = 0  # tokens in front of the cells
    present: Tensor | None = None  # bool [B, S], which are tokens and not padding; None: all are

    @staticmethod
    @lru_cache(maxsize=64)
    @torch.inference_mode(False)  # what is kept from a validation may be used in training
    def canvas(
        height: int, width: int, prefix_length: int = 0, device: torch.device | str = "cpu"
    ) -> "Coordinates":
        """All cells of a canvas in reading order behind a prefix; the same object every time."""
        rows = torch.full((prefix_length + height * width,), -1, device=device)
        columns = rows.clone()
        index = torch.arange(len(rows), device=device)
        cell = index[: height * width]
        rows[prefix_length:] = cell // width
        columns[prefix_length:] = cell % width
        return Coordinates(rows, columns, index, height, width, prefix_length)

    def __len__(self) -> int:
        return self.rows.shape[-1]

    @property
    def places(self) -> int:
        """How many values ``index`` can take: prefix tokens and cells of the canvas."""
        return self.prefix_length + self.height * self.width

    def only(self, kept: Tensor) -> "Coordinates":
        """For each sample the kept ones, bool [B, S], of these shared cells, padded at the end."""
        most = int(kept.sum(dim=1).max())
        order = kept.byte().argsort(dim=1, descending=True, stable=True)[:, :most]
        return replace(
            self,
            rows=self.rows[order],
            columns=self.columns[order],
            index=self.index[order],
            present=kept.gather(1, order),
        )

    def boxes(self, filled: Tensor) -> "Coordinates":
        """Of the cells of a canvas, for each sample those in the smallest box of the filled ones.

        ``filled`` is bool [B, H, W].
        """
        rows, columns = (span(filled.any(dim=dim)) for dim in (2, 1))
        inside = (rows.unsqueeze(2) & columns.unsqueeze(1)).flatten(1)
        return self.only(F.pad(inside, (self.prefix_length, 0), value=True))


def span(filled: Tensor) -> Tensor:
    """All from the first filled one to the last, bool [B, N] to the same."""
    line = filled.byte()
    return (line.cummax(dim=1).values & line.flip(1).cummax(dim=1).values.flip(1)).bool()


def cached_where_shared(function: Callable[[Coordinates, int], T]) -> Callable[..., T]:
    """What is worked out for coordinates that a whole batch shares is kept."""
    # What is kept from a validation may be used in training.
    kept = lru_cache(maxsize=16)(torch.inference_mode(False)(function))

    @wraps(function)
    def called(cells: Coordinates, radius: int) -> T:
        return (kept if cells.rows.ndim == 1 else function)(cells, radius)

    return called


def offsets(cells: Coordinates) -> tuple[Tensor, Tensor]:
    """Rows down and columns right from query i to key j, int64 [S, S] or [B, S, S] each."""
    down, right = (x.unsqueeze(-2) - x.unsqueeze(-1) for x in (cells.rows, cells.columns))
    return down, right


def neighbourhood_mask(
    cells: Coordinates, neighbourhood: str, radius: int, written: Tensor | None = None
) -> Tensor | None:
    """Which keys j each query i may see, bool [S, S] or [B, S, S]; None where all may.

    ``local_lines``: the square of cells at most ``radius`` rows and columns away, and the eight
    lines through the cell. ``local_nearest``: that square, and in each of the eight directions the
    nearest written cell beyond it. A prefix sees all and is seen by all.

    Args:
        cells: where the tokens sit.
        neighbourhood: one of ``NEIGHBOURHOODS``.
        radius: of the square, where there is one.
        written: bool [B, S], for ``local_nearest``: tokens that can be seen from afar.
    """
    allowed = None
    if neighbourhood != "all":
        near, beyond = _lines(cells, radius)
        if neighbourhood == "local_nearest":
            assert written is not None, "what is nearest depends on what is written"
            beyond = _seen_from_afar(cells, written)
        allowed = near | beyond
    if cells.present is None:
        return allowed
    # Padding sees itself, as a softmax over nothing is not a number.
    itself = torch.eye(len(cells), dtype=torch.bool, device=cells.rows.device)
    present = cells.present.unsqueeze(-2)
    return itself | (present if allowed is None else allowed & present)


@cached_where_shared
def _lines(cells: Coordinates, radius: int) -> tuple[Tensor, Tensor]:
    """Keys in the local square (or with a prefix token in the pair), and on the eight lines."""
    down, right = offsets(cells)
    prefix = cells.rows < 0
    near = (down.abs() <= radius) & (right.abs() <= radius)
    near |= prefix.unsqueeze(-1) | prefix.unsqueeze(-2)
    return near, (down == 0) | (right == 0) | (down.abs() == right.abs())


def _seen_from_afar(cells: Coordinates, written: Tensor) -> Tensor:
    """The nearest written key in each of the eight directions, bool [B, S, S]; of a prefix none."""
    P, (batch, size) = cells.prefix_length, written.shape
    token, rows, columns = (
        x.expand(batch, size)[:, P:]
        for x in (torch.arange(size, device=written.device), cells.rows, cells.columns)
    )
    sample = torch.arange(batch, device=written.device)[:, None]
    kept = (written if cells.present is None else written & cells.present)[:, P:]
    at = token.new_full((batch, cells.height, cells.width), -1)
    at[sample.expand_as(token)[kept], rows[kept], columns[kept]] = token[kept]
    keys = torch.stack([_scan(at, way)[sample, rows, columns] for way in _DIRECTIONS], dim=-1)
    seen = torch.zeros(batch, size, size + 1, dtype=torch.bool, device=written.device)
    seen[:, P:].scatter_(2, torch.where(keys < 0, size, keys), True)
    return seen[..., :size]


def _scan(far: Tensor, direction: tuple[int, int]) -> Tensor:
    """For each cell the last one in a direction that is not -1, int64 [B, H, W] to the same.

    Line by line from the edge inwards: what the next cell sees last, or else that cell itself.
    """
    down, right = direction
    if down == 0:  # columns are the lines
        return _scan(far.mT, (right, 0)).mT
    last = torch.full_like(far, -1)
    height = far.shape[1]
    for row in range(height - 2, -1, -1) if down > 0 else range(1, height):
        beyond = torch.where(last[:, row + down] >= 0, last[:, row + down], far[:, row + down])
        last[:, row] = beyond.roll(-right, dims=1)
        if right:
            last[:, row, -1 if right > 0 else 0] = -1  # what came round
    return last
