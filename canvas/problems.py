"""Which problems: digit ranges, the split, and sampling.

A pair of operands belongs to train, validation or test by a hash of the pair, whatever the range,
configuration or seed it was drawn with, so no pair is ever in two of them. The hash does not
depend on the order: 12 × 34 and 34 × 12 stay together.

A sample is a pure function of (seed, split, epoch, index). Random words come from a counter
passed through the finaliser of SplitMix64 (Steele, Lea and Flood 2014), so that a batch of samples
is drawn at once and any sample can be drawn alone.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from canvas.arithmetic import BASES, Numbers, numbers_from_words
from canvas.choices import one_of
from canvas.layouts import LAYOUTS, Layout, get_layout

Split = Literal["train", "validation", "test"]
SPLITS: tuple[str, ...] = get_args(Split)
_SHARES = (0.8, 0.1, 0.1)

# What nobody can have meant, and no machine could work out: told before memory runs out.
MOST_DIGITS = 1000  # of an operand
MOST_CELLS = 12_000  # of a canvas for a model: attention may compare every cell with every other

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ATTEMPTS = 256  # tries at a pair of the right split before other lengths are drawn
_LENGTH_DRAWS = 16


def mix(words: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser: ``uint64`` words to well-mixed words of the same shape."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


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


def split_of(a: Numbers, b: Numbers) -> np.ndarray:
    """Each pair's index in `SPLITS`, ``int64 [B]``: 80 % train, 10 % validation, 10 % test."""
    pair = mix(mix(_hash(a) + _hash(b)) + _GOLDEN)  # a sum, so that order does not matter
    share = (pair >> np.uint64(11)) / float(2**53)
    return np.searchsorted(np.cumsum(_SHARES)[:-1], share, side="right")


def pair_keys(problems: "Problems") -> np.ndarray:
    """A random key ``uint64 [B]`` that is each problem's own, whatever problems are beside it."""
    return mix(_hash(problems.a) + mix(_hash(problems.b) + _GOLDEN))


def _hash(x: Numbers) -> np.ndarray:
    total = np.zeros(len(x), dtype=np.uint64)
    power = np.ones(1, dtype=np.uint64)  # an array: only scalars warn when they wrap around
    for place in range(x.digits.shape[1]):
        total += x.digits[:, place] * power
        power = power * np.uint64(0xD1342543DE82EF95)
    return mix(total + _GOLDEN)


@dataclass
class Task:
    """What is to be multiplied, and how it is written down.

    Attributes:
        layout: how the working is written down, see `canvas.layouts`.
        base: of the digits, 2 to 10.
        digits_a: fewest and most digits of the multiplicand.
        digits_b: fewest and most digits of the multiplier.
        long_bias: lengths are drawn with probability ∝ (digits of a · digits of b) ^ long_bias:
            0 draws every pair of lengths evenly, 1 practises long operands more.
    """

    layout: str = one_of("lattice", LAYOUTS)
    base: int = 10
    digits_a: tuple[int, int] = (1, 3)
    digits_b: tuple[int, int] = (1, 2)
    long_bias: float = 0.0

    def __post_init__(self) -> None:
        get_layout(self.layout)
        if self.base not in BASES:
            raise ValueError(f"the base is {BASES[0]} to {BASES[-1]}, not {self.base}")
        for name in ("digits_a", "digits_b"):
            digits = tuple(int(n) for n in getattr(self, name))
            if len(digits) != 2 or not 1 <= digits[0] <= digits[1] <= MOST_DIGITS:
                raise ValueError(
                    f"{name} is [fewest, most] from 1 to {MOST_DIGITS}, not {list(digits)}"
                )
            setattr(self, name, digits)
        if not np.isfinite(self.long_bias):
            raise ValueError(f"long_bias is a finite number, not {self.long_bias}")

    @property
    def rules(self) -> Layout:
        """The layout itself."""
        return get_layout(self.layout)

    def extent(self) -> tuple[int, int]:
        """The smallest canvas (height, width) that fits every problem of the task."""
        return self.rules.extent(self.digits_a[1], self.digits_b[1])

    def room(self, problems: "Problems") -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns ``int64 [B]`` to keep free for each problem, whatever its product."""
        lengths = zip(problems.a.lengths.tolist(), problems.b.lengths.tolist(), strict=True)
        rows, columns = np.array([self.rules.extent(a, b) for a, b in lengths]).reshape(-1, 2).T
        return rows, columns


@dataclass
class Canvas:
    """The canvas that problems are drawn on.

    Attributes:
        height, width: cells; null cuts a canvas to the longest problem on it.
        margin: a cut canvas gets 0 to this many more rows and columns, drawn anew for every batch
            of training; everything that is solved gets the middle of that.
        square: a cut canvas is made square, as quarter turns need it.
    """

    height: int | None = None
    width: int | None = None
    margin: int = 2
    square: bool = False

    def __post_init__(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ValueError("give a canvas both a height and a width, or neither to have it cut")
        if self.margin < 0:
            raise ValueError(f"a margin is 0 cells or more, not {self.margin}")

    @property
    def cut(self) -> bool:
        """Whether it is cut to the problems on it."""
        return self.height is None

    def check(self, task: Task) -> None:
        """Raise ValueError if the task's longest problems do not fit, or nothing could train."""
        rows, columns = task.extent()
        height, width = self.size(rows, columns, (self.margin, self.margin))
        if height * width > MOST_CELLS:
            raise ValueError(
                f"canvases of up to {height} x {width} are more than {MOST_CELLS:,} cells: take "
                "shorter numbers, or a smaller canvas"
            )
        if self.height is None or self.width is None:
            return
        if rows > self.height or columns > self.width:
            raise ValueError(
                f"{task.digits_a[1]} x {task.digits_b[1]} digits in the {task.layout} layout "
                f"need a canvas of at least {rows} x {columns} (height x width), not "
                f"{self.height} x {self.width}"
            )

    def size(
        self, rows: int, columns: int, spare: tuple[int, int] | None = None
    ) -> tuple[int, int]:
        """Height and width for workings of that many rows and columns.

        Args:
            rows, columns: of the longest working.
            spare: rows and columns to add if the canvas is cut; None: the middle of the margin.
        """
        if self.height is not None and self.width is not None:
            return self.height, self.width
        more = spare or ((self.margin + 1) // 2,) * 2
        height, width = rows + more[0], columns + more[1]
        return (max(height, width),) * 2 if self.square else (height, width)


@dataclass(frozen=True)
class Problems:
    """A batch of operands: a (multiplicand) times b (multiplier)."""

    a: Numbers
    b: Numbers

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, index: np.ndarray | slice) -> "Problems":
        return Problems(self.a[index], self.b[index])

    @classmethod
    def from_ints(cls, pairs: list[tuple[int, int]], base: int = 10) -> "Problems":
        """Problems from pairs of Python integers."""
        a, b = ([pair[k] for pair in pairs] for k in (0, 1))
        return cls(Numbers.from_ints(a, base), Numbers.from_ints(b, base))

    def names(self) -> list[str]:
        """Each problem as people write it, ``321 x 654``."""
        pairs = zip(self.a.to_text(), self.b.to_text(), strict=True)
        return [f"{a} x {b}" for a, b in pairs]


