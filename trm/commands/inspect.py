"""`trm inspect`: what a model does on one problem, step by step; or its weights as a file.

With --export, the weights go into a safetensors file that says what it holds, and which every
command takes in place of a checkpoint; into an HTML page that shows them at work; or into ONNX.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canvas import symbols
from canvas.drawing import RowSteps, WorkedDrawing, row_steps
from trm.checkpoints import COST_KEY, SUFFIX, find_checkpoint
from trm.commands.arguments import Arguments, Parser, check_problems, print_table, results, whole
from trm.files import fingerprint, make_folder, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trm.analysis.patch import Patching
    from trm.page.page import Shown
    from trm.solving.solver import Moment, Solver

EXAMPLES = f"""\
examples:
  trm inspect 123x456 --output inspected
  trm inspect --checkpoint C 987x65 --row 2 --cell 3,3 --output inspected
  trm inspect --checkpoint C 2539x839 --row 2 --lens --patch 2539x849 --output inspected
  trm inspect --checkpoint runs/quickstart --export quickstart{SUFFIX} --figures grid
  trm inspect --export multiply.html --beside C docs/models/column-seed0{SUFFIX}

Into the folder go solving.gif and pictures of rows, of when cells settled, of attention and fields,
as far as the model has them, and with --lens and --patch of these.
"""
# Of a proof, what a model card repeats.
_CARD_PROOF: tuple[str, ...] = ("verdict", "arithmetic", "weights_sha256", "digest", "windows")
_CARD_PROOF += ("windows_sha256", "smallest_margin", "margin_left_by_rounding")
# Of each cell's figures, those that a model card repeats.
_CARD_FIGURES = ("row", "column", "region", "solutions", "answers", "rows_teacher_forced")
_PAGE, _ONNX = ".html", ".onnx"  # in place of `SUFFIX`
_DTYPES = ("float32", "bfloat16")
_SPARE = 4  # supervision steps that are shown beyond those that were taken
_FILM = "solving.gif"
_PICTURES = ("rows", "settled", "attention", "signals", "lens", "patch")  # all that there may be


def add_arguments(parser: Parser) -> None:
    """The command's arguments."""
    add = parser.add_argument
    add("problem", nargs="?", help="like 123x456")
    parser.add_solver()
    add("--output", metavar="DIR", help="folder for the pictures")
    what = "of the rows to fill in, the one whose attention, fields and layers are shown, from 1 "
    add("--row", type=whole(1), metavar="N", help=f"{what}(default: the last)")
    what = "of the canvas, from 1,1 at the top left, whose attention is shown (default: one in the "
    add("--cell", type=_cell, metavar="ROW,COLUMN", help=f"{what}middle of the row)")
    what = "also show what the model would write in the row if its head read every layer"
    add("--lens", action="store_true", help=what)
    what = "another problem with numbers as long: its activations are put into the run on the "
    add("--patch", metavar="B", help=f"{what}first, one cell after the other")
    add = parser.add_argument_group("the weights as a file, without a problem").add_argument
    what = f"weights, which replace no others; FILE{_PAGE}: a page for browsers; FILE{_ONNX}: ONNX"
    add("--export", metavar=f"FILE{SUFFIX}", help=what)
    what = "of the weights in the file (default: the checkpoint's own; of bfloat16, float32)"
    add("--dtype", choices=_DTYPES, help=what)
    what = "folders of trm evaluate, whose results go into the model card"
    add("--figures", metavar="DIR", nargs="+", help=what)
    what = "of a page: further models to choose from, and to see beside the first"
    add("--beside", metavar="PATH", nargs="+", default=[], help=what)
    what = "weights drawn anew, as before training: for what the architecture alone can do"
    add("--untrained", action="store_true", help=what)


