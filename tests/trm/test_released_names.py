"""Released dotted names of classes that have moved: in configs, checkpoints and imports."""

import importlib
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from canvas import reading, sequences
from canvas.choices import class_name
from canvas.drawing import row_steps
from canvas.multiplication import Lattice, Multiplication
from canvas.problems import Problems
from trm.cells.model import CellModel
from trm.checkpoints import CHECKPOINT_KEY, SHIPPED, find_checkpoint
from trm.checkpoints.content import load_checkpoint
from trm.checkpoints.loading import load_solver
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.registry import load
from trm.released import MODULES, RELEASED, released, today
from trm.solving.predictor import Predictor
from trm.training.canvas_module import CanvasModule
from trm.training.cli import train
from trm.training.tensorboard import settings_of_run

ROOT = Path(__file__).parents[2]
NEIGHBOURHOODS = ("farthest", "nearest")  # today, and as released


RENAMED = {  # in their own modules
    "trm.analysis.gap.Settings": "trm.extras.analysis.probe.ProbeSettings",
    "trm.analysis.probe.Settings": "trm.extras.analysis.probe.ProbeSettings",
    "trm.evaluation.measure.Settings": "trm.evaluation.measure.EvaluationSettings",
    "trm.solving.iterative_predictor.Step": "trm.solving.iterative_predictor.AfterStep",
    "trm.solving.rollout.Rollout": "trm.solving.rows.FilledCanvases",
    "trm.solving.rollout.free_running": "trm.solving.rows.fill_row_by_row",
}


@pytest.mark.parametrize("name", [*RELEASED, *RENAMED])
@pytest.mark.filterwarnings("ignore:trm.(models|solving|analysis).:DeprecationWarning")
def test_a_class_is_imported_by_its_released_name(name):
    module, _, own = name.rpartition(".")
    found = getattr(importlib.import_module(module), own)
    assert found is load(RENAMED.get(name, today(name)))


def test_a_method_works_by_its_released_name():
    drawing = Multiplication("lattice").canvas_layout.draw_worked(Problems.from_ints([(12, 34)]))
    assert (drawing.answer_cells(1) == drawing.cells_of_row(1)).all()
    assert drawing.rows_right(drawing.truth).all()
    assert drawing.row_of_step(1) == drawing.canvas_row(1) == 2
    assert (drawing.steps, drawing.first_step) == (drawing.num_rows, drawing.given_rows) == (2, 1)
    assert (row_steps(drawing).step == [0, 1]).all()


def test_sequences_and_reading_keep_their_released_places():
    from canvas.drawing import IGNORE, to_sequences
    from canvas.layouts import read, written_box

    assert (IGNORE, to_sequences) == (sequences.IGNORE, sequences.to_sequences)
    assert (read, written_box) == (reading.read, reading.written_box)


def test_a_layout_defines_a_method_by_its_released_name():
    class Own(Lattice):
        def first_step(self, problems):
            return super().first_step(problems) + 1

    drawing = Own().draw_worked(Problems.from_ints([(12, 34)]))
    assert drawing.given_rows == 2


@pytest.mark.parametrize(
    ("base", "now", "before"),
    [(Lattice, "given_rows", "first_step"), (Multiplication, "random_operand", "draw")],
)
def test_the_nearest_definition_by_either_name_counts(base, now, before):
    own = type("Own", (base,), {before: lambda self: 1})
    mixed = type("Mixed", (type("Mixin", (), {before: lambda self: 2}), own), {})
    both = type("Both", (mixed,), {now: lambda self: 3, before: lambda self: 4})
    plain = type("Plain", (own,), {})
    for kind, value in ((own, 1), (mixed, 2), (both, 3), (plain, 1)):
        assert getattr(kind(), now)() == getattr(kind(), before)() == value
    assert getattr(base, now) is getattr(base, before)


@pytest.mark.parametrize(
    ("base", "before", "now"),
    [
        (Predictor, "unit", "fills"),
        (TinyRecursiveModel, "network", "apply_layers"),
        (TinyRecursiveModel, "heads", "read"),
        (CellModel, "network", "apply_layers"),
        (CanvasModule, "more_figures", "more_metrics"),
        (CanvasModule, "samples", "samples_class"),
        (CanvasModule, "trained", "model_of_step"),
    ],
)
def test_a_class_with_an_earlier_name_is_refused(base, before, now):
    with pytest.raises(TypeError, match=rf"^Own\.{before} is {now} now: rename it$"):
        type("Own", (base,), {before: None})
    type("Own", (base,), {now: None})


