"""LightningModule for any iterative model."""

import random
from typing import Any

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device

from canvas.choices import check_choice
from canvas.drawing import RowSteps, WorkedDrawing, row_steps
from canvas.problems import Problems
from trm.models.iterative import Batch, IterativeModel
from trm.runtime.limits import MOST_STEPS
from trm.runtime.torch_settings import standard_settings
from trm.solving.iterative_predictor import CONFIDENCES
from trm.solving.rows import solve_once
from trm.solving.teacher_forced import TeacherForced
from trm.training.canvas_module import CanvasModule, Means
from trm.training.configs import check_range
from trm.training.data import CanvasDataModule
from trm.training.negatives import turned_metrics, with_own_rows
from trm.training.published_step import Carry, carried_step
from trm.training.random_bits import random_bits
from trm.training.step import LOSSES, DepthConfig, fresh_step

_CARRY = "carry"  # entry of a checkpoint: the fields of `Carry`, a dict for each device


class IterativeModule(CanvasModule):
    """Trains an `IterativeModel` to fill in one masked row of a canvas.

    Args:
        network: any iterative model, a class with its settings.
        depth: recursion depth in training.
        loss: cross entropy of the `softmax`, or of the reference's `stablemax`.
        solve_steps: highest number of supervision steps for a row in solving.
        patience: unchanged steps after which a row stops in solving even if the model predicts
            that it is incorrect; None: it takes all steps.
        confidence: where the confidence in a row comes from: the halting ``head``, or the lesser of
            that and the probability of the row's least certain cell (``cells``), which is
            calibrated on the rows of every validation.
        more: see `CanvasModule`; the seed is that of random initial states and halting.
    """

    compiled_method = "iterate"

    def __init__(
        self,
        network: IterativeModel,
        *,
        depth: DepthConfig,
        loss: str = "softmax",
        solve_steps: int = 16,
        patience: int | None = None,
        confidence: str = "head",
        **more: Any,
    ) -> None:
        check_range("model.solve_steps", solve_steps, 1, MOST_STEPS)
        if patience is not None:
            check_range("model.patience", patience, 1, MOST_STEPS)
        check_choice("model.loss", loss, LOSSES)
        check_choice("model.confidence", confidence, CONFIDENCES)
        if confidence == "cells" and loss != "softmax":
            raise ValueError(
                f"model.confidence cells needs probabilities of symbols, which the loss {loss} "
                "does not train: set model.loss: softmax, or model.confidence: head"
            )
        if depth.schedule == "carry" and network.ragged:
            raise ValueError(
                "depth.schedule carry needs states of one size, with a token for every cell: set "
                "depth.schedule: fresh"
            )
        for stage in depth.stages:
            for name in ("H_cycles", "L_cycles"):
                own = getattr(network.config, name, None)
                if getattr(stage, name) is not None and own is None:
                    raise ValueError(
                        f"depth.stages sets {name}, which {type(network).__name__} does not have"
                    )
        super().__init__(network, **more)
        self.depth, self.loss = depth, loss
        self.solve_steps, self.patience, self.confidence = solve_steps, patience, confidence
        self.calibrates = confidence == "cells"
        self.carry: Carry | None = None  # not a buffer: averaging weights must not touch it

    @standard_settings()
    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        depth, cycles = self.depth.at(self.current_epoch, self.trainer.max_epochs)
        model = self.model_of_step(**cycles)
        # Random numbers of the model are those of the sample and of the module's seed.
        batch = {**batch, "seeds": random_bits(batch["seeds"], self.seed)}
        batch = self.with_own_rows(model, batch, sum(depth.usual_steps))
        losses = self.loss, self.auxiliary
        if depth.schedule == "fresh":
            no_grad_steps = random.Random(self.batch_seed(batch_idx)).randint(*depth.no_grad_steps)
            steps = no_grad_steps, depth.supervised_steps
            metrics = fresh_step(model, batch, *steps, depth.random_start, *losses)
        else:
            metrics, self.carry = carried_step(model, batch, self.carry, depth, *losses)
            # Under `fresh` their number is random.
            metrics["supervision_steps"] = self.carry.steps.float().mean()
        self.log_training({name: value.detach() for name, value in metrics.items()})
        return metrics["loss"]

    def with_own_rows(self, model: IterativeModel, batch: Batch, steps: int) -> Batch:
        """Return a batch with rows that the model writes itself, see `NegativesConfig.own`."""
        return with_own_rows(model, batch, steps)

    @property
    def validated_metrics(self) -> list[str]:
        names = [*super().validated_metrics, "supervision_steps"]
        if self._turning:
            names += ["turned_rejected", "confidence_turned", "confidence_correct"]
        return names

    @property
    def training_metrics(self) -> list[str]:
        names = ["cell_accuracy", "row_accuracy", "halting_accuracy", "loss_cells", "loss_halting"]
        if self.data is not None and self.data.has_negatives:
            names.append("negatives_rejected")
        return [*super().training_metrics, *names]

    @property
    def _turning(self) -> list[str]:
        """Symmetries in which canvases teach the confidence alone; empty: none."""
        data = self.data if self._trainer else None
        if data is None or data.negatives is None or not data.negatives.turns:
            return []
        return [name for name in data.symmetries if name != "e"]

    @property
    def state_width(self) -> int | None:
        return self.model.config.hidden_size if hasattr(self.model, "cell_states") else None

    def check(self, data: CanvasDataModule) -> None:
        if self.depth.schedule == "carry" and data.canvas.cut:
            raise ValueError(
                "depth.schedule carry keeps samples from batch to batch, on canvases of one size: "
                "set data.canvas.height and data.canvas.width, or depth.schedule: fresh"
            )

    def check_fit(self, data: Any, epochs: int | None) -> None:
        super().check_fit(data, epochs)
        self.depth.at(0, epochs)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if self.carry is not None:
            carry = Carry(*move_data_to_device(self.carry, "cpu"))
            checkpoint[_CARRY] = self.gathered(carry._asdict())

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        carries = checkpoint.get(_CARRY)  # only used on the same number of devices
        if carries and len(carries) == self.trainer.world_size:
            self.carry = Carry(**carries[self.global_rank])

    def loss_on(self, drawing: WorkedDrawing) -> tuple[float, int]:
        """Return the loss on one row of each problem, as in training, and its weight.

        All rows get the same number of supervision steps. Under `fresh` these are the middle number
        of steps without gradient and then the supervised ones, under `carry` the maximum.
        """
        return self.loss_of(_one_row_each(drawing)), len(drawing)

    @torch.no_grad()
    def loss_of(self, samples: Any) -> float:
        """Return the loss on samples with ``inputs``, ``labels`` and ``answer``, [B, H, W] each."""
        batch = {
            name: torch.from_numpy(getattr(samples, name)).to(self.device)
            for name in ("inputs", "labels", "answer")
        }
        metrics = fresh_step(self.model, batch, *self.depth.usual_steps, loss=self.loss)
        return float(metrics["loss"])

    def more_metrics(self, drawing: WorkedDrawing, forced: TeacherForced) -> Means:
        """Return `turned_metrics`, if turned canvases teach the confidence."""
        if not (names := self._turning):
            return {}
        return turned_metrics(self.predictor(), _one_row_each(drawing).inputs, names, forced)

    def score_for_calibration(self, batch: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        # `score` has the lesser of two probabilities, and the fit needs that of the cells alone.
        samples = self.samples_of(batch)
        found = solve_once(self.predictor(np.asarray), samples.inputs)
        correct = (found.canvases == samples.labels) | ~samples.answer
        return self.score(batch, "validation"), found.confidence, correct.all(axis=(1, 2))

    def samples_of(self, batch: tuple[Problems, WorkedDrawing]) -> Any:
        """Return the samples of a validation: ``inputs``, ``labels``, ``answer``, [B, H, W]."""
        return row_steps(batch[1])

    def about(self) -> dict[str, Any]:
        about = super().about() | {"solve_steps": self.solve_steps}
        if self.patience is not None:
            about["patience"] = self.patience
        if self.confidence == "cells":
            about["confidence"] = "cells"
        return about


def _one_row_each(drawing: WorkedDrawing) -> RowSteps:
    """Return a row step of each problem.

    The sum of its symbols chooses the row, so that batches and devices do not matter.
    """
    return row_steps(drawing, drawing.truth.sum(axis=(1, 2), dtype=np.int64) % drawing.num_rows)
