"""Python interface of the package: load a model, solve, draw, measure, look inside.

    from trm import Solver, evaluate, load_solver, render, run_with_cache, solve

    solve("123x456")                                  # with the shipped model
    solve("123x45", Solver.from_pretrained("tiny-seed0"))  # a name, a folder, or one on the hub
    solver = load_solver("runs/quickstart")
    for solution in solve([(123, 45), "7x8"], solver):
        print(solution.answer, solution.confidence)
    logits, cache = run_with_cache(solver, "12x34", "blocks.*.attention")

`load_puzzle_solver` loads a model of puzzles, which solves arrays of them. All of these can also be
imported from `trm.api`, as can `record`, `run_with_hooks` and `sites`.
"""

from __future__ import annotations

import html
import io
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor, nn

from augment import symmetry
from canvas.check import check_once
from canvas.drawing import row_steps
from canvas.picture import to_figure, to_svg, to_text
from canvas.problems import Problems
from canvas.task import Task
from canvas.tasks import task_of
from trm.checkpoints import SHIPPED
from trm.checkpoints.content import save_model
from trm.checkpoints.loading import load_solver
from trm.checkpoints.puzzles import load_puzzle_solver
from trm.evaluation.grid import Grid
from trm.extras.analysis.record import Recorder, open_recorder
from trm.io.files import removing_empty_folders
from trm.models.hooks import Activations, Hook, Visit, record, sites
from trm.runtime.limits import check_whole
from trm.solving.families import family_of
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.voting import Voting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Evaluation",
    "Picture",
    "Solutions",
    "Solver",
    "evaluate",
    "load_puzzle_solver",
    "load_solver",
    "record",
    "render",
]
__all__ += ["run_with_cache", "run_with_hooks", "save_model", "sites", "solve"]

_SHOWN = 20  # solutions printed in full; further ones are counted

_LIKE = "give a text like '123x456' or a tuple of operands like (123, 456)"
Problem = str | tuple[int, ...]  # as text, like "123x456", or as operands, like (123, 456)
_Model = Solver | str | Path | None
_Inputs = Problem | Sequence[Problem] | Problems | np.ndarray | torch.Tensor