def run(args: Arguments) -> int:
    """Solve, watch, draw; or export."""
    if args.export is not None:
        if args.problem is not None:
            raise ValueError("--export writes the weights alone: leave out the problem")
        return _export(args)
    if args.problem is None or args.output is None:
        raise ValueError("name a problem, like 123x456, and --output DIR for its pictures")
    check_problems([args.problem, *filter(None, [args.patch])], args.checkpoint)

    from canvas.cells.pages import draw_signals
    from canvas.picture import save_gif
    from trm.analysis.lens import read_layers, some_steps
    from trm.analysis.record import cell_attention, check_cells, check_token
    from trm.analysis.settled import last_changes
    from trm.figures import inspection as pictures
    from trm.figures.animation import animate
    from trm.figures.row_panels import sample_panels
    from trm.figures.style import save
    from trm.models.wavefront import wavefront
    from trm.solving.cell_predictor import right_cells
    from trm.solving.solver import solve_watched

    (solver,) = args.solvers(args.one_device(), args.steps)
    problems = solver.task.parsed([args.problem])
    drawing, predictor = solver.draw_worked(problems), solver.predictor
    number = int(drawing.steps[0])
    if args.row is not None and args.row > number:
        raise ValueError(f"--row {args.row}: {args.problem} has {number} rows to fill in")
    row = (args.row or number) - 1
    cell = _chosen(args.cell, drawing, row)
    if args.lens or args.patch or args.cell:
        check_cells(predictor.model)
    stepwise = predictor.stepwise
    if not stepwise:
        args.refuse("attention is shown of recursive models alone", cell=None)
    patching = None if args.patch is None else _patched(args, solver, row)
    output = Path(args.output)

    moments: list[Moment] = []
    solution = solve_watched(solver, problems, moments.append)
    # Every row as the model met it, built on its own rows.
    met = np.stack([moment.canvas for moment in moments if moment.masked])
    if getattr(predictor.model.config, "codes", None):  # in training it saw all of them masked
        met = drawing.masked.repeat(number, axis=0)
    answer = np.stack([drawing.answer_cells(step)[0] for step in range(number)])
    labels = np.where(answer, drawing.truth, met)
    steps = RowSteps(met, labels, answer, np.zeros(number, np.int64), np.arange(number))
    used = np.array(solution.row_steps)
    canvas, truth = steps.inputs[row], steps.labels[row]
    if args.cell:
        check_token(predictor.model, canvas, cell)
    make_folder(output)
    most = int(used.max()) + _SPARE if stepwise else None
    decided, unit = None, "supervision step in which\na cell last changed"
    if stepwise:
        decided = last_changes(moments)
    elif predictor.cell_by_cell:
        fronts = wavefront(predictor.model, predictor.tokens(drawing.masked))[0].cpu().numpy()
        decided, unit = fronts * drawing.unknown[0], "step of the wavefront\nthat decides a cell"
    name = solver.task.names(problems)[0].replace("x", "×")
    titles = [f"{name}   row {k + 1} of {number}" for k in range(number)]
    given = np.repeat(drawing.given, number, axis=0)
    traced = predictor.trace(steps.inputs, steps.labels, most)
    figures: dict[str, Figure] = {"rows": sample_panels(steps, given, traced, titles)}
    if decided is not None:
        shown = solution.canvas, drawing.truth[0], decided
        title = f"{name}: when its cells were decided"
        figures["settled"] = pictures.settled_figure(*shown, title, unit)
    attention: dict[str, Any] = {}
    if stepwise:
        attention = cell_attention(predictor.model, canvas[None], int(used[row]))
    if attention:
        title = (
            f"{name}: what the framed cell attends to\n(canvas row {cell[0] + 1}, column "
            f"{cell[1] + 1}, in the last update of {' and of '.join(attention)})"
        )
        heads = {state: of[:, 0].numpy() for state, of in attention.items()}
        figures["attention"] = pictures.attention_figure(canvas, cell, heads, title)
    signals = None
    if predictor.cell_by_cell:
        rule = solver.task.local_rule(latent=bool(predictor.model.config.codes))
        drawn = draw_signals(rule, drawing, np.array([row]))
        signals = {
            name: (classes[0], drawn[name][0])
            for name, classes in predictor.signals(canvas[None]).items()
        }
        place, title = int(drawing.row_of_step(row)[0]), "what the cells decide"
        figures["signals"] = pictures.signals_figure(
            canvas, place, signals, f"{titles[row]}: {title}"
        )
    if args.lens:
        lens = read_layers(predictor, canvas, some_steps(max(1, int(used[row]))))
        title = f"{titles[row]}: what the head would write after each layer"
        figures["lens"] = pictures.lens_figure(lens, canvas, truth, title)
    if patching is not None:
        second = solver.task.names(solver.task.parsed([args.patch]))[0]
        both = name, second.replace("x", "×")
        title = f"{titles[row]}: what activations of B change in A"
        figures["patch"] = pictures.patching_figure(patching, both, title)
    if (output / _FILM).exists():  # and pictures of a problem before this one
        for title in _PICTURES:
            (output / f"{title}.png").unlink(missing_ok=True)
    with replacing(output / _FILM) as part:
        save_gif(part, animate(solution, moments))
    for title, figure in figures.items():
        save(figure, output / f"{title}.png")
    console, info = results(), args.info
    if stepwise:
        console.print(f"supervision steps, row by row: {', '.join(map(str, used))}")
    elif predictor.cell_by_cell:
        console.print("this model works out each cell once, in the order of writing")
    else:
        console.print("a GPT has neither states nor supervision steps: its rows alone are shown")
    for file_name in (_FILM, *(f"{title}.png" for title in figures)):
        info.print(f"{output / file_name}")
    if signals:
        counts = [(name, *right_cells(*both)) for name, both in signals.items()]
        rows = [(name, f"{good.sum()} of {counted.sum()}") for name, good, counted in counts]
        print_table(("", "right"), rows, f"what cells decide while row {row + 1} is filled in")
    if args.lens:
        right = lens.symbols == truth[lens.row, lens.columns]
        lines = [
            (site, f"{good.sum()} of {len(good)}", f"{mean:.3f}")
            for site, good, mean in zip(lens.sites, right, lens.of(truth).mean(axis=1), strict=True)
        ]
        columns = ("", "right", "mean log-probability of the true symbols")
        print_table(columns, lines, f"row {row + 1} if the head read every layer")
    if patching is not None:
        one, other = patching.differences
        cells = int(patching.scored.sum())
        differ = "cells differ" if cells > 1 else "cell differs"
        console.print(
            f"row {row + 1} of {both[0]} with activations of {both[1]}: logit difference {one:.1f} "
            f"and {other:.1f} in their own runs ({cells} {differ})"
        )
        for whose, right in zip(both, patching.right, strict=True):
            if not right:
                console.print(
                    f"  the model is wrong in row {row + 1} of {whose}: read effects with care"
                )
    return 0


