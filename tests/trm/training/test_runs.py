import csv
import json
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from jsonargparse import Namespace
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from runs import assert_same, events_of

from trm.checkpoints import COST_KEY
from trm.evaluation.models import describe
from trm.training.loggers import (
    IDS,
    TrackioLogger,
    begin_runs,
    give_ids,
    keep_tables,
    lock_run,
    run_ids,
    wait_for_next_second,
    without_run,
)
from trm.training.runs import find_newest

CONSTANT = ("--model.schedule.decay", "constant")
LAST = ("--ckpt_path", "last")
RUN = "runs/debug/version_0"
LONGER = (*CONSTANT, "--trainer.max_epochs", 3)


def load(run: Path, name: str = "last") -> dict:
    return torch.load(run / f"checkpoints/{name}.ckpt", weights_only=True)


def runs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs/debug").iterdir())


def files(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def whole(command, debug, tmp_path_factory) -> Path:
    """A run of three epochs that nothing interrupted; not to be changed."""
    folder = tmp_path_factory.mktemp("whole")
    command("fit", *debug, *LONGER, folder=folder)
    return folder / RUN


@pytest.fixture(scope="module")
def begun(command, debug, tmp_path_factory) -> Path:
    """The same run, after its first epoch; not to be changed."""
    folder = tmp_path_factory.mktemp("begun")
    words = ("fit", *debug, *CONSTANT, "--trainer.max_epochs", 1, *LAST)
    ran = command(*words, folder=folder)
    assert "no run below runs/debug: training starts from scratch" in ran.err
    return folder


@pytest.fixture
def halves(begun, tmp_path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "halves"))


@pytest.fixture(scope="module")
def resumed(command, debug, begun, tmp_path_factory) -> Path:
    """The begun run, resumed to its end; not to be changed."""
    folder = Path(shutil.copytree(begun, tmp_path_factory.mktemp("resumed") / "run"))
    (folder / "runs/debug/version_7").mkdir()  # without a checkpoint, no run
    last = folder / RUN / "checkpoints/last.ckpt"
    saved = last.read_bytes()
    for _ in range(2):
        last.write_bytes(saved)  # as if it had been killed in its third epoch the first time
        command("fit", *debug, *LONGER, "--data.workers", 2, *LAST, folder=folder)
    return folder


@pytest.fixture
def with_a_perfect_best(halves) -> Path:
    """The run, whose best checkpoint is better than there will ever be again."""
    content = load(halves / RUN)
    (state,) = (s for n, s in content["callbacks"].items() if n.startswith("BestCheckpoint"))
    state["best_k_models"] = dict.fromkeys(state["best_k_models"], torch.tensor(2.0))
    state["dirpath"] = f"{RUN}/checkpoints"
    torch.save(content, halves / RUN / "checkpoints/last.ckpt")
    return halves


def test_scoring_requires_an_existing_checkpoint(command, debug, tmp_path):
    for words, told in ((), "give --ckpt_path best"), (LAST, "there is no checkpoint runs/debug"):
        assert told in command("test", *debug, *words, folder=tmp_path, code=2).err
        assert not list(tmp_path.iterdir())


def test_a_resumed_run_is_the_whole_one(begun, resumed, whole):
    assert runs(resumed) == ["version_0", "version_7"]
    run = resumed / RUN
    assert load(run)["global_step"] == 6
    for name in ("last", "best"):
        assert_same(load(whole, name), load(run, name))
    cost, straight = (describe(one / "checkpoints/last.ckpt", "m")["cost"] for one in (run, whole))
    assert cost["samples"] == straight["samples"] == 6 * 4
    assert cost["flops"] == pytest.approx(straight["flops"], rel=0.01)
    assert cost["flops"] > 1e7
    assert cost["seconds"] > load(begun / RUN)[COST_KEY]["seconds"] > 0
    assert yaml.safe_load((run / "config.yaml").read_text())["trainer"]["max_epochs"] == 3
    curves, straight = map(events_of, (run, whole))
    assert curves.Tags()["scalars"] == straight.Tags()["scalars"]
    for tag in ("train/loss", "validation/solved"):  # one curve
        points = [(event.step, event.value) for event in curves.Scalars(tag)]
        assert points == [(event.step, event.value) for event in straight.Scalars(tag)]
    assert [event.step for event in curves.Scalars("validation/solved")] == [1, 3, 5]


