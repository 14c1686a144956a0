"""The package from Python: load a model, solve, draw, measure.

from trm import evaluate, load_solver, render, solve

solve("123x456")                                  # with the shipped model
solver = load_solver("runs/quickstart")
for solution in solve([(123, 45), "7x8"], solver):
    print(solution.answer, solution.confidence)
"""

from __future__ import annotations

import html
import io
import tempfile
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from augment import symmetry
from canvas.check import check_layout
from canvas.picture import to_figure, to_svg, to_text
from canvas.problems import Problems
from canvas.render import row_steps
from canvas.task import Task
from canvas.tasks import task_of
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.evaluation.grid import Grid
from trm.files import removing_empty_folders
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.voting_settings import Voting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 20  # solutions, of more it is said how many there are

Problem = str | tuple[int, ...]  # as it is typed, like "123x456", or its operands
_Model = Solver | str | Path | None


class Solutions(list[Solution]):
    """Solutions in the order of their problems, which show themselves where they are printed."""

    def __repr__(self) -> str:
        right = f"{sum(one.correct for one in self)} of {len(self)} answers right"
        more = [f"… and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([*(one.verdict for one in self[:_SHOWN]), *more, right])

    def _repr_html_(self) -> str:
        shown = "".join(one._repr_html_() for one in self[:_SHOWN])
        return f"{shown}<p>{html.escape(repr(self).splitlines()[-1])}</p>"


@overload
def solve(problems: Problem, solver: _Model = None) -> Solution: ...  # type: ignore[overload-overlap]
@overload
def solve(problems: Sequence[Problem] | Problems, solver: _Model = None) -> Solutions: ...
def solve(
    problems: Problem | Sequence[Problem] | Problems, solver: _Model = None
) -> Solution | Solutions:
    """Work problems out, each row built on the model's own rows.

    What a problem gets does not depend on the others. For more problems than fit into memory see
    `trm.batch.solve`.

    Args:
        problems: one, as text or as a tuple of operands, or several of them. ValueError: it is none
            of the model's task, or does not fit its canvas.
        solver: see `load_solver`, or a checkpoint; None: the shipped model.
    """
    if not isinstance(solver, Solver):
        solver = load_solver(solver)
    alone = isinstance(problems, str) or (
        isinstance(problems, tuple) and all(isinstance(n, Integral) for n in problems)
    )
    several: Any = [problems] if alone else problems
    if not isinstance(several, Problems):
        several = solver.task.problems([_operands(one, solver.task) for one in several])
    solutions = Solutions(solver.solve(several, with_truth=True))
    return solutions[0] if alone else solutions


def _operands(problem: Problem, task: Task) -> tuple[int, ...]:
    if isinstance(problem, str):
        return task.parse(problem)
    if not isinstance(problem, Iterable):
        raise ValueError(
            f"{problem!r} is no problem: give a text like '123x456' or a tuple of operands"
        )
    return tuple(problem)


class Picture(NamedTuple):
    """A canvas to look at: text where it is printed, a picture in a notebook.

    ``canvas`` is ``uint8 [H, W]`` ids, ``given`` ``bool [H, W]``: cells shown from the start.
    """

    canvas: np.ndarray
    given: np.ndarray

    def __repr__(self) -> str:
        return to_text(self.canvas)

    def _repr_html_(self) -> str:
        return to_svg(to_figure(self.canvas, given=self.given))

    def save(self, path: str | Path) -> None:
        """Write as PNG or SVG, by the file's ending."""
        to_figure(self.canvas, given=self.given).savefig(path)


def render(
    problem: Problem,
    layout: str | None = None,
    *,
    task: str | None = None,
    base: int = 10,
    step: int | None = None,
    view: str = "e",
) -> Picture:
    """Draw a problem as a worked solution, or as a model sees it.

    Args:
        problem: as text, like ``321x654``, or as operands.
        layout, task: names, or classes of your own, like ``mine.Totals``; None: the task's first
            layout, and the task by the text's sign, multiplication of operands.
        base: of the digits, 2 to 16.
        step: from 1, draws the input of this step: the rows so far, the next one masked.
        view: the symmetry in which it is shown, a name in `augment.symmetry.SYMMETRIES`.

    ValueError: there is no such task, layout, step or view, or the text is no problem of it.
    """
    asked = task_of(problem if isinstance(problem, str) else "", task, layout, base)
    problems = asked.problems([_operands(problem, asked)])
    check_layout(asked)
    drawing = asked.layout_impl.draw_worked(problems, trim=True)
    canvases = drawing.truth
    if step is not None:
        canvases = row_steps(drawing).inputs
        if not 1 <= step <= len(canvases):
            raise ValueError(f"this problem has {len(canvases)} steps, there is no step {step}")
        canvases = canvases[step - 1 :]
    return Picture(symmetry.apply(view, canvases[0]), symmetry.apply(view, drawing.given[0]))


class Evaluation(Grid):
    """The figures of an evaluation: the data of ``grid.json``, see `trm.evaluation.grid`.

    A terminal shows the summary, a notebook accuracy against length as well.
    """

    def figure(self, heat_map: bool = False) -> Figure:
        """Accuracy against length, or the heat map of all sizes; ``savefig`` writes it."""
        from trm.figures.grids import grid_figure, lengths_figure

        return (grid_figure if heat_map else lengths_figure)(self)

    def __repr__(self) -> str:
        from rich.console import Console

        from trm.evaluation.report import print_summary

        with (console := Console(width=100, file=io.StringIO())).capture() as capture:
            print_summary(console, self)
        return capture.get().rstrip()

    def _repr_html_(self) -> str:
        return f"{to_svg(self.figure())}<pre>{html.escape(repr(self))}</pre>"


@removing_empty_folders()
def evaluate(
    checkpoints: str | Path | Sequence[str | Path] | None = None,
    *,
    problems: int = 128,
    seed: int = 0,
    steps: int | None = None,
    voting: Voting | None = None,
    output: str | Path | None = None,
    accelerator: str = "auto",
    progress: bool = True,
    **sizes: Sequence[int],
) -> Evaluation:
    """Measure how far models get beyond the sizes of problems that they were trained on.

    Args:
        checkpoints: one or several; None: the shipped model.
        problems, seed: how many of each cell, held out, and which.
        steps, voting: supervision steps a row gets at most, None: as each checkpoint says; how many
            views of a problem are asked, None: one.
        output: a folder for figures, table, pictures and report, which keeps finished cells, so
            that a call that was stopped goes on; None: nothing is kept.
        accelerator, progress: as Lightning's trainer takes it; with a progress bar.
        sizes: the rows and columns of the grid, two of `trm.evaluation.grid.AXES`, like
            ``digits_a=range(1, 5), digits_b=range(1, 5)``.

    FileNotFoundError: there is no such checkpoint. ValueError: checkpoints or sizes do not suit.
    """
    from trm.evaluation.measure import Settings, measure  # brings Lightning, which takes seconds

    if checkpoints is None or isinstance(checkpoints, str | Path):
        checkpoints = [checkpoints or SHIPPED]
    for axis, values in sizes.items():
        if not isinstance(values, Sequence) or not values or min(values) < 1:
            raise ValueError(f"{axis} is a list of sizes from 1 up, like [1, 2], not {values!r}")
    task = load_solver(checkpoints[0], device="cpu").task
    if not any(set(sizes) == set(axes) for axes in task.grids):
        known = " or ".join(" and ".join(axes) for axes in task.grids)
        raise ValueError(f"sizes of the task {task.name} are {known}")
    (first, rows), (second, columns) = sizes.items()
    settings = Settings(
        (first, second), tuple(rows), tuple(columns), problems, seed, steps, voting=voting
    )
    with tempfile.TemporaryDirectory() as folder:
        grid = measure(checkpoints, settings, output or folder, accelerator, quiet=not progress)
    assert grid is not None, "a single process is the first"
    if output:
        from trm.figures.grids import write_files

        write_files(grid, Path(output))
    return Evaluation(grid)
