import sys
from contextlib import nullcontext

import torch
from torch import nn

from trm.runtime.flops import counted_flops, known_peak


def test_products_gradients_and_attention_are_counted():
    layer, x = nn.Linear(8, 16, bias=False), torch.randn(4, 8, requires_grad=True)
    with counted_flops() as counter:
        layer(x).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 4 * 8 * 16
    q = torch.randn(2, 4, 8, 16)
    one_product = 2 * 2 * 4 * 8 * 8 * 16
    for how in ({}, {"is_causal": True}, {"attn_mask": torch.zeros(8, 8)}):
        with counted_flops() as counter:
            nn.functional.scaled_dot_product_attention(q, q, q, **how)
        assert counter.get_total_flops() == 2 * one_product  # scores, and what they weigh


def test_compiled_code_is_counted_as_if_it_were_not(monkeypatch):
    stances = []

    def set_stance(name: str) -> nullcontext:
        stances.append(name)
        return nullcontext()

    monkeypatch.setattr(torch.compiler, "set_stance", set_stance)
    monkeypatch.setitem(sys.modules, "torch._dynamo", object())
    with counted_flops() as counter:
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert stances == ["force_eager"]
    assert counter.get_total_flops() == 2 * 2 * 3 * 4


def test_the_peak_of_a_device_is_found_by_its_name():
    names = {"NVIDIA H100 80GB HBM3": 989, "NVIDIA H100 PCIe": 756, "NVIDIA A100-SXM4-80GB": 312}
    assert {name: known_peak(name) for name in names} == names
    assert known_peak("NVIDIA L40S") == 362
    assert known_peak("NVIDIA L4") == 121
    assert known_peak("cpu") is None
