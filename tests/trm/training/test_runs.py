import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trm.training.callbacks import Cost

CONSTANT = ("--model.schedule.decay", "constant")
LAST = ("--ckpt_path", "last")
RUN = "runs/debug/version_0"
LONGER = (*CONSTANT, "--trainer.max_epochs", 3)
LOGGERS = ("TensorBoardLogger", "CSVLogger")


def load(run: Path, name: str = "last") -> dict:
    return torch.load(run / f"checkpoints/{name}.ckpt", weights_only=True)


def runs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs/debug").iterdir())


def files(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def same_weights(one: Path, other: Path, name: str = "last") -> bool:
    first, second = (load(run, name)["state_dict"] for run in (one, other))
    return all(torch.equal(first[key], second[key]) for key in first)


@pytest.fixture(scope="module")
def whole(command, debug, tmp_path_factory) -> Path:
    """A run of three epochs that nothing interrupted; not to be changed."""
    folder = tmp_path_factory.mktemp("whole")
    ran = command("fit", *debug, *LONGER, folder=folder)
    assert ran.code == 0, ran.err
    return folder / RUN


@pytest.fixture(scope="module")
def begun(command, debug, tmp_path_factory) -> Path:
    """The same run, after its first epoch; not to be changed."""
    folder = tmp_path_factory.mktemp("begun")
    words = ("fit", *debug, *CONSTANT, "--trainer.max_epochs", 1)
    assert command(*words, folder=folder).code == 0
    return folder


@pytest.fixture
def halves(begun, tmp_path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "halves"))


@pytest.fixture
def interrupted(monkeypatch):
    """From here on, until it is undone, training is interrupted before its third batch."""

    def stop(self, trainer, module, batch, batch_idx):
        if batch_idx == 2:
            raise KeyboardInterrupt
        real(self, trainer, module, batch, batch_idx)

    real = Cost.on_train_batch_start
    monkeypatch.setattr(Cost, "on_train_batch_start", stop)
    return monkeypatch


@pytest.mark.parametrize(("stage", "name"), [("fit", "best"), ("test", "last")])
def test_an_earlier_run_that_is_not_there_is_missed(command, debug, tmp_path, stage, name):
    ran = command(stage, *debug, "--ckpt_path", name, folder=tmp_path)
    assert ran.code == 2
    assert f"there is no {name}.ckpt of an earlier run" in ran.err


def test_a_resumed_run_goes_on_in_its_folder_as_if_it_had_not_been_interrupted(
    command, debug, begun, whole, tmp_path
):
    folder = Path(shutil.copytree(begun, tmp_path / "halves"))
    (folder / "runs/debug/version_7").mkdir()  # without a checkpoint, no run
    last = folder / RUN / "checkpoints/last.ckpt"
    saved = last.read_bytes()
    for _ in range(2):
        last.write_bytes(saved)  # as if it had been killed in its third epoch the first time
        assert command("fit", *debug, *LONGER, *LAST, folder=folder).code == 0
    assert runs(folder) == ["version_0", "version_7"]
    run = folder / RUN
    assert load(run)["global_step"] == 15
    assert same_weights(run, whole)
    assert same_weights(run, whole, "best")
    assert (run / "config.yaml").read_text() == (begun / RUN / "config.yaml").read_text()
    assert yaml.safe_load((run / "config-2.yaml").read_text())["trainer"]["max_epochs"] == 3
    assert not (run / "config-3.yaml").exists()  # the second time nothing was different
    curves, straight = (EventAccumulator(str(path)).Reload() for path in (run, whole))
    assert curves.Tags()["scalars"] == straight.Tags()["scalars"]
    for tag in ("train/loss", "validation/solved"):  # one curve
        points = [(event.step, event.value) for event in curves.Scalars(tag)]
        assert points == [(event.step, event.value) for event in straight.Scalars(tag)]
    assert [event.step for event in curves.Scalars("validation/solved")] == [4, 9, 14]


