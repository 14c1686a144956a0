import itertools

import numpy as np
import pytest

from canvas.arithmetic import BASES, Numbers
from canvas.layouts import LAYOUTS, get_layout
from canvas.problems import (
    SPLITS,
    Problems,
    Task,
    keys,
    random_below,
    random_words,
    sample,
    split_of,
)

every_split = pytest.mark.parametrize("split", SPLITS)

TASK = Task("lattice", digits_a=(1, 7), digits_b=(2, 5))


def pairs(problems: Problems) -> list[tuple[int, int]]:
    return list(zip(problems.a.to_ints(), problems.b.to_ints(), strict=True))


def all_pairs(digits_a: int, digits_b: int) -> Problems:
    """Every problem with operands of exactly so many digits."""
    ranges = (range(10 ** (n - 1), 10**n) for n in (digits_a, digits_b))
    return Problems.from_ints(list(itertools.product(*ranges)))


def chi_square(counts: np.ndarray, shares: np.ndarray) -> float:
    expected = shares * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def counts_of_lengths(task: Task, count: int = 12_000) -> np.ndarray:
    """How often each pair of lengths is drawn, ``[lengths of a, lengths of b]``."""
    problems = sample(task, 0, "train", 0, np.arange(count))
    n, m = problems.a.lengths - task.digits_a[0], problems.b.lengths - task.digits_b[0]
    counts = np.zeros([high - low + 1 for low, high in (task.digits_a, task.digits_b)], dtype=int)
    np.add.at(counts, (n, m), 1)
    return counts


# The split


def test_a_pair_stays_in_its_split_however_its_digits_are_stored():
    problems = sample(TASK, 0, "train", 0, np.arange(200))
    a, b = problems.a, problems.b
    wide = [Numbers(x.padded(x.digits.shape[1] + k), x.lengths) for x, k in ((a, 9), (b, 30))]
    expected = split_of(a, b)
    assert np.array_equal(split_of(*wide), expected)
    one_by_one = [split_of(*(Numbers.from_ints([x]) for x in pair))[0] for pair in pairs(problems)]
    assert one_by_one == expected.tolist()


def test_the_order_of_the_operands_does_not_matter():
    problems = all_pairs(2, 2)
    assert np.array_equal(split_of(problems.a, problems.b), split_of(problems.b, problems.a))


@pytest.mark.parametrize("digits", [3, 60])
def test_the_splits_hold_eighty_ten_and_ten_per_cent(digits):
    words = np.random.default_rng(0).integers(10, size=(2, 40_000, digits))
    split = split_of(*(Numbers.from_digits(operand) for operand in words))
    shares = np.bincount(split, minlength=3) / split.size
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.008)  # four standard deviations or more


def test_the_splits_cover_small_operands_evenly():
    problems = all_pairs(2, 2)
    test = split_of(problems.a, problems.b) == SPLITS.index("test")
    by_a = test.reshape(90, 90).mean(axis=1)
    assert by_a.min() > 0
    assert by_a.max() < 0.3


@every_split
@pytest.mark.parametrize("base", BASES)
def test_every_sample_belongs_to_its_split(split, base):
    task = Task("standard", base, digits_a=(1, 4), digits_b=(1, 6))
    problems = sample(task, 5, split, 2, np.arange(300))
    assert (split_of(problems.a, problems.b) == SPLITS.index(split)).all()


def test_what_one_task_trains_on_is_never_another_task_s_test():
    index = np.arange(3000)
    tasks = [
        Task("lattice", digits_a=(1, 2), digits_b=(1, 2)),
        Task("standard", digits_a=(2, 3), digits_b=(1, 1)),
        Task("accumulate", digits_a=(1, 1), digits_b=(1, 3), long_bias=1.0),
    ]
    seen = {
        (k, split): {tuple(sorted(pair)) for pair in pairs(sample(task, k, split, 0, index))}
        for k, task in enumerate(tasks)
        for split in SPLITS
    }
    for (one, trained), (other, tested) in itertools.product(seen, seen):
        shared = seen[one, trained] & seen[other, tested]
        if trained == tested:
            assert shared, "the tasks overlap, else this test says nothing"
        else:
            assert not shared


def test_the_split_is_the_same_in_every_release():
    known = {(1, 1): 1, (2, 3): 0, (12, 34): 0, (321, 654): 0, (758, 3): 2, (10**20, 7): 1}
    problems = Problems.from_ints(list(known))
    assert split_of(problems.a, problems.b).tolist() == list(known.values())


# Samples


def test_samples_are_the_same_in_every_release():
    names = sample(Task(), 0, "test", 0, np.arange(4)).names()
    assert names == ["758 x 3", "826 x 9", "893 x 90", "51 x 4"]


@every_split
def test_a_sample_depends_on_its_index_alone(split):
    index = np.arange(64)
    together = pairs(sample(TASK, 1, split, 3, index))
    singly = [pairs(sample(TASK, 1, split, 3, np.array([i])))[0] for i in index]
    assert singly == together
    order = np.random.default_rng(0).permutation(index)
    assert pairs(sample(TASK, 1, split, 3, order)) == [together[i] for i in order]
    for worker in range(3):
        mine = index[worker::3]
        assert pairs(sample(TASK, 1, split, 3, mine)) == [together[i] for i in mine]
    assert pairs(sample(TASK, 1, split, 3, np.repeat(index[:2], 2))) == [
        together[i] for i in (0, 0, 1, 1)
    ]


def test_the_layout_does_not_change_the_problems():
    drawn = [
        pairs(sample(Task(name, digits_a=(2, 4)), 0, "test", 0, np.arange(20))) for name in LAYOUTS
    ]
    assert all(same == drawn[0] for same in drawn)


