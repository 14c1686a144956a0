"""`trm render`: draw a problem in the terminal or to a file."""

import argparse
import re
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from canvas.check import check_layout
from canvas.choices import resolve
from canvas.layouts import Layout
from canvas.picture import CELL, save_gif, to_figure, to_terminal
from canvas.problems import MOST_CELLS, Problems
from canvas.render import WorkedDrawing, draw_worked, row_steps
from canvas.symbols import CHARACTERS
from canvas.task import Task
from canvas.tasks import TASKS, task_of
from trm.commands.arguments import add_import, info_console, number, read_problems, refuse, whole
from trm.files import replacing

if TYPE_CHECKING:  # views need torch; drawing without one should not wait for it
    from augment.views import View

_FRAME, _LAST = 0.6, 2.0  # seconds of an animation's frames, and of the last one
_MOST_DRAWN = 100_000  # cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add = parser.add_argument
    add("problem", nargs="?", help="like 321x654, or 12+34+5")
    add("--task", help=f"{', '.join(TASKS)}, or a class of your own (default: by the sign)")
    layouts = "; ".join(f"{name}: {', '.join(task.layouts)}" for name, task in TASKS.items())
    add("--layout", help=f"{layouts}; or a class of your own (default: the first)")
    more = "work out many problems in a layout of your own, and name the first row that is wrong"
    add("--check", metavar="LAYOUT", help=more)
    add("--base", type=int, default=10, choices=range(2, 17), metavar="2..16")
    for name, side, first in (("top", "height", "row"), ("left", "width", "column")):
        more = "cells (default: the worked solution and one cell around it)"
        add(f"--{side}", type=whole(1, MOST_CELLS), help=more)
        more = f"first {first} of the worked solution (default: centred)"
        add(f"--{name}", type=whole(0, MOST_CELLS), help=more)
    more = "show the input of this step, from 1: the rows so far, the next one masked"
    add("--step", type=whole(1), help=more)
    more = (
        "turn the canvas (r90, r180, r270), reflect it (h, v, t, hvt) or leave it (e), then "
        "shift it, like r90,1,-2"
    )
    add("--view", type=_view, metavar="NAME[,DOWN,RIGHT]", help=more)
    add_import(parser)
    for ending, what in (
        ("png", "a picture"),
        ("svg", "the same picture, sharp at any size,"),
        ("gif", "an animation of all steps"),
    ):
        kind = partial(_file, ending=ending)
        add(f"--{ending}", type=kind, metavar="FILE", help=f"write {what} instead")
    scale = f"of pictures, from 0.5; 1, the default, is {CELL} pixels a cell"
    add("--scale", type=number(0.5), help=scale)


def _file(text: str, ending: str) -> Path:
    if not text.lower().endswith(f".{ending}"):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .{ending}")
    return Path(text)


def _view(text: str) -> "View":
    from augment.views import View

    match = re.fullmatch(r"(\w+)(?:,(-?\d+),(-?\d+))?", text)
    try:
        if not match:
            raise ValueError(f"{text!r} is not a view; write it like r90 or r90,1,-2")
        return View(match[1], int(match[2] or 0), int(match[3] or 0))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Draw the problem of the task that is named, or has its sign."""
    if args.gif:
        refuse(args, "--gif shows every step", step=None)
    files = [file for file in (args.png, args.svg, args.gif) if file]
    if not files:
        refuse(args, "without --png, --svg or --gif no picture is drawn", scale=None)
    if args.problem is None and not args.check:
        raise ValueError("give a problem like 321x654, or --check and a layout")
    layout, text = args.check or args.layout, args.problem
    if text is None and not args.task:  # the sign of the layout tells the task
        every = {name: one for kind in TASKS.values() for name, one in kind.layouts.items()}
        text = CHARACTERS[resolve(layout, every, Layout, "layout").sign]  # type: ignore[union-attr]
    task = task_of(text or "", args.task, layout, args.base)
    if args.check:
        info_console(args).print(_checked(task))
    if args.problem is None:
        return 0
    drawing = _draw(args, task)
    steps = row_steps(drawing)
    if args.step is not None and args.step > len(steps.inputs):
        raise ValueError(
            f"this problem has {len(steps.inputs)} steps, there is no step {args.step}"
        )

    def view(canvases: np.ndarray) -> np.ndarray:
        """The view of canvases ``uint8 [B, H, W]``; all that is drawn has to stay on them."""
        if args.view is None:
            return canvases
        import torch

        from augment.views import apply

        content = torch.from_numpy((drawing.truth != drawing.canvases) | drawing.given)
        batch = torch.from_numpy(canvases)
        return apply(args.view, batch, content.expand_as(batch)).numpy()

    given = view(drawing.given.view(np.uint8))[0].view(bool)
    picture = truth = view(drawing.truth)[0]
    if args.step is not None:
        this = slice(args.step - 1, args.step)
        picture, truth = view(steps.inputs[this])[0], view(steps.labels[this])[0]
    cell = round((args.scale or 1) * CELL)
    for file in files:
        with replacing(file) as part:
            if file == args.gif:
                pairs = np.stack([steps.inputs, steps.labels], axis=1)
                frames = [
                    (to_figure(frame, given=given, cell=cell), _FRAME)
                    for frame in view(pairs.reshape(-1, *drawing.canvases.shape[1:]))
                ]
                save_gif(part, [*frames[:-1], (frames[-1][0], _LAST)])
            else:
                figure = to_figure(picture, truth=truth, given=given, cell=cell)
                figure.savefig(part, format=file.suffix[1:].lower())
        info_console(args).print(f"wrote {file}")
    if not files:
        Console().print(to_terminal(picture, truth=truth, given=given), highlight=False)
    check_layout(task, read_problems([args.problem], task))  # after what is wrong has been shown
    return 0


def _checked(task: Task) -> str:
    """Check a layout with its task's problems, and with zeros, powers and long carries."""
    base = task.base
    edges = [0, 1, base - 1, base, base**3 + 1, base**5 - base, base**6 - 1]
    more = Problems.from_ints(list(product(edges, repeat=task.arity[0])), base)
    number = check_layout(task, more[task.allows(more)])
    return f"{task.layout}: {number} problems are right in every row"


def _draw(args: argparse.Namespace, task: Task) -> WorkedDrawing:
    problems = read_problems([args.problem], task)
    needed = task.rules.room([n for n in problems.lengths[0].tolist() if n], task.base)
    offset = args.top or 0, args.left or 0
    asked = zip((args.height or 0, args.width or 0), needed, offset, strict=True)
    cells = prod(max(side, size + start) for side, size, start in asked)
    if cells > _MOST_DRAWN:
        what = f"a canvas of {cells:,} cells is too large to look at"
        raise ValueError(f"{what}; at most {_MOST_DRAWN:,} are drawn")
    worked = task.rules.work(problems).trimmed()
    placed = (args.top, int(worked.heights[0])), (args.left, int(worked.widths[0]))
    sides = [
        side or size + 1 + (1 if start is None else start)
        for side, (start, size) in zip((args.height, args.width), placed, strict=True)
    ]
    spare = [(side - size) // 2 for side, (_, size) in zip(sides, placed, strict=True)]
    centred = spare if min(spare) >= 0 else (0, 0)  # draw_worked then says what would fit
    corner = [middle if p[0] is None else p[0] for middle, p in zip(centred, placed, strict=True)]
    return draw_worked(worked, *sides, *corner)
