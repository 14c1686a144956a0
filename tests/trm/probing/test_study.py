"""A whole study: which problems, what is counted, and that it is the same every time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import SPLITS, Problems, split_of
from trm.probing import study as study_module
from trm.probing.features import watch
from trm.probing.results import ALL, ROW, ProbeStudy
from trm.probing.study import Settings, check_hints, default_sizes, run_probes, training_cells

QUICK = Settings(steps=(1, 2), problems=4, train_problems=24, cells=6, iterations=8)
SIZES = [{"digits_a": 2, "digits_b": 2}, {"digits_a": 3, "digits_b": 2}]


def test_probes_are_fitted_to_training_problems_and_read_on_test_problems(make_solver, monkeypatch):
    seen: dict[bool, list[np.ndarray]] = {True: [], False: []}
    original = study_module.examples

    def noted(solver, problems: Problems, seed=None, first=0):
        seen[seed is not None].append(split_of(problems))
        return original(solver, problems, seed, first)

    monkeypatch.setattr(study_module, "examples", noted)
    run_probes(make_solver(), SIZES, QUICK)
    assert set(np.concatenate(seen[True])) == {SPLITS.index("train")}
    assert set(np.concatenate(seen[False])) == {SPLITS.index("test")}


@pytest.mark.parametrize("family", ["recursive", "looped", "gpt"])
def test_every_family_can_be_probed(make_solver, family):
    found = run_probes(make_solver(family), SIZES, QUICK)
    main, last = {"recursive": ("z_H", 2), "looped": ("state", 2), "gpt": ("norm", 12)}[family]
    assert (found.main, found.last) == (main, last)
    for size in found.measured:
        for hint in found.hints:
            reading = size.at(hint, main, last)
            assert reading is not None
            assert 0 <= reading.probe.low <= reading.probe.value <= reading.probe.high <= 1
            assert reading.head is None
            assert reading.known.total == reading.control.total <= reading.probe.total
        assert size.gap is not None
        assert size.gap.judge == "probe"
        assert size.gap.rows.total == size.rows == size.problems * (size.size["digits_b"] + 1)
        assert size.gap.problems.total == size.problems
    assert [size.region for size in found.sizes] == ["in range", "first beyond"]


def test_the_same_seed_gives_the_same_study_and_another_one_other_figures(make_solver):
    solver = make_solver(crop=True)
    one, two = (run_probes(solver, SIZES, QUICK) for _ in range(2))
    assert one == two
    assert run_probes(solver, SIZES, replace(QUICK, seed=1)).sizes != one.sizes


def test_a_model_with_heads_is_judged_by_them(study: ProbeStudy):
    for size in study.measured:
        assert size.gap is not None
        assert size.gap.judge == "head"
        assert size.gap.hints == list(study.hints)
        assert size.first_error is not None
        assert size.first_error.hint in study.hints
        rows = [size.at(hint, "z_H", 2) for hint in study.hints]
        worst = min(r.head.value for r in rows if r is not None and r.head is not None)
        assert size.first_error.share is not None
        assert size.first_error.share.value == worst


def test_cells_of_the_working_row_are_some_of_all(study: ProbeStudy):
    size = study.measured[0]
    row, every = (size.at("carry", "z_H", 1, scope) for scope in (ROW, ALL))
    assert row is not None
    assert every is not None
    assert row.probe.total < every.probe.total == size.cells
    assert row.probe.right <= every.probe.right


def test_what_states_hold_plainly_is_read_from_them(make_solver, monkeypatch):
    """Where a state is the hint itself, probes are right everywhere, beyond the range, too."""
    solver = make_solver()

    def told(predictor, part, steps, layers):
        watched = watch(predictor, part, steps, layers)
        B = len(part)
        plain = torch.nn.functional.one_hot(torch.from_numpy(part.hints).long() % 16, 16)
        features = dict.fromkeys(watched.features, plain.reshape(B, -1, plain[0, 0, 0].numel()))
        return replace(watched, features={k: v.float() for k, v in features.items()})

    monkeypatch.setattr(study_module, "watch", told)
    found = run_probes(solver, SIZES, replace(QUICK, train_problems=64, iterations=60))
    for size in found.measured:
        values = [r.probe.value for r in size.readings]
        assert min(values) > 0.99
        if min(values) == 1:
            assert size.first_error is not None
            assert size.first_error.hint == ""
            assert size.gap is not None
            assert size.gap.rows.gap == size.rows  # a random model writes no row right


def test_right_answers_and_sub_tasks_are_counted_row_by_row(make_solver, monkeypatch):
    """A model whose answers are right, but for the last row of the first problem."""
    solver = make_solver()

    def solved(predictor, part, steps, layers):
        answers = part.labels.copy()
        last = (part.problem == 0) & (part.rows * part.working.any(axis=2)).any(axis=1)
        index = np.flatnonzero(last)[-1]
        answers[index] = 0
        return replace(watch(predictor, part, steps, layers), answers=answers)

    monkeypatch.setattr(study_module, "watch", solved)
    size = run_probes(solver, SIZES[:1], QUICK).sizes[0]
    assert size.gap is not None
    assert size.gap.rows.gap + size.gap.rows.neither == 1
    assert size.gap.problems.gap + size.gap.problems.neither == 1


def test_as_many_cells_of_an_example_as_are_asked_for(make_solver):
    cells, train = training_cells(make_solver(), QUICK)
    assert train["problems"] == 24
    assert train["cells"] == len(cells.working) == len(cells.hints)
    assert train["working"] <= 24 * QUICK.cells
    assert train["cells"] <= 2 * 24 * QUICK.cells


def test_sizes_without_problems_or_canvas_have_a_reason(make_solver):
    solver = make_solver(
        "recursive", Canvas(7, 8), position="learned", height=7, width=8, neighbourhood="all"
    )
    sizes = [{"digits_a": 2, "digits_b": 2}, {"digits_a": 9, "digits_b": 9}]
    found = run_probes(solver, sizes, QUICK)
    assert [bool(size.reason) for size in found.sizes] == [False, True]
    assert "cannot work on a canvas of 12 x 18 cells" in str(found.sizes[1].reason)
    with pytest.raises(ValueError, match="there is nothing to probe: the model cannot work on"):
        run_probes(solver, sizes[1:], QUICK)
    with pytest.raises(ValueError, match="no problem of 1 x 1 digits in base 3 belongs to"):
        run_probes(solver, [{"digits_a": 1, "digits_b": 1}], QUICK)
    with pytest.raises(ValueError, match="there is nothing to probe: no size"):
        run_probes(solver, [], QUICK)


@pytest.mark.parametrize("task", [Multiplication("lattice"), Addition("column")])
def test_a_layout_without_hints_is_refused(task, make_solver):
    if task.rules.hints:
        pytest.skip("it has hints by now")
    with pytest.raises(ValueError, match=f"the layout {task.layout} has no hints"):
        run_probes(replace(make_solver(), task=task), SIZES, QUICK)
    with pytest.raises(ValueError, match="have hints" if "mult" in task.name else "hint_rows"):
        check_hints(task)


def test_by_default_sizes_are_in_range_and_beyond_in_either_direction():
    task = Multiplication("standard", digits_a=(1, 4), digits_b=(1, 4))
    pairs = [tuple(size.values()) for size in default_sizes(task)]
    assert pairs == [(2, 2), (4, 4), (6, 4), (4, 6), (8, 8)]
    short = Multiplication("standard", digits_a=(1, 1), digits_b=(1, 1))
    assert len(default_sizes(short)) == len({tuple(s.values()) for s in default_sizes(short)}) == 4


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"problems": 0}, "problems must be 1 or more, got 0"),
        ({"steps": ()}, "at least one"),
        ({"steps": (0, 1)}, "from 1 up"),
        ({"l2": -1.0}, "l2 must be 0 or more"),
    ],
)
def test_settings_check_themselves(wrong, told):
    with pytest.raises(ValueError, match=told):
        Settings(**wrong)
