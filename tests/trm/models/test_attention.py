"""Attention and its helpers, against PyTorch's own."""

import math

import pytest
import torch
import torch.nn.functional as F

from trm.models import attention
from trm.models.attention import (
    Attention,
    KeyValueCache,
    Linear,
    SwiGLU,
    Terms,
    attend,
    rms_norm,
    rotate,
    swiglu_size,
)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("limit", [0, 256])
def test_plain_and_fused_attention_agree(monkeypatch, causal, biased, limit):
    monkeypatch.setattr(attention, "_CPU_EXPLICIT_TOKENS", limit)
    q, k, v = torch.randn(3, 2, 4, 6, 8).double()
    bias = torch.randn(4, 6, 6).double() if biased else None
    mask = torch.zeros(6, 6).double() if bias is None else bias
    if causal:
        mask = mask.masked_fill(torch.ones(6, 6).triu(1).bool(), -math.inf)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(attend(q, k, v, bias, causal), expected, rtol=1e-5, atol=1e-5)


def test_norm_rotation_feed_forward_and_first_weights():
    x = 7 * torch.randn(3, 64)
    assert rms_norm(x).square().mean(-1).sub(1).abs().max() < 1e-4
    assert rms_norm(x.bfloat16()).dtype == torch.bfloat16
    quarter = (torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))  # 90 and 0 degrees
    turned = rotate(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), quarter)
    assert turned.tolist() == [[-3.0, 2.0, 1.0, 4.0]]
    assert [swiglu_size(width) for width in (32, 96, 97, 512)] == [256, 256, 512, 1536]
    assert SwiGLU(12, 256)(torch.zeros(2, 12)).shape == (2, 12)
    assert Linear(400, 300).weight.std().item() == pytest.approx(1 / 20, rel=0.02)


@pytest.mark.parametrize("mask", [None, (1, 3, 6, 6), (5, 1, 6, 6)], ids=str)
def test_large_batches_are_split_where_kernels_take_so_many(monkeypatch, mask):
    torch.manual_seed(0)
    monkeypatch.setattr(attention, "_CPU_EXPLICIT_TOKENS", 0)
    q, k, v = torch.randn(3, 5, 3, 6, 8)
    bias = None if mask is None else torch.randn(mask)
    whole, sizes = attend(q, k, v, bias, False), []
    fused = F.scaled_dot_product_attention

    def counted(q, *more, **how):
        sizes.append(len(q) * q.shape[1])
        return fused(q, *more, **how)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(attention, "_MOST_SEQUENCES", 7)  # two samples of three heads
    torch.testing.assert_close(attend(q, k, v, bias, False), whole)
    assert sizes == [6, 6, 3]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("limit", [0, 256])
def test_tokens_read_in_parts_attend_as_when_read_at_once(monkeypatch, biased, limit):
    monkeypatch.setattr(attention, "_CPU_EXPLICIT_TOKENS", limit)
    torch.manual_seed(0)
    layer, x = Attention(16, 2), torch.randn(3, 9, 16)
    terms = Terms(bias=torch.randn(2, 9, 9) if biased else None)
    whole = layer(x, terms, causal=True)
    cache = KeyValueCache((3, 2, 9, 8), x.dtype, x.device)
    parts = [
        layer(x[:, first:last], terms.part(first, last), causal=True, cache=cache)
        for first, last in ((0, 2), (2, 6), (6, 7), (7, 9))
    ]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
