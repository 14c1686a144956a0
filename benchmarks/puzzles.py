"""Write Sudoku, mazes or puzzles of reasoning-gym as arrays that `trm fit`, HRM and TRM read.

    python benchmarks/puzzles.py sudoku --size 4 --output data/sudoku4
    python benchmarks/puzzles.py sudoku --size 6 --clues 12 --output data/sudoku6
    python benchmarks/puzzles.py maze --size 9 --output data/maze9
    python benchmarks/puzzles.py reasoning_gym --task mini_sudoku --output data/mini

Every Sudoku has one solution. Its clues are as few as chance and ``--clues`` allow: clues are taken
away in random order as long as the solution stays the only one. Two puzzles are equivalent if a
change of digits, rows, columns and, with square boxes, of rows for columns makes one of the other.
A hash of its class puts a puzzle into train or test, so that no test puzzle has an equivalent in
train; of sizes 8 and 9 that is too slow, and a hash of the puzzle does. Train has ``--variants`` of
each class, which are a group of the arrays, and test ``--test-variants``.

A maze is a spanning tree of its rooms, so that one path leads from start to goal. Train and test
have no maze in common; the start and the goal are a part of the maze. With ``--loops`` some walls
are opened afterwards, and the path of the labels is a shortest one.

With ``reasoning_gym`` the puzzles are those of a task of this library on grids, such as
mini_sudoku, sudoku, rotate_matrix or shortest_path, whose path is drawn with the character o. The
settings of the task are ``--set NAME=VALUE``. Smaller grids have padding on the right and below.
"""

import argparse
import hashlib
import importlib
from collections.abc import Iterator
from functools import cache
from itertools import count, permutations, product
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from canvas.mazes import ON_PATH, PUBLISHED, draw_maze, path
from trm.io.puzzle_files import write_puzzles
from trm.io.puzzle_format import PuzzleFormat

TEST_SHARE = 0.2  # of the classes of Sudoku, or of mazes
_MOST_SYMMETRIES = 20_000  # moves of cells that a class is searched in
_MOST_OF_GYM = 10**6  # puzzles, which are drawn one by one
_MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def boxes(size: int) -> tuple[int, int]:
    """Return rows and columns of a box: 2 x 2 of size 4, 2 x 3 of size 6, 3 x 3 of size 9."""
    rows = max(rows for rows in range(1, isqrt(size) + 1) if size % rows == 0)
    return rows, size // rows


