"""Long division: the task, its layout, and the layout's local rule.

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

    - ``mode``: from the column where the row begins, 1 it moves the divisor and subtracts, 2 it
      writes the quotient, 3 it subtracts once more.
    - ``seen``: in the row of b, a digit of b is on the right.
    - ``remainder``, ``divisor``: digits of the column.
    - ``quotient``: the digit of the column; while it is found, the number of trials kept so far.
    - ``difference``: a digit of the trial, until it is known whether the trial is kept.
    - ``mark``: 1 in the column of b's lowest digit; there, once the trial is decided, 2 if the
      quotient's digit is found, 3 if the next trial is of the same digit.
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
            "quotient": "above.quotient above.mark above_left.settle",
            "mark": "own.mode own.inside own.starts own.quotient above.mark above_left.mark "
            "above_left.settle",
            "difference": "own.new above.difference above_left.settle",
            "remainder": "own.first above.remainder above.difference above_left.settle",
            "shown": "own.mode own.remainder own.difference",
            "symbol": "own.mode own.shown own.quotient",
        }.items()
    )
    TRIAL, QUOTIENT, AGAIN = 1, 2, 3  # classes of ``mode``
    UNITS, DECIDED, REPEATED = 1, 2, 3  # classes of ``mark``
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
        few = {"seen": 2, "starts": 2, "inside": 2, "borrow": 3, "settle": 3, "mode": 4, "mark": 4}
        return few.get(signal, 1 + self.base)

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Distinguish each mark, so that every trial begins where b is."""
        return classes if signal == "mark" else super().reduced(signal, classes)

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
        ends = (inputs["above.mark"] == self.DECIDED) & (inputs["right.mode"] == 0)
        mode = np.where(ends, self.QUOTIENT, inputs["right.mode"])
        mode = np.where(inputs["above_left.mark"] == self.DECIDED, self.TRIAL, mode)
        mode = np.where(inputs["above.mark"] == self.REPEATED, self.AGAIN, mode)
        return np.where(inputs["own.inside"] > 0, mode, 0)

    def _subtracts(self, mode: np.ndarray) -> np.ndarray:
        """Return which of N cells are in the row of a trial, bool [N], from their mode."""
        return (mode == self.TRIAL) | (mode == self.AGAIN)

    def _divisor(self, inputs: Inputs) -> np.ndarray:
        moved = np.maximum(inputs["above_left.divisor"], 1)  # with zeros on its left
        digit = np.where(inputs["own.mode"] == self.TRIAL, moved, inputs["above.divisor"])
        below = np.where(inputs["own.inside"] > 0, digit, 0)
        return np.where(inputs["own.second"] > 0, inputs["own.second"], below)

    def _new(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        trial = self._subtracts(inputs["own.mode"])
        taken = value(inputs["own.divisor"]) + value(inputs["right.borrow"])
        borrow, digit = np.divmod(value(inputs["above.remainder"]) - taken, self.base)
        return np.where(trial, 1 + digit, 0), np.where(trial, 1 - borrow, 0)

    def _settle(self, inputs: Inputs) -> np.ndarray:
        decided = (inputs["own.inside"] == 0) & self._subtracts(inputs["right.mode"])
        goes_on = np.where(inputs["above.mark"] == self.UNITS, 0, inputs["above_left.settle"])
        return np.where(decided, self.KEPT - value(inputs["right.borrow"]), goes_on)

    def _quotient(self, inputs: Inputs) -> np.ndarray:
        arrives = (inputs["above.mark"] == self.UNITS) & (inputs["above_left.settle"] > 0)
        kept = inputs["above_left.settle"] == self.KEPT
        count = np.minimum(value(inputs["above.quotient"]) + kept, self.base - 1)
        return np.where(arrives, 1 + count, inputs["above.quotient"])

    def _mark(self, inputs: Inputs) -> np.ndarray:
        arrives = (inputs["above.mark"] == self.UNITS) & (inputs["above_left.settle"] > 0)
        kept = inputs["above_left.settle"] == self.KEPT
        more = kept & (inputs["own.quotient"] < self.base)  # class of the largest digit
        decided = np.where(more, self.REPEATED, self.DECIDED)
        mark = np.where(arrives, decided, inputs["above.mark"])
        moved = np.minimum(inputs["above_left.mark"], self.UNITS)
        mark = np.where(inputs["own.mode"] == self.TRIAL, moved, mark)
        stays = np.minimum(inputs["above.mark"], self.UNITS)
        mark = np.where(inputs["own.mode"] == self.AGAIN, stays, mark) * inputs["own.inside"]
        return np.where(inputs["own.starts"] > 0, self.DECIDED, mark)

    def _difference(self, inputs: Inputs) -> np.ndarray:
        waits = np.where(inputs["above_left.settle"] > 0, 0, inputs["above.difference"])
        return np.where(inputs["own.new"] > 0, inputs["own.new"], waits)

    def _remainder(self, inputs: Inputs) -> np.ndarray:
        kept = (inputs["above_left.settle"] == self.KEPT) & (inputs["above.difference"] > 0)
        digit = np.where(kept, inputs["above.difference"], inputs["above.remainder"])
        return np.where(inputs["own.first"] > 0, inputs["own.first"], digit)

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

    In base B a digit of the quotient takes up to B - 1 trials, one for each that is kept. There are
    rows for all of them; those that are left over show the quotient, too.
    """

    name = "restoring"
    sign = DIVIDED
    local_rule = RestoringRule

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        digits_a, digits_b = lengths
        width, last = max(digits_a, digits_b), max(digits_a - digits_b, 0)
        trials = sum(1 + width - shift for shift in range(last + 1)) * (base - 1)
        return 3 + trials, width + 2

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
        pairs = list(zip(a.to_ints(), b.to_ints(), strict=True))
        quotients = [one // other for one, other in pairs]
        sizes = list(zip(width.tolist(), last.tolist(), strict=True))
        worked = [_worked(*pair, *size, a.base) for pair, size in zip(pairs, sizes, strict=True)]
        heights = [self.room(one, a.base)[0] - 2 for one in zip(a.lengths, b.lengths, strict=True)]
        for row in range(max(heights)):
            works = np.array([row < len(one) for one in worked])
            ends = np.array([row == height - 1 for height in heights])
            present = np.array([row < height for height in heights])
            content = Numbers.from_ints(
                [
                    one[row] if row < len(one) else quotient
                    for one, quotient in zip(worked, quotients, strict=True)
                ],
                a.base,
            )
            lengths = np.where(works, width, last + 1)
            padded = content.padded(int(lengths.max()))
            yield Row(SUM, Numbers(padded, lengths, a.base), 0, 2 + row, present & ~ends)
            yield Row(ANSWER, Numbers(padded, lengths, a.base), 0, 2 + row, ends)

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        self._check_sign(sign, (1, 0))
        return {"dividend": content[0, ::-1], "divisor": content[1, :0:-1]}


def _worked(a: int, b: int, width: int, last: int, base: int) -> list[int]:
    """Return the numbers in the rows of the trials of a / b.

    Args:
        a: dividend.
        b: divisor, shifted by ``last`` columns at first.
        width: columns of the remainder.
        last: the first shift.
        base: of the number system.
    """
    found, remainder = [], a
    for shift in range(last, -1, -1):
        shifted = b * base**shift
        for _ in range(base - 1):
            trial, kept = (remainder - shifted) % base**width, remainder >= shifted
            if kept:
                remainder = trial
            for low in range(width, shift - 1, -1):  # columns that are not yet decided
                waiting = base**low
                found.append(remainder // waiting * waiting + trial % waiting)
            if not kept:
                break
    return found


@dataclass
class Division(TwoOperands):
    """The quotient of two numbers; the remainder is in the row above the quotient's first one.

    Attributes:
        layout: one of `layouts`, or your own class.
        base: of the number system.
        digits_a: fewest and most digits of the dividend.
        digits_b: fewest and most digits of the divisor.
        long_bias: lengths are chosen with probability ∝ (digits of a · digits of b) ^ long_bias.
    """

    layouts = table([Restoring()])
    sign, signs = "/", "/÷"
    smallest = 0
    requires = "the second number has to be at least 1"

    layout: str = one_of("restoring", layouts, open=True)
    base: int = 2

    def answer(self, operands: Sequence[int]) -> int:
        return operands[0] // operands[1]

    def allows(self, problems: Problems) -> np.ndarray:
        return np.asarray(problems.operands[1].digits.any(axis=1))

    @property
    def example(self) -> str:
        return "11011/101"