class Solutions(list[Solution]):
    """List of solutions in the order of their problems, readable when printed."""

    def __repr__(self) -> str:
        right = f"{sum(one.correct for one in self)} of {len(self)} answers correct"
        more = [f"… and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([*(one.verdict for one in self[:_SHOWN]), *more, right])

    def _repr_html_(self) -> str:
        shown = "".join(one._repr_html_() for one in self[:_SHOWN])
        return f"{shown}<p>{html.escape(repr(self).splitlines()[-1])}</p>"


@overload
def solve(  # type: ignore[overload-overlap]
    problems: Problem, solver: _Model = None, with_truth: bool = True
) -> Solution: ...
@overload
def solve(
    problems: Sequence[Problem] | Problems, solver: _Model = None, with_truth: bool = True
) -> Solutions: ...
def solve(
    problems: Problem | Sequence[Problem] | Problems, solver: _Model = None, with_truth: bool = True
) -> Solution | Solutions:
    """Solve problems, each row built on the model's own rows.

    The solution of a problem does not depend on the other problems. For more problems than fit into
    memory see `trm.batch.solve`.

    Example: ``solve("123x456").answer`` is 56088.

    Args:
        problems: one, as text or as a tuple of operands, or several of them.
        solver: see `load_solver`, or a checkpoint; None: the shipped model.
        with_truth: whether to draw the true solutions, to compare every cell (`Solution.exact`).
            For numbers of thousands of digits that takes longer than solving.

    Raises:
        ValueError: a problem does not belong to the model's task, or does not fit its canvas.
    """
    if not isinstance(solver, Solver):
        solver = load_solver(solver)
    solutions = Solutions(solver.solve(_problems(problems, solver.task), with_truth))
    return solutions[0] if _alone(problems) else solutions


def _alone(problems: Problem | Sequence[Problem] | Problems) -> bool:
    return isinstance(problems, str) or (
        isinstance(problems, tuple) and all(isinstance(n, Integral) for n in problems)
    )


def _problems(problems: Problem | Sequence[Problem] | Problems, task: Task) -> Problems:
    if isinstance(problems, Problems):
        return problems
    several: Any = [problems] if _alone(problems) else problems
    if not isinstance(several, Iterable) or isinstance(several, bytes | Mapping):
        raise ValueError(f"{problems!r} is not a problem: {_LIKE}, or a list of these")
    return task.problems([_operands(one, task) for one in several])


def _operands(problem: Problem, task: Task) -> tuple[int, ...]:
    if isinstance(problem, str):
        return task.parse(problem)
    try:
        return tuple(problem)
    except TypeError:  # of a number, or of an array without axes
        raise ValueError(f"{problem!r} is not a problem: {_LIKE}") from None


@torch.no_grad()
def run_with_cache(
    model: nn.Module | _Model,
    inputs: _Inputs,
    sites: str | Sequence[str] = "*",
    *,
    steps: int | None = None,
    hooks: Sequence[tuple[str, Hook]] = (),
    visits: Callable[[Visit], bool] | None = None,
) -> tuple[Tensor, Activations]:
    """Run a model without gradients, and record values at its sites.

    Problems are read as in solving, on true rows (teacher-forced): a recursive transformer reads
    each row step as a canvas of the batch, a GPT whole solved canvases, and a cell model canvases
    with all rows masked.

    Example: ``run_with_cache(solver, "123x45", "blocks.*.attention")[1]["blocks.0.attention"]`` has
    the weights of each visit, [visits, B, heads, S, S].

    Args:
        model: a network, a solver, or a checkpoint; None: the shipped model.
        inputs: problems as for `solve`, for a solver or a checkpoint; or canvases, symbol ids
            [B, H, W].
        sites: names or patterns, see `trm.sites`.
        steps: supervision steps. None: as many as the slowest row takes in solving; one for a
            network without a solver. A GPT runs all its loops.
        hooks: pairs of a name or pattern and a function that replaces values, see `trm.record`.
        visits: which visits are recorded; None: all.

    Returns:
        The logits, float [B, H, W, V], of each cell's symbol, and the recorded values.

    Raises:
        ValueError: there is no such site, or the inputs do not suit the model.
    """
    recorder = _recorder(model, inputs, steps)
    with record(
        recorder.model, sites, hooks=hooks, visits=visits, states=recorder.states_named
    ) as cache:
        logits = recorder.logits()
    return logits, cache


def run_with_hooks(
    model: nn.Module | _Model,
    inputs: _Inputs,
    hooks: Sequence[tuple[str, Hook]],
    *,
    steps: int | None = None,
) -> Tensor:
    """Run a model with values replaced by hooks; return its logits, see `run_with_cache`.

    Example: ``run_with_hooks(solver, "123x45", [("blocks.0.heads", lambda value, visit: 0 *
    value)])`` ablates all heads of a layer.
    """
    return run_with_cache(model, inputs, (), steps=steps, hooks=hooks)[0]


def _recorder(model: nn.Module | _Model, inputs: _Inputs, steps: int | None) -> Recorder:
    """Open a recorder of a model on problems or canvases."""
    if isinstance(inputs, Tensor):
        inputs = inputs.cpu().numpy()
    if isinstance(model, nn.Module):
        if not isinstance(inputs, np.ndarray):
            raise ValueError(
                "a network reads canvases, symbol ids [batch, height, width]; give a solver, which "
                "has a task, to read problems"
            )
        return open_recorder(model, inputs, steps)
    solver = model if isinstance(model, Solver) else load_solver(model)
    predictor = solver.predictor
    sequences = family_of(predictor.model).reads_sequences
    if not isinstance(inputs, np.ndarray):
        drawing = solver.draw_worked(_problems(inputs, solver.task))
        inputs = drawing.truth if sequences else row_steps(drawing).inputs
        if predictor.fills == "canvas":
            inputs = drawing.masked
    if steps is None and not sequences and inputs.ndim == 3:
        # Watched, a model of any family takes steps.
        steps = max(1, int(predictor.with_options(on_step=_ignored)(inputs).steps.max()))
    return open_recorder(predictor.model, inputs, steps)


def _ignored(*_: object) -> None:
    """Watch steps without looking."""


class Picture(NamedTuple):
    """A drawn canvas: text when printed, a picture in a notebook."""

    canvas: np.ndarray  # symbol ids, uint8 [H, W]
    given: np.ndarray  # cells given from the start, bool [H, W]

    def __repr__(self) -> str:
        return to_text(self.canvas)

    def _repr_html_(self) -> str:
        return to_svg(to_figure(self.canvas, given=self.given))

    def save(self, path: str | Path) -> None:
        """Write a PNG or SVG file, by its ending."""
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
    """Draw a problem's true solution, or the input of a model.

    Args:
        problem: as text, like ``321x654``, or as operands.
        layout: a name, or a class of your own, like ``mine.Totals``; None: the task's first.
        task: a name, or a class of your own; None: chosen by the text's sign, or multiplication for
            operands.
        base: of the digits, 2 to 16.
        step: from 1: draw the input of this row step, with earlier rows and the next one masked.
        view: symmetry of the picture, a name in `augment.symmetry.SYMMETRIES`.

    Raises:
        ValueError: there is no such task, layout, step or view, or the text is not a problem of
            the task.
    """
    check_whole("step", step, 1)
    chosen = task_of(problem if isinstance(problem, str) else "", task, layout, base)
    problems = chosen.problems([_operands(problem, chosen)])
    check_once(chosen)
    drawing = chosen.canvas_layout.draw_worked(problems, trim=True)
    canvases = drawing.truth
    if step is not None:
        canvases = row_steps(drawing).inputs
        if not 1 <= step <= len(canvases):
            raise ValueError(f"this problem has {len(canvases)} steps, there is no step {step}")
        canvases = canvases[step - 1 :]
    return Picture(symmetry.apply(view, canvases[0]), symmetry.apply(view, drawing.given[0]))


class Evaluation(Grid):
    """Figures of an evaluation: the data of ``grid.json``, see `trm.evaluation.grid`.

    A terminal prints the summary; a notebook also draws accuracy against length.
    """

    def figure(self, heat_map: bool = False) -> Figure:
        """Draw accuracy against length, or a heat map of all sizes; ``savefig`` writes it."""
        from trm.figures.grids import grid_figure, lengths_figure

        return (grid_figure if heat_map else lengths_figure)(self)

    def __repr__(self) -> str:
        from rich.console import Console

        from trm.evaluation.grid_report import print_summary

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
    """Measure the accuracy of models beyond the sizes of their training problems.

    Args:
        checkpoints: one or several; None: the shipped model.
        problems: number of held-out problems in each cell of the grid.
        seed: of the problems.
        steps: highest number of supervision steps for a row; None: that of each checkpoint.
        voting: number of views of a problem, and how they vote; None: one view.
        output: a folder for figures, table, pictures and report. It also stores finished cells, so
            that an interrupted call resumes. None: nothing is stored.
        accelerator: as in Lightning's trainer.
        progress: whether to print a progress bar.
        sizes: the rows and columns of the grid, two of `trm.evaluation.grid_format.AXES`, like
            ``digits_a=range(1, 5), digits_b=range(1, 5)``.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: checkpoints or sizes do not fit.
    """
    from trm.evaluation.measure import (  # imports PyTorch, which takes seconds
        EvaluationSettings,
        measure,
    )

    if not isinstance(checkpoints, Sequence) or isinstance(checkpoints, str):
        checkpoints = [SHIPPED if checkpoints is None else checkpoints]
    if not checkpoints:
        raise ValueError("there is no checkpoint in the list: name one, or leave it out")
    check_whole("problems", problems, 1)
    check_whole("seed", seed, 0)
    for axis, values in sizes.items():
        several = isinstance(values, Sequence) and not isinstance(values, str) and values
        if not several or any(not isinstance(one, Integral) or one < 1 for one in values):
            raise ValueError(f"{axis} is a list of sizes from 1 up, like [1, 2], not {values!r}")
    task = load_solver(checkpoints[0], device="cpu").task
    if not any(set(sizes) == set(axes) for axes in task.grids):
        known = " or ".join(" and ".join(axes) for axes in task.grids)
        raise ValueError(f"sizes of the task {task.name} are {known}")
    (first, rows), (second, columns) = sizes.items()
    settings = EvaluationSettings(
        (first, second), tuple(rows), tuple(columns), problems, seed, steps, voting=voting
    )
    with tempfile.TemporaryDirectory() as folder:
        grid = measure(checkpoints, settings, output or folder, accelerator, quiet=not progress)
    assert grid is not None, "there is one process, which returns the grid"
    if output:
        from trm.figures.grids import write_files

        write_files(grid, Path(output))
    return Evaluation(grid)
