"""Base class of tasks: their problems, correct answers, text form and layouts.

A task defines the lengths of random operands, the correct answer, the text form of a problem, and
the layouts that draw it. Multiplication, addition and texts are in modules of their own.
"""

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from canvas.arithmetic import BASES, Numbers, numbers_from_words, parse
from canvas.cells.local_rule import LocalRule
from canvas.choices import OwnCodeError, accept_released, resolve, shortened
from canvas.layouts import Layout
from canvas.problems import MOST_RANDOM, Problems, random_shares
from canvas.symbols import Alphabet, vocab_size

# Marks a setting, in the metadata of its field, that tasks did not always have. At its default it
# is not part of a task's data, so that runs and proofs of before stay those of the same task.
ADDED = "added"


class Task(ABC):
    """Kind of problem and its layout: a dataclass of settings."""

    layouts: Mapping[str, Layout]  # by name
    sign: str  # printed between two operands
    signs: str  # accepted between two operands in typed problems
    smallest: int = 1  # smallest random operand, 0 or 1; typed problems may always contain 0
    requires: str = ""  # sentence on the problems that `allows` allows, for messages
    unit: str = "letters"  # of the length of texts
    arity: tuple[int, int] = (2, 2)  # fewest and most operands of a problem
    # Pairs of measures of a problem's size for the axes of a grid, the default first.
    grids: tuple[tuple[str, str], ...] = (("digits_a", "digits_b"),)

    # Settings of all tasks.
    layout: str  # one of `layouts`, or your own class, like ``mine.Totals``
    base: int  # of the digits, 2 to 16
    long_bias: float = 0.0  # preference for long operands in sampling; 0: all sizes evenly

    def __init_subclass__(cls) -> None:
        """Let a task of your own define `random_operand` by its released name."""
        accept_released(cls, "random_operand", "draw")

    def __post_init__(self) -> None:
        found = resolve(self.layout, self.layouts, Layout, "layout")
        if isinstance(found, type):
            try:
                found = found()
            except TypeError as error:
                raise OwnCodeError(
                    f"layout {self.layout}: it has to be made without arguments: {error}"
                ) from None
            if missing := [part for part in ("name", "sign") if not hasattr(found, part)]:
                raise OwnCodeError(f"layout {self.layout} has no {' and no '.join(missing)}")
        self.canvas_layout: Layout = found  # `layout` is its name
        if not isinstance(self.base, Alphabet) and self.base not in BASES:
            raise ValueError(f"the base is {BASES[0]} to {BASES[-1]}, not {self.base}")
        if not np.isfinite(self.long_bias):
            raise ValueError(f"long_bias is a finite number, not {self.long_bias}")
        if self.smallest not in (0, 1):
            raise ValueError(f"smallest is 0 or 1, not {self.smallest}")

    @property
    def layout_impl(self) -> Layout:
        """The layout, by its released name."""
        warnings.warn("Task.layout_impl is canvas_layout now", DeprecationWarning, stacklevel=2)
        return self.canvas_layout

    @layout_impl.setter
    def layout_impl(self, layout: Layout) -> None:
        self.canvas_layout = layout

    @property
    @abstractmethod
    def longest(self) -> tuple[int, ...]:
        """Digits of each operand of the largest problems; one entry for each possible operand."""

    @property
    @abstractmethod
    def ranges(self) -> dict[str, tuple[int, int]]:
        """Lowest and highest value of each measure of a problem's size in training."""

    @property
    def gaps(self) -> dict[str, tuple[int, ...]]:
        """Values within `ranges` that training leaves out, by measure; a missing one has none."""
        return {}

    @abstractmethod
    def answer(self, operands: Sequence[int]) -> int:
        """Return the correct answer."""

    @abstractmethod
    def lengths(self, words: np.ndarray) -> np.ndarray:
        """Return random numbers of digits of the operands, int64 [B, N], 0 for no operand.

        Args:
            words: random words, uint64 [B], one a problem.
        """

    @abstractmethod
    def measures(self, problems: Problems) -> dict[str, np.ndarray]:
        """Return the sizes of problems, int64 [B] for each measure of `ranges`."""

    @abstractmethod
    def of_size(self, **size: int) -> tuple[int, ...]:
        """Return the digits of each operand of a problem of a size, given by two measures."""

    def random_operand(self, words: np.ndarray, lengths: np.ndarray) -> Numbers:
        """Return a random operand of exactly the given lengths for each of B problems.

        Args:
            words: random words, uint64 [B, n], one a digit.
            lengths: int64 [B]; 0: no operand.
        """
        return numbers_from_words(words, lengths, self.base, self.smallest)

    draw = random_operand  # its released name

    def count(self, length: int) -> int:
        """Return the number of operands of a length."""
        first = self.smallest if length == 1 else self.base ** (length - 1)
        return self.base**length - first

    def every(self, length: int) -> Iterable[int]:
        """Return all operands of a length."""
        last = self.base**length
        return range(last - self.count(length), last)

    def in_range(self, problems: Problems) -> np.ndarray:
        """Mask of the problems whose size occurs in training, ``bool [B]``.

        A problem with a 0 has no such size if operands are chosen from 1 up.
        """
        fits = np.ones(len(problems), dtype=bool)
        if self.smallest:
            for numbers in problems.operands:
                fits &= numbers.digits.any(axis=1) | (numbers.lengths == 0)
        ranges, sizes = self.ranges, self.measures(problems)
        for measure in ranges.keys() & sizes.keys():
            low, high = ranges[measure]
            fits &= (sizes[measure] >= low) & (sizes[measure] <= high)
        return fits

    def local_rule(self, latent: bool = False) -> LocalRule:
        """Return the local rule of the layout; ``latent``: the rule for latent codes.

        Raises:
            ValueError: the layout declares no such rule.
        """
        if self.canvas_layout.local_rule is None:
            known = [name for name, layout in self.layouts.items() if layout.local_rule]
            raise ValueError(
                f"the layout {self.layout} declares no local rule, the messages of its cells: take "
                f"{' or '.join(known)}, or give it one, see docs/extending.md"
            )
        rule = self.canvas_layout.latent_rule if latent else None
        return (rule or self.canvas_layout.local_rule)(self.base)

    def allows(self, problems: Problems) -> np.ndarray:
        """Return whether the task contains each problem, bool [B]; by default all."""
        return np.ones(len(problems), dtype=bool)

    def extent(self) -> tuple[int, int]:
        """Return the smallest canvas (height, width) that fits every problem of the task."""
        return self.canvas_layout.extent(self.longest, self.base)

    def parse(self, text: str) -> tuple[int, ...]:
        """Return the operands of a typed problem: ``123x456`` → (123, 456).

        Raises:
            ValueError: the text is no problem of the task.
        """
        parts = re.split(f"[{re.escape(self.signs)}]", text)
        if len(parts) < 2 or not all(part.strip() for part in parts):
            raise ValueError(f"{shortened(text)} is no {self.name}; write it like {self.example}")
        operands = tuple(parse(part, self.base) for part in parts)
        self.problems([operands])
        return operands

    def parsed(self, texts: Iterable[str]) -> Problems:
        """Return typed problems, see `parse`.

        Raises:
            ValueError: a text is no problem of the task.
        """
        return self.problems([self.parse(text) for text in texts])

    def problems(self, operands: Sequence[Sequence[int]]) -> Problems:
        """Return problems from whole numbers.

        Raises:
            ValueError: the task or its layout does not support one of them.
        """
        for one in operands:
            for number in one:
                if isinstance(number, bool) or not isinstance(number, Integral):
                    raise ValueError(f"{number!r} is not a whole number")
            if why := self._miscounted(len(one)):
                raise ValueError(why)
        problems = Problems.from_ints(operands, self.base)
        for why in filter(None, self.refused(problems)):
            raise ValueError(why)
        return problems

    def refused(self, problems: Problems) -> list[str | None]:
        """Return for each problem the reason why the task or its layout refuses it, or None.

        Bases are not compared.
        """
        found = [self._miscounted(count) for count in problems.counts.tolist()]
        counted = np.array([i for i, why in enumerate(found) if why is None], dtype=np.int64)
        if not len(counted):
            return found
        # Without columns of operands beyond the task's arity; they are empty here.
        known = Problems(problems[counted].operands[: self.arity[1]])
        allowed = self.allows(known)
        for i in np.flatnonzero(~allowed).tolist():
            name = self.names(known[i : i + 1])[0]
            why = f": {self.requires}" if self.requires else ""
            found[counted[i]] = f"{name} is no problem of the task {self.name}{why}"
        different, which = np.unique(known.lengths, axis=0, return_inverse=True)
        for index, lengths in enumerate(different.tolist()):
            try:
                self.canvas_layout.room([n for n in lengths if n], self.base)
            except ValueError as error:  # no room for so many operands
                for i in np.flatnonzero((which.reshape(-1) == index) & allowed).tolist():
                    found[counted[i]] = str(error)
        return found

    def _miscounted(self, count: int) -> str | None:
        """Return the reason why the task refuses a number of operands; None: it does not."""
        fewest, most = self.arity
        many = str(most) if fewest == most else f"{fewest} to {most}"
        fits = fewest <= count <= most
        return None if fits else f"{self.name} takes {many} operands, not {count}"

    def names(self, problems: Problems) -> list[str]:
        """Return each problem as text, like ``321 x 654``."""
        columns = [numbers.to_text() for numbers in problems.operands]
        return [f" {self.sign} ".join(filter(None, row)) for row in zip(*columns, strict=True)]

    @property
    def vocab_size(self) -> int:
        """Number of ids that a model needs for the task's canvases."""
        return max(vocab_size(self.base), 1 + (self.canvas_layout.sign or 0))

    @property
    def name(self) -> str:
        """Name of the task in a sentence."""
        return type(self).__name__.lower()

    @property
    def example(self) -> str:
        """Problem as it is typed, for messages."""
        return self.sign.join(map(self._written, ("123", "456")))

    def _written(self, digits: str) -> str:
        """Return digits from 1 as those of the base: in base 3 456 → 212."""
        return "".join(str(1 + (int(digit) - 1) % (self.base - 1)) for digit in digits)

    @property
    def digits_in_words(self) -> str:
        """Base, or alphabet, in a sentence."""
        return f"{'over' if isinstance(self.base, Alphabet) else 'in base'} {self.base}"


