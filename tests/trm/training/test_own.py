"""Networks, positions, tasks and layouts of one's own, in a file of one's own, are used as ours."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml

from canvas.choices import import_code
from canvas.problems import Problems
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_solver

MINE = """
from dataclasses import dataclass

import torch
from torch import nn

from canvas.addition import Column
from canvas.arithmetic import Numbers, compare
from canvas.layouts import ANSWER, Row, table
from canvas.multiplication import Accumulate
from canvas.task import TwoOperands, layout_field
from trm.models import IterativeModel
from trm.models.positions import Position


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


@dataclass
class MyConfig:
    size: int = 8
    width: int = 3


class MyModel(IterativeModel):
    def __init__(self, config: MyConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(18, config.size)
        self.mix = nn.Conv2d(config.size, config.size, 3, padding=1)
        self.head = nn.Linear(config.size, 18)

    def encode(self, tokens):
        return self.embed(tokens.int()).movedim(-1, 1)

    def initial_state(self, context):
        return torch.zeros_like(context)

    def iterate(self, context, state):
        return torch.tanh(self.mix(state + context))

    def read(self, state, context):
        logits = self.head(state.movedim(1, -1))
        return logits, logits.float().mean((1, 2, 3))


class Diagonal(Position):
    absolute = False

    def __init__(self, num_heads: int):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.ones(num_heads))

    def bias(self, cells):
        place = (cells.rows + cells.columns).float()
        far = (place.unsqueeze(-2) - place.unsqueeze(-1)).abs()
        return -self.slope[:, None, None] * far.unsqueeze(-3)
