"""Commands without their pictures, which take most of the time."""

from pathlib import Path

import numpy as np
import pytest

import canvas.picture
import trm.commands.render
import trm.extras.sweep.report
import trm.figures.grids
import trm.figures.style
import trm.training.tensorboard  # once its names are bound, nothing of this stays in it


@pytest.fixture
def undrawn(monkeypatch):
    """Pictures are empty files, and a pixel on TensorBoard."""

    def save(figure: object, file: Path) -> None:
        file.touch()

    for module in (trm.figures.style, trm.figures.grids, trm.extras.sweep.report):
        monkeypatch.setattr(module, "save", save)
    monkeypatch.setattr(canvas.picture, "pixels", lambda figure: np.zeros((1, 1, 3), np.uint8))
    monkeypatch.setattr(canvas.picture, "save_gif", lambda path, film: Path(path).touch())
