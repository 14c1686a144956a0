import json
import math
import os
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas.problems import SPLITS, Problems, split_of

CONSTANT = ("--model.schedule.decay", "constant")
LAST = ("--ckpt_path", "last")
RUN = "runs/debug/version_0"
LONGER = (*CONSTANT, "--trainer.max_epochs", 3)
TENSORBOARD = "lightning.pytorch.loggers.TensorBoardLogger"
CSV = "lightning.pytorch.loggers.CSVLogger"


def load(run: Path, name: str = "last") -> dict:
    return torch.load(run / f"checkpoints/{name}.ckpt", weights_only=True)


def runs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs/debug").iterdir())


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
    assert command(*words, folder=folder, pictures=True).code == 0
    return folder


@pytest.fixture
def halves(begun, tmp_path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "halves"))


@pytest.fixture(scope="module")
def resumed(command, debug, begun, tmp_path_factory) -> Path:
    """That run gone on with twice, as if it had been killed in its third epoch the first time."""
    folder = Path(shutil.copytree(begun, tmp_path_factory.mktemp("resumed") / "halves"))
    left = folder / "runs/debug/version_7"  # by an evaluation, which is none to go on with
    left.mkdir()
    (left / "config.yaml").write_text("ckpt_path: other.ckpt\nverbose: true\n")
    last = folder / RUN / "checkpoints/last.ckpt"
    saved = last.read_bytes()
    for _ in range(2):
        last.write_bytes(saved)  # which knows no figures of the third epoch
        assert command("fit", *debug, *LONGER, *LAST, folder=folder, pictures=True).code == 0
    return folder


def same_weights(one: Path, other: Path, name: str = "last") -> bool:
    first, second = (load(run, name)["state_dict"] for run in (one, other))
    return all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize(("stage", "name"), [("fit", "best"), ("test", "last")])
def test_an_earlier_run_that_is_not_there_is_missed(command, debug, tmp_path, stage, name):
    ran = command(stage, *debug, "--ckpt_path", name, folder=tmp_path)
    assert ran.code == 2
    assert f"there is no {name}.ckpt of an earlier run" in ran.err


def test_a_resumed_run_goes_on_in_its_folder_and_ends_where_an_uninterrupted_one_does(
    resumed, begun, whole
):
    assert runs(resumed) == ["version_0", "version_7"]
    run = resumed / RUN
    assert load(run)["global_step"] == 15
    assert same_weights(run, whole)
    assert same_weights(run, whole, "best")
    assert (run / "config.yaml").read_text() == (begun / RUN / "config.yaml").read_text()
    assert yaml.safe_load((run / "config-2.yaml").read_text())["trainer"]["max_epochs"] == 3
    assert not (run / "config-3.yaml").exists()  # the second time nothing was different


def test_a_resumed_run_has_one_continuous_curve(resumed, whole):
    curves, straight = (EventAccumulator(str(path)).Reload() for path in (resumed / RUN, whole))
    assert curves.Tags()["scalars"] == straight.Tags()["scalars"]
    for tag in ("train/loss", "validation/solved"):
        points = [(event.step, event.value) for event in curves.Scalars(tag)]
        assert points == [(event.step, event.value) for event in straight.Scalars(tag)]
    for events in (curves.Scalars("validation/solved"), curves.Images("figures/by_size")):
        assert [event.step for event in events] == [4, 9, 14]


def test_a_chosen_run_goes_on_in_place(command, debug, halves, whole):
    shutil.copytree(halves / RUN, halves / "runs/debug/version_5")
    last = "runs/debug/version_0/checkpoints/last.ckpt"
    version = ("--trainer.logger.init_args.version", 0)
    assert command("fit", *debug, *LONGER, *version, "--ckpt_path", last, folder=halves).code == 0
    assert runs(halves) == ["version_0", "version_5"]
    assert same_weights(halves / RUN, whole)
    assert load(halves / "runs/debug/version_5")["global_step"] == 5


def test_a_run_from_another_checkpoint_is_a_run_of_its_own(command, debug, halves, whole):
    best = "runs/debug/version_0/checkpoints/best.ckpt"
    assert command("fit", *debug, *LONGER, "--ckpt_path", best, folder=halves).code == 0
    assert runs(halves) == ["version_0", "version_1"]
    assert same_weights(halves / "runs/debug/version_1", whole)
    assert load(halves / RUN)["global_step"] == 5


def test_what_only_evaluates_leaves_no_run_and_is_none_to_go_on_with(command, debug, halves, whole):
    another = ("fit", *debug, *CONSTANT, "--trainer.max_epochs", 1)
    assert command(*another, folder=halves).code == 0
    old = halves / RUN / "checkpoints/last.ckpt"
    for stage in ("validate", "test", "predict"):
        for path in (old, "best"):
            assert command(stage, *debug, "--ckpt_path", path, folder=halves).code == 0
    assert runs(halves) == ["version_0", "version_1"]
    assert command("fit", *debug, *LONGER, *LAST, folder=halves).code == 0
    assert runs(halves) == ["version_0", "version_1"]
    assert load(halves / RUN)["global_step"] == 5
    assert same_weights(halves / "runs/debug/version_1", whole)


def test_predictions_are_a_line_of_json_for_each_test_problem(trained_copy, command, debug):
    path = trained_copy / RUN / "checkpoints/best.ckpt"
    assert command("predict", *debug, "--ckpt_path", path, folder=trained_copy).code == 0
    file = trained_copy / RUN / "predictions-0.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(records) == 16
    for record in records:
        assert record["correct"] == (
            record["answer"] == str(math.prod(map(int, record["operands"])))
        )
        assert record["confidence"] == pytest.approx(math.prod(record["row_confidence"]))
        assert len(set(map(len, record["canvas"].splitlines()))) == 1
    pairs = Problems.from_ints([[*map(int, record["operands"])] for record in records])
    assert {SPLITS[split] for split in split_of(pairs)} == {"test"}


