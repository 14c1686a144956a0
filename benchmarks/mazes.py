"""A cell model on mazes that are larger, have moved ends, or loops; and one maze step by step.

    python benchmarks/mazes.py --checkpoint maze-seed0 --sizes 9 15 25 51 --output docs/mazes.png
    python benchmarks/mazes.py --checkpoint maze-seed0 --data data/maze9 data/maze25

The second command solves the test mazes of folders of arrays instead, which `trm evaluate --data`
measures with a recursive transformer.

Solved is a maze whose written path is the shortest one, in every cell. Of a maze with a loop it is
counted as well in how many the model leaves exactly the cells that are in no dead end.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.colors import ListedColormap

from canvas.mazes import OPEN, Maze
from canvas.sampling import sample
from canvas.symbols import BLANK, MASK, encode
from trm import load_solver
from trm.cells.computing import run_wavefront
from trm.evaluation.statistics import Share
from trm.figures.style import mark, new_figure, save, tidy
from trm.io.markdown import table
from trm.io.puzzle_files import read_puzzles
from trm.models.iterative import Loop
from trm.solving.solver import Solver

WALL, PATH = encode("%o").tolist()
KINDS: dict[str, dict[str, Any]] = {
    "as in training: one path, ends in rooms": {},
    "moved: one path, ends in any open cell": {"anywhere": True},
    "loops: one wall more is open": {"loops": 1},
}
COLOURS = ["#3d4450", "#ffffff", "#c9ced6", "#5b9bd5", "#d1495b"]  # wall to the ends


def without_dead_ends(masked: np.ndarray) -> np.ndarray:
    """Return which cells are in no dead end, bool [B, H, W]."""
    kept, asked = masked != WALL, masked == MASK
    for _ in range(masked[0].size):
        wide = np.pad(kept, ((0, 0), (1, 1), (1, 1))).astype(int)
        near = wide[:, :-2, 1:-1] + wide[:, 2:, 1:-1] + wide[:, 1:-1, :-2] + wide[:, 1:-1, 2:]
        ends = kept & asked & (near < 2)
        if not ends.any():
            break
        kept &= ~ends
    return kept


def measured(solver: Solver, size: int, kind: dict[str, Any], problems: int) -> list[Share]:
    """Return the shares of solved mazes, and of those in which only dead ends are filled."""
    assert isinstance(solver.task, Maze)
    task = replace(solver.task, length=(size, size), **kind)
    drawing = task.canvas_layout.draw_worked(sample(task, 7, "test", 0, np.arange(problems)))
    return shares(solver, drawing.masked, drawing.truth)


def measured_arrays(solver: Solver, folder: str) -> list[Share]:
    """Return the same of the test mazes of a folder of arrays."""
    puzzles, ids = read_puzzles(folder, "test"), encode("%-SGo")
    ids = np.concatenate([[BLANK], ids]).astype(np.uint8)  # by the ids of `canvas.mazes.PUBLISHED`
    truth, masked = ids[puzzles.labels], ids[puzzles.inputs]
    masked[puzzles.inputs == OPEN] = MASK
    return shares(solver, masked, truth)


def shares(solver: Solver, masked: np.ndarray, truth: np.ndarray) -> list[Share]:
    """Return the shares of mazes that are solved, and in which only dead ends are filled."""
    filled = run_wavefront(solver.predictor.model, torch.from_numpy(masked)).tokens.numpy()
    solved = (filled == truth).all(axis=(1, 2))
    left = (filled == PATH) == without_dead_ends(masked)
    only = (left | (masked != MASK)).all(axis=(1, 2))
    return [Share(int(one.sum()), len(masked)) for one in (solved, only)]


def in_words(share: Share) -> str:
    """Return a share with its interval, like ``9 of 10 (59.6 to 98.2 %)``."""
    low, high = share.interval
    return f"{share.right} of {share.total} ({100 * low:.1f} to {100 * high:.1f} %)"


def states(solver: Solver, size: int, seed: int) -> list[np.ndarray]:
    """Return a maze after every update, as indices of `COLOURS`, integers [size, size] each."""
    task = replace(solver.task, length=(size, size))  # type: ignore[type-var]
    drawing = task.canvas_layout.draw(sample(task, seed, "test", 0, np.arange(1)))
    loop, found = Loop(solver.predictor.model, torch.from_numpy(drawing.masked)), []
    asked, wall = drawing.masked[0] == MASK, drawing.masked[0] == WALL
    for _ in range(size * size):
        before = loop.state
        loop.step()
        closed = loop.state.messages[0, ..., 0].numpy() == 1
        found.append(np.select([wall, asked & closed, asked], [0, 2, 1], 4))
        if torch.equal(before.messages, loop.state.messages):
            break
    found[-1] = np.where(found[-1] == 1, 3, found[-1])
    return found


def draw(found: dict[str, list[list[Share]]], sizes: list[int], steps: list[np.ndarray]) -> Any:
    """Draw five states of a maze above the shares of solved mazes by size."""
    figure = new_figure(9, 5.6, "Mazes: a cell fills a dead end as soon as it is one")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.35), squeeze=False).flat
    shown = [0, *np.linspace(1, len(steps) - 1, 5).astype(int).tolist()[1:]]
    for axes, number in zip(above.subplots(1, len(shown)), shown, strict=True):
        axes.imshow(steps[number], cmap=ListedColormap(COLOURS), vmin=0, vmax=len(COLOURS) - 1)
        axes.set_title(f"after update {number + 1}", fontsize=9)
        axes.axis("off")
    axes = below.subplots()
    for i, (name, shares) in enumerate(found.items()):
        part = [share for share, _ in shares]
        values = 100 * np.array([(one.value, *one.interval) for one in part])
        style = mark(i) | {"markersize": 11 - 3 * i}  # curves may lie on each other
        axes.plot(sizes, values[:, 0], label=name, **style)
        axes.fill_between(sizes, values[:, 1], values[:, 2], color=style["color"], alpha=0.15)
    axes.set(xlabel="rows of a maze", ylabel="solved, %", xticks=sizes, ylim=(-4, 104))
    axes.legend(loc="center right")
    tidy(axes)
    return figure


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--checkpoint", default="maze-seed0", help="of a cell model of mazes")
    add("--sizes", type=int, nargs="+", default=[9, 15, 25, 51], help="rows of a maze, odd")
    add("--problems", type=int, default=100, help="mazes of each size and kind (default: 100)")
    add("--data", nargs="+", metavar="FOLDER", help="of arrays, whose test mazes are solved")
    add("--output", type=Path, help="picture; needed without --data")
    args = parser.parse_args()
    if not args.data and args.output is None:
        parser.error("--output is needed without --data")
    torch.set_num_threads(1)
    solver, figures = (
        load_solver(args.checkpoint, device="cpu"),
        ["solved", "only dead ends filled"],
    )
    if args.data:
        rows = [[one, *map(in_words, measured_arrays(solver, one))] for one in args.data]
        print(table(["folder", *figures], rows))
        return
    found = {
        name: [measured(solver, size, kind, args.problems) for size in args.sizes]
        for name, kind in KINDS.items()
    }
    rows = [
        [name, str(size), *map(in_words, shares)]
        for name, of in found.items()
        for size, shares in zip(args.sizes, of, strict=True)
    ]
    print(table(["mazes", "rows", *figures], rows))
    save(draw(found, args.sizes, states(solver, 15, 5)), args.output)


if __name__ == "__main__":
    main()
