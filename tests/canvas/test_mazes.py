"""Mazes, and the rule that fills their dead ends."""

from dataclasses import replace

import numpy as np
import pytest

from canvas.cells.drawn import drawn_cell_inputs
from canvas.cells.order import WritingOrder, settle
from canvas.cells.reachable import reachable_cell_inputs
from canvas.cells.spec import SYMBOL, TOKEN
from canvas.mazes import PUBLISHED, Maze, draw_maze, is_tree, path
from canvas.problems import SPLITS, split_of
from canvas.reading import read
from canvas.sampling import sample
from canvas.symbols import MASK, decode, encode

TASK = Maze()
RULE = TASK.local_rule()
EXAMPLE = "%%%%%/%S%G%/%-%-%/%---%/%%%%%"
SIDES = ("left", "right", "above", "below")


def drawn(problems, margin=0):
    side = int(np.sqrt(problems.lengths.max()))
    return TASK.canvas_layout.draw_worked(problems, side + margin, side + 2 * margin, 0, margin)


def test_a_maze_is_drawn_and_read_back():
    problem = TASK.parsed([f"maze {EXAMPLE}"])
    drawing = drawn(problem, margin=2)
    assert [decode(row) for row in drawing.masked[0, 1:3]] == ["__%S%G%__", "__%.%.%__"]
    assert [decode(row) for row in drawing.truth[0, 2:4]] == ["__%o%o%__", "__%ooo%__"]
    found = read(drawing.truth[0], TASK.canvas_layout, TASK.base)
    assert found.operands == problem.to_ints()[0]
    assert found.answer == TASK.answer(found.operands)
    assert TASK.names(problem) == [f"maze {EXAMPLE}"]


def test_published_characters_are_read():
    published = EXAMPLE.replace("%", "#").replace("-", "_").replace("/", " ")
    assert TASK.parse(published) == TASK.parse(EXAMPLE)
    grid = draw_maze(9, np.random.default_rng(0))
    text = "".join(PUBLISHED[digit] for digit in grid.ravel())
    assert len(TASK.parse(text)) == 1


@pytest.mark.parametrize("split", SPLITS)
def test_drawn_mazes_are_trees_of_their_split(split):
    problems = sample(TASK, 0, split, 0, np.arange(30))
    assert TASK.allows(problems).all()
    assert (split_of(problems) == SPLITS.index(split)).all()
    again = sample(TASK, 0, split, 0, np.arange(30))
    assert problems.to_ints() == again.to_ints()
    assert {*problems.lengths[:, 0].tolist()} == {25, 49, 81}


def test_loops_are_opened_and_ends_moved():
    random = np.random.default_rng(0)
    grids = [draw_maze(11, random, loops=3, anywhere=True) for _ in range(20)]
    assert not any(is_tree(grid) for grid in grids)
    assert all(path(grid) for grid in grids)
    ends = np.concatenate([np.argwhere(grid > 2) for grid in grids])
    assert (ends % 2 == 0).any()  # not in a room
    assert is_tree(draw_maze(11, random))
    assert (
        replace(TASK, loops=1)
        .allows(sample(replace(TASK, loops=1), 0, "train", 0, np.arange(9)))
        .all()
    )


def test_each_open_cell_reads_all_four_sides():
    drawing = drawn(TASK.parsed([EXAMPLE]))
    found = drawn_cell_inputs(RULE, drawing)
    cells = zip(found.row.tolist(), found.column.tolist(), strict=True)
    around = {place: cell for cell, place in enumerate(cells)}
    for (row, column), cell in around.items():
        for name, near in zip(SIDES, ((0, -1), (0, 1), (-1, 0), (1, 0)), strict=True):
            other = around.get((row + near[0], column + near[1]))
            assert found.cell_inputs[name][cell] == (other is not None)
            if other is not None:
                assert found.cell_inputs[f"{name}.closed"][cell] == found.outputs["closed"][other]


def all_inputs():
    return RULE.cell_inputs(reachable_cell_inputs(RULE))


def test_every_message_from_every_side_is_tried():
    inputs = all_inputs()
    assert len(inputs[TOKEN]) == 5 * 3**4
    problems = sample(TASK, 0, "train", 0, np.arange(50))
    found = drawn_cell_inputs(RULE, drawn(problems, margin=1))
    assert np.isin(found.updates, reachable_cell_inputs(RULE)).all()


def test_the_rule_is_monotone():
    """A neighbour that is closed never opens a cell."""
    inputs, before = all_inputs(), RULE.apply(all_inputs())["closed"]
    for side in SIDES:
        more = {**inputs, f"{side}.closed": np.where(inputs[side] > 0, 1, 0)}
        assert (RULE.apply(more)["closed"] >= before).all()


def test_each_flipped_decision_breaks_a_law():
    inputs = all_inputs()
    right = RULE.apply(inputs)
    for flipped in ({"closed": 1 - right["closed"]}, {SYMBOL: np.zeros_like(right[SYMBOL])}):
        outputs = {**right, **flipped}
        broken = ~np.all([law(inputs, outputs) for law in RULE.laws("cells", "cell")], axis=0)
        assert (broken == ((inputs[TOKEN] == MASK) | ("closed" in flipped))).all()
    assert np.all([law(inputs, right) for law in RULE.laws("cells", "cell")])


@pytest.mark.parametrize("loops", [0, 3])
def test_any_order_of_updates_ends_alike(loops):
    task, random = Maze(length=(11, 11), loops=loops, anywhere=True), np.random.default_rng(0)
    drawing = task.canvas_layout.draw_worked(sample(task, 0, "train", 0, np.arange(1)))
    found = drawn_cell_inputs(RULE, drawing)
    order = WritingOrder.of(np.ones(drawing.truth.shape, bool), RULE.whole.directions)
    token = drawing.masked[order.canvas, order.row, order.column].astype(int)
    messages = np.zeros((len(token) + 1, 2), dtype=int)
    messages[:-1, 0] = 1
    for _ in range(60):  # each cell alone, in a new order each time
        for cell in random.permutation(len(token)):
            inputs = RULE.inputs_from(token[[cell]], messages[order.sources[[cell]]])
            messages[cell, 1] = RULE.apply(inputs)["closed"][0]
    assert (messages[:-1, 1] == found.outputs["closed"]).all()
    if not loops:
        assert ((found.outputs[SYMBOL] == drawing.truth.ravel()) | (token != MASK)).all()


def test_updates_end_if_nothing_settles():
    """A decision that flips for ever is stopped."""
    messages, calls = np.array([[1, 0], [1, 0], [0, 0]]), []

    def flip(cells, around):
        calls.append(len(cells))
        return np.stack([np.ones(len(cells), int), 1 - around[:, 0, 1]], axis=1)

    settle(flip, messages, np.arange(2), np.array([[1], [0]]), most=5)
    assert calls == [2] * 5


def test_loops_leave_no_dead_end():
    task = Maze(length=(9, 9), loops=2)
    drawing = task.canvas_layout.draw_worked(sample(task, 0, "train", 0, np.arange(20)))
    closed = drawn_cell_inputs(RULE, drawing).outputs["closed"].reshape(drawing.truth.shape)
    kept = np.pad(closed == 0, ((0, 0), (1, 1), (1, 1)))
    near = kept[:, :-2, 1:-1] * 1 + kept[:, 2:, 1:-1] + kept[:, 1:-1, :-2] + kept[:, 1:-1, 2:]
    asked = drawing.masked == MASK
    assert (near[asked & (closed == 0)] >= 2).all()
    assert (closed == 0)[drawing.truth == encode("o")[0]].all()