@pytest.mark.parametrize(
    "settings",
    [
        ("--trainer.logger", "true"),
        ("--trainer.logger", "false"),
        ("--checkpoint.dirpath", "elsewhere"),
        (
            "--trainer.logger",
            json.dumps(
                [
                    {"class_path": kind, "init_args": {"save_dir": "runs", "name": name}}
                    for kind, name in ((TENSORBOARD, "first"), (CSV, "second"))
                ]
            ),
        ),
    ],
    ids=["default logger", "no logger", "dirpath", "two loggers"],
)
def test_last_is_found_wherever_a_run_keeps_it(command, debug, tmp_path, whole, settings):
    words = ("fit", *debug, *CONSTANT, *settings, *LAST)
    ran = command(*words, "--trainer.max_epochs", 1, folder=tmp_path)
    assert (ran.code, "training begins anew" in ran.err) == (0, True)
    ran = command(*words, "--trainer.max_epochs", 3, folder=tmp_path)
    assert (ran.code, "training begins anew" in ran.err) == (0, False)
    (last,) = tmp_path.rglob("last.ckpt")
    (best,) = tmp_path.rglob("best.ckpt")
    assert last.parent == best.parent
    content = torch.load(last, weights_only=True)
    assert content["global_step"] == 15
    straight = load(whole)["state_dict"]
    assert all(torch.equal(content["state_dict"][name], straight[name]) for name in straight)
    assert len(list(tmp_path.rglob("events.out*"))) == 2 * ("false" not in settings)
    assert len({file.parent for file in tmp_path.rglob("events.out*")}) <= 1  # one curve


def test_a_run_killed_before_its_first_checkpoint_begins_anew_and_says_so(
    command, debug, tmp_path, halves
):
    other = halves / "runs/debug/version_1"  # of another seed, killed in its first epoch
    other.mkdir()
    (other / "config.yaml").write_text("seed_everything: 1\nckpt_path: null\n")
    ran = command("fit", *debug, "--seed_everything", 1, *LAST, folder=halves)
    assert (ran.code, "has left no checkpoint: training begins anew" in ran.err) == (0, True)
    begun = load(halves / "runs/debug/version_2")
    assert begun["global_step"] == 10  # not those of the run before, gone on with
    assert not same_weights(halves / RUN, halves / "runs/debug/version_2")


def test_a_run_from_a_file_killed_early_begins_from_it_again(command, debug, halves, whole):
    start = halves / "start.ckpt"
    shutil.move(halves / "runs/debug/version_0/checkpoints/last.ckpt", start)
    shutil.rmtree(halves / RUN)
    killed = halves / "runs/debug/version_1"
    killed.mkdir()
    (killed / "config.yaml").write_text(f"ckpt_path: {start}\n")
    assert command("fit", *debug, *LONGER, *LAST, folder=halves).code == 0
    assert same_weights(halves / "runs/debug/version_2", whole)
    os.utime(killed / "config.yaml")  # the newest run again
    start.unlink()
    ran = command("fit", *debug, *LONGER, *LAST, folder=halves)
    assert (ran.code, f"began from {start}, which is gone" in ran.err) == (2, True)


def test_a_damaged_config_neither_stops_a_run_with_a_checkpoint_nor_begins_anew(
    command, debug, halves
):
    run = halves / RUN
    (run / "config.yaml").write_bytes(b"model: [1, 2")
    assert command("fit", *debug, *LONGER, *LAST, folder=halves).code == 0
    assert load(run)["global_step"] == 15
    shutil.rmtree(run / "checkpoints")
    for kept in run.glob("config-*"):
        kept.unlink()
    for damage in (b"", b"model: [1, 2", b"\xff\xfe"):
        (run / "config.yaml").write_bytes(damage)
        ran = command("fit", *debug, *LAST, folder=halves)
        assert ran.code == 2
        assert f"the newest run has left no checkpoint, and {RUN}/config.yaml" in ran.err
        assert runs(halves) == ["version_0"]


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
        ("runs/debug/version_0", ("--trainer.logger.init_args.version", 0)),
        (kept, ("--checkpoint.dirpath", kept)),
        (".", ("--trainer.logger", "false")),
    ):
        ran = command("fit", *debug, *settings, folder=halves)
        assert ran.code == 2
        assert f"{run} holds a run already: go on with it by --ckpt_path" in ran.err


@pytest.mark.parametrize("moved", [False, True])
def test_a_resumed_run_keeps_its_best(command, debug, halves, moved):
    run = halves / RUN
    content = load(run)
    for name, state in content["callbacks"].items():
        if name.startswith("BestCheckpoint"):  # better than it will ever be again
            state["best_k_models"] = dict.fromkeys(state["best_k_models"], torch.tensor(2.0))
    torch.save(content, run / "checkpoints/last.ckpt")
    best = (run / "checkpoints/best.ckpt").read_bytes()
    words = ("fit", *debug, *LONGER)
    if moved:  # a run of its own, from a folder that had another name
        run.rename(halves / "moved")
        words += ("--ckpt_path", halves / "moved/checkpoints/last.ckpt")
    else:
        words += LAST
    assert command(*words, folder=halves).code == 0
    assert (run / "checkpoints/best.ckpt").read_bytes() == best
    assert load(run)["global_step"] == 15
