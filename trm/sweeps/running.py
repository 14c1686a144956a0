"""The runs of a study, each in processes of its own: trained, then evaluated.

    OUTPUT/points/<run>/             the run as `trm fit` keeps it, its checkpoints and curves
        log.txt                      what `trm fit` and `trm evaluate` said
        point.json                   how far it is, see `State`
    OUTPUT/evaluations/<name>/<run>/ what `trm evaluate` writes

A run whose processes were killed goes on from its last epoch. One that failed begins again where it
failed, the next time that the study is started; one that is done is left alone. Where losses are
equal, a run is evaluated when all that it is compared with are trained or have failed.

Runs are started by a thread pool of the standard library, a thread for each at once. Of libraries
for it, submitit's local executor starts all of them at once, joblib keeps calls of functions and
not processes that are killed with their children and go on, and hydra's launchers would bring a
second language of configs; a SLURM array is submitit's, see `trm.sweeps.slurm`.
"""

import json
import logging
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from trm.checkpoints import COST_KEY
from trm.checkpoints.loading import load_checkpoint
from trm.devices import cores
from trm.evaluation.grid import GRID
from trm.files import alone, read_object, write_object
from trm.processes import ENDS_WITH, INTERRUPTED, TERMINATED
from trm.sweeps.plan import LOSS, Plan, config_of
from trm.sweeps.study import EQUAL_LOSS, Point

WAITING, TRAINING, TRAINED, EVALUATING, DONE, FAILED = STAGES = (
    "waiting",
    "training",
    "trained",  # and waits for others before it is evaluated
    "evaluating",
    "done",
    "failed",
)
_log = logging.getLogger(__name__)
_STATE, _LOG = "point.json", "log.txt"
_SHOWN = 1000  # characters of an error
_STOPPED = (TERMINATED, INTERRUPTED, -signal.SIGTERM, -signal.SIGINT)  # codes of no failure


@dataclass
class State:
    """How far a run is.

    Attributes:
        words: the options that it was started with.
        config: SHA-256 of the config.
        stage: one of `STAGES`.
        trained: whether training has come to its end.
        cost: of training up to the checkpoint that is evaluated, see `Cost` of training; None:
            not known.
        losses: on validation, by the names of the checkpoints kept then, where losses are equal.
        evaluated: evaluations that are finished, see `wanted`.
        error: of a run that failed.
    """

    words: list[str] = field(default_factory=list)
    config: str = ""
    stage: str = WAITING
    trained: bool = False
    cost: dict[str, float] | None = None
    losses: dict[str, float] = field(default_factory=dict)
    evaluated: dict[str, list[str]] = field(default_factory=dict)
    error: str = ""


def folder_of(output: Path, point: Point) -> Path:
    """Where a run is kept."""
    return output / "points" / point.folder


def evaluation_of(output: Path, name: str, point: Point) -> Path:
    """Where one of its evaluations is."""
    return output / "evaluations" / name / point.folder


def state_of(output: Path, point: Point) -> State:
    """How far a run is."""
    held = read_object(folder_of(output, point) / _STATE) or {}
    try:
        return State(**held)
    except TypeError:  # damaged
        return State()


def states_of(output: Path, plan: Plan) -> dict[Point, State]:
    """How far each run is."""
    return {point: state_of(output, point) for point in plan.points()}


def wanted(plan: Plan, states: Mapping[Point, State]) -> dict[Point, dict[str, list[str]] | None]:
    """What decides the figures of each run's evaluations: the checkpoint, and options.

    None where it is not known yet which checkpoint it will be.
    """
    asked: dict[Point, dict[str, list[str]] | None] = {}
    for point, checkpoint in _checkpoints(plan, states).items():
        named = plan.evaluations.items()
        if checkpoint is None:
            asked[point] = None
        else:
            asked[point] = {name: [checkpoint, *options] for name, options in named}
    return asked


def _checkpoints(plan: Plan, states: Mapping[Point, State]) -> dict[Point, str | None]:
    """The name of the checkpoint of each run that is evaluated; None: not known yet."""
    if plan.checkpoint != EQUAL_LOSS:
        return dict.fromkeys(states, plan.checkpoint)
    found: dict[Point, str | None] = dict.fromkeys(states)
    for group in plan.groups():
        if all(states[point].losses or states[point].stage == FAILED for point in group):
            trained = [point for point in group if states[point].losses]
            goal = max((min(states[point].losses.values()) for point in trained), default=0.0)
            for point in trained:
                losses = states[point].losses
                found[point] = min(name for name, loss in losses.items() if loss <= goal)
    return found


