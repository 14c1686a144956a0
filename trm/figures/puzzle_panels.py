"""Panels of puzzles: the puzzle, its solution and a model's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from canvas.picture import FILLED, FILLED_INK, GIVEN, INK, PAPER, WRONG, blank_figure, draw_cells
from trm.figures.style import panels
from trm.io.puzzle_format import PuzzleFormat

_CELL = 22  # pixels of a cell
_LEAST = 110  # pixels of a canvas, which a heading needs
_MOST = 700
_TITLE, _HEADING, _GAP = 24, 22, 14  # pixels


def puzzle_panels(
    format: PuzzleFormat,
    puzzle: np.ndarray,
    solution: np.ndarray,
    found: np.ndarray,
    counted: np.ndarray,
    title: str = "",
) -> Figure:
    """Draw a puzzle, its solution and a model's, uint8 [H, W] each, side by side.

    Cells that differ from the puzzle are blue, incorrect ones orange, with the right sign on a tag.

    Args:
        format: of the puzzles.
        puzzle: uint8 [H, W].
        solution: of the same shape.
        found: the prediction, of the same shape.
        counted: cells that are compared, bool [H, W].
        title: above all.
    """
    wrong = (found != solution) & counted
    shown = {"puzzle": puzzle, "solution": solution, "prediction": found}
    figure = _figure(format, puzzle.shape, len(shown), 1, _TITLE)
    width, height = figure.get_size_inches() * figure.dpi
    figure.text(_GAP / width, 1 - 12 / height, title, fontsize=10, va="center", color=INK)
    every = panels(figure, len(shown), len(shown))
    for axes, (heading, canvas) in zip(every, shown.items(), strict=True):
        marked: dict[str, Any] = {}
        if heading == "prediction":
            marked = {"wrong": wrong, "right": _signs(format)[solution]}
        fills, inks = _shades(format, canvas, puzzle)
        if marked:
            fills[wrong] = WRONG
        draw_cells(axes, _signs(format)[canvas], fills, inks, **marked)
        axes.set_title(heading, fontsize=10, color=INK, pad=2)
    _fill(figure, _TITLE)
    return figure


def puzzles_figure(
    format: PuzzleFormat,
    canvases: np.ndarray,
    titles: Sequence[str] = (),
    puzzle: np.ndarray | None = None,
) -> Figure:
    """Draw puzzles, at most four in a line.

    Args:
        format: of the puzzles.
        canvases: uint8 [N, H, W].
        titles: of the puzzles, or none.
        puzzle: uint8 [H, W]; cells that differ from it are blue. None: no cells are.
    """
    across = min(4, len(canvases))
    lines = -(-len(canvases) // across)
    figure = _figure(format, canvases.shape[1:], across, lines, 0)
    for i, axes in enumerate(panels(figure, len(canvases), across)):
        fills, inks = _shades(format, canvases[i], canvases[i] if puzzle is None else puzzle)
        draw_cells(axes, _signs(format)[canvases[i]], fills, inks)
        axes.set_title(titles[i] if i < len(titles) else "", fontsize=9, color=INK, pad=2)
    _fill(figure, 0)
    return figure


def _shades(
    format: PuzzleFormat, canvas: np.ndarray, puzzle: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return background and text colours of cells, str [H, W]: blue where they were filled in."""
    fills = np.where(canvas == puzzle, GIVEN, FILLED)
    fills[~format.inside(puzzle)] = PAPER
    return fills, np.where(canvas == puzzle, INK, FILLED_INK)


def _signs(format: PuzzleFormat) -> np.ndarray:
    """Return the sign of each id in pictures, str [V]."""
    names = format.characters or [str(i) for i in range(format.vocab_size)]
    return np.array(["" if i == format.pad else name for i, name in enumerate(names)], dtype=object)


def _figure(
    format: PuzzleFormat, size: tuple[int, ...], across: int, lines: int, above: int
) -> Figure:
    height, width = (min(_MOST, max(_LEAST, _CELL * (cells + 1))) for cells in size)
    return blank_figure(across * (width + _GAP) + _GAP, lines * (height + _HEADING + _GAP) + above)


def _fill(figure: Figure, above: int) -> None:
    width, height = figure.get_size_inches() * figure.dpi
    sides = _GAP / width, _GAP / height, 1 - _GAP / width, 1 - (above + _HEADING) / height
    figure.subplots_adjust(*sides, 0.08, 0.2)
