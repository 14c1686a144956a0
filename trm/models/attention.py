"""Layers of the transformers: attention, SwiGLU, RMS norm."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trm.released import moved

Rotation = tuple[Tensor, Tensor]  # cosines and sines, [S, head_dim / 2] each


class RelativeKeys(NamedTuple):
    """Vectors a for keys, and possibly b for queries, chosen by the offset from query to key.

    The score of query q and key k has the further terms q · a and, with b, b · k.
    """

    vectors: Tensor  # a: [C, head_dim], the same for all heads
    classes: Tensor  # int64 [Q, K] or [B, Q, K], index of the vector for each query and key
    queries: Tensor | None = None  # b: [C, head_dim]

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return terms of the scores, [B, heads, Q, K].

        Args:
            q: queries [B, heads, Q, head_dim].
            k: keys [B, heads, K, head_dim].
        """
        classes = self.classes if self.classes.ndim == 2 else self.classes.unsqueeze(1)
        scores = _chosen(q, self.vectors, classes)
        if self.queries is None:
            return scores
        return scores + _chosen(k, self.queries, classes.mT).mT


def _chosen(x: Tensor, vectors: Tensor, classes: Tensor) -> Tensor:
    """Return scaled products of x, [B, heads, S, D], with vectors [C, D] chosen by classes."""
    each = (x * x.shape[-1] ** -0.5) @ vectors.to(x.dtype).T  # [B, heads, S, C]
    return each.gather(-1, classes.expand(*each.shape[:-1], -1))


class Terms(NamedTuple):
    """Position terms of S tokens, from `trm.models.positions.Position`.

    If samples differ, a batch dimension comes first.
    """

    vectors: Tensor | None = None  # added to embeddings, [S, D]
    rotation: Rotation | None = None  # of queries and keys; per sample [B, 1, S, head_dim / 2] each
    bias: Tensor | None = None  # of attention, [heads or 1, S, S]; minus infinity forbids
    relative: RelativeKeys | None = None  # added to keys and queries

    def select(self, index: Tensor) -> "Terms":
        """Return the same for some samples, by bool [B] or int64 indices; without vectors."""

        def some(part: Tensor, shared: int) -> Tensor:  # shared: dimensions without a batch
            return part if part.ndim == shared else part[index]

        rotation, bias, keys = self.rotation, self.bias, self.relative
        return Terms(
            rotation=rotation and (some(rotation[0], 2), some(rotation[1], 2)),
            bias=None if bias is None else some(bias, 3),
            relative=keys and keys._replace(classes=some(keys.classes, 2)),
        )

    def part(self, first: int, last: int) -> "Terms":
        """Return terms of tokens ``first`` to ``last - 1``, which attend to 0 to ``last - 1``."""
        new, rotation, keys = slice(first, last), self.rotation, self.relative
        return Terms(
            None if self.vectors is None else self.vectors[..., new, :],
            rotation and (rotation[0][..., new, :], rotation[1][..., new, :]),
            None if self.bias is None else self.bias[..., new, :last],
            keys and keys._replace(classes=keys.classes[..., new, :last]),
        )

    def at(self, index: Tensor) -> "Terms":
        """Return for each sample the terms of some tokens, or repeated ones: int64 [B, N]."""
        rotation, bias, keys = self.rotation, self.bias, self.relative
        query, key = index[:, :, None], index[:, None, :]
        return Terms(
            None if self.vectors is None else self.vectors[index],
            rotation and (rotation[0][index].unsqueeze(1), rotation[1][index].unsqueeze(1)),
            None if bias is None else bias[:, query, key].transpose(0, 1),
            keys and keys._replace(classes=keys.classes[query, key]),
        )


