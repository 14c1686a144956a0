"""Mazes: the path from start to goal, which a local rule finds by filling dead ends.

A maze is a text, read row by row, with a wall ``%``, an open cell ``-``, the start S and the goal
G. The answer has an ``o`` on each cell of the path between them:

    %%%%%      %%%%%
    %S%G%      %S%G%
    %-%-%  →   %o%o%
    %---%      %ooo%
    %%%%%      %%%%%
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from canvas.arithmetic import Numbers, parse
from canvas.cells.local_rule import Law, LocalRule
from canvas.cells.spec import END, SYMBOL, TOKEN, ColumnKind, Inputs, RowKind
from canvas.choices import one_of
from canvas.layouts import ANSWER, CellIndex, Layout, Row, table, write
from canvas.problems import Problems
from canvas.symbols import BLANK, MASK, encode
from canvas.task import random_sizes
from canvas.texts import TextTask

LETTERS, PATH = "%-SG", "o"
# Digits of the text: ids in the published arrays of mazes, whose characters are `PUBLISHED`.
WALL, OPEN, START, GOAL, ON_PATH = range(1, 6)
PUBLISHED = "~#_SGo"
_WALL_ID, _OPEN_ID, _START_ID, _GOAL_ID, _PATH_ID = encode(LETTERS + PATH).tolist()
_SMALLEST = 5  # with four rooms


class DeadEnds(LocalRule):
    """Rule of `Grid`: an open cell with at most one neighbour that is not closed is closed.

    Walls are closed; start and goal never are. Each cell passes to its four neighbours whether it
    is closed, and writes ``o`` as long as it is not.

    Example: the cell in row 4, column 3 of the maze above has three open neighbours at first. Its
    neighbours on both sides are on the path, so that it stays open.
    """

    left = down = right = up = ("closed",)

    def __init__(self, base: int) -> None:
        super().__init__(base)
        tokens = _WALL_ID, _START_ID, _GOAL_ID, BLANK, MASK
        cell = ColumnKind("cell", tokens, ("cell", END))
        self.rows = {"cells": RowKind({"cell": cell}, ("cell",), ("", "cells"))}

    def classes(self, signal: str) -> int:
        return 2

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        ends = np.isin(inputs[TOKEN], (_START_ID, _GOAL_ID))
        closed = ~ends & ((inputs[TOKEN] != MASK) | (open_neighbours(inputs) < 2))
        symbol = np.where(closed, _OPEN_ID, _PATH_ID)
        return {SYMBOL: symbol, "closed": closed.astype(np.int64)}

    def laws(self, row: str, column: str) -> Sequence[Law]:
        return (ends_are_open, walls_are_closed, path_is_kept, dead_end_is_closed)


def open_neighbours(inputs: Inputs) -> np.ndarray:
    """Return the number of neighbours that exist and are not closed, int64 [N]."""
    sides = ("left", "right", "above", "below")
    return np.sum([(inputs[n] > 0) & (inputs[f"{n}.closed"] == 0) for n in sides], axis=0)


def ends_are_open(inputs: Inputs, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """closed' = 0; start and goal"""
    ends = np.isin(inputs[TOKEN], (_START_ID, _GOAL_ID))
    return ~ends | (outputs["closed"] == 0)


