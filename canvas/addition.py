"""Long addition: the task and two layouts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers, add_shifted
from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.column import ColumnRule, PairRule
from canvas.cells.rules.column_carries import ColumnCarriesRule
from canvas.choices import CHOICES, check_choice, one_of
from canvas.formats import Formatted
from canvas.layouts import ANSWER, CARRIES, CellIndex, Layout, Row, table, write
from canvas.problems import MOST_OPERANDS, Problems, random_words
from canvas.symbols import vocab_size
from canvas.task import ADDED, Task, digits_range, random_sizes


class Column(Layout):
    """The addends below each other, the sign before the last of them; the sum:

    __87_
    _604_
    _+_9_
    _700_
    """

    name = "column"
    sign = symbols.PLUS
    local_rule: type[LocalRule] | None = ColumnRule

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        carried = next(n for n in count() if base**n >= len(lengths))
        return len(lengths) + 1, max(max(lengths) + carried, lengths[-1] + 2)

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        rows = int(problems.counts.max(initial=0))  # no problem here has more operands
        for row, numbers in enumerate(problems.operands[:rows]):
            write(content, row, 0, numbers)
        sample, last = np.arange(len(problems)), problems.counts - 1
        content[sample, last, problems.lengths[sample, last] + 1] = self.sign

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        everywhere = np.ones(len(operands[0]), dtype=bool)
        row = np.sum([numbers.lengths > 0 for numbers in operands], axis=0)
        yield Row(ANSWER, reduce(add_shifted, operands), 0, row, everywhere)

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        last, column = sign
        self._check_sign(sign, (max(last, 1), column))
        found = {f"addend {i + 1}": content[i, ::-1] for i in range(last)}
        return found | {f"addend {last + 1}": content[last, :column:-1]}


class ColumnCarries(Column):
    """`Column` with the carries in a row of their own above the sum:

        __87_
        _604_
        _+_9_
        _12__
        _700_

    Each stands in the column that it is added to, 0 where nothing is carried, and is one digit:
    there are at most as many addends as the base has digits.
    """

    name = "column_carries"
    local_rule = ColumnCarriesRule

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        if len(lengths) > base:
            raise ValueError(
                f"the layout {self.name} writes a carry as one digit: at most {base} addends in "
                f"base {base}, not {len(lengths)}"
            )
        height, width = super().room(lengths, base)
        return height + 1, width

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        ((_, total, _, row, everywhere),) = super().rows(operands)
        columns = np.stack([numbers.padded(total.digits.shape[1]) for numbers in operands])
        # The incoming carry of a column is less than the base.
        carried = (total.digits - columns.sum(axis=0, dtype=np.int64)) % total.base
        carried = carried[:, 1:].astype(np.uint8)
        yield Row(CARRIES, Numbers(carried, total.lengths - 1, total.base), 1, row, everywhere)
        yield Row(ANSWER, total, 0, row + 1, everywhere)


ORDERS = ("reversed", "plain")


@dataclass
class Addition(Task):
    """The sum of two or more numbers from 0 up.

    Attributes:
        layout: one of `layouts`, or your own class.
        base: of the digits, 2 to 16.
        digits: fewest and most digits of an addend.
        addends: fewest and most addends.
        left_out: lengths between these ends that no addend has in training, like ``[18]``.
        long_bias: an addend's length is chosen with probability ∝ digits ^ long_bias, the number of
            addends with probability ∝ addends ^ long_bias.
        order: of the digits as a GPT reads and writes them: reversed, the lowest first, or plain,
            the highest first.
        index_hints: whether each digit is preceded by a marker of its place (Zhou et al. 2023),
            see `canvas.formats`.
    """

    layouts = table([Column(), ColumnCarries()])
    sign, signs = "+", "+"
    smallest, arity = 0, (2, MOST_OPERANDS)
    grids = (("digits", "addends"), ("digits_a", "digits_b"))

    layout: str = one_of("column", layouts, open=True)
    base: int = 10
    digits: tuple[int, int] = (1, 3)
    addends: tuple[int, int] = (2, 2)
    long_bias: float = 0.0
    left_out: tuple[int, ...] = field(default=(), metadata={ADDED: True})
    order: str = field(default="reversed", metadata={ADDED: True, CHOICES: ORDERS})
    index_hints: bool = field(default=False, metadata={ADDED: True})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("order", self.order, ORDERS)
        if self.order == "plain" or self.index_hints:
            plain = self.order == "plain"
            self.canvas_layout = Formatted(self.canvas_layout, plain, self.index_hints)
        self.digits = digits_range("digits", self.digits)
        self.addends = digits_range("addends", self.addends, 2, MOST_OPERANDS)
        self.left_out = tuple(sorted({int(n) for n in self.left_out}))
        if {*self.left_out} & {*self.digits} or min(self.left_out, default=1) < 1:
            raise ValueError(
                f"left_out has lengths between the ends of digits, {list(self.digits)}, from 1 up, "
                f"not {list(self.left_out)}: to leave out an end, change digits"
            )

    @property
    def longest(self) -> tuple[int, ...]:
        return (self.digits[1],) * self.addends[1]

    @property
    def vocab_size(self) -> int:
        return vocab_size(self.base, self.index_hints)

    def answer(self, operands: Sequence[int]) -> int:
        return sum(operands)

    def lengths(self, words: np.ndarray) -> np.ndarray:
        counts, sizes = (np.arange(low, high + 1) for low, high in (self.addends, self.digits))
        sizes = np.setdiff1d(sizes, self.left_out)
        random = random_words(words, 1 + self.addends[1])
        addends = counts[random_sizes(random[:, 0], counts, self.long_bias)]
        lengths = sizes[random_sizes(random[:, 1:], sizes, self.long_bias)]
        return np.where(np.arange(self.addends[1]) < addends[:, None], lengths, 0)

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        sizes = {"digits": self.digits, "addends": self.addends}
        return sizes | ({} if self.addends[0] > 2 else dict.fromkeys(_BY_OPERAND, self.digits))

    @property
    def gaps(self) -> dict[str, tuple[int, ...]]:
        gaps = {name: self.left_out for name in self.ranges if name != "addends"}
        return gaps if self.left_out else {}

    def measures(self, problems: Problems) -> dict[str, np.ndarray]:
        lengths, counts = problems.lengths, problems.counts
        by_operand = zip(_BY_OPERAND, lengths.T if (counts == 2).all() else (), strict=False)
        return {"digits": lengths.max(axis=1), "addends": counts, **dict(by_operand)}

    def local_rule(self, latent: bool = False) -> LocalRule:
        if isinstance(self.canvas_layout, Formatted):
            raise ValueError(
                "additions in plain order or with index hints have no local rule, the messages of "
                "cells: set order to reversed and index_hints to false"
            )
        rule = super().local_rule(latent)
        if rule.most_operands is not None and self.addends[1] > rule.most_operands:
            raise ValueError(
                f"the local rule of {self.layout} is for {rule.most_operands} addends: set "
                f"data.task.addends to [2, {rule.most_operands}], or take the layout column"
            )
        if latent and self.addends[1] == 2 and type(rule) is ColumnRule:
            return PairRule(self.base)  # no drawn solution has the messages of sums of more
        return rule

    def in_range(self, problems: Problems) -> np.ndarray:
        (low, _), lengths = self.digits, problems.lengths
        inside = ((lengths >= low) | (lengths == 0)) & ~np.isin(lengths, self.left_out)
        return super().in_range(problems) & inside.all(axis=1)

    def of_size(self, **size: int) -> tuple[int, ...]:
        """Return lengths: ``addends`` operands of ``digits`` digits, or ``digits_a, digits_b``."""
        if "addends" in size:
            return (size["digits"],) * size["addends"]
        return size["digits_a"], size["digits_b"]


_BY_OPERAND = ("digits_a", "digits_b")
