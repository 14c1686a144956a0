"""Canvases that a model of HRM's or TRM's kind has predicted, as predictions of numbers."""

import json
from pathlib import Path

import numpy as np

from canvas.multiplication import Multiplication
from canvas.reader import read


def write_predictions(predicted: np.ndarray, export: Path, layout: str, output: Path) -> None:
    """Predicted ids [N, H * W], in the order of the test examples, as predictions of products."""
    meta = json.loads((export / "meta.json").read_text())
    ids = (export / "test/ids.txt").read_text().split()
    lines = []
    for name, cells in zip(ids, predicted, strict=True):
        canvas = cells.reshape(meta["height"], meta["width"]).astype(np.uint8)
        try:
            number = str(read(canvas, Multiplication(layout).rules).answer)
        except ValueError:  # no finished solution
            number = None
        lines.append(json.dumps({"id": name, "prediction": number}) + "\n")
    output.write_text("".join(lines))
