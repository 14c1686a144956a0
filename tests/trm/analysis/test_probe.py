"""What probes are fitted to, what they find, and what a study counts."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.layouts import GIVEN
from canvas.multiplication import Lattice, Multiplication
from canvas.problems import SPLITS, Problems, split_of
from canvas.render import draw_worked, to_sequences
from canvas.sampling import sample
from canvas.symbols import BLANK, MASK
from canvas.windows import UNDEFINED, draw_fields
from trm.analysis import probe
from trm.analysis.probe import (
    BLOCKS,
    INPUT,
    NORM,
    Point,
    cell_types,
    control_labels,
    draw_subtasks,
    examples,
    fit,
    observe,
)
from trm.analysis.probe_report import (
    FirstError,
    ProbeStudy,
    Table,
    first_error,
    pooled,
    print_study,
)
from trm.analysis.probe_study import Settings, default_sizes, run_probes, share
from trm.analysis.record import StepRecorder, token_of_cell
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.evaluation.statistics import Share
from trm.models.iterative import Loop, named

LAYOUTS = Multiplication.layouts | Addition.layouts
QUICK = Settings(steps=(1, 2), problems=4, train_problems=24, cells=6, iterations=8)
SIZES = [{"digits_a": 2, "digits_b": 2}, {"digits_a": 3, "digits_b": 2}]
PROBLEMS = Problems.from_ints([(5, 7), (8, 3), (2, 4)], base=3)


def test_all_rows_of_all_problems_or_one_of_each(make_solver):
    solver = make_solver()
    every = examples(solver, PROBLEMS)
    assert len(every) == int(solver.draw(PROBLEMS).steps.sum())
    assert ((every.inputs == MASK) == every.filled).all()
    one = examples(solver, PROBLEMS, seed=3)
    assert one.problem.tolist() == [0, 1, 2]
    chosen = [every.inputs[every.problem == i] for i in range(3)]
    for row, rows in zip(one.inputs, chosen, strict=True):
        assert (rows == row).all(axis=(1, 2)).any()


def test_sub_tasks_are_known_down_to_the_row_that_is_filled_in_but_for_what_it_writes(make_solver):
    """The sum of all partial products is the answer itself; above, it is one on the way there."""
    solver = make_solver()
    every, names = examples(solver, PROBLEMS), list(solver.task.local_rule().fields)
    row, column = np.argwhere(every.labels[0] != 11)[0]  # the highest digit of the first operand
    assert (every.rows[0, row], every.columns[0, column]) == (0, 1)  # 5 is 12 in base 3
    assert (every.first == 2).all()
    below = every.rows > (every.rows * every.filled.any(axis=2)).max(axis=1, keepdims=True)
    assert (every.targets[below] == UNDEFINED).all()
    assert (every.targets[every.filled] != UNDEFINED).any(axis=1).all()
    last = (every.rows == 4)[:, :, None] & every.filled  # of 2 + 2 digits: rows 0 to 4
    total = every.targets[..., names.index("sum")]
    assert last.any()
    assert (total[last] == UNDEFINED).all()
    assert (total[every.filled & ~last & (every.rows < 4)[:, :, None]] != UNDEFINED).all()
    assert (every.targets[..., names.index("sum_carry")][last] != UNDEFINED).all()


@pytest.mark.parametrize("name", [n for n in LAYOUTS if LAYOUTS[n].local_rule])
def test_what_a_row_writes_is_no_sub_task_there_and_every_other_field_is(name):
    """Of what is defined nothing is what rows of a kind show, digit by digit."""
    task = (Addition if name in Addition.layouts else Multiplication)(name, base=3)
    problems = sample(task, 0, "train", 0, np.arange(60))
    drawing = draw_worked(task.rules.work(problems), 9, 12)
    fields, subtasks = (
        draw_fields(task.local_rule(), drawing),
        draw_subtasks(task.local_rule(), drawing),
    )
    kinds = np.pad(drawing.kinds, ((0, 0), (0, 9 - drawing.kinds.shape[1])), constant_values=-1)
    for kind in np.unique(kinds[kinds > GIVEN]):
        cells = (kinds == kind)[:, :, None] & (drawing.truth != BLANK) & ~drawing.given
        for field in fields:
            defined = subtasks[field] != UNDEFINED
            assert (defined == defined[cells].any())[cells].all()
            if defined[cells].any():  # the id of a digit is its class
                assert (fields[field] != drawing.truth)[cells].any(), field


@pytest.mark.parametrize("base", [2, 3, 10])
def test_sub_tasks_of_addition_are_what_integers_say(base):
    task = Addition("column", base=base, digits=(1, 4), addends=(2, 4))
    problems = sample(task, 0, "train", 0, np.arange(60))
    drawing = draw_worked(task.rules.work(problems), 7, 9, top=1, left=1)
    found = draw_subtasks(task.local_rule(), drawing)
    assert list(found) == [*task.local_rule().fields, *task.local_rule().besides]
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
    every = examples(solver, PROBLEMS)
    drawing = solver.draw_worked(PROBLEMS)
    for i, held in enumerate(draw_subtasks(solver.task.local_rule(), drawing).values()):
        assert (every.targets[..., i] == np.where(every.filled, held, UNDEFINED)).all()
    assert every.filled.any(axis=2).sum() == drawing.steps.sum()


@pytest.mark.parametrize("more", [{}, {"crop": True}, {"num_prefixes": 1, "prefix_length": 2}])
def test_states_are_those_after_each_supervision_step(make_solver, more):
    solver = make_solver(**more)
    every = examples(solver, PROBLEMS)
    observed = observe(solver.predictor, every, (1, 3))
    assert not observed.settled
    assert list(observed.features) == [
        Point(INPUT, 0), *(Point(name, step) for step in (1, 3) for name in ("z_H", "z_L"))
    ]  # fmt: skip
    loop = Loop(solver.predictor.model, torch.from_numpy(every.inputs))
    loop.advance(3)
    for name, state in named(loop.state).items():
        own = state[:, more.get("prefix_length", 0) :]
        assert torch.equal(observed.features[Point(name, 3)], own)
    assert (observed.answers == loop.read()[0].argmax(-1).numpy()).all()
    assert observed.heads == {1: {}, 3: {}}  # it has none
    assert observed.main == ("z_H", 3)


def test_a_page_that_is_finished_is_what_a_model_in_order_writes(monkeypatch):
    solver = load_solver(SHIPPED, device="cpu")
    problems = Problems.from_ints([(253, 83), (97, 46)])
    every, taken = examples(solver, problems), []
    step, last = Loop.step, 400
    monkeypatch.setattr(Loop, "step", lambda self: (taken.append(1), step(self)))
    observed = observe(solver.predictor, every, (1, last))
    assert len(taken) < last / 4, "steps that would change nothing are left out"
    assert observed.settled
    assert (observed.answers == every.labels)[every.filled].all()
    (early, late) = (observed.features[Point("state", n)] for n in (1, last))
    assert not torch.equal(early, late)
    assert set(observed.heads[last]) == set(solver.predictor.model.fields)


@pytest.mark.parametrize("family", ["recursive", "looped"])
def test_the_last_layer_gives_the_state_and_those_before_are_read_too(make_solver, family):
    solver = make_solver(family)
    every = examples(solver, PROBLEMS)
    plain, more = (observe(solver.predictor, every, (2,), layers) for layers in (False, True))
    names = {site.name for site in set(more.features) - set(plain.features)}
    state = {"recursive": ("z_L", "z_H"), "looped": ("state",)}[family]
    assert names == {f"{name}, layer 1" for name in state}
    layer = solver.predictor.model.layers[1]
    context = solver.predictor.model.encode(torch.from_numpy(every.inputs))
    main = more.main.name
    with torch.no_grad():
        made = layer(
            more.features[Point(f"{main}, layer 1", 2)],
            context.rotation,
            context.bias,
        )
    torch.testing.assert_close(made, more.features[Point(main, 2)])


@pytest.mark.parametrize("loops", [1, 2])
def test_a_gpt_is_read_after_each_block_and_norm(make_solver, loops):
    solver = make_solver("gpt", num_layers=3, loops=loops)
    every = examples(solver, PROBLEMS)
    observed = observe(solver.predictor, every, (1,))
    last = 3 * loops
    blocks = [Point(BLOCKS, step) for step in range(1, last + 1)]
    assert list(observed.features) == [Point(INPUT, 0), *blocks, Point(NORM, last)]
    assert observed.main == (NORM, last)
    gpt = solver.predictor.model
    _, H, W = every.inputs.shape
    x = gpt.activations(torch.from_numpy(to_sequences(every.inputs)), H, W)
    x = x[:, token_of_cell(H, W)]
    assert torch.equal(observed.features[Point(NORM, last)], x)
    torch.testing.assert_close(gpt.norm(observed.features[blocks[-1]]), x)
    assert (observed.answers.reshape(3, -1) == gpt.head(x).argmax(-1).numpy()).all()
    assert observed.heads == {}


def test_states_that_are_no_tokens_and_layers_that_are_not_told_are_refused(
    make_solver, monkeypatch
):
    solver = make_solver("looped")
    every = examples(solver, PROBLEMS)
    recorder = StepRecorder(solver.predictor.model, every.inputs, 1)
    with pytest.raises(ValueError, match="one vector for each cell"):
        recorder.by_token("mine", torch.zeros(len(recorder.cells), 16))
    monkeypatch.setattr(type(solver.predictor.model), "updates", ())
    assert observe(solver.predictor, every, (1,)).main == ("state", 1)
    with pytest.raises(ValueError, match="leave out --layers"):
        observe(solver.predictor, every, (1,), layers=True)


def types(n: int, kinds: int = 2000, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return cell_types(np.full(n, 3), random.integers(kinds, size=n), np.zeros(n, int))


def test_a_control_label_is_a_function_of_the_type_as_frequent_as_the_sub_tasks_classes():
    grid = cell_types(np.arange(3)[:, None, None], np.arange(-2, 3)[:, None], np.arange(-4, 4))
    assert grid.shape == (3, 5, 8)
    assert len(np.unique(grid)) == grid.size
    every, none = types(200_000, 10**5), np.zeros((200_000, 2), np.uint8)
    frequencies = np.array([600, 300, 0, 100])
    found = control_labels(every, none, [frequencies, np.ones(4)], 0)
    shares = np.bincount(found[:, 0], minlength=4) / len(found)
    np.testing.assert_allclose(shares, frequencies / 1000, atol=0.01)
    order = np.argsort(every)
    same = np.diff(every[order]) == 0
    assert same.any()
    assert (found[order][1:][same] == found[order][:-1][same]).all()
    two = [control_labels(every, none, [np.ones(4)] * 2, seed) for seed in (0, 0, 1)]
    assert (two[0] == two[1]).all()
    for one, other in ((two[0], two[2]), (two[0], two[0][:, ::-1])):  # seeds, and tasks
        assert 0.24 < (one == other).mean() < 0.26


@pytest.mark.parametrize("types_seen", [True, False])
def test_a_probe_is_at_chance_unless_features_tell_the_type(types_seen):
    """Of features that hold the sub-task alone, the control task cannot be read."""
    random = np.random.default_rng(0)
    kind = random.integers(40, size=3000)
    every = cell_types(kind, np.zeros(3000, int), np.zeros(3000, int))
    labels = random.integers(4, size=3000).astype(np.uint8)
    control = control_labels(every, labels[:, None], [np.ones(4)], 0)[:, 0]
    held = kind if types_seen else labels
    features = F.one_hot(torch.from_numpy(held).long()).float()
    both = torch.from_numpy(np.stack([labels, control], axis=1))
    said = fit(features, both, [4, 4])(features).numpy()
    right = (said == both.numpy()).mean(axis=0)
    if types_seen:
        assert right[1] == 1
    else:
        assert right[0] == 1
        assert right[1] < 0.45


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels(n: int, classes: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(classes, (n, 1), generator=torch.Generator().manual_seed(seed))


def test_what_is_there_in_a_line_is_found_and_what_is_not_is_not():
    y = labels(300, 5)
    features = torch.cat((F.one_hot(y[:, 0], 5) * 3.0 + 7, random(300, 4)), dim=1)
    assert (fit(features, y, [5])(features) == y).all()
    features, y = random(4000, 8), labels(4000, 4)
    right = (fit(features[:2000], y[:2000], [4])(features[2000:]) == y[2000:]).float().mean()
    assert 0.2 < right < 0.3


def test_several_tasks_at_once_are_those_one_by_one():
    features = random(200, 6)
    y = torch.cat(((features[:, :3].argmax(1, keepdim=True)), labels(200, 5)), dim=1)
    together = fit(features, y, [3, 5], l2=0.01, iterations=200)
    for task, classes in enumerate((3, 5)):
        alone = fit(features, y[:, [task]], [classes], l2=0.01, iterations=200)
        torch.testing.assert_close(
            together.weight[:, task, :classes], alone.weight[:, 0], atol=5e-3, rtol=0
        )


def test_cells_without_a_label_do_not_count():
    features, y = random(100, 4), labels(100, 3)
    more = torch.cat((features, 50 + random(20, 4)))
    padded = torch.cat((y, torch.full((20, 1), UNDEFINED)))
    one, other = fit(features, y, [3]), fit(more, padded, [3])
    assert torch.equal(one.weight, other.weight)


def test_decay_constant_features_rare_classes_and_those_of_another_task():
    features, y = random(100, 4), labels(100, 3)
    free, decayed = (fit(features, y, [3], l2=l2).weight.norm() for l2 in (0.0, 1.0))
    assert decayed < free / 3
    probe = fit(torch.cat((features, torch.ones(100, 1)), dim=1), labels(100, 2), [9])
    assert torch.isfinite(probe.weight).all()
    assert probe(torch.ones(9, 5)).max() < 2
    both = torch.cat((labels(100, 2), labels(100, 6)), dim=1)
    assert fit(features, both, [2, 6])(random(500, 4, seed=3))[:, 0].max() < 2


def test_pooled_shares_add_up_cells(study: ProbeStudy):
    assert Table(both=6, gap=2, otherwise=3, neither=9).gap_share == Share(2, 8)
    found = [size.at("sum", study.main, study.last) for size in study.measured]
    right, total = (sum(getattr(r.probe, k) for r in found if r) for k in ("right", "total"))
    assert pooled(found, "probe") == right / total
    assert pooled([None], "probe") is None
    known, control = (pooled(found, reader) for reader in ("known", "control"))
    assert pooled(found, "selectivity") == known - control
    without = [replace(r, head=None) for r in found if r]
    assert pooled(without, "head") is None


def test_the_interval_of_cells_is_that_of_problems():
    """Cells that are right or wrong by whole problems tell as much as one cell of each."""
    weights = np.random.default_rng(0).multinomial(50, np.full(50, 1 / 50), 1000)
    right, total = np.arange(50) < 30, np.ones(50, dtype=np.int64)
    one = share(right * total, total, weights)
    many = share(100 * right * total, 100 * total, weights)
    assert one.interval == many.interval
    assert abs(one.interval[0] - Share(30, 50).interval[0]) < 0.04
    assert share(total, total, weights) == Share(50, 50, ends=Share(50, 50).interval)
    assert share(0 * total, total, weights).interval[1] == Share(0, 50).interval[1]


def test_the_report_says_what_was_measured_and_what_breaks_first(study: ProbeStudy):
    out = io.StringIO()
    print_study(Console(file=out, width=200), study)
    for word in (
        *study.subtasks,
        "2 x 2 digits",
        "beyond",
        "trained head",
        "selectivity",
        "majority",
    ):
        assert word in out.getvalue()
    assert "1 x 1 digits: not probed, as no problem of 1 x 1 digits" in out.getvalue()
    size, share = study.measured[0], Share(912, 1000, ends=(0.9, 0.93))
    error = FirstError("head", "sum", share, 7, 0, Share(20, 32, ends=(0.4, 0.8)))
    said = first_error(replace(size, first_error=error))
    assert said.startswith("2 x 2 digits: sum breaks first: 91.2 % (90.0–93.0) of its cells")
    assert "row 7 of the worked solution, column 1 right of its end (20 of 32 right)" in said
    none = first_error(replace(size, first_error=FirstError("head", "")))
    assert "no sub-task has a wrong cell" in none


@pytest.mark.parametrize("family", ["recursive", "looped", "gpt"])
def test_every_family_can_be_probed_on_test_problems(make_solver, family, monkeypatch):
    seen: dict[bool, list[np.ndarray]] = {True: [], False: []}
    original = probe.examples

    def noted(solver, problems: Problems, seed=None, first=0):
        seen[seed is not None].append(split_of(problems))
        return original(solver, problems, seed, first)

    monkeypatch.setattr(probe, "examples", noted)
    found = run_probes(make_solver(family), SIZES, QUICK)
    main, last = {"recursive": ("z_H", 2), "looped": ("state", 2), "gpt": ("norm", 12)}[family]
    assert (found.main, found.last) == (main, last)
    for size in found.measured:
        for subtask in found.subtasks:
            reading = size.at(subtask, main, last)
            low, high = reading.probe.interval
            assert 0 <= low <= reading.probe.value <= high <= 1
            assert reading.head is None
            assert reading.known.total == reading.control.total <= reading.probe.total
        assert size.gap.judge == "probe"
        assert (
            sum(vars(size.gap.rows).values())
            == size.rows
            == size.problems * (size.size["digits_b"] + 1)
        )
        assert sum(vars(size.gap.problems).values()) == size.problems
    assert [size.region for size in found.sizes] == ["in range", "first beyond"]
    assert set(np.concatenate(seen[True])) == {SPLITS.index("train")}  # which they are fitted to
    assert set(np.concatenate(seen[False])) == {SPLITS.index("test")}


def test_a_model_with_heads_is_judged_by_them_alike_with_the_same_seed(study, make_solver):
    solver = make_solver("local")
    assert run_probes(solver, SIZES, QUICK).sizes == study.sizes[:2]
    assert run_probes(solver, SIZES, replace(QUICK, seed=1)).sizes != study.sizes[:2]
    for size in study.measured:
        assert (size.gap.judge, size.gap.subtasks) == ("head", list(study.subtasks))
        assert size.first_error.subtask in study.subtasks
        rows = [size.at(subtask, study.main, study.last) for subtask in study.subtasks]
        worst = min(r.head.value for r in rows if r is not None and r.head is not None)
        assert size.first_error.share.value == worst
        assert 0 < size.at("carry", "state", 1).probe.total < size.cells


def test_what_states_hold_plainly_is_read_from_them(make_solver, monkeypatch):
    """Where a state is the target itself, probes are right everywhere, beyond the range, too."""
    solver = make_solver()

    def told(predictor, part, steps, layers):
        observed = observe(predictor, part, steps, layers)
        B = len(part)
        plain = torch.nn.functional.one_hot(torch.from_numpy(part.targets).long() % 16, 16)
        features = dict.fromkeys(observed.features, plain.reshape(B, -1, plain[0, 0, 0].numel()))
        return replace(observed, features={k: v.float() for k, v in features.items()})

    monkeypatch.setattr(probe, "observe", told)
    found = run_probes(solver, SIZES, replace(QUICK, train_problems=64, iterations=60))
    for size in found.measured:
        values = [r.probe.value for r in size.readings]
        assert min(values) > 0.99
        if min(values) == 1:
            assert size.first_error.subtask == ""
            assert size.gap.rows.gap == size.rows  # a random model writes no row right


def test_right_answers_and_sub_tasks_are_counted_row_by_row(make_solver, monkeypatch):
    """A model whose answers are right, but for the last row of the first problem."""

    def solved(predictor, part, steps, layers):
        answers = part.labels.copy()
        last = (part.problem == 0) & (part.rows * part.filled.any(axis=2)).any(axis=1)
        answers[np.flatnonzero(last)[-1]] = 0
        return replace(observe(predictor, part, steps, layers), answers=answers)

    monkeypatch.setattr(probe, "observe", solved)
    (size,) = run_probes(make_solver(), SIZES[:1], QUICK).sizes
    for table in (size.gap.rows, size.gap.problems):
        assert table.gap + table.neither == 1


def test_sizes_without_problems_or_canvas_have_a_reason(make_solver, monkeypatch):
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
    monkeypatch.setattr(Lattice, "local_rule", None)
    with pytest.raises(ValueError, match=r"lattice declares no local rule.*standard"):
        run_probes(replace(solver, task=Multiplication("lattice")), sizes, QUICK)


def test_by_default_sizes_are_in_range_and_beyond_in_either_direction():
    task = Multiplication("standard", digits_a=(1, 4), digits_b=(1, 4))
    pairs = [tuple(size.values()) for size in default_sizes(task)]
    assert pairs == [(2, 2), (4, 4), (6, 4), (4, 6), (8, 8)]
    short = Multiplication("standard", digits_a=(1, 1), digits_b=(1, 1))
    assert len(default_sizes(short)) == len({tuple(s.values()) for s in default_sizes(short)}) == 4