@pytest.mark.parametrize(("second", "slept"), [(1000, [0.76]), (999, []), (1060, [])])
def test_a_run_resumes_after_the_second_of_its_earlier_events(tmp_path, monkeypatch, second, slept):
    clock = SimpleNamespace(time=lambda: 1000.25, sleep=(waited := []).append)
    monkeypatch.setattr("trm.training.loggers.time", clock)
    (tmp_path / f"events.out.tfevents.{second}.host.1.9").touch()
    wait_for_next_second([TensorBoardLogger(tmp_path, name="", version="")])
    assert waited == pytest.approx(slept)


def test_a_run_that_is_still_trained_is_not_resumed(command, debug, halves, monkeypatch):
    monkeypatch.setattr("trm.training.loggers._PATIENCE", 0)
    before = files(halves)
    with lock_run([TensorBoardLogger(halves / "runs", name="debug", version=0)]):
        ran = command("fit", *debug, *LONGER, *LAST, folder=halves, code=2)
    assert "another process trains in runs/debug/version_0" in ran.err
    assert files(halves) == before


def test_a_folder_that_another_new_run_has_taken_is_left_to_it(
    command, debug, tmp_path, monkeypatch
):
    """It took the folder after this run had chosen the same one."""
    other = ExitStack()

    def lock_second(loggers) -> ExitStack:
        (tmp_path / RUN).mkdir(parents=True, exist_ok=True)
        other.push(lock_run(loggers))
        return lock_run(loggers)

    monkeypatch.setattr("trm.training.loggers._PATIENCE", 0)
    monkeypatch.setattr("trm.training.tensorboard.lock_run", lock_second)
    with other:
        ran = command("fit", *debug, folder=tmp_path, code=2)
        assert "another process trains in runs/debug/version_0" in ran.err
        assert (tmp_path / RUN).is_dir()


def test_a_resumed_run_uses_and_prints_the_settings_of_its_call(command, debug, halves):
    words = ("--model.optimizer.lr", 1e-4, "--model.optimizer.weight_decay", 0.3, *LAST)
    ran = command("fit", *debug, *LONGER, *words, folder=halves)
    assert "model.optimizer.lr 0.0001 (was 0.003), model.optimizer.weight_decay 0.3 (was" in ran.err
    (state,) = load(halves / RUN)["optimizer_states"]
    groups = [(one["lr"], one["weight_decay"]) for one in state["param_groups"]]
    assert groups == [(1e-4, 0.3), (1e-4, 0.0)]
    rates = events_of(halves / RUN).Scalars("learning_rate/decayed")
    assert [event.value for event in rates][2:] == pytest.approx([1e-4] * 4)


@pytest.mark.parametrize(
    ("words", "path", "told"),
    [
        (("--model.optimizer.name", "muon"), "last", "the state of another optimizer than muon"),
        (("--model.network.config.hidden_size", 32), "best", "the checkpoint holds another model"),
        (("--trainer.logger.init_args.version", 0), None, "holds a run already: resume it with"),
        (("--trainer.logger", "false"), "last", "a run needs a logger"),
    ],
)
def test_a_run_that_cannot_begin_or_resume_leaves_nothing(
    command, debug, halves, words, told, path
):
    before = files(halves)
    words = (*words, *(("--ckpt_path", path) if path else ()))
    ran = command("fit", *debug, *LONGER, *words, folder=halves, code=2)
    assert told in ran.err
    assert files(halves) == before
    assert runs(halves) == ["version_0"]


def test_other_problems_are_another_run_which_has_no_best_yet(command, debug, with_a_perfect_best):
    folder = with_a_perfect_best
    before = files(folder / RUN)
    words = ("--data.task.layout", "standard", "--data.validation_problems", 3)
    ran = command("fit", *debug, *LONGER, *words, *LAST, folder=folder)
    for key, value in zip(words[::2], words[1::2], strict=True):
        assert f"{key.removeprefix('--')} {value} (was " in ran.err
    begun = f"A new run goes on from {RUN}/checkpoints/last.ckpt, in a folder of its own"
    assert f"{begun}, as data.task.layout and data.validation_problems changed." in ran.err
    assert files(folder / RUN) == before
    assert load(folder / "runs/debug/version_1", "best")["global_step"] == 6


