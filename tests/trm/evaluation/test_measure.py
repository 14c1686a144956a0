import json
import os
import shutil
import signal
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from oracle import Oracle, Page
from tiny import tiny_gpt

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.symbols import BLANK, DIGIT_ZERO, MASK
from canvas.task import Task
from trm.checkpoints.loading import load_solver
from trm.evaluation import measure as measuring
from trm.evaluation.diagnosis import Kind
from trm.evaluation.grid import empty_cell, read_grid
from trm.evaluation.grid_cells import FIRST, SECOND, cell_problems
from trm.evaluation.grid_format import KEYS
from trm.evaluation.measure import EvaluationSettings, joined, measure, measure_cell, measure_part
from trm.io.files import alone, fingerprint, versions
from trm.runtime.processes import ending_by_signals
from trm.runtime.progress import Meter, listening
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.predictor import Sampling
from trm.solving.rows import Prediction
from trm.solving.solver import Solver
from trm.solving.voting import Voting

AXES = ("digits_a", "digits_b")
VOTED = ("views", "agreement", "readable", "read_as")  # figures of votes alone


def slip(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
    """A 7 at the left end of the first row."""
    if (shown[page.first] == MASK).any():
        assert page.truth[page.first, 0] == BLANK
        filled[page.first, 0] = DIGIT_ZERO + 7


TASK = Multiplication("standard", digits_a=(1, 2), digits_b=(1, 2))


def measured(
    oracle: Oracle,
    *size: int,
    slips: int = 0,
    task: Task = TASK,
    canvas: Canvas | None = None,
    axes: tuple[str, str] = AXES,
    **how,
) -> dict:
    solver = Solver(oracle, task, canvas or Canvas())
    lengths = task.of_size(**dict(zip(axes, size, strict=True)))
    drawing = solver.draw_worked(cell_problems(task, lengths, how["problems"], seed=0))
    for i, page in enumerate(oracle.learn(drawing)):
        page.faulty = i < slips
    return measure_cell(solver, axes, size, **how)


def counts(cell: dict) -> list[tuple[int, int]]:
    """Right and all: solutions, answers, free-running and teacher-forced rows."""
    names = ("solutions", "answers", "rows_free_running", "rows_teacher_forced")
    return [(cell[name]["right"], cell[name]["total"]) for name in names]


def test_solutions_answers_and_rows_are_counted_separately():
    assert counts(measured(Oracle(), 3, 2, problems=20)) == [(20, 20), (20, 20), (60, 60), (60, 60)]
    cell = measured(Oracle(fault=slip), 3, 2, slips=4, problems=20)
    assert counts(cell) == [(16, 20), (20, 20), (56, 60), (56, 60)]
    assert cell["answers"]["low"] == pytest.approx(0.839, abs=1e-3)
    assert cell["answers"]["high"] == 1
    assert (len(cell["solved"]), cell["solved"].count("0")) == (20, 4)
    assert (cell["row"], cell["column"], cell["problems"]) == (3, 2, 20)
    assert (cell["applicable"], cell["reason"]) == (True, None)
    assert (cell["height"], cell["width"]) == (5 + 1, 5 + 1)  # the middle of a margin of 2
    assert cell["confidence"] == pytest.approx(0.5**3)
    assert json.loads(json.dumps(cell)) == cell
    assert tuple(cell) == KEYS


def test_free_running_rows_inherit_errors_and_forced_rows_do_not():
    class Copyist(Oracle):
        """Right only below right rows."""

        def __call__(self, inputs: np.ndarray, *_: object) -> Prediction:
            filled = super().__call__(inputs)
            first = self.pages[0].first
            filled.canvases[inputs[:, first, 0] == DIGIT_ZERO + 7] = BLANK
            return filled

    cell = measured(Copyist(fault=slip), 3, 2, slips=4, problems=20)
    assert counts(cell) == [(16, 20), (16, 20), (48, 60), (56, 60)]


def failing(error: Exception) -> Oracle:
    def fault(*_) -> None:
        raise error

    return Oracle(fault=fault)


def test_batches_change_no_figure_and_too_large_ones_are_named():
    how = {"slips": 3, "problems": 11}
    one, other = (measured(Oracle(fault=slip), 2, 2, **how, batch_size=n) for n in (128, 4))
    assert without_the_clock(one) == without_the_clock(other)
    full = failing(torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(ValueError, match=r"9 problems at once\. .*--batch"):
        measured(full, 3, 2, slips=9, problems=9)


def test_problems_on_large_canvases_are_solved_in_parts(monkeypatch):
    seen: list[int] = []
    how = {"slips": 3, "problems": 11}
    whole = measured(Oracle(fault=slip), 2, 2, **how)
    cells = whole["height"] * whole["width"]
    monkeypatch.setattr("trm.evaluation.measure._MOST_CELLS", 3 * cells + 1)
    draw = Solver.draw_worked
    monkeypatch.setattr(Solver, "draw_worked", lambda self, p: seen.append(len(p)) or draw(self, p))
    assert without_the_clock(measured(Oracle(fault=slip), 2, 2, **how)) == without_the_clock(whole)
    assert seen[-4:] == [3, 3, 3, 2]
    monkeypatch.setattr("trm.evaluation.measure._MOST_CELLS", 1)  # at least one at a time
    assert without_the_clock(measured(Oracle(fault=slip), 2, 2, **how)) == without_the_clock(whole)
    full = failing(MemoryError("Unable to allocate 120 GiB for an array"))
    with pytest.raises(ValueError, match=r"3 x 2 digits: .* memory for 9 problems"):
        measured(full, 3, 2, slips=9, problems=9)


def test_a_cell_model_from_noise_has_steps_and_a_longest_chain(shipped):
    once = measure_cell(shipped, AXES, (3, 2), problems=10)
    cell = measure_cell(shipped.from_noise(), AXES, (3, 2), problems=10)
    assert (once["steps"], once["longest_chain"]) == (None, None)
    assert cell["longest_chain"] == 11  # 7 columns, and two steps for each of 2 rows below
    assert 5 < cell["steps"] <= 11
    assert counts(cell) == counts(once) == [(10, 10), (10, 10), (20, 20), (20, 20)]
    assert cell["confidence"] == 1


def moved(meter: Meter) -> list[float]:
    """A list of all that the meter will report, in problems."""
    seen: list[float] = []
    meter.report = lambda _, done, total: seen.append(done / total)
    return seen


def test_the_meter_moves_with_each_row_and_batch():
    meter, oracle = Meter("cells"), Oracle(fault=slip)
    seen = moved(meter)
    with listening(meter):
        measured(oracle, 3, 2, slips=4, problems=8, batch_size=4)
    # Each batch: half for three rows of its own, half for rows on true ones, where some remain.
    rows = [1 / 12, 2 / 12]
    for start in (0, 0.5):
        assert {start, *(start + row for row in rows), start + 0.25} <= {*seen}
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "voting", [None, Voting(views=4, symmetries=("e", "r90", "h", "v"), per="solution", orders=2)]
)
def test_the_meter_moves_within_a_batch_of_a_cell_model(base_2, voting, monkeypatch):
    monkeypatch.setattr(type(base_2.predictor), "at_once", lambda *_: 3)
    meter = Meter("cells")
    seen = moved(meter)
    solver = base_2 if voting is None else base_2.with_voting(voting)
    with listening(meter):
        measure_cell(solver, AXES, (3, 2), problems=4)
    assert seen == sorted(seen)
    assert len({*seen}) > 10
    assert max(right - left for left, right in pairwise(seen)) < 0.2


def test_settings_without_noise_or_sampling_keep_their_key(monkeypatch):
    usual = EvaluationSettings(AXES, (1,), (1,))
    assert usual.key("cpu") != replace(usual, sampling=Sampling(0.8, 3)).key("cpu")
    assert usual.key("cpu") != replace(usual, start="noise").key("cpu")
    content = {}
    monkeypatch.setattr(
        "trm.evaluation.measure.json.dumps", lambda one, **_: content.update(one) or ""
    )
    usual.key("cpu")
    assert not {"start", "sampling"} & content.keys()


TERNARY = Addition("column_carries", base=3, digits=(1, 2), addends=(2, 3))
FIGURES = KEYS[KEYS.index("height") :]


@pytest.mark.parametrize(
    ("task", "canvas", "axes", "size", "applicable", "reason"),
    [
        (TASK, Canvas(6, 6), AXES, (5, 4), False,
         "canvas of 7 x 9 cells or more"),
        (Multiplication("standard", base=2), Canvas(), AXES, (1, 1), True,
         "no problem of 1 x 1 digits in base 2 belongs to the test split"),
        (TERNARY, Canvas(), ("digits", "addends"), (2, 4), False,
         "at most 3 addends in base 3, not 4"),
    ],
)  # fmt: skip
def test_a_cell_that_cannot_be_measured_has_a_reason(task, canvas, axes, size, applicable, reason):
    cell = measure_cell(Solver(Oracle(most=6), task, canvas), axes, size, problems=5)
    assert (cell["applicable"], cell["problems"] == 0) == (applicable, applicable)
    assert reason in cell["reason"]
    assert [name for name, value in cell.items() if value is None] == [*FIGURES]


def test_seconds_are_of_free_running_and_steps_a_mean_over_rows(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr(measuring, "time", clock)

    class Slow(Oracle):
        """Takes two seconds to fill a batch of rows, and 1, 4, 9, … steps for each of these."""

        def __call__(self, inputs: np.ndarray, *_: object) -> Prediction:
            clock.now += 2
            return super().__call__(inputs)._replace(steps=np.arange(1, len(inputs) + 1) ** 2)

    cell = measured(Slow(), 3, 2, problems=10, batch_size=4)
    assert cell["seconds_per_problem"] == 3 * 3 * 2 / 10  # batches, rows, seconds
    assert cell["steps"] == (2 * (1 + 4 + 9 + 16) + 1 + 4) / 10


def test_a_gpt_is_measured_without_steps():
    gpt = GPTPredictor(tiny_gpt(6, 6), Calibration())
    cell = measure_cell(Solver(gpt, TASK, Canvas(6, 6)), AXES, (3, 2), problems=5)
    assert [total for _, total in counts(cell)] == [5, 5, 15, 15]
    without = [name for name, value in cell.items() if value is None]
    assert without == ["reason", "steps", "longest_chain", *VOTED]


ADDITION = Addition("column_carries", digits=(1, 2), addends=(2, 3))


@pytest.mark.parametrize(
    ("axes", "size", "operands", "where"),
    [
        (("digits", "addends"), (3, 2), 2, FIRST),
        (("digits", "addends"), (2, 5), 5, SECOND),
        (("digits_a", "digits_b"), (1, 4), 2, SECOND),
    ],
)
def test_addition_is_measured_by_either_kind_of_size(axes, size, operands, where):
    cell = measured(Oracle(), *size, task=ADDITION, axes=axes, problems=5)
    assert (cell["row"], cell["column"], cell["region"]) == (*size, where)
    # Of rows there are the carries and the sum.
    assert counts(cell) == [(5, 5), (5, 5), (10, 10), (10, 10)]
    longest = max(operands, ADDITION.addends[1])  # a model gets the room that it was trained on
    assert cell["height"] == longest + 2 + 1  # the middle of a margin of 2


SETTINGS = EvaluationSettings(AXES, rows=(1, 3), columns=(1, 2), problems=4)
ONE = replace(SETTINGS, rows=(2,), columns=(1,))


@pytest.fixture
def sizes(monkeypatch) -> list[tuple[int, int]]:
    """The sizes of the cells that are measured, as they are."""
    done: list[tuple[int, int]] = []

    def watched(solver, settings, size, *more):
        done.append(size)
        return measure_part(solver, settings, size, *more)

    monkeypatch.setattr(measuring, "measure_part", watched)
    return done


def evaluate(checkpoint, output, settings=SETTINGS, **more):
    return measure([checkpoint], settings, output, accelerator="cpu", **more)


def without_the_clock(cell: dict) -> dict:
    return {name: value for name, value in cell.items() if name != "seconds_per_problem"}


def test_a_grid_holds_every_cell_and_how_it_was_measured(checkpoint, tmp_path, sizes):
    twin = shutil.copy(checkpoint, tmp_path / "twin.ckpt")
    (tmp_path / "notes.txt").write_text("mine")
    grid = measure([checkpoint, twin], SETTINGS, tmp_path, "cpu")
    assert json.loads((tmp_path / "grid.json").read_text()) == grid
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (grid["format"], grid["versions"]) == (2, versions())
    assert grid["settings"] == {
        **{"split": "test", "seed": 0, "problems": 4, "axes": ["digits_a", "digits_b"]},
        **{"rows": [1, 3], "columns": [1, 2], "steps": None, "batch_size": 128, "devices": 1},
        **{"voting": None, "precision": "32-true", "device": "cpu", "start": "initial"},
        "sampling": None,
    }
    one, two = grid["models"]
    assert (one["name"], two["name"]) == ("debug", "twin")
    assert one["cells"] == two["cells"]
    assert sizes == [(3, 2), (3, 1), (1, 2), (1, 1)]  # once, large cells first
    assert [(c["row"], c["column"]) for c in one["cells"]] == [(1, 1), (1, 2), (3, 1), (3, 2)]
    expected = measure_cell(load_solver(checkpoint, device="cpu"), AXES, (3, 1), problems=4)
    assert without_the_clock(one["cells"][2]) == without_the_clock(expected)


def test_other_settings_take_no_cell_of_earlier_ones(changed, tmp_path, sizes, monkeypatch):
    twin = changed(lambda content: None, "twin")
    first = evaluate(twin, tmp_path, ONE)
    for change in ({"seed": 1}, {"problems": 3}, {"steps": 1}, {"batch_size": 2}):
        grid = evaluate(twin, tmp_path, replace(ONE, **change))
        assert change.items() <= grid["settings"].items()
        if "steps" in change:
            assert grid["models"][0]["cells"][0]["steps"] == 1
    content = torch.load(twin, weights_only=True)
    for name, weight in content["state_dict"].items():
        content["state_dict"][name] = weight + 1
    torch.save(content, twin)
    told = r"another checkpoint, twin .*twin\.ckpt, SHA-256 .*--output"
    with pytest.raises(ValueError, match=told):
        evaluate(twin, tmp_path, ONE)
    (tmp_path / "grid.json").unlink()
    retrained = evaluate(twin, tmp_path, ONE)
    assert sizes == [(2, 1)] * 6
    one, other = (grid["models"][0]["sha256"] for grid in (first, retrained))
    assert one != other
    before = SETTINGS.key("cpu")
    assert SETTINGS.key("cuda") != before
    with monkeypatch.context() as patch:
        patch.setitem(measuring.KINDS, "mine", Kind(lambda row: False, "a kind of one's own"))
        assert SETTINGS.key("cpu") != before
    monkeypatch.setattr(measuring, "versions", lambda: versions() | {"torch": "99"})
    assert SETTINGS.key("cpu") != before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_a_stopped_or_finished_evaluation_continues(
    checkpoint, tmp_path, sizes, monkeypatch, capsys
):
    whole = evaluate(checkpoint, tmp_path / "whole")
    sizes.clear()
    watched = measuring.measure_part

    def interrupted(*arguments):
        if len(sizes) == 2:
            os.kill(os.getpid(), signal.SIGTERM)  # in the middle of a cell
        return watched(*arguments)

    monkeypatch.setattr(measuring, "measure_part", interrupted)
    with pytest.raises(SystemExit) as stop, ending_by_signals():
        evaluate(checkpoint, tmp_path / "halves")
    assert stop.value.code == 143
    assert sizes == [(3, 2), (3, 1)]
    assert not (tmp_path / "halves/grid.json").exists()
    monkeypatch.setattr(measuring, "measure_part", watched)
    halves = evaluate(checkpoint, tmp_path / "halves")
    assert "2 of 4 cells are done already" in capsys.readouterr().out
    assert sizes == [(3, 2), (3, 1), (1, 2), (1, 1)]
    for one, other in zip(whole["models"][0]["cells"], halves["models"][0]["cells"], strict=True):
        assert without_the_clock(one) == without_the_clock(other)
    sizes.clear()
    (tmp_path / "halves/grid.md").touch()
    for damage in ("", '{"format": 2, ', '{"format": 2, "models": 3}', '{"models": [{}, "x"]}'):
        (tmp_path / "halves/grid.json").write_text(damage)
        if not damage:
            (tmp_path / "halves/grid.json").unlink()
        gathered = evaluate(checkpoint, tmp_path / "halves")
        assert gathered["models"] == read_grid(tmp_path / "halves").models == halves["models"]
    evaluate(checkpoint, tmp_path / "halves", replace(SETTINGS, rows=(1, 2, 3)))
    assert sizes == [(2, 2), (2, 1)]


def test_a_checkpoint_that_is_replaced_meanwhile_is_named(
    checkpoint, changed, tmp_path, monkeypatch
):
    """Cells of the new weights would be kept as those of the old ones."""
    second = changed(lambda content: None, "second")
    watched = measuring.measure_part

    def trained_on(*arguments):
        shutil.copy(checkpoint, second)
        return watched(*arguments)

    monkeypatch.setattr(measuring, "measure_part", trained_on)
    with pytest.raises(ValueError, match=r"second\.ckpt has changed since .* evaluate the copy"):
        measure([checkpoint, second], ONE, tmp_path / "grid", "cpu")
    (cells,) = (tmp_path / "grid/cells").iterdir()
    assert cells.name.startswith(fingerprint(checkpoint)[:12])
    assert measure([checkpoint], ONE, tmp_path / "grid", "cpu") is not None


def test_one_process_at_a_time_measures_into_a_folder(checkpoint, tmp_path, sizes):
    tmp_path.joinpath("grid").mkdir()
    with (
        alone(tmp_path / "grid/grid.json"),
        pytest.raises(ValueError, match=r"another process is at work on .*grid"),
    ):
        evaluate(checkpoint, tmp_path / "grid", ONE)
    assert not sizes
    evaluate(checkpoint, tmp_path / "grid", ONE)
    assert not list(tmp_path.glob("grid/.*"))


def test_parts_of_a_cell_together_are_the_cell(checkpoint, tmp_path):
    settings = replace(ONE, problems=20, batch_size=8)
    assert settings.parts == [range(8), range(8, 16), range(16, 20)]
    whole = evaluate(checkpoint, tmp_path / "whole", replace(settings, batch_size=20))
    parts = evaluate(checkpoint, tmp_path / "parts", settings)
    names = {file.name for file in (tmp_path / "parts").glob("cells/*/*")}
    assert names == {"2x1-0.json", "2x1-8.json", "2x1-16.json"}
    (one,), (other,) = (grid["models"][0]["cells"] for grid in (whole, parts))
    chances = [[kind.pop("chance") for kind in cell["errors"].values()] for cell in (one, other)]
    assert chances[0] == pytest.approx(chances[1])
    near = {"confidence", "confidences", "steps"}
    for name in without_the_clock(one).keys() - near:
        assert one[name] == other[name], name
    for name in near:
        assert one[name] == pytest.approx(other[name], abs=1e-5)
    texts = ((tmp_path / of / "records.jsonl").read_text() for of in ("whole", "parts"))
    records = [[json.loads(line) for line in text.splitlines()] for text in texts]
    assert [r["problem"] for r in records[0]] == [r["problem"] for r in records[1]]
    assert [r["confidence"] for r in records[0]] == pytest.approx(one["confidences"], abs=1e-5)
    assert {r["model"] for r in records[0]} == {"debug"}
    assert "".join("01"[r["exact"]] for r in records[1]) == one["solved"]
    lines = (tmp_path / "parts/records.csv").read_text().splitlines()
    assert len(lines) == 1 + one["problems"]
    # A part that is missing is measured again, alone.
    next((tmp_path / "parts").glob("cells/*/2x1-8.json")).unlink()
    again = evaluate(checkpoint, tmp_path / "parts", settings)["models"][0]["cells"][0]
    assert again["solved"] == one["solved"]


def test_problems_that_a_model_cannot_work_on_are_counted():
    parts = [empty_cell((2, 1), "in range") | {"problems": number} for number in (8, 8, 4)]
    assert joined(parts)["problems"] == 20


def test_turned_prompts_are_counted_with_and_without_the_reader(base_2):
    solver = base_2.with_voting(Voting(orientation="random", vote="max_confidence", per="solution"))
    cell = measure_cell(solver, AXES, (5, 4), problems=3)
    for name in ("solutions", "answers", "readable"):
        assert (cell[name]["right"], cell[name]["total"]) == (3, 3)
    assert cell["read_as"] == {"e": 3}
    assert (cell["views"], cell["agreement"]) == (8, 1)
    assert cell["confidences"] == [1] * 3


def test_a_damaged_cell_is_measured_again(checkpoint, tmp_path, sizes):
    evaluate(checkpoint, tmp_path, ONE)
    (file,) = tmp_path.glob("cells/*/2x1.json")
    whole = file.read_text()
    changed = whole.replace('"row": 2', '"row": 3'), whole.replace('"answers"', '"works"')
    for damage in (whole[:50], "{}", *changed, "\0\1"):
        file.write_text(damage)
        sizes.clear()
        assert evaluate(checkpoint, tmp_path, ONE)["models"][0]["cells"][0]["row"] == 2
        assert sizes == [(2, 1)]


@pytest.mark.parametrize(
    "name", ["grid.json", "lengths.png", "grid.png", "errors.png", "grid.md", "records.csv"]
)
def test_files_of_others_are_left_alone(checkpoint, tmp_path, sizes, name):
    (tmp_path / name).write_text("[1, 2, 3]")
    with pytest.raises(ValueError, match=rf"{name} is in the way, .* choose another --output"):
        evaluate(checkpoint, tmp_path)
    assert (tmp_path / name).read_text() == "[1, 2, 3]"
    assert not sizes


@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/self", "/proc/self/below"])
def test_an_output_that_cannot_be_written_to_is_refused_first(tmp_path, folder):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=rf"--output .*{folder} is no folder to write to \("):
        evaluate("no checkpoint", tmp_path / folder)
