"""What hooks see is what modules are given and give, and what they put there is computed with."""

import pytest
import torch
from torch import nn

from trm.models.capture import attention_calls, attention_of, inputs_of, outputs_of
from trm.models.layers import Attention


@pytest.fixture
def chain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def hooks_of(model: nn.Module) -> list:
    return [
        hook
        for part in model.modules()
        for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
    ]


def test_each_call_of_each_part_is_seen_in_order(chain):
    xs = torch.randn(2, 5, 3)
    with outputs_of(chain) as made, inputs_of(chain) as seen:
        ends = [chain(x) for x in xs]
    for call, x in enumerate(xs):
        assert torch.equal(seen[0][call], x)
        assert torch.equal(made[0][call], chain[0](x))
        assert torch.equal(seen[1][call], made[0][call])
        assert torch.equal(made[1][call], ends[call])


@pytest.mark.parametrize("hooked", [inputs_of, outputs_of])
def test_what_is_put_there_is_seen_and_computed_with(chain, hooked):
    x, other = torch.randn(2, 5, 3)

    def second_call_of_the_first(part, call, value):
        if (part, call) != (0, 1):
            return value
        return other if hooked is inputs_of else chain[0].forward(other)

    with hooked([chain[0]], second_call_of_the_first) as (values,):
        first, second = chain(x), chain(x)
    assert torch.equal(first, chain(x))
    assert torch.equal(second, chain(other))
    assert torch.equal(values[1], other if hooked is inputs_of else chain[0](other))


@pytest.mark.parametrize("hooked", [inputs_of, outputs_of])
def test_no_hook_stays_after_an_error(chain, hooked):
    def fail(*_):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"), hooked(chain, fail):
        chain(torch.randn(1, 3))
    with pytest.raises(AttributeError), hooked([chain[0], None]):  # the first is hooked by then
        pass
    assert hooks_of(chain) == []


def test_attention_is_found_and_its_calls_are_those_that_were_made():
    model = nn.ModuleList([Attention(4, 2), nn.Linear(4, 4), Attention(4, 1)])
    x = torch.randn(1, 3, 4)
    with attention_calls(model) as calls:
        model[2](model[0](x, causal=True))
    assert attention_of(model) == [model[0], model[2]] == [call[0] for call in calls]
    assert torch.equal(calls[0][1][0], x)
    assert calls[0][2] == {"causal": True}
    assert hooks_of(model) == []


def test_the_input_of_the_output_projection_is_the_heads_side_by_side():
    layer = Attention(6, 3)
    x = torch.randn(2, 4, 6)
    with inputs_of([layer.out]) as (seen,):
        y = layer(x)
    (heads,) = seen
    q, k, v = layer.project(x)
    for head in range(3):
        weights = (q[:, head] @ k[:, head].mT * 2**-0.5).softmax(-1)
        torch.testing.assert_close(heads[..., 2 * head : 2 * head + 2], weights @ v[:, head])
    torch.testing.assert_close(layer.out(heads), y)
