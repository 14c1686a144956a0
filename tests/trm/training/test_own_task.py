"""Tasks and layouts of one's own, in a file of one's own, are trained, tested and explained."""

import json
import sys
from pathlib import Path

import pytest
import torch
import yaml

from canvas.choices import import_code
from canvas.problems import Problems
from trm.checkpoints import DATA_KEY
from trm.checkpoints.loading import load_solver
from trm.configs import classes_in_call, own_classes

MINE = """
from dataclasses import dataclass

from canvas.addition import Column
from canvas.arithmetic import Numbers, compare
from canvas.layouts import ANSWER, Row, table
from canvas.multiplication import Accumulate
from canvas.task import TwoOperands, layout_field


class Totals(Accumulate):
    name = "totals"

    def room(self, lengths, base):
        height, width = super().room(lengths, base)
        return height, width + 1


class Below(Column):
    name = "below"

    def rows(self, operands):
        pairs = zip(*(numbers.to_ints() for numbers in operands), strict=True)
        difference = Numbers.from_ints([a - b for a, b in pairs], operands[0].base)
        yield Row(ANSWER, difference, shift=0, row=2, present=difference.lengths > 0)

    def addends(self, operands, base):
        return None


@dataclass
class Subtraction(TwoOperands):
    layouts = table([Below()])
    sign, signs = "-", "-"
    smallest = 0
    layout: str = layout_field("below", layouts)
    borrow: bool = True

    def answer(self, operands):
        return operands[0] - operands[1]

    def allows(self, problems):
        return compare(*problems.operands) >= 0
"""
RUN = "runs/mine/version_0"


def configured(folder: Path, debug: Path, task: object) -> Path:
    """A config with another task."""
    held = yaml.safe_load(debug.read_text())
    held["data"]["task"] = task
    held["trainer"]["logger"]["init_args"]["name"] = "mine"
    (folder / "mine.yaml").write_text(yaml.safe_dump(held))
    return folder / "mine.yaml"


def task_of(folder: Path) -> dict:
    checkpoint = torch.load(folder / RUN / "checkpoints/best.ckpt", weights_only=True)
    return checkpoint[DATA_KEY]["task"]


def forget() -> None:
    """As if another process began."""
    sys.modules.pop("mine", None)


def test_a_task_that_is_named_by_a_string_is_trained_tested_and_loaded(mine, command, debug):
    folder = mine("mine", MINE)
    config = ("--config", configured(folder, debug[1], "mine.Subtraction"))
    ran = command("fit", *config, folder=folder)
    assert ran.code == 0, ran.err
    assert task_of(folder)["task"] == "mine.Subtraction"
    assert (task_of(folder)["layout"], task_of(folder)["borrow"]) == ("below", True)
    said = []
    for words in (
        config,
        (*config, "--import", "mine"),
        ("--import=mine.py", *config),
        ("--import", "mine", "--config", f"{RUN}/config.yaml"),
    ):
        forget()
        ran = command("test", *words, "--ckpt_path", "best", folder=folder)
        assert ran.code == 0, ran.err
        said.append(ran.out)
    assert "test/solved" in said[0]
    assert said == [said[0]] * 4
    forget()
    with pytest.raises(ValueError, match=r"its task is mine\.Subtraction, .* --import mine"):
        load_solver(folder, device="cpu")
    assert "mine" not in sys.modules
    import_code(str(folder / "mine.py"))
    solver = load_solver(folder, device="cpu")
    assert type(solver.task) is sys.modules["mine"].Subtraction
    (solution,) = solver.solve(Problems.from_ints([(604, 87)]))
    assert (len(solution.rows), solver.task.answer(solution.operands)) == (1, 517)
    with pytest.raises(ValueError, match="is no problem of the task subtraction"):
        solver.task.problems([(87, 604)])


