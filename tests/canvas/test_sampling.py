import itertools
from dataclasses import replace

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.arithmetic import BASES
from canvas.multiplication import Multiplication
from canvas.problems import SPLITS, Problems, split_of
from canvas.sampling import sample

every_split = pytest.mark.parametrize("split", SPLITS)

LAYOUTS = Multiplication.layouts
TASK = Multiplication("lattice", digits_a=(1, 7), digits_b=(2, 5))
SUMS = Addition(digits=(1, 4), addends=(2, 6))

every_task = pytest.mark.parametrize("task", [TASK, SUMS], ids=["multiplication", "addition"])


def chi_square(counts: np.ndarray, shares: np.ndarray) -> float:
    expected = shares * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def counts_of_lengths(task: Multiplication, count: int = 12_000) -> np.ndarray:
    """How often each pair of lengths is drawn, ``[lengths of a, lengths of b]``."""
    problems = sample(task, 0, "train", 0, np.arange(count))
    n, m = problems.lengths[:, 0] - task.digits_a[0], problems.lengths[:, 1] - task.digits_b[0]
    counts = np.zeros([high - low + 1 for low, high in (task.digits_a, task.digits_b)], dtype=int)
    np.add.at(counts, (n, m), 1)
    return counts


# The split


@every_split
@pytest.mark.parametrize("base", BASES)
def test_every_sample_belongs_to_its_split(split, base):
    for task in (
        Multiplication("standard", base, digits_a=(1, 4), digits_b=(1, 6)),
        Addition(base=base, digits=(1, 5), addends=(2, 4)),
    ):
        problems = sample(task, 5, split, 2, np.arange(300))
        assert (split_of(problems) == SPLITS.index(split)).all()


def test_what_one_task_trains_on_is_never_another_task_s_test():
    index = np.arange(3000)
    tasks = [
        Multiplication("lattice", digits_a=(1, 2), digits_b=(1, 2)),
        Multiplication("standard", digits_a=(2, 3), digits_b=(1, 1)),
        Multiplication("accumulate", digits_a=(1, 1), digits_b=(1, 3), long_bias=1.0),
        Addition("column", digits=(1, 2), addends=(2, 2)),
        Addition("column_carries", digits=(1, 2), addends=(2, 3), long_bias=-2.0),
    ]
    seen = {
        (k, split): {tuple(sorted(pair)) for pair in sample(task, k, split, 0, index).to_ints()}
        for k, task in enumerate(tasks)
        for split in SPLITS
    }
    for (one, trained), (other, tested) in itertools.product(seen, seen):
        shared = seen[one, trained] & seen[other, tested]
        if trained == tested:
            assert shared, "the tasks overlap, else this test says nothing"
        else:
            assert not shared


# Samples


def test_samples_are_the_same_in_every_release():
    task = Multiplication()
    names = task.names(sample(task, 0, "test", 0, np.arange(4)))
    assert names == ["758 x 3", "826 x 9", "893 x 90", "51 x 4"]
    task = Addition(addends=(2, 4))
    assert task.names(sample(task, 0, "test", 0, np.arange(4))) == [
        "839 + 54 + 29",
        "9 + 711",
        "9 + 3 + 0 + 79",
        "5 + 284 + 65",
    ]


@every_split
@every_task
def test_a_sample_depends_on_its_index_alone(task, split):
    index = np.arange(64)
    together = sample(task, 1, split, 3, index).to_ints()
    singly = [sample(task, 1, split, 3, np.array([i])).to_ints()[0] for i in index]
    assert singly == together
    order = np.random.default_rng(0).permutation(index)
    assert sample(task, 1, split, 3, order).to_ints() == [together[i] for i in order]
    for worker in range(3):
        mine = index[worker::3]
        assert sample(task, 1, split, 3, mine).to_ints() == [together[i] for i in mine]
    assert sample(task, 1, split, 3, np.repeat(index[:2], 2)).to_ints() == [
        together[i] for i in (0, 0, 1, 1)
    ]


