import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from trm.extras.sweep import planning
from trm.extras.sweep import runs as module
from trm.extras.sweep.planning import built, parameters_of, plan, steps_of
from trm.extras.sweep.report import changes
from trm.extras.sweep.runs import Jobs
from trm.extras.sweep.study import EQUAL_LOSS, Equal, Setting, Study
from trm.io.files import write_json

SIZE = "model.network.config.intermediate_size"
LAYERS = "model.network.config.num_layers"


def a_study(*names: str, seeds=(0,), **evaluations: list[str]) -> Study:
    settings = tuple(Setting(name, {}, "debug", (f"--x={name}",)) for name in names)
    return Study(settings, seeds, checkpoint="last", evaluations=evaluations)


class Trm:
    """Stands for processes of `trm`: remembers the words, and ends with the codes it is given."""

    def __init__(self, monkeypatch, **codes: int) -> None:
        self.commands: list[str] = []
        self.words: list[list[str]] = []
        self.devices: list[str] = []
        self.at_once = 0
        self.codes = codes

        def submit(jobs: Jobs, run, words: list[str], device: str, module: str) -> SimpleNamespace:
            self.words.append(words)
            self.commands.append(words[0])
            self.devices.append(device)
            self.at_once = max(self.at_once, len(jobs.stages))
            with (jobs.folder(run) / "log.txt").open("a") as log:
                log.write(f"some figures\ntrm {words[0]}: it says why\n\n")
            code = self.codes.get(words[0], 0) or self.codes.get(run.setting.name, 0)
            looks = iter([None])  # it is still at work at the first
            return SimpleNamespace(returncode=code, poll=lambda: next(looks, code))

        cost = {"seconds": 1.0, "flops": 1.0}
        monkeypatch.setattr(Jobs, "_submit", submit)
        monkeypatch.setattr(module, "_INTERVAL", 0)
        monkeypatch.setattr(module, "load_checkpoint", lambda file: {"cost": cost, "file": file})
        monkeypatch.setattr(Jobs, "checkpoint", lambda jobs, run, name: Path(f"{run.name}/{name}"))


def do(output: Path, study: Study, at_once: int = 1, devices=()) -> Jobs:
    jobs = Jobs(output, study)
    jobs.begin()
    jobs.work(lambda run, text: None, at_once, devices)
    return jobs


def stages(jobs: Jobs) -> list[str]:
    return [jobs.stage(run).partition(":")[0] for run in jobs.states]


def test_a_run_is_trained_and_evaluated_once(tmp_path, monkeypatch, repository):
    study, trm = a_study("a", near=["--digits-a", "1"], far=["--digits-a", "9"]), Trm(monkeypatch)
    assert stages(do(tmp_path, study)) == ["done"]
    assert stages(do(tmp_path, study)) == ["done"]
    assert trm.commands == ["fit", "evaluate", "evaluate"]
    fit, near, far = trm.words
    config = tmp_path / "runs/a-seed0/config.yaml"
    assert fit[1] == f"--config={config}"
    assert config.read_text() == (repository / "configs/debug.yaml").read_text()
    assert fit[2:4] == ["--x=a", "--seed=0"]
    assert fit[-1] == "--ckpt_path=last"  # goes on where it was ended
    assert f"--output={tmp_path / 'evaluations/near/a-seed0'}" in near
    assert far[1:3] == ["--digits-a", "9"]
    assert json.loads((tmp_path / "runs/a-seed0/state.json").read_text())["trained"] is True


def test_runs_can_be_added_and_have_a_device_each(tmp_path, monkeypatch):
    trm = Trm(monkeypatch)
    do(tmp_path, a_study("a", near=["--digits-a", "1"]))
    wider = a_study("a", seeds=(0, 1), near=["--digits-a", "1"], far=["--digits-a", "9"])
    do(tmp_path, wider)
    assert trm.commands == ["fit", "evaluate", "evaluate", "fit", "evaluate", "evaluate"]
    do(tmp_path, replace(wider, checkpoint="best"))
    assert trm.commands[6:] == ["evaluate"] * 4
    do(tmp_path, a_study("b", "c", "d"), 3, devices=["2", "5"])
    assert trm.devices[-3:] == ["2", "5", "2"]


@pytest.mark.parametrize("failing", ["fit", "evaluate", "b"])
def test_a_failed_run_stops_no_other_and_continues_where_it_was(tmp_path, monkeypatch, failing):
    study, trm = a_study("a", "b", "c", near=[]), Trm(monkeypatch, **{failing: 2})
    jobs = do(tmp_path, study, at_once=2)
    assert trm.at_once == 2
    others = "done" if failing == "b" else "failed"
    assert stages(jobs) == [others, "failed", others]
    command = "evaluate" if failing == "evaluate" else "fit"
    error = list(Jobs(tmp_path, study).states.values())[1].error
    assert error.endswith(f"ended with code 2: trm {command}: it says why")
    trm.codes.clear()
    trm.commands.clear()
    assert stages(do(tmp_path, study)) == ["done"] * 3
    again = ["evaluate"] if failing == "evaluate" else ["fit", "evaluate"]
    assert sorted(trm.commands) == sorted(again * (1 if failing == "b" else 3))