def finished(state: State, asked: dict[str, list[str]] | None) -> bool:
    """Whether nothing is left to do of a run, of which this is `wanted`."""
    return state.stage == DONE and state.evaluated == asked


def let_wait(output: Path, point: Point) -> None:
    """Say of a run that it waits, where the processes at work on it are gone, or have failed."""
    state = state_of(output, point)
    if state.stage in (TRAINING, EVALUATING, FAILED):
        with suppress(ValueError), alone(folder_of(output, point) / _STATE):
            state.stage, state.error = WAITING, ""
            write_object(folder_of(output, point) / _STATE, asdict(state))


def check_unchanged(output: Path, plan: Plan) -> None:
    """Raise ValueError if a run was started with other settings than those of the plan."""
    for point in plan.points():
        before = state_of(output, point)
        if not before.words:
            continue
        changed = sorted(set(before.words) ^ set(point.words))
        if before.config != point.config:
            changed.append("the config itself")
        if changed:
            raise ValueError(
                f"{point.name} was started with other settings ({', '.join(changed)[:_SHOWN]}): "
                f"choose another --output, or remove {folder_of(output, point)}"
            )


def run_point(
    output: Path,
    plan: Plan,
    point: Point,
    start: Callable[[Sequence[str], Path], int],
    tell: Callable[[State], None] = lambda state: None,
) -> State:
    """Train and evaluate one run, as far as that is left to do.

    Args:
        output: of the study.
        plan: of the study.
        point: the run.
        start: runs `trm` with some words, adds what it says to a file, and returns its exit code.
        tell: is told each change.

    Raises:
        ValueError: another process is at work on it.
    """
    folder = folder_of(output, point)
    folder.mkdir(parents=True, exist_ok=True)

    def now(stage: str) -> None:
        state.stage = stage
        write_object(folder / _STATE, asdict(state))
        tell(state)

    def done(words: Sequence[str]) -> bool:
        code = start(words, folder / _LOG)
        if code in _STOPPED:
            now(WAITING)
        elif code:
            state.error = f"trm {words[0]} ended with code {code}: {_last_line(folder / _LOG)}"
            now(FAILED)
        return code == 0

    with alone(folder / _STATE):
        state = state_of(output, point)
        state.words, state.config, state.error = list(point.words), point.config, ""
        if not state.trained:
            now(TRAINING)
            config = f"--config={config_of(output, point.config)}"
            if not done(["fit", config, *point.words, _logger(output, point), "--ckpt_path=last"]):
                return state
            state.trained, state.cost = True, _cost(newest_checkpoint(output, point, "last"))
        if plan.checkpoint == EQUAL_LOSS and not state.losses:
            state.losses = _losses(newest_checkpoint(output, point, "last"))
            if not state.losses:
                state.error = "no checkpoint has a loss on validation: let validations come earlier"
                now(FAILED)
                return state
        write_object(folder / _STATE, asdict(state))
        asked = wanted(plan, states_of(output, plan) | {point: state})[point]
        if asked is None:
            now(TRAINED)
            return state
        for name, options in plan.evaluations.items():
            if state.evaluated.get(name) == asked[name]:
                continue
            now(EVALUATING)
            checkpoint = newest_checkpoint(output, point, asked[name][0])
            state.cost = _cost(checkpoint) if state.losses else state.cost
            there = evaluation_of(output, name, point)
            words = [f"--checkpoint={checkpoint}", f"--output={there}", f"--name={point.name}"]
            if not done(["evaluate", *options, *words, "--quiet"]):
                return state
            state.evaluated[name] = asked[name]
        state.evaluated = {name: state.evaluated[name] for name in plan.evaluations}
        now(DONE)
        return state


def newest_checkpoint(output: Path, point: Point, name: str) -> Path:
    """The run's of this name; where nothing was the best of a validation, the last for `best`."""
    folder = folder_of(output, point)
    found = [*folder.glob(f"version_*/checkpoints/{name}.ckpt")]
    if not found and name == "best":
        found = [*folder.glob("version_*/checkpoints/last.ckpt")]
    return max(found, key=lambda file: file.stat().st_mtime_ns, default=folder / f"{name}.ckpt")


def _cost(checkpoint: Path) -> dict[str, float] | None:
    """What the training that led to a checkpoint has taken; None: not known."""
    found = load_checkpoint(checkpoint) if checkpoint.is_file() else {}
    cost: dict[str, float] | None = found.get(COST_KEY)
    return cost


