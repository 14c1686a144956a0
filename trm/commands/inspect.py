"""`trm inspect`: show a model at work on one problem, step by step, or export its weights.

--export writes the weights as a safetensors file, which describes its model and which every command
accepts as a checkpoint; as an HTML page, which shows the model at work; or as ONNX.
"""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from canvas import symbols
from canvas.drawing import WorkedDrawing
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

    from trm.extras.analysis.inspection import Watched

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

    from trm.extras.analysis import inspection
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
        patching = None
        if args.patch is not None:
            patching = inspection.patched(solver, args.problem, args.patch, row)
        report("solving", 0, 1)
        watched = inspection.watch(solver, args.problem, drawing, row, cell)
        if args.cell and by_row:
            check_token(solver.predictor.model, watched.canvas, cell)
        make_folder(Path(args.output))
        draw = dict(inspection.PICTURES)
        if args.lens:
            draw["lens"] = inspection.lens_picture
        if args.saliency:
            draw["saliency"] = inspection.saliency_picture
        if patching is not None:
            draw["patch"] = partial(inspection.patch_picture, other=args.patch, patching=patching)
        figures = {}
        for done, (name, figure_of) in enumerate(draw.items()):
            report("drawing pictures", done, len(draw))
            if (figure := figure_of(watched)) is not None:
                figures[name] = figure
        _save(Path(args.output), watched, figures)
    _show(args, watched, figures)
    return 0


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
