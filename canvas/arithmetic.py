"""Arithmetic on batches of whole numbers of any length, digit by digit, in any base from 2 to 16.

A number is a row of digits, least significant first. All operations are vectorised over the batch;
only carries take a loop over digits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from canvas.choices import shortened
from canvas.symbols import DIGIT_CHARACTERS, Alphabet

BASES = range(2, 17)
_LARGEST = 2**63 - 1  # of an int64


@dataclass(frozen=True)
class Numbers:
    """A batch of whole numbers."""

    digits: np.ndarray  # uint8 [B, n], least significant first, zero beyond each number's length
    lengths: np.ndarray  # int64 [B], digits of each number; zero has length 1
    base: int = 10

    @classmethod
    def from_digits(cls, digits: np.ndarray, base: int = 10) -> "Numbers":
        """Return numbers from digits [B, n], least significant first, without leading zeros."""
        nonzero = digits.T != 0  # reducing along B is several times faster than along n
        places = np.arange(1, len(nonzero) + 1, dtype=np.int64)
        lengths = (nonzero * places[:, None]).max(axis=0, initial=1)
        return cls(digits.astype(np.uint8, copy=False), lengths, base)

    @classmethod
    def from_ints(cls, values: Sequence[int], base: int = 10) -> "Numbers":
        """Return numbers from Python integers of any size, zero or more."""
        if (least := min(values, default=0)) < 0:
            raise ValueError(f"a canvas contains whole numbers from 0 up, got {least}")
        most, places = max(values, default=0), 1
        while base**places <= min(most, _LARGEST // base):
            places += 1
        # Large integers are first cut into parts of so many digits: dividing one takes long.
        rest = np.array(values, dtype=np.int64 if most <= _LARGEST else object)
        parts = [rest % base**places]
        while (rest := rest // base**places).any():
            parts.append(rest % base**places)
        small = np.stack(parts, axis=1).astype(np.int64)
        digits = (small[:, :, None] // base ** np.arange(places) % base).astype(np.uint8)
        found = cls.from_digits(digits.reshape(len(values), places * len(parts)), base)
        return cls(found.padded(int(found.lengths.max(initial=1))), found.lengths, base)

    def to_ints(self) -> list[int]:
        """Return the numbers as Python integers."""
        if isinstance(self.base, Alphabet):
            rows = zip(self.digits.tolist(), self.lengths.tolist(), strict=True)
            return [_from_digits(row[:length][::-1], self.base) for row, length in rows]
        return [_to_int(text, self.base) for text in self.to_text()]

    def to_text(self) -> list[str]:
        """Return the numbers as text in their own base, the highest digit first."""
        alphabet = self.base.characters if isinstance(self.base, Alphabet) else DIGIT_CHARACTERS
        characters = np.frombuffer(alphabet.encode("ascii"), dtype=np.uint8)[self.digits]
        return [
            row[:length][::-1].tobytes().decode("ascii")
            for row, length in zip(characters, self.lengths, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.digits)

    def __getitem__(self, index: np.ndarray | slice) -> "Numbers":
        return Numbers(self.digits[index], self.lengths[index], self.base)

    def at_least(self, other: "Numbers") -> np.ndarray:
        """Return whether each number is at least the other one, bool [B]."""
        n = max(self.digits.shape[1], other.digits.shape[1], 1)
        apart = self.padded(n).astype(np.int16) - other.padded(n)
        highest = n - 1 - (apart[:, ::-1] != 0).argmax(axis=1)
        found: np.ndarray = apart[np.arange(len(apart)), highest] >= 0
        return found

    def padded(self, n: int) -> np.ndarray:
        """Return the digits as uint8 [B, n], padded with zeros or cut."""
        have = self.digits.shape[1]
        digits = np.zeros((len(self), max(n, have)), dtype=np.uint8)  # np.pad is slower
        digits[:, :have] = self.digits
        return digits[:, :n]

    def without_lowest(self) -> "Numbers":
        """Return ⌊x / base⌋."""
        digits = np.zeros_like(self.digits)
        digits[:, :-1] = self.digits[:, 1:]
        return Numbers(digits, np.maximum(self.lengths - 1, 1), self.base)


def parse(text: str, base: int = 10) -> int:
    """Return the whole number from 0 up that a text of any length writes in ``base``.

    Raises:
        ValueError: the text is no such number.
    """
    if isinstance(base, Alphabet):
        values = [base.characters.find(c, 1) for c in text]
        if min(values, default=-1) < 0:
            raise ValueError(f"{shortened(text)} is no text; write it with {base} alone")
        return _from_digits(values, base)
    digits = DIGIT_CHARACTERS[:base]
    text = text.strip()
    if not text or text.upper().strip(digits):
        kind = "a whole number from 0 up" + ("" if base == 10 else f" in base {base}")
        raise ValueError(
            f"{shortened(text)} is not {kind}; write it with the digits {digits} alone"
        )
    return _to_int(text, base)


def _from_digits(digits: Sequence[int], base: int) -> int:
    """Return the number with these digits, the highest first."""
    value = 0
    for digit in digits:
        value = value * int(base) + digit
    return value


def _to_int(text: str, base: int) -> int:
    """Return the number of a text of any length. `int` may refuse more than 640 digits."""
    value = 0
    for start in range(0, len(text), 512):
        part = text[start : start + 512]
        value = value * base ** len(part) + int(part, base)
    return value


def numbers_from_words(words: np.ndarray, lengths: np.ndarray, base: int, smallest: int) -> Numbers:
    """Draw numbers of exactly the given lengths, uniformly from all such numbers.

    Args:
        words: random words, uint64 [B, n], one a digit.
        lengths: [B]; 0: no number.
        base: of the digits.
        smallest: the smallest one-digit number.
    """
    high = words >> np.uint64(32)
    if isinstance(base, Alphabet):
        letters = ((high * np.uint64(base.letters)) >> np.uint64(32)) + np.uint64(1)
        letters[np.arange(words.shape[1]) >= lengths[:, None]] = 0
        return Numbers(letters.astype(np.uint8), lengths.astype(np.int64), base)
    digits = (high * np.uint64(base)) >> np.uint64(32)
    leading = ((high * np.uint64(base - 1)) >> np.uint64(32)) + np.uint64(1)
    place = np.arange(words.shape[1])
    top = (place == lengths[:, None] - 1) & ((lengths[:, None] > 1) | (smallest > 0))
    digits = np.where(top, leading, digits)
    digits[place >= lengths[:, None]] = 0
    return Numbers(digits.astype(np.uint8), lengths.astype(np.int64), base)


def _carry(columns: np.ndarray, base: int, start: int = 0) -> Numbers:
    """Return numbers from column sums [B, n]; n has to leave room for the highest carry.

    Columns below ``start`` are digits already.
    """
    places = np.ascontiguousarray(columns.T)  # [n, B]: every pass below is along memory
    carry = np.zeros(len(columns), dtype=columns.dtype)
    for place in places[start:]:
        place += carry
        np.floor_divide(place, base, out=carry)
        place -= carry * base
    assert not carry.any(), "the caller makes room for the top carry"
    return Numbers.from_digits(places.T, base)


def times_digit(x: Numbers, digit: np.ndarray) -> Numbers:
    """Return x · digit, with one digit [B] a number: a partial product without its shift."""
    columns = x.padded(x.digits.shape[1] + 1).astype(np.int16)
    return _carry(columns * digit[:, None].astype(np.int16), x.base)


def add_shifted(x: Numbers, y: Numbers, shift: int = 0) -> Numbers:
    """Return x + y · base^shift."""
    n = max(x.digits.shape[1], y.digits.shape[1] + shift) + 1
    columns = x.padded(n).astype(np.int16)
    columns[:, shift : shift + y.digits.shape[1]] += y.digits
    return _carry(columns, x.base, start=shift)


def subtract_shifted(x: Numbers, y: Numbers, shift: int = 0) -> Numbers:
    """Return x − y · base^shift, which is not below 0."""
    n = max(x.digits.shape[1], y.digits.shape[1] + shift)
    columns = x.padded(n).astype(np.int16)
    columns[:, shift : shift + y.digits.shape[1]] -= y.digits
    return _carry(columns, x.base, start=shift)


def partial_products(a: Numbers, b: Numbers) -> Iterator[tuple[int, Numbers, np.ndarray]]:
    """Yield for each place i of the multiplier: i, the products a · b_i, and present, bool [B].

    ``present`` is False for samples whose multiplier has no digit at place i.
    """
    n = int(b.lengths.max())
    multiplicands = Numbers(np.repeat(a.digits, n, axis=0), np.repeat(a.lengths, n), a.base)
    products = times_digit(multiplicands, b.digits[:, :n].reshape(-1))
    for i in range(n):
        yield i, products[i::n], i < b.lengths


def running_sums(a: Numbers, b: Numbers) -> Iterator[tuple[int, Numbers, Numbers, np.ndarray]]:
    """Yield `partial_products`, each with the running sum up to and including place i."""
    total: Numbers | None = None
    for i, partial, present in partial_products(a, b):
        total = partial if total is None else add_shifted(total, partial, i)
        yield i, partial, total, present


def narrow_carries(a: Numbers, b: Numbers) -> np.ndarray:
    """Count the narrow carries in each total of a product, int64 [B, n].

    The totals are those of the lattice, t_i = ⌊t_(i−1) / base⌋ + a · b_i for each place i of the
    multiplier. A carry is narrow if the digit below it is 0 or 1 and at least half the base was
    carried into that digit: with little less coming in, there would be one less to carry.

    Example: in 17 · 9, 7 · 9 = 63 carries 6 into 1 · 9 + 6 = 15; nothing is narrow. In 15 · 9 it
    carries 4. In 77 · 8 it carries 5 into 56 + 5 = 61: narrow, as 56 + 3 carries 5 in place of 6.

    Returns:
        The count, −1 beyond the multiplier's digits.
    """
    places = a.digits.shape[1] + 2
    digits, total = a.padded(places).astype(np.int64), None
    counts = np.full((len(a), int(b.lengths.max())), -1)
    for i, partial, present in partial_products(a, b):
        above = np.zeros_like(digits) if total is None else total.without_lowest().padded(places)
        total = partial if total is None else add_shifted(total.without_lowest(), partial)
        shown = total.padded(places)
        carried = (shown - digits * b.digits[:, i : i + 1] - above) % a.base
        narrow = (shown <= 1) & (2 * carried >= a.base) & (shown < carried)
        counts[:, i] = np.where(present, narrow.sum(axis=1), -1)
    return counts
