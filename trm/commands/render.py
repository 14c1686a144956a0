"""`trm render`: draw a problem in the terminal or to a file."""

import argparse
import re
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from canvas.picture import CELL, to_sketch, to_terminal
from canvas.problems import MOST_CELLS
from canvas.render import WorkedDrawing, draw_worked, row_steps
from canvas.shapes import save_gif
from canvas.task import Task
from canvas.tasks import TASKS, task_class
from trm.commands.arguments import (
    add_canvas_size,
    add_import,
    info_console,
    number,
    read_problems,
    whole,
)

if TYPE_CHECKING:  # views need torch; drawing without one should not wait for it
    from augment.views import View

_DEFAULTS = "standard, column"
_FRAME, _LAST = 0.6, 2.0  # seconds of an animation's frames, and of the last one
_MOST_DRAWN = 100_000  # cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("problem", help="like 321x654, or 12+34+5")
    layouts = "; ".join(f"{name}: {', '.join(task.layouts)}" for name, task in TASKS.items())
    parser.add_argument(
        "--task", help=f"{', '.join(TASKS)}, or a class of your own (default: by the sign)"
    )
    parser.add_argument(
        "--layout", help=f"{layouts}; or a class of your own (default: {_DEFAULTS})"
    )
    parser.add_argument("--base", type=int, default=10, choices=range(2, 11), metavar="2..10")
    add_canvas_size(parser, "the working and one cell around it")
    parser.add_argument(
        "--top", type=whole(0, MOST_CELLS), help="first row of the working (default: centred)"
    )
    parser.add_argument(
        "--left", type=whole(0, MOST_CELLS), help="its first column (default: centred)"
    )
    parser.add_argument(
        "--step",
        type=whole(1),
        help="show the input of this step, from 1: the rows so far, the next one masked",
    )
    parser.add_argument(
        "--view",
        type=_view,
        metavar="NAME[,DOWN,RIGHT]",
        help="turn the canvas (r90, r180, r270), reflect it (h, v, t, hvt) or leave it (e), then "
        "shift it, like r90,1,-2",
    )
    add_import(parser)
    parser.add_argument("--png", type=_name(".png"), metavar="FILE", help="write a picture instead")
    parser.add_argument(
        "--svg",
        type=_name(".svg"),
        metavar="FILE",
        help="write the same picture as SVG: sharp at any size, text as text",
    )
    parser.add_argument(
        "--gif", type=_name(".gif"), metavar="FILE", help="write an animation of all steps instead"
    )
    parser.add_argument(
        "--scale",
        type=number(0.5),
        help=f"of pictures, from 0.5; 1, the default, is {CELL} pixels a cell",
    )


def _name(ending: str) -> Callable[[str], str]:
    """A reader of file names with that ending, for argparse."""

    def read(text: str) -> str:
        if not text.lower().endswith(ending):
            raise argparse.ArgumentTypeError(
                f"{text!r} does not end in {ending}; name it like canvas{ending}"
            )
        return text

    return read


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
    """Draw."""
    if args.gif and args.step is not None:
        raise ValueError("--gif shows every step; leave out --step, or draw that step with --png")
    to_file = args.png or args.svg or args.gif
    if args.scale and not to_file:
        raise ValueError("--scale is of pictures: add --png, --svg or --gif")
    drawing = _draw(args)

    def show(canvases: np.ndarray) -> np.ndarray:
        return canvases if args.view is None else _turn(args.view, drawing, canvases)

    steps = row_steps(drawing)
    if args.step is not None and args.step > len(steps.inputs):
        raise ValueError(
            f"this problem has {len(steps.inputs)} steps, there is no step {args.step}"
        )
    given = show(drawing.given.view(np.uint8))[0].view(bool)
    picture = truth = show(drawing.truth)[0]
    if args.step is not None:
        this = slice(args.step - 1, args.step)
        picture, truth = show(steps.inputs[this])[0], show(steps.labels[this])[0]
    cell = round((args.scale or 1) * CELL)
    if args.gif:
        pairs = np.stack([steps.inputs, steps.labels], axis=1)
        frames = show(pairs.reshape(-1, *drawing.canvases.shape[1:]))
        sketches = [to_sketch(frame, given=given, cell=cell) for frame in frames]
        save_gif(args.gif, sketches, [_FRAME] * (len(sketches) - 1) + [_LAST])
        info_console(args).print(f"wrote {args.gif}")
    for file in filter(None, (args.png, args.svg)):
        to_sketch(picture, truth=truth, given=given, cell=cell).save(file)
        info_console(args).print(f"wrote {file}")
    if not to_file:
        Console().print(to_terminal(picture, truth=truth, given=given), highlight=False)
    return 0


def _turn(view: "View", drawing: WorkedDrawing, canvases: np.ndarray) -> np.ndarray:
    """A view of canvases ``uint8 [B, H, W]`` of a drawing, whose whole working has to stay on."""
    import torch

    from augment.views import apply

    content = torch.from_numpy((drawing.truth != drawing.canvases) | drawing.given)
    batch = torch.from_numpy(canvases)
    return apply(view, batch, content.expand_as(batch)).numpy()


def _task(args: argparse.Namespace) -> Task:
    """The task whose problem is drawn: as named, or by its sign.

    Raises:
        ValueError: there is no such task, layout or sign.
    """
    if args.task is not None:
        kind = task_class(args.task)
    else:
        kinds = [k for k in TASKS.values() if any(sign in args.problem for sign in k.signs)]
        kind = kinds[0] if kinds else TASKS["multiplication"]
    layout = args.layout or next(iter(kind.layouts))
    return kind(**{"layout": layout, "base": args.base})


def _draw(args: argparse.Namespace) -> WorkedDrawing:
    task = _task(args)
    problems = read_problems([args.problem], task)
    room = task.rules.room([n for n in problems.lengths[0].tolist() if n], task.base)
    offset = args.top or 0, args.left or 0
    sides = zip((args.height or 0, args.width or 0), room, offset, strict=True)
    cells = prod(max(side, needed + start) for side, needed, start in sides)
    if cells > _MOST_DRAWN:
        raise ValueError(
            f"a canvas of {cells:,} cells is too large to look at"
            f"; at most {_MOST_DRAWN:,} are drawn"
        )
    worked = task.rules.work(problems).trimmed()
    rows, columns = int(worked.heights[0]), int(worked.widths[0])
    above, before = (1 if offset is None else offset for offset in (args.top, args.left))
    height = args.height or above + rows + 1
    width = args.width or before + columns + 1
    top, left = (height - rows) // 2, (width - columns) // 2
    if min(top, left) < 0:  # it does not fit: draw_worked() says what would
        top = left = 0
    if args.top is not None:
        top = args.top
    if args.left is not None:
        left = args.left
    return draw_worked(worked, height, width, top, left)
