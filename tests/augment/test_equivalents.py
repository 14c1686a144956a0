"""Equivalents of puzzles keep the rules of Sudoku, and revealed cells are those of the solution."""

import numpy as np
import pytest

from augment.equivalents import Equivalents, reveal
from canvas.problems import keys

SOLVED = np.array([[1, 2, 3, 4, 5, 6], [4, 5, 6, 1, 2, 3], [2, 3, 1, 5, 6, 4]])
SOLVED = np.concatenate([SOLVED, [[5, 6, 4, 2, 3, 1], [3, 1, 2, 6, 4, 5], [6, 4, 5, 3, 1, 2]]])
CHARACTERS = ".123456"


def many(number=64):
    """Return the same puzzle many times: inputs with some clues, labels, answer, and keys."""
    labels = np.tile(SOLVED, (number, 1, 1)).astype(np.int64)
    inputs = np.where(np.arange(36).reshape(6, 6) % 3 == 0, SOLVED, 0)
    inputs = np.tile(inputs, (number, 1, 1)).astype(np.uint8)
    return inputs, labels, labels > 0, keys(0, "train", 0, np.arange(number))


def units(grids):
    """Return the rows, columns and boxes of Sudoku 6 x 6, [B, 18, 6]."""
    boxes = grids.reshape(-1, 3, 2, 2, 3).swapaxes(2, 3).reshape(-1, 6, 6)
    return np.concatenate([grids, grids.swapaxes(1, 2), boxes], axis=1)


def test_equivalents_of_a_sudoku_are_solved_by_its_solution():
    inputs, labels, _, key = many()
    arrays = {"inputs": inputs, "labels": labels, "answer": inputs == 0}
    found = Equivalents("123456", 2, 3).apply(arrays, key, CHARACTERS)
    assert (np.sort(units(found["labels"])) == np.arange(1, 7)).all()
    assert np.array_equal(found["answer"], found["inputs"] == 0)
    assert (found["inputs"] == found["labels"])[~found["answer"]].all()
    assert len({one.tobytes() for one in found["labels"]}) > 60
    assert found["inputs"].dtype == np.uint8


def test_all_orders_of_lines_and_symbols_occur():
    _, labels, _, key = many(8000)
    found = Equivalents("123456", 2, 3).apply({"labels": labels}, key, CHARACTERS)["labels"]
    lines = [set(SOLVED[2 * i : 2 * i + 2, 0]) for i in range(3)]
    assert len({tuple(one[:, 0]) for one in found}) == 720
    kept = Equivalents(band=2).apply({"labels": labels}, key, CHARACTERS)["labels"]
    orders = {tuple(one[:, 0]) for one in kept}
    assert len(orders) == 6 * 2**3
    assert {frozenset(order[:2]) for order in orders} == {frozenset(one) for one in lines}


def test_cells_without_a_label_keep_it():
    _, labels, _, key = many()
    labels[:, 0] = -100
    found = Equivalents("123456", 2, 3).apply({"labels": labels}, key, CHARACTERS)["labels"]
    assert ((found == -100).sum(axis=(1, 2)) == 6).all()


def test_without_settings_a_puzzle_stays():
    inputs, _, _, key = many()
    assert np.array_equal(Equivalents().apply({"inputs": inputs}, key, "")["inputs"], inputs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"symbols": "127"}, "'7' is no symbol of these puzzles"),
        ({"band": 4}, "band: 4 does not divide a canvas of 6 x 6"),
        ({"stack": -1}, "stack: -1 does not divide"),
    ],
)
def test_equivalents_that_a_puzzle_has_not_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Equivalents(**settings).check(CHARACTERS, 6, 6)


def test_revealed_cells_are_those_of_the_solution():
    inputs, labels, answer, key = many(1000)
    found = reveal(inputs, labels, answer, 0.5, key)
    changed = found != inputs
    assert (found[changed] == labels[changed]).all()
    numbers = changed.sum(axis=(1, 2))
    assert 0.4 < (numbers == 0).mean() < 0.6
    assert {*range(24)} <= {*numbers.tolist()}
    assert np.array_equal(reveal(inputs, labels, answer, 0.0, key), inputs)
    assert np.array_equal(reveal(inputs, labels, ~answer, 1.0, key), inputs)