def test_predictions_are_of_the_problems_that_a_task_of_ones_own_allows(mine, command, debug):
    folder = mine("mine", MINE)
    config = ("--config", configured(folder, debug[1], {"class_path": "mine.Subtraction"}))
    assert command("fit", *config, "--trainer.max_epochs=1", folder=folder).code == 0
    ran = command("predict", *config, "--ckpt_path", "best", folder=folder)
    assert ran.code == 0, ran.err
    lines = (folder / RUN / "predictions-0.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 16
    for record in records:
        a, b = record["operands"]
        assert a >= b
        assert record["problem"] == f"{a} - {b}"
        assert record["correct"] == (record["answer"] == a - b)


def test_a_layout_of_ones_own_is_trained_tested_and_loaded(mine, command, debug):
    folder = mine("mine", MINE)
    words = (*debug, "--data.task.layout", "mine.Totals")
    name = "--trainer.logger.init_args.name=mine"
    ran = command("fit", *words, name, folder=folder)
    assert ran.code == 0, ran.err
    task = task_of(folder)
    assert (task["task"], task["layout"]) == ("multiplication", "mine.Totals")
    for given in (words, (*words, "--import", "mine")):
        forget()
        ran = command("test", *given, name, "--ckpt_path", "best", folder=folder)
        assert ran.code == 0, ran.err
        assert "test/solved" in ran.out
    forget()
    with pytest.raises(ValueError, match=r"its layout is mine\.Totals, .* --import mine"):
        load_solver(folder, device="cpu")
    assert "mine" not in sys.modules
    import_code(str(folder / "mine.py"))
    solver = load_solver(folder, device="cpu")
    assert type(solver.task.rules) is sys.modules["mine"].Totals
    (solution,) = solver.solve(Problems.from_ints([(12, 345)]))
    assert len(solution.rows) == 3


def test_a_run_with_a_task_of_ones_own_is_resumed_exactly(mine, command, debug):
    folder = mine("mine", MINE)
    config = ("--config", configured(folder, debug[1], "mine.Subtraction"))
    words = (*config, "--model.schedule.decay=constant")
    for name, epochs in (("whole", 2), ("mine", 1), ("mine", 2)):
        forget()
        name = f"--trainer.logger.init_args.name={name}"
        last = ("--ckpt_path", "last") if epochs == 2 and "mine" in name else ()
        ran = command("fit", *words, name, *last, f"--trainer.max_epochs={epochs}", folder=folder)
        assert ran.code == 0, ran.err
    whole, resumed = (
        torch.load(folder / f"runs/{name}/version_0/checkpoints/last.ckpt", weights_only=True)
        for name in ("whole", "mine")
    )
    assert whole["global_step"] == resumed["global_step"] == 10
    for part, weights in whole["state_dict"].items():
        torch.testing.assert_close(resumed["state_dict"][part], weights, rtol=0, atol=0)


FAULTY = {
    "lacks": (
        "from canvas.task import TwoOperands\n\n\nclass Half(TwoOperands):\n    layout = 'x'\n",
        "lacks.Half (lacks.py) lacks answer: see canvas.task.Task",
    ),
    "syntax": ("x = 1\ny = (\n", "syntax.py, line 2: '(' was never closed"),
    "fails": ("x = 1\n\nx / 0\n", "fails.py, line 3: ZeroDivisionError: division by zero"),
    "needs": (
        "x = 1\nimport nowhere_to_be_found\n",
        "needs.py, line 2: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    ),
    "slip": ("class Haft:\n    pass\n", "slip.Half: slip.py has no Half. Did you mean Haft?"),
    "absent": (None, "absent.Half: there is no module absent, neither installed nor in this"),
}


@pytest.mark.parametrize(
    "given",
    [
        "--data.task={name}.Half",
        "--data.task.class_path={name}.Half",
        "--data.task.layout={name}.Half",
        "--model.network={name}.Half",
        "--model={name}.Half",
        "data: {{task: {name}.Half}}",
        "data: {{task: {{class_path: {name}.Half}}}}",
        "data: {{task: {{init_args: {{layout: {name}.Half}}}}}}",
        "model: {{init_args: {{network: {name}.Half}}}}",
    ],
)
@pytest.mark.parametrize("name", FAULTY)
def test_what_is_wrong_with_a_class_of_ones_own_is_one_sentence(mine, command, debug, name, given):
    code, told = FAULTY[name]
    folder = mine(name, code) if code else mine("other", "")
    word = given.format(name=name)
    if not word.startswith("--"):
        (folder / "faulty.yaml").write_text(word)
        word = "--config=faulty.yaml"
    for words in ((word,), tuple(word.split("=", 1))):
        sys.modules.pop(name, None)
        ran = command("fit", *debug, *words, folder=folder)
        assert ran.code == 2
        assert told in ran.err
        assert "Traceback" not in ran.err
        (line,) = [line for line in ran.err.splitlines() if not line.startswith("Note: ")]
        assert line.startswith("trm fit: ")
    assert not (folder / "runs").exists()


def test_classes_of_ones_own_are_found_in_configs_and_calls():
    config = {
        "model": {"class_path": "trm.training.GPTModule", "init_args": {"network": "a.Net"}},
        "data": {"task": {"class_path": "b.Task", "init_args": {"layout": "lattice"}}},
        "trainer": {"callbacks": [{"class_path": "c.d.Call"}], "default_root_dir": "e.f"},
    }
    assert list(own_classes(config)) == ["a.Net", "b.Task", "c.d.Call"]
    words = (
        "fit --config g.yaml --data.task=b.Task --data.task.layout b.Rows --model trm.training.X"
    )
    words += " --data.canvas.height 4 --model.network.config.position=a.Place --data.task"
    assert list(classes_in_call(words.split())) == ["b.Task", "b.Rows", "a.Place"]


LAYOUT = """
from canvas.layouts import Layout
from canvas.addition import Column


class Rowless(Layout):
    name = "rowless"


class Particular(Column):
    name = "particular"

    def __init__(self, width):
        self.width = width


class Narrow(Column):
    name = "narrow"

    def room(self, lengths, base):
        return len(lengths) + 1, 1
"""


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        ("Rowless", "poor.Rowless (poor.py) lacks answer_cells, read_operands, room, rows"),
        ("Particular", "layout poor.Particular: it has to be made without arguments: "),
        ("Rowles", "poor.Rowles: poor.py has no Rowles. Did you mean Rowless?"),
    ],
)
def test_what_is_wrong_with_a_layout_of_ones_own_is_told(mine, command, debug, layout, told):
    folder = mine("poor", LAYOUT)
    ran = command("fit", *debug, "--data.task.layout", f"poor.{layout}", folder=folder)
    assert ran.code == 2
    assert told in ran.err
    assert len(ran.err.splitlines()) <= 2  # the note, and what is wrong
    assert not (folder / "runs").exists()


def test_a_setting_of_a_task_of_ones_own_is_suggested(mine, command, debug):
    folder = mine("mine", MINE)
    words = ("--config", configured(folder, debug[1], "mine.Subtraction"))
    ran = command("fit", *words, "--data.task.borow=false", folder=folder)
    assert ran.code == 2
    told = "there is no setting data.task.borow. Did you mean data.task.borrow?"
    assert told in ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--import",), "--import names a module, or a file like mine.py"),
        (("--import=",), "--import names a module, or a file like mine.py"),
        (("--import", "nowhere_at_all"), "--import nowhere_at_all: there is no module"),
        (("--import=gone.py",), "--import gone.py: there is no such file"),
    ],
)
@pytest.mark.parametrize("stage", ["fit", "test"])
def test_an_import_that_names_nothing_is_told(mine, command, debug, stage, words, told):
    ran = command(stage, *debug, *words, folder=mine("mine", MINE))
    assert ran.code == 2
    assert told in ran.err
    assert len(ran.err.splitlines()) == 1
