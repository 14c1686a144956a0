"""Base class of all LightningModules here. Computation is left to models, losses and solvers."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import torch
import torch.distributed

from canvas.choices import refuse_renamed
from canvas.drawing import WorkedDrawing
from canvas.problems import Problems, keys
from canvas.task import Task
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.content import check_same_network, network_entry
from trm.runtime.torch_settings import standard_settings
from trm.solving.calibration import Calibration, fit_calibration
from trm.solving.families import family_of
from trm.solving.predictor import Predictor
from trm.solving.solver import Solver
from trm.solving.teacher_forced import TeacherForced, teacher_forced
from trm.training.auxiliary import AuxiliaryConfig, AuxiliaryHeads, heads_of, settle_heads
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule, EpochDataModule
from trm.training.loggers import logs_at
from trm.training.optimisers import Schedule, build_optimizer
from trm.training.samples import RowStepSamples, TrainingSamples

Calibrate = Callable[[np.ndarray], np.ndarray]  # log-probabilities [N] → probabilities [N]
Means = dict[str, tuple[float, int]]  # by name: a share or mean, and the number it is over
SIGNAL = "signal_"  # prefix of the metrics of signals, which some models decide


class Validated(NamedTuple):
    """A batch of problems with a model's solutions."""

    problems: Problems
    drawing: WorkedDrawing
    forced: TeacherForced


