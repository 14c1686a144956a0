"""A cell model in integers: exact, equal everywhere, and refused where integers could overflow."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from canvas.multiplication import Multiplication
from trm.cells import quantise
from trm.cells.cache import CellCache
from trm.cells.configs import CellConfig, IntegerCellConfig, rule_settings
from trm.cells.integer import FRACTION, Fraction, IntegerCellModel, Rows, divided, powers, root
from trm.cells.model import CellModel
from trm.cells.quantise import differing, nearest, quantised, refined, some_of
from trm.runtime.torch_settings import float32_default


@pytest.fixture(scope="module", params=["binary", "ternary", "sums", "written"])
def pair(request) -> tuple[CellModel, IntegerCellModel, torch.Tensor]:
    """A trained model, the same in integers, and all op inputs that its cells can have."""
    trained = request.getfixturevalue(request.param)
    ids = torch.from_numpy(trained.comparison.numbers)
    return trained.model, quantised(trained.model, ids, 8), ids


def test_int8_weights_decide_as_floats_on_all_inputs(pair):
    model, integer, ids = pair
    assert differing(model, integer, ids) == 0
    assert integer.num_parameters == model.num_parameters
    assert not any(tensor.is_floating_point() for tensor in integer.state_dict().values())


def test_weights_of_4_bits_decide_the_same_once_fine_tuned(binary):
    ids = torch.from_numpy(binary.comparison.numbers)
    tuned = refined(binary.model, ids, 4, steps=60)
    integer = quantised(tuned, ids, 4)
    assert differing(binary.model, integer, ids) == 0
    assert integer.num_parameters == binary.model.num_parameters
    packed, weight = integer.layers[0].gate_up.packed, tuned.layers[0].mlp.gate_up.weight
    assert packed.numel() * 2 == weight.numel()
    assert tuned.state_dict().keys() == binary.model.state_dict().keys()
    # What it was fine-tuned with is what it gets.
    integers, _ = nearest(tuned.layers[0].mixing.out.weight, 4)
    assert torch.equal(integers.int(), integer.layers[0].out.integers)


def half_up(x: np.ndarray, y: np.ndarray | int) -> np.ndarray:
    return (2 * x + y) // (2 * y)


def by_numpy(model: IntegerCellModel, ids: torch.Tensor) -> np.ndarray:
    """Logits and halt logits in units of 2 ** −10, by int64 alone, [N, classes + 1]."""
    config, op_inputs = model.config, model.reader.decode(ids)
    token, op, places, present = (
        part.numpy()
        for part in (op_inputs.token, op_inputs.op, op_inputs.places, op_inputs.present)
    )

    def scaled(x: np.ndarray, part: Fraction) -> np.ndarray:
        shift = part.shift.long().numpy()
        return (x * part.multiplier.long().numpy() + 2 ** (shift - 1)) >> shift

    def rows(part: Rows, x: np.ndarray) -> np.ndarray:
        return scaled(x @ part.integers.long().numpy().T, part.fraction)

    def embeddings(part: Rows) -> np.ndarray:
        return scaled(part.integers.long().numpy().T, part.fraction).T

    def small(x: np.ndarray) -> np.ndarray:
        return x.clip(-127, 127)

    def norm(x: np.ndarray) -> np.ndarray:
        x, D = x.clip(-(2**20), 2**20), x.shape[1]
        sizes = [math.isqrt((int((row**2).sum()) + 10 * D) << 8) for row in x]
        return half_up(x * math.isqrt(D << 28), np.array(sizes)[:, None])

    table = embeddings(model.embed_messages)
    sums = torch.cat(model.message_sums(torch.from_numpy(table))).numpy()
    messages = small(scaled(sums.clip(-(2**20), 2**20), model.to_message))
    x = embeddings(model.embed_tokens)[token]
    if model.embed_ops is not None:
        x = x * op_inputs.reads_token.numpy() + embeddings(model.embed_ops)[op]

    def network(x: np.ndarray) -> np.ndarray:
        for block in model.layers:
            x = x.clip(-(2**20), 2**20)
            q = small(rows(block.query, small(scaled(x, block.to_query))))
            both = small(rows(block.key_value, messages))[places]
            N, directions, heads = len(x), places.shape[1], config.num_heads
            k, v = both.reshape(N, directions, 2, heads, -1).transpose(2, 0, 1, 3, 4)
            scores = (q.reshape(N, 1, heads, -1) * k).sum(-1) + block.direction.long().numpy().T
            best = np.where(present[..., None], scores, -(2**29)).max(1, keepdims=True)
            below = scaled((best - scores).clip(0, 2**20), block.octaves)
            halves = np.array([round(2 ** (15 - i / 256)) for i in range(256)])
            weights = (halves[below % 256] >> (below // 256).clip(max=31)) * present[..., None]
            total = weights.sum(1).clip(min=1)[..., None]
            mixed = half_up((weights[..., None] * v).sum(1), total).reshape(N, -1)
            x = norm(x + rows(block.out, mixed))
            gate, up = np.split(small(rows(block.gate_up, small(scaled(x, block.to_mlp)))), 2, 1)
            hidden = small(scaled(block.silu.long().numpy()[gate + 127] * up, block.to_hidden))
            x = norm(x + rows(block.down, hidden))
        return x

    z_H, z_L = (np.broadcast_to(z.long().numpy(), x.shape) for z in (model.H_init, model.L_init))
    for _ in range(config.H_cycles):
        for _ in range(config.L_cycles):
            z_L = network(z_L + z_H + x)
        z_H = network(z_H + z_L)
    return rows(model.head, small(scaled(z_H, model.to_head))) + model.head_bias.long().numpy()


def test_numpy_with_integers_of_64_bits_finds_the_same_logits(pair):
    _, integer, ids = pair
    logits, halting = integer.cells(integer.reader.decode(ids))
    found = torch.cat((logits, halting[:, None]), dim=1) * 2**FRACTION
    assert found.dtype == torch.float32
    assert np.array_equal(found.long().numpy(), by_numpy(integer, ids))
    assert torch.equal(found.long().float(), found), "all are whole numbers"


def test_integer_logits_ignore_batches_threads_and_autocast(pair):
    _, integer, ids = pair
    every = integer.cells(integer.reader.decode(ids))

    def same(found: Any) -> bool:
        pairs = zip(found, every, strict=True)
        return all(torch.equal(one, other[: len(one)]) for one, other in pairs)

    parts = [integer.cells(integer.reader.decode(part)) for part in ids[:150].split(37)]
    assert same(map(torch.cat, zip(*parts, strict=True)))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert same(integer.cells(integer.reader.decode(ids[:150])))
        torch.set_num_threads(before)
        with torch.autocast("cpu", torch.bfloat16):
            assert same(integer.cells(integer.reader.decode(ids)))
        torch.set_default_dtype(torch.float64)
        assert same(integer.cells(integer.reader.decode(ids)))
    finally:
        torch.set_num_threads(before)
        torch.set_default_dtype(torch.float32)
    assert integer.computes_as_proved


def test_roots_quotients_and_powers_are_exact():
    squares = [n * n + d for n in (1, 2, 1000, 2**29 - 1) for d in (-1, 0, 1)]
    x = torch.tensor([0, 2, 3, 2**58 - 1, 2**60, *squares])
    assert root(x).tolist() == [math.isqrt(n) for n in x.tolist()]
    quotients = divided(torch.tensor([7, 5, -5, -7, 6, 0]), torch.tensor([2, 2, 2, 2, 4, 9]))
    assert quotients.tolist() == [4, 3, -2, -3, 2, 0], "halves are rounded up"
    # 2 ** 15, 2 ** 14.5, 2 ** 14, 2 ** −1 (rounded down), and a power that is nothing.
    assert powers(torch.tensor([0, 128, 256, 4096, 2**30])).tolist() == [32768, 23170, 16384, 0, 0]
    # No power lies so near to a half that a machine could round it otherwise.
    rest = [2 ** (15 - i / 256) % 1 for i in range(256)]
    assert min(abs(one - 0.5) for one in rest) > 1e-4


def test_fractions_round_and_do_not_overflow():
    part = Fraction()
    part.multiplier.fill_(3)
    part.shift.fill_(2)
    assert part(torch.tensor([10, 9, -9, -10], dtype=torch.int32)).tolist() == [8, 7, -7, -7]
    part.set(torch.tensor([1 / 3], dtype=torch.float64), torch.tensor([2**20]))
    assert part(torch.tensor([3, 300, 2**20], dtype=torch.int32)).tolist() == [1, 100, 349440]
    part.check("it", torch.tensor([2**20]))
    with pytest.raises(ValueError, match="it has a multiplier with which integers overflow"):
        part.check("it", torch.tensor([2**22]))
    with pytest.raises(ValueError, match="too large for integers of 32 bits"):
        part.set(torch.tensor([5000.0], dtype=torch.float64), torch.tensor([2**20]))


@pytest.mark.parametrize("columns", [4, 5])
def test_two_weights_of_4_bits_share_a_byte(columns):
    rows = Rows(2, columns, 4)
    weight = torch.tensor([[-7, 7, 0, 1, 5], [3, -1, 2, -2, 6]])[:, :columns]
    rows.set(weight, torch.ones(2, dtype=torch.float64), inputs=False)
    assert torch.equal(rows.integers, weight.int())
    assert rows.packed[0, 0] == (7 + 8) * 16 + (-7 + 8)
    assert rows.embeddings().tolist() == weight.tolist()


def test_weights_that_could_overflow_are_refused_by_name():
    rule = Multiplication(base=2, layout="lattice").local_rule()
    shape = {"hidden_size": 16, "num_heads": 2, "intermediate_size": 16}
    with float32_default():
        model = IntegerCellModel(IntegerCellConfig(**rule_settings(rule), **shape))
    model.check_weights()

    def refused(name: str, value: int) -> str:
        tensor = model.state_dict()[name]
        before = tensor.clone()
        tensor.fill_(value)
        with pytest.raises(ValueError, match=r".+") as error:
            model.check_weights()
        tensor.copy_(before)
        return str(error.value)

    overflows = "has a multiplier with which integers overflow"
    assert refused("to_message.multiplier", 2**12) == f"to_message {overflows}"
    assert refused("layers.0.to_mlp.multiplier", 2**30) == f"layers.0.to_mlp {overflows}"
    for value in (0, 31, -1):
        assert "or a shift that is not 1 to 30" in refused("layers.0.out.fraction.shift", value)
    said = refused("layers.0.down.fraction.multiplier", -1)
    assert "layers.0.down has a multiplier below 0" in said
    assert refused("H_init", 2**25) == "H_init is larger than 16,777,216"
    assert refused("layers.0.direction", -(2**30)) == "layers.0.direction is larger than 16,777,216"
    with pytest.raises(ValueError, match="weight_bits must be 8 or 4, got 3"):
        IntegerCellConfig(weight_bits=3)
    assert not hasattr(CellConfig(), "weight_bits")


def test_given_symbols_and_outputs_of_other_ops_are_no_decisions(binary, written):
    for trained in (binary, written):
        ids = trained.comparison.numbers
        decided = CellCache(trained.model).decide(ids)
        assert (decided == trained.rule.decide(ids)).all()


def test_rare_kinds_of_inputs_are_drawn_as_often_as_others(binary, monkeypatch):
    ids, model = torch.from_numpy(binary.comparison.numbers), binary.model

    def kinds(some: torch.Tensor) -> torch.Tensor:
        one = model.reader.decode(some)
        kind = torch.cat((one.token[:, None], one.present.long()), dim=1)
        return kind.unique(dim=0, return_counts=True)[1]

    drawn = quantise._Draw(model, ids)(1000)
    assert (drawn[:, None] == ids).any(dim=1).all()
    monkeypatch.setattr(quantise, "_BATCH", 50)
    drawn = quantise._Draw(model, ids)(1000)
    assert (drawn[:, None] == ids).any(dim=1).all()
    counts = kinds(ids)
    assert kinds(ids).min() < 0.02 * len(ids), "some kinds are rare"
    assert len(kinds(drawn)) == len(counts)
    assert kinds(drawn).min() > 0.7 * 500 / len(counts)
    assert torch.equal(some_of(model, ids), ids)
    monkeypatch.setattr(quantise, "MOST_INPUTS", 100)
    assert len(kinds(some_of(model, ids))) == len(counts)
