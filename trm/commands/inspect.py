"""`trm inspect`: show a model at work on one problem, step by step, or export its weights.

--export writes the weights as a safetensors file, which describes its model and which every command
accepts as a checkpoint; as an HTML page, which shows the model at work; or as ONNX.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from canvas import symbols
from canvas.drawing import RowSteps, WorkedDrawing, row_steps
from trm.checkpoints import SUFFIX
from trm.commands import puzzles
from trm.commands.arguments import Arguments, check_problems
from trm.commands.export import DTYPES, ONNX, PAGE, export
from trm.commands.output import print_table, results
from trm.commands.parser import Parser, whole
from trm.io.files import make_folder, replacing
from trm.runtime.progress import progress, report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trm.extras.analysis.patch import Patching
    from trm.solving.solution import Solution
    from trm.solving.solver import Solver
    from trm.solving.watching import Moment

EXAMPLES = f"""\
examples:
  trm inspect 123x456 --output inspected
  trm inspect --checkpoint C 987x65 --row 2 --cell 3,3 --output inspected
  trm inspect --checkpoint C 987x65 --row 2 --saliency --output inspected
  trm inspect --checkpoint C 2539x839 --row 2 --lens --patch 2539x849 --output inspected
  trm inspect --checkpoint runs/quickstart --export quickstart{SUFFIX} --figures grid
  trm inspect --checkpoint C --export C.int8{SUFFIX} --dtype int8
  trm inspect --export multiply.html --beside C docs/models/column-seed0{SUFFIX}

