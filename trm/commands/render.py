"""`trm render`: draw a multiplication in the terminal or to a file."""

import argparse
import re

import numpy as np
import torch
from rich.console import Console

from augment.symmetry import SYMMETRIES
from augment.views import View, apply
from canvas.layouts import LAYOUTS, get_layout
from canvas.picture import save_gif, save_png, to_terminal
from canvas.render import Drawing, draw, row_steps
from trm.commands.arguments import add_canvas_size, read_problems, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("problem", help="two positive whole numbers, like 321x654")
    parser.add_argument("--layout", default="standard", choices=LAYOUTS, help="default: standard")
    parser.add_argument("--base", type=int, default=10, choices=range(2, 11), metavar="2..10")
    add_canvas_size(parser, "the working and one cell around it")
    parser.add_argument("--top", type=whole(0), help="first row of the working (default: centred)")
    parser.add_argument("--left", type=whole(0), help="its first column (default: centred)")
    parser.add_argument(
        "--step",
        type=whole(1),
        help="show the input of this step, from 1: the rows so far, the next one masked",
    )
    parser.add_argument(
        "--view",
        type=_view,
        default=View(),
        metavar="NAME[,DOWN,RIGHT]",
        help=f"turn the canvas ({', '.join(SYMMETRIES)}), then shift it, like r90,1,-2",
    )
    parser.add_argument("--png", metavar="FILE", help="write a picture instead")
    parser.add_argument("--gif", metavar="FILE", help="write an animation of all steps instead")


def _view(text: str) -> View:
    match = re.fullmatch(r"(\w+)(?:,(-?\d+),(-?\d+))?", text)
    try:
        if not match:
            raise ValueError(f"{text!r} is not a view; write it like r90 or r90,1,-2")
        return View(match[1], int(match[2] or 0), int(match[3] or 0))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Draw."""
    drawing = _draw(args)
    content = torch.from_numpy(drawing.canvases != drawing.unsolved()) | torch.from_numpy(
        drawing.given
    )

    def show(canvases: np.ndarray) -> np.ndarray:
        batch = torch.from_numpy(canvases)
        return apply(args.view, batch, content.expand_as(batch)).numpy()

    steps = row_steps(drawing)
    if args.step is not None and args.step > len(steps.inputs):
        raise ValueError(
            f"this problem has {len(steps.inputs)} steps, there is no step {args.step}"
        )
    given = show(drawing.given.view(np.uint8))[0].view(bool)
    picture = truth = show(drawing.canvases)[0]
    if args.step is not None:
        this = slice(args.step - 1, args.step)
        picture, truth = show(steps.inputs[this])[0], show(steps.labels[this])[0]
    if args.gif:
        pairs = np.stack([steps.inputs, steps.labels], axis=1)
        save_gif(args.gif, list(show(pairs.reshape(-1, *drawing.canvases.shape[1:]))), given=given)
    if args.png:
        save_png(args.png, picture, truth=truth, given=given)
    if not (args.gif or args.png):
        Console().print(to_terminal(picture, truth=truth, given=given), highlight=False)
    return 0


def _draw(args: argparse.Namespace) -> Drawing:
    problems = read_problems([args.problem], args.base)
    worked = get_layout(args.layout).work(problems.a, problems.b)
    rows, columns = int(worked.heights[0]), int(worked.widths[0])
    height = args.height or (args.top if args.top is not None else 1) + rows + 1
    width = args.width or (args.left if args.left is not None else 1) + columns + 1
    room = min(height - rows, width - columns) >= 0
    top = args.top if args.top is not None else room * (height - rows) // 2
    left = args.left if args.left is not None else room * (width - columns) // 2
    return draw(worked, height, width, top, left)
