"""Checkpoints that are written whole or not at all, and read without running what is in them."""

from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from trm.checkpoints.loading import load_checkpoint
from trm.files import replacing, sweep


class CheckpointFiles(TorchCheckpointIO):
    """Lightning's reading and writing of checkpoints, made safe for local files.

    A file takes its name once all of it is on the disk (Lightning moves it there from the folder
    for temporary files, which may be another disk). A checkpoint that holds code is refused.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint whole or not at all."""
        if "://" in str(path):
            return super().save_checkpoint(checkpoint, path, storage_options)
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        sweep(file.parent, file.name)
        with replacing(file) as part, part.open("wb") as written:
            torch.save(checkpoint, written)  # given a path, it would hide that the disk is full
        return None

    def load_checkpoint(
        self, path: str | Path, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Weights and plain data, see `trm.checkpoints.loading.load_checkpoint`."""
        if "://" in str(path):
            return super().load_checkpoint(path, weights_only=True)
        # Lightning asks every file for the version that wrote it; exported weights do not say.
        return {"pytorch-lightning_version": L.__version__, **load_checkpoint(path)}