"""
RUN = "runs/debug/version_0"
SHORT = ("--trainer.max_epochs=1",)


def forget() -> None:
    """As if another process began."""
    sys.modules.pop("mine", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", sys.path.copy())
        patch.setattr(sys, "dont_write_bytecode", True)
        place = tmp_path_factory.mktemp("own")
        (place / "mine.py").write_text(MINE)
        yield place
        forget()


@pytest.fixture(scope="module")
def task_and_network(folder, command, repository) -> tuple:
    """A run of both, and the words of its call."""
    held = yaml.safe_load((repository / "configs/debug.yaml").read_text())
    network = {"class_path": "mine.MyModel", "init_args": {"config": {"size": 6}}}
    held["model"]["init_args"]["network"] = network
    held["data"]["task"] = "mine.Subtraction"
    (folder / "mine.yaml").write_text(yaml.safe_dump(held))
    words = ("--config", folder / "mine.yaml", *SHORT)
    words += ("--data.canvas.height=4", "--data.canvas.width=5", "--model.depth.schedule=carry")
    ran = command("fit", *words, folder=folder)
    assert ran.code == 0, ran.err
    return words


def test_a_task_and_a_network_are_trained_tested_and_loaded(folder, command, task_and_network):
    best = torch.load(folder / RUN / "checkpoints/best.ckpt", weights_only=True)
    about, task = best[CHECKPOINT_KEY], best[DATA_KEY]["task"]
    assert (about["family"], about["network"]) == ("iterative", "mine.MyModel")
    assert about["model"] == {"size": 6, "width": 5}  # the canvas's
    assert (task["task"], task["layout"], task["borrow"]) == ("mine.Subtraction", "below", True)
    said = []
    for words in (
        task_and_network,
        ("--import=mine.py", *task_and_network),
        ("--import", "mine", "--config", f"{RUN}/config.yaml"),
    ):
        forget()
        ran = command("test", *words, "--ckpt_path", "best", folder=folder)
        assert ran.code == 0, ran.err
        said.append(ran.out)
    assert "test/solved" in said[0]
    assert said == [said[0]] * 3
    forget()
    with pytest.raises(ValueError, match=r"its (task|network) is mine\.\w+, .* name the module"):
        load_solver(folder, device="cpu")
    assert "mine" not in sys.modules  # a checkpoint imports no code
    import_code(str(folder / "mine.py"))
    solver = load_solver(folder, device="cpu")
    assert type(solver.task) is sys.modules["mine"].Subtraction
    assert type(solver.predictor.model) is sys.modules["mine"].MyModel
    (solution,) = solver.solve(Problems.from_ints([(604, 87)]))
    assert (len(solution.rows), solver.task.answer(solution.operands)) == (1, 517)
    with pytest.raises(ValueError, match="is no problem of the task subtraction"):
        solver.task.problems([(87, 604)])


def test_predictions_are_of_the_problems_that_a_task_allows(folder, command, task_and_network):
    ran = command("predict", *task_and_network, "--ckpt_path", "best", folder=folder)
    assert ran.code == 0, ran.err
    lines = (folder / RUN / "predictions-0.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 16
    for record in records:
        a, b = map(int, record["operands"])
        assert a >= b
        assert record["problem"] == f"{a} - {b}"
        assert record["correct"] == (record["answer"] == str(a - b))


def test_a_layout_and_a_position_are_trained_and_loaded(folder, command, debug):
    words = (*debug, *SHORT, "--data.task.layout=mine.Totals")
    words += ("--model.network.config.position=mine.Diagonal",)
    words += ("--model.network.config.skip_blank=true", "--trainer.logger.init_args.name=other")
    words += ("--model.network.config.neighbourhood=local_nearest",)
    ran = command("fit", *words, folder=folder)
    assert ran.code == 0, ran.err
    best = folder / "runs/other"
    forget()
    with pytest.raises(ValueError, match=r"its (layout|position) is mine\.\w+, .* name the module"):
        load_solver(best, device="cpu")
    import_code(str(folder / "mine.py"))
    solver = load_solver(best, device="cpu")
    assert type(solver.task.rules) is sys.modules["mine"].Totals
    assert type(solver.predictor.model.position) is sys.modules["mine"].Diagonal
    (solution,) = solver.solve(Problems.from_ints([(12, 345)]))
    assert len(solution.rows) == 3


FAULTY = {
    "lacks": (
        "from canvas.task import TwoOperands\n\n\nclass Half(TwoOperands):\n    layout = 'x'\n",
        "lacks.Half (lacks.py) lacks answer: see canvas.task.Task",
    ),
    "syntax": ("x = 1\ny = (\n", "syntax.py, line 2: '(' was never closed"),
    "fails": ("x = 1\n\nx / 0\n", "fails.py, line 3: ZeroDivisionError: division by zero"),
    "slip": ("class Haft:\n    pass\n", "slip.Half: slip.py has no Half. Did you mean Haft?"),
    "absent": (None, "absent.Half: there is no module absent, neither installed nor in this"),
}


@pytest.mark.parametrize(
    "given", ["--data.task={}.Half", "model: {{init_args: {{network: {}.Half}}}}"]
)
@pytest.mark.parametrize("name", FAULTY)
def test_what_is_wrong_with_a_class_is_one_sentence(mine, command, debug, name, given):
    code, told = FAULTY[name]
    folder = mine(name, code) if code else mine("other", "")
    word = given.format(name)
    if not word.startswith("--"):
        (folder / "faulty.yaml").write_text(word)
        word = "--config=faulty.yaml"
    ran = command("fit", *debug, word, folder=folder)
    assert ran.code == 2
    assert told in ran.err
    assert "Traceback" not in ran.err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--import=",), "--import names a module, or a file like mine.py"),
        (("--import", "nowhere_at_all"), "--import nowhere_at_all: there is no module"),
        (
            ("--model.network=trm.models.GPT",),
            "does not correspond to a subclass of IterativeModel",
        ),
        (("--data.task.layout=mine.Totls",), "Did you mean Totals?"),
    ],
)
def test_what_names_nothing_usable_is_told(folder, command, debug, words, told):
    ran = command("fit", *debug, *words, folder=folder)
    assert ran.code == 2
    assert told in ran.err
