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
    arithmetic.times_digit(x, np.array([7, 8]))
    arithmetic.drop_lowest_digit(x)
    arithmetic.compare(x, y)
    arithmetic.add_shifted(x, y, 0)
    assert np.array_equal(x.digits, before[0])
    assert np.array_equal(y.digits, before[1])


def test_a_batch_may_be_indexed_and_may_be_empty():
    numbers = Numbers.from_ints([5, 66, 777])
    assert numbers[1:].to_ints() == [66, 777]
    assert numbers[np.array([2, 0])].to_ints() == [777, 5]
    none = numbers[:0]
    assert len(none) == 0
    assert arithmetic.add_shifted(none, none).to_ints() == []
    assert arithmetic.times_digit(none, np.zeros(0, dtype=np.uint8)).to_ints() == []


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
    assert min(numbers.to_ints()) == 1, "one-digit numbers start at 1, unless told"
    words = words[lengths == 1]
    with_zero = arithmetic.numbers_from_words(words, lengths[lengths == 1], base, smallest=0)
    assert_well_formed(with_zero)
    assert set(with_zero.to_ints()) == set(range(base))


@every_base
@pytest.mark.parametrize("smallest", [0, 1])
def test_a_random_number_of_no_digits_is_none(base, smallest):
    words = np.random.default_rng(0).integers(2**64, size=(300, 4), dtype=np.uint64)
    lengths = np.arange(300) % 5
    numbers = arithmetic.numbers_from_words(words, lengths, base, smallest)
    assert numbers.lengths.tolist() == lengths.tolist()
    assert list(map(len, numbers.to_text())) == lengths.tolist()
    assert not numbers.digits[lengths == 0].any()


@pytest.mark.parametrize("smallest", [0, 1])
def test_random_numbers_are_uniform_over_their_length(smallest):
    words = np.random.default_rng(1).integers(2**64, size=(18_000, 2), dtype=np.uint64)
    two, one = np.full(18_000, 2), np.ones(18_000, dtype=np.int64)
    values = arithmetic.numbers_from_words(words, two, smallest=smallest).to_ints()
    counts = np.bincount(values, minlength=100)
    assert not counts[:10].any()
    expected = 18_000 / 90
    chi_square = ((counts[10:] - expected) ** 2 / expected).sum()
    assert chi_square < 150, "89 degrees of freedom: mean 89, standard deviation 13"
    values = arithmetic.numbers_from_words(words, one, smallest=smallest).to_ints()
    counts = np.bincount(values, minlength=10)
    assert not counts[:smallest].any()
    expected = 18_000 / (10 - smallest)
    chi_square = ((counts[smallest:] - expected) ** 2 / expected).sum()
    assert chi_square < 35, "8 or 9 degrees of freedom: mean 9, standard deviation 4.2"


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


def test_zero_is_parsed_where_it_is_the_smallest_number():
    assert arithmetic.parse("0", smallest=0) == 0
    assert arithmetic.parse(" 000 ", base=2, smallest=0) == 0
    assert arithmetic.parse("007", smallest=0) == 7


@pytest.mark.parametrize("text", ["", "  ", "-1", "-0", "+1", "1.5", "1e3", "1_0", "٣", "1 2"])
def test_text_that_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="is not a whole number from 0 up; write it with"):
        arithmetic.parse(text, smallest=0)


def test_a_digit_that_the_base_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"'12' is not a positive whole number in base 2; .* 01 "):
        arithmetic.parse("12", base=2)
    with pytest.raises(ValueError, match="'08' is not a whole number from 0 up in base 8"):
        arithmetic.parse("08", base=8, smallest=0)