class CanvasModule(L.LightningModule):
    """Trains a model that fills canvases, and scores it by solving problems.

    Args:
        model: the network.
        optimizer: the optimiser and its settings.
        schedule: of the learning rate.
        compile: compile the model's step for training (needs a C++ compiler on a CPU).
        seed: of random numbers in training.
        auxiliary: weights of auxiliary losses by sub-task of the layout's local rule, like
            ``{carry: 0.3, product: 0.3}``. Extra heads learn them; solving does not use these.
        auxiliary_until: epochs after which these losses end; below 1: a share of the run; null:
            never.

    Attributes:
        samples_class: data set of training batches.
        threads: most threads that its operations gain from; None: PyTorch's default.
        calibrates: whether its validations fit the calibration of the confidence.
    """

    samples_class: type[TrainingSamples] = RowStepSamples
    threads: int | None = None
    calibrates = False
    compiled_method: str  # name of the model's method to compile, if any

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse released names, which nothing would call or read."""
        super().__init_subclass__(**more)
        renamed = ("validated_figures", "more_figures", "add_figures")
        refuse_renamed(cls, {name: name.replace("figures", "metrics") for name in renamed})
        refuse_renamed(cls, {"charted": "training_metrics", "samples": "samples_class"})
        refuse_renamed(cls, {"trained": "model_of_step", "check_weights": "check_same_network"})

    def __init__(
        self,
        model: Any,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        compile: bool = False,
        seed: int = 0,
        auxiliary: dict[str, float] | None = None,
        auxiliary_until: int | float | None = None,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.auxiliary_config = AuxiliaryConfig(auxiliary or {}, auxiliary_until)
        self.auxiliary: AuxiliaryHeads | None = None  # see `add_auxiliary`
        self.optimizer, self.schedule, self.seed = optimizer, schedule, seed
        self.compile_steps = compile
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}  # by settings of the step
        self.checked = False  # by `check_fit`, before the trainer sets the module up
        self._totals: Means = {}  # of a validation: sums in place of means
        self.calibration = Calibration()  # of the confidence, if validations fit one
        # Log-probabilities of a validation's rows, and whether these are correct.
        self._scored: list[tuple[np.ndarray, np.ndarray]] = []
        self.counts: dict[str, int] = {}  # over which each metric of the last validation is a mean

    @property
    def validated_metrics(self) -> list[str]:
        """Names of the metrics that a validation logs for each group; a subclass adds its own."""
        rows = ("free_running_rows", "teacher_forced_rows", "teacher_forced_cells")
        return ["solved", "loss", *rows, "confidence_accuracy"]

    @property
    def training_metrics(self) -> list[str]:
        """Names of the metrics that a training step logs; a subclass adds its own."""
        names = self.auxiliary.loss_weights if self.auxiliary else ()
        kinds = ("auxiliary", "auxiliary_accuracy")
        return ["loss", *(f"{kind}/{name}" for kind in kinds for name in names)]

    @property
    def data(self) -> CanvasDataModule:
        """Data module of training or evaluation."""
        return self.trainer.datamodule  # type: ignore[attr-defined]

    def check(self, data: CanvasDataModule) -> None:
        """Check that the model can be trained on ``data``.

        Raises:
            ValueError: it cannot.
        """

    def check_fit(self, data: Any, epochs: int | None) -> None:
        """Check model, data and the stages of a run before training.

        Args:
            data: its data module.
            epochs: of the whole run; None or -1: unknown.

        Raises:
            ValueError: the model cannot be trained on the data, or a stage ends at a share of a run
                of unknown length.
        """
        self.check(data)
        self.auxiliary_config.at(0, epochs)
        data.check_for(self, epochs)

    @property
    def state_width(self) -> int | None:
        """Channels of the states that auxiliary heads read; None: the model has no such states."""
        return None

    def prepare(self, data: Any) -> None:
        """Add the parts of the module that depend on the data, once, see `add_auxiliary`."""
        self.add_auxiliary(data.task)

    def add_auxiliary(self, task: Task) -> None:
        """Add the auxiliary heads of the config, once, before weights are loaded or averaged.

        Raises:
            ValueError: see `trm.training.auxiliary.heads_of`.
        """
        if self.auxiliary is None:
            weights = self.auxiliary_config.weights
            self.auxiliary = heads_of(self.model, task, weights, self.state_width)

    def setup(self, stage: str) -> None:
        """Add what depends on the data, and check the data before training."""
        if self.data is not None:
            self.prepare(self.data)
            if stage == "fit" and not self.checked:
                self.check_fit(self.data, self.trainer.max_epochs)

    def model_of_step(self, **settings: Any) -> Any:
        """Return the model for a training step, compiled if `compile` is set.

        The result shares the weights. Solving uses the uncompiled model, as its batches shrink and
        its sequences grow.

        Args:
            settings: replace settings of the model's config, such as the number of cycles.
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

    def predictor(self, calibration: Calibrate | None = None) -> Predictor:
        """Return the predictor that solves problems with the model.

        Args:
            calibration: of the confidence; None: that of the last validation. Some models have none
                to calibrate.
        """
        about = self.about() | {"calibration": calibration or self.calibration}
        return family_of(self.model).predictor(self.model, about, None)

    @abstractmethod
    def loss_on(self, drawing: WorkedDrawing) -> tuple[float, int]:
        """Return the training loss on problems and its weight in a mean; nothing is random."""

    def about(self) -> dict[str, Any]:
        """Return settings of solving for a checkpoint; others are `Family.settings`."""
        return {"calibration": asdict(self.calibration)} if self.calibrates else {}

    def more_metrics(self, drawing: WorkedDrawing, forced: TeacherForced) -> Means:
        """Return further metrics of a validation."""
        return {}

    def gathered(self, mine: Any) -> list[Any]:
        """Gather plain data from every device, in the order of ranks."""
        everywhere = [mine] * self.trainer.world_size
        if self.trainer.world_size > 1:
            torch.distributed.all_gather_object(everywhere, mine)
        return everywhere

    def batch_seed(self, batch_idx: int) -> int:
        """Return the seed of a whole training batch, the same on every device.

        It is a function of (seed, epoch, batch), so that batches with accumulated gradients differ.
        """
        own = keys(self.seed, "train", self.current_epoch, np.array([batch_idx], dtype=np.uint64))
        return int(own[0] >> np.uint64(1))

    def backward(self, *args: Any, **more: Any) -> None:
        """Run Lightning's backward pass on at most ``threads`` threads."""
        with standard_settings(self.threads):
            super().backward(*args, **more)

    def optimizer_step(self, *args: Any, **more: Any) -> None:
        """Run Lightning's optimiser and training step on at most ``threads`` threads."""
        with standard_settings(self.threads):
            super().optimizer_step(*args, **more)

    def log_training(self, metrics: dict[str, Any]) -> None:
        """Log a training step's metrics if the trainer keeps them."""
        if logs_at(self.trainer, self.global_step + 1):
            for name, value in metrics.items():
                self.log(f"train/{name}", value, prog_bar=name == "loss")

    def validation_step(
        self, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, Any]:
        """Solve problems of one of the data's groups, free-running and teacher-forced.

        If the module `calibrates`, log-probabilities of the validation's rows are kept for a fit at
        its end. Those of training and longer problems are not.
        """
        if dataloader_idx:
            return {"validated": self.score(batch, list(self.data.groups)[dataloader_idx])}
        if not self.calibrates:
            return {"validated": self.score(batch, "validation")}
        validated, log_probs, correct = self.score_for_calibration(batch)
        self._scored.append((log_probs, correct))
        return {"validated": validated}

    def score_for_calibration(self, batch: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return `score` of a batch, log-probabilities of N rows, and whether they are correct."""
        validated = self.score(batch, "validation", calibrated=False)
        forced = validated.forced
        return validated, forced.filled.confidence, forced.rows_exact

    def test_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """Solve problems of the test split; the calibration stays that of the last validation."""
        return {"validated": self.score(batch, "test")}

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        """Solve problems and return a record of each, see `Solution.record`."""
        solver = Solver(self.predictor(), self.data.task)
        return [solution.record() for solution in solver.solve_drawing(*batch)]

    def score(self, batch: Any, group: str, calibrated: bool = True) -> Any:
        """Solve a batch of problems and add up metrics under a group's name.

        Args:
            batch: the problems, with their solutions.
            group: the first part of the metrics' names.
            calibrated: False: the confidence is log-probabilities, and is not scored.

        Returns:
            The batch with its solutions, a `Validated`.
        """
        problems, drawing = batch
        with standard_settings(self.threads):
            predictor = self.predictor() if calibrated else self.predictor(np.asarray)
            written = predictor.free_running(drawing)
            forced = teacher_forced(predictor, drawing, written)
            solved = (written.canvases == drawing.truth).all(axis=(1, 2))
            rows, problem_count = len(forced.rows_exact), len(drawing)
            metrics: Means = {
                "solved": (solved.mean(), problem_count),
                "free_running_rows": (drawing.correct_rows(written.canvases).sum() / rows, rows),
                "teacher_forced_rows": (forced.rows_exact.mean(), rows),
                "teacher_forced_cells": (forced.cell_accuracy.mean(), rows),
            }
            if forced.filled.steps.any():
                metrics["supervision_steps"] = (forced.filled.steps.mean(), rows)
            if calibrated:
                # Also 1 if no row is correct and none is trusted: see teacher_forced_rows.
                held_right = forced.filled.confidence > 0.5
                metrics["confidence_accuracy"] = ((held_right == forced.rows_exact).mean(), rows)
            if group == "beyond":
                metrics = {name: metrics[name] for name in ("solved", "teacher_forced_rows")}
            else:
                metrics["loss"] = self.loss_on(drawing)
            if group != "training_problems":
                metrics |= self.more_metrics(drawing, forced)
        self.add_metrics(group, metrics)
        return Validated(problems, drawing, forced)

    def add_metrics(self, group: str, metrics: Means) -> None:
        """Add metrics of a batch to those of the whole validation, under a group's name."""
        for name, (value, weight) in metrics.items():
            total, of = self._totals.get(f"{group}/{name}", (0.0, 0))
            self._totals[f"{group}/{name}"] = total + float(value) * weight, of + weight

    def add_figures(self, group: str, metrics: Means) -> None:
        """Call `add_metrics`, by its released name."""
        warnings.warn("add_figures is add_metrics now", DeprecationWarning, stacklevel=2)
        self.add_metrics(group, metrics)

    def on_validation_epoch_start(self) -> None:
        """Clear the metrics of the previous validation."""
        self._totals = {}

    def on_validation_epoch_end(self) -> None:
        """Log the metrics of all problems, each counted once on any number of devices.

        Lightning's own mean over devices rounds down the number of problems on each.
        """
        everywhere = self.gathered(self._totals)
        for name in self._totals:
            totals, weights = zip(*(of[name] for of in everywhere if name in of), strict=True)
            self.counts[name] = sum(weights)
            self.log(
                name,
                sum(totals) / self.counts[name],
                sync_dist=True,  # equal on all devices already, which Lightning cannot detect
                prog_bar=name == "validation/solved",
                add_dataloader_idx=False,
            )
        if self.calibrates:
            self._calibrate()

    def _calibrate(self) -> None:
        """Fit the calibration to the rows of a validation."""
        scored = [part for device in self.gathered(self._scored) for part in device]
        self._scored = []
        if not scored:  # a test fits none
            return
        log_probs, correct = (np.concatenate(parts) for parts in zip(*scored, strict=True))
        self.calibration = fit_calibration(log_probs, correct)
        if "validation/confidence_accuracy" not in self._totals:
            # Measured on the rows of the fit: there are hundreds for each of its two parameters.
            accuracy = ((self.calibration(log_probs) > 0.5) == correct).mean()
            self.log("validation/confidence_accuracy", float(accuracy), sync_dist=True)

    on_test_epoch_start = on_validation_epoch_start
    on_test_epoch_end = on_validation_epoch_end

    def transfer_batch_to_device(self, batch: Any, device: torch.device, index: int) -> Any:
        """Move training batches to the device; whole problems stay on the CPU for the solver."""
        if isinstance(batch, dict):
            return super().transfer_batch_to_device(batch, device, index)
        return batch

    def configure_optimizers(self) -> Any:
        """Return one optimiser, with a learning rate that is set after every step."""
        optimizer = build_optimizer(self, self.optimizer)
        scheduler = Schedule(optimizer, self.schedule, self.trainer.estimated_stepping_batches)
        every_step = {"scheduler": scheduler, "interval": "step", "name": "learning_rate"}
        return {"optimizer": optimizer, "lr_scheduler": every_step}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Check that a checkpoint has the same network and auxiliary heads; restore calibration.

        A run resumes with the same heads. Testing uses none, so the module keeps its own.

        Raises:
            ValueError: the checkpoint holds another model, or a run resumes with other heads.
        """
        self.check_same_network(checkpoint)
        if found := checkpoint.get(CHECKPOINT_KEY, {}).get("calibration"):
            self.calibration = Calibration(**found)
        resumes = self._trainer is None or self.trainer.state.fn == "fit"
        settle_heads(self.state_dict(), checkpoint.get("state_dict", {}), resumes)

    def check_same_network(self, checkpoint: dict[str, Any]) -> None:
        """Check the network of a checkpoint, see `trm.checkpoints.content.check_same_network`."""
        check_same_network(self.model, checkpoint)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the model's class and config as plain data."""
        checkpoint[CHECKPOINT_KEY] = network_entry(self.model, **self.about())
        data = getattr(self._trainer, "datamodule", None)
        if isinstance(data, EpochDataModule):  # Lightning's key is the name of a subclass
            checkpoint[DATA_KEY] = data.state_dict()
