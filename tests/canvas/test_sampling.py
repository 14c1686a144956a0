import itertools
from dataclasses import replace

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import SPLITS, Problems, split_of
from canvas.sampling import FAMILIES, family_problems, sample

TASK = Multiplication("lattice", digits_a=(1, 7), digits_b=(2, 5))
SUMS = Addition(digits=(1, 4), addends=(2, 6))
SMALL = Multiplication(digits_a=(1, 4), digits_b=(1, 4))


def chi_square(counts: np.ndarray, shares: np.ndarray) -> float:
    expected = shares * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def test_no_task_trains_on_a_test_problem_of_another_task():
    index = np.arange(3000)
    tasks = [
        Multiplication("lattice", digits_a=(1, 2), digits_b=(1, 2)),
        Multiplication("accumulate", digits_a=(1, 1), digits_b=(1, 3), long_bias=1.0),
        Addition("column_carries", digits=(1, 2), addends=(2, 3), long_bias=-2.0),
    ]
    seen = {
        (k, split): {tuple(sorted(pair)) for pair in sample(task, k, split, 0, index).to_ints()}
        for k, task in enumerate(tasks)
        for split in SPLITS
    }
    for (one, trained), (other, tested) in itertools.product(seen, seen):
        shared = seen[one, trained] & seen[other, tested]
        assert bool(shared) == (trained == tested), "the tasks overlap, else this says nothing"


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", [TASK, SUMS], ids=["multiplication", "addition"])
def test_a_sample_depends_on_its_index_alone(task, split):
    index = np.arange(64)
    together = sample(task, 1, split, 3, index).to_ints()
    singly = [sample(task, 1, split, 3, np.array([i])).to_ints()[0] for i in index]
    assert singly == together
    for some in (np.random.default_rng(0).permutation(index), index[1::3], np.repeat(index[:2], 2)):
        assert sample(task, 1, split, 3, some).to_ints() == [together[i] for i in some]
    assert len(sample(task, 0, "train", 0, np.arange(0))) == 0
    other = [replace(task, layout=name) for name in task.layouts]
    assert all(sample(one, 1, split, 3, index).to_ints() == together for one in other)


def test_epochs_seeds_and_splits_draw_other_problems():
    task = Multiplication(digits_a=(8, 8), digits_b=(8, 8))
    drawn = [
        sample(task, seed, split, epoch, np.arange(100)).to_ints()
        for seed, split, epoch in itertools.product((0, 1, -1), SPLITS, (0, 1, 10**6))
    ]
    assert len(set(itertools.chain(*drawn))) == 27 * 100


@pytest.mark.parametrize("bias", [0.0, 1.0, 2.0, -0.5])
def test_lengths_are_drawn_in_proportion_to_a_power(bias):
    """To the power of the bias."""
    task = Multiplication(digits_a=(1, 4), digits_b=(1, 3), long_bias=bias)
    problems = sample(task, 0, "train", 0, np.arange(12_000))
    assert problems.lengths.tolist() == [[len(str(n)) for n in pair] for pair in problems.to_ints()]
    counts = np.zeros((4, 3), dtype=int)
    np.add.at(counts, tuple(problems.lengths.T - 1), 1)
    weights = np.outer(range(1, 5), range(1, 4)) ** bias
    assert chi_square(counts, weights / weights.sum()) < 35  # 11 ± 4.7 expected
    task = Addition(digits=(1, 4), addends=(2, 5), long_bias=bias)
    problems = sample(task, 0, "train", 0, np.arange(12_000))
    assert problems.counts.tolist() == [len(one) for one in problems.to_ints()]
    for drawn, (low, high) in ((problems.counts, (2, 5)), (problems.lengths, (1, 4))):
        counts = np.bincount(drawn[drawn > 0], minlength=6)[low : high + 1]
        weights = np.arange(low, high + 1, dtype=float) ** bias
        assert chi_square(counts, weights / weights.sum()) < 18  # 3 ± 2.4 expected


def test_the_single_one_digit_problem_of_base_2_is_in_one_split():
    task = Multiplication("standard", base=2, digits_a=(1, 1), digits_b=(1, 1))
    home = SPLITS[split_of(Problems.from_ints([(1, 1)], base=2))[0]]
    for split in SPLITS:
        if split == home:
            assert sample(task, 0, split, 0, np.arange(8)).to_ints() == [(1, 1)] * 8
        else:
            with pytest.raises(ValueError, match=f"in base 2 belongs to the {split} split: allow"):
                sample(task, 0, split, 0, np.arange(2))
        longer = Multiplication("standard", base=2, digits_a=(1, 4), digits_b=(1, 4))
        problems = sample(longer, 0, split, 0, np.arange(60))  # such lengths are drawn again
        assert (split_of(problems) == SPLITS.index(split)).all()


def asked(family: str, digits: int, task: Multiplication | Addition = SMALL, seed: int = 0):
    return family_problems(task, family, digits, 12, seed).to_ints()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("base", "digits"), [(2, 1), (2, 12), (10, 3), (10, 100)])
def test_problems_of_a_family_are_distinct_and_held_out(family, base, digits):
    task = Multiplication(base=base, digits_a=(1, 4), digits_b=(1, 4))
    problems = family_problems(task, family, digits, 12, 0)
    found = problems.to_ints()
    assert len(set(found)) == len(found) <= 12
    assert digits < 20 or len(found) >= 10
    assert all(max(lengths) == digits for lengths in problems.lengths.tolist())
    assert all(min(pair) > 0 for pair in found)
    if digits < 5:
        assert (split_of(problems) == SPLITS.index("test")).all()
    else:
        assert not task.in_range(problems).any()
    other = replace(task, layout="standard")
    assert family_problems(other, family, digits, 12, 0).to_ints() == found


def test_families_of_problems_agree_with_their_names():
    assert (10**30 - 1, 10**30 - 1) in asked("nines", 30)
    assert (10**29, 10**29) in asked("powers", 30)
    assert (10**29 + 2, 10**29 + 2) in asked("10..02", 30)
    assert (10**29 + 1, 10**30 - 1) in asked("10..01 and nines", 30)
    assert asked("random", 30, seed=1) != asked("random", 30)
    for a, b in asked("squares", 30):
        assert a == b
    for a, b in asked("palindromes", 30):
        assert (str(a), str(b)) == (str(a)[::-1], str(b)[::-1])
    for a, b in asked("alternating digits", 30):
        assert {len(set(str(n)[k::2])) for n in (a, b) for k in (0, 1) if n > 9} == {1}
    for a, b in asked("sparse digits", 30):
        assert sum(digit != "0" for digit in str(a)) <= 3 >= sum(digit != "0" for digit in str(b))
    for a, b in asked("extreme digits", 30):
        assert set(str(a) + str(b)) <= set("0159")
    for a, b in asked("one digit of a", 30):
        assert (len(str(a)), len(str(b))) == (1, 30)
    for _, b in asked("equal digits of b", 30):
        assert len(set(str(b))) == 1
    assert (10**50 - 1, 10**50 - 1) in asked("nines", 50, Addition(digits=(1, 4)))
