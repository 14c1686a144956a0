import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from canvas.arithmetic import BASES, Numbers
from canvas.problems import Problems, keys, random_below, random_words, split_of


def random_problems(base: int = 10, count: int = 60) -> list[tuple[int, ...]]:
    """Two to six operands each, zeros among them."""
    draw = random.Random(base)
    return [
        tuple(draw.randrange(base ** draw.randint(0, 6)) for _ in range(draw.randint(2, 6)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("base", BASES)
def test_problems_of_any_number_of_operands_round_trip(base):
    listed = random_problems(base)
    problems = Problems.from_ints(listed, base)
    assert any(0 in one for one in listed)
    assert problems.to_ints() == listed
    assert problems.base == base
    assert len(problems) == len(listed)
    assert problems.counts.tolist() == [len(one) for one in listed]
    digits = [[len(np.base_repr(value, base)) for value in one] for one in listed]
    assert problems.lengths.tolist() == [row + [0] * (6 - len(row)) for row in digits]
    assert problems[np.array([8, 0, 8])].to_ints() == [listed[8], listed[0], listed[8]]
    assert problems[:0].to_ints() == []


def test_splits_ignore_padding_and_the_order_of_operands():
    listed = random_problems(count=200)
    problems = Problems.from_ints(listed)
    expected = split_of(problems).tolist()
    wide = [
        replace(numbers, digits=numbers.padded(numbers.digits.shape[1] + 5 * k))
        for k, numbers in enumerate(problems.operands)
    ]
    none = Numbers.from_ints([0] * len(listed))
    none = replace(none, lengths=np.zeros(len(listed), dtype=np.int64))
    assert split_of(Problems((*wide, none))).tolist() == expected
    assert [split_of(Problems.from_ints([one]))[0] for one in listed] == expected
    order = np.random.default_rng(0).permutation(len(listed))
    assert split_of(problems[order]).tolist() == [expected[i] for i in order]
    pairs = Problems.from_ints([*itertools.product(range(10, 100), repeat=2)])
    assert np.array_equal(split_of(pairs), split_of(Problems(pairs.operands[::-1])))
    for one in random_problems():
        orders = list(itertools.islice(itertools.permutations(one), 24))
        assert len(set(split_of(Problems.from_ints(orders)).tolist())) == 1


@pytest.mark.parametrize(("operands", "digits"), [(2, 3), (2, 60), (4, 2)])
def test_the_splits_hold_eighty_ten_and_ten_per_cent(operands, digits):
    words = np.random.default_rng(0).integers(10, size=(operands, 40_000, digits))
    split = split_of(Problems(tuple(Numbers.from_digits(operand) for operand in words)))
    shares = np.bincount(split, minlength=3) / split.size
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.008)  # four standard deviations or more


def test_random_words_depend_on_their_purpose_and_are_uniform():
    index = np.arange(50)
    words = [random_words(keys(0, "train", 0, index, purpose), 4) for purpose in range(5)]
    assert len(np.unique(np.stack(words))) == 5 * 50 * 4
    key = keys(0, "train", 0, index)
    assert np.array_equal(random_words(key, 10)[:, 4:7], random_words(key, 3, start=4))
    words = random_words(keys(0, "train", 0, np.arange(6000)), 1)[:, 0]
    counts = np.bincount(random_below(words, 6), minlength=6)
    assert ((counts - 1000) ** 2 / 1000).sum() < 25
    bounds = np.arange(6000) % 5 + 1
    assert (random_below(words, bounds) < bounds).all()