def test_callbacks_and_limits_that_a_resumed_run_lacks_are_named(command, debug, tmp_path):
    """Without its averages, say, it would train on from the averaged weights."""
    average = "--trainer.callbacks+", "lightning.pytorch.callbacks.EMAWeightAveraging"
    limit = "--trainer.limit_train_batches", 1
    words = ("fit", *debug, *CONSTANT, "--trainer.max_epochs")
    command(*words, 1, *average, "--trainer.callbacks.decay", 0.9, *limit, folder=tmp_path)
    given = command(*words, 1, *average, "--trainer.callbacks.decay", 0.9, *limit, *LAST,
                    folder=tmp_path)  # fmt: skip
    assert "Resuming from" not in given.err
    ran = command(*words, 2, *LAST, folder=tmp_path)
    assert "trainer.callbacks none (was EMAWeightAveraging(" in ran.err
    assert "decay=0.9" in ran.err
    assert "trainer.limit_train_batches None (was 1)" in ran.err


def test_a_new_run_that_would_train_nothing_is_refused(command, debug, halves):
    before = files(halves)
    words = ("fit", *debug, *CONSTANT, "--trainer.max_epochs", 1, "--seed", 3)
    for path in ("last", f"{RUN}/checkpoints/best.ckpt"):
        ran = command(*words, "--ckpt_path", path, folder=halves, code=2)
        assert "has trained for 1 epochs, and the new run ends with as many: raise" in ran.err
        assert "begin anew with --weights runs/debug/version_0" in ran.err
    assert files(halves) == before
    assert runs(halves) == ["version_0"]


def test_a_run_that_is_longer_than_its_limit_is_refused(command, debug, halves):
    before = files(halves)
    for key, most, done in (("max_epochs", 0, "1 epochs"), ("max_steps", 1, "2 steps")):
        words = ("fit", *debug, *CONSTANT, "--trainer.max_epochs", 1, f"--trainer.{key}", most)
        ran = command(*words, *LAST, folder=halves, code=2)
        assert f"has trained for {done}, and the run should end with {most}: raise" in ran.err
        assert f"raise trainer.{key}, or begin anew without --ckpt_path" in ran.err
    assert files(halves) == before


def test_scores_on_other_problems_than_those_of_training_say_so(command, debug, halves):
    words = ("test", *debug, *CONSTANT, "--ckpt_path", "best")
    assert "was trained with" not in command(*words, folder=halves).err
    ran = command(*words, "--data.task.base", 8, "--quiet", folder=halves)
    assert f"{RUN}/checkpoints/best.ckpt was trained with data.task.base 10 (here 8)." in ran.err
    assert runs(halves) == ["version_0"]  # scores leave no run to resume


def test_a_moved_run_that_resumes_has_one_best_checkpoint(command, debug, with_a_perfect_best):
    folder = with_a_perfect_best
    (folder / "runs/debug").rename(folder / "runs/moved")
    settings = {"name": "moved", "save_dir": folder / "runs"}  # which was relative
    words = [w for k, v in settings.items() for w in (f"--trainer.logger.init_args.{k}", v)]
    command("fit", *debug, *LONGER, *words, *LAST, folder=folder)
    run = folder / "runs/moved/version_0"
    assert {file.name for file in run.rglob("*.ckpt")} == {"best.ckpt", "last.ckpt"}
    assert load(run, "best")["global_step"] == 2
    assert load(run)["global_step"] == 6


@pytest.mark.parametrize("name", ["last", "best"])
def test_a_chosen_run_resumes_in_place_only_from_its_last(command, debug, halves, whole, name):
    shutil.copytree(halves / RUN, halves / "runs/debug/version_5")
    words = ("--trainer.logger.init_args.version", 0) if name == "last" else ()
    words += ("--ckpt_path", f"{RUN}/checkpoints/{name}.ckpt")
    command("fit", *debug, *LONGER, *words, folder=halves)
    mine = {"last": RUN, "best": "runs/debug/version_6"}[name]
    assert_same(load(whole), load(halves / mine))
    others = {"runs/debug/version_5", RUN} - {mine}
    assert all(load(halves / other)["global_step"] == 2 for other in others)


