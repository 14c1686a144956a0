"""A few steps of a run, to know before it begins what it is going to take."""

import logging
import math
import statistics
import time
import warnings
from argparse import ArgumentError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from canvas.choices import look_here
from canvas.task import Task
from trm.training.callbacks import Cost
from trm.training.cli import TrainingCLI, explained, train

_BATCHES, _LONGEST = 16, 15.0  # whose operations are counted, or that are timed; seconds of each


@dataclass(frozen=True)
class Trial:
    """What is known of a run before it begins.

    Attributes:
        parameters: of the model.
        steps: optimiser steps of the whole run.
        epochs: of the whole run; None where it is optimiser steps that end it.
        accumulated: batches of an optimiser step.
        samples: of a step, on one device.
        flops: of a step, on one device: the mean of the first few batches. Where a batch draws its
            depth it is rough, though alike for settings that draw the same.
        seconds: of a step: the mean of a few, on this machine, in one process.
    """

    parameters: int
    steps: int
    epochs: int | None
    accumulated: int
    samples: int
    flops: float
    seconds: float


def check(words: Sequence[str]) -> None:
    """Build what these options of `trm fit` ask for.

    Raises:
        ValueError: an option is wrong.
    """
    with TemporaryDirectory() as folder:
        _built(words, folder)


def parameters_of(words: Sequence[str]) -> int:
    """The parameters of the model that these options of `trm fit` build.

    Raises:
        ValueError: an option is wrong.
    """
    with TemporaryDirectory() as folder:
        model: Any = _built(words, folder).model
    return int(model.model.num_parameters)


def try_out(words: Sequence[str], check: Callable[[Task], None] = lambda task: None) -> Trial:
    """Take a few steps of the run that these options of `trm fit` ask for; nothing is kept.

    Args:
        words: the options.
        check: is given the task, and may refuse it by a ValueError.

    Raises:
        ValueError: an option is wrong, or the run has no end.
    """
    with TemporaryDirectory() as folder:
        cli = _built(words, folder)
        check(cli.datamodule.task)
        steps, epochs = run_length(cli.trainer, cli.datamodule.batches_per_epoch)
        clock = _Clock()
        trainer: Any = cli.trainer
        trainer.callbacks = [clock]
        # Options for the length would hide that of the whole run.
        trainer.fit_loop.max_epochs = -1
        trainer.fit_loop.epoch_loop.max_steps = 2 * _BATCHES + 2
        try:
            with _silent():
                trainer.fit(cli.model, cli.datamodule)
        except RuntimeError as error:  # too little memory, for example
            raise ValueError(f"its first steps fail: {str(error).splitlines()[0]}") from error
    cost, accumulated = clock.cost, cli.trainer.accumulate_grad_batches
    model: Any = cli.model
    return Trial(
        int(model.model.num_parameters),
        steps,
        epochs,
        accumulated,
        cli.datamodule.batch_size * accumulated,
        cost.flops / max(1, cost.batches) * accumulated,
        statistics.mean(clock.seconds) * accumulated,
    )


def run_length(trainer: L.Trainer, batches_per_epoch: int) -> tuple[int, int | None]:
    """Optimiser steps of a run, and its epochs unless it is steps that end it.

    Raises:
        ValueError: it has no end.
    """
    epochs, steps = trainer.max_epochs, trainer.max_steps
    if epochs is not None and epochs >= 0:
        whole = epochs * math.ceil(batches_per_epoch / trainer.accumulate_grad_batches)
        if not 0 <= steps < whole:
            return whole, epochs
    if steps < 0:
        raise ValueError("the run has no end: set trainer.max_epochs or trainer.max_steps")
    return steps, None


class _Clock(L.Callback):
    """Counts the operations of the first batches, times the next, and ends training."""

    def __init__(self) -> None:
        self.cost = Cost(every=1)
        self.seconds: list[float] = []
        self._counts, self._until = True, time.perf_counter() + _LONGEST
        self._begun = 0.0

    def on_train_batch_start(self, *args: Any, **more: Any) -> None:
        """Start counting, or the clock."""
        if self._counts:
            self.cost.on_train_batch_start(*args, **more)
        self._begun = _now()

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any, **more: Any) -> None:
        """Stop either."""
        now = _now()
        late = now > self._until
        if self._counts:
            self.cost.on_train_batch_end(trainer, *args, **more)
            self._counts = self.cost.batches < _BATCHES and not (late and self.cost.batches > 1)
            self._until = self._until if self._counts else now + _LONGEST
        else:
            self.seconds.append(now - self._begun)
            trainer.should_stop = len(self.seconds) == _BATCHES or late

    def on_exception(self, *args: Any, **more: Any) -> None:
        """Leave nothing on."""
        self.cost.on_exception(*args, **more)


def _now() -> float:
    """The time, once all that was launched is done."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter()


def _built(words: Sequence[str], folder: str) -> TrainingCLI:
    """Model, data and trainer, which writes nothing outside a folder."""
    aside = (
        "--trainer.logger=false",
        "--trainer.enable_progress_bar=false",
        "--trainer.limit_val_batches=0",
        f"--trainer.default_root_dir={folder}",
        f"--checkpoint.dirpath={folder}",
        "--trainer.devices=1",
    )
    look_here()
    try:
        with _silent():
            return train([*words, *aside], run=False)
    except (MisconfigurationException, ArgumentError, ValueError) as error:
        raise ValueError(explained(str(error))) from error


@contextmanager
def _silent() -> Iterator[None]:
    """Without what Lightning says of a run."""
    loggers = [logging.getLogger(f"lightning.{part}") for part in ("pytorch", "fabric")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
