"""Training and solving with fixed seeds give the numbers that were once written down here.

Random starts, the carry and exploration are among what they depend on: shipped weights and
runs that go on would tell if one of them changed.
"""

import pytest
import torch

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.training.configs import DepthConfig
from trm.training.samples import RowStepSamples
from trm.training.step import carried_step, fresh_step


def model(skip_blank: bool, neighbourhood: str) -> TinyRecursiveModel:
    torch.manual_seed(0)
    sizes = {"height": 3, "width": 5, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32}
    depth = {"num_layers": 2, "H_cycles": 2, "L_cycles": 2, "halt_pool": "mask"}
    seen = {"skip_blank": skip_blank, "neighbourhood": neighbourhood}
    seen |= {"position": "relative_2d", "direction_bias": 2.0}
    return TinyRecursiveModel(RecursiveConfig(**sizes, **depth, **seen)).train()


def batch(start: int = 0) -> dict[str, torch.Tensor]:
    task = Multiplication("lattice", base=3, digits_a=(1, 2), digits_b=(1, 1))
    data = RowStepSamples(task, Canvas(3, 5), "train", 0, 600, 6)
    return data.__getitems__(range(start, start + 6))


def gradient(mine: TinyRecursiveModel) -> float:
    parts = [p.grad.double().abs().sum() for p in mine.parameters() if p.grad is not None]
    return float(sum(parts))


CASES = [
    (False, "local_nearest", (4.066225, 4.066174, 344.494443, 5525.461)),
    (False, "local_lines", (4.068785, 4.064096, 343.101891, 5529.09)),
    (True, "local_nearest", (3.830435, 3.824769, 300.8204, 25701.518)),
    (True, "local_lines", (3.733052, 3.884752, 401.172816, 25687.203)),
]


@pytest.mark.parametrize(("skip_blank", "neighbourhood", "expected"), CASES)
def test_fresh_steps_from_random_starts_and_solving(skip_blank, neighbourhood, expected):
    mine = model(skip_blank, neighbourhood)
    depth = DepthConfig("fresh", no_grad_steps=(1, 3), supervised_steps=2, random_start=0.5)
    loss, last = fresh_step(mine, batch(), depth, 7)
    loss.backward()
    with torch.no_grad():
        said = mine.eval()(batch()["inputs"], steps=4)[0].log_softmax(dim=-1).abs().sum().item()
    found = (loss.item(), last.total.item(), gradient(mine), said)
    assert found == pytest.approx(expected, rel=1e-4)


def test_carried_steps_with_halting_and_exploration():
    mine = model(False, "local_lines")
    torch.nn.init.constant_(mine.halt_head.bias, 0.0)
    torch.nn.init.normal_(mine.halt_head.weight)
    depth = DepthConfig("carry", halt_max_steps=3, exploration=0.5)
    carry, losses, steps = None, [], []
    for number in range(4):
        last, carry = carried_step(mine, batch(6 * number), carry, depth)
        losses.append(last.total.item())
        steps.append(float(carry.steps.float().mean()))
    last.total.backward()
    assert losses == pytest.approx([4.975973, 5.879571, 5.933238, 5.788891], rel=1e-4)
    assert steps == pytest.approx([1, 10 / 6, 2, 7 / 6])
    assert gradient(mine) == pytest.approx(2655.497928, rel=1e-3)
