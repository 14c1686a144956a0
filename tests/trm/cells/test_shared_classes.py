"""Cell models without attention, and with one table of classes for all signals."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from canvas.addition import Addition
from canvas.cells.reachable import reachable_op_inputs
from canvas.cells.spec import SYMBOL
from canvas.multiplication import Multiplication
from canvas.symbols import BLANK, DIGIT_IDS, MASK, PAD, PLUS, TIMES
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel
from trm.cells.proof.bound import RoundingBound
from trm.cells.quantise import quantised
from trm.cells.shared_classes import SharedClasses
from trm.models.attention import rms_norm

TASKS = {"standard": Multiplication(base=3), "column": Addition(layout="column", base=3)}
RULES = {name: task.local_rule() for name, task in TASKS.items()}


@cache
def ids_of(layout: str) -> torch.Tensor:
    return torch.from_numpy(reachable_op_inputs(RULES[layout]))


def model(layout: str, **settings: object) -> CellModel:
    torch.manual_seed(0)
    config = {"hidden_size": 6, "num_heads": 0, "intermediate_size": 8, "shared_classes": True}
    found = CellModel(CellConfig(**{**config, **rule_settings(RULES[layout]), **settings}))  # type: ignore[arg-type]
    for part in found.parameters():  # no zeros, so that each of them counts
        torch.nn.init.normal_(part)
    return found.eval()


def test_a_class_has_one_row_and_a_signal_one_vector_of_scales():
    outputs = {SYMBOL: 18, "carry": 3, "sum": 11}
    shared = SharedClasses(outputs, presence=False, hidden_size=4)
    assert sum(part.numel() for part in shared.parameters()) == (13 + 3 + 3) * 4 + 11 == 87
    torch.nn.init.normal_(shared.bias)
    table, read, written = shared.table, shared.read, shared.written
    seven, ten = int(DIGIT_IDS[7]), 3 + 8
    assert torch.equal(shared.tokens[seven], table[8] * read[0])
    assert torch.equal(shared.messages[ten], table[8] * read[2]), "the digit 7 of the sum"
    assert torch.equal(shared.messages[1], table[1] * read[1]), "the digit 0 of the carry"
    weight, bias = shared.outputs
    assert torch.equal(weight[seven], table[8] * written[0])
    assert torch.equal(weight[18 + ten], table[8] * written[2])
    assert bias[seven] == bias[18 + ten] == shared.bias[8]


def test_blank_is_no_digit_and_mask_and_sign_are_never_written():
    shared = SharedClasses({SYMBOL: 18, "sum": 11}, presence=True, hidden_size=4)
    tokens, (weight, bias) = shared.tokens, shared.outputs
    assert torch.equal(tokens[BLANK], shared.table[0] * shared.read[0])
    assert torch.equal(tokens[MASK], shared.table[11] * shared.read[0])
    assert torch.equal(tokens[PLUS], tokens[TIMES])
    assert not tokens[PAD].any()
    never = [PAD, MASK, TIMES, PLUS]
    assert not weight[never].any()
    assert (bias[never] == -30).all()
    assert len(shared.messages) == 11 + 2
    assert torch.equal(shared.messages[-1], shared.table[1] * shared.read[2]), "a neighbour exists"


@pytest.mark.parametrize("heads", [0, 2])
@pytest.mark.parametrize("layout", TASKS)
@torch.no_grad()
def test_shared_classes_compute_as_separate_weights(layout: str, heads: int) -> None:
    small = model(layout, num_heads=heads)
    plain = CellModel(replace(small.config, shared_classes=False))
    own = {n: part for n, part in small.state_dict().items() if not n.startswith("embed_shared")}
    plain.load_state_dict(own | small.plain_weights())
    assert plain.plain_weights() == {}
    inputs = small.reader.decode(ids_of(layout))
    for mine, its in zip(small.cells(inputs), plain.cells(inputs), strict=True):
        assert torch.equal(mine, its)


@torch.no_grad()
def test_without_attention_a_cell_adds_its_neighbours_messages():
    net, rule = model("column"), RULES["column"]
    values = {"right": 0, "above": 1, "right.sum_carry": 0, "above.addend": 2, "above.sum": 3}
    seen = {name: np.array([value]) for name, value in {**values, "token": MASK}.items()}
    inputs = net.reader.decode(torch.from_numpy(rule.encoding.encode(0, seen)))
    first, layer = net.class_starts, net.layers[0]
    added = net.message_weight[first["addend"] + 2] + net.message_weight[first["sum"] + 3]
    added = added * net.message_scale
    x, z_H, z_L = net.token_weight[MASK] * net.scale, net.H_init, net.L_init

    def network(z: torch.Tensor) -> torch.Tensor:
        z = rms_norm(z + added)
        return rms_norm(z + layer.mlp(z))

    z_L = network(z_L + z_H + x)
    weight, bias = net.output_weights
    torch.testing.assert_close(net.cells(inputs)[0][0], weight @ network(z_H + z_L) + bias)


@pytest.mark.parametrize("settings", [{}, {"num_heads": 2}, {"shared_classes": False}])
@pytest.mark.parametrize("layout", TASKS)
@torch.no_grad()
def test_rounding_of_shared_classes_is_within_the_bound(layout: str, settings: dict) -> None:
    net, ids = model(layout, **settings), ids_of(layout)
    inputs = net.reader.decode(ids)
    labels = net.decided(net.cells(inputs)[0])
    single = net.margins(net.cells(inputs)[0], labels).double()
    left = RoundingBound(net, "float32").left(ids, labels)
    exact = net.double().margins(net.cells(inputs)[0], labels)
    assert (single - exact).abs().max() > 0
    assert ((single - exact).abs() < exact - left).all()


@pytest.mark.parametrize("settings", [{}, {"num_heads": 2}, {"shared_classes": False}])
def test_integer_models_have_attention_and_a_row_for_each_class(settings: dict) -> None:
    with pytest.raises(ValueError, match="an integer model has attention"):
        quantised(model("column", **settings), ids_of("column"), 8)


def test_latent_codes_are_no_classes_of_digits():
    with pytest.raises(ValueError, match="shared_classes is for signals with hints"):
        model("column", codes={"sum": 8})
