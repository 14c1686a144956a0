"""A `LocalRecursiveModel` as a LightningModule: every cell of every page is a sample."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.problems import Problems
from canvas.render import WorkedDrawing
from canvas.windows import SYMBOL
from trm.models.iterative import Batch
from trm.models.local import LocalRecursiveModel
from trm.solving.local_predictor import LocalPredictor
from trm.solving.rollout import TeacherForced
from trm.training.canvas_module import CanvasModule, logs_at
from trm.training.configs import OptimizerConfig, ScheduleConfig, check_range
from trm.training.data import CanvasDataModule
from trm.training.samples import window_batch


class LocalModule(CanvasModule):
    """Trains a `LocalRecursiveModel` on whole pages, with the true messages: no rollout.

    Args:
        network: the model.
        optimizer: which optimiser.
        schedule: of the learning rate.
        halt_weight: weight of the loss of the halting head, which learns whether all that a cell
            says is right.
        compile: compile the model for training (needs a C++ compiler on a CPU).
        seed: unused by this model, which draws nothing.
    """

    samples = "windows"
    compiled_method = "cells"

    def __init__(
        self,
        network: LocalRecursiveModel,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        halt_weight: float = 0.1,
        compile: bool = False,
        seed: int = 0,
    ) -> None:
        check_range("model.halt_weight", halt_weight, 0)
        super().__init__(network, optimizer, schedule, None, compile, seed)
        self.halt_weight = halt_weight
        self.hints = dict.fromkeys(network.fields, 1.0)

    def check(self, data: CanvasDataModule) -> None:
        if data.views or data.transform or data.blanks.rows or data.blanks.columns:
            raise ValueError(
                "a local model knows which neighbour is on its right: leave out data.views, "
                "data.transforms and data.blanks"
            )

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of N cells, and what is worth logging: shares of cells that are right.

        The cross entropies of all that a cell says, added up; the symbol's counts in cells that are
        filled in.
        """
        outputs, halt_logits = self.trained().cells(batch["tokens"], batch["codes"])
        shares: dict[str, Tensor] = {}
        total, right = torch.zeros((), device=outputs.device), torch.ones_like(batch["asked"])
        for i, (name, logits) in enumerate(self.model.parts(outputs).items()):
            label, counts = batch["labels"][:, i], torch.ones_like(batch["asked"])
            if name == SYMBOL:
                counts = batch["asked"]
            losses = F.cross_entropy(logits.float(), label, reduction="none")
            total = total + (losses * counts).mean()
            same = logits.detach().argmax(dim=-1) == label
            right = right & (same | ~counts)
            shares[name] = (same & counts).sum() / counts.sum().clamp(min=1)
        halt = F.binary_cross_entropy_with_logits(halt_logits, right.float())
        shares["cells"], shares["loss_halting"] = right.float().mean(), halt.detach()
        return total + self.halt_weight * halt, shares

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, shares = self.loss(batch)
        if logs_at(self.trainer, self.global_step + 1):
            figures = {"loss": loss.detach(), "loss_halting": shares["loss_halting"]}
            figures |= {"cell_accuracy": shares[SYMBOL], "window_accuracy": shares["cells"]}
            self.log_training(figures, {name: shares[name] for name in self.model.fields})
        return loss

    @torch.no_grad()
    def loss_on(self, problems: Problems, drawing: WorkedDrawing) -> tuple[float, int]:
        """On all rows of each problem."""
        data: CanvasDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        batch = window_batch(data.task, problems, drawing)
        batch = {name: part.to(self.device) for name, part in batch.items()}
        return float(self.loss(batch)[0]), len(drawing)

    def believed_hints(
        self, drawing: WorkedDrawing, forced: TeacherForced
    ) -> tuple[dict[str, np.ndarray], None]:
        last = np.cumsum(drawing.steps) - 1
        return self.predictor().hints(forced.steps.inputs[last], forced.filled.steps[last]), None

    def predictor(self) -> LocalPredictor:
        return LocalPredictor(self.model)

    def about(self) -> dict[str, Any]:
        return {"family": "local"}
