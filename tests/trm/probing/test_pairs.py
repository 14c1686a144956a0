"""Pairs differ in one thing alone, whatever the layout."""

from dataclasses import replace

import numpy as np
import pytest

from canvas import symbols
from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import SPLITS, Problems, split_of
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.commands import heads
from trm.probing.pairs import CARRY, DIGIT, FACTOR, KINDS, TOTAL, Pair, draw_pairs, kinds_of
from trm.solving.solver import Solver

FOUR = {"digits_a": 4, "digits_b": 4}
ADDED = {"digits": 5, "addends": 2}


@pytest.fixture(scope="module")
def lattice() -> Solver:
    return load_solver(SHIPPED, device="cpu")


@pytest.fixture(scope="module")
def adding(lattice) -> Solver:
    """Pairs are drawn alike whatever the model."""
    return replace(lattice, task=Addition("column", digits=(1, 5), addends=(2, 2)))


def test_the_command_offers_all_kinds():
    assert {*heads.KINDS} == {kind for of in KINDS.values() for kind in of}


def operands(pair: Pair) -> list[tuple[str, ...]]:
    """Of both problems, the numbers as written."""
    return [tuple(name.replace("+", "x").split(" x ")) for name in pair.names]


def places(one: str, other: str) -> list[int]:
    """Where two numbers differ, from the lowest digit."""
    assert len(one) == len(other)
    return [k for k, (x, y) in enumerate(zip(one[::-1], other[::-1], strict=True)) if x != y]


def test_both_problems_of_every_pair_are_held_out_and_there_are_as_many_as_asked(lattice):
    for kind in kinds_of(lattice.task):
        pairs = draw_pairs(lattice, kind, FOUR, 20, seed=0)
        assert len(pairs) == 20
        numbers = [tuple(map(int, one)) for pair in pairs for one in operands(pair)]
        assert (split_of(Problems.from_ints(numbers)) == SPLITS.index("test")).all()
        assert len({pair.names for pair in pairs}) == 20


def test_more_pairs_begin_with_the_same_ones_and_another_seed_has_others(lattice):
    drawn = [
        [pair.names for pair in draw_pairs(lattice, CARRY, FOUR, number, seed)]
        for number, seed in ((5, 0), (30, 0), (5, 1))
    ]
    assert drawn[0] == drawn[1][:5] != drawn[2]


def test_another_digit_of_the_multiplicand_changes_the_first_row(lattice):
    for pair in draw_pairs(lattice, DIGIT, FOUR, 20, seed=0):
        (a, b), (other, same) = operands(pair)
        assert b == same
        assert len(places(a, other)) == 1
        assert pair.row == 0 or b.endswith("0" * pair.row)


def test_another_multiplier_digit_changes_its_own_row_and_none_above(lattice):
    for pair in draw_pairs(lattice, FACTOR, FOUR, 20, seed=0):
        (a, b), (same, other) = operands(pair)
        assert a == same
        assert places(b, other) == [pair.row]
        differ = np.argwhere(pair.inputs[0] != pair.inputs[1])
        assert len(differ) == 1  # the digit in the margin
        assert (pair.labels[:, differ[0, 0]] != pair.inputs[:, differ[0, 0]]).any()


def test_another_carry_alone_leaves_the_digit_below_the_other_one_as_it_is(lattice):
    for pair in draw_pairs(lattice, CARRY, FOUR, 20, seed=0):
        (a, b), (other, same) = operands(pair)
        assert (b, pair.row) == (same, 0)
        (place,) = places(a, other)
        first, second = (str(int(one) * int(b[-1])) for one in (a, other))
        changed = places(first, second)
        assert changed[0] == place + 1  # the same digits meet there and farther left
        assert first[-1 - place] == second[-1 - place]


def test_another_row_above_is_that_of_another_digit_before(lattice):
    for pair in draw_pairs(lattice, TOTAL, FOUR, 20, seed=0):
        (a, b), (same, other) = operands(pair)
        assert a == same
        assert places(b, other) == [pair.row - 1]
        row = int(np.argwhere(pair.inputs[0] == symbols.MASK)[0, 0])
        differ = pair.inputs[0] != pair.inputs[1]
        assert differ[row - 1].sum() > 1  # the total, and the digit in the margin
        assert not differ[row].any()


def test_another_carry_in_a_sum_comes_from_two_other_digits(adding):
    for pair in draw_pairs(adding, CARRY, ADDED, 20, seed=0):
        one, other = operands(pair)
        (place,) = {k for x, y in zip(one, other, strict=True) for k in places(x, y)}
        columns = [sum(int(number[-1 - place]) for number in of) for of in (one, other)]
        assert abs(columns[0] - columns[1]) == 10
        sums = [str(sum(map(int, of))) for of in (one, other)]
        assert places(*sums)[0] == place + 1


def test_another_digit_of_a_sum_is_of_one_addend(adding):
    for pair in draw_pairs(adding, DIGIT, ADDED, 20, seed=0):
        one, other = operands(pair)
        assert sum(len(places(x, y)) for x, y in zip(one, other, strict=True)) == 1


@pytest.mark.parametrize("layout", ["standard", "accumulate", "interleaved", "running_sum"])
@pytest.mark.parametrize("kind", KINDS["multiplication"])
def test_symbols_stand_in_the_same_cells_in_every_layout(lattice, layout, kind):
    solver = replace(lattice, task=Multiplication(layout))
    pairs = draw_pairs(solver, kind, {"digits_a": 3, "digits_b": 3}, 6, seed=0)
    assert len(pairs) == 6
    for pair in pairs:
        masked = pair.inputs == symbols.MASK
        assert (masked[0] == masked[1]).all()
        assert (pair.labels[0] != pair.labels[1])[masked[0]].any()
        for cells in (pair.inputs, pair.labels):
            assert ((cells[0] == symbols.BLANK) == (cells[1] == symbols.BLANK)).all()


def test_where_all_digits_meet_at_once_no_carry_is_alone(lattice):
    solver = replace(lattice, task=Multiplication("direct"))
    assert draw_pairs(solver, CARRY, {"digits_a": 3, "digits_b": 2}, 3, seed=0) == []
    assert len(draw_pairs(solver, DIGIT, {"digits_a": 3, "digits_b": 2}, 3, seed=0)) == 3


def test_a_kind_that_the_task_has_not_is_named(adding):
    with pytest.raises(ValueError, match="factor"):
        draw_pairs(adding, FACTOR, ADDED, 3, seed=0)
