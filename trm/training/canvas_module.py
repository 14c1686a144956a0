"""What both families' LightningModules share: they connect, and compute nothing themselves."""

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import torch

from canvas.choices import class_name, did_you_mean
from canvas.hints import draw_hints
from canvas.problems import Problems, keys
from canvas.render import WorkedDrawing
from trm.checkpoints import CHECKPOINT_KEY, FORMAT
from trm.plain_data import plain
from trm.solving.hint_reading import right_cells
from trm.solving.rollout import Predictor, TeacherForced, teacher_forced
from trm.solving.solver import Solver
from trm.training.beyond import BEYOND, BEYOND_FIGURES
from trm.training.compilation import GRAPHS, Compile, begin_step, compiled
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import VALIDATED, CanvasDataModule
from trm.training.optimisers import build_optimizer
from trm.training.samples import hint_key
from trm.training.schedules import build_schedule

ALL_HINTS = "all"  # of a layout, those that are not named

# What is logged of each group of problems that is worked out, and what it means.
FIGURES = {
    "solved": "share of whole solutions that are right, each row built on the model's own rows",
    "loss": "training's loss without random draws: of an iterative model on one row of each "
    "problem, of a GPT on all rows",
    "free_running_rows": "share of rows that are right, each built on the model's own rows",
    "teacher_forced_rows": "share of rows that are right, each built on the true rows",
    "teacher_forced_cells": "share of cells that are right in rows built on the true rows",
    "supervision_steps": "supervision steps that a row built on the true rows takes, on average",
    "confidence_accuracy": "share of rows that the model rightly holds right, or rightly wrong",
}


class Validated(NamedTuple):
    """A batch of problems, worked out.

    Attributes:
        problems, drawing: the problems on their canvases.
        solved: ``bool [B]``, whole solutions that are right, each row built on the model's own.
        forced: every row from the true rows before it.
    """

    problems: Problems
    drawing: WorkedDrawing
    solved: np.ndarray
    forced: TeacherForced


def learned_hints(asked: Mapping[str, float] | None, known: Collection[str]) -> dict[str, float]:
    """The weight of each hint that is learned; ``all`` stands for those that are not named.

    Args:
        asked: weights of 0 or more; a hint of weight 0 is not learned.
        known: the hints that there are.

    Raises:
        ValueError: a hint that there is not, or a weight that is none.
    """
    weights = dict(asked or {})
    for name, weight in weights.items():
        if name != ALL_HINTS and name not in known:
            raise ValueError(
                f"model.hints: there is no hint {name!r} here, but {', '.join(known) or 'none'}."
                f"{did_you_mean(name, known)}"
            )
        if not 0 <= weight < math.inf:
            raise ValueError(f"model.hints: the weight of {name} is 0 or more, not {weight}")
    rest = weights.pop(ALL_HINTS, 0.0)
    weights = {name: weights.get(name, rest) for name in known}
    return {name: weight for name, weight in weights.items() if weight > 0}


def _hints_of(asked: Mapping[str, float] | None, model: Any) -> dict[str, float]:
    """The weight of each hint that a network learns.

    Raises:
        ValueError: one that it has no head for, or a weight that is none.
    """
    known = getattr(model.config, "hints", None) or {}
    # A hint of weight 0 has no head.
    asked = {name: weight for name, weight in (asked or {}).items() if weight or name in known}
    if asked and not known:
        raise ValueError(
            f"model.hints: the network {class_name(type(model))} has no heads for hints: give its "
            "config a field `hints`, the number of classes of each by its name, and the network a "
            "method `read_hints`, or leave model.hints out"
        )
    return learned_hints(asked, known)