def _losses(checkpoint: Path) -> dict[str, float]:
    """The finite losses on validation of the checkpoints that a run has kept, by their names.

    Args:
        checkpoint: the run's last, which tells them.
    """
    found = load_checkpoint(checkpoint) if checkpoint.is_file() else {}
    losses: dict[str, float] = {}
    for held in found.get("callbacks", {}).values():
        if held.get("monitor") == LOSS:
            kept = {Path(file).stem: float(loss) for file, loss in held["best_k_models"].items()}
            losses |= {name: loss for name, loss in kept.items() if math.isfinite(loss)}
    return losses


def grid_of(output: Path, name: str, point: Point) -> Path:
    """The figures of one of its evaluations."""
    return evaluation_of(output, name, point) / GRID


def _logger(output: Path, point: Point) -> str:
    """The option that keeps a run in its folder."""
    place = {"save_dir": str(output / "points"), "name": point.folder}
    kind = "lightning.pytorch.loggers.TensorBoardLogger"
    return f"--trainer.logger={json.dumps({'class_path': kind, 'init_args': place})}"


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line[:_SHOWN] for line in reversed(lines) if line), "it said nothing")


class Workers:
    """Processes of this machine that take one run after another.

    Each gets a GPU of its own; without any, its share of the CPU's cores.

    Args:
        number: of them; None: one for each GPU, or for each core.
        most: runs there are.
    """

    def __init__(self, number: int | None, most: int) -> None:
        named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        there = torch.cuda.device_count()
        gpus = named.split(",")[:there] if named else [str(i) for i in range(there)]
        self.number = max(1, min(number or there or cores(), most))
        self._share = {"OMP_NUM_THREADS": str(max(1, cores() // self.number))}
        self._slots: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
        for i in range(self.number):
            self._slots.put({"CUDA_VISIBLE_DEVICES": gpus[i % there]} if gpus else {})
        self._started: set[subprocess.Popen[bytes]] = set()
        self._ended = threading.Event()

    def run(
        self,
        output: Path,
        plan: Plan,
        points: Sequence[Point],
        tell: Callable[[Point, State], None],
        look: Callable[[bool], None],
        interval: float = 20.0,
    ) -> None:
        """Do all runs.

        Args:
            output, plan: of the study.
            points: the runs.
            tell: is told each change of each.
            look: is called again and again meanwhile, with whether another run has ended.
            interval: seconds from one call to the next, if none ends before.
        """
        pool = ThreadPoolExecutor(self.number)
        try:
            todo: set[Future[State]] = {
                pool.submit(self._one, output, plan, point, tell) for point in points
            }
            while todo:
                done, todo = wait(todo, timeout=interval, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
                try:
                    look(bool(done))
                except (OSError, ValueError) as error:  # the runs go on without a page
                    _log.warning("the page could not be written: %s", error)
        finally:
            self._ended.set()
            for process in list(self._started):
                process.terminate()
            pool.shutdown(cancel_futures=True)

    def _one(
        self, output: Path, plan: Plan, point: Point, tell: Callable[[Point, State], None]
    ) -> State:
        slot = self._slots.get()
        try:
            return run_point(
                output,
                plan,
                point,
                lambda words, log: self._start(words, log, slot),
                lambda state: tell(point, state),
            )
        except InterruptedError:
            return State()
        except (ValueError, OSError) as error:  # another process has it, or a disk is full
            state = State(stage=FAILED, error=str(error))
            tell(point, state)
            return state
        finally:
            self._slots.put(slot)

    def _start(self, words: Sequence[str], log: Path, gpu: dict[str, str]) -> int:
        if self._ended.is_set():
            raise InterruptedError
        ends_with = {ENDS_WITH: str(os.getpid())}
        return call(words, log, {**self._share, **os.environ, **gpu, **ends_with}, self._started)


def call(
    words: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    started: set[subprocess.Popen[bytes]] | None = None,
) -> int:
    """Run `trm` with some words in a process of its own; returns its exit code.

    Args:
        words: of the command line.
        log: what the process says is added to it.
        environment: of the process; None: this one's.
        started: holds the process as long as it runs.
    """
    with log.open("ab") as out:
        out.write(f"{time.strftime('%F %T')} trm {words[0]}\n".encode())
        out.flush()
        command = [sys.executable, "-m", "trm", *words]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        held = started if started is not None else set()
        held.add(process)
        try:
            return process.wait()
        finally:
            held.discard(process)
