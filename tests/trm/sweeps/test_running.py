import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trm.files import alone, write_object
from trm.sweeps import running
from trm.sweeps.plan import Plan, Planned, config_of
from trm.sweeps.running import (
    DONE,
    FAILED,
    TRAINED,
    State,
    Workers,
    check_unchanged,
    finished,
    folder_of,
    let_wait,
    newest_checkpoint,
    run_point,
    state_of,
    states_of,
    wanted,
)
from trm.sweeps.study import EQUAL_LOSS
from trm.sweeps.trial import Trial

TRIAL = Trial(10, 60, 6, 1, 16, 100.0, 0.1)


def a_plan(*names: str, seeds: tuple[int, ...] = (0,), **evaluations: list[str]) -> Plan:
    settings = tuple(Planned(name, {}, (name,), (f"--x={name}",), "sha", TRIAL) for name in names)
    return Plan(settings, seeds, "last", evaluations)


def is_finished(output: Path, plan: Plan, point) -> bool:
    states = states_of(output, plan)
    return finished(states[point], wanted(plan, states)[point])


class Trm:
    """Stands for `trm`: remembers its words, and ends with the codes it is given."""

    def __init__(self, **codes: int) -> None:
        self.words: list[list[str]] = []
        self.codes = codes

    def __call__(self, words, log: Path) -> int:
        self.words.append(list(words))
        with log.open("a") as out:
            out.write(f"some figures\ntrm {words[0]}: it says why\n")
        return self.codes.get(words[0], 0)

    @property
    def commands(self) -> list[str]:
        return [words[0] for words in self.words]


def test_a_run_is_trained_and_evaluated_once(tmp_path):
    plan, trm = a_plan("a", near=["--digits-a", "1"], far=["--digits-a", "9"]), Trm()
    [point] = plan.points()
    assert not is_finished(tmp_path, plan, point)
    assert run_point(tmp_path, plan, point, trm).stage == DONE
    assert is_finished(tmp_path, plan, point)
    run_point(tmp_path, plan, point, trm)
    assert trm.commands == ["fit", "evaluate", "evaluate"]
    fit, near, far = trm.words
    assert fit[1] == f"--config={config_of(tmp_path, point.config)}"
    assert "--seed=0" in fit
    assert fit[-1] == "--ckpt_path=last"  # goes on where it was killed
    assert f"--output={tmp_path / 'evaluations/near/a-seed0'}" in near
    assert far[1:3] == ["--digits-a", "9"]


def test_another_evaluation_is_made_of_a_run_that_is_done(tmp_path):
    plan = a_plan("a", near=["--digits-a", "1"])
    [point] = plan.points()
    run_point(tmp_path, plan, point, Trm())
    wider, trm = a_plan("a", near=["--digits-a", "1"], far=["--digits-a", "9"]), Trm()
    assert not is_finished(tmp_path, wider, point)
    run_point(tmp_path, wider, point, trm)
    assert trm.commands == ["evaluate"]
    assert is_finished(tmp_path, wider, point)


@pytest.mark.parametrize("failing", ["fit", "evaluate"])
def test_a_run_that_fails_says_why_and_goes_on_there_the_next_time(tmp_path, failing):
    plan = a_plan("a", near=[])
    [point] = plan.points()
    state = run_point(tmp_path, plan, point, Trm(**{failing: 2}))
    assert state.stage == FAILED
    assert state.error == f"trm {failing} ended with code 2: trm {failing}: it says why"
    assert state_of(tmp_path, point) == state
    again = Trm()
    assert run_point(tmp_path, plan, point, again).error == ""
    assert again.commands == (["fit", "evaluate"] if failing == "fit" else ["evaluate"])


def told_losses(monkeypatch, **losses: list[float]) -> None:
    """Let last checkpoints tell losses on validation, by the setting of their run."""
    monkeypatch.setattr(
        running,
        "_losses",
        lambda last: {
            f"step={step}": loss
            for step, loss in enumerate(losses[last.parent.name.partition("-")[0]])
        },
    )


def equal_loss(*names: str) -> Plan:
    return replace(a_plan(*names, near=["--digits-a", "1"]), checkpoint=EQUAL_LOSS)


def evaluated(output: Path, plan: Plan) -> dict[str, str]:
    """Which checkpoint of each setting is to be evaluated."""
    asked = wanted(plan, states_of(output, plan))
    return {point.setting: which["near"][0] for point, which in asked.items() if which}


