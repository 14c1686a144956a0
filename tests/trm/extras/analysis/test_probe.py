"""Targets and findings of probes, and the counts of a study."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from drawings import LAYOUTS

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.cells.drawn import draw_signals
from canvas.cells.subtasks import draw_subtasks
from canvas.drawing import UNDEFINED
from canvas.layouts import GIVEN
from canvas.multiplication import Lattice, Multiplication
from canvas.problems import SPLITS, Problems, split_of
from canvas.sampling import sample
from canvas.sequences import to_sequences
from canvas.symbols import BLANK, MASK
from trm.evaluation.statistics import Share
from trm.extras.analysis import features, probe
from trm.extras.analysis.features import FeaturePlace, examples, observe
from trm.extras.analysis.probe import fit, run_probes, share
from trm.extras.analysis.record import StepRecorder, token_of_cell
from trm.models.iterative import Loop
from trm.models.states import named

QUICK = probe.ProbeSettings(steps=(1, 2), problems=4, train_problems=6)
SIZES = [{"digits_a": 2, "digits_b": 2}, {"digits_a": 3, "digits_b": 2}]
PROBLEMS = Problems.from_ints([(5, 7), (8, 3), (2, 4)], base=3)


def test_sub_tasks_of_a_row_exclude_its_own_digits(make_solver):
    """The sum of all partial products is the answer itself."""
    solver = make_solver()
    inputs, targets, problem = examples(solver, PROBLEMS)
    drawing, names = solver.draw_worked(PROBLEMS), list(solver.task.local_rule().signals)
    assert problem.tolist() == np.repeat(np.arange(3), drawing.num_rows).tolist()
    masked = inputs == MASK
    assert (targets[~masked] == UNDEFINED).all()
    assert (targets[masked] != UNDEFINED).any(axis=1).all()
    last = np.append(np.diff(problem), 1) == 1  # the row of the answer
    assert (targets[last][..., names.index("sum")] == UNDEFINED).all()
    assert (targets[..., names.index("sum_carry")][masked] != UNDEFINED).all()


@pytest.mark.parametrize("name", [n for n in LAYOUTS if LAYOUTS[n].local_rule])
def test_all_signals_but_the_written_digits_are_sub_tasks(name):
    """Of what is defined nothing is what rows of a kind show, digit by digit."""
    task = (Addition if name in Addition.layouts else Multiplication)(name, base=3)
    problems = sample(task, 0, "train", 0, np.arange(60))
    drawing = task.canvas_layout.draw_worked(problems, 9, 12)
    rule = task.local_rule()
    signals, subtasks = draw_signals(rule, drawing), draw_subtasks(rule, drawing)
    kinds = np.pad(drawing.kinds, ((0, 0), (0, 9 - drawing.kinds.shape[1])), constant_values=-1)
    for kind in np.unique(kinds[kinds > GIVEN]):
        cells = (kinds == kind)[:, :, None] & (drawing.truth != BLANK) & ~drawing.given
        for signal in signals:
            defined = subtasks[signal] != UNDEFINED
            assert (defined == defined[cells].any())[cells].all()
            if defined[cells].any():  # the id of a digit is its class
                assert (signals[signal] != drawing.truth)[cells].any(), signal


@pytest.mark.parametrize("base", [2, 3, 10])
def test_sub_tasks_of_addition_agree_with_integers(base):
    task = Addition("column", base=base, digits=(1, 4), addends=(2, 4))
    problems = sample(task, 0, "train", 0, np.arange(60))
    drawing = task.canvas_layout.draw_worked(problems, 7, 9, top=1, left=1)
    found = draw_subtasks(task.local_rule(), drawing)
    assert list(found) == [*task.local_rule().signals, *task.local_rule().probe_targets]
    for i, numbers in enumerate(problems.to_ints()):
        row, end = 1 + len(numbers), 1 + int(drawing.widths[i])
        lengths = problems.lengths[i]
        for place in range(end - 1):
            column = [
                number // base**place % base if place < length else None
                for number, length in zip(numbers, lengths, strict=False)
            ]
            there = [digit for digit in column if digit is not None]
            expected = {
                "first_addend": 0 if column[0] is None else 1 + column[0],
                "addend_above": 0 if column[-1] is None else 1 + column[-1],
                "digit_sum": 1 + sum(there) % base if there else 0,
                "sum": UNDEFINED,
            }
            for name, value in expected.items():
                assert found[name][i, row, end - 1 - place] == value, (name, numbers, place)


def test_a_gpt_is_read_where_it_writes_a_cell(make_solver):
    solver = make_solver("gpt")
    inputs, targets, _ = examples(solver, PROBLEMS)
    drawing = solver.draw_worked(PROBLEMS)
    kinds = np.pad(drawing.kinds, ((0, 0), (0, inputs.shape[1] - drawing.kinds.shape[1])))
    written = (kinds != GIVEN)[:, :, None] & ~drawing.given
    for i, held in enumerate(draw_subtasks(solver.task.local_rule(), drawing).values()):
        assert (targets[..., i] == np.where(written, held, UNDEFINED))[written].all()
        assert (targets[..., i][drawing.given] == UNDEFINED).all()


@pytest.mark.parametrize("more", [{}, {"crop": True}, {"num_prefixes": 1, "prefix_length": 2}])
def test_states_are_those_after_each_supervision_step(make_solver, more):
    solver = make_solver(**more)
    inputs = examples(solver, PROBLEMS)[0]
    observed = observe(solver.predictor, inputs, (1, 3))
    assert list(observed.features) == [
        FeaturePlace(features.INPUT, 0),
        *(FeaturePlace(name, step) for step in (1, 3) for name in ("z_H", "z_L")),
    ]
    loop = Loop(solver.predictor.model, torch.from_numpy(inputs))
    loop.advance(3)
    for name, state in named(loop.state).items():
        own = state[:, more.get("prefix_length", 0) :]
        assert torch.equal(observed.features[FeaturePlace(name, 3)], own)
    assert observed.main == "z_H"


@pytest.mark.parametrize("loops", [1, 2])
def test_a_gpt_is_read_after_each_block(make_solver, loops):
    solver = make_solver("gpt", num_layers=3, loops=loops)
    inputs = examples(solver, PROBLEMS)[0]
    observed = observe(solver.predictor, inputs, (1,))
    blocks = [FeaturePlace(features.BLOCKS, step) for step in range(1, 3 * loops + 1)]
    assert list(observed.features) == [FeaturePlace(features.INPUT, 0), *blocks]
    gpt, (_, H, W) = solver.predictor.model, inputs.shape
    x = gpt.activations(torch.from_numpy(to_sequences(inputs)), H, W)
    read = gpt.norm(observed.features[blocks[-1]])
    torch.testing.assert_close(read, x[:, token_of_cell(H, W)])


def test_states_are_of_tokens_also_without_updates(make_solver, monkeypatch):
    solver = make_solver()
    inputs = examples(solver, PROBLEMS)[0]
    recorder = StepRecorder(solver.predictor.model, inputs, 1)
    with pytest.raises(ValueError, match="one vector for each cell"):
        recorder.by_token("mine", torch.zeros(len(recorder.cells), 16))
    monkeypatch.setattr(type(solver.predictor.model), "updates", ())
    assert observe(solver.predictor, inputs, (1,), layers=True).main == "z_H"


def test_probes_ignore_unlabelled_cells_and_constant_features():
    random = torch.Generator().manual_seed(0)
    features, y = torch.randn(100, 4, generator=random), torch.arange(100) % 3
    more = torch.cat((features, torch.full((20, 4), 50.0)))
    padded = torch.cat((y, torch.full((20,), UNDEFINED)))
    assert torch.equal(fit(features, y, 3).weight, fit(more, padded, 3).weight)
    free, decayed = (fit(features, y, 3, l2=l2).weight.norm() for l2 in (0.0, 1.0))
    assert decayed < free / 3
    fitted = fit(torch.cat((features, torch.ones(100, 1)), dim=1), y, 9)
    assert not fitted.weight[-1].any()
    assert fitted.predict(torch.ones(9, 5)).max() < 3  # never a class that did not occur


def test_the_interval_of_cells_is_that_of_problems():
    """Cells that are right or wrong by whole problems tell as much as one cell of each."""
    right, total = np.arange(50) < 30, np.ones(50, dtype=np.int64)
    one = share(right * total, total)
    many = share(100 * right * total, 100 * total)
    assert one.interval == many.interval
    assert abs(one.interval[0] - Share(30, 50).interval[0]) < 0.04
    assert share(total, total) == Share(50, 50, ends=Share(50, 50).interval)
    assert share(0 * total, total).interval[1] == Share(0, 50).interval[1]


@pytest.mark.parametrize("family", ["recursive", "gpt"])
def test_every_family_with_states_can_be_probed_on_test_problems(make_solver, family, monkeypatch):
    seen: list[np.ndarray] = []
    original = features.examples

    def noted(solver, problems: Problems, *more):
        seen.append(split_of(problems))
        return original(solver, problems, *more)

    monkeypatch.setattr(features, "examples", noted)
    monkeypatch.setattr(probe, "fit", partial(fit, iterations=4))
    solver = make_solver(family, num_layers=2)
    found = run_probes(solver, SIZES, QUICK)
    assert found.main == {"recursive": "z_H", "gpt": "block"}[family]
    assert found.sizes == {"2 x 2 digits": "in range", "3 x 2 digits": "first beyond"}
    sites = {"recursive": 5, "gpt": 3}[family]
    assert len(found.readings) == sites * 2 * len(found.subtasks)
    for reading in found.readings:
        low, high = reading.probe.interval
        assert 0 <= low <= reading.probe.value <= high <= 1
    steps = [one.step for one in found.of("carry", "2 x 2 digits")]
    assert steps == [0, 1, 2]
    train, test = ({SPLITS.index(split)} for split in ("train", "test"))
    assert [set(split) for split in seen[:3]] == [train, test, test]
    assert run_probes(solver, SIZES, QUICK).readings == found.readings
    data = json.loads(json.dumps(found.to_json()))
    assert data["readings"][0]["probe"] == found.readings[0].probe.data()


def test_probes_read_linear_features_on_defined_cells_alone():
    random = np.random.default_rng(0)
    targets = random.integers(4, size=(600, 2)).astype(np.uint8)
    targets[:100, 1] = UNDEFINED
    features = F.one_hot(torch.from_numpy(targets.clip(max=4)).long(), 5).flatten(1)
    labels = torch.from_numpy(targets)
    probes = [fit(features.float(), of, 4) for of in labels.T]
    said = np.stack([one.predict(features) for one in probes], axis=1)
    read = probe.shares_right(said, targets, np.arange(600) // 10)
    assert [(one.right, one.total) for one in read] == [(600, 600), (500, 500)]


def test_models_that_cannot_be_probed_are_refused(make_solver, monkeypatch):
    learned = {"position": "learned", "height": 7, "width": 8, "neighbourhood": "all"}
    solver = make_solver("recursive", Canvas(7, 8), **learned)
    sizes = [{"digits_a": 2, "digits_b": 2}, {"digits_a": 9, "digits_b": 9}]
    with pytest.raises(ValueError, match="cannot work on a canvas of 12 x 18"):
        run_probes(solver, sizes, QUICK)
    with pytest.raises(ValueError, match="no problem of 1 x 1 digits in base 3 belongs to"):
        run_probes(solver, [{"digits_a": 1, "digits_b": 1}], QUICK)
    with pytest.raises(ValueError, match="cells of a cell model read decided messages"):
        run_probes(make_solver("local"), sizes, QUICK)
    monkeypatch.setattr(Lattice, "local_rule", None)
    with pytest.raises(ValueError, match=r"lattice declares no local rule.*standard"):
        run_probes(replace(solver, task=Multiplication("lattice")), sizes, QUICK)