def _chosen(cell: tuple[int, int] | None, drawing: WorkedDrawing, row: int) -> tuple[int, int]:
    """The cell whose attention is shown, counted from 0."""
    height, width = drawing.canvases.shape[1:]
    if cell is None:
        cells = np.argwhere(drawing.answer_cells(row)[0] & (drawing.truth[0] != symbols.BLANK))
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


def _patched(args: Arguments, solver: Solver, row: int) -> Patching:
    """The effects of another problem's activations on a row, from 0; ValueError: it has none."""
    from trm.analysis.lens import some_steps
    from trm.analysis.pairs import alike
    from trm.analysis.patch import patch

    pair = solver.draw_worked(solver.task.parsed([args.problem, args.patch]))
    if not alike(pair):
        raise ValueError(
            f"--patch {args.patch}: it has to lie in the same cells as {args.problem}. Take one "
            "whose numbers have as many digits, in the same order"
        )
    steps = row_steps(pair, np.full(2, row))
    used = max(1, int(solver.predictor(steps.inputs).steps.max()))
    return patch(solver.predictor, steps.inputs, steps.labels, some_steps(used))


def _export(args: Arguments) -> int:
    """Read, check, write, report."""
    checkpoint, output = find_checkpoint(args.checkpoint), Path(args.export)
    if output.suffix not in (SUFFIX, _PAGE, _ONNX):
        raise ValueError(f"--export {output} has to end in {SUFFIX}, {_PAGE} or {_ONNX}")
    if not output.parent.is_dir():
        raise ValueError(f"--export {output}: there is no folder {output.parent}")
    if args.untrained:
        args.refuse("--untrained draws weights of which there are no figures", figures=None)
    if output.suffix != _PAGE:
        args.refuse(f"a page ({_PAGE}) alone has models beside each other", beside=[])
    if output.suffix != SUFFIX:
        args.refuse(f"--dtype is of a file of weights ({SUFFIX})", dtype=None)
    checkpoints = [args.checkpoint, *args.beside]
    args.find_checkpoints(*checkpoints)

    import torch

    from trm.checkpoints.loading import load_checkpoint, pack, reinitialised
    from trm.evaluation.models import labels
    from trm.page.page import page
    from trm.sharing import to_onnx

    first, *others = map(_shown, labels(checkpoints), checkpoints)
    solver, content = first.solver, load_checkpoint(checkpoint)
    model = solver.predictor.model
    if args.untrained:
        model = reinitialised(model)
        first = first._replace(weights=model.state_dict(), card={})
        content |= {"global_step": 0, "epoch": 0, COST_KEY: None}
    dtype = getattr(torch, args.dtype) if args.dtype else None
    if dtype and any((w.to(dtype).to(w.dtype) != w).any() for w in first.weights.values()):
        args.refuse(
            f"figures are of weights that are not rounded to {args.dtype}; evaluate the exported "
            "file, and export it again with them",
            figures=None,
        )
        first = first._replace(card={})  # proof and figures are of the weights before rounding
    for folder in args.figures or ():
        first = first._replace(card={**first.card, **_card(checkpoint, folder)})
    if output.suffix == _PAGE:
        packed = page([first, *others]).encode()
    elif output.suffix == _ONNX:
        packed = to_onnx(model, *solver.canvas.size(*solver.task.extent()))
    else:
        packed = pack(content, first.card, first.weights, dtype)
    if output.exists() and (not output.is_file() or output.read_bytes() != packed):
        raise ValueError(
            f"--export {output} is there already, and holds something else: choose another name, "
            "or move it away"
        )
    with replacing(output) as part:
        part.write_bytes(packed)
    held = [first, *others] if output.suffix == _PAGE else [first]
    sizes = [f"{one.solver.predictor.model.num_parameters:,} parameters" for one in held]
    if others:  # which are told apart
        sizes = [f"{one.name} {size}" for one, size in zip(held, sizes, strict=True)]
    args.info.print(f"{output}: {', '.join(sizes)}; {len(packed):,} bytes")
    return 0


