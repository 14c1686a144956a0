"""What both families' LightningModules share: they connect, and compute nothing themselves."""

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import torch
import torch.distributed

from canvas.choices import class_name
from canvas.problems import Problems, keys
from canvas.render import WorkedDrawing
from trm.checkpoints import CHECKPOINT_KEY, FORMAT
from trm.checkpoints.loading import plain
from trm.solving.rollout import Predictor, TeacherForced, teacher_forced
from trm.solving.solver import Solver
from trm.torch_settings import standard_settings
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.optimisers import Schedule, build_optimizer
from trm.training.samples import RowStepSamples, TrainingSamples

Figures = dict[str, tuple[float, int]]  # shares or means by name, and of how many
SIGNAL = "signal_"  # begins the name of a figure of what a cell model's cells decide


class Validated(NamedTuple):
    """A batch of problems, worked out."""

    problems: Problems
    drawing: WorkedDrawing
    forced: TeacherForced


def logs_at(trainer: L.Trainer, step: int) -> bool:
    """Whether the trainer keeps what is logged at an optimiser step, from 1.

    What is logged at others is dropped, at a cost that small models feel.
    """
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    return every > 0 and step % every == 0


class CanvasModule(L.LightningModule):
    """Trains a model that fills canvases, and scores it by solving problems.

    Args:
        model: the network.
        optimizer: which optimiser.
        schedule: of the learning rate.
        compile: compile the model's step for training (needs a C++ compiler on a CPU).
        seed: of what is drawn while training.

    Attributes:
        samples: what a training batch holds.
        charted: names of figures that charts show, beside those that all modules log.
        threads: the most that its operations are worth; None: as many as PyTorch takes.
    """

    samples: type[TrainingSamples] = RowStepSamples
    threads: int | None = None
    charted: tuple[str, ...] = ()
    compiled_method: str  # of the model, the part that is worth compiling, if any

    def __init__(
        self,
        model: Any,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        compile: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.optimizer, self.schedule, self.seed = optimizer, schedule, seed
        self.compile_steps = compile
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}  # by `trained`'s settings
        self._totals: dict[
            str, tuple[float, int]
        ] = {}  # sums of a validation's figures, and of what

    @property
    def validated_figures(self) -> list[str]:
        """Names of the figures that a validation logs of each group; a subclass adds its own."""
        rows = ("free_running_rows", "teacher_forced_rows", "teacher_forced_cells")
        return ["solved", "loss", *rows, "confidence_accuracy"]

    @property
    def data(self) -> CanvasDataModule:
        """What it is trained on, or scored by."""
        return self.trainer.datamodule  # type: ignore[attr-defined]

    def check(self, data: CanvasDataModule) -> None:
        """Raise a ValueError where it cannot be trained on data."""

    def setup(self, stage: str) -> None:
        """Check the data before training."""
        if stage == "fit" and self.data is not None:
            self.check(self.data)
            self.data.check_memory(self.samples)

    def trained(self, **settings: Any) -> Any:
        """Return the model for the training step that begins, compiled if so wished.

        ``settings`` replace those of its config, such as the number of cycles. A second view of the
        same weights: solving keeps the plain one, as its batches shrink and its sequences grow.
        """
        if not self.compile_steps and not settings:
            return self.model
        model = copy(self.model)
        model.config = replace(model.config, **settings)
        if self.compile_steps:
            key, method = tuple(sorted(settings.items())), self.compiled_method
            if key not in self._compiled:
                # Canvases cut to their problems differ in size from batch to batch.
                self._compiled[key] = torch.compile(getattr(model, method), dynamic=True)
            setattr(model, method, self._compiled[key])
        return model

    @abstractmethod
    def predictor(self) -> Predictor:
        """The model as it solves."""

    @abstractmethod
    def loss_on(self, drawing: WorkedDrawing) -> tuple[float, int]:
        """Training's loss on problems, without random draws, and its weight in a mean."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What a checkpoint has to say beside the model's config: its family, how it solves."""

    def more_figures(self, drawing: WorkedDrawing, forced: TeacherForced) -> Figures:
        """What else a validation logs of problems."""
        return {}

    def gathered(self, mine: Any) -> list[Any]:
        """What every device has, in the order of their ranks; plain data."""
        everywhere = [mine] * self.trainer.world_size
        if self.trainer.world_size > 1:
            torch.distributed.all_gather_object(everywhere, mine)
        return everywhere

    def batch_seed(self, batch_idx: int) -> int:
        """Of what is drawn for a training batch as a whole: its own, and on every device the same.

        A function of (seed, epoch, batch), so that batches whose gradients are added up differ.
        """
        own = keys(self.seed, "train", self.current_epoch, np.array([batch_idx], dtype=np.uint64))
        return int(own[0] >> np.uint64(1))

    def backward(self, *args: Any, **more: Any) -> None:
        """As Lightning's, on as many threads as it is worth."""
        with standard_settings(self.threads):
            super().backward(*args, **more)

    def optimizer_step(self, *args: Any, **more: Any) -> None:
        """As Lightning's, the batch's training step among it, on as many threads."""
        with standard_settings(self.threads):
            super().optimizer_step(*args, **more)

    def log_training(self, figures: dict[str, Any]) -> None:
        """Log a training step's figures, where the trainer keeps them."""
        if logs_at(self.trainer, self.global_step + 1):
            for name, value in figures.items():
                self.log(f"train/{name}", value, prog_bar=name == "loss")

    def validation_step(
        self, batch: tuple[Problems, WorkedDrawing], batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, Validated]:
        """Solve whole problems, free-running and teacher-forced, of one of the data's groups."""
        group = list(self.data.groups)[dataloader_idx] if dataloader_idx else "validation"
        return {"validated": self.score(batch, group)}

    def test_step(
        self, batch: tuple[Problems, WorkedDrawing], batch_idx: int
    ) -> dict[str, Validated]:
        """As `validation_step`, on the test split."""
        return {"validated": self.score(batch, "test")}

    def predict_step(self, batch: tuple[Problems, WorkedDrawing], batch_idx: int) -> Any:
        """Solve whole problems; returns a record of each, see `Solution.record`."""
        solver = Solver(self.predictor(), self.data.task)
        return [solution.record() for solution in solver.solve_drawing(*batch)]

    def score(
        self,
        batch: tuple[Problems, WorkedDrawing],
        group: str,
        uncalibrated: Predictor | None = None,
    ) -> Validated:
        """Solve a batch of problems, and add up figures under a group's name.

        Except for the confidence of an ``uncalibrated`` predictor.
        """
        with standard_settings(self.threads):
            return self._score(*batch, group, uncalibrated)

    def _score(
        self,
        problems: Problems,
        drawing: WorkedDrawing,
        group: str,
        uncalibrated: Predictor | None,
    ) -> Validated:
        predictor = uncalibrated or self.predictor()
        free = predictor.free_running(drawing)
        forced = teacher_forced(predictor, drawing, free if predictor.row_by_row else None)
        solved = (free.canvases == drawing.truth).all(axis=(1, 2))
        rows, asked = len(forced.rows_exact), len(drawing)
        figures: Figures = {
            "solved": (solved.mean(), asked),
            "free_running_rows": (drawing.rows_right(free.canvases).sum() / rows, rows),
            "teacher_forced_rows": (forced.rows_exact.mean(), rows),
            "teacher_forced_cells": (forced.cells_right.mean(), rows),
        }
        if forced.filled.steps.any():
            figures["supervision_steps"] = (forced.filled.steps.mean(), rows)
        if uncalibrated is None:
            # 1 as well where no row is right, and all are held wrong: see teacher_forced_rows.
            held_right = forced.filled.confidence > 0.5
            figures["confidence_accuracy"] = ((held_right == forced.rows_exact).mean(), rows)
        if group == "beyond":
            figures = {name: figures[name] for name in ("solved", "teacher_forced_rows")}
        else:
            figures["loss"] = self.loss_on(drawing)
        if group != "training_problems":
            figures |= self.more_figures(drawing, forced)
        for name, (value, weight) in figures.items():
            total, of = self._totals.get(f"{group}/{name}", (0.0, 0))
            self._totals[f"{group}/{name}"] = total + float(value) * weight, of + weight
        return Validated(problems, drawing, forced)

    def on_validation_epoch_start(self) -> None:
        """Forget the figures of the validation before."""
        self._totals = {}

    def on_validation_epoch_end(self) -> None:
        """Log the figures of all problems, each of which counts once on any number of devices.

        Lightning's own mean over devices rounds the number of problems on each down.
        """
        everywhere = self.gathered(self._totals)
        for name in self._totals:
            totals, weights = zip(*(of[name] for of in everywhere if name in of), strict=True)
            self.log(
                name,
                sum(totals) / sum(weights),
                sync_dist=True,  # the same on all of them already, which Lightning cannot know
                prog_bar=name == "validation/solved",
                add_dataloader_idx=False,
            )

    on_test_epoch_start = on_validation_epoch_start
    on_test_epoch_end = on_validation_epoch_end

    def transfer_batch_to_device(self, batch: Any, device: torch.device, index: int) -> Any:
        """Training batches go to the device; whole problems stay: solvers send what they need."""
        if isinstance(batch, dict):
            return super().transfer_batch_to_device(batch, device, index)
        return batch

    def configure_optimizers(self) -> Any:
        """One optimiser, its learning rate set anew after every step."""
        optimizer = build_optimizer(self.model, self.optimizer)
        scheduler = Schedule(optimizer, self.schedule, self.trainer.estimated_stepping_batches)
        every_step = {"scheduler": scheduler, "interval": "step", "name": "learning_rate"}
        return {"optimizer": optimizer, "lr_scheduler": every_step}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse the weights of another model: some would fit, and mean something else."""
        held = checkpoint.get(CHECKPOINT_KEY, {})
        mine = {"network": class_name(type(self.model)), **plain(self.model.config)}
        # What a config did not have when the checkpoint was written is at its default.
        theirs = {"network": held.get("network"), **plain(type(self.model.config)())}
        theirs |= held.get("model", {})
        differ = [f"{k} {theirs.get(k)} (here {v})" for k, v in mine.items() if theirs.get(k) != v]
        if differ:
            raise ValueError(
                f"the checkpoint holds another model: {', '.join(differ[:4])}. Take its own "
                "config, or another checkpoint"
            )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Write down, in plain data, which model the weights belong to."""
        checkpoint[CHECKPOINT_KEY] = {
            "format": FORMAT,
            "network": class_name(type(self.model)),
            "model": plain(self.model.config),
            **self.about(),
        }