def test_a_run_stopped_in_its_first_epoch_resumes_from_its_best(command, debug, halves):
    (halves / RUN / "checkpoints/last.ckpt").unlink()
    words = ("fit", *debug, *CONSTANT, "--trainer.max_epochs", 1, *LAST)
    best = f"{RUN}/checkpoints/best.ckpt"
    ran = command(*words, folder=halves)
    assert f"No epoch of {RUN} has ended: training resumes from {best}, which was" in ran.err
    assert runs(halves) == ["version_0"]
    assert load(halves / RUN)["global_step"] == 2


def test_the_newest_run_with_a_checkpoint_is_resumed(begun, tmp_path, monkeypatch, caplog):
    shutil.copytree(begun / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    settings = Namespace(save_dir="runs", name="debug", version=None)
    config = Namespace(trainer=Namespace(logger=Namespace(init_args=settings)))
    older, newer = Path(RUN), Path("runs/debug/version_1")
    shutil.copytree(older, newer)
    (older / "checkpoints/last.ckpt").touch()  # as in a copy, whose times are no order
    assert find_newest(config, "last", fit=True) == newer / "checkpoints/last.ckpt"
    shutil.rmtree(newer / "checkpoints")
    with caplog.at_level("INFO"):
        assert find_newest(config, "last", fit=True) == older / "checkpoints/last.ckpt"
        shutil.rmtree(older)
        assert find_newest(config, "last", fit=True) is None
    resumes, starts = caplog.messages
    ended = f"No epoch of {newer} has ended: training"
    assert resumes == f"{ended} resumes from {older}/checkpoints/last.ckpt."
    assert starts == f"{ended} starts from scratch."


@pytest.mark.skipif(sys.platform == "win32", reason="Windows makes links for administrators alone")
@pytest.mark.parametrize(
    ("linked", "state", "step"),
    [("version_0", "halves", 6), ("version_0/checkpoints", "with_a_perfect_best", 2)],
)
def test_a_run_on_another_disk_resumes_and_keeps_its_best(
    command, debug, linked, state, step, request
):
    folder = request.getfixturevalue(state)
    disk = shutil.move(folder / "runs/debug" / linked, folder / "disk")
    (folder / "runs/debug" / linked).symlink_to(disk, target_is_directory=True)
    command("fit", *debug, *LONGER, *LAST, folder=folder)
    assert runs(folder) == ["version_0"]
    assert load(folder / RUN)["global_step"] == 6
    assert load(folder / RUN, "best")["global_step"] == step


def table(run: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics.csv, without those figures that tell how fast it was."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if v and not k.startswith("speed/")} for row in rows]


def test_the_table_of_a_resumed_run_is_that_of_a_whole_one(resumed, whole):
    """metrics.csv beside TensorBoard's events, without being asked for."""
    rows = table(whole)
    assert table(resumed / RUN) == rows
    steps = [int(row["step"]) for row in rows if "train/loss" in row]
    assert steps == list(range(6))
    events = events_of(whole)
    for name in ("train/loss", "validation/solved", "training_problems/solved"):
        points = [(int(row["step"]), float(row[name])) for row in rows if name in row]
        assert points == [(e.step, pytest.approx(e.value)) for e in events.Scalars(name)]


@pytest.mark.parametrize(
    "place", [{"save_dir": "runs", "name": "debug"}, {"save_dir": "other", "name": "mine"}]
)
def test_a_csv_logger_of_ones_own_is_not_doubled(command, debug, place, tmp_path):
    given = [{"save_dir": "runs", "name": "debug"}, place]
    kinds = [f"lightning.pytorch.loggers.{name}" for name in ("TensorBoardLogger", "CSVLogger")]
    loggers = [
        {"class_path": kind, "init_args": one} for kind, one in zip(kinds, given, strict=True)
    ]
    words = ("--trainer.logger", json.dumps(loggers), "--trainer.max_epochs", 1)
    command("fit", *debug, *words, folder=tmp_path)
    files = [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("metrics.csv")]
    others = ["other/mine/version_0/metrics.csv"] if place["name"] == "mine" else []
    assert sorted(files) == [*others, f"{RUN}/metrics.csv"]
    rows = table(tmp_path / RUN)
    assert [int(row["step"]) for row in rows if "train/loss" in row] == [0, 1]


def test_the_metrics_of_a_killed_run_are_found_again(tmp_path):
    folder = tmp_path / "mine/version_0"
    folder.mkdir(parents=True)
    cut_short = "4"
    (folder / "metrics.before.csv").write_text(f"a,step\n1,0\n2,1\n3,2\n{cut_short}")
    logger = CSVLogger(tmp_path, "mine", 0)
    keep_tables([logger], step=2)
    assert (folder / "metrics.csv").read_text().split() == ["a,step", "1,0", "2,1"]
    assert not (folder / "metrics.before.csv").exists()


def test_the_config_that_a_resumed_run_keeps_begins_a_new_run(command, resumed, tmp_path):
    folder = Path(shutil.copytree(resumed, tmp_path / "copy"))
    kept = folder / RUN / "config.yaml"
    assert kept.read_text().startswith(f"# went on from {RUN}/checkpoints/last.ckpt")
    config = yaml.safe_load(kept.read_text())
    assert config["ckpt_path"] is None
    assert config["trainer"]["logger"]["init_args"]["version"] is None
    before = files(folder / RUN)
    command("fit", "--config", kept, "--trainer.max_epochs", 1, folder=folder)
    assert len(runs(folder)) == len(runs(resumed)) + 1
    assert files(folder / RUN) == before


def test_a_logger_without_its_service_is_named_before_training(tmp_path):
    class Unreachable(TrackioLogger):
        @property
        def experiment(self):
            raise RuntimeError("api_key not configured")

    begin_runs([TensorBoardLogger(tmp_path)])
    with pytest.raises(ValueError, match=r"^Unreachable cannot begin its run: api_key.*offline"):
        begin_runs([TensorBoardLogger(tmp_path), Unreachable("multiply")])
    assert list(tmp_path.iterdir()) == []


def test_a_trackio_run_continues_by_its_name(monkeypatch):
    calls: list[tuple] = []

    def init(**settings):
        calls.append(("init", settings["project"], settings["name"], settings["resume"]))
        return SimpleNamespace(
            name=settings["name"] or "chosen",
            log=lambda figures, step: calls.append(("log", figures, step)),
            finish=lambda: calls.append(("finish",)),
        )

    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace(init=init))
    logger = TrackioLogger("multiply")
    assert (logger.name, logger.version) == ("multiply", None)
    logger.log_metrics({"train/loss": torch.tensor(0.5)}, step=3)
    assert run_ids([logger]) == {"TrackioLogger": "chosen"}
    logger.finalize("success")
    TrackioLogger("multiply", "chosen").log_metrics({"train/loss": 0.25}, step=4)
    assert calls == [
        ("init", "multiply", None, "allow"),
        ("log", {"train/loss": 0.5}, 3),
        ("finish",),
        ("init", "multiply", "chosen", "allow"),
        ("log", {"train/loss": 0.25}, 4),
    ]


def test_loggers_of_services_get_the_id_of_the_resumed_run():
    name = "lightning.pytorch.loggers.MLFlowLogger"
    logger = Namespace(class_path=name, init_args=Namespace())
    config = Namespace(trainer=Namespace(logger=[logger]))
    give_ids(config, {IDS: {"MLFlowLogger": "abc", "WandbLogger": "def"}})
    assert config.trainer.logger[0].init_args.run_id == "abc"
    begun = config.as_dict() | {"ckpt_path": "last.ckpt"}
    settings = {"class_path": name, "init_args": {"run_id": None}}
    assert without_run(begun) == {"trainer": {"logger": [settings]}, "ckpt_path": None}
    assert begun["trainer"]["logger"][0]["init_args"]["run_id"] == "abc"
