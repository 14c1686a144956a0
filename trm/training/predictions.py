"""Where the answers of `trm predict` go."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import BasePredictionWriter
from lightning.pytorch.utilities import rank_zero_info

from trm.training.runs import CHECKPOINTS


class PredictionWriter(BasePredictionWriter):
    """Writes each solved problem as a line of JSON, one file a device, beside the checkpoint's run.

    That is the run's folder, or the checkpoint's own where it lies in no run.
    """

    def __init__(self) -> None:
        super().__init__(write_interval="batch")

    @staticmethod
    def _file(trainer: L.Trainer) -> Path:
        folder = Path(trainer.ckpt_path or trainer.default_root_dir).parent
        folder = folder.parent if folder.name == CHECKPOINTS else folder
        return folder / f"predictions-{trainer.global_rank}.jsonl"

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin an empty file."""
        file = self._file(trainer)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")

    def write_on_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        prediction: Any,
        batch_indices: Sequence[int] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Append the batch's records."""
        with self._file(trainer).open("a") as file:
            file.writelines(json.dumps(record.data()) + "\n" for record in prediction)

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Say where they are."""
        rank_zero_info(f"The solved problems are in {self._file(trainer)}")