def test_figures_of_a_solution_have_their_released_names():
    solver = load_solver()
    (solution,) = solver.solve(solver.task.problems([(12, 34)]), with_truth=True)
    assert solution.right_answer == solution.true_answer == 408
    assert solution.rows_right == solution.correct_rows == 2


def test_configs_and_files_may_have_the_released_neighbourhood():
    today, before = (RecursiveConfig(neighbourhood=f"local_{name}") for name in NEIGHBOURHOODS)
    assert before == today != RecursiveConfig()
    path = find_checkpoint("decimal-seed0")
    content, model = load_checkpoint(path), load_solver("decimal-seed0").predictor.model
    assert content[CHECKPOINT_KEY]["model"]["neighbourhood"] == "local_nearest"
    assert model.config.neighbourhood == "local_farthest"
    CanvasModule.check_same_network(SimpleNamespace(model=model), content)  # type: ignore[arg-type]


def test_runs_continue_with_the_released_neighbourhood():
    """Settings of the run are compared with those of the config."""
    rest = {"trainer": {}, "checkpoint": {"monitor": "loss"}}
    today, before = (
        settings_of_run(rest | {"model": {"neighbourhood": f"local_{name}"}})
        for name in NEIGHBOURHOODS
    )
    assert before == today
    assert today["model.neighbourhood"] == "local_farthest"


@pytest.mark.parametrize(("old", "new"), MODULES.items())
def test_a_module_is_imported_by_its_released_name(old, new, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is {new} now") as warned:
        module = importlib.import_module(old)
    assert module is importlib.import_module(new)
    assert module.__name__ == new
    assert len(warned) == 1


def test_modules_of_a_moved_package_are_not_imported_twice(monkeypatch):
    monkeypatch.delitem(sys.modules, "trm.interop", raising=False)
    with warnings.catch_warnings(record=True, action="always") as warned:
        from trm.interop.nanogpt import load_nanogpt  # type: ignore[import-not-found]
    assert load_nanogpt is load("trm.extras.interop.nanogpt.load_nanogpt")
    assert [Path(warning.filename) for warning in warned] == [Path(__file__)] * 2


def test_a_missing_module_of_a_moved_package_is_missing():
    with warnings.catch_warnings(action="ignore"), pytest.raises(ModuleNotFoundError, match="prov"):
        importlib.import_module("trm.proof.prov")


def test_a_module_runs_by_its_released_name():
    call = [sys.executable, "-m", "trm.proof.smt"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: python -m trm.cells.proof.smt FILE")


def test_another_name_is_missing_as_in_any_module():
    with pytest.raises(AttributeError, match="has no attribute 'CellModul'"):
        importlib.import_module("trm.training").CellModul  # noqa: B018


@pytest.mark.parametrize("config", ["quickstart", "generalise/latent"])
def test_a_config_with_released_names_builds_the_same(config, tmp_path, monkeypatch):
    text = (ROOT / f"configs/{config}.yaml").read_text()
    old, changed = re.subn(
        r"class_path: (trm\.cells\.\w+)", lambda found: f"class_path: {released(found[1])}", text
    )
    assert changed == 2
    assert "class_path: trm.training." in old
    (tmp_path / "old.yaml").write_text(old)
    monkeypatch.setattr("sys.argv", ["trm"])
    words = ["--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.logger=false"]
    files = (tmp_path / "old.yaml", ROOT / f"configs/{config}.yaml")
    with torch.device("meta"):  # weights have shapes without memory
        old, new = (train([f"--config={file}", *words], run=False).model for file in files)
    assert type(old) is type(new)
    assert old.model.config == new.model.config


def test_a_checkpoint_stores_the_released_name():
    content = load_checkpoint(SHIPPED)
    model = load_solver(SHIPPED).predictor.model
    assert type(model) is CellModel
    assert content[CHECKPOINT_KEY]["network"] == released(class_name(CellModel))