def test_a_run_that_ends_within_an_epoch_goes_on_within_it(command, debug, tmp_path, whole):
    words = ("fit", *debug, *LONGER, "--data.workers", 2)
    assert command(*words, "--trainer.max_steps", 8, folder=tmp_path).code == 0
    assert load(tmp_path / RUN)["global_step"] == 8
    ran = command(*words, *LAST, folder=tmp_path)
    assert ran.code == 0, ran.err
    assert load(tmp_path / RUN)["global_step"] == 15
    assert same_weights(tmp_path / RUN, whole)
    ran = command(*words, *LAST, folder=tmp_path)
    assert (ran.code, "already complete; raise --trainer.max_epochs" in ran.err) == (0, True)


def test_a_run_stopped_in_its_first_epoch_goes_on_from_where_it_began(
    command, debug, halves, whole, interrupted
):
    words = ("fit", *debug, *LONGER)
    shutil.move(halves / RUN / "checkpoints/last.ckpt", halves / "start.ckpt")
    ran = command(*words, "--ckpt_path", "start.ckpt", folder=halves)
    assert ran.code == 130
    assert "stopped; with --ckpt_path last it goes on after epoch 1\n" in ran.err
    interrupted.undo()
    assert command(*words, *LAST, folder=halves).code == 0
    assert same_weights(halves / "runs/debug/version_1", whole)
    assert runs(halves) == ["version_0", "version_1"]
    assert not (halves / "runs/debug/version_1/checkpoints/start").exists()


def test_a_run_that_goes_on_uses_the_settings_of_its_call_and_says_what_differs(
    command, debug, halves
):
    words = ("--model.optimizer.lr", 1e-4, "--model.optimizer.weight_decay", 0.3, *LAST)
    ran = command("fit", *debug, *LONGER, *words, folder=halves)
    assert "model.optimizer.lr 0.0001 (was 0.003), model.optimizer.weight_decay 0.3 (was" in ran.err
    (state,) = load(halves / RUN)["optimizer_states"]
    assert [(one["lr"], one["weight_decay"]) for one in state["param_groups"]] == [
        (1e-4, 0.3),
        (1e-4, 0.0),
    ]
    rates = EventAccumulator(str(halves / RUN)).Reload().Scalars("learning_rate/decayed")
    assert [event.value for event in rates][5:] == pytest.approx([1e-4] * 10)


@pytest.mark.parametrize(
    ("words", "path", "told"),
    [
        (("--model.optimizer.name", "muon"), "last", "is of another optimizer than muon"),
        (("--model.network.config.hidden_size", 32), "best", "the checkpoint holds another model"),
    ],
)
def test_what_cannot_go_on_leaves_nothing(command, debug, halves, words, told, path):
    before = files(halves)
    ran = command("fit", *debug, *LONGER, *words, "--ckpt_path", path, folder=halves)
    assert ran.code == 2
    assert told in ran.err
    assert files(halves) == before
    assert runs(halves) == ["version_0"]


def test_other_problems_are_another_run_which_has_no_best_yet(command, debug, halves):
    words = ("--data.task.layout", "standard")
    last = load(halves / RUN)
    for name, state in last["callbacks"].items():
        if name.startswith("BestCheckpoint"):  # better than it will ever be again
            state["best_k_models"] = dict.fromkeys(state["best_k_models"], torch.tensor(2.0))
    torch.save(last, halves / RUN / "checkpoints/last.ckpt")
    before = files(halves / RUN)
    ran = command("fit", *debug, *LONGER, *words, *LAST, folder=halves)
    assert ran.code == 0, ran.err
    assert f"{words[0].removeprefix('--')} {words[1]} (was " in ran.err
    assert files(halves / RUN) == before
    assert load(halves / "runs/debug/version_1", "best")["global_step"] == 15
    place = ("--checkpoint.dirpath", RUN + "/checkpoints")
    ran = command("fit", *debug, *LONGER, *words, *place, *LAST, folder=halves)
    assert (ran.code, f"{place[1]} holds a run already" in ran.err) == (2, True)