@dataclass
class TwoOperands(Task):
    """Task with two operands, each with a range of lengths.

    Attributes:
        layout: see `Task`.
        base: of the number system.
        digits_a: fewest and most digits of the first operand.
        digits_b: fewest and most digits of the second operand.
        long_bias: lengths are chosen with probability ∝ (digits of a · digits of b) ^ long_bias.
    """

    layout: str
    base: int = 10
    digits_a: tuple[int, int] = (1, 3)
    digits_b: tuple[int, int] = (1, 2)
    long_bias: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.digits_a = digits_range("digits_a", self.digits_a)
        self.digits_b = digits_range("digits_b", self.digits_b)

    @property
    def longest(self) -> tuple[int, int]:
        return self.digits_a[1], self.digits_b[1]

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        return {"digits_a": self.digits_a, "digits_b": self.digits_b}

    def lengths(self, words: np.ndarray) -> np.ndarray:
        a, b = (np.arange(low, high + 1) for low, high in (self.digits_a, self.digits_b))
        pairs = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2)
        return pairs[random_sizes(words, pairs.prod(axis=1), self.long_bias)]

    def measures(self, problems: Problems) -> dict[str, np.ndarray]:
        return {"digits_a": problems.lengths[:, 0], "digits_b": problems.lengths[:, 1]}

    def of_size(self, **size: int) -> tuple[int, int]:
        return size["digits_a"], size["digits_b"]


