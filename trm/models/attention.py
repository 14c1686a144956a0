"""The layers that the transformers are built from: attention, SwiGLU, RMS norm."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Rotation = tuple[Tensor, Tensor]  # cosines and sines, [S, head_dim / 2] each


class RelativeKeys(NamedTuple):
    """Vectors that are added to keys, chosen by how a query and a key lie to each other."""

    vectors: Tensor  # [C, head_dim], the same for all heads
    classes: Tensor  # int64 [Q, K] or [B, Q, K], which of them a query meets at a key

    def scores(self, q: Tensor) -> Tensor:
        """Additions to the scores of queries [B, heads, Q, head_dim]: [B, heads, Q, K]."""
        each = (q * q.shape[-1] ** -0.5) @ self.vectors.to(q.dtype).T  # [B, heads, Q, C]
        classes = self.classes if self.classes.ndim == 2 else self.classes.unsqueeze(1)
        return each.gather(-1, classes.expand(*each.shape[:-1], -1))


class Terms(NamedTuple):
    """Position terms of S tokens, as `trm.models.positions.Position` says it.

    Where samples differ a batch dimension stands in front.
    """

    vectors: Tensor | None = None  # to be added to embeddings, [S, D]
    rotation: Rotation | None = None  # of queries and keys; of samples [B, 1, S, head_dim / 2] each
    bias: Tensor | None = None  # of attention, [heads or 1, S, S]; minus infinity forbids
    relative: RelativeKeys | None = None  # what is added to keys

    def select(self, index: Tensor) -> "Terms":
        """The same for some samples, by bool [B] or int64 indices; without vectors."""

        def some(part: Tensor, shared: int) -> Tensor:  # dimensions of what all samples share
            return part if part.ndim == shared else part[index]

        rotation, bias, keys = self.rotation, self.bias, self.relative
        return Terms(
            rotation=rotation and (some(rotation[0], 2), some(rotation[1], 2)),
            bias=None if bias is None else some(bias, 3),
            relative=keys and keys._replace(classes=some(keys.classes, 2)),
        )

    def part(self, first: int, last: int) -> "Terms":
        """The same for tokens ``first`` to ``last - 1``, which attend to 0 to ``last - 1``."""
        new, rotation, keys = slice(first, last), self.rotation, self.relative
        return Terms(
            None if self.vectors is None else self.vectors[..., new, :],
            rotation and (rotation[0][new], rotation[1][new]),
            None if self.bias is None else self.bias[:, new, :last],
            keys and keys._replace(classes=keys.classes[new, :last]),
        )


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

# CUDA's kernels of scaled_dot_product_attention take no more samples times heads: a grid has at
# most 65,535 blocks in its second and third dimension.
_MOST_SEQUENCES = 65_535


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype that activations on the tensor's device should have: autocast's, or its own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


def computes_float32(tensor: Tensor) -> bool:
    """True if a network with such a weight computes in float32 now, products of matrices too.

    It does not under autocast, with weights of another type, or where PyTorch may replace float32
    by TF32 or bfloat16 in products of matrices.
    """
    if compute_dtype(tensor) is not torch.float32:
        return False
    # `torch.get_float32_matmul_precision` raises an error where these were set one by one.
    backends: Any = torch.backends
    backend = backends.mkldnn if tensor.device.type == "cpu" else backends.cuda
    precision = getattr(backend.matmul, "fp32_precision", "ieee")  # older releases have none
    if precision == "none":
        precision = getattr(backends, "fp32_precision", "ieee")
    return precision in ("none", "ieee")


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


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
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
        return _fused(q, k, v, mask, causal)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # [B, heads, Q, K]
    if causal:  # added in place: a masked copy takes three times as long
        scores += scores.new_full(scores.shape[-2:], -math.inf).triu(1)
    if bias is not None:
        scores += bias.to(scores.dtype)
    # In float32: exact, and faster than the CPU's bfloat16 softmax.
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype) @ v


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """``scaled_dot_product_attention``, of `_MOST_SEQUENCES` samples times heads at once."""
    size = max(1, _MOST_SEQUENCES // q.shape[1])
    if len(q) <= size:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    masks = [mask] * -(-len(q) // size)
    if mask is not None and len(mask) == len(q):
        masks = list(mask.split(size))
    parts = zip(q.split(size), k.split(size), v.split(size), masks, strict=True)
    return torch.cat([_fused(*part, causal) for part in parts])


class Attention(nn.Module):
    """Multi-head self-attention, that of every model."""

    def __init__(self, hidden_size: int, num_heads: int, projection_bias: bool = False):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = Linear(hidden_size, 3 * hidden_size, projection_bias)
        self.out = Linear(hidden_size, hidden_size, projection_bias)

    def queries(self, x: Tensor) -> Tensor:
        """Queries of [..., D], the heads side by side: [..., D]; without a bias."""
        return F.linear(x, self.qkv.weight[: x.shape[-1]])

    def keys_values(self, x: Tensor) -> Tensor:
        """Keys and then values of [..., D]: [..., 2 * D]; without a bias."""
        return F.linear(x, self.qkv.weight[x.shape[-1] :])

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
        """Attend within [B, S, D]; if ``causal``, a token sees itself and what is before it only.

        Tokens join those of a cache; if it holds any, S is 1.
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
        return self.out(attend(q, k, v, bias, causal and not alone).transpose(1, 2).flatten(2))


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
        """[..., width] to [..., width]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class PostNormBlock(nn.Module):
    """rms_norm(x + attention over tokens), then rms_norm(x + SwiGLU over channels)."""

    def __init__(self, width: int, num_heads: int, intermediate_size: int | None):
        super().__init__()
        self.mixing, self.mlp = Attention(width, num_heads), SwiGLU(width, intermediate_size)

    def forward(self, x: Tensor, terms: Terms) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        return self.after(x, self.mixing(x, terms))

    def after(self, x: Tensor, mixed: Tensor) -> Tensor:
        """All that comes after attention has given ``mixed``, for each token [..., D] by itself."""
        x = rms_norm(x + mixed)
        return rms_norm(x + self.mlp(x))
