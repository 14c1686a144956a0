"""Cell models as files of weights."""

from pathlib import Path

from canvas.canvas_size import Canvas
from canvas.task import Task
from canvas.tasks import task_data
from trm.cells.model import CellModel
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY, FORMAT
from trm.checkpoints.content import pack
from trm.checkpoints.loading import plain


def saved(folder: Path, task: Task, model: CellModel) -> Path:
    about = {"format": FORMAT, "family": "cell"}
    about |= {"network": "trm.cells.model.CellModel", "model": plain(model.config)}
    data = {"task": task_data(task), "canvas": plain(Canvas())}
    file = folder / "model.safetensors"
    file.write_bytes(pack({CHECKPOINT_KEY: about, DATA_KEY: data}, {}, dict(model.state_dict())))
    return file