class KeyValueCache:
    """Keys and values of a causal layer for the tokens read so far, in memory allocated once.

    Args:
        shape: [B, heads, S, head_dim]; S is the length of the longest sequence.
        dtype: of keys and values.
        device: of keys and values.
    """

    def __init__(self, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device):
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty_like(self.keys)
        self.length = 0

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append [B, heads, N, head_dim] each, and return all keys and all values so far."""
        new = slice(self.length, self.length + keys.shape[2])
        self.keys[:, :, new], self.values[:, :, new] = keys, values
        self.length = new.stop
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


# The longest bfloat16 sequence for which plain matrix products beat the blocked CPU kernel of
# scaled_dot_product_attention (at 45 tokens, forward and backward, by 6 to 10 times).
_CPU_EXPLICIT_TOKENS = 256

# Limit of samples times heads of CUDA's kernels of scaled_dot_product_attention: a grid has at most
# 65,535 blocks in its second and third dimension.
_MOST_SEQUENCES = 65_535


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of activations on the tensor's device: autocast's, or the tensor's own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


def truncated_normal_(weight: Tensor, std: float) -> Tensor:
    """Fill from a normal distribution cut at two deviations; ``std`` is that after the cut.

    The same as JAX's ``truncated_normal`` initialisers.
    """
    with torch.no_grad():
        # 0.8796...: deviation of a standard normal cut at plus and minus 2.
        return nn.init.trunc_normal_(weight, a=-2.0, b=2.0).mul_(std / 0.87962566103423978)


class Linear(nn.Linear):
    """``nn.Linear`` without a bias by default. Initial weights: truncated LeCun normal (1998)."""

    def __init__(self, in_features: int, out_features: int, bias: bool = False):
        super().__init__(in_features, out_features, bias)

    def reset_parameters(self) -> None:
        """Resample the weights, with deviation in_features ** -0.5; biases become 0."""
        truncated_normal_(self.weight, 1 / math.sqrt(self.in_features))
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def rms_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Return x / sqrt(mean(x**2) + eps) over the last dimension, without learned gains.

    Zhang & Sennrich 2019. The dtype is kept. The mean is computed in float32, or in float64 for
    float64.
    """
    if x.device.type != "cpu":
        return F.rms_norm(x, (x.shape[-1],), eps=eps).to(x.dtype)
    # No slower than the library's on a CPU, and bit for bit the reference's for any strides: the
    # recursion amplifies a different rounding.
    exact = x if x.dtype == torch.float64 else x.float()
    return (exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotate each pair of channels (i, i + D / 2) of [..., S, D] by its angle (RoFormer)."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
    """Softmax attention, scores scaled by head_dim ** -0.5.

    On a CPU, learned biases and short sequences (bfloat16 or biased) take plain matrix products,
    all others ``scaled_dot_product_attention``. The result is the same; the faster one is chosen.

    Args:
        q: queries [B, heads, Q, D].
        k: keys [B, heads, K, D].
        v: values [B, heads, K, D].
        bias: added to the scores, broadcastable to [B, heads, Q, K]; minus infinity forbids.
        causal: query i (of Q == K) attends to keys 0 to i only.

    Returns:
        [B, heads, Q, D], dtype of ``v``.
    """
    if bias is not None and causal:
        bias, causal = bias + _causal_mask(bias, q.shape[-2], k.shape[-2]), False
    # The fused CPU kernels have no backward for the bias; they fall back to a slower plain path.
    learned_bias = bias is not None and bias.requires_grad and torch.is_grad_enabled()
    short = k.shape[-2] <= _CPU_EXPLICIT_TOKENS and (bias is not None or q.dtype != torch.float32)
    explicit = q.device.type == "cpu" and (short or learned_bias)
    if not explicit:
        # A mask with a batch dimension takes the fused CPU kernel, one without it the plain path.
        mask = None if bias is None else bias.to(q.dtype).view(-1, *bias.shape[-3:])
        return _fused(q, k, v, mask, causal)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # [B, heads, Q, K]
    if causal:  # added in place: a masked copy takes three times as long
        scores += _causal_mask(scores, *scores.shape[-2:])
    if bias is not None:
        scores += bias.to(scores.dtype)
    # In float32: exact, and faster than the CPU's bfloat16 softmax.
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype) @ v


