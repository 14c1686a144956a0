"""Networks, positions, tasks and layouts of one's own, in a file of one's own, are used as ours."""

import json
import sys

import pytest
import torch
import yaml

from canvas.choices import import_code
from canvas.problems import Problems
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_solver

RUN = "runs/debug/version_0"
SHORT = ("--trainer.max_epochs=1",)


def forget() -> None:
    """As if another process began."""
    sys.modules.pop("mine", None)


@pytest.fixture(scope="module")
def task_and_network(own_folder, command, repository) -> tuple:
    """A run of both, and the words of its call."""
    held = yaml.safe_load((repository / "configs/debug.yaml").read_text())
    network = {"class_path": "mine.MyModel", "init_args": {"config": {"channels": 6}}}
    held["model"]["init_args"]["network"] = network
    held["data"]["task"] = "mine.Subtraction"
    (own_folder / "mine.yaml").write_text(yaml.safe_dump(held))
    words = ("--config", own_folder / "mine.yaml", *SHORT)
    words += ("--data.canvas.height=4", "--data.canvas.width=5", "--model.depth.schedule=carry")
    ran = command("fit", *words, folder=own_folder)
    assert ran.code == 0, ran.err
    return words


def test_a_task_and_a_network_are_trained_tested_and_loaded(own_folder, command, task_and_network):
    best = torch.load(own_folder / RUN / "checkpoints/best.ckpt", weights_only=True)
    about, task = best[CHECKPOINT_KEY], best[DATA_KEY]["task"]
    assert (about["family"], about["network"]) == ("iterative", "mine.MyModel")
    assert about["model"] == {"channels": 6, "updates": 4}
    assert (task["task"], task["layout"]) == ("mine.Subtraction", "below")
    said = []
    for words in (
        task_and_network,
        ("--import=mine.py", *task_and_network),
        ("--import", "mine", "--config", f"{RUN}/config.yaml"),
    ):
        forget()
        ran = command("test", *words, "--ckpt_path", "best", folder=own_folder)
        assert ran.code == 0, ran.err
        said.append(ran.out)
    assert "test/solved" in said[0]
    assert said == [said[0]] * 3
    forget()
    with pytest.raises(ValueError, match=r"its (task|network) is mine\.\w+, .* name the module"):
        load_solver(own_folder, device="cpu")
    assert "mine" not in sys.modules  # a checkpoint imports no code
    import_code(str(own_folder / "mine.py"))
    solver = load_solver(own_folder, device="cpu")
    assert type(solver.task) is sys.modules["mine"].Subtraction
    assert type(solver.predictor.model) is sys.modules["mine"].MyModel
    (solution,) = solver.solve(Problems.from_ints([(604, 87)]))
    assert (len(solution.rows), solver.task.answer(solution.operands)) == (1, 517)
    with pytest.raises(ValueError, match="is no problem of the task subtraction"):
        solver.task.problems([(87, 604)])


def test_predictions_are_of_the_problems_that_a_task_allows(own_folder, command, task_and_network):
    ran = command("predict", *task_and_network, "--ckpt_path", "best", folder=own_folder)
    assert ran.code == 0, ran.err
    lines = (own_folder / RUN / "predictions-0.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 16
    for record in records:
        a, b = map(int, record["operands"])
        assert a >= b
        assert record["problem"] == f"{a} - {b}"
        assert record["correct"] == (record["answer"] == str(a - b))


def test_a_layout_and_a_position_are_trained_and_loaded(own_folder, command, debug):
    words = (*debug, *SHORT, "--data.task.layout=mine.Totals")
    words += ("--model.network.config.position=mine.Diagonal",)
    words += ("--model.network.config.skip_blank=true", "--trainer.logger.init_args.name=other")
    words += ("--model.network.config.neighbourhood=local_nearest",)
    ran = command("fit", *words, folder=own_folder)
    assert ran.code == 0, ran.err
    best = own_folder / "runs/other"
    forget()
    with pytest.raises(ValueError, match=r"its (layout|position) is mine\.\w+, .* name the module"):
        load_solver(best, device="cpu")
    import_code(str(own_folder / "mine.py"))
    solver = load_solver(best, device="cpu")
    assert type(solver.task.rules) is sys.modules["mine"].Totals
    assert type(solver.predictor.model.position) is sys.modules["mine"].Diagonal
    (solution,) = solver.solve(Problems.from_ints([(12, 345)]))
    assert len(solution.rows) == 3


@pytest.mark.parametrize(
    "given", ["--data.task=slip.Half", "model: {init_args: {network: slip.Half}}"]
)
def test_what_is_wrong_with_a_class_is_one_sentence(mine, command, debug, given):
    folder = mine("slip", "class Haft:\n    pass\n")
    if not given.startswith("--"):
        (folder / "faulty.yaml").write_text(given)
        given = "--config=faulty.yaml"
    ran = command("fit", *debug, given, folder=folder)
    assert ran.code == 2
    assert "slip.Half: slip.py has no Half. Did you mean Haft?" in ran.err
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
    ],
)
def test_what_names_nothing_usable_is_told(own_folder, command, debug, words, told):
    ran = command("fit", *debug, *words, folder=own_folder)
    assert ran.code == 2
    assert told in ran.err
