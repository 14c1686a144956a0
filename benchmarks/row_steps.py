"""What several benchmarks take from a config: settings, task, canvas and batches of row steps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from trm.training.samples import RowStepSamples

CONFIGS = Path(__file__).parents[1] / "configs"


@dataclass(frozen=True)
class Config:
    """A shipped config.

    Attributes:
        model: the settings of its module.
        data, trainer: the sections of these names.
    """

    model: dict[str, Any]
    data: dict[str, Any]
    trainer: dict[str, Any]

    @classmethod
    def read(cls, name: str) -> "Config":
        """The one of a name like ``trm/reference``."""
        found = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
        return cls(found["model"]["init_args"], found["data"], found["trainer"])

    @property
    def network(self) -> dict[str, Any]:
        """The network's settings, which may be changed."""
        network: dict[str, Any] = self.model["network"]["init_args"]["config"]
        return network

    @property
    def task(self) -> Multiplication:
        """What is worked out."""
        return Multiplication(**self.data["task"]["init_args"])

    @property
    def canvas(self) -> Canvas:
        """What it is drawn on."""
        return Canvas(**self.data["canvas"])

    def batches(self, size: int, canvas: Canvas | None = None) -> "Batches":
        """Training batches of that many row steps, on its own canvas or another one."""
        return Batches(self.task, canvas or self.canvas, size)


class Batches:
    """Training batches of row steps, numbered from 0.

    Args:
        task: whose problems are drawn, from the training split.
        canvas: that they are drawn on.
        size: row steps of a batch.
    """

    def __init__(self, task: Multiplication, canvas: Canvas, size: int) -> None:
        self.size = size
        self.samples = RowStepSamples(task, canvas, "train", 0, 2**20 * size, size)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.samples.__getitems__(range(number * self.size, (number + 1) * self.size))