def _shown(name: str, checkpoint: str | Path) -> Shown:
    """A checkpoint's solver, weights and card, in which its noted proof stands."""
    from trm.checkpoints.loading import load_checkpoint, load_solver, network_weights
    from trm.checkpoints.proofs import noted_proof
    from trm.page.page import Shown

    solver = load_solver(checkpoint, device="cpu")  # complains about what does not fit
    content = load_checkpoint(checkpoint)
    card = dict(content.get("card") or {})
    card.pop("proof", None)  # it is taken over only if it is of this model
    if proof := noted_proof(checkpoint, content, solver.predictor.model, solver.task):
        card["proof"] = {name: proof.get(name) for name in _CARD_PROOF}
    return Shown(name, solver, network_weights(content), card)


def _card(checkpoint: Path, evaluation: str | Path) -> dict[str, Any]:
    """A checkpoint's figures in an evaluation; ValueError: it measured other checkpoints."""
    from trm.evaluation.grid import read_grid

    grid, sha256 = read_grid(evaluation), fingerprint(checkpoint)
    model = next((model for model in grid["models"] if model["sha256"] == sha256), None)
    if model is None:
        raise ValueError(f"{evaluation} has no figures of {checkpoint}: evaluate it first")
    asked = ("split", "seed", "axes", "problems")
    cells = [cell for cell in model["cells"] if cell["applicable"]]
    return {
        "checkpoint_sha256": sha256,
        "measured": grid["created"],
        "settings": {key: grid["settings"][key] for key in asked},
        "cells": [{key: cell[key] for key in _CARD_FIGURES} for cell in cells],
    }
