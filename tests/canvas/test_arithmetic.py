import random

import numpy as np
import pytest

from canvas import arithmetic
from canvas.arithmetic import BASES, Numbers

every_base = pytest.mark.parametrize("base", BASES)


def numbers_of_mixed_lengths(base: int, seed: int = 0) -> list[int]:
    """Zero, the edges of every short length, and numbers of up to 120 digits."""
    draw = random.Random(seed)
    edges = [0, 1, base - 1, base, base**5 - 1, base**5, base**120 - 1, base**119]
    return edges + [draw.randrange(base ** draw.randint(1, 120)) for _ in range(40)]


def shuffled(values: list[int], seed: int = 1) -> list[int]:
    return random.Random(seed).sample(values, len(values))


def in_base(value: int, base: int) -> str:
    return ("" if value < base else in_base(value // base, base)) + str(value % base)


def assert_well_formed(numbers: Numbers) -> None:
    """Digits below the base, no leading zero, zeros beyond each length."""
    assert numbers.digits.dtype == np.uint8
    assert numbers.lengths.dtype == np.int64
    assert (numbers.digits < numbers.base).all()
    beyond = np.arange(numbers.digits.shape[1]) >= numbers.lengths[:, None]
    assert not numbers.digits[beyond].any()
    top = numbers.digits[np.arange(len(numbers)), numbers.lengths - 1]
    assert ((top > 0) | (numbers.lengths == 1)).all()


@every_base
def test_numbers_are_written_as_people_write_them(base):
    values = numbers_of_mixed_lengths(base)
    numbers = Numbers.from_ints(values, base)
    assert_well_formed(numbers)
    assert numbers.to_text() == [in_base(value, base) for value in values]
    assert numbers.to_ints() == values
    assert numbers.digits[:, 0].tolist() == [value % base for value in values]


@pytest.mark.parametrize("base", [2, 7, 10])
def test_numbers_of_thousands_of_digits_are_integers_like_others(base):
    values = [base**5000 - 1, base**4999, random.Random(base).randrange(base**5000), 5000]
    assert Numbers.from_ints(values, base).to_ints() == values


@every_base
def test_product_agrees_with_python(base):
    a = numbers_of_mixed_lengths(base)
    b = shuffled(a)
    product = arithmetic.multiply(Numbers.from_ints(a, base), Numbers.from_ints(b, base))
    assert_well_formed(product)
    assert product.to_ints() == [x * y for x, y in zip(a, b, strict=True)]


@every_base
@pytest.mark.parametrize("shift", [0, 1, 7, 130])
def test_shifted_sum_agrees_with_python(base, shift):
    x = numbers_of_mixed_lengths(base)
    y = shuffled(x)
    total = arithmetic.add_shifted(Numbers.from_ints(x, base), Numbers.from_ints(y, base), shift)
    assert_well_formed(total)
    assert total.to_ints() == [i + j * base**shift for i, j in zip(x, y, strict=True)]


@every_base
def test_product_by_one_digit_agrees_with_python(base):
    values = numbers_of_mixed_lengths(base)
    digits = np.arange(len(values)) % base
    product = arithmetic.times_digit(Numbers.from_ints(values, base), digits)
    assert_well_formed(product)
    assert product.to_ints() == [x * int(d) for x, d in zip(values, digits, strict=True)]


@every_base
def test_dropping_the_lowest_digit_is_floor_division_by_the_base(base):
    values = numbers_of_mixed_lengths(base)
    dropped = arithmetic.drop_lowest_digit(Numbers.from_ints(values, base))
    assert_well_formed(dropped)
    assert dropped.to_ints() == [value // base for value in values]


@every_base
def test_comparison_agrees_with_python(base):
    x = numbers_of_mixed_lengths(base)
    y = shuffled(x)
    y[:10] = x[:5] + [value + 1 for value in x[5:10]]  # equal, and different in the last place
    sign = arithmetic.compare(Numbers.from_ints(x, base), Numbers.from_ints(y, base))
    assert sign.tolist() == [(i > j) - (i < j) for i, j in zip(x, y, strict=True)]
    assert arithmetic.compare(Numbers.from_ints([3]), Numbers.from_ints([10**90])).tolist() == [-1]


def test_columns_of_zeros_do_not_change_numbers():
    numbers = Numbers.from_ints([0, 7, 120])
    wide = Numbers(numbers.padded(9), numbers.lengths)
    assert wide.digits.shape == (3, 9)
    assert wide.to_ints() == numbers.to_ints()
    assert np.array_equal(wide.trimmed().digits, numbers.digits)
    assert Numbers.from_digits(wide.digits).lengths.tolist() == [1, 1, 3]


def test_operations_leave_their_operands_alone():
    x, y = Numbers.from_ints([987, 65]), Numbers.from_ints([43, 210])
    before = x.digits.copy(), y.digits.copy()
    arithmetic.multiply(x, y)
    arithmetic.add_shifted(x, y, 0)
    assert np.array_equal(x.digits, before[0])
    assert np.array_equal(y.digits, before[1])


def test_a_batch_may_be_indexed_and_may_be_empty():
    numbers = Numbers.from_ints([5, 66, 777])
    assert numbers[1:].to_ints() == [66, 777]
    assert numbers[np.array([2, 0])].to_ints() == [777, 5]
    none = numbers[:0]
    assert len(none) == 0
    assert arithmetic.multiply(none, none).to_ints() == []


def test_negative_numbers_are_refused():
    with pytest.raises(ValueError, match="whole numbers from 0 up, got -3"):
        Numbers.from_ints([1, -3])


@every_base
def test_random_numbers_have_the_lengths_that_were_asked_for(base):
    words = np.random.default_rng(0).integers(2**64, size=(3000, 4), dtype=np.uint64)
    lengths = np.arange(3000) % 4 + 1
    numbers = arithmetic.numbers_from_words(words, lengths, base)
    assert_well_formed(numbers)
    assert numbers.lengths.tolist() == lengths.tolist()
    assert min(numbers.to_ints()) == 1, "one-digit numbers start at 1: a canvas shows no zero"


def test_random_numbers_are_uniform_over_their_length():
    words = np.random.default_rng(1).integers(2**64, size=(18_000, 2), dtype=np.uint64)
    values = arithmetic.numbers_from_words(words, np.full(18_000, 2)).to_ints()
    counts = np.bincount(values, minlength=100)
    assert not counts[:10].any()
    expected = 18_000 / 90
    chi_square = ((counts[10:] - expected) ** 2 / expected).sum()
    assert chi_square < 150, "89 degrees of freedom: mean 89, standard deviation 13"


def test_text_is_parsed_in_its_base():
    assert arithmetic.parse(" 0042\n") == 42
    assert arithmetic.parse("1011", base=2) == 11
    assert arithmetic.parse("9" * 5000) == 10**5000 - 1


@pytest.mark.parametrize(
    "text", ["", "  ", "0", "000", "-1", "+1", "1.5", "1e3", "1_0", "٣", "1 2"]
)
def test_text_that_is_no_positive_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="is not a positive whole number; write it with"):
        arithmetic.parse(text)


def test_a_digit_that_the_base_does_not_have_is_refused():
    with pytest.raises(ValueError, match="'12' is not a positive number in base 2"):
        arithmetic.parse("12", base=2)