The folder gets solving.gif and pictures of the rows, of the step in which each cell settled, of
attention and of signals, where the model has these. --lens, --patch and --saliency add theirs.
Of a puzzle, a character for each cell, it gets solving.gif and steps.png (docs/arrays.md).
"""
_SPARE = 4  # supervision steps that are shown beyond those that were taken
_EXPLAINED = 3  # supervision steps with maps of saliency
_FILM = "solving.gif"
_OF_EXPORT = ("dtype", "figures", "beside", "untrained")
_OF_PICTURES = ("output", "row", "cell", "lens", "saliency", "patch", "steps", "height", "width")
_PICTURES = ("rows", "settled", "attention", "signals", "lens", "patch", "saliency")


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("problem", nargs="?", help="like 123x456; or the text of a puzzle")
    parser.add_solver()
    add("--output", metavar="DIR", help="folder for the pictures")
    what = "show attention, signals and layers of the N-th row to fill in, from 1 "
    add("--row", type=whole(1), metavar="N", help=f"{what}(default: the last)")
    what = "show the attention of this cell of the canvas; 1,1 is at the top left (default: in the "
    what += "middle of the row); --saliency explains it"
    add("--cell", type=_cell, metavar="ROW,COLUMN", help=what)
    what = "also show the symbols of the row that the output head would write from every layer"
    add("--lens", action="store_true", help=what)
    what = "also show how much each cell counts for the symbol of one cell: input x gradient, and "
    add("--saliency", action="store_true", help=f"{what}integrated gradients")
    what = "put activations of another problem, with numbers of the same lengths, into the run, "
    add("--patch", metavar="B", help=f"{what}one cell after the other")
    add = parser.add_argument_group("export of the weights, without a problem").add_argument
    what = f"weights; FILE{PAGE}: a web page; FILE{ONNX}: ONNX. Other files are not overwritten"
    add("--export", metavar=f"FILE{SUFFIX}", help=what)
    what = "dtype of the weights in the file (default: the checkpoint's; float32 for bfloat16); "
    what += "int8, int4: a cell model that computes in integers"
    add("--dtype", choices=DTYPES, help=what)
    what = "folders of trm evaluate, whose results go into the model card"
    add("--figures", metavar="DIR", nargs="+", help=what)
    what = "more models for the web page, to choose from and to compare with the first"
    add("--beside", metavar="PATH", nargs="+", default=[], help=what)
    what = "re-initialised weights, as before training: a baseline of the architecture alone"
    add("--untrained", action="store_true", help=what)


def run(args: Arguments) -> int:
    """Solve a problem and draw pictures of it, or export the weights."""
    if args.export is not None:
        if args.problem is not None:
            raise ValueError("--export writes only the weights: leave out the problem")
        args.refuse("--export writes only the weights", *_OF_PICTURES)
        return export(args)
    args.refuse("without --export no weights are written", *_OF_EXPORT)
    if puzzles.of_puzzles(args):
        return puzzles.inspect(args)
    if args.problem is None or args.output is None:
        raise ValueError("give a problem, like 123x456, and --output DIR for its pictures")
    check_problems([args.problem, *filter(None, [args.patch])], args.checkpoint)

    from trm.extras.analysis.record import check_cells, check_token
    from trm.extras.analysis.saliency import check_embeddings

    (solver,) = args.solvers(args.one_device(), args.steps)
    drawing = solver.draw_worked(solver.task.parsed([args.problem]))
    number = int(drawing.num_rows[0])
    if args.row is not None and args.row > number:
        rows = "1 row" if number == 1 else f"{number} rows"
        raise ValueError(
            f"--row {args.row}: {args.problem} has {rows} to fill in; rows are counted from 1"
        )
    row = (args.row or number) - 1
    cell = _chosen(args.cell, drawing, row)
    if args.lens or args.patch or args.cell:
        check_cells(solver.predictor.model)
    if args.saliency:
        check_embeddings(solver.predictor.model)
    by_row = solver.predictor.fills == "row"
    if not by_row and not args.saliency:
        args.refuse("attention is shown only for recursive models", "cell")
    if args.saliency and not drawing.cells_of_row(row)[0][cell]:
        raise ValueError(
            f"--saliency explains a cell that row {row + 1} fills in: --cell names another one"
        )
    with progress(args.quiet):
        patching = None if args.patch is None else _patched(args, solver, row)
        report("solving", 0, 1)
        watched = _watch(args, solver, drawing, row, cell)
        if args.cell and by_row:
            check_token(solver.predictor.model, watched.canvas, cell)
        make_folder(Path(args.output))
        draw: dict[str, Callable[[Watched], Figure | None]] = {
            "rows": _rows,
            "settled": _settled,
            "attention": _attention,
            "signals": _signals,
        }
        if args.lens:
            draw["lens"] = _lens
        if args.saliency:
            draw["saliency"] = _saliency
        if patching is not None:
            draw["patch"] = partial(_patch, args.patch, patching)
        figures = {}
        for done, (name, figure_of) in enumerate(draw.items()):
            report("drawing pictures", done, len(draw))
            if (figure := figure_of(watched)) is not None:
                figures[name] = figure
        _save(Path(args.output), watched, figures)
    _show(args, watched, figures)
    return 0


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


def _watch(
    args: Arguments, solver: Solver, drawing: WorkedDrawing, row: int, cell: tuple[int, int]
) -> Watched:
    """Solve the problem and record every moment."""
    from trm.solving.watching import solve_watched

    problems, number = solver.task.parsed([args.problem]), int(drawing.num_rows[0])
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


def _rows(watched: Watched) -> Figure:
    """Draw every row: input, label, prediction, and confidence over steps."""
    from trm.figures.row_panels import sample_panels

    predictor, steps = watched.solver.predictor, watched.steps
    most = int(watched.used.max()) + _SPARE if predictor.fills == "row" else None
    given = np.repeat(watched.drawing.given, len(steps.inputs), axis=0)
    traced = predictor.trace(steps.inputs, steps.labels, most)
    return sample_panels(steps, given, traced, watched.titles)


def _settled(watched: Watched) -> Figure | None:
    """Draw when each cell settled; None: the model writes each cell at once."""
    from trm.extras.analysis.inspection_figures import settled_figure
    from trm.extras.analysis.settled import last_changes
    from trm.solving.gpt_predictor import GPTPredictor

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


def _attention(watched: Watched) -> Figure | None:
    """Draw the attention of one cell; None: the model has none between cells."""
    from trm.extras.analysis.inspection_figures import attention_figure
    from trm.extras.analysis.record import cell_attention

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


def _signals(watched: Watched) -> Figure | None:
    """Draw the signals that cells pass; None: they pass none."""
    from canvas.cells.drawn import draw_signals
    from trm.cells.predictor import CellPredictor, right_cells
    from trm.extras.analysis.inspection_figures import signals_figure

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


def _lens(watched: Watched) -> Figure:
    """Draw the symbols that the output head would write from each layer."""
    from trm.extras.analysis.inspection_figures import lens_figure
    from trm.extras.analysis.lens import read_layers, some_steps

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


def _saliency(watched: Watched) -> Figure:
    """Draw how much each cell counts for the symbol of one cell."""
    from canvas.picture import for_people
    from trm.extras.analysis.inspection_figures import saliency_figure
    from trm.extras.analysis.lens import some_steps
    from trm.extras.analysis.saliency import explain

    steps, cell = some_steps(max(1, int(watched.used[watched.row])))[-_EXPLAINED:], watched.cell
    found = explain(watched.solver.predictor, watched.canvas, cell, steps)
    symbol = for_people(found.symbol).strip() or "blank"
    place = f"canvas row {cell[0] + 1}, column {cell[1] + 1}"

    rows = [
        (name, *(f"{value:.2f}" for value in (score, blank, score - blank, np.nansum(of))))
        for name, score, blank, of in zip(
            found.names, found.scores, found.baselines, found.integrated, strict=True
        )
    ]
    columns = ("", "score", "without symbols", "difference", "sum of integrated gradients")
    watched.tables.append((columns, rows, f"{symbol} in {place}: logit less the mean logit"))
    return saliency_figure(found, f"{watched.name}: saliency for {symbol} in {place}")


def _patch(problem: str, patching: Patching, watched: Watched) -> Figure:
    """Draw the effects of another problem's activations."""
    from trm.extras.analysis.inspection_figures import patching_figure

    task, row = watched.solver.task, watched.row
    second = task.names(task.parsed([problem]))[0]
    both = watched.name, second.replace("x", "×")

    one, other = patching.differences
    cells = int(patching.scored.sum())
    differ = "cells differ" if cells > 1 else "cell differs"
    watched.sentences.append(
        f"row {row + 1} of {both[0]} with activations of {both[1]}: logit difference {one:.1f} and "
        f"{other:.1f} in their own runs ({cells} {differ})"
    )
    watched.sentences += [
        f"  the model gets row {row + 1} of {whose} wrong: read effects with care"
        for whose, right in zip(both, patching.right, strict=True)
        if not right
    ]
    title = f"{watched.titles[row]}: effect on A of activations from B"
    return patching_figure(patching, both, title)