def digits_range(
    name: str, value: Sequence[int], least: int = 1, most: int = MOST_RANDOM
) -> tuple[int, int]:
    """Check a range [fewest, most], and return it.

    Raises:
        ValueError: it is no such range.
    """
    ends = tuple(int(n) for n in value)
    if len(ends) != 2 or not least <= ends[0] <= ends[1] <= most:
        raise ValueError(f"{name} is [fewest, most] from {least} to {most}, not {list(ends)}")
    return ends[0], ends[1]


def random_sizes(words: np.ndarray, sizes: np.ndarray, bias: float) -> np.ndarray:
    """Choose indices of ``sizes``, int64, with probability ∝ sizes ^ bias.

    Args:
        words: random words, uint64 of any shape, one an index.
        sizes: [C].
        bias: 0 chooses all indices evenly.
    """
    weights = sizes.astype(float) ** bias
    cumulative = np.cumsum(weights / weights.sum())
    index = np.searchsorted(cumulative, random_shares(words), side="right")
    return np.minimum(index, len(cumulative) - 1)


draw_sizes = random_sizes  # its released name


def describe_ranges(
    ranges: Mapping[str, tuple[int, int]],
    gaps: Mapping[str, tuple[int, ...]] | None = None,
    unit: str = Task.unit,
) -> str:
    """Return sizes of problems as text, like ``1 to 4 x 1 to 4 digits``.

    ``gaps`` are values that are left out, see `Task.gaps`; ``unit`` is that of the task.
    """
    if "length" in ranges:
        (low, high), (_, texts) = ranges["length"], ranges["texts"]
        return f"{low} to {high} {unit}" + (f", {texts} texts" if texts > 1 else "")
    if "addends" in ranges:
        (low, high), (fewest, most) = ranges["digits"], ranges["addends"]
        addends = f"{fewest} to {most}" if fewest < most else fewest
        left_out = ", ".join(str(n) for n in (gaps or {}).get("digits", ()) if low < n < high)
        left_out = f" without {left_out}" if left_out else ""
        return f"{low} to {high} digits{left_out}, {addends} addends"
    return " x ".join(f"{low} to {high}" for low, high in ranges.values()) + " digits"
