"""What is kept of a run: its best weights, and TensorBoard pages of rows and of speed."""

import time
from collections import Counter
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor

from canvas.layouts import ROW_KINDS
from canvas.problems import Problems, Task
from canvas.render import Drawing, RowSteps, row_step
from trm.evaluation.figures import pixels, sample_panels
from trm.training.data import Canvas, CanvasDataModule, SolvedProblems
from trm.training.module import CanvasModule

_POOL = 1024  # problems that samples are chosen among, at most
_GOLDEN_RATIO = 0.618034  # its multiples spread evenly over 0..1, however many there are
_LONGEST_NAME = 48  # characters of a title's problem


class BestCheckpoint(ModelCheckpoint):
    """Keeps the best checkpoint, and of equally good ones the latest.

    A few hundred validation problems are soon all right, and from there on a learning rate that
    falls to zero still gains a great deal where validation does not look: on longer numbers.
    """

    def check_monitor_top_k(self, trainer: L.Trainer, current: Tensor | None = None) -> bool:
        """Whether the checkpoint is to be kept, given the figure that is monitored."""
        worst = self.best_k_models.get(self.kth_best_model_path)
        equal = current is not None and worst is not None and bool(torch.eq(current, worst))
        return equal or super().check_monitor_top_k(trainer, current)


class SamplePanels(L.Callback):
    """Draws the same validation rows at every validation, as `panels/validation`.

    A line for each sample: input, label, prediction, and the confidence: the halting head's after
    each supervision step, or a GPT's symbol by symbol. The rows are chosen to differ in their
    problems' lengths and in their place.

    Args:
        num_samples: lines of the figure.
        steps: supervision steps to show, of a recursive model; None: as many as it solves with.
        every_n_validations: 1 draws at each, 2 at every other, from the first one on.

    Raises:
        ValueError: a number below 1.
    """

    def __init__(
        self, num_samples: int = 6, steps: int | None = None, every_n_validations: int = 1
    ) -> None:
        for name, value in (
            ("num_samples", num_samples),
            ("steps", steps),
            ("every_n_validations", every_n_validations),
        ):
            if value is not None and value < 1:
                raise ValueError(f"{name} of SamplePanels is 1 or more, not {value}")
        self.num_samples, self.steps = num_samples, steps
        self.every_n_validations = every_n_validations
        self._validations = 0

    # Not at the validation's end: weight averaging has its weights in place from the start of a
    # validation epoch to its end, and whose end hook comes first is a matter of their order.
    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Draw, on one device only, after the first batch."""
        if trainer.sanity_checking or batch_idx or dataloader_idx:
            return
        self._validations += 1
        if (self._validations - 1) % self.every_n_validations or not trainer.is_global_zero:
            return
        boards = [log for log in trainer.loggers if isinstance(log, TensorBoardLogger)]
        data = getattr(trainer, "datamodule", None)  # set only where there is one
        if not (
            boards and isinstance(pl_module, CanvasModule) and isinstance(data, CanvasDataModule)
        ):
            return
        problems, drawing, steps = example_steps(
            data.task, data.canvas, data.seed, data.validation_problems, self.num_samples
        )
        with trainer.precision_plugin.forward_context():
            seen = pl_module.filler().look(steps.inputs, self.steps)
        figure = sample_panels(steps, drawing.given, seen, titles(problems, drawing, steps))
        image = pixels(figure)
        for board in boards:
            board.experiment.add_image(
                "panels/validation", image, trainer.global_step, dataformats="HWC"
            )


def example_steps(
    task: Task, canvas: Canvas, seed: int, validation_problems: int, num_samples: int
) -> tuple[Problems, Drawing, RowSteps]:
    """Row steps of the first validation's problems, unlike in length and in row; always the same.

    Args:
        task, canvas, seed, validation_problems: as in `CanvasDataModule`.
        num_samples: how many; fewer if there are not as many validation problems.

    Returns:
        The problems, from short to long, their drawings, and one row step of each.
    """
    pool = min(validation_problems, _POOL)
    data = SolvedProblems(task, canvas, "validation", seed, validation_problems, pool)
    problems, _ = data.__getitems__(range(pool))
    lengths = list(zip(problems.a.lengths.tolist(), problems.b.lengths.tolist(), strict=True))
    seen: Counter[tuple[int, int]] = Counter()
    occurrence = []  # of the same lengths earlier in the pool
    for pair in lengths:
        occurrence.append(seen[pair])
        seen[pair] += 1
    # One problem of each pair of lengths, and more only where there are fewer pairs than samples.
    unlike = sorted(range(pool), key=lambda i: occurrence[i])[: max(num_samples, len(seen))]
    unlike.sort(key=lambda i: (lengths[i][0] * lengths[i][1], lengths[i], i))
    places = np.linspace(0, len(unlike) - 1, min(num_samples, len(unlike))).round().astype(int)
    chosen = [unlike[place] for place in places]
    problems, drawing = data.__getitems__(chosen)
    share = (np.arange(len(chosen)) * _GOLDEN_RATIO) % 1
    return problems, drawing, row_step(drawing, (share * drawing.steps).astype(np.int64))


def titles(problems: Problems, drawing: Drawing, steps: RowSteps) -> list[str]:
    """What each row step is: its problem, which of the rows, and the row's kind."""
    names = []
    for name, a, b in zip(problems.names(), problems.a.lengths, problems.b.lengths, strict=True):
        short = len(name) <= _LONGEST_NAME
        names.append(name.replace("x", "×") if short else f"{a} × {b} digits")
    kinds = drawing.kinds[steps.problem, drawing.first_step + steps.step]
    return [
        f"{names[problem]}   row {step + 1} of {drawing.steps[problem]}: {ROW_KINDS[kind]}"
        for problem, step, kind in zip(steps.problem, steps.step, kinds, strict=True)
    ]


class Throughput(L.Callback):
    """Logs `speed/samples_per_second` (over all devices) and `speed/seconds_per_step`.

    Both are means over the optimiser steps since the last time they were logged, which is every
    `log_every_n_steps` of the trainer. The time from one batch's end to the next one's counts; the
    first step and any that a validation came before do not. Under the `carry` schedule a sample
    is counted once for each of its supervision steps.
    """

    def __init__(self) -> None:
        self._end: float | None = None  # of the last batch; None: the next one is not counted
        self._logged = 0  # the optimiser step
        self._clear()

    def _clear(self) -> None:
        self._seconds, self._samples, self._batches = 0.0, 0, 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin anew."""
        self._end, self._logged = None, trainer.global_step
        self._clear()

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Leave out the time until the end of the next training batch."""
        self._end = None

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: dict[str, Any],
        batch_idx: int,
    ) -> None:
        """Count the batch, and log where the trainer does."""
        now = time.perf_counter()
        if self._end is not None:
            self._seconds += now - self._end
            self._samples += len(next(iter(batch.values()))) * trainer.world_size
            self._batches += 1
        self._end = now
        step = trainer.global_step
        every = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if step == self._logged or step % every or not self._batches:
            return
        self._logged = step
        seconds_per_step = self._seconds / self._batches * trainer.accumulate_grad_batches
        pl_module.log("speed/samples_per_second", self._samples / self._seconds)
        pl_module.log("speed/seconds_per_step", seconds_per_step)
        self._clear()