def with_losses(monkeypatch, **losses: list[float]) -> None:
    """Let last checkpoints tell losses on validation, by the setting of their run."""

    def found(content) -> dict[str, float]:
        name = content["file"].parent.name.partition(",")[0]
        return {f"step={step}": loss for step, loss in enumerate(losses[name])}

    monkeypatch.setattr(module, "_losses", found)


def evaluated(jobs: Jobs) -> dict[str, str]:
    """The checkpoint of each run that is to be evaluated."""
    asked = {run.name: jobs.wanted(run) for run in jobs.states}
    return {name: which["near"][0] for name, which in asked.items() if which}


def test_equal_losses_are_reached_by_all_settings_of_a_seed(tmp_path, monkeypatch):
    with_losses(monkeypatch, shallow=[0.9, 0.7, 0.6], deep=[0.8, 0.5, 0.4])
    study = replace(a_study("shallow", "deep", near=[]), checkpoint=EQUAL_LOSS)
    trm = Trm(monkeypatch)
    jobs = do(tmp_path, study)
    assert trm.commands == ["fit", "fit", "evaluate", "evaluate"]  # when both are trained
    assert evaluated(jobs) == {"shallow, seed 0": "step=2", "deep, seed 0": "step=1"}
    assert stages(jobs) == ["done", "done"]
    # One more setting stays higher, and others are evaluated again.
    with_losses(monkeypatch, flat=[0.85])
    more = replace(a_study("shallow", "deep", "flat", near=[]), checkpoint=EQUAL_LOSS)
    jobs = do(tmp_path, more)
    assert evaluated(jobs)["deep, seed 0"] == "step=0"
    assert trm.commands[4:] == ["fit", "evaluate", "evaluate", "evaluate"]
    assert stages(jobs) == ["done"] * 3


def test_equal_losses_skip_failed_runs_and_need_a_loss(tmp_path, monkeypatch):
    with_losses(monkeypatch, a=[0.9], b=[0.1], c=[])
    trm = Trm(monkeypatch, b=1)
    jobs = do(tmp_path, replace(a_study("a", "b", "c", near=[]), checkpoint=EQUAL_LOSS))
    assert stages(jobs) == ["done", "failed", "failed"]
    assert "no checkpoint has a loss on validation" in list(jobs.states.values())[2].error
    assert trm.commands == ["fit", "fit", "fit", "evaluate"]


def test_a_run_is_not_continued_with_other_settings(tmp_path, monkeypatch):
    Trm(monkeypatch)
    study = a_study("a", near=[])
    do(tmp_path, study)
    changed = replace(study, settings=(replace(study.settings[0], options=("--x=b",)),))
    with pytest.raises(ValueError, match="a, seed 0 was started with other settings"):
        Jobs(tmp_path, changed).begin()
    other = replace(study, settings=(replace(study.settings[0], config="quickstart"),))
    with pytest.raises(ValueError, match="the config itself"):
        Jobs(tmp_path, other).begin()


def test_a_run_with_a_released_value_goes_on_in_its_folder(tmp_path, monkeypatch):
    def study(value: str, comment: str) -> Study:
        file = tmp_path / f"{value}.yaml"
        file.write_text(f"model: {value}  # {comment}\n")
        options = ("--x=all", f"--y={value}")
        return Study((Setting(f"y {value}, x all", {}, str(file), options),), evaluations={"e": []})

    trm = Trm(monkeypatch, evaluate=2)
    assert stages(do(tmp_path, study("local_nearest", "as released"))) == ["failed"]
    trm.codes.clear()
    jobs = do(tmp_path, study("local_farthest", "today"))
    assert stages(jobs) == ["done"]
    assert trm.commands == ["fit", "evaluate", "evaluate"]
    name = "y_local_nearest_x_all-seed0"
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == [name]
    assert f"--output={tmp_path / 'evaluations/e' / name}" in trm.words[-1]
    assert jobs.leftovers() == []
    assert "local_farthest  # today" in (tmp_path / "runs" / name / "config.yaml").read_text()
    for value in ("local_lines", "all"):  # other settings, and nobody's folder
        assert stages(Jobs(tmp_path, study(value, "today"))) == ["waiting"]


def test_what_a_study_has_no_longer_is_named(tmp_path, monkeypatch):
    Trm(monkeypatch)
    do(tmp_path, a_study("a", "b", near=[], far=[]))
    for run in ("a-seed0", "b-seed0"):
        (tmp_path / "evaluations/far" / run).mkdir(parents=True)
    assert Jobs(tmp_path, a_study("a", "b", "c", seeds=(0, 1), near=[], far=[])).leftovers() == []
    jobs = Jobs(tmp_path, a_study("b", near=[]))
    assert jobs.leftovers() == ["runs/a-seed0", "evaluations/far"]
    [sentence] = changes(jobs)
    assert sentence.endswith("left out of its report: runs/a-seed0, evaluations/far")


