"""Arithmetic on batches of digits against Python's integers."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canvas import arithmetic
from canvas.arithmetic import BASES, Numbers

LIMITS = [2**63 - 1, 2**63, 10**18, 10**36]  # of the parts that integers are cut into
bases = st.sampled_from(BASES)
some = st.integers(0, 10**60) | st.integers(0, 30) | st.sampled_from(LIMITS)
values = st.lists(some, max_size=12)
checked = settings(max_examples=60, deadline=None, derandomize=True)


def assert_well_formed(numbers: Numbers) -> None:
    """Digits below the base, no leading zero, zeros beyond each length."""
    assert numbers.digits.dtype == np.uint8
    assert numbers.lengths.dtype == np.int64
    assert (numbers.digits < numbers.base).all()
    beyond = np.arange(numbers.digits.shape[1]) >= numbers.lengths[:, None]
    assert not numbers.digits[beyond].any()
    top = numbers.digits[np.arange(len(numbers)), numbers.lengths - 1]
    assert ((top > 0) | (numbers.lengths == 1)).all()


@given(values, bases)
@checked
def test_numbers_are_written_as_people_write_them(values, base):
    numbers = Numbers.from_ints(values, base)
    assert_well_formed(numbers)
    assert numbers.to_text() == [np.base_repr(value, base) for value in values]
    assert numbers.to_ints() == values
    assert [arithmetic.parse(text, base) for text in numbers.to_text()] == values
    wide = Numbers(numbers.padded(300), numbers.lengths, base)
    assert wide.to_ints() == values
    assert np.array_equal(Numbers.from_digits(wide.digits, base).lengths, numbers.lengths)


@pytest.mark.parametrize("base", [2, 7, 10])
def test_numbers_of_thousands_of_digits_are_integers_like_others(base):
    values = [base**5000 - 1, base**4999, random.Random(base).randrange(base**5000), 5000]
    assert Numbers.from_ints(values, base).to_ints() == values


@given(values, bases, st.integers(0, 70))
@checked
def test_sums_and_products_agree_with_python(values, base, shift):
    x, y = Numbers.from_ints(values, base), Numbers.from_ints(values[::-1], base)
    before = x.digits.copy(), y.digits.copy()
    digits = np.arange(len(values)) % base
    total = arithmetic.add_shifted(x, y, shift)
    product = arithmetic.times_digit(x, digits)
    dropped = x.without_lowest()
    for found in (total, product, dropped):
        assert_well_formed(found)
    pairs = list(zip(values, values[::-1], strict=True))
    assert total.to_ints() == [i + j * base**shift for i, j in pairs]
    assert product.to_ints() == [i * int(d) for i, d in zip(values, digits, strict=True)]
    assert dropped.to_ints() == [value // base for value in values]
    assert np.array_equal(x.digits, before[0])
    assert np.array_equal(y.digits, before[1])


@pytest.mark.parametrize("base", [2, 3, 10, 16])
@pytest.mark.parametrize("smallest", [0, 1])
def test_random_numbers_have_the_requested_lengths(base, smallest):
    words = np.random.default_rng(0).integers(2**64, size=(3000, 4), dtype=np.uint64)
    lengths = np.arange(3000) % 5
    numbers = arithmetic.numbers_from_words(words, lengths, base, smallest)
    assert numbers.lengths.tolist() == lengths.tolist()
    assert list(map(len, numbers.to_text())) == lengths.tolist()
    assert not numbers.digits[lengths == 0].any()
    assert_well_formed(numbers[lengths > 0])
    assert set(numbers[lengths == 1].to_ints()) == set(range(smallest, base))


@pytest.mark.parametrize("smallest", [0, 1])
def test_random_numbers_are_uniform_over_their_length(smallest):
    words = np.random.default_rng(1).integers(2**64, size=(18_000, 2), dtype=np.uint64)
    for length, start, end, most in ((2, 10, 100, 150), (1, smallest, 10, 35)):
        lengths = np.full(18_000, length)
        values = arithmetic.numbers_from_words(words, lengths, 10, smallest).to_ints()
        counts = np.bincount(values, minlength=end)
        assert not counts[:start].any()
        expected = 18_000 / (end - start)
        # Of 89 degrees of freedom: mean 89, deviation 13; of 8 or 9: mean 9, deviation 4.2.
        assert ((counts[start:] - expected) ** 2 / expected).sum() < most
