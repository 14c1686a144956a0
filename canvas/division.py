"""Long division in base 2: the task, its layout, and the layout's local rule.

Example of the rule, 101 / 10:

    _101
    /10_
    _001
    _001
    _001
    _111
    _011
    _001
    _001
    __10

The cell in row 3, column 3 from the right:

- reads from right: mode 1 (a trial), borrow 0, seen 0
- reads from above: remainder 1, difference -, divisor 0, mark 2 (decided), quotient -
- reads from above left: divisor 1, mark -, settle -
- writes: 0
- decides: mode 1, borrow 0, seen 0, remainder 1, difference 0, divisor 1, mark -, quotient -,
  settle -, first -, second -, inside 1, starts 0, new 0, shown 0

"-" stands for none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from canvas.arithmetic import Numbers
from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import digit_class, value
from canvas.cells.spec import END, TOKEN, ColumnKind, Inputs, Op, RowKind
from canvas.choices import one_of
from canvas.layouts import ANSWER, SUM, CellIndex, Layout, Row, table, write
from canvas.problems import Problems
from canvas.symbols import BLANK, DIGIT_IDS, DIVIDED, MASK
from canvas.task import TwoOperands


class RestoringRule(LocalRule):
    """Rule of the layout `Restoring`. A row tries to subtract the divisor; then its sign travels.

    Signals of a cell:

    - ``mode``: 1 the row subtracts, 2 it writes the quotient; from the column where it begins.
    - ``seen``: in the row of b, a digit of b is on the right.
    - ``remainder``, ``divisor``, ``quotient``: digits of the column.
    - ``difference``: a digit of the trial, until it is known whether the trial is kept.
    - ``mark``: 1 in the column of b's lowest digit, 2 once the trial is decided there.
    - ``settle``: 1 the trial is not kept, 2 it is; moves one column to the right with each row.
    """

    left = ("mode", "borrow", "seen")
    down = ("remainder", "difference", "divisor", "mark", "quotient")
    down_right = ("divisor", "mark", "settle")
    sign = DIVIDED
    ops = tuple(
        Op(tuple(outputs.split()), tuple(inputs.split()))
        for outputs, inputs in {
            "first second": "token above",
            "inside": "above.remainder",
            "seen starts": "own.second right.seen",
            "mode": "right.mode own.inside above.mark above_left.mark",
            "divisor": "own.mode own.inside own.second above.divisor above_left.divisor",
            "new borrow": "own.mode above.remainder own.divisor right.borrow",
            "settle": "right.mode right.borrow own.inside above.mark above_left.settle",
            "mark": "own.mode own.inside own.starts above.mark above_left.mark above_left.settle",
            "difference": "own.new above.difference above_left.settle",
            "remainder": "own.first above.remainder above.difference above_left.settle",
            "quotient": "above.quotient above.mark above_left.settle",
            "shown": "own.mode own.remainder own.difference",
            "symbol": "own.mode own.shown own.quotient",
        }.items()
    )
    TRIAL, QUOTIENT = 1, 2
    UNITS, DECIDED = 1, 2  # classes of ``mark``
    KEPT = 2

    def __init__(self, base: int) -> None:
        super().__init__(base)
        blank, asked = (BLANK,), (MASK,)
        self.rows = {
            "a": RowKind(_columns(blank, self.digits, blank, blank, ()), ("margin", "edge"), ("",)),
            "b": RowKind(
                _columns(blank, blank, self.digits[1:], (DIVIDED,), self.digits),
                ("margin", "edge"),
                ("a",),
            ),
            "work": RowKind(
                _columns(asked, asked, asked, asked, ()), ("margin", "edge"), ("b", "work")
            ),
        }

    def classes(self, signal: str) -> int:
        return 2 if signal in ("seen", "starts", "inside") else 3

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        found = getattr(self, f"_{outputs[0]}")(inputs)
        return dict(zip(outputs, found if isinstance(found, tuple) else (found,), strict=True))

    def _first(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        digit, top = digit_class(inputs[TOKEN], self.base), inputs["above"] == 0
        return np.where(top, digit, 0), np.where(top, 0, digit)

    def _inside(self, inputs: Inputs) -> np.ndarray:
        return (inputs["above.remainder"] > 0) * 1

    def _seen(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        here = inputs["own.second"] > 0
        return here * 1, (here & (inputs["right.seen"] == 0)) * 1

    def _mode(self, inputs: Inputs) -> np.ndarray:
        begins = inputs["above_left.mark"] == self.DECIDED
        ends = (inputs["above.mark"] == self.DECIDED) & (inputs["right.mode"] != self.TRIAL)
        mode = np.where(ends, self.QUOTIENT, inputs["right.mode"])
        return np.where(inputs["own.inside"] > 0, np.where(begins, self.TRIAL, mode), 0)

    def _divisor(self, inputs: Inputs) -> np.ndarray:
        moved = np.maximum(inputs["above_left.divisor"], 1)  # with zeros on its left
        digit = np.where(inputs["own.mode"] == self.TRIAL, moved, inputs["above.divisor"])
        below = np.where(inputs["own.inside"] > 0, digit, 0)
        return np.where(inputs["own.second"] > 0, inputs["own.second"], below)

    def _new(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        trial = inputs["own.mode"] == self.TRIAL
        taken = value(inputs["own.divisor"]) + value(inputs["right.borrow"])
        borrow, digit = np.divmod(value(inputs["above.remainder"]) - taken, self.base)
        return np.where(trial, 1 + digit, 0), np.where(trial, 1 - borrow, 0)

    def _settle(self, inputs: Inputs) -> np.ndarray:
        decided = (inputs["own.inside"] == 0) & (inputs["right.mode"] == self.TRIAL)
        goes_on = np.where(inputs["above.mark"] == self.UNITS, 0, inputs["above_left.settle"])
        return np.where(decided, self.KEPT - value(inputs["right.borrow"]), goes_on)

    def _mark(self, inputs: Inputs) -> np.ndarray:
        arrives = (inputs["above.mark"] == self.UNITS) & (inputs["above_left.settle"] > 0)
        stays = np.where(arrives, self.DECIDED, inputs["above.mark"])
        moved = np.minimum(inputs["above_left.mark"], self.UNITS)
        mark = np.where(inputs["own.mode"] == self.TRIAL, moved, stays) * inputs["own.inside"]
        return np.where(inputs["own.starts"] > 0, self.DECIDED, mark)

    def _difference(self, inputs: Inputs) -> np.ndarray:
        waits = np.where(inputs["above_left.settle"] > 0, 0, inputs["above.difference"])
        return np.where(inputs["own.new"] > 0, inputs["own.new"], waits)

    def _remainder(self, inputs: Inputs) -> np.ndarray:
        kept = (inputs["above_left.settle"] == self.KEPT) & (inputs["above.difference"] > 0)
        digit = np.where(kept, inputs["above.difference"], inputs["above.remainder"])
        return np.where(inputs["own.first"] > 0, inputs["own.first"], digit)

    def _quotient(self, inputs: Inputs) -> np.ndarray:
        arrives = (inputs["above.mark"] == self.UNITS) & (inputs["above_left.settle"] > 0)
        return np.where(arrives, inputs["above_left.settle"], inputs["above.quotient"])

    def _shown(self, inputs: Inputs) -> np.ndarray:
        waits = inputs["own.difference"] > 0
        digit = np.where(waits, inputs["own.difference"], inputs["own.remainder"])
        return np.where(inputs["own.mode"] == self.QUOTIENT, 0, digit)

    def _symbol(self, inputs: Inputs) -> np.ndarray:
        ends = inputs["own.mode"] == self.QUOTIENT
        digit = np.where(ends, inputs["own.quotient"], inputs["own.shown"])
        return np.where(digit > 0, DIGIT_IDS[value(digit)], BLANK).astype(np.int64)


def _columns(
    blank: tuple[int, ...],
    digits: tuple[int, ...],
    top: tuple[int, ...],
    sign: tuple[int, ...],
    more: tuple[int, ...],
) -> dict[str, ColumnKind]:
    """Return the columns of a row: a margin, those of a, that of b's highest digit, the sign.

    Args:
        blank: symbols of the margin, and beyond the sign.
        digits: of the columns of a.
        top: on the left of them, where b begins.
        sign: on the left of that.
        more: further digits of b, in columns of a; a blank is not on their left.
    """
    found = {
        "margin": ColumnKind("margin", blank, ("margin", "units")),
        "units": ColumnKind("units", digits, ("rest", "top")),
        "edge": ColumnKind("edge", digits, ("rest", "top")),  # the same without a margin
        "rest": ColumnKind("rest", digits, ("rest", "top")),
        "top": ColumnKind("top", top, ("sign",)),
        "sign": ColumnKind("sign", sign, ("beyond", END)),
        "beyond": ColumnKind("beyond", blank, ("beyond", END)),
    }
    if more:
        found["digit"] = ColumnKind("rest", more, ("digit", "top"))
        for name in ("units", "edge", "rest"):
            found[name] = found[name]._replace(left=("rest", "digit", "top"))
    return found


class Restoring(Layout):
    """The dividend; the divisor, one column further left, with the sign; trials; the quotient:

    _101
    /10_
    _001    101 - 100 = 001, which is kept: its digits
    _001    are the remainder from the left on, one
    _001    more with each row
    _111    001 - 10 = 111 and a borrow: not kept
    _011
    _001
    _001    the remainder
    __10    the quotient
    """

    name = "restoring"
    sign = DIVIDED
    local_rule = RestoringRule

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        digits_a, digits_b = lengths
        width, last = max(digits_a, digits_b), max(digits_a - digits_b, 0)
        return 3 + sum(1 + width - shift for shift in range(last + 1)), width + 2

    def extent(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        digits_a, digits_b = lengths  # a shorter divisor has more trials
        rooms = [self.room((digits_a, n), base) for n in range(1, digits_b + 1)]
        return max(height for height, _ in rooms), rooms[-1][1]

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        a, b = problems.operands
        width = np.maximum(a.lengths, b.lengths)
        write(content, 0, 0, replace(a, digits=a.padded(int(width.max())), lengths=width))
        shifts = 1 + width - b.lengths
        for shift in np.unique(shifts).tolist():
            write(content, 1, shift, b, shifts == shift)
        content[np.arange(len(b)), 1, width + 1] = self.sign

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        width, last = np.maximum(a.lengths, b.lengths), np.maximum(a.lengths - b.lengths, 0)
        numbers = zip(a.to_ints(), b.to_ints(), width.tolist(), last.tolist(), strict=True)
        worked = [_worked(*one) for one in numbers]
        for row in range(max(map(len, worked))):
            present = np.array([row < len(one) for one in worked])
            ends = np.array([row == len(one) - 1 for one in worked])
            content = Numbers.from_ints([one[row] if row < len(one) else 0 for one in worked], 2)
            lengths = np.where(ends, last + 1, width)
            padded = content.padded(int(lengths.max()))
            yield Row(SUM, Numbers(padded, lengths, 2), 0, 2 + row, present & ~ends)
            yield Row(ANSWER, Numbers(padded, lengths, 2), 0, 2 + row, ends)

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        self._check_sign(sign, (1, 0))
        return {"dividend": content[0, ::-1], "divisor": content[1, :0:-1]}


def _worked(a: int, b: int, width: int, last: int) -> list[int]:
    """Return the numbers in the rows of a / b: those of each trial, then the quotient.

    Args:
        a: dividend.
        b: divisor, shifted by ``last`` columns at first.
        width: columns of the remainder.
        last: the first shift.
    """
    found, remainder = [], a
    for shift in range(last, -1, -1):
        trial = (remainder - (b << shift)) % (1 << width)
        if remainder >= b << shift:
            remainder = trial
        for low in range(width, shift - 1, -1):  # columns that are not yet decided
            found.append((remainder >> low << low) | (trial & ((1 << low) - 1)))
    return [*found, a // b]


@dataclass
class Division(TwoOperands):
    """The quotient of two numbers in base 2; the remainder is in the row above it.

    Attributes:
        layout: one of `layouts`, or your own class.
        base: 2.
        digits_a: fewest and most digits of the dividend.
        digits_b: fewest and most digits of the divisor.
        long_bias: lengths are drawn with probability ∝ (digits of a · digits of b) ^ long_bias.
    """

    layouts = table([Restoring()])
    sign, signs = "/", "/÷"
    smallest = 0
    requires = "the second number is at least 1"

    layout: str = one_of("restoring", layouts, open=True)
    base: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base != 2:
            raise ValueError(f"division is in base 2, not {self.base}: set base to 2 (--base 2)")

    def answer(self, operands: Sequence[int]) -> int:
        return operands[0] // operands[1]

    def allows(self, problems: Problems) -> np.ndarray:
        return np.asarray(problems.operands[1].digits.any(axis=1))

    @property
    def example(self) -> str:
        return "11011/101"