def test_epochs_seeds_and_splits_draw_other_problems():
    task = Task(digits_a=(8, 8), digits_b=(8, 8))
    drawn = [
        pairs(sample(task, seed, split, epoch, np.arange(100)))
        for seed, split, epoch in itertools.product((0, 1, -1), SPLITS, (0, 1, 10**6))
    ]
    assert len(set(itertools.chain(*drawn))) == 27 * 100


def test_samples_have_the_lengths_of_the_task():
    problems = sample(TASK, 0, "validation", 0, np.arange(500))
    assert set(problems.a.lengths.tolist()) == set(range(1, 8))
    assert set(problems.b.lengths.tolist()) == set(range(2, 6))
    assert problems.a.lengths.tolist() == [len(str(a)) for a, _ in pairs(problems)]
    assert problems.b.lengths.tolist() == [len(str(b)) for _, b in pairs(problems)]


def test_every_pair_of_lengths_is_drawn_evenly():
    counts = counts_of_lengths(TASK)
    assert chi_square(counts, np.full(counts.shape, 1 / counts.size)) < 60  # 27 ± 7.3 expected


@pytest.mark.parametrize("bias", [1.0, 2.0, -0.5])
def test_a_long_bias_draws_lengths_by_their_product_to_that_power(bias):
    task = Task(digits_a=(1, 4), digits_b=(1, 3), long_bias=bias)
    weights = np.outer(range(1, 5), range(1, 4)) ** bias
    assert chi_square(counts_of_lengths(task), weights / weights.sum()) < 35  # 11 ± 4.7 expected


def test_operands_are_drawn_evenly_within_their_length():
    problems = sample(Task(digits_a=(2, 2), digits_b=(9, 9)), 0, "train", 0, np.arange(18_000))
    counts = np.bincount(problems.a.to_ints(), minlength=100)[10:]
    assert chi_square(counts, np.full(90, 1 / 90)) < 150  # 89 ± 13 expected


def test_no_samples_are_drawn_for_no_indices():
    assert len(sample(TASK, 0, "train", 0, np.arange(0))) == 0


def test_the_one_pair_of_one_digit_numbers_in_base_2_is_in_one_split_only():
    task = Task("standard", base=2, digits_a=(1, 1), digits_b=(1, 1))
    one = Numbers.from_ints([1], base=2)
    home = SPLITS[split_of(one, one)[0]]
    for split in SPLITS:
        if split == home:
            assert pairs(sample(task, 0, split, 0, np.arange(8))) == [(1, 1)] * 8
        else:
            message = f"no pair of 1-1 by 1-1 digits in base 2 belongs to the {split} split: allow"
            with pytest.raises(ValueError, match=message):
                sample(task, 0, split, 0, np.arange(2))


@every_split
def test_lengths_without_a_pair_in_the_split_are_drawn_again(split):
    task = Task("standard", base=2, digits_a=(1, 4), digits_b=(1, 4))
    problems = sample(task, 0, split, 0, np.arange(200))
    assert (split_of(problems.a, problems.b) == SPLITS.index(split)).all()
    assert len(set(pairs(problems))) > 3


def test_problems_are_named_as_people_write_them():
    assert Problems.from_ints([(321, 654), (7, 8)]).names() == ["321 x 654", "7 x 8"]
    assert Problems.from_ints([(5, 2)], base=2).names() == ["101 x 10"]
    assert len(Problems.from_ints([(1, 2), (3, 4)])[1:]) == 1


# Random words


def test_purposes_have_their_own_random_words():
    index = np.arange(50)
    words = [random_words(keys(0, "train", 0, index, purpose), 4) for purpose in range(5)]
    assert len(np.unique(np.stack(words))) == 5 * 50 * 4


def test_random_words_may_be_drawn_from_any_place_on():
    key = keys(0, "train", 0, np.arange(3))
    assert np.array_equal(random_words(key, 10)[:, 4:7], random_words(key, 3, start=4))


def test_random_numbers_lie_below_their_bounds_and_are_uniform():
    words = random_words(keys(0, "train", 0, np.arange(6000)), 1)[:, 0]
    assert chi_square(np.bincount(random_below(words, 6), minlength=6), np.full(6, 1 / 6)) < 25
    bounds = np.arange(6000) % 5 + 1
    assert (random_below(words, bounds) < bounds).all()


# Tasks


def test_a_task_knows_the_canvas_its_longest_problems_need():
    task = Task("running_sum", digits_a=[1, 7], digits_b=[2, 4])
    assert task.digits_a == (1, 7), "a list, as configuration files have it, will do"
    assert task.extent() == get_layout("running_sum").extent(7, 4)


@pytest.mark.parametrize("digits", [(0, 3), (3, 2), (-1, 1), (4,), (1, 2, 3)])
@pytest.mark.parametrize("name", ["digits_a", "digits_b"])
def test_digit_ranges_that_are_none_are_refused(name, digits):
    with pytest.raises(ValueError, match=rf"{name} is \[fewest, most\] from 1 to 1000, not \["):
        Task(**{name: digits})


@pytest.mark.parametrize("base", [1, 11, 0])
def test_a_base_without_digits_of_its_own_is_refused(base):
    with pytest.raises(ValueError, match=f"the base is 2 to 10, not {base}"):
        Task(base=base)


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match=r"layout must be one of .*, got 'latice'"):
        Task("latice")


@pytest.mark.parametrize("bias", [float("nan"), float("inf")])
def test_a_bias_that_is_no_number_is_refused(bias):
    with pytest.raises(ValueError, match="long_bias is a finite number"):
        Task(long_bias=bias)
