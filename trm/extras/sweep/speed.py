"""Measured speed of a training run: steps a second in each of its stages, eager and compiled.

    python -m trm.extras.sweep.speed OUTPUT.json SECONDS STARTED --config=trm/canvas [options]

STARTED is the time at which the process was started, in seconds since 1970. It trains for some
seconds with the batches, optimiser and precision of `trm fit`, and writes no checkpoint.
`OUTPUT.json` is rewritten after each measurement, as a `Speed`.
"""

import gc
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Checkpoint, ProgressBar

from trm.io.files import write_json
from trm.runtime.flops import counted_flops, known_peak
from trm.runtime.limits import lacks_memory
from trm.runtime.processes import ending_by_signals
from trm.training.callbacks import CALLBACKS, Gradients
from trm.training.cli import TrainingCLI, train
from trm.training.curriculum import Curriculum
from trm.training.iterative_module import IterativeModule
from trm.training.step import DepthStage
from trm.training.tensorboard import Pictures

SECONDS = 8.0  # of timed steps in a measurement, after at least `_LEAST` steps
_WARM_UP, _LEAST = 6, 4  # steps that are not timed, as they allocate and compile; fewest timed ones
_OUTLIER = 5  # times the median; slower steps have compiled something
_HALVINGS = 3  # of a batch that is too large for the memory
_BARE = ("--trainer.logger=false", "--trainer.devices=1")
_EPOCHS = 10**6  # of a run that the measurement ends
_LEFT_OUT = (Checkpoint, ProgressBar, Pictures, *set(CALLBACKS) - {Gradients})


@dataclass
class Measured:
    """Speed in one stage of a run."""

    part: float  # of the run that the stage takes, up to 1
    compiled: bool
    batch_size: int
    rate: float = 0.0  # batches a second; 0: not measured
    warm_up: float = 0.0  # seconds of the first steps, with compilation
    tflop: float = 0.0  # operations of a batch, in TFLOP
    of_peak: float | None = None  # share of the device's peak; None: the peak is not known
    memory: float | None = None  # most GiB of the device's memory
    remark: str = ""  # why it was not measured


@dataclass
class Speed:
    """Measurements of a run so far."""

    device: str = ""
    start: float = 0.0  # seconds from the start of the process to the first step
    batches_per_epoch: int = 0
    compile: bool = False  # of the config
    batch_size: int = 0  # of the config
    accumulate: int = 1  # batches of an optimiser step
    warmup_steps: int = 0  # of the learning rate
    cases: list[Measured] = field(default_factory=list)

    def best(self) -> tuple[list[Measured], float] | None:
        """Return the faster of the eager and the compiled stages, and their seconds a batch.

        Returns None if neither was measured in all stages.
        """
        found = []
        for compiled in (False, True):
            stages = [case for case in self.cases if case.compiled is compiled and case.rate]
            if stages and abs(sum(case.part for case in stages) - 1) < 1e-6:
                # A smaller batch counts for less.
                size = min(case.batch_size for case in stages)
                found.append((stages, sum(case.part / case.rate for case in stages), size))
        if not found:
            return None
        stages, seconds, _ = min(found, key=lambda one: one[1] / one[2])
        return stages, seconds


def stages_of(cli: TrainingCLI) -> list[tuple[float, float]]:
    """Return begin and end of the stages of a run, as shares of it.

    Stages end where the number of cycles or the drawn problems change.

    Raises:
        ValueError: stages end at epochs, although the run's length is to be measured.
    """
    ends = [end for end, _ in cli.datamodule.curriculum.stages]
    if isinstance(cli.model, IterativeModule):
        ends += [stage.until for stage in cli.model.depth.stages]
    if late := [end for end in ends if end >= 1]:
        raise ValueError(
            f"with --minutes the length of a run is measured, and a stage ends after {late[0]} "
            "epochs: give `until` in model.depth.stages and data.curriculum as a share of the run, "
            "like 0.8"
        )
    bounds = sorted({0.0, *ends, 1.0})
    return list(pairwise(bounds))


