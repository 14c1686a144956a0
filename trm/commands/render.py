"""`trm render`: draw a problem in the terminal or to a file."""

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
from rich.console import Console

from augment.symmetry import SYMMETRIES, apply
from canvas.boxes import written_box
from canvas.check import check_layout
from canvas.drawing import WorkedDrawing, row_steps
from canvas.picture import save_gif, to_figure, to_terminal
from canvas.problems import Problems
from canvas.task import Task
from canvas.tasks import TASKS, task_of
from trm.commands.arguments import Arguments
from trm.commands.parser import Parser, whole
from trm.io.files import check_place, replacing
from trm.solving.voting import RANDOM

_FRAME, _LAST = 0.6, 2.0  # seconds of an animation's frames, and of the last one
_MOST_DRAWN = 100_000  # cells
_ENDINGS = (".png", ".svg", ".gif")
EXAMPLES = """\
examples:
  trm render 321x654 --layout lattice                    # a solution, row by row
  trm render 321x654 --layout lattice --step 2           # a model's input at its second row
  trm render 321x654 --view random --seed 3              # turned, at a random place
  trm render 12+34+5 --output sum.gif                    # one frame for each row
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("problem", help="like 321x654, or 12+34+5")
    add("--task", help=f"{', '.join(TASKS)}, or a class of your own (default: by the sign)")
    layouts = "; ".join(f"{name}: {', '.join(task.layouts)}" for name, task in TASKS.items())
    add("--layout", help=f"{layouts}; or a class of your own (default: the first)")
    parser.add_base()
    parser.add_canvas(" (default: the worked solution and one cell around it)")
    more = "show the input of this step, from 1: the rows so far, the next one masked"
    add("--step", type=whole(1), help=more)
    more = (
        "turn the canvas (r90, r180, r270), reflect it (h, v, t, hvt) or leave it (e, the default);"
        " random: in any of these, at a random place of the canvas, as in training"
    )
    choices = (*SYMMETRIES, RANDOM)
    add("--view", choices=choices, default="e", metavar=f"{{{','.join(choices)}}}", help=more)
    add("--seed", type=whole(0), help="of a random view (default: 0)")
    parser.add_import()
    more = "write a picture, .png or .svg, or an animation of all steps, .gif, instead"
    add("--output", type=_picture, metavar="FILE", help=more)


def _picture(text: str) -> Path:
    if Path(text).suffix.lower() not in _ENDINGS:
        raise argparse.ArgumentTypeError(f"{text!r} does not end in {', '.join(_ENDINGS)}")
    return Path(text)


def run(args: Arguments) -> int:
    """Draw the problem; its sign selects a task unless one is named."""
    animated = args.output is not None and args.output.suffix.lower() == ".gif"
    if animated:
        args.refuse("an animation shows every step", "step")
    if args.view != RANDOM:
        args.refuse("only --view random draws anything by chance", "seed")
    if args.output is not None:
        check_place(args.output, "--output")
    task = task_of(args.problem, args.task, args.layout, args.base)
    problems = task.parsed([args.problem])
    try:
        drawing = _draw(args, task, problems)
    except ValueError:
        raise
    except Exception:
        check_layout(task)  # raises an error that explains the fault of a user's own layout
        raise
    steps = row_steps(drawing)
    if args.step is not None and args.step > len(steps.inputs):
        raise ValueError(
            f"this problem has {len(steps.inputs)} steps, there is no step {args.step}"
        )
    view: Callable[[np.ndarray], np.ndarray] = partial(apply, args.view)
    if args.view == RANDOM:
        view = _random_view(drawing, args.seed or 0)
    given, picture = view(drawing.given[0]), drawing.truth[0]
    truth = picture
    if args.step is not None:
        picture, truth = steps.inputs[args.step - 1], steps.labels[args.step - 1]
    picture, truth = view(picture), view(truth)
    if args.output is None:
        Console().print(to_terminal(picture, truth=truth, given=given), highlight=False)
    else:
        with replacing(args.output) as part:
            if animated:
                frames = [
                    (to_figure(view(frame), given=given), _FRAME)
                    for step in zip(steps.inputs, steps.labels, strict=True)
                    for frame in step
                ]
                save_gif(part, [*frames[:-1], (frames[-1][0], _LAST)])
            else:
                figure = to_figure(picture, truth=truth, given=given)
                figure.savefig(part, format=args.output.suffix[1:].lower())
        args.info.print(f"wrote {args.output}")
    check_layout(task, _edges(task, problems))  # after the drawing, which shows the fault
    return 0


def _random_view(drawing: WorkedDrawing, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that turns canvases, [H, W], and moves them to a random place."""
    random = np.random.default_rng(seed)
    name = str(random.choice(list(SYMMETRIES)))
    turned = apply(name, drawing.truth[0])
    # First and last shift, down and right, that keeps the solution on its canvas.
    ends = [
        (-used.start, side - used.stop)
        for used, side in zip(written_box(turned), turned.shape, strict=True)
    ]
    shift = [int(random.integers(low, high + 1)) for low, high in ends]
    return lambda canvas: np.roll(apply(name, canvas), shift, (0, 1))


def _edges(task: Task, problems: Problems) -> Problems:
    """Return problems for checking a layout: the given ones, zeros, powers and long carries."""
    base = task.base
    edges = [0, 1, base - 1, base, base**3 + 1, base**5 - base, base**6 - 1]
    more = Problems.from_ints(list(product(edges, repeat=task.arity[0])), base)
    return Problems.from_ints(problems.to_ints() + more[task.allows(more)].to_ints(), base)


def _draw(args: Arguments, task: Task, problems: Problems) -> WorkedDrawing:
    """Draw the problem in the middle of the canvas, by default with one blank cell around it."""
    requested = args.height, args.width
    needed = task.canvas_layout.room([n for n in problems.lengths[0].tolist() if n], task.base)
    cells = prod(max(side or 0, n) for side, n in zip(requested, needed, strict=True))
    if cells > _MOST_DRAWN:
        what = f"a canvas of {cells:,} cells is too large to look at"
        raise ValueError(f"{what}; at most {_MOST_DRAWN:,} are drawn")
    size = task.canvas_layout.draw_worked(problems, trim=True).truth.shape[1:]
    height, width = (side or n + 2 for side, n in zip(requested, size, strict=True))
    if args.view == RANDOM and requested == (None, None):
        height = width = 2 * max(size)  # so that there is room to move
    # If the problem does not fit, the layout raises an error with the size that it needs.
    top, left = (max(0, side - n) // 2 for side, n in zip((height, width), size, strict=True))
    return task.canvas_layout.draw_worked(problems, height, width, top, left, trim=True)
