"""The generator of puzzles: one solution each, one path each, and splits without equivalents."""

import sys
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from canvas.mazes import ON_PATH, is_tree, path
from trm.io.puzzle_files import read_puzzles


@pytest.fixture(scope="module")
def puzzles(program):
    return program("puzzles")


def written(puzzles, monkeypatch, folder, words):
    monkeypatch.setattr("sys.argv", ["puzzles.py", *words.split(), "--output", str(folder)])
    puzzles.main()
    return read_puzzles(folder, "train"), read_puzzles(folder, "test")


@pytest.mark.parametrize(("size", "boxes"), [(4, (2, 2)), (6, (2, 3))])
def test_every_sudoku_has_one_solution(puzzles, monkeypatch, tmp_path, size, boxes):
    words = f"sudoku --size {size} --clues {size * 3 - 2} --train 6 --test 2 --variants 2"
    train, test = written(puzzles, monkeypatch, tmp_path, words)
    names = [set(), set()]
    for split, found in zip((train, test), names, strict=True):
        for given, solution in zip(split.inputs, split.labels, strict=True):
            grid, digits = given.astype(int) - 1, solution.astype(int) - 1
            solved = list(puzzles.solutions(grid))
            assert len(solved) == 1
            assert np.array_equal(solved[0], digits)
            assert ((grid == 0) | (grid == digits)).all()
            every = set(range(1, size + 1))
            high, wide = boxes
            for i in range(size):
                assert set(digits[i]) == set(digits[:, i]) == every
            for i, j in product(range(0, size, high), range(0, size, wide)):
                assert set(digits[i : i + high, j : j + wide].ravel()) == every
            found.add(puzzles.canonical(grid))
    assert not names[0] & names[1]
    assert len(names[0]) == len(train.groups) - 1


def test_equivalent_sudoku_have_one_name(puzzles):
    random = np.random.default_rng(0)
    grid, solution = puzzles.sudoku(4, 5, random)
    moved = [puzzles.variant(grid, solution, random)[0] for _ in range(5)]
    assert {puzzles.canonical(one) for one in moved} == {puzzles.canonical(grid)}
    other, _ = puzzles.sudoku(4, 7, random)
    assert puzzles.canonical(other) != puzzles.canonical(grid)
    assert len(puzzles.symmetries(4)) == 128
    assert len(puzzles.symmetries(6)) == 48 * 72


def test_the_path_of_a_maze_is_the_only_one(puzzles, monkeypatch, tmp_path):
    train, test = written(puzzles, monkeypatch, tmp_path, "maze --size 9 --train 8 --test 3")
    assert len(train) == 8
    assert not {one.tobytes() for one in train.inputs} & {one.tobytes() for one in test.inputs}
    for grid, solution in zip(train.inputs, train.labels, strict=True):
        open_cells = grid != 1
        edges = (open_cells[1:] & open_cells[:-1]).sum() + (
            open_cells[:, 1:] & open_cells[:, :-1]
        ).sum()
        assert edges == open_cells.sum() - 1  # connected, as checked below: a tree
        (start,) = map(tuple, np.argwhere(grid == 3))
        before, todo = {start: None}, [start]
        for i, j in todo:
            for place in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                if open_cells[place] and place not in before:
                    before[place] = (i, j)
                    todo.append(place)
        assert len(before) == open_cells.sum()
        (place,) = map(tuple, np.argwhere(grid == 4))
        path = set()
        while before[place] is not None:
            place = before[place]
            path.add(place)
        assert path - {start} == set(map(tuple, np.argwhere(solution == 5)))
        assert ((solution == grid) | (solution == 5)).all()


def test_with_a_loop_the_labels_are_a_shortest_path(puzzles, monkeypatch, tmp_path):
    train, _ = written(puzzles, monkeypatch, tmp_path, "maze --size 9 --loops 2 --train 6 --test 1")
    for grid, solution in zip(train.inputs, train.labels, strict=True):
        assert not is_tree(grid)
        assert (solution == ON_PATH).sum() == len(path(grid)) - 2


@pytest.fixture
def library(monkeypatch):
    """A stand-in of reasoning-gym; the list of its puzzles."""
    found = list[dict]()
    stand_in = SimpleNamespace(create_dataset=lambda task, seed, size: found)
    monkeypatch.setitem(sys.modules, "reasoning_gym", stand_in)
    return found


def test_grids_of_reasoning_gym_become_arrays(puzzles, library, monkeypatch, tmp_path):
    for n in range(2, 9):  # an unknown cell, and grids of several sizes
        answer = "\n".join([" ".join("12" * n)] * 2)
        library.append({"metadata": {"puzzle": [[1, 0] * n, [1, 2] * n]}, "answer": answer})
    words = "reasoning_gym --task mini_sudoku --train 4 --test 1"
    train, _ = written(puzzles, monkeypatch, tmp_path, words)
    assert train.format.characters == "~.12"
    high, wide = train.inputs.shape[1:]
    assert (high, wide >= 8) == (2, True)
    for given, solution in zip(train.inputs, train.labels, strict=True):
        n = (given[0] > 0).sum() // 2
        assert train.format.to_text(given[0]) == "1." * n + "~" * (wide - 2 * n)
        assert train.format.to_text(solution[0]) == "12" * n + "~" * (wide - 2 * n)


def test_a_shortest_path_of_reasoning_gym_is_drawn(puzzles, library):
    grid = [["*", "O", "X"], ["X", "O", "#"]]
    library.append({"metadata": {"matrix": grid}, "answer": "infeasible"})
    library.append({"metadata": {"matrix": grid}, "answer": "right down right"})
    ((given, solution),) = puzzles.gym_puzzles("shortest_path", {}, 0)
    assert given.tolist() == grid
    assert solution.tolist() == [["*", "o", "X"], ["X", "o", "#"]]


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ({"metadata": {"tree": 1}, "answer": "1"}, "it has no grid"),
        ({"metadata": {"matrix": [[1, 2]]}, "answer": "1\n2"}, "its answers are no grids like"),
    ],
)
def test_tasks_without_grids_are_refused(puzzles, library, puzzle, message):
    library.append(puzzle)
    with pytest.raises(SystemExit, match=f"--task other: {message}"):
        next(puzzles.gym_puzzles("other", {}, 0))


def test_without_the_library_a_sentence_names_it(puzzles, monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(SystemExit, match="pip install reasoning-gym"):
        next(puzzles.gym_puzzles("sudoku", {}, 0))
