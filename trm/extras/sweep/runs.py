"""Runs of a study: training and evaluation, each run in processes of its own.

    OUTPUT/runs/<run>/               files of `trm fit`: checkpoints and curves
        config.yaml                  a copy, so later changes of the original affect no run
        speed.json                   measured speed, see `trm.extras.sweep.speed`; with --minutes
        log.txt                      output of `trm fit` and `trm evaluate`
        state.json                   progress of the run, see `State`
    OUTPUT/evaluations/<name>/<run>/ files of `trm evaluate`
    OUTPUT/weights/<run>.safetensors weights of trained runs, if the study exports them

`trm sweep` starts the commands of each run, one after the other. The commands end when `trm sweep`
ends, for any reason. When the study is started again, an interrupted run continues from its last
epoch, a failed run repeats the stage that failed, and a finished run is left alone.
"""

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import Any

import torch
from pydantic import TypeAdapter

from trm.checkpoints import COST_KEY, SUFFIX, find_checkpoint
from trm.checkpoints.content import load_checkpoint, pack
from trm.evaluation.grid_format import GRID
from trm.extras.sweep.study import EQUAL_LOSS, LOSS, Run, Study
from trm.io.config_files import find_config, read_config
from trm.io.files import fingerprint, read_object, validated, write_bytes, write_json
from trm.released import moved, today
from trm.runtime.processes import ENDS_WITH

_LOG, _STATE, _CONFIG = "log.txt", "state.json", "config.yaml"
_EVALUATING = "evaluating "  # begin of the stages of evaluations
_SHOWN = 1000  # most characters of an error
_INTERVAL = 0.5  # seconds between two polls of the processes


@dataclass
class State:
    """Progress of a run."""

    options: list[str] = field(default_factory=list)  # options of `trm fit` at its start
    config: str = ""  # SHA-256
    own: dict[str, str] = field(default_factory=dict)  # module of the user's own → SHA-256
    trained: bool = False  # True once training has finished
    cost: dict[str, Any] | None = None  # of training, see `trm.training.callbacks.Cost`
    losses: dict[str, float] = field(default_factory=dict)  # checkpoint → validation loss
    evaluated: dict[str, list[str]] = field(default_factory=dict)  # evaluations, see `Jobs.wanted`
    exported: bool = False  # True once its weights are a file
    length: list[str] = field(default_factory=list)  # options of `trm fit` for a measured length
    steps: int = 0  # of the optimiser, in a run of measured length
    seconds: float = 0.0  # used by a run of a study with --minutes
    cut: int = 0  # steps of training that the end of its time has cut short; 0: it was not
    note: str = ""  # a sentence: the epochs that fit in its time, or why it was not trained
    stopped: str = ""  # a sentence: the stage that the end of its time has stopped
    error: str = ""  # of a run that failed