def test_the_layout_does_not_change_the_problems():
    drawn = [
        sample(Multiplication(name, digits_a=(2, 4)), 0, "test", 0, np.arange(20)).to_ints()
        for name in LAYOUTS
    ]
    assert all(same == drawn[0] for same in drawn)
    sums = [sample(Addition(name), 0, "test", 0, np.arange(20)) for name in Addition.layouts]
    assert all(same.to_ints() == sums[0].to_ints() for same in sums)


def test_epochs_seeds_and_splits_draw_other_problems():
    task = Multiplication(digits_a=(8, 8), digits_b=(8, 8))
    drawn = [
        sample(task, seed, split, epoch, np.arange(100)).to_ints()
        for seed, split, epoch in itertools.product((0, 1, -1), SPLITS, (0, 1, 10**6))
    ]
    assert len(set(itertools.chain(*drawn))) == 27 * 100


def test_samples_have_the_lengths_of_the_task():
    problems = sample(TASK, 0, "validation", 0, np.arange(500))
    assert set(problems.lengths[:, 0].tolist()) == set(range(1, 8))
    assert set(problems.lengths[:, 1].tolist()) == set(range(2, 6))
    assert problems.lengths[:, 0].tolist() == [len(str(a)) for a, _ in problems.to_ints()]
    assert problems.lengths[:, 1].tolist() == [len(str(b)) for _, b in problems.to_ints()]


def test_every_pair_of_lengths_is_drawn_evenly():
    counts = counts_of_lengths(TASK)
    assert chi_square(counts, np.full(counts.shape, 1 / counts.size)) < 60  # 27 ± 7.3 expected


def test_sums_have_the_numbers_of_addends_and_the_lengths_of_the_task():
    problems = sample(SUMS, 0, "validation", 0, np.arange(3000))
    listed = problems.to_ints()
    assert set(map(len, listed)) == set(range(2, 7))
    assert {len(str(value)) for one in listed for value in one} == {1, 2, 3, 4}
    assert problems.counts.tolist() == [len(one) for one in listed]
    assert problems.lengths.tolist() == [
        [len(str(value)) for value in one] + [0] * (6 - len(one)) for one in listed
    ]


@pytest.mark.parametrize("bias", [0.0, 1.0, -0.5])
def test_numbers_of_addends_and_their_lengths_are_drawn_by_themselves_to_that_power(bias):
    task = Addition(digits=(1, 4), addends=(2, 5), long_bias=bias)
    problems = sample(task, 0, "train", 0, np.arange(12_000))
    for drawn, sizes in ((problems.counts, (2, 5)), (problems.lengths, (1, 4))):
        sizes = np.arange(sizes[0], sizes[1] + 1)
        counts = np.bincount(drawn[drawn > 0], minlength=6)[sizes]
        weights = sizes.astype(float) ** bias
        assert chi_square(counts, weights / weights.sum()) < 18  # 3 ± 2.4 expected


def test_zero_is_an_addend_like_other_digits_and_never_a_factor():
    task = Addition(digits=(1, 2), addends=(3, 3))
    values = np.array(sample(task, 0, "train", 0, np.arange(8000)).to_ints()).ravel()
    counts = np.bincount(values, minlength=100)
    assert chi_square(counts[:10], np.full(10, 0.1)) < 35  # 9 ± 4.2 expected
    assert chi_square(counts[10:], np.full(90, 1 / 90)) < 150  # 89 ± 13 expected
    products = sample(Multiplication(digits_a=(1, 1)), 0, "train", 0, np.arange(500)).to_ints()
    assert {a for a, _ in products} == set(range(1, 10))


def test_in_base_2_one_digit_addends_are_zero_and_one():
    task = Addition(base=2, digits=(1, 1), addends=(2, 5))
    problems = sample(task, 0, "train", 0, np.arange(300)).to_ints()
    assert set(itertools.chain(*problems)) == {0, 1}


