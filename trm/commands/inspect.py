"""`trm inspect`: what a model does on one problem, step by step."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from canvas import symbols
from canvas.hints import draw_hints
from canvas.render import RowSteps, WorkedDrawing
from trm.checkpoints import find_checkpoint
from trm.commands.arguments import (
    add_canvas_size,
    add_solver,
    check_problems,
    info_console,
    one_device,
    read_problems,
    whole,
)
from trm.commands.lens import draw_lens, print_lens
from trm.commands.patch import add_patch, patch_row, print_patching
from trm.files import make_folder, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from canvas.problems import Problems
    from canvas.task import Task
    from trm.solving.solver import Moment

EXAMPLES = """\
examples:
  trm inspect 123x456 --output inspected
  trm inspect --checkpoint runs/quickstart 987x65 --row 2 --cell 4,3 --output inspected
  trm inspect 2539x839 --row 2 --lens --output inspected
  trm inspect 2539x839 --row 2 --patch 2539x849 --patch-by heads --output inspected
  tensorboard --logdir inspected

Into the folder go solving.gif, the canvas over rows and supervision steps and the product, read
off; rows.png, each row with the model's confidence along the way; of a recursive model
attention.png, what one cell looks at with each head, and states.png, how far its states still move;
and of a model that was trained with hints hints.png, what it believes of each of them while it
fills in one row, cell by cell. A model that works in the order of writing is shown after each cell;
it has no supervision steps, and no states.png. With --lens, lens.png shows what the model would
write in the row after each of its layers, and with --patch, patch.png what of another problem's
activations changes its answer. TensorBoard shows the same.
"""

_SPARE = 4  # supervision steps that are looked at beyond those that were taken
_BOARD = ".trm-inspect"  # what the names of TensorBoard's files of ours end in
_PICTURES = (
    "rows",
    "states",
    "attention",
    "hints",
    "lens",
    "patch",
)  # by name, all that there may be


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument("problem", help="like 123x456")
    add_solver(parser)
    add_canvas_size(parser, "as in training, or the problem's where training cut it")
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the pictures")
    parser.add_argument(
        "--row",
        type=whole(1),
        metavar="N",
        help="of the rows to fill in, the one whose attention, hints and layers are shown, "
        "from 1 (default: the last)",
    )
    parser.add_argument(
        "--cell",
        type=_cell,
        metavar="ROW,COLUMN",
        help="of the canvas, from 1,1 at the top left, whose attention is shown (default: one in "
        "the middle of the row)",
    )
    parser.add_argument(
        "--lens",
        action="store_true",
        help="also show what the model would write in the row if its head read every layer",
    )
    add_patch(parser)


def run(args: argparse.Namespace) -> int:
    """Solve, watch, draw."""
    check_problems([args.problem, *filter(None, [args.patch])])
    find_checkpoint(args.checkpoint)

    import torch
    from torch.utils.tensorboard.writer import SummaryWriter

    from canvas.picture import pixels, save_gif
    from trm.checkpoints.loading import load_solver
    from trm.figures.animation import animate
    from trm.figures.hint_maps import hints_figure
    from trm.figures.patching import patching_figure
    from trm.figures.row_panels import sample_panels
    from trm.models.introspection import introspect
    from trm.probing.lens import read_layers, some_steps, steps_to_read
    from trm.solving.iterative_predictor import IterativePredictor
    from trm.solving.solver import solve_watched

    device = one_device(args)
    solver = load_solver(args.checkpoint, args.steps, args.height, args.width, device)
    problems = read_problems([args.problem], solver.task)
    drawing = solver.draw_worked(problems)
    number = int(drawing.steps[0])
    if args.row is not None and args.row > number:
        raise ValueError(f"--row {args.row}: {args.problem} has {number} rows to fill in")
    row = (args.row or number) - 1
    cell = _chosen(args.cell, drawing, row)
    patching = patch_row(args, solver, drawing, row)
    output = Path(args.output)
    make_folder(output)

    moments: list[Moment] = []
    solution = solve_watched(solver, problems, moments.append)
    steps, used = _row_steps(drawing, moments), np.array(solution.row_steps)
    predictor = solver.predictor
    iterative = isinstance(predictor, IterativePredictor)
    stepwise = iterative and not predictor.in_order
    seen = predictor.trace(steps.inputs, int(used.max()) + _SPARE if stepwise else None)
    name = solver.task.names(problems)[0].replace("x", "×")
    titles = [f"{name}   row {k + 1} of {number}" for k in range(number)]
    given = np.repeat(drawing.given, number, axis=0)
    figures = {"rows": sample_panels(steps, given, seen, titles)}
    if isinstance(predictor, IterativePredictor):
        tokens = torch.from_numpy(steps.inputs).to(predictor.device)
        if stepwise:
            states = introspect(predictor.model, tokens, int(used.max()) + _SPARE)
            figures["states"] = _states(states.changes, name)
        # Steps in which all that a model works out in order has come to every cell.
        enough = int(used[row]) if stepwise else predictor.max_steps
        attention = introspect(predictor.model, tokens[row : row + 1], enough).attention
        if attention:  # none in a mixer
            figures["attention"] = _attention(attention, steps.inputs[row], cell, name)
    at_steps = np.array(some_steps(int(used[row]))) if stepwise else np.ones(1, dtype=np.int64)
    believed = predictor.hints(np.repeat(steps.inputs[row : row + 1], len(at_steps), 0), at_steps)
    truth = _true_hints(solver.task, problems, drawing, row, list(believed))
    if believed:
        figures["hints"] = hints_figure(
            steps.inputs[row],
            int(drawing.row_of_step(row)[0]),
            truth,
            believed,
            [f"step {step}" for step in at_steps] if stepwise else ["as it writes"],
            f"{titles[row]}: what the model believes of each hint",
        )
    if args.lens:
        read_at = steps_to_read(predictor, int(used[row])) if stepwise else [1]
        lens = read_layers(predictor, steps.inputs[row], read_at)
        title = f"{titles[row]}: what the head would write after each layer"
        figures["lens"] = draw_lens(lens, steps.inputs[row], steps.labels[row], title)
    if patching is not None:
        other = solver.task.names(read_problems([args.patch], solver.task))[0]
        names = (name, other.replace("x", "×"))
        title = f"{titles[row]}: what activations of B change in A, by {patching.by}"
        figures["patch"] = patching_figure(patching, names, title)
    film = list(animate(solution, moments))
    with replacing(output / "solving.gif") as part:
        save_gif(part, film)
    written = ["solving.gif"]
    if events := list(output.glob(f"events.out.tfevents.*{_BOARD}")):  # of a run before this one
        pictures = [output / f"{title}.png" for title in _PICTURES if title not in figures]
        for file in (*events, *pictures):
            file.unlink(missing_ok=True)
    with SummaryWriter(str(output), filename_suffix=_BOARD) as board:
        for title, figure in figures.items():
            with replacing(output / f"{title}.png") as part:
                figure.savefig(part, format="png")
            written.append(f"{title}.png")
            board.add_image(f"inspect/{title}", pixels(figure), dataformats="HWC")
        for step, (frame, _) in enumerate(film):
            board.add_image("inspect/solving", pixels(frame), step, dataformats="HWC")
    if stepwise:
        said = f"supervision steps, row by row: {', '.join(map(str, used))}"
    elif iterative:
        said = "this model works out each cell once, in the order of writing"
    else:
        shown = "rows and hints" if believed else "rows alone"
        said = f"a GPT has neither states nor supervision steps: its {shown} are shown"
    _tell(args, output, written, said)
    if believed:
        _tell_hints(believed, truth, row + 1)
    if args.lens:
        print_lens(lens, steps.labels[row], row + 1)
    if patching is not None:
        print_patching(patching, steps.inputs.shape[2], names, row + 1)
    return 0


def _tell(args: argparse.Namespace, output: Path, written: list[str], said: str) -> None:
    Console(highlight=False).print(said)
    for name in written:
        info_console(args).print(f"{output / name}")
    info_console(args).print(f"browse  tensorboard --logdir {output}")


def _tell_hints(believed: dict[str, np.ndarray], truth: dict[str, np.ndarray], row: int) -> None:
    """Say of each hint how many cells are right in the end, and which is the first wrong one."""
    from trm.figures.hint_maps import class_sign
    from trm.solving.iteration import right_cells

    console = Console(highlight=False)
    console.print(f"hints while row {row} is filled in, cells that are right in the end:")
    widest = max(map(len, believed))
    for name, right in truth.items():
        last = believed[name][-1]
        good, counted = right_cells(last, right)
        line = f"  {name:<{widest}}  {good.sum()} of {counted.sum()}"
        # As people work: row below row, each from the right.
        wrong = np.argwhere((counted & ~good)[:, ::-1])
        if len(wrong):
            i, j = int(wrong[0][0]), right.shape[1] - 1 - int(wrong[0][1])
            held, due = (class_sign(name, int(of[i, j])) or "none" for of in (last, right))
            line += f"; the first wrong one is cell {i + 1},{j + 1}: {held}, it is {due}"
        console.print(line)


def _true_hints(
    task: Task, problems: Problems, drawing: WorkedDrawing, row: int, names: list[str]
) -> dict[str, np.ndarray]:
    """By name ``uint8 [H, W]``, while a row is filled in."""
    at = np.full(len(drawing), row)
    drawn = draw_hints(task.rules, problems, drawing, at, names)
    return {name: classes[0] for name, classes in drawn.items()}


def _row_steps(drawing: WorkedDrawing, moments: list[Moment]) -> RowSteps:
    """Every row as the model met it, built on its own rows."""
    inputs = np.stack([moment.canvas for moment in moments if moment.masked])
    number = len(inputs)
    answer = np.stack([drawing.answer_cells(step)[0] for step in range(number)])
    labels = np.where(answer, drawing.truth, inputs)
    return RowSteps(inputs, labels, answer, np.zeros(number, np.int64), np.arange(number))


def _states(changes: dict[str, Tensor], name: str) -> Figure:
    """How far the states of each row still move, see `trm.models.introspection`."""
    from trm.figures.introspection import changes_figure

    moved = {state: values.numpy() for state, values in changes.items()}
    rows = [f"row {k + 1}" for k in range(next(iter(moved.values())).shape[-1])]
    return changes_figure(moved, rows, f"{name}: do the states settle?")


def _attention(
    attention: dict[str, Tensor], canvas: np.ndarray, cell: tuple[int, int], name: str
) -> Figure:
    """What a cell of one row's canvas looks at, see `trm.models.introspection`."""
    import torch

    from trm.figures.introspection import attention_figure

    height, width = canvas.shape
    query = cell[0] * width + cell[1]
    maps = torch.cat(list(attention.values()))[:, 0, :, query]
    names = [
        f"{state}, layer {k + 1}" for state, layers in attention.items() for k in range(len(layers))
    ]
    title = (
        f"{name}: what the framed cell looks at\n(canvas row {cell[0] + 1}, column {cell[1] + 1}, "
        f"in the last update of {' and of '.join(attention)})"
    )
    return attention_figure(canvas, cell, maps.unflatten(-1, (height, width)).numpy(), names, title)


def _chosen(cell: tuple[int, int] | None, drawing: WorkedDrawing, row: int) -> tuple[int, int]:
    """The cell whose attention is shown, counted from 0."""
    height, width = drawing.canvases.shape[1:]
    if cell is None:
        answer = drawing.answer_cells(row)[0] & (drawing.truth[0] != symbols.BLANK)
        cells = np.argwhere(answer)
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
        raise argparse.ArgumentTypeError(f"{text!r} is no cell; write row and column, like 4,3")
    return int(found[1]), int(found[2])
