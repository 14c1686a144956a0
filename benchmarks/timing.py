"""Shared code of the benchmarks: shipped configs with their batches, and timing in turn."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.task import Task
from trm.io.config_files import find_config, read_config
from trm.training.samples import RowStepSamples


def even(task: Task) -> Any:
    """Return the task with all lengths drawn equally often."""
    kind: Any = task
    return replace(kind, long_bias=0.0)


def in_turn(
    runs: dict[str, Callable[[int], Any]],
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Time several functions in turn, round after round; return the seconds of each by name.

    Args:
        runs: functions by name; each gets the number of the round.
        repeats: number of timed rounds.
        warm_up: number of rounds before them, which allocate and compile.
        clock: in seconds; `time.process_time` where other programs run on the same machine.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(warm_up + repeats):
        for name, run in runs.items():
            start = clock()
            run(number)
            if number >= warm_up:
                seconds[name].append(clock() - start)
    return seconds


def show(seconds: dict[str, list[float]], unit: float = 1, rate: str = "") -> None:
    """Print median, lowest and highest figure of each run, and its speed relative to the first.

    Args:
        seconds: results of `in_turn`.
        unit: amount of work in a run, such as a number of rows.
        rate: name of the work per second, like ``rows/s``; empty: print seconds per unit of work.
    """
    first = statistics.median(next(iter(seconds.values())))
    for name, taken in seconds.items():
        figures = [statistics.median(taken), min(taken), max(taken)]
        ratio = first / figures[0]
        shown = [unit / x for x in figures] if rate else [x / unit for x in figures]
        middle, low, high = shown[0], *sorted(shown[1:])
        print(
            f"{middle:>12,.4g} {rate or 's'} ({low:,.4g} to {high:,.4g}) {ratio:>7.2f} x  {name}",
            flush=True,
        )


@dataclass(frozen=True)
class Config:
    """Shipped config of row steps.

    Attributes:
        model: settings of its module.
        data: section ``data``.
        trainer: section ``trainer``.
    """

    model: dict[str, Any]
    data: dict[str, Any]
    trainer: dict[str, Any]

    @classmethod
    def read(cls, name: str) -> "Config":
        """Read a config by a name like ``trm/reference``."""
        found = read_config(find_config(name))
        return cls(found["model"]["init_args"], found["data"], found["trainer"])

    @property
    def network(self) -> dict[str, Any]:
        """Settings of the network; callers may change them."""
        network: dict[str, Any] = self.model["network"]["init_args"]["config"]
        return network

    @property
    def task(self) -> Multiplication:
        """Task of the config."""
        return Multiplication(**self.data["task"]["init_args"])

    @property
    def canvas(self) -> Canvas:
        """Canvas of the config."""
        return Canvas(**self.data["canvas"])

    def batches(self, size: int, canvas: Canvas | None = None) -> Callable[[int], dict[str, Any]]:
        """Return a function: number of a batch, from 0 → training batch of ``size`` row steps."""
        samples = RowStepSamples(self.task, canvas or self.canvas, "train", 0, 2**20 * size, size)
        return lambda number: samples.__getitems__(range(number * size, (number + 1) * size))
