"""One problem, watched while a model solves it: pictures, and tables beside them.

`watch` solves the problem and records every moment. Each function ``..._picture`` returns a picture
of it, or None where the model has nothing of the kind. Some also add a table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure

from canvas import symbols
from canvas.cells.drawn import draw_signals, right_cells
from canvas.drawing import RowSteps, WorkedDrawing, row_steps
from canvas.picture import for_people
from trm.cells.predictor import CellPredictor
from trm.extras.analysis.inspection_figures import (
    attention_figure,
    lens_figure,
    patching_figure,
    saliency_figure,
    settled_figure,
    signals_figure,
)
from trm.extras.analysis.lens import read_layers, some_steps
from trm.extras.analysis.pairs import alike
from trm.extras.analysis.patch import Patching, patch
from trm.extras.analysis.record import cell_attention
from trm.extras.analysis.saliency import POINTS, explain
from trm.extras.analysis.settled import last_changes
from trm.figures.row_panels import sample_panels
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.watching import Moment, solve_watched

_SPARE = 4  # supervision steps that are shown beyond those that were taken
_EXPLAINED = 3  # supervision steps with maps of saliency


@dataclass
class Watched:
    """A problem that was solved, with the canvas before and after each row."""

    solver: Solver
    drawing: WorkedDrawing
    row: int  # the inspected one, from 0
    cell: tuple[int, int]  # whose attention or saliency is shown, from 0
    solution: Solution
    moments: list[Moment]
    steps: RowSteps  # inputs and labels of each row, built on the rows that the model wrote
    name: str
    # Printed after the pictures: columns, rows and title of tables, and then sentences.
    tables: list[tuple[Sequence[str], Sequence[Sequence[str]], str]] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)

    @property
    def used(self) -> np.ndarray:
        """Supervision steps of each row, int64 [rows]."""
        return np.array(self.solution.row_steps)

    @property
    def canvas(self) -> np.ndarray:
        """The canvas before the row, uint8 [H, W]."""
        return self.steps.inputs[self.row]

    @property
    def titles(self) -> list[str]:
        """A title for each row."""
        number = len(self.steps.inputs)
        return [f"{self.name}   row {k + 1} of {number}" for k in range(number)]


def watch(
    solver: Solver, problem: str, drawing: WorkedDrawing, row: int, cell: tuple[int, int]
) -> Watched:
    """Solve a problem and record every moment.

    Args:
        solver: of the model.
        problem: its text.
        drawing: the problem with its solution.
        row: the inspected one of the rows to fill in, from 0.
        cell: whose attention or saliency is shown, from 0.
    """
    problems, number = solver.task.parsed([problem]), int(drawing.num_rows[0])
    moments: list[Moment] = []
    solution = solve_watched(solver, problems, moments.append)
    answer = np.stack([drawing.cells_of_row(row)[0] for row in range(number)])
    if getattr(solver.predictor.model.config, "codes", None):
        met = drawing.masked.repeat(number, axis=0)  # in training all rows were masked
    elif solver.predictor.fills == "canvas" and solver.voting is None:
        met = _above(solution, drawing, answer)
    else:
        met = np.stack([moment.canvas for moment in moments if moment.masked])
    labels = np.where(answer, drawing.truth, met)
    steps = RowSteps(met, labels, answer, np.zeros(number, np.int64), np.arange(number))
    name = solver.task.names(problems)[0].replace("x", "×")
    return Watched(solver, drawing, row, cell, solution, moments, steps, name)


def _above(solution: Solution, drawing: WorkedDrawing, answer: np.ndarray) -> np.ndarray:
    """Return the canvas before each row, uint8 [rows, H, W]: masked there, and blank below."""
    rows = np.arange(drawing.canvases.shape[1])[:, None]
    above = [rows < int(drawing.canvas_row(row)[0]) for row in range(len(answer))]
    met = np.where(drawing.given | np.stack(above), solution.canvas, drawing.canvases)
    return np.where(answer, np.uint8(symbols.MASK), met)


def rows_picture(watched: Watched) -> Figure:
    """Draw every row: input, label, prediction, and confidence over steps."""
    predictor, steps = watched.solver.predictor, watched.steps
    most = int(watched.used.max()) + _SPARE if predictor.fills == "row" else None
    given = np.repeat(watched.drawing.given, len(steps.inputs), axis=0)
    traced = predictor.trace(steps.inputs, steps.labels, most)
    return sample_panels(steps, given, traced, watched.titles)


def settled_picture(watched: Watched) -> Figure | None:
    """Draw when each cell settled; None: the model writes each cell at once."""
    predictor, drawing = watched.solver.predictor, watched.drawing
    if predictor.fills != "symbol":
        settled = last_changes(watched.moments)
        unit = "supervision step in which the\nsymbol of a cell last changed"
    elif isinstance(predictor, GPTPredictor) and predictor.max_steps:
        settled = predictor.last_changes(drawing)[0]
        unit = "loop in which a cell\nlast changed"
    else:
        return None
    title, truth = f"{watched.name}: when its cells settled", drawing.truth[0]
    return settled_figure(watched.solution.canvas, truth, settled, title, unit)


def attention_picture(watched: Watched) -> Figure | None:
    """Draw the attention of one cell; None: the model has none between cells."""
    predictor, canvas, cell = watched.solver.predictor, watched.canvas, watched.cell
    if predictor.fills != "row":
        return None
    step = int(watched.used[watched.row])
    attention = cell_attention(predictor.model, canvas[None], step)
    if not attention:
        return None
    title = (
        f"{watched.name}: what the framed cell attends to\n(canvas row {cell[0] + 1}, column "
        f"{cell[1] + 1}, in the last update of {' and of '.join(attention)})"
    )
    heads = {state: of[:, 0].numpy() for state, of in attention.items()}
    return attention_figure(canvas, cell, heads, title)


def signals_picture(watched: Watched) -> Figure | None:
    """Draw the signals that cells pass; None: they pass none."""
    solver, row = watched.solver, watched.row
    if not isinstance(solver.predictor, CellPredictor):
        return None
    if not (decided := solver.predictor.signals(watched.canvas[None])):
        return None
    rule = solver.task.local_rule(latent=bool(solver.predictor.model.config.codes))
    drawn = draw_signals(rule, watched.drawing, np.array([row]))
    signals = {name: (classes[0], drawn[name][0]) for name, classes in decided.items()}

    counts = [(name, *right_cells(*both)) for name, both in signals.items()]
    rows = [(name, f"{good.sum()} of {counted.sum()}") for name, good, counted in counts]
    about = f"decisions of cells while row {row + 1} is filled in"
    watched.tables.append((("", "correct"), rows, about))
    place = int(watched.drawing.canvas_row(row)[0])
    title = f"{watched.titles[row]}: decisions of the cells"
    return signals_figure(watched.canvas, place, signals, title)


def lens_picture(watched: Watched) -> Figure:
    """Draw the symbols that the output head would write from each layer."""
    canvas, truth = watched.canvas, watched.steps.labels[watched.row]
    steps = some_steps(max(1, int(watched.used[watched.row])))
    lens = read_layers(watched.solver.predictor, canvas, steps)

    right = lens.symbols == truth[lens.row, lens.columns]
    lines = [
        (site, f"{good.sum()} of {len(good)}", f"{mean:.3f}")
        for site, good, mean in zip(lens.sites, right, lens.of(truth).mean(axis=1), strict=True)
    ]
    columns = ("", "correct", "mean log-probability of the true symbols")
    about = f"row {watched.row + 1}: the output head applied to each layer"
    watched.tables.append((columns, lines, about))
    title = f"{watched.titles[watched.row]}: the output head applied to each layer"
    return lens_figure(lens, canvas, truth, title)


def saliency_picture(watched: Watched) -> Figure:
    """Draw how much each cell counts for the symbol of one cell."""
    steps, cell = some_steps(max(1, int(watched.used[watched.row])))[-_EXPLAINED:], watched.cell
    found = explain(watched.solver.predictor, watched.canvas, cell, steps)
    symbol = for_people(found.symbol).strip() or "blank"
    place = f"canvas row {cell[0] + 1}, column {cell[1] + 1}"

    rows = [
        (name, *(f"{value:.2f}" for value in (score, blank, score - blank, total)))
        for name, score, blank, total in zip(
            found.names, found.scores, found.baselines, found.sums, strict=True
        )
    ]
    columns = ("", "score", "without symbols", "difference", "sum of integrated gradients")
    watched.tables.append((columns, rows, f"{symbol} in {place}: logit less the mean logit"))
    if found.inexact:
        watched.sentences.append(
            f"integrated gradients do not add up to the difference ({', '.join(found.inexact)}): "
            f"{POINTS} points on the way are too few there, so do not rely on that map"
        )
    return saliency_figure(found, f"{watched.name}: saliency for {symbol} in {place}")


def patch_picture(watched: Watched, other: str, patching: Patching) -> Figure:
    """Draw the effects of another problem's activations, see `patched`."""
    task, row = watched.solver.task, watched.row
    second = task.names(task.parsed([other]))[0]
    both = watched.name, second.replace("x", "×")

    mine, theirs = patching.differences
    cells = int(patching.scored.sum())
    differ = "cells differ" if cells > 1 else "cell differs"
    watched.sentences.append(
        f"row {row + 1} of {both[0]} with activations of {both[1]}: logit difference {mine:.1f} "
        f"and {theirs:.1f} in their own runs ({cells} {differ})"
    )
    watched.sentences += [
        f"  the model gets row {row + 1} of {whose} wrong: read effects with care"
        for whose, right in zip(both, patching.right, strict=True)
        if not right
    ]
    title = f"{watched.titles[row]}: effect on A of activations from B"
    return patching_figure(patching, both, title)


def patched(solver: Solver, problem: str, other: str, row: int) -> Patching:
    """Return the effects of another problem's activations on a row of a problem, counted from 0.

    Raises:
        ValueError: the other problem does not lie in the same cells.
    """
    pair = solver.draw_worked(solver.task.parsed([problem, other]))
    if not alike(pair):
        raise ValueError(
            f"--patch {other}: it has to lie in the same cells as {problem}. Give one "
            "whose numbers have as many digits, in the same order"
        )
    steps = row_steps(pair, np.full(2, row))
    used = max(1, int(solver.predictor(steps.inputs).steps.max()))
    return patch(solver.predictor, steps.inputs, steps.labels, some_steps(used))


# Pictures of every model, by the names of their files.
PICTURES: dict[str, Callable[[Watched], Figure | None]] = {
    "rows": rows_picture,
    "settled": settled_picture,
    "attention": attention_picture,
    "signals": signals_picture,
}