@cache
def units(size: int) -> tuple[tuple[int, int, int], ...]:
    """Return row, column and box of each cell."""
    rows, columns = boxes(size)
    return tuple(
        (i, j, i // rows * rows + j // columns) for i, j in product(range(size), range(size))
    )


def solutions(grid: np.ndarray, random: np.random.Generator | None = None) -> Iterator[np.ndarray]:
    """Yield the solutions of a Sudoku, int [size, size], 0 for an unknown cell.

    The cell with the fewest possible digits is tried first; ``random`` shuffles these digits.
    """
    size = len(grid)
    cells, where = grid.ravel().tolist(), units(size)
    free = [[(1 << size) - 1] * size for _ in range(3)]  # digits of each row, column and box
    for cell, digit in enumerate(cells):
        if digit:
            for kind, unit in enumerate(where[cell]):
                if not free[kind][unit] >> (digit - 1) & 1:
                    return
                free[kind][unit] ^= 1 << (digit - 1)

    def search() -> Iterator[np.ndarray]:
        best, least = -1, size + 1
        for cell, digit in enumerate(cells):
            if not digit:
                row, column, box = where[cell]
                possible = free[0][row] & free[1][column] & free[2][box]
                if possible.bit_count() < least:
                    best, least = cell, possible.bit_count()
        if best < 0:
            yield np.array(cells).reshape(size, size)
            return
        row, column, box = where[best]
        possible = free[0][row] & free[1][column] & free[2][box]
        digits = [digit for digit in range(1, size + 1) if possible >> (digit - 1) & 1]
        for digit in digits if random is None else random.permutation(digits).tolist():
            bit = 1 << (digit - 1)
            for kind, unit in enumerate(where[best]):
                free[kind][unit] ^= bit
            cells[best] = digit
            yield from search()
            cells[best] = 0
            for kind, unit in enumerate(where[best]):
                free[kind][unit] ^= bit

    yield from search()


def unique(grid: np.ndarray) -> bool:
    """Return whether a Sudoku has exactly one solution."""
    found = solutions(grid)
    return next(found, None) is not None and next(found, None) is None


def sudoku(size: int, clues: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a Sudoku, int [size, size], and its solution.

    It has ``clues`` clues, or more where no further one can be taken away.
    """
    solution = next(solutions(np.zeros((size, size), dtype=int), random))
    grid = solution.copy()
    for cell in random.permutation(size * size).tolist():
        if np.count_nonzero(grid) <= clues:
            break
        digit, grid.flat[cell] = grid.flat[cell], 0
        if not unique(grid):
            grid.flat[cell] = digit
    return grid, solution


@cache
def symmetries(size: int) -> np.ndarray:
    """Return the moves of cells that keep Sudoku's rules, int [M, size * size].

    Place i of a moved puzzle has the cell ``moves[m, i]``. Beyond `_MOST_SYMMETRIES` of them a few
    thousand are drawn, and equivalent puzzles are no longer found.
    """
    rows, columns = boxes(size)

    def lines(inside: int) -> np.ndarray:  # orders of lines, in bands of so many
        bands = size // inside
        orders = [
            [
                band * inside + line
                for band, within in zip(order, some, strict=True)
                for line in within
            ]
            for order in permutations(range(bands))
            for some in product(permutations(range(inside)), repeat=bands)
        ]
        return np.array(orders)

    down, across = lines(rows), lines(columns)
    pairs = len(down) * len(across)
    chosen = np.arange(pairs)
    if pairs > _MOST_SYMMETRIES:
        chosen = np.random.default_rng(0).integers(pairs, size=_MOST_SYMMETRIES // 10)
    i, j = np.divmod(chosen, len(across))
    moves = (down[i][:, :, None] * size + across[j][:, None, :]).reshape(len(chosen), -1)
    if rows == columns:
        turned = np.arange(size * size).reshape(size, size).T.ravel()
        moves = np.concatenate([moves, turned[moves]])
    return moves


def exact_classes(size: int) -> bool:
    """Return whether `symmetries` are all of them, as of sizes 4 and 6."""
    return size <= 6


def canonical(grid: np.ndarray) -> bytes:
    """Return the same bytes for equivalent puzzles, where `exact_classes`."""
    size = len(grid)
    moved = grid.ravel()[symmetries(size)]  # [M, cells]
    names = np.zeros((len(moved), size + 1), dtype=np.int8)  # of digits, by first occurrence
    used = np.zeros(len(moved), dtype=np.int8)
    every = np.arange(len(moved))
    result = np.zeros_like(moved, dtype=np.int8)
    for cell in range(moved.shape[1]):
        digit = moved[:, cell]
        new = (digit > 0) & (names[every, digit] == 0)
        used += new
        names[every[new], digit[new]] = used[new]
        result[:, cell] = names[every, digit]
        # Only the smallest so far can become the smallest.
        kept = result[:, cell] == result[:, cell].min()
        moved, names, used, result = moved[kept], names[kept], used[kept], result[kept]
        every = np.arange(len(moved))
    return result[0].tobytes()


def variant(
    grid: np.ndarray, solution: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return a random equivalent of a puzzle and its solution."""
    size = len(grid)
    move = symmetries(size)[random.integers(len(symmetries(size)))]
    names = np.concatenate([[0], 1 + random.permutation(size)])
    first, second = (names[part.ravel()[move]].reshape(size, size) for part in (grid, solution))
    return first, second


def in_test(name: bytes) -> bool:
    """Return whether a class of puzzles belongs to test, by a hash."""
    digest = hashlib.sha256(name).digest()
    return int.from_bytes(digest[:4], "big") < TEST_SHARE * 2**32


def write_sudoku(args: argparse.Namespace) -> dict[str, str]:
    """Write Sudoku; return a line about each split."""
    size, random = args.size, np.random.default_rng(args.seed)
    known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    wanted, found = {"train": args.train, "test": args.test}, {"train": 0, "test": 0}
    drawn = since = 0
    while any(found[split] < wanted[split] for split in found) and since < args.patience:
        grid, solution = sudoku(size, args.clues, random)
        name = canonical(grid) if exact_classes(size) else grid.tobytes()
        split = "test" if in_test(name) else "train"
        drawn, since = drawn + 1, since + 1
        if name not in known and found[split] < wanted[split]:
            known[name], since = (grid, solution), 0
            found[split] += 1
    characters = "~." + "123456789"[:size]
    form = PuzzleFormat(size, size, size + 2, 0, 0, characters)
    lines = {}
    for split in found:
        classes = [pair for name, pair in known.items() if in_test(name) == (split == "test")]
        puzzles, groups = list[tuple[np.ndarray, np.ndarray]](), [0]
        for grid, solution in classes:
            own = {grid.tobytes(): (grid, solution)}
            for _ in range(args.variants if split == "train" else args.test_variants):
                one = variant(grid, solution, random)
                own[one[0].tobytes()] = one
            some = [*own.values()][1:] or [*own.values()]
            puzzles += some
            groups.append(groups[-1] + len(some))
        if not puzzles:
            raise SystemExit(f"no puzzle of {split} was found: raise --{split} or --patience")
        inputs, labels = (
            1 + np.array(part).astype(np.uint8) for part in zip(*puzzles, strict=True)
        )
        write_puzzles(args.output, split, form, inputs, labels, np.array(groups))
        clues = (inputs > 1).sum(axis=(1, 2))
        lines[split] = (
            f"{len(puzzles):,} puzzles of {len(classes):,} classes, {clues.min()} to {clues.max()} "
            f"clues, {clues.mean():.2f} on average"
        )
    return lines


def maze(
    size: int, random: np.random.Generator, loops: int = 0, anywhere: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return a maze, uint8 [size, size], and its path; ids as in the published mazes.

    ``#`` (1) is a wall, a blank (2) is open, S (3) is the start, G (4) the goal and o (5) the path
    between them. ``loops`` and ``anywhere`` are those of `draw_maze`.
    """
    grid = draw_maze(size, random, loops, anywhere)
    solution = grid.copy()
    for cell in path(grid)[1:-1]:
        solution[cell] = ON_PATH
    return grid, solution


def split_puzzles(
    args: argparse.Namespace, drawn: Iterator[tuple[np.ndarray, np.ndarray]]
) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Return different puzzles of each split with their solutions, as many as wanted or found."""
    wanted, since = {"train": args.train, "test": args.test}, 0
    found: dict[str, dict[bytes, tuple]] = {"train": {}, "test": {}}
    for grid, solution in drawn:
        name = grid.tobytes()
        split, since = "test" if in_test(name) else "train", since + 1
        if len(found[split]) < wanted[split] and name not in found[split]:
            found[split][name], since = (grid, solution), 0
        if since == args.patience or all(len(found[one]) >= wanted[one] for one in found):
            break
    for split, puzzles in found.items():
        if not puzzles:
            raise SystemExit(f"no puzzle of {split} was found: raise --{split} or --patience")
    return {split: [*puzzles.values()] for split, puzzles in found.items()}


def write_mazes(args: argparse.Namespace) -> dict[str, str]:
    """Write mazes; return a line about each split."""
    if args.size % 2 == 0 or args.size < 5:
        raise SystemExit("--size of a maze is an odd number from 5 up: its rooms are at odd places")
    random = np.random.default_rng(args.seed)
    drawn = (maze(args.size, random, args.loops, args.anywhere) for _ in count())
    form, lines = PuzzleFormat(args.size, args.size, 6, 0, 0, PUBLISHED), {}
    for split, mazes in split_puzzles(args, drawn).items():
        inputs, labels = (np.array(part) for part in zip(*mazes, strict=True))
        write_puzzles(args.output, split, form, inputs, labels)
        path = (labels == ON_PATH).sum(axis=(1, 2)) + 1
        lines[split] = (
            f"{len(inputs):,} mazes, {path.mean():.1f} steps from start to goal on average"
        )
    return lines


def gym_puzzles(
    task: str, settings: dict[str, Any], seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield puzzles of a task of reasoning-gym with their solutions, characters [H, W] each."""
    try:
        library: Any = importlib.import_module("reasoning_gym")
    except ImportError as error:
        raise SystemExit(f"pip install reasoning-gym: it writes these puzzles ({error})") from None
    try:
        data = library.create_dataset(task, seed=seed, size=_MOST_OF_GYM, **settings)
    except (AssertionError, TypeError, ValueError) as error:
        raise SystemExit(f"--task {task}: {error}") from None
    for one in data:
        about, answer = one["metadata"], one["answer"]
        if (given := about.get("puzzle", about.get("matrix"))) is None:
            raise SystemExit(f"--task {task}: it has no grid of one character a cell")
        grid = np.array(given).astype(str)
        grid[grid == "0"] = "." if "puzzle" in about else "0"
        if task == "shortest_path":
            if answer == "infeasible":
                continue
            solution, (at,) = grid.copy(), np.argwhere(grid == "*")
            for word in answer.split()[:-1]:
                at = at + _MOVES[word]
                solution[tuple(at)] = "o"
        else:
            solution = np.array([line.split() for line in answer.splitlines()], dtype=object)
        if solution.shape != grid.shape or any(len(cell) != 1 for cell in solution.flat):
            raise SystemExit(f"--task {task}: its answers are no grids like its puzzles")
        yield grid.astype("U1"), solution.astype("U1")


def write_gym(args: argparse.Namespace) -> dict[str, str]:
    """Write puzzles of reasoning-gym; return a line about each split."""
    settings = {
        name: yaml.safe_load(value) for name, _, value in (s.partition("=") for s in args.set)
    }
    splits = split_puzzles(args, gym_puzzles(args.task, settings, args.seed))
    every = [grid for pairs in splits.values() for pair in pairs for grid in pair]
    height, width = (max(sides) for sides in zip(*(grid.shape for grid in every), strict=True))
    symbols = "".join(np.unique(np.concatenate([grid.ravel() for grid in every])))
    characters = "~." + symbols.replace(".", "")
    form, lines = PuzzleFormat(height, width, len(characters), 0, 0, characters), {}
    for split, pairs in splits.items():
        arrays = np.zeros((2, len(pairs), height, width), np.uint8)
        for i, pair in enumerate(pairs):
            for array, grid in zip(arrays, pair, strict=True):
                ids = np.vectorize(characters.index)(grid)
                array[i, : grid.shape[0], : grid.shape[1]] = ids
        write_puzzles(args.output, split, form, *arrays)
        lines[split] = f"{len(pairs):,} puzzles on {height} x {width} cells, symbols {characters}"
    return lines


KINDS = {"sudoku": write_sudoku, "maze": write_mazes, "reasoning_gym": write_gym}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("kind", choices=KINDS)
    add("--size", type=int, help="rows and columns: 4, 6, 8 or 9; odd for a maze")
    add("--task", help="of reasoning_gym, such as mini_sudoku")
    add("--set", metavar="NAME=VALUE", nargs="+", default=[], help="settings of that task")
    add("--output", type=Path, required=True, help="folder, in which train and test are made")
    add("--clues", type=int, default=0, help="fewest clues of a Sudoku (default: as few as chance)")
    add("--loops", type=int, default=0, help="walls of a maze that are opened (default: 0)")
    add("--anywhere", action="store_true", help="start and goal of a maze are any open cells")
    add("--train", type=int, default=2000, help="most classes, or mazes, of train (default: 2000)")
    add("--test", type=int, default=500, help="the same of test (default: 500)")
    what = "equivalents of each class of Sudoku in train (default: 100)"
    add("--variants", type=int, default=100, help=what)
    add("--test-variants", type=int, default=1, help="the same in test (default: 1)")
    add("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    what = "puzzles drawn without a new class after which the search ends (default: 2000)"
    add("--patience", type=int, default=2000, help=what)
    args = parser.parse_args()
    needed = "task" if args.kind == "reasoning_gym" else "size"
    if getattr(args, needed) is None:
        parser.error(f"--{needed} is needed for {args.kind}")
    if args.kind == "sudoku" and not (4 <= args.size <= 9 and boxes(args.size)[0] > 1):
        parser.error("--size of a Sudoku is 4, 6, 8 or 9, whose boxes have two rows or more")
    for split, line in KINDS[args.kind](args).items():
        print(f"{args.output / split}: {line}")


if __name__ == "__main__":
    main()
