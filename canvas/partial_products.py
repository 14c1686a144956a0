"""The partial products of a multiplication and their running sums, for its layouts."""

from collections.abc import Iterator

import numpy as np

from canvas.arithmetic import Numbers, add_shifted, times_digit
from canvas.layouts import Addend


def partial_products(a: Numbers, b: Numbers) -> Iterator[tuple[int, Numbers, np.ndarray]]:
    """Each multiplier digit's place i, the products a · b_i, and which samples have that digit."""
    n = int(b.lengths.max())
    multiplicands = Numbers(np.repeat(a.digits, n, axis=0), np.repeat(a.lengths, n), a.base)
    products = times_digit(multiplicands, b.digits[:, :n].reshape(-1))
    for i in range(n):
        yield i, products[i::n], i < b.lengths


def running_sums(a: Numbers, b: Numbers) -> Iterator[tuple[int, Numbers, Numbers, np.ndarray]]:
    """As `partial_products`, with the running sum up to and including place i after the product."""
    total: Numbers | None = None
    for i, partial, present in partial_products(a, b):
        total = partial if total is None else add_shifted(total, partial, i)
        yield i, partial, total, present


def digit_products(a: int, b: int, base: int) -> list[Addend]:
    """The products a · b_i that a · b is the sum of."""
    factors: list[Addend] = []
    while b:
        b, digit = divmod(b, base)
        factors.append(Addend(a, digit, len(factors)))
    return factors


def value_of(addends: list[Addend], base: int) -> int:
    """The number that addends come to."""
    return sum(number * factor * base**shift for number, factor, shift in addends)


def partials_and_sums(a: int, b: int, base: int) -> tuple[list[list[Addend]], list[list[Addend]]]:
    """The addends of the products a · b_i, and of the running sums of these."""
    partials, sums, total = [], [], 0
    for number, digit, i in digit_products(a, b, base):
        partials.append([Addend(number, digit, 0)])
        sums.append([Addend(total, 1, 0), Addend(number * digit, 1, i)])
        total = value_of(sums[-1], base)
    return partials, sums
