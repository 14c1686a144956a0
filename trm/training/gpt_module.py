"""The GPT as a LightningModule."""

import random
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from canvas.problems import Problems
from canvas.render import IGNORE, WorkedDrawing, sequences
from trm.checkpoints import CHECKPOINT_KEY
from trm.models.gpt import GPT
from trm.solving.gpt_predictor import Calibration, GPTPredictor, fit_calibration
from trm.training.canvas_module import CanvasModule, Validated, logs_at
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.losses import sequence_loss
from trm.training.samples import SequenceSamples, TrainingBatch


class GPTModule(CanvasModule):
    """Trains a `GPT` to write worked multiplications token by token.

    After every validation its confidence is calibrated on the rows just judged.

    Args:
        network: a GPT, a class with its settings.
        optimizer: which optimiser.
        schedule: of the learning rate.
        train_loops: fewest and most loops of a looped GPT in training, drawn anew for every batch;
            null: always as many as it solves with.
        compile: compile the layers for training (needs a C++ compiler on a CPU).
        seed: of the loops and the `randomised` positions that are drawn while training.

    Raises:
        ValueError: no loop, or fewer at most than at least.
    """

    samples = SequenceSamples
    compiled_method = "hidden"

    def __init__(
        self,
        network: GPT,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        train_loops: tuple[int, int] | None = None,
        compile: bool = False,
        seed: int = 0,
    ) -> None:
        if train_loops is not None and not 1 <= train_loops[0] <= train_loops[1]:
            raise ValueError(f"train_loops is [fewest, most] from 1 up, not {list(train_loops)}")
        super().__init__(network, optimizer, schedule, compile, seed)
        self.train_loops = train_loops
        self.calibration = Calibration()
        # Log-probabilities of the rows of a validation, and which were right.
        self._judged: list[tuple[np.ndarray, np.ndarray]] = []

    def check(self, data: CanvasDataModule) -> None:
        position = self.model.config.position
        if data.canvas.cut and position.startswith("learned"):
            raise ValueError(
                f"{position} positions are learned place by place: set data.canvas.height and "
                "data.canvas.width, or another model.network.config.position"
            )
        if data.views or data.transform:
            raise ValueError(
                f"data.{'views' if data.views else 'transforms'} turn and flip row steps, but a "
                "GPT writes from the lowest digit up, row below row: remove them"
            )

    def training_step(self, batch: TrainingBatch, batch_idx: int) -> torch.Tensor:
        seed = self.batch_seed(batch_idx)
        generator = torch.Generator().manual_seed(seed)
        loops = self.train_loops and random.Random(seed).randint(*self.train_loops)
        size = batch["height"], batch["width"]
        logits = self.trained()(batch["ids"], *size, generator, loops)
        loss, right, cells = sequence_loss(logits, batch["labels"])
        if logs_at(self.trainer, self.global_step + 1):
            figures = {"loss": loss.detach(), "cell_accuracy": cells}
            self.log_training(figures | {"row_accuracy": row_accuracy(right, batch)})
        return loss

    @torch.no_grad()
    def loss_on(self, problems: Problems, drawing: WorkedDrawing) -> tuple[float, int]:
        ids, labels = (torch.from_numpy(part).to(self.device) for part in sequences(drawing))
        logits = self.model(ids, *drawing.canvases.shape[1:])
        return float(sequence_loss(logits, labels)[0]), int((labels != IGNORE).sum())

    def predictor(self) -> GPTPredictor:
        return GPTPredictor(self.model, self.calibration)

    def about(self) -> dict[str, Any]:
        return {"family": "gpt", "calibration": asdict(self.calibration)}

    def validation_step(
        self, batch: tuple[Problems, WorkedDrawing], batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, Validated]:
        if dataloader_idx:  # of training or beyond it: these calibrate nothing
            return super().validation_step(batch, batch_idx, dataloader_idx)
        predictor = GPTPredictor(self.model, calibration=np.asarray)
        validated = self.score(batch, "validation", predictor)
        forced = validated.forced
        self._judged.append((forced.filled.confidence, forced.rows_exact))
        return {"validated": validated}

    def on_validation_epoch_end(self) -> None:
        judged = [part for device in self.gathered(self._judged) for part in device]
        self._judged = []
        log_probs, right = (np.concatenate(parts) for parts in zip(*judged, strict=True))
        self.calibration = fit_calibration(log_probs, right)
        # Of the rows that the two numbers were fitted to: there are hundreds of times as many.
        accuracy = ((self.calibration(log_probs) > 0.5) == right).mean()
        self.log("validation/confidence_accuracy", float(accuracy), sync_dist=True)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self.calibration = Calibration(**checkpoint[CHECKPOINT_KEY]["calibration"])


def row_accuracy(right: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
    """The share of a batch's rows that are right where they count.

    Args:
        right: ``bool [B, S]``, of each token.
        batch: of `trm.training.samples.SequenceSamples`.
    """
    rows = (len(right), batch["height"], batch["width"] + 1)
    right, counted = (part[:, :-1].reshape(rows) for part in (right, batch["labels"] != IGNORE))
    rows_right, rows_counted = (right | ~counted).all(dim=2), counted.any(dim=2)
    return (rows_right & rows_counted).sum() / rows_counted.sum()
