"""The compositionality gap: its shares by hand, its probes, and every family."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from canvas.drawing import UNDEFINED
from canvas.multiplication import Multiplication
from trm.evaluation.statistics import Share
from trm.extras.analysis import gap
from trm.extras.analysis.features import INPUT, CellFeatures, FeaturePlace
from trm.extras.analysis.gap import BLOCKS, HEAD, PROBE, Reader, best_probe, gap_of, run_gap
from trm.extras.analysis.probe import ProbeSettings, fit

QUICK = ProbeSettings(steps=(1, 2), problems=5, train_problems=12)
SIZES = [{"digits_a": 2, "digits_b": 2}, {"digits_a": 3, "digits_b": 2}]


def test_a_gap_is_the_share_of_sub_tasks_less_that_of_problems():
    """Ten problems: all sub-tasks are correct on six, of which four are solved; and one more."""
    carry = np.array([1, 1, 1, 1, 1, 1, 1, 1, 0, 0], dtype=bool)
    total = np.array([1, 1, 1, 1, 1, 1, 0, 0, 1, 0], dtype=bool)
    solved = np.array([1, 1, 1, 1, 0, 0, 1, 0, 0, 0], dtype=bool)
    found = gap_of("3 x 2 digits", "in range", {"carry": carry, "sum": total}, solved)
    assert found.subtasks == {"carry": Share(8, 10), "sum": Share(7, 10)}
    assert (found.together, found.solved) == (Share(6, 10), Share(5, 10))
    assert found.gap == pytest.approx(0.1)
    assert found.failed == Share(2, 6)
    assert -1 <= found.low < 0.1 < found.high <= 1
    alone = gap_of("", "", {"carry": carry}, carry)
    assert alone.gap == 0
    assert alone.low < 0 < alone.high
    assert found.short == f"10.0 ({100 * found.low:.1f} to {100 * found.high:.1f})"


def test_the_interval_is_that_of_the_same_problems():
    """Newcombe's method 10 with its correlation: narrower than that of independent problems."""
    together = np.arange(200) < 120
    solved = np.arange(200) < 100
    found = gap_of("", "", {"carry": together}, solved)
    assert found.gap == pytest.approx(0.1)
    assert 0.05 < found.low < 0.1 < found.high < 0.16
    apart = gap_of("", "", {"carry": together}, np.roll(solved, 100))
    assert apart.high - apart.low > 2 * (found.high - found.low)


def test_a_problem_is_correct_if_all_its_defined_cells_are():
    truth = np.array([1, 2, UNDEFINED, 3, 4, 5], dtype=np.uint8)
    predicted = np.array([1, 2, 9, 3, 0, 5])
    problem = np.array([0, 0, 0, 1, 1, 2])
    assert gap.correct_problems(predicted, truth, problem, 4).tolist() == [1, 0, 1, 1]


def test_a_probe_reads_the_state_that_contains_the_sub_task():
    random = np.random.default_rng(0)
    labels = random.integers(3, size=300).astype(np.uint8)
    known = F.one_hot(torch.from_numpy(labels).long(), 3).float()
    noise = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    features = {
        FeaturePlace(INPUT, 0): known,
        FeaturePlace("z_H", 1): noise,
        FeaturePlace("z_L", 2): known,
    }
    cells = CellFeatures(features, labels[:, None], np.arange(300) // 2)
    point, found = best_probe(cells, labels, 3)
    assert point == FeaturePlace("z_L", 2)  # the input is no state
    assert (found.predict(known) == labels).all()


@pytest.mark.parametrize("family", ["recursive", "gpt"])
def test_every_family_with_states_has_a_gap(make_solver, family, monkeypatch):
    monkeypatch.setattr(gap, "fit", partial(fit, iterations=3))
    solver = make_solver(family, num_layers=2)
    found = run_gap(solver, SIZES, QUICK)
    assert [one.size for one in found.gaps] == ["2 x 2 digits", "3 x 2 digits"]
    assert [one.region for one in found.gaps] == ["in range", "first beyond"]
    assert list(found.readers) == ["multiplicand", "multiplier", "carry"]
    for one in found.gaps:
        assert one.together.right <= min(share.right for share in one.subtasks.values())
        assert one.solved == Share(0, one.together.total)  # weights are random
        assert one.gap == one.together.value
    assert all(reader.kind == PROBE for reader in found.readers.values())
    data = json.loads(json.dumps(found.to_json()))
    assert data["gaps"][0]["together"] == found.gaps[0].together.data()
    assert run_gap(solver, SIZES, QUICK).gaps == found.gaps
    zero = make_solver(family, num_layers=2).predictor.model.config.hidden_size
    head = torch.zeros(3, zero), torch.tensor([0.0, 9.0, 0.0])  # class 1, a carry of 0, always
    read = run_gap(solver, SIZES[:1], QUICK, ["carry", "multiplier"], {"carry": head})
    assert read.readers["carry"].kind == HEAD
    assert read.readers["carry"].site == {"recursive": "z_H", "gpt": BLOCKS}[family]
    assert read.readers["carry"].step == 2
    assert read.readers["multiplier"].kind == PROBE


def test_auxiliary_heads_of_a_gpt_read_normalised_states(make_solver, monkeypatch):
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(gap, "fit", partial(fit, iterations=1))
    solver = make_solver("gpt", num_layers=1)
    with torch.no_grad():
        solver.predictor.model.norm.weight.mul_(7)
    original = gap.LinearProbe.predict
    monkeypatch.setattr(
        gap.LinearProbe, "predict", lambda self, x: (seen.append(x), original(self, x))[1]
    )
    head = torch.zeros(3, 16), torch.zeros(3)
    run_gap(solver, SIZES[:1], QUICK, ["carry"], {"carry": head})
    assert seen[0].std().item() == pytest.approx(7, rel=0.1)


def test_models_without_a_gap_are_refused_with_a_reason(make_solver):
    with pytest.raises(ValueError, match="cells of a cell model read decided messages"):
        run_gap(make_solver("local"), SIZES, QUICK)
    solver = make_solver()
    with pytest.raises(ValueError, match=r"a sub-task must be one of .*Did you mean carry"):
        run_gap(solver, SIZES, QUICK, ["cary"])
    with pytest.raises(ValueError, match=r"product is no sub-task .*carry"):
        run_gap(solver, SIZES[:1], QUICK, ["product"])
    with pytest.raises(ValueError, match="declares no local rule"):
        run_gap(replace(solver, task=Multiplication("direct", base=3)), SIZES, QUICK)


def test_a_reader_is_named_by_its_state():
    assert str(Reader(PROBE, BLOCKS, 3)) == "probe (block 3)"
    assert str(Reader(HEAD, "z_H", 8)) == "auxiliary head (z_H, step 8)"