def _save(output: Path, watched: Watched, figures: dict[str, Figure]) -> None:
    """Write film and pictures, replacing those of an earlier problem."""
    from canvas.picture import save_gif
    from trm.figures.animation import animate
    from trm.figures.style import save

    if (output / _FILM).exists():
        for title in _PICTURES:
            (output / f"{title}.png").unlink(missing_ok=True)
    report("writing pictures", 0, 1 + len(figures))
    with replacing(output / _FILM) as part:
        save_gif(part, animate(watched.solution, watched.moments))
    for done, (title, figure) in enumerate(figures.items()):
        report("writing pictures", 1 + done, 1 + len(figures))
        save(figure, output / f"{title}.png")


def _show(args: Arguments, watched: Watched, figures: dict[str, Figure]) -> None:
    """Print the tables and the names of the files."""
    output, predictor = Path(args.output), watched.solver.predictor
    if predictor.fills != "symbol":
        results().print(watched.solution.steps_text())
    elif loops := predictor.max_steps:
        steps = watched.solution.row_steps
        counts = f", most of each row: {', '.join(map(str, steps))}" if any(steps) else f": {loops}"
        results().print(f"loops of a symbol{counts}")
    else:
        results().print("a GPT has neither states nor supervision steps: only its rows are shown")
    for file_name in (_FILM, *(f"{title}.png" for title in figures)):
        args.info.print(f"{output / file_name}")
    for table in watched.tables:
        print_table(*table)
    for sentence in watched.sentences:
        results().print(sentence)


def _chosen(cell: tuple[int, int] | None, drawing: WorkedDrawing, row: int) -> tuple[int, int]:
    """Return the cell whose attention is shown, counted from 0."""
    height, width = drawing.canvases.shape[1:]
    if cell is None:
        cells = np.argwhere(drawing.cells_of_row(row)[0] & (drawing.truth[0] != symbols.BLANK))
        return tuple(map(int, cells[len(cells) // 2]))  # type: ignore[return-value]
    if cell[0] > height or cell[1] > width:
        raise ValueError(
            f"--cell {cell[0]},{cell[1]} is not on the canvas of {height} x {width} cells "
            "(height x width)"
        )
    return cell[0] - 1, cell[1] - 1


def _cell(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*),([1-9]\d*)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a cell; write row and column, like 4,3")
    return int(found[1]), int(found[2])


def _patched(args: Arguments, solver: Solver, row: int) -> Patching:
    """Return the effects of another problem's activations on a row, counted from 0.

    Raises:
        ValueError: the other problem does not lie in the same cells.
    """
    from trm.extras.analysis.lens import some_steps
    from trm.extras.analysis.pairs import alike
    from trm.extras.analysis.patch import patch

    pair = solver.draw_worked(solver.task.parsed([args.problem, args.patch]))
    if not alike(pair):
        raise ValueError(
            f"--patch {args.patch}: it has to lie in the same cells as {args.problem}. Give one "
            "whose numbers have as many digits, in the same order"
        )
    steps = row_steps(pair, np.full(2, row))
    used = max(1, int(solver.predictor(steps.inputs).steps.max()))
    return patch(solver.predictor, steps.inputs, steps.labels, some_steps(used))
