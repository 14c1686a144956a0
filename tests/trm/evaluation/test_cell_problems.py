import numpy as np
import pytest

from canvas.layouts import LAYOUTS
from canvas.problems import SPLITS, Problems, Task, split_of
from trm.evaluation.cell_problems import cell_problems


def pairs(problems: Problems) -> list[tuple[int, int]]:
    return list(zip(problems.a.to_ints(), problems.b.to_ints(), strict=True))


def held_out(base: int, digits_a: int, digits_b: int) -> set[tuple[int, int]]:
    """All pairs of such lengths in the test split."""
    everything = [
        (a, b)
        for a in range(base ** (digits_a - 1), base**digits_a)
        for b in range(base ** (digits_b - 1), base**digits_b)
    ]
    problems = Problems.from_ints(everything, base)
    test = split_of(problems.a, problems.b) == SPLITS.index("test")
    return {pair for pair, held in zip(everything, test, strict=True) if held}


@pytest.mark.parametrize("base", [2, 3, 10])
@pytest.mark.parametrize("lengths", [(4, 3), (5, 8), (12, 10), (30, 1), (1, 30)])
def test_problems_have_their_cells_lengths_and_split_and_differ(base, lengths):
    problems = cell_problems(Task(base=base), *lengths, 60, seed=0)
    assert (set(problems.a.lengths), set(problems.b.lengths)) == ({lengths[0]}, {lengths[1]})
    assert (split_of(problems.a, problems.b) == SPLITS.index("test")).all()
    assert len(set(pairs(problems))) == len(problems)


@pytest.mark.parametrize(
    ("base", "lengths"), [(10, (1, 1)), (10, (2, 1)), (10, (2, 2)), (3, (4, 5)), (2, (1, 1))]
)
def test_a_small_cell_gives_every_pair_that_is_held_out(base, lengths):
    problems = cell_problems(Task(base=base), *lengths, 10_000, seed=3)
    assert set(pairs(problems)) == held_out(base, *lengths)
    assert len(problems) == len(held_out(base, *lengths))


def test_more_can_be_asked_of_a_larger_cell_than_it_holds():
    problems = cell_problems(Task(), 3, 2, 9_000, seed=0)
    assert set(pairs(problems)) == held_out(10, 3, 2)


def test_a_pair_that_is_drawn_again_is_left_out():
    # 6,500 pairs are held out: of 1,000 drawn some come twice.
    problems = cell_problems(Task(base=2), 9, 9, 1000, seed=0)
    assert len(problems) == len(set(pairs(problems))) == 1000


@pytest.mark.parametrize("lengths", [(2, 2), (10, 10)])
def test_problems_depend_on_base_and_seed_alone(lengths):
    tasks = [Task(name, digits_a=(1, n)) for n, name in enumerate(LAYOUTS, start=1)]
    first, *others = (pairs(cell_problems(task, *lengths, 50, seed=1)) for task in tasks)
    assert all(other == first for other in others)
    assert pairs(cell_problems(tasks[0], *lengths, 50, seed=2)) != first


def test_cells_do_not_share_their_digits():
    some = cell_problems(Task(), 10, 10, 50, seed=0)
    more = cell_problems(Task(), 10, 11, 50, seed=0)
    assert not np.intersect1d(some.a.to_ints(), more.a.to_ints()).size


def test_cells_with_the_same_digits_of_the_multiplier_do_not_share_those_of_the_multiplicand():
    # From one stream about every hundredth pair would have the same lowest digits: both problems
    # are kept at the first attempt.
    some, more = (cell_problems(Task(), n, 10, 2000, seed=0).a.digits[:, :9] for n in (10, 11))
    assert not (some == more).all(axis=1).any()