class CanvasModule(L.LightningModule):
    """Trains a model that fills canvases, and scores it by solving problems.

    Attributes:
        hints: the weights of those that are learned.
        samples: what a training batch holds, a name in `trm.training.data.SAMPLES`.
        deepest: most supervision steps that training takes; 0 of a model without any.
        model: the network.
    """

    samples = "row_steps"
    deepest = 0
    compiled_method: str  # of the model, the part that is worth compiling

    def __init__(
        self,
        model: Any,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        hints: Mapping[str, float] | None,
        compile: Compile,
        seed: int,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.hints = _hints_of(hints, model)
        self.optimizer, self.schedule, self.seed = optimizer, schedule, seed
        self.compile_steps = compile
        self._compiled: Callable[..., Any] | None = None

    def check(self, data: CanvasDataModule) -> None:
        """Whether it can be trained on data.

        Raises:
            ValueError: graphs are to be recorded of batches that differ in size.
        """
        if self.compile_steps == GRAPHS and (
            data.canvas.cut or not getattr(self.model, "fixed_tokens", True)
        ):
            raise ValueError(
                f"model.compile {GRAPHS} records a graph of batches of one size: set "
                "data.canvas.height and data.canvas.width, and skip_blank and crop to false, or "
                "model.compile: true"
            )

    def setup(self, stage: str) -> None:
        """Before training: check the data, and compile what is trained, once.

        It is traced when and where training begins.
        """
        data = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and isinstance(data, CanvasDataModule):
            self.check(data)
        if stage == "fit" and self.compile_steps and self._compiled is None:
            method = getattr(self.model, self.compiled_method)
            self._compiled = compiled(method, self.compile_steps)

    def trained(self) -> Any:
        """The model for the training step that begins, compiled if so wished.

        A second view of the same weights: solving keeps the plain one, as its batches shrink and
        its sequences grow.
        """
        if self._compiled is None:
            return self.model
        begin_step(self.compile_steps)
        model = copy(self.model)
        setattr(model, self.compiled_method, self._compiled)
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

    def batch_seed(self, batch_idx: int) -> int:
        """Of what is drawn for a training batch as a whole: its own, and on every device the same.

        A function of (seed, epoch, batch), so that batches whose gradients are added up differ.
        """
        own = keys(self.seed, "train", self.current_epoch, np.array([batch_idx], dtype=np.uint64))
        return int(own[0] >> np.uint64(1))

    @property
    def logs_this_step(self) -> bool:
        """Whether the trainer keeps what this training step logs.

        What is logged between its logging steps is dropped, at a cost that small models feel.
        """
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        return every > 0 and (self.global_step + 1) % every == 0

    def log_training(self, figures: dict[str, Any]) -> None:
        """Log a training step's figures."""
        for name, value in figures.items():
            self.log(f"train/{name}", value, prog_bar=name in ("loss", "row_accuracy"))

    def calibrated(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities of being right, from what validation's rows came with instead."""
        return scores

    def validation_step(
        self, batch: tuple[Problems, WorkedDrawing], batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, Validated]:
        """Solve whole problems, free-running and teacher-forced, of one of the data's groups."""
        group = VALIDATED[0]
        if dataloader_idx:
            group = self.trainer.datamodule.groups[dataloader_idx]  # type: ignore[attr-defined]
        return {"validated": self.score(batch, group)}

    def test_step(
        self, batch: tuple[Problems, WorkedDrawing], batch_idx: int
    ) -> dict[str, Validated]:
        """As `validation_step`, on the test split."""
        return {"validated": self.score(batch, "test")}

    def predict_step(self, batch: tuple[Problems, WorkedDrawing], batch_idx: int) -> Any:
        """Solve whole problems; returns a record of each, see `Solution.record`."""
        problems, drawing = batch
        data: CanvasDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        solver = Solver(self.predictor(), data.task)
        return [solution.record() for solution in solver.solve_drawing(problems, drawing)]

    def score(self, batch: tuple[Problems, WorkedDrawing], group: str) -> Validated:
        """Solve a batch of problems, and log how that went and whether the model knew."""
        validated = self.evaluate(batch, group, self.predictor())
        if group != BEYOND:
            self.log_confidence(validated.forced, group)
        return validated

    def evaluate(
        self, batch: tuple[Problems, WorkedDrawing], group: str, predictor: Predictor
    ) -> Validated:
        """Solve a batch of problems and log how that went."""
        problems, drawing = batch
        free = predictor.free_running(drawing)
        forced = teacher_forced(predictor, drawing, free if predictor.row_by_row else None)
        rows_right = drawing.rows_right(free.canvases)
        solved = (free.canvases == drawing.truth).all(axis=(1, 2))
        rows, asked = len(forced.rows_exact), len(drawing)
        figures = {
            "solved": (solved.mean(), asked),
            "free_running_rows": (rows_right.sum() / rows, rows),
            "teacher_forced_rows": (forced.rows_exact.mean(), rows),
            "teacher_forced_cells": (forced.cells_right.mean(), rows),
        }
        if forced.filled.steps.any():
            figures["supervision_steps"] = (forced.filled.steps.mean(), rows)
        if group == BEYOND:
            figures = {name: figures[name] for name in BEYOND_FIGURES}
        else:
            figures["loss"] = self.loss_on(drawing)
        if self.hints and group != VALIDATED[1]:
            figures |= self._hint_figures(problems, drawing, forced)
        for name, (value, weight) in figures.items():
            self.log(
                f"{group}/{name}",
                float(value),
                batch_size=weight,
                sync_dist=True,
                prog_bar=name == "solved",
                add_dataloader_idx=False,
            )
        return Validated(problems, drawing, solved, forced)

    def _hint_figures(
        self, problems: Problems, drawing: WorkedDrawing, forced: TeacherForced
    ) -> dict[str, tuple[float, int]]:
        """The share of right cells of each hint, and of how many."""
        believed, step = self.believed_hints(drawing, forced)
        data: CanvasDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        truth = draw_hints(data.task.rules, problems, drawing, step, self.hints)
        figures = {}
        for name in self.hints:
            right, counted = right_cells(believed[name], truth[name])
            number = int(counted.sum())
            figures[hint_key(name)] = (right.sum() / max(1, number), number)
        return figures

    @abstractmethod
    def believed_hints(
        self, drawing: WorkedDrawing, forced: TeacherForced
    ) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        """What the model believes of hints on B problems, rows built on the true rows.

        Args:
            drawing: of the problems.
            forced: all their rows, filled.

        Returns:
            By name ``uint8 [B, H, W]`` classes, see `trm.solving.hint_reading.likeliest`; and the
            step at which each problem is, ``int64 [B]``, None: at the end.
        """

    def log_confidence(self, forced: TeacherForced, group: str) -> None:
        """Log how often the model rightly holds a row more likely right than wrong, or wrong."""
        believed = forced.filled.confidence > 0.5
        self.log(
            f"{group}/confidence_accuracy",
            float((believed == forced.rows_exact).mean()),
            batch_size=len(believed),
            sync_dist=True,
            add_dataloader_idx=False,
        )

    def transfer_batch_to_device(self, batch: Any, device: torch.device, index: int) -> Any:
        """Training batches go to the device; whole problems stay: solvers send what they need."""
        if isinstance(batch, dict):
            return super().transfer_batch_to_device(batch, device, index)
        return batch

    def configure_optimizers(self) -> Any:
        """One optimiser, its learning rate set anew after every step."""
        optimizer = build_optimizer(self.model, self.optimizer)
        total = self.trainer.estimated_stepping_batches
        scheduler = build_schedule(optimizer, self.schedule, total)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {
                "scheduler": scheduler,
                "interval": "step",
                "name": "learning_rate",
            },
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse the weights of another model: some would fit, and mean something else.

        Raises:
            ValueError: the checkpoint is of another family or shape.
        """
        held = checkpoint.get(CHECKPOINT_KEY, {})
        mine: dict[str, Any] = {
            "family": self.about()["family"],
            "network": class_name(type(self.model)),
            **plain(self.model.config),
        }
        # What a config did not have when the checkpoint was written is at its default.
        theirs = {key: held.get(key) for key in ("family", "network")}
        theirs |= plain(type(self.model.config)()) | held.get("model", {})
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
