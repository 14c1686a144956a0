"""Draw orientation.png: a canvas that is given turned, eight guesses of it, and the one that wins.

python docs/orientation.py --checkpoint trm-lattice-whole-seed0 1234x5678 --view r90
"""

import argparse
from pathlib import Path

import numpy as np

from augment.symmetry import apply, invert
from canvas.boxes import written_box
from canvas.picture import INK, READ, draw_canvas
from canvas.symbols import BLANK, MASK
from trm import load_solver
from trm.figures.style import new_figure, save
from trm.solving.voting import Voting

OUTPUT = Path(__file__).parent / "orientation.png"


def main() -> None:
    """Solve a turned canvas; draw it with its guesses and the solution of the winner."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", nargs="?", default="1234x5678")
    parser.add_argument("--checkpoint", default="trm-lattice-whole-seed0")
    parser.add_argument("--view", default="r90", help="the symmetry by which it is given turned")
    args = parser.parse_args()
    voting = Voting(orientation=args.view, vote="max_confidence", per="solution")
    solver = load_solver(args.checkpoint).with_voting(voting)
    problems = solver.task.parsed([args.problem])
    (won,) = solver.solve(problems, with_truth=True)
    upright = solver.draw(problems).canvases[0]
    turned = apply(args.view, upright[written_box(upright)])

    figure = new_figure(9.2, 3.4)
    grid = figure.add_gridspec(2, 7, width_ratios=[1.3, 0.1, 1, 1, 1, 1, 1.5])
    axes = figure.add_subplot(grid[:, 0])
    draw_canvas(axes, np.pad(turned, 1, constant_values=BLANK))
    axes.set_title("given, in an orientation\nunknown to the model", fontsize=9, color=INK)
    task = solver.task
    for n, (name, vote) in enumerate(zip(voting.guesses, won.votes[0], strict=True)):
        content = apply(invert(name), turned)
        drawn = task.canvas_layout.draw_guess(content, task.base, task.arity, solver.place)
        shown = np.where(drawn.cells_of_row(0)[0], np.uint8(MASK), drawn.canvases[0])
        axes = figure.add_subplot(grid[n // 4, 2 + n % 4])
        draw_canvas(axes, np.pad(shown[written_box(shown)], 1, constant_values=BLANK))
        best = name == won.guess
        weight = {"weight": "bold", "color": READ} if best else {"color": INK}
        axes.set_title(f"confidence {vote.confidence:.2f}", fontsize=9, **weight)
    axes = figure.add_subplot(grid[:, 6])
    rows, columns = (slice(part.start, part.stop) for part in written_box(won.canvas))
    cells = [(r - rows.start + 1, c - columns.start + 1) for r, c in won.answer_cells]
    draw_canvas(
        axes,
        np.pad(won.canvas[rows, columns], 1, constant_values=BLANK),
        truth=np.pad(won.truth[rows, columns], 1, constant_values=BLANK),
        given=np.pad(won.given[rows, columns], 1, constant_values=True),
        read=cells,
    )
    axes.set_title(
        f"the most confident one,\nsolved row by row: {won.answer}", fontsize=9, color=INK
    )
    save(figure, OUTPUT)
    print(f"{OUTPUT.name}: {won}")


if __name__ == "__main__":
    main()
