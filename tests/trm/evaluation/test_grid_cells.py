import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import SPLITS, Problems, split_of
from canvas.subtraction import Subtraction
from canvas.task import Task
from trm.evaluation.grid_cells import cell_problems


def held_out(task: Task, lengths: tuple[int, ...]) -> set[tuple[int, ...]]:
    """All problems of such lengths in the test split."""
    low = [task.smallest if n == 1 else task.base ** (n - 1) for n in lengths]
    numbers = (range(least, task.base**n) for least, n in zip(low, lengths, strict=True))
    everything = [*itertools.product(*numbers)]
    test = split_of(Problems.from_ints(everything, task.base)) == SPLITS.index("test")
    return {problem for problem, held in zip(everything, test, strict=True) if held}


ADDITION = Addition(digits=(1, 2), addends=(2, 3))


@given(st.sampled_from((2, 3, 10)), st.lists(st.integers(4, 12), min_size=2, max_size=5))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_problems_have_their_cells_lengths_and_split_and_differ(base, lengths):
    task = Multiplication(base=base) if len(lengths) == 2 else Addition(base=base)
    problems = cell_problems(task, tuple(lengths), 60, seed=0)
    assert (problems.lengths == lengths).all()
    assert (split_of(problems) == SPLITS.index("test")).all()
    assert len(set(problems.to_ints())) == len(problems)


def test_repeated_problems_of_a_cell_are_replaced():
    # Of 6,500 pairs that are held out in base 2, some of 1,000 that are drawn come twice.
    assert len(set(cell_problems(Multiplication(base=2), (9, 9), 1000, seed=0).to_ints())) == 1000


@pytest.mark.parametrize(
    ("task", "lengths", "asked"),
    [
        *((Multiplication(), n, 10_000) for n in ((1, 1), (2, 1), (2, 2))),
        (Multiplication(base=3), (4, 5), 10_000),
        (Multiplication(base=2), (1, 1), 10_000),
        (Multiplication(), (3, 2), 9_000),  # more than the cell holds
        (ADDITION, (1, 1, 1), 10_000),  # zeros among them
    ],
)
def test_a_small_cell_gives_every_problem_that_is_held_out(task, lengths, asked):
    problems = cell_problems(task, lengths, asked, seed=3)
    assert set(problems.to_ints()) == held_out(task, lengths)
    assert len(problems) == len(held_out(task, lengths))


@pytest.mark.parametrize(
    ("tasks", "lengths"),
    [
        *(
            ([Multiplication(name, digits_a=(1, n)) for n, name in
              enumerate(Multiplication.layouts, start=1)], lengths)
            for lengths in ((2, 2), (10, 10))
        ),
        ([ADDITION, Addition("column_carries", digits=(1, 7), addends=(2, 5))], (5, 5, 5)),
    ],
)  # fmt: skip
def test_problems_depend_on_base_and_seed_alone(tasks, lengths):
    first, *others = (cell_problems(task, lengths, 50, seed=1).to_ints() for task in tasks)
    assert all(other == first for other in others)
    assert cell_problems(tasks[0], lengths, 50, seed=2).to_ints() != first


@pytest.mark.parametrize("others", [((10, 10), (10, 11)), ((10, 10), (11, 10))])
def test_cells_do_not_share_their_digits(others):
    # From one stream about every hundredth pair would have the same lowest digits: both problems
    # are kept at the first attempt.
    some, more = (
        cell_problems(Multiplication(), lengths, 2000, seed=0).operands[0].digits[:, :9]
        for lengths in others
    )
    assert not (some == more).all(axis=1).any()


@pytest.mark.parametrize("lengths", [(5, 10), (1, 2)])
def test_sizes_that_a_task_does_not_allow_have_no_problems(lengths):
    found = cell_problems(Subtraction("difference"), lengths, 20, seed=0)
    assert len(found) == 0
    assert len(found.operands) == 2
