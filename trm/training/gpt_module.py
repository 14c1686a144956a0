"""LightningModule for a GPT."""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from augment.symmetry import SYMMETRIES
from canvas.drawing import IGNORE, WorkedDrawing, sequences
from canvas.problems import Problems
from trm.checkpoints import CHECKPOINT_KEY
from trm.models.gpt import GPT
from trm.solving.gpt_predictor import Calibration, GPTPredictor, fit_calibration
from trm.torch_settings import standard_settings
from trm.training.canvas_module import CanvasModule, Validated
from trm.training.data import CanvasDataModule
from trm.training.samples import SHIFTS_ALONE, SequenceSamples, TrainingBatch


def sequence_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean cross entropy over the tokens that count, as nanoGPT does.

    Args:
        logits: float [B, S, V].
        labels: int64 [B, S]; `canvas.drawing.IGNORE` does not count.

    Returns:
        The loss, float32 [], with gradient, and the accuracy of the counted tokens, float32 [].
    """
    counted = labels != IGNORE
    right = (logits.detach().argmax(dim=-1) == labels) & counted
    loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
    return loss, right.sum() / counted.sum()


class GPTModule(CanvasModule):
    """Trains a `GPT` to write worked multiplications token by token.

    After every validation its confidence is calibrated on the validation's rows.

    Args:
        network: a GPT, a class with its settings.
        more: see `CanvasModule`; the seed is that of `randomised` positions in training.
    """

    samples = SequenceSamples
    charted = ("train/cell_accuracy",)
    compiled_method = "hidden"

    def __init__(self, network: GPT, **more: Any) -> None:
        super().__init__(network, **more)
        self.calibration = Calibration()
        # Log-probabilities of a validation's rows, and whether these are correct.
        self._judged: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def state_width(self) -> int:
        return int(self.model.config.hidden_size)

    def check(self, data: CanvasDataModule) -> None:
        position = self.model.config.position
        if data.canvas.cut and position.startswith("learned"):
            raise ValueError(
                f"{position} positions are learned for each place: set data.canvas.height and "
                "data.canvas.width, or another model.network.config.position"
            )
        if turned := sorted(set(data.symmetries) - {"e"}, key=list(SYMMETRIES).index):
            raise ValueError(f"{SHIFTS_ALONE} (now: {', '.join(turned)})")

    @standard_settings()
    def training_step(self, batch: TrainingBatch, batch_idx: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.batch_seed(batch_idx))
        model = self.trained()
        states = model.activations(batch["ids"], batch["height"], batch["width"], generator)
        loss, cells = sequence_loss(model.head(states), batch["labels"])
        figures = {"loss": loss, "cell_accuracy": cells}
        if self.auxiliary is not None:
            more = self.auxiliary(states, batch.get("auxiliary"))
            figures |= more | {"loss": loss + more["loss"]}
        self.log_training({name: part.detach() for name, part in figures.items()})
        return figures["loss"]

    @torch.no_grad()
    def loss_on(self, drawing: WorkedDrawing) -> tuple[float, int]:
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
        if dataloader_idx:  # training or longer problems are not used for calibration
            return super().validation_step(batch, batch_idx, dataloader_idx)
        predictor = GPTPredictor(self.model, calibration=np.asarray)
        validated = self.score(batch, "validation", predictor)
        forced = validated.forced
        self._judged.append((forced.filled.confidence, forced.rows_exact))
        return {"validated": validated}

    def on_validation_epoch_end(self) -> None:
        super().on_validation_epoch_end()
        judged = [part for device in self.gathered(self._judged) for part in device]
        self._judged = []
        log_probs, right = (np.concatenate(parts) for parts in zip(*judged, strict=True))
        self.calibration = fit_calibration(log_probs, right)
        # Measured on the rows of the fit: there are hundreds for each of its two parameters.
        accuracy = ((self.calibration(log_probs) > 0.5) == right).mean()
        self.log("validation/confidence_accuracy", float(accuracy), sync_dist=True)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self.calibration = Calibration(**checkpoint[CHECKPOINT_KEY]["calibration"])
