"""Tasks on texts: symbols in, symbols out, over any alphabet.

A text is a number whose digits are its characters, see `canvas.symbols.Alphabet`. So everything
that works with numbers, such as splits, samples, solving and evaluation, works with texts.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product

import numpy as np

from canvas.arithmetic import Numbers, parse
from canvas.choices import OwnCodeError, one_of, shortened
from canvas.layouts import ANSWER, CellIndex, Layout, Row, table, write
from canvas.problems import Problems
from canvas.symbols import Alphabet
from canvas.task import Task, digits_range, random_sizes


class TwoRows(Layout):
    """A text above, the answer below; several texts in a row each:

    abcab
    bacba
    """

    name = "two_rows"
    sign = None
    # Set by the task: the answer to texts, and their number.
    solve: Callable[..., str]
    texts: int

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        return len(lengths) + 1, max(lengths)

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        for row, numbers in enumerate(problems.operands):
            write(content, row, 0, numbers)

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        base = operands[0].base
        texts = zip(*(numbers.to_text() for numbers in operands), strict=True)
        answers = Numbers.from_ints([parse(self.solve(*one), base) for one in texts], base)
        yield Row(ANSWER, answers, 0, len(operands), np.ones(len(answers), dtype=bool))

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        return {f"text {i + 1}": row[::-1] for i, row in enumerate(content[: self.texts])}


@dataclass
class TextTask(Task):
    """Task whose problems and answers are texts; your own one defines ``letters`` and `solve`.

    Attributes:
        layout: one of `layouts`, or your own class.
        length: fewest and most characters of a text.
        long_bias: a length is chosen with probability ∝ length ^ long_bias.
    """

    letters = "abcde"  # characters of problems
    outputs = ""  # characters of answers that are not among the letters
    layouts = table([TwoRows()])
    sign = signs = " "
    arity = (1, 1)
    grids = (("length", "texts"),)

    layout: str = one_of("two_rows", layouts, open=True)
    length: tuple[int, int] = (1, 8)
    long_bias: float = 0.0

    def __post_init__(self) -> None:
        try:
            self.base = self.alphabet = Alphabet(self.letters, self.outputs)
        except ValueError as error:
            raise OwnCodeError(f"the task {self.name} is wrong: {error}") from None
        super().__post_init__()
        self.length = digits_range("length", self.length)
        self.canvas_layout = copy(self.canvas_layout)
        if isinstance(self.canvas_layout, TwoRows):
            self.canvas_layout.solve, self.canvas_layout.texts = self._solved, self.arity[0]

    @abstractmethod
    def solve(self, *texts: str) -> str:
        """Return the answer, which is at most as long as the longest text."""

    def _solved(self, *texts: str) -> str:
        found, longest = self.solve(*texts), max(map(len, texts))
        known = self.alphabet.characters[1:]
        if isinstance(found, str) and 0 < len(found) <= longest and {*found} <= {*known}:
            return found
        raise OwnCodeError(
            f"solve({', '.join(map(repr, texts))}) of the task {self.name} returns {found!r}: let "
            f"it return 1 to {longest} characters of {known}"
        )

    @property
    def name(self) -> str:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()

    @property
    def example(self) -> str:
        texts = [(self.letters * 3)[:3]] * self.arity[0]
        return " ".join((self.name, *texts))

    @property
    def longest(self) -> tuple[int, ...]:
        return (self.length[1],) * self.arity[1]

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        return {"length": self.length, "texts": self.arity}

    def answer(self, operands: Sequence[int]) -> int:
        numbers = Numbers.from_ints(operands, self.base)
        return parse(self._solved(*numbers.to_text()), self.base)

    def lengths(self, words: np.ndarray) -> np.ndarray:
        sizes = np.arange(self.length[0], self.length[1] + 1)
        chosen = sizes[random_sizes(words, sizes, self.long_bias)]
        return np.repeat(chosen[:, None], self.arity[1], axis=1)

    def measures(self, problems: Problems) -> dict[str, np.ndarray]:
        return {"length": problems.lengths.max(axis=1), "texts": problems.counts}

    def of_size(self, **size: int) -> tuple[int, ...]:
        if size["texts"] != self.arity[0]:
            raise ValueError(f"a problem of {self.name} has {self.arity[0]} texts: leave texts out")
        return (size["length"],) * size["texts"]

    def count(self, length: int) -> int:
        return self.alphabet.letters**length

    def every(self, length: int) -> Iterable[int]:
        letters = range(1, self.alphabet.letters + 1)
        for digits in product(letters, repeat=length):
            yield from Numbers(np.array([digits[::-1]]), np.array([length]), self.base).to_ints()

    def allows(self, problems: Problems) -> np.ndarray:
        fits = np.ones(len(problems), dtype=bool)
        for numbers in problems.operands:
            written = np.arange(numbers.digits.shape[1]) < numbers.lengths[:, None]
            letters = (numbers.digits > 0) & (numbers.digits <= self.alphabet.letters)
            fits &= (letters | ~written).all(axis=1)
        return fits

    def parse(self, text: str) -> tuple[int, ...]:
        """Return the operands of a typed problem: ``abcab``, or with its task ``reverse abcab``.

        Raises:
            ValueError: the text is no problem of the task.
        """
        texts = text.strip().removeprefix(f"{self.name} ").split()
        letters = self.alphabet.characters[1 : self.alphabet.letters + 1]
        if len(texts) != self.arity[0] or not all({*one} <= {*letters} for one in texts):
            raise ValueError(
                f"{shortened(text)} is no {self.name}; write it like {self.example}, with the "
                f"letters {letters}"
            )
        operands = tuple(parse(one, self.base) for one in texts)
        self.problems([operands])
        return operands

    def names(self, problems: Problems) -> list[str]:
        texts = zip(*(numbers.to_text() for numbers in problems.operands), strict=True)
        return [" ".join((self.name, *filter(None, one))) for one in texts]
