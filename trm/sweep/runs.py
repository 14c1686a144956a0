"""Runs of a study: planning, training and evaluation, each run in processes of its own.

    OUTPUT/runs/<run>/               files of `trm fit`: checkpoints and curves
        config.yaml                  a copy, so later changes of the original affect no run
        log.txt                      output of `trm fit` and `trm evaluate`
        state.json                   progress of the run, see `State`
    OUTPUT/evaluations/<name>/<run>/ files of `trm evaluate`

`trm sweep` starts the commands of each run, one after the other. The commands end when `trm sweep`
ends, for any reason. When the study is started again, an interrupted run continues from its last
epoch, a failed run repeats the stage that failed, and a finished run is left alone.
"""

import json
import logging
import math
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import Any

from pydantic import TypeAdapter

from canvas.task import Task
from trm.checkpoints import COST_KEY, find_checkpoint
from trm.config_files import config_of_run, find_config
from trm.evaluation.grid import GRID
from trm.files import fingerprint, read_object, validated, write_json
from trm.processes import ENDS_WITH
from trm.sweep.study import EQUAL_LOSS, LOSS, Run, Setting, Study

_LOG, _STATE, _CONFIG = "log.txt", "state.json", "config.yaml"
_APART = 0.05  # relative difference that "equal" numbers of parameters may have
_SHOWN = 1000  # most characters of an error
_INTERVAL = 0.5  # seconds between two polls of the processes


@dataclass
class State:
    """Progress of a run."""

    options: list[str] = field(default_factory=list)  # options of `trm fit` at its start
    config: str = ""  # SHA-256
    trained: bool = False  # True once training has finished
    cost: dict[str, float] | None = None  # of training, from `trm.training.callbacks.Cost`
    losses: dict[str, float] = field(default_factory=dict)  # checkpoint → validation loss
    evaluated: dict[str, list[str]] = field(default_factory=dict)  # evaluations, see `Jobs.wanted`
    error: str = ""  # of a run that failed


def plan(
    study: Study, tell: Callable[[str], None], check: Callable[[Task], None] = lambda task: None
) -> Study:
    """Return the study with parameters counted, and made equal if the study requires that.

    ``tell`` gets each setting's name before its model is built, ``check`` its task.

    Raises:
        ValueError: a setting's options are wrong, or ``check`` refuses its task; the message
            contains the setting's name.
    """
    settled: list[Setting] = []
    first: dict[str, int] = {}  # group → number of parameters of its first setting
    for setting in study.settings:
        tell(setting.name)
        group, options = study.group_of(setting), setting.options
        try:
            config_of_run(setting.config)
            config = f"--config={find_config(setting.config)}"
            if study.parameters and group in first:
                value = _making_up([config, *options], study.parameters, first[group])
                options = (*options, f"--{study.parameters}={value}")
            parameters, steps = count([config, *options], check)
        except (ValueError, MemoryError) as error:
            raise ValueError(f"{setting.name}: {error}") from None
        settled.append(replace(setting, options=options, parameters=parameters, steps=steps))
        first.setdefault(group, parameters)
    return replace(study, settings=tuple(settled))


def count(words: Sequence[str], check: Callable[[Task], None] = lambda _: None) -> tuple[int, int]:
    """Return the parameters and optimiser steps of a run with these options of `trm fit`."""
    from trm.training.cli import train

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        bare = ("--trainer.logger=false", "--trainer.devices=1")
        try:
            cli = train([*words, *bare], run=False)
        finally:
            logging.disable(logging.NOTSET)
    check(cli.datamodule.task)
    steps, epochs = cli.trainer.max_steps, cli.trainer.max_epochs
    if epochs is not None and epochs >= 0:
        batches = cli.datamodule.batches_per_epoch
        whole = epochs * math.ceil(batches / cli.trainer.accumulate_grad_batches)
        steps = min(steps, whole) if steps >= 0 else whole
    if steps < 0:
        raise ValueError("the run has no end: set trainer.max_epochs or trainer.max_steps")
    return int(cli.model.model.num_parameters), steps