def test_own_code_that_has_changed_is_named(tmp_path, monkeypatch):
    Trm(monkeypatch)
    (tmp_path / "own_code.py").write_text("a = 1\n")
    own = SimpleNamespace(__file__=str(tmp_path / "own_code.py"))
    monkeypatch.setitem(sys.modules, "own_code", own)
    study = a_study("a", near=[])
    study = replace(
        study, settings=(replace(study.settings[0], own_modules=("own_code", "numpy.gone")),)
    )
    assert changes(do(tmp_path / "out", study)) == []
    (tmp_path / "own_code.py").write_text("a = 2\n")
    more = do(tmp_path / "out", replace(study, seeds=(0, 1)))  # the second seed is new
    [sentence] = changes(more)
    assert sentence.startswith("own_code.py has changed since these runs were started")
    assert sentence.endswith("content: a, seed 0")


def test_a_foreign_state_is_refused_and_a_damaged_one_ignored(tmp_path):
    study = a_study("a")
    [run] = study.runs()
    file = Jobs(tmp_path, study).folder(run) / "state.json"
    write_json(file, {"trained": "perhaps"})
    with pytest.raises(ValueError, match=r"state\.json: trained: "):
        Jobs(tmp_path, study)
    file.write_text("{")
    assert Jobs(tmp_path, study).left() == [run]


def test_a_sweep_goes_on_after_runs_that_began_with_weights(tmp_path):
    study = a_study("a")
    [run] = study.runs()
    before = {"steps": 3, "samples": 12, "seconds": 0.5}
    cost = {"flops": 1e9, "samples": 12, "seconds": 0.5, "before": before}
    write_json(Jobs(tmp_path, study).folder(run) / "state.json", {"trained": True, "cost": cost})
    assert Jobs(tmp_path, study).states[run].cost == cost


@pytest.fixture
def counted(monkeypatch) -> None:
    """A model of ten parameters a channel of the feed-forward, and a thousand a layer."""

    def option(words, key: str, default: int) -> int:
        found = (int(word.partition("=")[2]) for word in words if word.startswith(f"--{key}="))
        return next(found, default)

    def built(words):
        number = 1000 * option(words, LAYERS, 1) + 10 * option(words, SIZE, 30)
        return SimpleNamespace(
            model=SimpleNamespace(model=SimpleNamespace(num_parameters=number)),
            datamodule=SimpleNamespace(task=None),
            trainer=SimpleNamespace(max_steps=60, max_epochs=None),
            config=SimpleNamespace(as_dict=dict),
        )

    monkeypatch.setattr(planning, "built", built)


def of_layers(*layers: int, within: str | None = None) -> Study:
    settings = tuple(
        Setting(f"{n}", {"width": "w", LAYERS: f"{n}"}, "debug", (f"--{LAYERS}={n}",))
        for n in layers
    )
    return Study(settings, equal=Equal(parameters=SIZE, within=within))


def test_a_key_equalises_parameters_within_each_value_of_an_axis(counted):
    deep, flat = plan(of_layers(2, 1), lambda name: None).settings
    assert deep.parameters == flat.parameters == 2300
    assert f"--{SIZE}=130" in flat.options
    with pytest.raises(ValueError, match=rf"2: with --{SIZE}=1 the model has 2,010 .* 1,300"):
        plan(of_layers(1, 2), lambda name: None)
    study = of_layers(2, 1, 4, 3, within="width")
    wide = tuple(replace(one, labels={"width": "wide"}) for one in study.settings[2:])
    planned = plan(replace(study, settings=study.settings[:2] + wide), lambda name: None)
    assert [one.parameters for one in planned.settings] == [2300, 2300, 4300, 4300]


@pytest.mark.parametrize(
    ("more", "steps"),
    [
        ([], 10),
        (["--trainer.accumulate_grad_batches=2"], 6),
        (["--trainer.max_steps=3"], 3),
        (["--trainer.max_epochs=1", "--data.batches_per_epoch=1"], 1),
    ],
)
def test_a_run_is_counted_without_a_trace(repository, tmp_path, monkeypatch, more, steps):
    monkeypatch.chdir(tmp_path)
    cli = built([f"--config={repository / 'configs/debug.yaml'}", *more])
    assert (parameters_of(cli), steps_of(cli)) == (5818, steps)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "own",
    [
        ("--data.task=mine.Subtraction", "--data.task.layout=below"),
        ("--data.task.layout=mine.Totals",),
        ("--model.network.config.position=mine.Diagonal",),
    ],
)
def test_evaluations_import_the_own_code_of_a_config(
    own_folder, repository, tmp_path, monkeypatch, own
):
    monkeypatch.chdir(own_folder)
    setting = Setting("a", {}, str(repository / "configs/debug.yaml"), own)
    study = plan(Study((setting,), checkpoint="last", evaluations={"near": []}), lambda name: None)
    assert study.settings[0].own_modules == ("mine",)
    trm = Trm(monkeypatch)
    do(tmp_path, study)
    assert ["--import=mine" in words for words in trm.words] == [False, True]
