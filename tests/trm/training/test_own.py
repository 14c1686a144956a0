"""Networks, positions, tasks and layouts of one's own, in a file of one's own, are used as ours."""

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
        ("--import=mine.py", *task_and_network),
        ("--import", "mine", "--config", f"{RUN}/config.yaml"),
    ):
        forget()
        ran = command("test", *words, "--ckpt_path", "best", folder=own_folder)
        assert ran.code == 0, ran.err
        said.append(ran.out)
    assert "test/solved" in said[0]
    assert said[0] == said[1]
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


@pytest.mark.parametrize(
    "given", ["--data.task=mine.Subtracton", "model: {init_args: {network: mine.Subtracton}}"]
)
def test_what_is_wrong_with_a_class_is_one_sentence(own_folder, command, debug, given):
    if not given.startswith("--"):
        (own_folder / "faulty.yaml").write_text(given)
        given = "--config=faulty.yaml"
    ran = command("fit", *debug, given, folder=own_folder)
    assert ran.code == 2
    assert "there is no class mine.Subtracton. Did you mean mine.Subtraction?" in ran.err
    assert "Traceback" not in ran.err
