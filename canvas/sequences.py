"""Canvases as sequences, which GPTs read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from canvas import symbols

if TYPE_CHECKING:
    from canvas.drawing import Drawing, WorkedDrawing

IGNORE = -100  # a label that losses ignore


def sequences(drawing: WorkedDrawing) -> tuple[np.ndarray, np.ndarray]:
    """Return canvases as sequences for a GPT: ids and labels, int64 [B, H · (W + 1) + 1] each.

    Every row is reversed, so that low digits come first, and ends with ``#``. A start and an end
    symbol enclose the sequence. Labels are the next ids, or `IGNORE` where `tokens_to_write` is
    False.

    Example: the rows ``_47`` and ``282`` become start, ``74_#282#``, end. The end is in the labels
    alone.
    """
    ids = to_sequences(drawing.truth)
    following = np.concatenate([ids[:, 1:], np.full((len(ids), 1), symbols.END)], axis=1)
    return ids, np.where(tokens_to_write(drawing)[:, 1:], following, IGNORE)


def tokens_to_write(drawing: Drawing) -> np.ndarray:
    """Return the tokens of a sequence that a model writes, bool [B, H · (W + 1) + 2].

    These are all after the operands' last row, the end included, except given digits in the margin
    of a lattice.
    """
    B, height, width = drawing.given.shape
    given = np.zeros((B, height, width + 1), dtype=bool)
    given[:, :, :width] = drawing.given[:, :, ::-1]
    free = np.ones((B, 2 + height * (width + 1)), dtype=bool)
    free[:, 1:-1] = ~given.reshape(B, -1)
    first = drawing.canvas_row(0) * (width + 1)
    free[np.arange(free.shape[1]) <= first[:, None]] = False
    return free


def to_sequences(canvases: np.ndarray) -> np.ndarray:
    """Return canvases, uint8 [B, H, W], as ids, int64 [B, H · (W + 1) + 1], without an end."""
    B, height, width = canvases.shape
    ids = np.full((B, 1 + height * (width + 1)), symbols.ROW_END, dtype=np.int64)
    ids[:, 0] = symbols.START
    ids[:, 1:].reshape(B, height, width + 1)[:, :, :width] = canvases[:, :, ::-1]
    return ids


def at_writers(cells: np.ndarray, fill: int) -> np.ndarray:
    """Return values of cells at the tokens that write them, those before the cells' own tokens.

    Args:
        cells: [B, H, W, ...].
        fill: value at tokens that write a row end or the end.

    Returns:
        [B, H · (W + 1) + 1, ...], in the order of `sequences`.

    Example: the rows ``12`` and ``34`` with fill 0 become ``21 0 43 0 0``.
    """
    B, height, width, *more = cells.shape
    values = np.full((B, 1 + height * (width + 1), *more), fill, dtype=cells.dtype)
    values[:, :-1].reshape(B, height, width + 1, *more)[:, :, :width] = cells[:, :, ::-1]
    return values


def from_sequences(ids: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return canvases, uint8 [B, H, W], from sequences.

    Cells that are missing, or after an end symbol, are blank.
    """
    cells = np.full((len(ids), height * (width + 1)), symbols.BLANK, dtype=np.uint8)
    body = ids[:, 1 : 1 + cells.shape[1]]
    ended = (body == symbols.END).cumsum(axis=1) > 0
    cells[:, : body.shape[1]] = np.where(ended, symbols.BLANK, body)
    return cells.reshape(len(ids), height, width + 1)[:, :, :width][:, :, ::-1]
