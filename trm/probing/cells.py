"""The cells that are probed: what a model reads, and what is known of every cell.

An iterative model reads row steps, a canvas with one row masked. A GPT reads the whole true canvas
as a sequence; the token before a cell is the one that writes it, and stands for it here.
"""

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from canvas.hints import UNDEFINED, draw_subtasks
from canvas.layouts import Layout
from canvas.problems import Problems, keys, random_below, random_words
from canvas.render import WorkedDrawing, row_step, row_steps, to_sequences
from trm.models.gpt import GPT
from trm.probing.control import cell_types
from trm.solving.solver import Solver


@dataclass(frozen=True)
class Examples:
    """What a model reads, B times, and what is known of the cells.

    Attributes:
        inputs: ``uint8 [B, H, W]``, row steps; of a GPT the finished canvases.
        labels: ``uint8 [B, H, W]``, the right symbols.
        working: ``bool [B, H, W]``, cells of the row that is filled in; of a GPT, which writes them
            all in turn, cells of all such rows.
        hints: ``uint8 [B, H, W, hints]``, the sub-tasks in the layout's order, see `canvas.hints`;
            of a GPT undefined outside ``working``.
        problem: ``int64 [B]``, index of each example's problem.
        rows: ``int64 [B, H]``, rows of the canvas counted from the top of the working.
        columns: ``int64 [B, W]``, columns counted from the right end of the working.
        first: ``int64 [B]``, the first row of the working that has to be filled in.
        types: ``uint64 [B, H, W]``, see `trm.probing.control.cell_types`.
    """

    inputs: np.ndarray
    labels: np.ndarray
    working: np.ndarray
    hints: np.ndarray
    problem: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    first: np.ndarray
    types: np.ndarray

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: slice) -> Self:
        return replace(
            self, **{part.name: getattr(self, part.name)[index] for part in fields(self)}
        )


def examples(
    solver: Solver, problems: Problems, seed: int | None = None, first: int = 0
) -> Examples:
    """The examples of problems that the solver has room for.

    Args:
        solver: whose model will read them.
        problems: at least one.
        seed: for an iterative model one row of each problem, drawn with this; None: all rows.
        first: number of the first problem, from which its row is drawn.

    Raises:
        ValueError: a problem does not fit the canvas.
    """
    layout, drawing = solver.task.rules, solver.draw_worked(problems)
    if isinstance(solver.predictor.model, GPT):
        return _sequences(layout, problems, drawing)
    if seed is None:
        steps = row_steps(drawing)
    else:
        key = keys(seed, "train", 0, first + np.arange(len(problems)), purpose=2)
        steps = row_step(drawing, random_below(random_words(key, 1)[:, 0], drawing.steps))
    hints = draw_subtasks(layout, problems[steps.problem], drawing[steps.problem], steps.step)
    rows, columns = _places(drawing[steps.problem])
    return Examples(
        steps.inputs,
        steps.labels,
        steps.answer,
        np.stack([*hints.values()], axis=-1),
        steps.problem,
        rows,
        columns,
        drawing.first_step[steps.problem],
        cell_types(steps.inputs, rows[:, :, None], columns[:, None, :]),
    )


def _sequences(layout: Layout, problems: Problems, drawing: WorkedDrawing) -> Examples:
    """Finished canvases; a cell's type has the symbol that the token before it shows."""
    B, H, W = drawing.truth.shape
    hints = draw_subtasks(layout, problems, drawing)
    rows, columns = _places(drawing)
    working = ~drawing.given & (rows >= drawing.first_step[:, None])[:, :, None]
    working &= (rows < drawing.heights[:, None])[:, :, None]
    classes = np.stack([*hints.values()], axis=-1)
    classes[~working] = UNDEFINED  # of the operands nothing can be known before they are read
    before = to_sequences(drawing.truth)[:, token_of_cell(H, W)].reshape(B, H, W)
    return Examples(
        drawing.truth,
        drawing.truth,
        working,
        classes,
        np.arange(B),
        rows,
        columns,
        drawing.first_step,
        cell_types(before, rows[:, :, None], columns[:, None, :]),
    )


def token_of_cell(height: int, width: int) -> np.ndarray:
    """The token of a sequence that writes each cell, ``int64 [H · W]``: rows are reversed."""
    row, column = np.divmod(np.arange(height * width), width)
    return row * (width + 1) + width - 1 - column


def _places(drawing: WorkedDrawing) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``[B, H]`` from the top of each working, and columns ``[B, W]`` from its right end."""
    H, W = drawing.truth.shape[1:]
    rows = np.arange(H) - drawing.top[:, None]
    columns = (drawing.left + drawing.widths)[:, None] - 1 - np.arange(W)
    return rows, columns