@pytest.mark.parametrize("name", ["last", "best"])
def test_a_chosen_run_goes_on_in_place_only_from_its_last(command, debug, halves, whole, name):
    shutil.copytree(halves / RUN, halves / "runs/debug/version_5")
    words = ("--trainer.logger.init_args.version", 0) if name == "last" else ()
    words += ("--ckpt_path", f"{RUN}/checkpoints/{name}.ckpt")
    assert command("fit", *debug, *LONGER, *words, folder=halves).code == 0
    mine = {"last": RUN, "best": "runs/debug/version_6"}[name]
    assert same_weights(halves / mine, whole)
    others = {"runs/debug/version_5", RUN} - {mine}
    assert all(load(halves / other)["global_step"] == 5 for other in others)


def test_what_only_evaluates_leaves_no_run_and_is_none_to_go_on_with(command, debug, halves, whole):
    newer = Path(shutil.copytree(halves / RUN, halves / "runs/debug/version_1"))
    (newer / "checkpoints/last.ckpt").touch()
    assert command("test", *debug, "--ckpt_path", "best", folder=halves).code == 0
    assert runs(halves) == ["version_0", "version_1"]
    assert command("fit", *debug, *LONGER, *LAST, folder=halves).code == 0
    assert runs(halves) == ["version_0", "version_1"]
    assert load(halves / RUN)["global_step"] == 5
    assert same_weights(halves / "runs/debug/version_1", whole)


@pytest.mark.parametrize(
    "settings",
    [
        ("--trainer.logger", "false"),
        (
            *("--checkpoint.dirpath", "elsewhere", "--trainer.logger"),
            json.dumps(
                [
                    {"class_path": kind, "init_args": {"save_dir": "runs", "name": kind}}
                    for kind in LOGGERS
                ]
            ),
        ),
    ],
    ids=["no logger", "dirpath and two loggers"],
)
def test_last_is_found_wherever_a_run_keeps_it(command, debug, tmp_path, settings):
    words = ("fit", *debug, *settings, *LAST)
    ran = command(*words, "--trainer.max_epochs", 1, folder=tmp_path)
    assert (ran.code, "training begins anew" in ran.err) == (0, True)
    ran = command(*words, folder=tmp_path)
    assert (ran.code, "training begins anew" in ran.err) == (0, False)
    (last,) = tmp_path.rglob("last.ckpt")
    (best,) = tmp_path.rglob("best.ckpt")
    assert last.parent == best.parent
    assert torch.load(last, weights_only=True)["global_step"] == 10
    assert len(list(tmp_path.rglob("events.out*"))) == 2 * ("false" not in settings)
    assert len({file.parent for file in tmp_path.rglob("events.out*")}) <= 1  # one curve


def test_a_config_is_written_whole_or_not_at_all(command, debug, tmp_path, monkeypatch):
    def full(self, *_, **__):
        if self.name.startswith(".config"):
            raise OSError(28, "No space left on device", str(self))
        return write(self, *_, **__)

    write = Path.write_text
    monkeypatch.setattr(Path, "write_text", full)
    ran = command("fit", *debug, folder=tmp_path)
    assert (ran.code, "No space left on device" in ran.err) == (2, True)
    assert not list(tmp_path.rglob("*config*.yaml*"))


def test_a_run_that_begins_does_not_write_over_another(command, debug, halves):
    kept = "runs/debug/version_0/checkpoints"
    shutil.copytree(halves / kept, halves / "checkpoints")
    for run, settings in (
        (kept, ("--trainer.logger.init_args.version", 0)),
        (kept, ("--checkpoint.dirpath", kept)),
        ("checkpoints", ("--trainer.logger", "false")),
    ):
        ran = command("fit", *debug, *settings, folder=halves)
        assert ran.code == 2
        assert f"{run} holds a run already: go on with it by --ckpt_path" in ran.err


def test_a_resumed_run_keeps_its_best(command, debug, halves):
    run = halves / RUN
    content = load(run)
    for name, state in content["callbacks"].items():
        if name.startswith("BestCheckpoint"):  # better than it will ever be again
            state["best_k_models"] = dict.fromkeys(state["best_k_models"], torch.tensor(2.0))
    torch.save(content, run / "checkpoints/last.ckpt")
    best = (run / "checkpoints/best.ckpt").read_bytes()
    assert command("fit", *debug, *LONGER, *LAST, folder=halves).code == 0
    assert (run / "checkpoints/best.ckpt").read_bytes() == best
    assert load(run)["global_step"] == 15
