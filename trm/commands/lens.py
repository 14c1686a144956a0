"""`trm inspect --lens`: which symbols a model would write after each of its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trm.probing.lens import Lens


def draw_lens(lens: Lens, canvas: np.ndarray, truth: np.ndarray, title: str) -> Figure:
    """The figure lens.png.

    Args:
        lens: of a row.
        canvas: ``uint8 [H, W]``, what the model saw.
        truth: ``uint8 [H, W]``, the same with the row as it should be.
        title: of the figure.
    """
    from trm.figures.lens import lens_figure

    shape = (len(lens.sites), canvas.shape[1])
    said = np.broadcast_to(truth[lens.row], shape).copy()
    log_probs = np.full(shape, np.nan, dtype=np.float32)
    said[:, lens.columns], log_probs[:, lens.columns] = lens.symbols, lens.of(truth)
    return lens_figure(canvas, truth[lens.row], lens.row, said, log_probs, lens.sites, title)


def print_lens(lens: Lens, truth: np.ndarray, row: int) -> None:
    """Say how much of a row is right after each layer.

    Args:
        lens: of the row.
        truth: ``uint8 [H, W]``, the canvas with the row as it should be.
        row: its number, from 1.
    """
    console = Console(highlight=False)
    console.print(
        f"row {row} if the head read every layer: cells that are right, mean log-probability of "
        "the true symbols",
        soft_wrap=True,
    )
    right = lens.symbols == truth[lens.row, lens.columns]
    widest = max(map(len, lens.sites))
    for site, good, log_probs in zip(lens.sites, right, lens.of(truth), strict=True):
        share = f"{good.sum()} of {len(good)}"
        console.print(f"  {site:<{widest}}  {share:>10}  {log_probs.mean() - 0.0:8.3f}")
