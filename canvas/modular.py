"""Products modulo p in base 2: the task and its layout."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from canvas.arithmetic import Numbers, parse
from canvas.cells.rules.waves import WavesRule
from canvas.choices import one_of, shortened
from canvas.layouts import ANSWER, SUM, CellIndex, Layout, Row, table, write
from canvas.problems import Problems, random_words
from canvas.symbols import MODULO
from canvas.task import TwoOperands


class Waves(Layout):
    """The two numbers a and b, and p; S in each row; a b mod p:

    _1_
    _11
    %11
    """

    name = "waves"
    sign = MODULO
    local_rule = WavesRule

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        width = max(lengths[1:])
        return 5 * width + 2, width + 1

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        a, b, p = problems.operands
        width = np.maximum(b.lengths, p.lengths)
        write(content, 1, 0, b)
        for shift in np.unique(width - p.lengths).tolist():
            write(content, 0, shift, a, width - p.lengths == shift)
            write(content, 2, shift, p, width - p.lengths == shift)
        content[np.arange(len(b)), 2, width] = self.sign

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        lengths = [numbers.lengths for numbers in operands]
        width = np.maximum(*lengths[1:])
        values = zip(*(numbers.to_ints() for numbers in operands), width.tolist(), strict=True)
        numbers = list(values)
        answers = Numbers.from_ints([a * b % p for a, b, p, _ in numbers], 2)
        worked = [_worked(*one) for one in numbers]
        most = int(width.max(initial=1))
        for row in range(5 * most - 2):
            present = row < 5 * width - 2
            digits = np.zeros((len(width), most), dtype=np.uint8)
            for one, content in zip(digits, worked, strict=True):
                if row < len(content):
                    one[: content.shape[1]] = content[row]
            yield Row(SUM, Numbers(digits, width, 2), 0, 3 + row, present)
        for shift in np.unique(width - lengths[2]).tolist():
            numbers_mod_p = Numbers(answers.padded(most), lengths[2], 2)
            there = width - lengths[2] == shift
            yield Row(ANSWER, numbers_mod_p, shift, 5 * width + 1, there)

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        self._check_sign(sign, (2, 0))
        found = {"first number": content[0, ::-1], "second number": content[1, ::-1]}
        return found | {"modulus": content[2, :0:-1]}


def _worked(a: int, b: int, p: int, width: int) -> np.ndarray:
    """Return the parities of S's signed digits in each row, uint8 [5 width - 2, width].

    Each wave adds a number to S, or to 2 S, with signed digits: column after column, from the left.
    """
    shift = width - p.bit_length()
    bits_a, bits_p = _bits(a << shift, width), _bits(p << shift, width)
    rows = np.arange(5 * width - 2)[:, None] - np.arange(width)[::-1]  # since the wave of row 0
    found = np.zeros(rows.shape, dtype=np.uint8)
    total = np.zeros(width, dtype=np.int64)

    def wave(start: int, before: np.ndarray, sign: int, added: np.ndarray) -> np.ndarray:
        digits = before + sign * added
        carry = (digits * sign > 0) * sign
        carry[-1] = 0  # the head has none
        digits = digits - 2 * carry
        here, after = rows == start, rows > start
        found[here] = np.broadcast_to(digits % 2, rows.shape)[here]
        digits[1:] += carry[:-1]
        found[after] = np.broadcast_to(digits % 2, rows.shape)[after]
        return digits

    for step in range(width):
        start = 4 * step
        if step:
            doubled = np.append(0, total[:-1])
            doubled[-1] += 2 * total[-1]
            total = wave(start - 1, doubled, -int(np.sign(doubled[-1])), bits_p)
        total = wave(start, total, b >> (width - 1 - step) & 1, bits_a)
        total = wave(start + 1, total, -int(total[-1] > 0), bits_p)
    return found


def _bits(number: int, width: int) -> np.ndarray:
    """Return the digits of a number in base 2, the lowest first, int64 [width]."""
    return np.array([number >> place & 1 for place in range(width)], dtype=np.int64)


@dataclass
class Modular(TwoOperands):
    """The product of two numbers modulo a third one, p, in base 2; the first number is below p.

    Attributes:
        layout: one of `layouts`, or your own class.
        base: of the number system, always 2.
        digits_a: fewest and most digits of p, and most digits of the first number.
        digits_b: fewest and most digits of the second number.
        long_bias: lengths are chosen with probability ∝ (digits of p · digits of b) ^ long_bias.
    """

    layouts = table([Waves()])
    sign, signs = "%", "%"
    smallest = 0
    arity = (3, 3)
    requires = "the third number has to be at least 2, and the first one below it"

    layout: str = one_of("waves", layouts, open=True)
    base: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base != 2:
            raise ValueError(
                f"products modulo p are in base 2, not {self.base}: set base to 2 (--base 2)"
            )

    @property
    def longest(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.digits_a[1], self.digits_b[1], self.digits_a[1]

    def answer(self, operands: Sequence[int]) -> int:
        a, b, p = operands
        return a * b % p

    def allows(self, problems: Problems) -> np.ndarray:
        a, _, p = problems.operands
        return (p.lengths > 1) & ~a.at_least(p)

    def lengths(self, words: np.ndarray) -> np.ndarray:
        pairs = super().lengths(words)
        random = random_words(words, 1)[:, 0]
        of_a = 1 + (random >> np.uint64(32)).astype(np.int64) % (2 * pairs[:, 0])
        return np.column_stack((np.minimum(of_a, pairs[:, 0]), pairs[:, 1], pairs[:, 0]))

    def measures(self, problems: Problems) -> dict[str, np.ndarray]:
        return {"digits_a": problems.lengths[:, 2], "digits_b": problems.lengths[:, 1]}

    def of_size(self, **size: int) -> tuple[int, ...]:  # type: ignore[override]
        return size["digits_a"], size["digits_b"], size["digits_a"]

    def parse(self, text: str) -> tuple[int, ...]:
        parts = re.split("[x×*X%]", text)
        if len(parts) != 3 or text.count(self.sign) != 1 or not all(map(str.strip, parts)):
            raise ValueError(f"{shortened(text)} is no {self.name}; write it like {self.example}")
        operands = tuple(parse(part, self.base) for part in parts)
        self.problems([operands])
        return operands

    def names(self, problems: Problems) -> list[str]:
        columns = [numbers.to_text() for numbers in problems.operands]
        return ["{} x {} % {}".format(*row) for row in zip(*columns, strict=True)]

    @property
    def name(self) -> str:
        return "product modulo p"

    @property
    def example(self) -> str:
        return "101x1101%111"
