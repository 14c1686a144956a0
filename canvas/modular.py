"""Products modulo p in base 2: the task, its layout, and the layout's local rule.

Example of the rule, 10 x 11 % 11:

    _10
    _11
    %11
    _10
    _00
    _11
    _01
    _01
    _11
    _00
    _00
    _00

The cell in row 8, column 2 from the right:

- reads from right: sum 1, carry 1, b 3 (its end), answer -, borrow 0
- reads from above: line 0, digit 0, twos 0, fours 0, a 1, b 2 (the digit 1), p 2 (the digit 1),
  phase 5 (it has doubled)
- reads from above left: wave -, points 0
- writes: 1
- decides: phase 2 (it adds a), sum 1, digit 0, twos 2 (-1), fours 1, wave 2, b 3, a 1, p 2,
  carry 0, answer -, borrow 0, and what lies between its ops

"-" stands for none.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from canvas.arithmetic import Numbers, parse
from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import digit_class, value
from canvas.cells.spec import END, TOKEN, ColumnKind, Inputs, Op, RowKind
from canvas.choices import one_of, shortened
from canvas.layouts import ANSWER, SUM, CellIndex, Layout, Row, table, write
from canvas.problems import Problems, random_words
from canvas.symbols import BLANK, DIGIT_IDS, MASK, MODULO
from canvas.task import TwoOperands


def signed(classes: np.ndarray) -> np.ndarray:
    """Return the signed digits of classes: 0, 1, and -1 for class 2."""
    return np.where(classes == 2, -1, classes)


def signed_class(digits: np.ndarray) -> np.ndarray:
    """Return the classes of signed digits, see `signed`."""
    return np.clip(digits, -1, 1) % 3


class WavesRule(LocalRule):
    """Rule of the layout `Waves`. The head decides what is added to S; a wave takes it along.

    All digits of S are 0, 1 or -1. The head is the column of p's highest digit, and has those of
    the two columns on its left as well, its twos and fours. Signals of a cell:

    - ``digit``: a digit of S, without the carry that comes with the next row.
    - ``sum``: the same with that carry.
    - ``phase``: what the head begins in this row; none in all other columns.
    - ``wave``: what the column on the right does in the next row.
    - ``b``: digits of b that are still to come, which move to the left; then the end.
    - ``points``: from the sign to the head.
    - ``answer``: in the last row: 1 S is the answer, 2 p is added.
    """

    left = ("sum", "carry", "b", "answer", "borrow")
    down = ("line", "digit", "twos", "fours", "a", "b", "p", "phase")
    down_right = ("wave", "points")
    sign = MODULO
    ops = tuple(
        Op(tuple(outputs.split()), tuple(inputs.split()))
        for outputs, inputs in {
            "line": "above above.line",
            "given points": "token",
            "first second third": "own.line own.given",
            "phase head": "above.phase above.b above_left.points",
            "step kind adds": "own.phase above_left.wave",
            "next end": "own.adds above.b right.b",
            "sum": "above.digit right.carry",
            "moved": "own.kind right.sum",
            "value": "own.moved own.sum",
            "twos_before": "own.kind own.sum above.twos",
            "twice": "own.kind above.twos",
            "fours_before": "own.twice above.fours",
            "leading": "own.twos_before own.fours_before",
            "lead": "own.leading own.value",
            "does source ends": "own.step own.lead",
            "wave": "own.does own.end",
            "change": "own.source above.a above.p",
            "answer after": "own.ends own.end right.answer",
            "added": "own.answer above.p",
            "shown borrow": "own.added own.value right.borrow",
            "digit out": "own.value own.change own.after",
            "carry lifts": "own.head own.out",
            "twos up": "own.twos_before own.lifts",
            "fours": "own.fours_before own.up",
            "b": "own.second own.third own.next own.after",
            "a": "own.first above.a own.after",
            "p": "own.third above.p own.after",
            "symbol": "own.shown own.b own.digit",
        }.items()
    )
    # Classes of ``phase``, then of ``step`` and ``wave``; the head's own ones are the last two.
    ADD_0, ADD_1, TAKE, WAIT, DOUBLE, END = range(1, 7)
    TAKE_P, LESS, SAME, MORE, ZERO, NEGATIVE, POSITIVE, HEAD_TAKES, HEAD_DOUBLES = range(3, 12)
    MOVES, DOUBLES = 1, 2  # of ``kind``: digits move, in the head as well
    PLUS_A, PLUS_P, MINUS_P = range(1, 4)  # of ``source``
    UP, DOWN = 1, 3  # of ``change``: 0 is added, 1 is added, 0 is taken, 1 is taken
    ENDED, DONE = 3, 4  # of ``b``, after none, 0 and 1
    KEEPS, PLUS = 1, 2  # of ``ends`` and ``answer``
    ENDING, LAST = 1, 2  # of ``after``
    CLEARS = 3  # of ``lifts`` and ``up``, after the three signed digits

    CLASSES = {
        "phase": 7, "head": 3, "step": 12, "does": 10, "wave": 10, "kind": 3, "next": 5, "b": 5,
        "moved": 4, "source": 4, "ends": 3, "change": 5, "answer": 3, "after": 3, "added": 4,
        "twice": 4, "lifts": 4, "up": 4,
    } | dict.fromkeys(("first", "adds", "end", "points", "a"), 2)  # fmt: skip

    def __init__(self, base: int) -> None:
        super().__init__(base)
        blank, bits, asked = (BLANK,), self.digits, (MASK,)
        some = (*bits, BLANK)
        given = [
            (blank, some, some, blank),
            (bits, some, some, blank),
            (blank, bits, bits[1:], (MODULO,)),
        ]
        kinds = [_columns(blank, *one) for one in given] + [_columns(asked, *[asked] * 4)]
        above = ("",), ("a",), ("b",), ("p", "work")
        self.rows = {
            name: RowKind(columns, ("margin", "low_edge", "rest_edge"), one)
            for name, columns, one in zip(("a", "b", "p", "work"), kinds, above, strict=True)
        }

    def classes(self, signal: str) -> int:
        return self.CLASSES.get(signal, 3)

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Distinguish waves and digits of b, so that none follows where S has ended."""
        return classes if signal in ("wave", "b") else np.zeros_like(classes)

    def can_occur(self, row: str, column: str, cell_inputs: Inputs) -> np.ndarray:
        """Exclude digits of the head that S cannot have, see docs/proof.md.

        S is at least -p, and below p, after an addition of a below 2 p. Doubled it is below 2 p.
        """
        if row != "work" or column != "top":
            return super().can_occur(row, column, cell_inputs)
        units = signed(cell_inputs["above.digit"]) + signed(cell_inputs["right.carry"])
        total = (
            units + 2 * signed(cell_inputs["above.twos"]) + 4 * signed(cell_inputs["above.fours"])
        )
        phase = cell_inputs["above.phase"]
        added = (phase == self.ADD_0) | (phase == self.ADD_1)
        doubled = np.abs(2 * total + signed(cell_inputs["right.sum"]))
        fits = (total >= -2) & (total <= np.where(added, 4, 2))
        return fits & ((phase != self.WAIT) | (doubled <= 4))

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        found = getattr(self, f"_{outputs[0]}")(inputs)
        found = found if isinstance(found, tuple) else (found,)
        return {n: part.astype(np.int64) for n, part in zip(outputs, found, strict=True)}

    def _line(self, inputs: Inputs) -> np.ndarray:
        above = inputs["above.line"]
        return np.where(inputs["above"] == 0, 1, np.where(above == 1, 2, 0))

    def _given(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        return digit_class(inputs[TOKEN], self.base), inputs[TOKEN] == MODULO

    def _first(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        line, given = inputs["own.line"], inputs["own.given"]
        first = (line == 1) & (given > 1)
        return first, np.where(line == 2, given, 0), np.where(line == 0, given, 0)

    def _phase(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        before, b = inputs["above.phase"], inputs["above.b"]
        begins = (inputs["above_left.points"] > 0) | (before == self.DOUBLE)
        after = np.array([0, self.TAKE, self.TAKE, self.WAIT, self.DOUBLE, 0, 0])[before]
        ends = (before == self.WAIT) & (b == self.ENDED)
        added = np.where(b == 2, self.ADD_1, self.ADD_0)
        phase = np.where(begins, added, np.where(ends, self.END, after))
        return phase, np.where(phase == self.END, 2, phase > 0)

    def _step(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        begins = np.array(
            [0, self.ADD_0, self.ADD_1, self.HEAD_TAKES, 0, self.HEAD_DOUBLES, self.ZERO]
        )[inputs["own.phase"]]
        step = np.where(begins > 0, begins, inputs["above_left.wave"])
        moves = (step >= self.LESS) & (step <= self.MORE)
        kind = np.where(step == self.HEAD_DOUBLES, self.DOUBLES, moves * self.MOVES)
        return step, kind, (step == self.ADD_0) | (step == self.ADD_1)

    def _next(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        above, right = inputs["above.b"], inputs["right.b"]
        moved = np.where(right == 0, self.ENDED, right)
        moves = (inputs["own.adds"] > 0) & (above > 0)
        return np.where(moves, moved, above), (above > 0) & (right == 0)

    def _sum(self, inputs: Inputs) -> np.ndarray:
        return signed_class(signed(inputs["above.digit"]) + signed(inputs["right.carry"]))

    def _moved(self, inputs: Inputs) -> np.ndarray:
        return np.where(inputs["own.kind"] > 0, 1 + inputs["right.sum"], 0)

    def _value(self, inputs: Inputs) -> np.ndarray:
        moved = inputs["own.moved"]
        return np.where(moved > 0, moved - 1, inputs["own.sum"])

    def _twos_before(self, inputs: Inputs) -> np.ndarray:
        doubles = inputs["own.kind"] == self.DOUBLES
        return np.where(doubles, inputs["own.sum"], inputs["above.twos"])

    def _twice(self, inputs: Inputs) -> np.ndarray:
        return np.where(inputs["own.kind"] == self.DOUBLES, 1 + inputs["above.twos"], 0)

    def _fours_before(self, inputs: Inputs) -> np.ndarray:
        twice, fours = inputs["own.twice"], signed(inputs["above.fours"])
        return signed_class(np.where(twice > 0, 2 * fours + signed(twice - 1), fours))

    def _leading(self, inputs: Inputs) -> np.ndarray:
        fours = inputs["own.fours_before"]
        return np.where(fours > 0, fours, inputs["own.twos_before"])

    def _lead(self, inputs: Inputs) -> np.ndarray:
        return np.where(inputs["own.leading"] > 0, inputs["own.leading"], inputs["own.value"])

    def _does(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        step, lead = inputs["own.step"], inputs["own.lead"]
        does = np.where(step == self.HEAD_TAKES, np.where(lead == 1, self.TAKE_P, 0), step)
        does = np.where(step == self.HEAD_DOUBLES, self.SAME - signed(lead), does)
        ends = np.array([self.ZERO, self.POSITIVE, self.NEGATIVE])[lead]
        does = np.where(step == self.ZERO, ends, does)
        source = np.zeros(self.CLASSES["does"], dtype=np.int64)
        source[[self.ADD_1, self.MORE]] = self.PLUS_A, self.PLUS_P
        source[[self.TAKE_P, self.LESS]] = self.MINUS_P
        keeps = np.where(does == self.NEGATIVE, self.PLUS, self.KEEPS)
        return does, source[does], np.where(does >= self.ZERO, keeps, 0)

    def _wave(self, inputs: Inputs) -> np.ndarray:
        return np.where(inputs["own.end"] > 0, 0, inputs["own.does"])

    def _change(self, inputs: Inputs) -> np.ndarray:
        source, a, p = inputs["own.source"], inputs["above.a"], value(inputs["above.p"])
        found = np.where(source == self.MINUS_P, self.DOWN, self.UP)
        found += np.where(source == self.PLUS_A, a, p)
        return np.where(source > 0, found, 0)

    def _answer(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        ends, comes = inputs["own.ends"], inputs["right.answer"]
        answer = np.where(comes > 0, comes, np.where(inputs["own.end"] > 0, ends, 0))
        return answer, np.where(answer > 0, self.LAST, np.where(ends > 0, self.ENDING, 0))

    def _added(self, inputs: Inputs) -> np.ndarray:
        """Return 1 outside of p, 2 + what is added to S there; 0 in other rows."""
        answer, p = inputs["own.answer"], inputs["above.p"]
        adds = (answer == self.PLUS) & (p == 2)
        return np.where(answer > 0, np.where(p > 0, 2 + adds, 1), 0)

    def _shown(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        added = inputs["own.added"]
        total = signed(inputs["own.value"]) + (added == 3) + signed(inputs["right.borrow"])
        carry, bit = np.divmod(total, 2)
        return np.where(added > 1, 1 + bit, 0), np.where(added > 1, signed_class(carry), 0)

    def _digit(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        change = inputs["own.change"]
        sign = np.where(change == 0, 0, np.where(change >= self.DOWN, -1, 1))
        found = signed(inputs["own.value"]) + sign * ((change > 0) & (change % 2 == 0))
        carry = sign * (found * sign > 0)
        left = inputs["own.after"] != self.LAST
        return signed_class(found - 2 * carry) * left, signed_class(carry)

    def _carry(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        head, out = inputs["own.head"], inputs["own.out"]
        return np.where(head == 0, out, 0), np.choose(head, [0, out, self.CLEARS])

    def _twos(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        lifts = inputs["own.lifts"]
        clears = lifts == self.CLEARS
        total = signed(inputs["own.twos_before"]) + signed(lifts % 3)
        up = -(-total // 2)  # what is left is 0 or -1
        twos = np.where(clears, 0, signed_class(total - 2 * up))
        return twos, np.where(clears, self.CLEARS, signed_class(up))

    def _fours(self, inputs: Inputs) -> np.ndarray:
        total = signed(inputs["own.fours_before"]) + signed(inputs["own.up"] % 3)
        return np.where(inputs["own.up"] == self.CLEARS, 0, signed_class(total))

    def _b(self, inputs: Inputs) -> np.ndarray:
        second, third, after = inputs["own.second"], inputs["own.third"], inputs["own.after"]
        found = np.where(second > 0, second, np.maximum(inputs["own.next"], third > 0))
        return np.choose(after, [found, self.DONE, 0])

    def _a(self, inputs: Inputs) -> np.ndarray:
        return (inputs["own.first"] | inputs["above.a"]) * (inputs["own.after"] != self.LAST)

    def _p(self, inputs: Inputs) -> np.ndarray:
        return np.maximum(inputs["own.third"], inputs["above.p"]) * (
            inputs["own.after"] != self.LAST
        )

    def _symbol(self, inputs: Inputs) -> np.ndarray:
        shown = np.where(inputs["own.b"] > 0, 1 + (inputs["own.digit"] > 0), inputs["own.shown"])
        return np.where(shown > 0, DIGIT_IDS[value(shown)], BLANK)


def _columns(
    blank: tuple[int, ...],
    low: tuple[int, ...],
    rest: tuple[int, ...],
    top: tuple[int, ...],
    sign: tuple[int, ...],
) -> dict[str, ColumnKind]:
    """Return the columns of a row: a margin, those on the right of p, those of p, the sign.

    Args:
        blank: symbols of the margin, and beyond the sign.
        low: on the right of p, where b is longer.
        rest: of the columns of p, but the highest.
        top: of p's highest digit.
        sign: on the left of it.
    """
    symbols = {"low": low, "rest": rest, "top": top}
    left = {"low": ("low", "rest"), "rest": ("rest", "top"), "top": ("sign",)}
    found = {"margin": ColumnKind("margin", blank, ("margin", "low", "rest"))}
    for name, some in symbols.items():
        found[name] = ColumnKind(name, some, left[name])
        if name != "top":  # p has at least two digits
            found[f"{name}_edge"] = ColumnKind(f"{name}_edge", some, left[name])
    found["sign"] = ColumnKind("sign", sign, ("beyond", END))
    found["beyond"] = ColumnKind("beyond", blank, ("beyond", END))
    return found


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