def test_equal_losses_are_those_that_all_settings_of_a_seed_reach(tmp_path, monkeypatch):
    told_losses(monkeypatch, shallow=[0.9, 0.7, 0.6], deep=[0.8, 0.5, 0.4])
    plan, trm = equal_loss("shallow", "deep"), Trm()
    shallow, deep = plan.points()
    assert run_point(tmp_path, plan, shallow, trm).stage == TRAINED  # waits for the other
    assert evaluated(tmp_path, plan) == {}
    assert run_point(tmp_path, plan, deep, trm).stage == DONE
    assert evaluated(tmp_path, plan) == {"shallow": "step=2", "deep": "step=1"}
    assert run_point(tmp_path, plan, shallow, trm).stage == DONE
    assert trm.commands == ["fit", "fit", "evaluate", "evaluate"]
    assert all(is_finished(tmp_path, plan, point) for point in plan.points())


def test_another_setting_that_stays_higher_has_others_evaluated_again(tmp_path, monkeypatch):
    told_losses(monkeypatch, shallow=[0.9, 0.7], deep=[0.8, 0.5], flat=[0.9, 0.8])
    two, three, trm = equal_loss("shallow", "deep"), equal_loss("shallow", "deep", "flat"), Trm()
    for plan in (two, three):
        for _ in range(2):  # once to be trained, once to be evaluated
            for point in plan.points():
                run_point(tmp_path, plan, point, trm)
    assert evaluated(tmp_path, three) == {"shallow": "step=1", "deep": "step=0", "flat": "step=1"}
    assert all(is_finished(tmp_path, three, point) for point in three.points())
    assert trm.commands.count("fit") == 3
    assert trm.commands.count("evaluate") == 4  # of deep twice


def test_a_run_that_failed_is_left_out_of_what_is_compared(tmp_path, monkeypatch):
    told_losses(monkeypatch, shallow=[0.9, 0.7], deep=[0.8, 0.5])
    plan = equal_loss("shallow", "deep")
    shallow, deep = plan.points()
    assert run_point(tmp_path, plan, shallow, Trm(fit=1)).stage == FAILED
    assert run_point(tmp_path, plan, deep, Trm()).stage == DONE
    assert evaluated(tmp_path, plan) == {"deep": "step=1"}
    let_wait(tmp_path, shallow)
    assert evaluated(tmp_path, plan) == {}  # it is going to be tried again
    run_point(tmp_path, plan, shallow, Trm())
    assert evaluated(tmp_path, plan) == {"shallow": "step=1", "deep": "step=1"}


def test_a_run_without_a_loss_on_validation_says_so(tmp_path, monkeypatch):
    told_losses(monkeypatch, a=[])
    plan, trm = equal_loss("a"), Trm()
    [point] = plan.points()
    state = run_point(tmp_path, plan, point, trm)
    assert (state.stage, trm.commands) == (FAILED, ["fit"])
    assert "no checkpoint has a loss on validation" in state.error


def test_losses_are_the_finite_ones_of_validation(tmp_path, monkeypatch):
    kept = {"monitor": "validation/loss", "best_k_models": {"a/step=1.ckpt": torch.tensor(0.5)}}
    kept["best_k_models"]["a/step=2.ckpt"] = torch.tensor(float("inf"))
    other = {"monitor": "validation/solved", "best_k_models": {"a/best.ckpt": torch.tensor(0.1)}}
    callbacks = {"one": kept, "other": other, "bar": {}}
    monkeypatch.setattr(running, "load_checkpoint", lambda file: {"callbacks": callbacks})
    (tmp_path / "last.ckpt").touch()
    assert running._losses(tmp_path / "last.ckpt") == {"step=1": 0.5}


def test_a_checkpoint_that_is_gone_is_not_replaced_by_another(tmp_path):
    plan = a_plan("a")
    [point] = plan.points()
    folder = folder_of(tmp_path, point) / "version_0/checkpoints"
    folder.mkdir(parents=True)
    (folder / "last.ckpt").touch()
    assert newest_checkpoint(tmp_path, point, "best").name == "last.ckpt"
    assert newest_checkpoint(tmp_path, point, "step=3").name == "step=3.ckpt"


def test_a_run_belongs_to_one_process(tmp_path):
    plan, trm = a_plan("a"), Trm()
    [point] = plan.points()
    folder_of(tmp_path, point).mkdir(parents=True)
    with (
        alone(folder_of(tmp_path, point) / "point.json"),
        pytest.raises(ValueError, match="another process is at work"),
    ):
        run_point(tmp_path, plan, point, trm)
    assert not trm.words