def _making_up(words: Sequence[str], key: str, parameters: int) -> int:
    """Return the value of a key for which a model has about this number of parameters.

    Raises:
        ValueError: no value gives a number within 5 %.
    """

    @cache
    def many(value: int) -> int:
        return count([*words, f"--{key}={value}"])[0]

    each = many(2) - many(1)  # parameters per unit of the value: the number grows linearly
    found = max(1, 1 + round((parameters - many(1)) / each)) if each else 1
    if abs(many(found) - parameters) > _APART * parameters:
        raise ValueError(
            f"with {key} {found} the model has {many(found):,} parameters, and {parameters:,} are "
            "wanted: choose another key for equal.parameters, or let the settings differ less"
        )
    return found


class Jobs:
    """Runs of a study in a folder, with their progress and the work on them.

    ValueError: a file there is not what `trm sweep` writes.
    """

    def __init__(self, output: Path, study: Study) -> None:
        self.output, self.study = output, study
        self.states: dict[Run, State] = {}
        self.stages: dict[Run, str] = {}  # stages in progress
        for run in study.runs():
            file = self.folder(run) / _STATE
            self.states[run] = validated(TypeAdapter(State), read_object(file) or {}, str(file))

    def folder(self, run: Run) -> Path:
        """Return the folder of a run."""
        return self.output / "runs" / run.folder

    def grid(self, name: str, run: Run) -> Path:
        """Return the file with the figures of one of a run's evaluations."""
        return self.output / "evaluations" / name / run.folder / GRID

    def wanted(self, run: Run) -> dict[str, list[str]] | None:
        """Return the checkpoint and options of each of a run's evaluations; these fix its figures.

        Returns None while the checkpoint is not known.
        """
        checkpoint = self.study.checkpoint
        if checkpoint == EQUAL_LOSS:
            group = self.study.compared_with(run)
            trained = {one: losses for one in group if (losses := self.states[one].losses)}
            if run not in trained or any(
                one not in trained and not self.states[one].error for one in group
            ):
                return None
            goal = max(min(losses.values()) for losses in trained.values())
            checkpoint = min(name for name, loss in trained[run].items() if loss <= goal)
        return {name: [checkpoint, *options] for name, options in self.study.evaluations.items()}

    def left(self) -> list[Run]:
        """Return the runs that are not done."""
        return [run for run in self.states if not self._is_done(run)]

    def _is_done(self, run: Run) -> bool:
        state, wanted = self.states[run], self.wanted(run)
        return state.trained and wanted is not None and wanted.items() <= state.evaluated.items()

    def stage(self, run: Run) -> str:
        """Describe the progress of a run."""
        if error := self.states[run].error:
            return f"failed: {error}"
        over = "done" if self._is_done(run) else "trained"
        return self.stages.get(run, over if self.states[run].trained else "waiting")

    def begin(self) -> None:
        """Make the folders of all runs, with copies of their configs.

        Raises:
            ValueError: a run was started with other settings.
        """
        for run, state in self.states.items():
            options = [*run.setting.options, f"--seed={run.seed}"]
            config = fingerprint(find_config(run.setting.config))
            changed = sorted(set(state.options) ^ set(options))
            changed += ["the config itself"] if state.config != config else []
            if state.options and changed:
                raise ValueError(
                    f"{run.name} was started with other settings ({', '.join(changed)[:_SHOWN]}): "
                    f"choose another --output, or remove {self.folder(run)}"
                )
            state.options, state.config, state.error = options, config, ""
        for run in self.states:
            folder = self.folder(run)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(find_config(run.setting.config), folder / _CONFIG)

    def work(self, tell: Callable[[Run], None], at_once: int, devices: Sequence[str] = ()) -> None:
        """Train and evaluate all runs that are not done, ``at_once`` at a time, after `begin`.

        ``tell`` gets each run whose stage changed. Each run has one of the ``devices``, GPUs of
        this machine by their names for CUDA_VISIBLE_DEVICES.
        """
        free = [devices[i % len(devices)] if devices else "" for i in range(at_once)]
        started: dict[Run, tuple[Popen[bytes], str]] = {}
        try:
            while True:
                for run in self.states:
                    if free and run not in started and (step := self._next(run)):
                        self.stages[run], words = step
                        self._write(run)
                        device = free.pop(0)
                        started[run] = self._submit(run, words, device), device
                        tell(run)
                if not started:
                    return
                time.sleep(_INTERVAL)
                for run, (job, device) in list(started.items()):
                    if job.poll() is not None:
                        del started[run]
                        self._ended(run, job.returncode)
                        free.append(device)
                        tell(run)
        finally:
            self.stages.clear()
            for job, _ in started.values():
                job.terminate()
            for job, _ in started.values():
                job.wait()

    def _next(self, run: Run) -> tuple[str, list[str]] | None:
        """Return the next stage of a run and its arguments of `trm`; None: there is none now."""
        state, folder = self.states[run], self.folder(run)
        if state.error:
            return None
        if not state.trained:
            place = {"save_dir": str(folder.parent), "name": run.folder}
            kind = "lightning.pytorch.loggers.TensorBoardLogger"
            logger = json.dumps({"class_path": kind, "init_args": place})
            words = [f"--config={folder / _CONFIG}", *state.options, f"--trainer.logger={logger}"]
            return "training", ["fit", *words, "--ckpt_path=last"]
        for name, wanted in (self.wanted(run) or {}).items():
            if state.evaluated.get(name) != wanted:
                checkpoint, *options = wanted
                output = self.grid(name, run).parent
                (output / GRID).unlink(missing_ok=True)  # of another checkpoint
                words = [f"--checkpoint={self._checkpoint(run, checkpoint)}"]
                words += [f"--output={output}", "--quiet"]
                return f"evaluating {name}", ["evaluate", *options, *words]
        return None

    def _checkpoint(self, run: Run, name: str) -> Path:
        """Return the run's newest checkpoint of this name.

        Without a ``best`` one, as without validation, this is the last one.
        """
        names = (f"{name}.ckpt", "last.ckpt") if name == "best" else (f"{name}.ckpt",)
        return find_checkpoint(self.folder(run), names)

    def _submit(self, run: Run, words: list[str], device: str) -> Popen[bytes]:
        """Start `trm` with these arguments; its output is appended to the run's log."""
        environment = os.environ | {ENDS_WITH: str(os.getpid())}
        if device:
            environment["CUDA_VISIBLE_DEVICES"] = device
        with (self.folder(run) / _LOG).open("a", buffering=1, encoding="utf-8") as log:
            print(f"{time.strftime('%F %T')} trm {words[0]}", file=log)
            # Only this process gets a Ctrl-C; it then ends the others.
            options: dict[str, Any] = {"stdin": DEVNULL, "stdout": log, "stderr": STDOUT}
            options |= {"env": environment, "start_new_session": True}
            return Popen([sys.executable, "-P", "-m", "trm", *words], **options)

    def _ended(self, run: Run, code: int) -> None:
        """Record the result of a command, by its exit code."""
        from trm.checkpoints.loading import load_checkpoint

        state, stage = self.states[run], self.stages.pop(run)
        if code != 0:
            log = (self.folder(run) / _LOG).read_text(encoding="utf-8", errors="replace")
            last = log.strip().rpartition("\n")[2]
            state.error = f"{stage} ended with code {code}: {last[:_SHOWN]}"
        elif stage == "training":
            content = load_checkpoint(self._checkpoint(run, "last"))
            state.trained, state.cost = True, content.get(COST_KEY)
            if self.study.checkpoint == EQUAL_LOSS:
                state.losses = _losses(content)
                if not state.losses:
                    state.error = "no checkpoint has a loss on validation: let them come earlier"
        else:
            name = stage.removeprefix("evaluating ")
            state.evaluated[name] = (self.wanted(run) or {})[name]
            if state.losses:
                content = load_checkpoint(self._checkpoint(run, state.evaluated[name][0]))
                state.cost = content.get(COST_KEY)
        self._write(run)

    def _write(self, run: Run) -> None:
        write_json(self.folder(run) / _STATE, asdict(self.states[run]))


def _losses(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite validation losses of a run's kept checkpoints, by name."""
    return {
        Path(file).stem: float(loss)
        for callback in content.get("callbacks", {}).values()
        if callback.get("monitor") == LOSS
        for file, loss in callback["best_k_models"].items()
        if math.isfinite(loss)
    }
