"""Problems, the split that keeps them apart, and random words.

Operands belong to train, validation or test by a hash of them, whatever the task or range, so none
are ever in two of them. Their order does not matter: 12 and 34 stay together with 34 and 12.

Random words come from a counter passed through the finaliser of SplitMix64 (Steele, Lea and Flood
2014), so that any sample can be made alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from canvas.arithmetic import Numbers

Split = Literal["train", "validation", "test"]
SPLITS: tuple[str, ...] = get_args(Split)
_SHARES = (0.8, 0.1, 0.1)

# More than these is refused, before memory runs out.
MOST_RANDOM = 4096  # digits of an operand that is random; one that is asked for has any
MOST_OPERANDS = 100
MOST_CELLS = 12_000  # of a canvas for a model whose attention compares every cell with every other

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(bits: Any) -> Any:
    """SplitMix64's finaliser: arrays of ``uint64``, or int64 tensors, which have the same bits."""
    x = bits.view(np.int64) if isinstance(bits, np.ndarray) else bits
    # To the right, zeros coming in at the left.
    x = (x ^ ((x >> 30) & (2**34 - 1))) * (0xBF58476D1CE4E5B9 - 2**64)
    x = (x ^ ((x >> 27) & (2**37 - 1))) * (0x94D049BB133111EB - 2**64)
    x = x ^ ((x >> 31) & (2**33 - 1))
    return x.view(np.uint64) if isinstance(bits, np.ndarray) else x


def keys(seed: int, split: Split, epoch: int, index: np.ndarray, purpose: int = 0) -> np.ndarray:
    """One independent random key ``uint64 [B]`` a sample, for each purpose its own."""
    key = np.zeros(1, dtype=np.uint64)
    for part in (seed, SPLITS.index(split), epoch, purpose):
        key = mix(key + _GOLDEN + np.uint64(part % 2**64))
    return mix(mix(key + (index.astype(np.uint64) + np.uint64(1)) * _GOLDEN))


def random_words(key: np.ndarray, n: int, start: int = 0) -> np.ndarray:
    """``n`` uniform random words from each key: ``uint64 [B, n]``, from the start-th on."""
    counter = np.arange(start + 1, start + n + 1, dtype=np.uint64)
    return mix(key[:, None] + counter * _GOLDEN)


def random_below(words: np.ndarray, bound: np.ndarray | int) -> np.ndarray:
    """Uniform whole numbers ``int64`` in 0 .. bound − 1 from random words."""
    high = words >> np.uint64(32)
    return ((high * np.asarray(bound, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def random_shares(words: np.ndarray) -> np.ndarray:
    """Return uniform numbers from 0 to below 1, float64, from random words of any shape."""
    return (words >> np.uint64(11)) / float(2**53)


def hashes(problems: "Problems") -> np.ndarray:
    """Return a hash of each problem's operands in any order, uint64 [B]."""
    return mix(mix(_sums(problems)) + _GOLDEN + _GOLDEN)


def split_of(problems: "Problems") -> np.ndarray:
    """Each problem's index in `SPLITS`, ``int64 [B]``: 80 % train, 10 % validation, 10 % test."""
    share = random_shares(mix(mix(_sums(problems)) + _GOLDEN))
    return np.searchsorted(np.cumsum(_SHARES)[:-1], share, side="right")


def _sums(problems: "Problems") -> np.ndarray:
    """Return the sum of the operands' hashes, uint64 [B]."""
    both = np.zeros(len(problems), dtype=np.uint64)
    for numbers in problems.operands:  # a sum, so that order does not matter
        powers = np.full(numbers.digits.shape[1], 0xD1342543DE82EF95, dtype=np.uint64)
        powers[:1] = 1
        mixed = mix(numbers.digits.astype(np.uint64) @ powers.cumprod() + _GOLDEN)
        both += np.where(numbers.lengths > 0, mixed, np.uint64(0))
    return both


@dataclass(frozen=True)
class Problems:
    """A batch of problems, in which some may have fewer operands than others."""

    operands: tuple[Numbers, ...]  # N of [B] each; one of length 0 is none, and none follows it

    def __len__(self) -> int:
        return len(self.operands[0])

    def __getitem__(self, index: np.ndarray | slice) -> "Problems":
        return Problems(tuple(numbers[index] for numbers in self.operands))

    @property
    def base(self) -> int:
        """Base of the digits."""
        return self.operands[0].base

    @property
    def lengths(self) -> np.ndarray:
        """Digits of the operands, 0 where there is none, ``int64 [B, N]``."""
        return np.stack([numbers.lengths for numbers in self.operands], axis=1)

    @property
    def counts(self) -> np.ndarray:
        """Number of operands of each problem, ``int64 [B]``."""
        return (self.lengths > 0).sum(axis=1)

    @classmethod
    def from_ints(cls, problems: Sequence[Sequence[int]], base: int = 10) -> "Problems":
        """Problems from the whole numbers, zero or more, that are the operands of each."""
        operands = []
        for k in range(max(map(len, problems), default=1)):
            there = np.array([len(one) > k for one in problems], dtype=bool)
            numbers = Numbers.from_ints([one[k] if len(one) > k else 0 for one in problems], base)
            operands.append(replace(numbers, lengths=np.where(there, numbers.lengths, 0)))
        return cls(tuple(operands))

    @classmethod
    def where(cls, first: np.ndarray, one: "Problems", other: "Problems") -> "Problems":
        """Return the problem of ``one`` where ``first``, bool [B], is true, else that of ``other``.

        Example: ``where([True, False], [12+3, 1+1], [4+5, 6+7+8])`` is ``[12+3, 6+7+8]``.
        """
        operands = []
        for k in range(max(len(one.operands), len(other.operands))):
            pair = [part.operands[k] if k < len(part.operands) else None for part in (one, other)]
            width = max(numbers.digits.shape[1] for numbers in pair if numbers is not None)
            digits, lengths = [], []
            for numbers in pair:
                none = np.zeros((len(first), width), dtype=np.uint8)
                digits.append(none if numbers is None else numbers.padded(width))
                lengths.append(none[:, 0].astype(int) if numbers is None else numbers.lengths)
            chosen = np.where(first[:, None], *digits), np.where(first, *lengths)
            operands.append(Numbers(*chosen, other.base))
        return cls(tuple(operands))

    def to_ints(self) -> list[tuple[int, ...]]:
        """The operands of each problem as Python integers."""
        rows = zip(*(numbers.to_ints() for numbers in self.operands), strict=True)
        return [row[:n] for row, n in zip(rows, self.counts.tolist(), strict=True)]