class Jobs:
    """Runs of a study in a folder, with their progress and their processes.

    Raises:
        ValueError: a file there was not written by `trm sweep`.
    """

    def __init__(self, output: Path, study: Study) -> None:
        self.output, self.study = output, study
        self.states: dict[Run, State] = {}
        self.stages: dict[Run, str] = {}  # stages in progress
        self.folders: dict[Run, str] = {}  # their names
        for run in study.runs():
            self.folders[run] = self._name_of_folder(run)
            file = self.folder(run) / _STATE
            self.states[run] = validated(TypeAdapter(State), read_object(file) or {}, str(file))

    def _name_of_folder(self, run: Run) -> str:
        """Return the name of a run's folder, which an earlier version may have begun."""
        names = (run.folder, run.released_folder)
        return next((name for name in names if (self.output / "runs" / name).is_dir()), run.folder)

    def folder(self, run: Run) -> Path:
        """Return the folder of a run."""
        return self.output / "runs" / self.folders[run]

    def grid(self, name: str, run: Run) -> Path:
        """Return the file with the figures of one of a run's evaluations."""
        return self.output / "evaluations" / name / self.folders[run] / GRID

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
        evaluations = self.study.evaluations_of(run.setting)
        return {name: [checkpoint, *options] for name, options in evaluations.items()}

    def left(self) -> list[Run]:
        """Return the runs that are not done."""
        return [run for run in self.states if not self._is_done(run)]

    def _is_done(self, run: Run) -> bool:
        state, wanted = self.states[run], self.wanted(run)
        evaluated = wanted is not None and wanted.items() <= state.evaluated.items()
        return state.trained and evaluated and (state.exported or not self.study.export)

    def stage(self, run: Run) -> str:
        """Describe the progress of a run."""
        if error := self.states[run].error:
            return f"failed: {error}"
        over = "done" if self._is_done(run) else "trained"
        waiting = "cut short" if self.states[run].cut else "waiting"
        return self.stages.get(run, over if self.states[run].trained else waiting)

    def check(self, timed: bool = False) -> None:
        """Check that all runs can go on.

        Raises:
            ValueError: a run was started with other settings, or a ``timed`` run without a measured
                length.
        """
        for run, state in self.states.items():
            if timed and not state.length and any(self.folder(run).glob("version_*")):
                raise ValueError(
                    f"{run.name} was started without --minutes, and trains to the end of its "
                    "config: leave out --minutes, or choose another --output"
                )
        for run, state in self.states.items():
            options, config = self._settings(run)
            changed = sorted({*map(today, state.options)} ^ {*map(today, options)})
            if state.config != config and not self._has_same_config(run):
                changed.append("the config itself")
            if state.options and changed:
                raise ValueError(
                    f"{run.name} was started with other settings ({', '.join(changed)[:_SHOWN]}): "
                    f"choose another --output, or remove {self.folder(run)}"
                )

    def _settings(self, run: Run) -> tuple[list[str], str]:
        """Return the options of `trm fit` for a run, and the SHA-256 of its config."""
        options = [*run.setting.options, f"--seed={run.seed}"]
        return options, fingerprint(find_config(run.setting.config))

    def _has_same_config(self, run: Run) -> bool:
        """Return whether a run was started with the same keys and values, by any names."""
        files = (self.folder(run) / _CONFIG, find_config(run.setting.config))
        if not files[0].is_file():
            return False
        begun, now = (today(json.dumps(read_config(file), default=str)) for file in files)
        return json.loads(begun) == json.loads(now)

    def leftovers(self) -> list[str]:
        """Return the folders of runs and evaluations that the study has no longer."""
        kept = {"runs": {*self.folders.values()}}
        kept |= {"evaluations": set(self.study.evaluations)}
        return [
            f"{kind}/{folder.name}"
            for kind, names in kept.items()
            for folder in sorted((self.output / kind).glob("*/"))
            if folder.name not in names
        ]

    def changed_code(self) -> dict[str, list[Run]]:
        """Return each file of the user's own that has changed, with runs started before."""
        found: dict[str, list[Run]] = {}
        for run, state in self.states.items():
            for module, before in state.own.items():
                file = _file_of(module)
                if file is None or fingerprint(file) != before:
                    found.setdefault(f"{module}.py" if file is None else file.name, []).append(run)
        return found

    def begin(self, timed: bool = False) -> None:
        """Make the folders of all runs, with copies of their configs.

        Raises:
            ValueError: see `check`.
        """
        self.check(timed)
        for run, state in self.states.items():
            if not state.options:
                files = {module: _file_of(module) for module in run.setting.own_modules}
                state.own = {module: fingerprint(file) for module, file in files.items() if file}
            state.options, state.config = self._settings(run)
            state.error = ""
        for run in self.states:
            folder = self.folder(run)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(find_config(run.setting.config), folder / _CONFIG)

    def work(
        self, say: Callable[[Run, str], None], at_once: int, devices: Sequence[str] = ()
    ) -> None:
        """Train and evaluate all runs that are not done, ``at_once`` at a time, after `begin`.

        ``say`` is called with each run whose stage changed, and the stage. Each run has one of the
        ``devices``, GPUs of this machine by their names for CUDA_VISIBLE_DEVICES.
        """
        free = [devices[i % len(devices)] if devices else "" for i in range(at_once)]
        started: dict[Run, tuple[Popen[bytes], str]] = {}
        try:
            while True:
                for run in self.states:
                    if free and run not in started and (step := self.next(run)):
                        device = free.pop(0)
                        started[run] = self.start(run, *step, device), device
                        say(run, self.stage(run))
                if not started:
                    return
                time.sleep(_INTERVAL)
                for run, (job, device) in list(started.items()):
                    if job.poll() is not None:
                        del started[run]
                        self.ended(run, job.returncode)
                        free.append(device)
                        say(run, self.stage(run))
        finally:
            self.stages.clear()
            for job, _ in started.values():
                job.terminate()
            for job, _ in started.values():
                job.wait()

    def start(
        self, run: Run, stage: str, words: list[str], device: str, module: str = "trm"
    ) -> Popen[bytes]:
        """Start the process of a stage."""
        self.stages[run] = stage
        self.write(run)
        if words[0] == "evaluate":  # an earlier grid may be of another checkpoint
            self.grid(stage.removeprefix(_EVALUATING), run).unlink(missing_ok=True)
        return self._submit(run, words, device, module)

    def next(self, run: Run) -> tuple[str, list[str]] | None:
        """Return the next stage of a run and its arguments of `trm`; None: there is none now."""
        state, folder = self.states[run], self.folder(run)
        if state.error:
            return None
        if not state.trained and not state.cut:
            place = {"save_dir": str(folder.parent), "name": self.folders[run]}
            kind = "lightning.pytorch.loggers.TensorBoardLogger"
            logger = json.dumps({"class_path": kind, "init_args": place})
            words = [*self.options_of(run), *state.length, f"--trainer.logger={logger}"]
            return "training", ["fit", *words, "--ckpt_path=last"]
        if self.study.export and not state.exported:
            self._export(run)
        for name, wanted in (self.wanted(run) or {}).items():
            if state.evaluated.get(name) != wanted:
                checkpoint, *options = wanted
                output = self.grid(name, run).parent
                words = [f"--checkpoint={self.checkpoint(run, checkpoint)}"]
                words += [f"--output={output}", "--quiet"]
                words += [f"--import={module}" for module in run.setting.own_modules]
                return f"{_EVALUATING}{name}", ["evaluate", *options, *words]
        return None

    def options_of(self, run: Run) -> list[str]:
        """Return the options of `trm fit` for a run, without its length and its folder."""
        return [f"--config={self.folder(run) / _CONFIG}", *self.states[run].options]

    def weights(self, run: Run) -> Path:
        """Return the file with the exported weights of a run."""
        return self.output / "weights" / f"{self.folders[run]}{SUFFIX}"

    def _export(self, run: Run) -> None:
        """Write the weights of a run, in place of those of a shorter training."""
        name = "best" if self.study.checkpoint == "best" else "last"
        content = load_checkpoint(self.checkpoint(run, name))
        packed = pack(content, {}, dtype=getattr(torch, self.study.export or "float32"))
        file = self.weights(run)
        file.parent.mkdir(exist_ok=True)
        write_bytes(file, packed)
        self.states[run].exported = True
        self.write(run)

    def checkpoint(self, run: Run, name: str) -> Path:
        """Return the run's newest checkpoint of this name.

        Without a ``best`` one, as without validation, this is the last one.
        """
        names = (f"{name}.ckpt", "last.ckpt") if name == "best" else (f"{name}.ckpt",)
        return find_checkpoint(self.folder(run), names)

    def _submit(self, run: Run, words: list[str], device: str, module: str) -> Popen[bytes]:
        """Start a module with these arguments; its output is appended to the run's log."""
        environment = os.environ | {ENDS_WITH: str(os.getpid())}
        if device:
            environment["CUDA_VISIBLE_DEVICES"] = device
        with (self.folder(run) / _LOG).open("a", buffering=1, encoding="utf-8") as log:
            print(f"{time.strftime('%F %T')} {module} {words[0]}", file=log)
            # Only this process gets a Ctrl-C; it then ends the others.
            options: dict[str, Any] = {"stdin": DEVNULL, "stdout": log, "stderr": STDOUT}
            options |= {"env": environment, "start_new_session": True}
            return Popen([sys.executable, "-P", "-m", module, *words], **options)

    def ended(self, run: Run, code: int) -> None:
        """Record the result of a command, by its exit code."""
        state, stage = self.states[run], self.stages.pop(run)
        if code != 0:
            log = (self.folder(run) / _LOG).read_text(encoding="utf-8", errors="replace")
            last = log.strip().rpartition("\n")[2]
            state.error = f"{stage} ended with code {code}: {last[:_SHOWN]}"
        elif stage == "training":
            content = load_checkpoint(self.checkpoint(run, "last"))
            state.trained, state.cost = True, content.get(COST_KEY)
            state.cut, state.exported, state.evaluated = 0, False, {}  # those of a shorter training
            if self.study.checkpoint == EQUAL_LOSS:
                state.losses = _losses(content)
                if not state.losses:
                    state.error = "no checkpoint has a loss on validation: let them come earlier"
        elif stage == "measuring":
            pass  # the process wrote its measurements to the file
        else:
            name = stage.removeprefix(_EVALUATING)
            state.evaluated[name] = (self.wanted(run) or {})[name]
            if state.losses:
                content = load_checkpoint(self.checkpoint(run, state.evaluated[name][0]))
                state.cost = content.get(COST_KEY)
        self.write(run)

    def write(self, run: Run) -> None:
        """Write the state of a run."""
        write_json(self.folder(run) / _STATE, asdict(self.states[run]))


def _file_of(module: str) -> Path | None:
    """Return the file of an imported module; None: it has none."""
    name = getattr(sys.modules.get(module), "__file__", None)
    return Path(name) if name and Path(name).is_file() else None


def _losses(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite validation losses of a run's kept checkpoints, by name."""
    return {
        Path(file).stem: float(loss)
        for callback in content.get("callbacks", {}).values()
        if callback.get("monitor") == LOSS
        for file, loss in callback["best_k_models"].items()
        if math.isfinite(loss)
    }


__getattr__ = moved(__name__)  # what is in `trm.extras.sweep.planning` now