def sample(task: Task, seed: int, split: Split, epoch: int, index: np.ndarray) -> Problems:
    """The problems of the given indices, ``[B]``: lengths first, then operands of those lengths.

    Lengths that have no pair in the split (in base 2 there is but one pair of one-digit numbers)
    are drawn again.

    Raises:
        ValueError: no lengths of the task have a pair in this split.
    """
    key = keys(seed, split, epoch, index)
    wanted = SPLITS.index(split)
    B = len(index)
    a = np.zeros((B, task.digits_a[1]), dtype=np.uint8)
    b = np.zeros((B, task.digits_b[1]), dtype=np.uint8)
    lengths = np.zeros((B, 2), dtype=np.int64)
    n = a.shape[1] + b.shape[1]
    todo = np.arange(B)
    for draw in range(_LENGTH_DRAWS):
        drawn = _lengths(task, random_words(key[todo], 1, start=draw)[:, 0])
        for attempt in range(_ATTEMPTS):
            start = _LENGTH_DRAWS + (draw * _ATTEMPTS + attempt) * n
            words = random_words(key[todo], n, start)
            x = numbers_from_words(words[:, : a.shape[1]], drawn[:, 0], task.base)
            y = numbers_from_words(words[:, a.shape[1] :], drawn[:, 1], task.base)
            fits = split_of(x, y) == wanted
            done = todo[fits]
            a[done], b[done], lengths[done] = x.digits[fits], y.digits[fits], drawn[fits]
            todo, drawn = todo[~fits], drawn[~fits]
            if not todo.size:
                return Problems(
                    Numbers(a, lengths[:, 0], task.base), Numbers(b, lengths[:, 1], task.base)
                )
    raise ValueError(
        f"no pair of {task.digits_a[0]}-{task.digits_a[1]} by {task.digits_b[0]}-"
        f"{task.digits_b[1]} digits in base {task.base} belongs to the {split} split: "
        "allow longer operands"
    )


def _lengths(task: Task, words: np.ndarray) -> np.ndarray:
    """Digits of a and b, ``int64 [B, 2]``, from one random word a sample."""
    pairs = np.array(
        [
            (n, m)
            for n in range(task.digits_a[0], task.digits_a[1] + 1)
            for m in range(task.digits_b[0], task.digits_b[1] + 1)
        ]
    )
    weights = pairs.prod(axis=1).astype(float) ** task.long_bias
    cumulative = np.cumsum(weights / weights.sum())
    share = (words >> np.uint64(11)) / float(2**53)
    return pairs[np.minimum(np.searchsorted(cumulative, share, side="right"), len(pairs) - 1)]
