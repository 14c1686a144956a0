"""Cell models as files of weights."""

from pathlib import Path

from canvas.task import Task
from trm import save_model
from trm.cells.model import CellModel


def saved(folder: Path, task: Task, model: CellModel) -> Path:
    save_model(file := folder / "model.safetensors", model, task)
    return file