@pytest.mark.parametrize("bias", [1.0, 2.0, -0.5])
def test_a_long_bias_draws_lengths_by_their_product_to_that_power(bias):
    task = Multiplication(digits_a=(1, 4), digits_b=(1, 3), long_bias=bias)
    weights = np.outer(range(1, 5), range(1, 4)) ** bias
    assert chi_square(counts_of_lengths(task), weights / weights.sum()) < 35  # 11 ± 4.7 expected


def test_operands_are_drawn_evenly_within_their_length():
    problems = sample(
        Multiplication(digits_a=(2, 2), digits_b=(9, 9)), 0, "train", 0, np.arange(18_000)
    )
    counts = np.bincount(problems.operands[0].to_ints(), minlength=100)[10:]
    assert chi_square(counts, np.full(90, 1 / 90)) < 150  # 89 ± 13 expected


@every_task
def test_no_samples_are_drawn_for_no_indices(task):
    assert len(sample(task, 0, "train", 0, np.arange(0))) == 0


def test_the_one_pair_of_one_digit_numbers_in_base_2_is_in_one_split_only():
    task = Multiplication("standard", base=2, digits_a=(1, 1), digits_b=(1, 1))
    home = SPLITS[split_of(Problems.from_ints([(1, 1)], base=2))[0]]
    for split in SPLITS:
        if split == home:
            assert sample(task, 0, split, 0, np.arange(8)).to_ints() == [(1, 1)] * 8
        else:
            message = (
                "no problem of digits_a 1-1, digits_b 1-1 in base 2 belongs to the "
                f"{split} split: allow longer operands"
            )
            with pytest.raises(ValueError, match=message):
                sample(task, 0, split, 0, np.arange(2))


@every_split
def test_lengths_without_a_pair_in_the_split_are_drawn_again(split):
    task = Multiplication("standard", base=2, digits_a=(1, 4), digits_b=(1, 4))
    problems = sample(task, 0, split, 0, np.arange(200))
    assert (split_of(problems) == SPLITS.index(split)).all()
    assert len(set(problems.to_ints())) > 3


# Repeated digits


def test_a_share_of_the_operands_in_training_repeats_a_digit_and_lengths_stay():
    plain = Multiplication("lattice", digits_a=(4, 4), digits_b=(1, 4), long_bias=1.0)
    task = replace(plain, repeats=0.5)
    index = np.arange(4000)
    found, before = (sample(one, 0, "train", 0, index) for one in (task, plain))
    assert (split_of(found) == SPLITS.index("train")).all()
    assert (found.lengths[:, 0] == 4).all()
    for numbers in found.operands:
        top = np.take_along_axis(numbers.digits, numbers.lengths[:, None] - 1, axis=1)
        assert (top > 0).all()
        assert (numbers.digits < 10).all()
        assert (numbers.digits[np.arange(4) >= numbers.lengths[:, None]] == 0).all()
    most = [max(str(a).count(digit) for digit in "0123456789") for a, _ in found.to_ints()]
    usual = [max(str(a).count(digit) for digit in "0123456789") for a, _ in before.to_ints()]
    assert np.mean(np.array(most) >= 3) > 0.2 > 4 * np.mean(np.array(usual) >= 3)
    pairs = found.to_ints()
    assert sum(a % 1000 == 0 for a, _ in pairs) > 20 < sum(a == 9999 for a, _ in pairs)
    # Everything but training, and the problems that measure it, is drawn evenly.
    assert (
        sample(task, 0, "test", 0, index).to_ints() == sample(plain, 0, "test", 0, index).to_ints()
    )
    assert task.evenly() == plain.evenly()


def test_a_share_of_repeats_is_from_0_to_1():
    with pytest.raises(ValueError, match="repeats is a share from 0 to 1, not 2"):
        Multiplication("lattice", repeats=2)
