"""A recursive model of one cell: in order, in steps, and along what it may see."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.symbols import BLANK, MASK, encode
from trm.models.configs import LocalConfig
from trm.models.iterative import Loop
from trm.models.local import LocalRecursiveModel, all_right, work_in_order
from trm.training.samples import WindowSamples

LAYOUTS = ("lattice", "standard")  # a cell of one head, and of many
TASKS = {layout: Multiplication(layout=layout, base=3) for layout in LAYOUTS}
RULES = {name: task.local_rule() for name, task in TASKS.items()}


def model(layout: str = "lattice", **settings: object) -> LocalRecursiveModel:
    torch.manual_seed(0)
    config = {"hidden_size": 16, "num_heads": 4, "intermediate_size": 24, **RULES[layout].network}
    return LocalRecursiveModel(LocalConfig(**{**config, **settings})).eval()  # type: ignore[arg-type]


def pages(*rows: str) -> torch.Tensor:
    return torch.from_numpy(np.stack([encode(row) for row in rows]))[None]


SHAPES = ({"H_cycles": 1, "L_cycles": 1}, {"H_cycles": 2, "L_cycles": 3, "num_layers": 2})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_lead_to_what_is_worked_out_in_order(shape: dict[str, int], layout: str) -> None:
    net = model(layout, **shape)
    tokens = pages("________", "_12_*___", ".....2__", ".....1__", "________")
    worked = work_in_order(net, tokens, states=True)
    loop = Loop(net, tokens)
    loop.advance(20)
    logits, halt = loop.read()
    asked = tokens == MASK
    assert torch.equal(logits.argmax(-1)[asked], worked.tokens[asked])
    torch.testing.assert_close(loop.state, worked.state, rtol=0, atol=1e-5)
    rows = F.logsigmoid(worked.halt_logits[:, 2:4]).sum(1)
    torch.testing.assert_close(halt, all_right(rows))
    loop.step()
    torch.testing.assert_close(loop.state, worked.state, rtol=0, atol=1e-5)


def test_pages_of_a_batch_do_not_meet() -> None:
    """Boxes of other sizes beside a page, and blank cells around it, change nothing."""
    net = model()
    small = pages("12_*_", "...2_")
    large = pages("2102_*_", ".....1_", ".....2_")
    both = torch.full((2, 5, 9), BLANK, dtype=torch.uint8)
    both[0, 1:3, 2:7], both[1, 2:5, 1:8] = small[0], large[0]
    together = work_in_order(net, both)
    for page, at in (
        (small, (0, slice(1, 3), slice(2, 7))),
        (large, (1, slice(2, 5), slice(1, 8))),
    ):
        alone = work_in_order(net, page)
        assert torch.equal(together.tokens[at], alone.tokens[0])
        torch.testing.assert_close(together.halt_logits[at[0], at[1]], alone.halt_logits[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_head_sees_what_it_reads_alone(layout: str) -> None:
    """What is said of a sight does not depend on where or beside which others it comes."""
    net = model(layout, H_cycles=2, L_cycles=2)
    samples = WindowSamples(TASKS[layout], Canvas(), "train", 0, 50, 50)
    sights = samples.__getitems__(range(50))["numbers"][:50]
    all_at_once, _ = net.cells(sights)
    one_by_one = [net.cells(one)[0] for one in sights.split(1)]
    torch.testing.assert_close(all_at_once, torch.cat(one_by_one))