def walls_are_closed(inputs: Inputs, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """closed' = 1; walls, and blank cells beside a maze"""
    return ~np.isin(inputs[TOKEN], (_WALL_ID, BLANK)) | (outputs["closed"] == 1)


def path_is_kept(inputs: Inputs, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """closed' = 0 and o is written; two or more open neighbours"""
    kept = (outputs["closed"] == 0) & (outputs[SYMBOL] == _PATH_ID)
    return (inputs[TOKEN] != MASK) | (open_neighbours(inputs) < 2) | kept


def dead_end_is_closed(inputs: Inputs, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """closed' = 1 and - is written; at most one open neighbour"""
    closed = (outputs["closed"] == 1) & (outputs[SYMBOL] == _OPEN_ID)
    return (inputs[TOKEN] != MASK) | (open_neighbours(inputs) > 1) | closed


class Grid(Layout):
    """A square maze, whose open cells are all filled in at the same time."""

    name = "grid"
    sign = None
    local_rule = DeadEnds
    together = True
    solve: Callable[..., str]  # set by the task: the answer to a maze

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        side = isqrt(lengths[0])
        if side * side != lengths[0]:
            raise ValueError(f"a maze has as many rows as columns, and {lengths[0]} is no square")
        return side, side

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        for row, numbers, present in _by_rows(problems.operands[0]):
            write(content, row, 0, numbers, present)
        content[content == _OPEN_ID] = BLANK

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        texts, base = operands[0].to_text(), operands[0].base
        solved = Numbers.from_ints([parse(self.solve(text), base) for text in texts], base)
        for row, numbers, present in _by_rows(solved):
            yield Row(ANSWER, numbers, 0, row, present)

    def implied_lengths(self, content: np.ndarray) -> list[int]:
        return [content.size]

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        return {"maze": np.where(content == _PATH_ID, _OPEN_ID, content)[::-1, ::-1].ravel()}

    def answer_cells(self, content: np.ndarray) -> list[CellIndex]:
        return [(i, j) for i in range(len(content)) for j in range(content.shape[1])][::-1]


def _by_rows(mazes: Numbers) -> Iterator[tuple[int, Numbers, np.ndarray]]:
    """Yield the rows of B mazes: index, text of the row, and which mazes have it, bool [B]."""
    sides = np.sqrt(mazes.lengths).astype(np.int64)
    for row in range(int(sides.max(initial=0))):
        columns = np.arange(int(sides.max()))
        at = (sides - 1 - row)[:, None] * sides[:, None] + columns
        inside = (columns < sides[:, None]) & (row < sides[:, None])
        most = mazes.digits.shape[1] - 1
        digits = np.take_along_axis(mazes.digits, at.clip(0, most), axis=1) * inside
        yield row, Numbers(digits, inside.sum(axis=1), mazes.base), row < sides


@dataclass
class Maze(TextTask):
    """The path from S to G in a maze; with loops, a shortest one.

    Attributes:
        layout: `Grid`, or your own class.
        length: fewest and most rows of a maze, walls included; odd numbers are chosen.
        long_bias: a length is chosen with probability ∝ length ^ long_bias.
        loops: walls that are opened, each of which closes a loop. 0: there is one path, and typed
            mazes have to have one, too.
        anywhere: True: start and goal are any open cells; False: they are rooms.
    """

    letters, outputs, unit = LETTERS, PATH, "rows"
    requires = "a maze has as many rows as columns, one S, one G, and exactly one path between them"
    layouts = table([Grid()])

    layout: str = one_of("grid", layouts, open=True)
    length: tuple[int, int] = (_SMALLEST, 9)
    loops: int = 0
    anywhere: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._sides.size:
            raise ValueError(f"length has an odd number from {_SMALLEST} up, not {self.length}")
        if self.loops < 0:
            raise ValueError(f"loops is 0 or more, not {self.loops}")
        if isinstance(self.canvas_layout, Grid):
            self.canvas_layout.solve = self._solved

    @property
    def _sides(self) -> np.ndarray:
        sides = np.arange(self.length[0], self.length[1] + 1)
        return sides[(sides % 2 == 1) & (sides >= _SMALLEST)]

    @property
    def longest(self) -> tuple[int, ...]:
        return (int(self._sides[-1]) ** 2,)

    @property
    def example(self) -> str:
        return "maze S-%/%-%/%-G"

    def lengths(self, words: np.ndarray) -> np.ndarray:
        return self._sides[random_sizes(words, self._sides, self.long_bias)][:, None] ** 2

    def measures(self, problems: Problems) -> dict[str, np.ndarray]:
        return {"length": np.sqrt(problems.lengths[:, 0]).astype(int), "texts": problems.counts}

    def of_size(self, **size: int) -> tuple[int, ...]:
        if size["length"] % 2 == 0 or size["length"] < _SMALLEST:
            raise ValueError(f"mazes have an odd number of rows from {_SMALLEST} up")
        return super().of_size(**size | {"length": size["length"] ** 2})

    def random_operand(self, words: np.ndarray, lengths: np.ndarray) -> Numbers:
        digits = np.zeros(words.shape, dtype=np.uint8)
        for i, (seed, length) in enumerate(
            zip(words[:, 0].tolist(), lengths.tolist(), strict=True)
        ):
            random = np.random.default_rng(seed)
            outer = bool(random.integers(2))
            grid = draw_maze(isqrt(length), random, self.loops, self.anywhere, outer)
            digits[i, :length] = grid.ravel()[::-1]
        return Numbers(digits, lengths.astype(np.int64), self.base)

    def allows(self, problems: Problems) -> np.ndarray:
        return np.array([self._allowed(text) for text in problems.operands[0].to_text()], bool)

    def _allowed(self, text: str) -> bool:
        side = isqrt(len(text))
        if (
            side * side != len(text)
            or {*text} - {*LETTERS}
            or (text.count("S"), text.count("G")) != (1, 1)
        ):
            return False
        grid = _grid(text)
        return len(path(grid)) > 0 if self.loops else is_tree(grid)

    def solve(self, *texts: str) -> str:
        grid = _grid(texts[0])
        for cell in path(grid)[1:-1]:
            grid[cell] = ON_PATH
        return _text(grid)

    def parse(self, text: str) -> tuple[int, ...]:
        """Return the operand of a typed maze, row after row; see `TextTask.parse`.

        Spaces and ``/`` between rows do not count. The characters of published arrays are read as
        well: ``#`` for a wall, ``_`` for an open cell.

        Raises:
            ValueError: the text is no maze, or it has more than one path.
        """
        rows = text.strip().removeprefix(f"{self.name} ")
        return super().parse(rows.translate(str.maketrans("#_", "%-", " /\n")))

    def names(self, problems: Problems) -> list[str]:
        texts = problems.operands[0].to_text()
        return [f"{self.name} {'/'.join(_rows(text))}" for text in texts]


def _rows(text: str) -> list[str]:
    side = isqrt(len(text))
    if side * side != len(text):  # no maze: as it was typed
        return [text]
    return [text[i : i + side] for i in range(0, len(text), side)]


def _grid(text: str) -> np.ndarray:
    """Return a maze as digits, uint8 [side, side]."""
    side = isqrt(len(text))
    return np.array([*map(f" {LETTERS}".index, text)], dtype=np.uint8).reshape(side, side)


def _text(grid: np.ndarray) -> str:
    return "".join(f" {LETTERS}{PATH}"[digit] for digit in grid.ravel().tolist())


def draw_maze(
    size: int,
    random: np.random.Generator,
    loops: int = 0,
    anywhere: bool = False,
    outer: bool = True,
) -> np.ndarray:
    """Return a maze, uint8 [size, size], with the ids of published arrays.

    Rooms are at odd places, of which a random depth-first search makes a tree.

    Args:
        size: rows and columns, odd.
        random: generator of all choices.
        loops: walls between rooms that are opened afterwards; fewer if there are not so many.
        anywhere: True: start and goal are any open cells; False: rooms.
        outer: False: leave out the wall around it, so that rooms are at even places.
    """
    if not outer:
        return draw_maze(size + 2, random, loops, anywhere)[1:-1, 1:-1]
    grid = np.full((size, size), WALL, dtype=np.uint8)
    rooms = [(i, j) for i in range(1, size - 1, 2) for j in range(1, size - 1, 2)]
    start = rooms[random.integers(len(rooms))]
    grid[start] = OPEN
    todo = [start]
    while todo:
        i, j = todo[-1]
        steps = ((i - 2, j), (i + 2, j), (i, j - 2), (i, j + 2))
        near = [p for p in steps if 0 < p[0] < size - 1 and 0 < p[1] < size - 1 and grid[p] == WALL]
        if not near:
            todo.pop()
            continue
        room = near[random.integers(len(near))]
        grid[(i + room[0]) // 2, (j + room[1]) // 2] = grid[room] = OPEN
        todo.append(room)
    others = [room for room in rooms if room != start]
    goal = others[random.integers(len(others))]
    if loops:
        walls = [
            (i, j)
            for i, j in np.argwhere(grid == WALL).tolist()
            if (i + j) % 2 and 0 < i < size - 1 and 0 < j < size - 1
        ]
        for at in random.permutation(len(walls))[:loops].tolist():
            grid[walls[at]] = OPEN
    if anywhere:
        cells = [tuple(cell) for cell in np.argwhere(grid == OPEN).tolist()]
        start, goal = (cells[at] for at in random.choice(len(cells), 2, replace=False))
    grid[start], grid[goal] = START, GOAL
    return grid


def path(grid: np.ndarray) -> list[CellIndex]:
    """Return the cells of a shortest path from start to goal, both included; empty without one.

    Args:
        grid: digits of a maze, uint8 [H, W].
    """
    before, width = _search(grid), grid.shape[1] + 2
    at, found = int(_around(grid).argmax()), list[CellIndex]()  # the goal has the highest digit
    while before.get(at, at) != at:
        found.append((at // width - 1, at % width - 1))
        at = before[at]
    return [*found, (at // width - 1, at % width - 1)][::-1] if found else []


def is_tree(grid: np.ndarray) -> bool:
    """Return whether one path without a loop leads from the start to every open cell."""
    free = grid > WALL
    joined = (free[1:] & free[:-1]).sum() + (free[:, 1:] & free[:, :-1]).sum()
    return len(_search(grid)) == free.sum() == joined + 1


def _around(grid: np.ndarray) -> np.ndarray:
    """Return the digits of a maze with a wall around it, as one row."""
    wide = np.full((grid.shape[0] + 2, grid.shape[1] + 2), WALL, dtype=np.uint8)  # np.pad is slower
    wide[1:-1, 1:-1] = grid
    return wide.ravel()


def _search(grid: np.ndarray) -> dict[int, int]:
    """Search from the start, breadth first; return for each cell of `_around` the one before."""
    digits, width = _around(grid).tolist(), grid.shape[1] + 2
    start = digits.index(START)
    before, todo = {start: start}, [start]
    for cell in todo:
        for near in (cell - width, cell + width, cell - 1, cell + 1):
            if digits[near] > WALL and near not in before:
                before[near] = cell
                todo.append(near)
    return before