def test_a_folder_of_other_settings_is_refused(tmp_path):
    plan = a_plan("a")
    [point] = plan.points()
    run_point(tmp_path, plan, point, Trm())
    check_unchanged(tmp_path, plan)
    [one] = plan.settings
    for name, value in (("words", ("--x=b",)), ("config", "other")):
        changed = Plan((Planned(**vars(one) | {name: value}),), (0,), "last", {})
        with pytest.raises(ValueError, match="a, seed 0 was started with other settings"):
            check_unchanged(tmp_path, changed)


@pytest.mark.parametrize("content", ["", "[1]", '{"stage": "done"', '{"strange": 1}'])
def test_a_damaged_state_is_none(tmp_path, content):
    plan = a_plan("a")
    [point] = plan.points()
    folder_of(tmp_path, point).mkdir(parents=True)
    (folder_of(tmp_path, point) / "point.json").write_text(content)
    assert state_of(tmp_path, point) == State()


def test_one_failure_stops_no_other_and_each_process_has_its_share(tmp_path, monkeypatch):
    seen = []

    def call(words, log, environment, started) -> int:
        seen.append((words[2], environment["OMP_NUM_THREADS"]))
        log.write_text("trm fit: no\n")
        return int("--x=b" in words)

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("trm.sweeps.running.call", call)
    monkeypatch.setattr("trm.sweeps.running.cores", lambda: 8)
    plan, told = a_plan("a", "b", "c"), []
    points = list(plan.points())
    workers = Workers(2, len(points))
    workers.run(
        tmp_path, plan, points, lambda point, state: told.append(state.stage), lambda ended: None
    )
    assert sorted(seen) == [("--x=a", "4"), ("--x=b", "4"), ("--x=c", "4")]
    assert [state_of(tmp_path, point).stage for point in points] == [DONE, FAILED, DONE]
    assert sorted(told) == sorted(["training"] * 3 + ["done"] * 2 + ["failed"])


def test_its_state_is_plain_data(tmp_path):
    plan = a_plan("a")
    [point] = plan.points()
    run_point(tmp_path, plan, point, Trm())
    held = json.loads((folder_of(tmp_path, point) / "point.json").read_text())
    assert held["stage"] == "done"
    assert held["trained"] is True


def test_another_checkpoint_is_another_evaluation(tmp_path):
    plan = a_plan("a", near=["--digits-a", "1"])
    [point] = plan.points()
    run_point(tmp_path, plan, point, Trm())
    other, trm = replace(plan, checkpoint="best"), Trm()
    assert not is_finished(tmp_path, other, point)
    run_point(tmp_path, other, point, trm)
    assert trm.commands == ["evaluate"]


def test_a_run_whose_processes_are_gone_waits(tmp_path):
    plan = a_plan("a")
    [point] = plan.points()
    write_object(folder_of(tmp_path, point) / "point.json", vars(State(stage="training")))
    let_wait(tmp_path, point)
    assert state_of(tmp_path, point).stage == "waiting"
    write_object(folder_of(tmp_path, point) / "point.json", vars(State(stage="training")))
    with alone(folder_of(tmp_path, point) / "point.json"):
        let_wait(tmp_path, point)  # another process is at work on it
    assert state_of(tmp_path, point).stage == "training"


def test_a_page_that_cannot_be_written_stops_no_run(tmp_path, monkeypatch, caplog):
    def look(ended: bool) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("trm.sweeps.running.call", lambda *all: 0)
    plan = a_plan("a", "b")
    points = list(plan.points())
    Workers(1, 2).run(tmp_path, plan, points, lambda point, state: None, look)
    assert [state_of(tmp_path, point).stage for point in points] == [DONE, DONE]
    assert "the disk is full" in caplog.text


@pytest.mark.parametrize("code", [130, 143, -15, -2])
def test_a_run_that_was_stopped_has_not_failed(tmp_path, code):
    plan = a_plan("a")
    [point] = plan.points()
    state = run_point(tmp_path, plan, point, Trm(fit=code))
    assert (state.stage, state.error) == ("waiting", "")
    again = Trm()
    run_point(tmp_path, plan, point, again)
    assert again.commands == ["fit"]


def test_each_process_has_a_gpu_of_those_that_may_be_used(monkeypatch):
    monkeypatch.setattr("trm.sweeps.running.torch.cuda.device_count", lambda: 2)
    for named, found in (("2,5", ["2", "5", "2"]), ("", ["0", "1", "0"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
        slots = Workers(3, 9)._slots
        assert [slots.get()["CUDA_VISIBLE_DEVICES"] for _ in range(3)] == found
    assert Workers(None, 9).number == 2
