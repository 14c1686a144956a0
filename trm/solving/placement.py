"""Placement of problems on canvases: sizes, places, and why some problems do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from canvas.problems import MOST_CELLS, Problems

if TYPE_CHECKING:
    from trm.solving.solver import Solver


def size_for(solver: Solver, rows: int, columns: int) -> tuple[int, int]:
    """Return height and width of a canvas for solutions of that many rows and columns.

    In training the longest problem of a batch decides the size of a cut canvas, so canvases for
    short problems alone are rare. A model whose output depends on position therefore gets at least
    the size of the longest training problem.
    """
    if solver.canvas.cut and not solver.predictor.translation_invariant:
        longest_rows, longest_columns = solver.task.extent()
        rows, columns = max(rows, longest_rows), max(columns, longest_columns)
    return solver.canvas.size(rows, columns)


def place_solution(solver: Solver, rows: int, columns: int) -> tuple[int, int, int, int]:
    """Return height and width of a canvas for one solution, and its first row and column.

    Raises:
        ValueError: there is no such canvas, or the model cannot work on it.
    """
    height, width = size_for(solver, rows, columns)
    if rows > height or columns > width or not solver.predictor.accepts(height, width):
        raise ValueError(f"a solution of {rows} x {columns} cells does not fit")
    top, left = _centred((height, width), rows, columns)
    return height, width, top, left


def place_problems(solver: Solver, problems: Problems) -> tuple[int, int, np.ndarray, np.ndarray]:
    """Return height and width of a canvas for B problems, and the first row and column of each.

    Solutions are centred, so that their right ends are below each other.

    Returns:
        Height, width, and the places, int64 [B] each.

    Raises:
        ValueError: a problem does not fit, or is written in another base than the model's.
    """
    if problems.base != solver.task.base:
        raise ValueError(f"the model works in base {solver.task.base}, not {problems.base}")
    for why in filter(None, _excluded(solver, problems)):
        raise ValueError(why)
    rows, columns = solver.task.canvas_layout.sizes(problems)
    height, width = size_for(solver, int(rows.max()), int(columns.max()))
    for i, size in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        if misfit := _misfit(solver, problems[i : i + 1], size, (height, width)):
            raise ValueError(misfit)
    return height, width, *_centred((height, width), rows, columns)


def _centred(canvas: tuple[int, int], rows: Any, columns: Any) -> tuple[Any, Any]:
    """Return the first row and column of solutions in the middle; sizes are ints, or int64 [B]."""
    height, width = canvas
    return (height - rows) // 2, width - (width - columns) // 2 - columns


def misfits(solver: Solver, problems: Problems) -> list[str | None]:
    """Return the reason why each problem does not fit its own canvas, see `Solver.misfits`."""
    found = _excluded(solver, problems)
    known = np.array([i for i, why in enumerate(found) if why is None], dtype=np.int64)
    sizes = solver.task.canvas_layout.sizes(problems[known]).T.tolist()
    for i, size in zip(known.tolist(), sizes, strict=True):
        found[i] = _misfit(solver, problems[i : i + 1], size, size_for(solver, *size))
    return found


def _excluded(solver: Solver, problems: Problems) -> list[str | None]:
    """Return the reason why task, layout or model exclude each problem; else None."""
    found = solver.task.refused(problems)
    most, counts = solver.predictor.most_operands, problems.counts
    if most is None:
        return found
    return [
        why
        or (
            f"{solver.task.names(problems[i : i + 1])[0]} has {count} operands, and this "
            f"model works with at most {most}: take one that was trained on more"
            if count > most
            else None
        )
        for i, (why, count) in enumerate(zip(found, counts.tolist(), strict=True))
    ]


def _misfit(
    solver: Solver, problem: Problems, size: tuple[int, int], canvas: tuple[int, int]
) -> str | None:
    """Return the reason why a problem does not fit a canvas; None: it fits.

    Args:
        solver: with a model that accepts some sizes of canvases.
        problem: a single one.
        size: rows and columns of its solution.
        canvas: height and width.
    """
    (rows, columns), (height, width) = size, canvas
    accepted = solver.predictor.accepts(height, width)
    if not accepted and height * width > MOST_CELLS:
        return f"its canvas of {height} x {width} cells is more than {MOST_CELLS:,} cells"
    fits = rows <= height and columns <= width
    if fits and accepted:
        return None
    (name,) = solver.task.names(problem)
    if fits:
        return f"{name} needs a canvas of {height} x {width}, which the model cannot work on"
    larger = max(rows, height), max(columns, width)
    grow = "The model does not accept a larger one: train"
    if solver.predictor.accepts(*larger):
        grow = f"Re-run with --height {larger[0]} --width {larger[1]}, or train"
    return (
        f"{name} needs a canvas of at least {rows} x {columns} (height x width), and this one "
        f"has {height} x {width}. {grow} on a larger canvas."
    )