def _causal_mask(like: Tensor, queries: int, keys: int) -> Tensor:
    """Return minus infinity for keys after each query, else 0: [Q, K], of a tensor's dtype.

    The last query is at the last key.
    """
    return like.new_full((queries, keys), -math.inf).triu(1 + keys - queries)


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Apply ``scaled_dot_product_attention``, to `_MOST_SEQUENCES` samples times heads at once."""
    size = max(1, _MOST_SEQUENCES // q.shape[1])
    if len(q) <= size:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    masks = [mask] * -(-len(q) // size)
    if mask is not None and len(mask) == len(q):
        masks = list(mask.split(size))
    parts = zip(q.split(size), k.split(size), v.split(size), masks, strict=True)
    return torch.cat([_fused(*part, causal) for part in parts])


class DotProduct(nn.Module):
    """Softmax attention without parameters; a module, so that hooks find its arguments."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
        """Return the mean of values for each query, see `attend`."""
        return attend(q, k, v, bias, causal)

    def weights(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
        """Return the attention weights of the same call, at least float32, [B, heads, Q, K]."""
        exact = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(exact) * q.shape[-1] ** -0.5) @ k.to(exact).mT
        if bias is not None:
            scores = scores + bias.to(exact)
        if causal:
            scores = scores + _causal_mask(scores, *scores.shape[-2:])
        return scores.softmax(dim=-1)

    def average(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return the output of `forward` for other weights, [B, heads, Q, D]."""
        return weights.to(values.dtype) @ values


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, hidden_size: int, num_heads: int, projection_bias: bool = False):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = Linear(hidden_size, 3 * hidden_size, projection_bias)
        self.out = Linear(hidden_size, hidden_size, projection_bias)
        self.dot_product: nn.Module = DotProduct()

    def project(self, x: Tensor, rotation: Rotation | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return rotated queries and keys, and values, [B, heads, S, D / heads] each."""
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
        """Attend within [B, S, D]. If ``causal``, a token attends to itself and those before it.

        The tokens are appended to a cache, and attend to those in it as well.
        """
        q, k, v = self.project(x, terms.rotation)
        if cache is not None:
            k, v = cache.extend(k, v)
        known = k.shape[2] - q.shape[2]  # tokens that were in the cache before these
        bias = terms.bias
        if terms.relative is not None:
            own = terms.relative.scores(q, k)
            bias = own if bias is None else bias + own
        if causal and known and q.shape[2] > 1:  # a single token attends to all before it
            mask = _causal_mask(q, q.shape[2], k.shape[2])
            bias = mask[None] if bias is None else bias + mask
        mixed = self.dot_product(q, k, v, bias, causal and not known)  # [B, heads, S, D / heads]
        return self.out(mixed.transpose(1, 2).flatten(2))


def swiglu_size(width: int) -> int:
    """Inner size of a SwiGLU: 2/3 of 4 * width, rounded up to a multiple of 256."""
    return -(-round(4 * width * 2 / 3) // 256) * 256


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)) over the last dimension, without biases (Shazeer 2020)."""

    def __init__(self, width: int, intermediate_size: int | None):
        super().__init__()
        inner = intermediate_size or swiglu_size(width)
        self.gate_up, self.down = Linear(width, 2 * inner), Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., width] to [..., width]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class PostNormBlock(nn.Module):
    """rms_norm(x + attention over tokens), then rms_norm(x + SwiGLU over channels)."""

    def __init__(
        self,
        width: int,
        num_heads: int,
        intermediate_size: int | None,
        attention: type[nn.Module] = Attention,
    ):
        super().__init__()
        self.mixing, self.mlp = attention(width, num_heads), SwiGLU(width, intermediate_size)

    def forward(self, x: Tensor, *terms: Any) -> Tensor:
        """Map [..., D] to [..., D]. ``terms`` are arguments of the attention."""
        x = rms_norm(x + self.mixing(x, *terms))
        return rms_norm(x + self.mlp(x))


__getattr__ = moved(__name__)