def device_name() -> str:
    """Return the name of the device that `trm fit` trains on, such as NVIDIA H200."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return found.type if found else "cpu"


class _StepTimer(L.Callback):
    """Times steps, and ends training after some seconds of them."""

    def __init__(self, count: bool, seconds: float) -> None:
        self.count, self.limit = count, seconds
        self.flops, self.taken = 0, list[float]()
        self.first = 0.0  # time of the first step's start, in seconds since 1970
        self._before = 0.0
        self._counting = ExitStack()

    def on_train_batch_start(self, *_: Any, **more: Any) -> None:
        self.first = self.first or time.time()
        self._before = self._before or time.perf_counter()
        if self.count and len(self.taken) < _WARM_UP:
            self._counter = self._counting.enter_context(counted_flops())

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any, **more: Any) -> None:
        if self.count and len(self.taken) < _WARM_UP:
            self.flops += self._counter.get_total_flops()
            self._counting.close()
        if trainer.strategy.root_device.type != "cpu":
            torch.accelerator.synchronize()
        now = time.perf_counter()
        self.taken.append(now - self._before)  # with the time spent waiting for the batch
        self._before = now
        timed = self.taken[_WARM_UP:]
        trainer.should_stop = len(timed) >= _LEAST and sum(timed) >= self.limit


def _built(words: list[str], case: Measured) -> TrainingCLI:
    settings = [f"--model.compile={str(case.compiled).lower()}"]
    settings.append(f"--data.batch_size={case.batch_size}")
    return train([*words, *_BARE, "--trainer.max_epochs=1", *settings], run=False)


def _measure(words: list[str], case: Measured, begin: float, seconds: float) -> float:
    """Fill in a case; return the time at which its first step began, in seconds since 1970."""
    cli = _built(words, case)
    module, data, given = cli.model, cli.datamodule, cli.config["trainer"]
    if isinstance(module, IterativeModule):
        depth, cycles = module.depth.at(begin, 1)
        stage = replace(DepthStage(_EPOCHS), **cycles)  # type: ignore[arg-type]
        module.depth = replace(depth, stages=[stage])
    data.curriculum = Curriculum(data.curriculum.at(begin, 1))
    clock = _StepTimer(not case.compiled, seconds)
    callbacks: Any = cli.trainer.callbacks  # type: ignore[attr-defined]
    kept = [one for one in callbacks if not isinstance(one, _LEFT_OUT)]
    same = ("accelerator", "precision", "gradient_clip_val", "accumulate_grad_batches")
    trainer = L.Trainer(
        **{name: given[name] for name in same},
        devices=1,
        max_epochs=_EPOCHS,
        callbacks=[*kept, clock],
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    on_cpu = trainer.strategy.root_device.type == "cpu"
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    trainer.fit(module, data)
    timed = clock.taken[_WARM_UP:]
    usual = [one for one in timed if one <= _OUTLIER * statistics.median(timed)]
    case.rate, case.warm_up = len(usual) / sum(usual), sum(clock.taken[:_WARM_UP])
    case.tflop = clock.flops / _WARM_UP / 1e12
    if torch.cuda.is_available() and not on_cpu:
        case.memory = torch.cuda.max_memory_allocated() / 2**30
    return clock.first


def measure(
    words: list[str], seconds: float = SECONDS, started: float | None = None
) -> Iterator[Speed]:
    """Yield the measurements of a run after each of them, the eager ones first.

    Args:
        words: options of `trm fit`.
        seconds: of timed steps in each stage.
        started: time at which the process was started, in seconds since 1970; None: now.
    """
    begun, speed = started or time.time(), Speed(device=device_name())
    cli = train([*words, *_BARE], run=False)
    stages, size, module = stages_of(cli), cli.datamodule.batch_size, cli.model
    speed.batches_per_epoch = cli.datamodule.batches_per_epoch
    speed.compile, speed.batch_size = module.compile_steps, size
    speed.accumulate = cli.trainer.accumulate_grad_batches
    speed.warmup_steps = module.schedule.warmup_steps
    halves = cli.config["trainer"]["precision"] == "bf16-mixed"
    peak = known_peak(speed.device) if halves else None
    can_compile = hasattr(module, "compiled_method")
    del cli, module
    for compiled in (False, True):
        for i, (begin, end) in enumerate(stages):
            case = Measured(end - begin, compiled, size)
            speed.cases.append(case)
            if compiled and (speed.device == "cpu" or not can_compile):
                case.remark = "not compiled on a CPU" if can_compile else "cannot be compiled"
                yield speed
                continue
            for halving in range(_HALVINGS + 1):
                case.batch_size = max(1, size >> halving)
                try:
                    first, case.remark = _measure(words, case, begin, seconds), ""
                    speed.start = speed.start or first - begun
                except Exception as error:  # of any kind: the next case is independent of it
                    no_memory = lacks_memory(error)
                    text = " ".join(str(error).split())[:100]
                    case.remark = (
                        "out of memory" if no_memory else f"{type(error).__name__}: {text}"
                    )
                # Outside of the clause: within it, the error keeps tensors alive.
                torch.compiler.reset()
                gc.collect()
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                if case.remark != "out of memory":
                    break
            if compiled:  # compiled operations are not counted
                case.tflop = speed.cases[i].tflop * case.batch_size / speed.cases[i].batch_size
            if peak and case.tflop:
                case.of_peak = case.tflop * case.rate / peak
            yield speed


def main(arguments: list[str]) -> None:
    """Measure a run and write the file of its speed."""
    output, seconds, started, *words = arguments
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), ending_by_signals():
        warnings.simplefilter("ignore")
        for speed in measure(words, float(seconds), float(started)):
            write_json(Path(output), asdict(speed))


if __name__ == "__main__":
    main(sys.argv[1:])
