"""Local rule of `canvas.modular.Waves`.

The head decides what is added to S; a wave takes it along.

Example, 10 x 11 % 11:

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

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import digit_class, value
from canvas.cells.spec import END, TOKEN, ColumnKind, Inputs, Op, RowKind
from canvas.symbols import BLANK, DIGIT_IDS, MASK, MODULO


def signed(classes: np.ndarray) -> np.ndarray:
    """Return the signed digits of classes: 0, 1, and -1 for class 2."""
    return np.where(classes == 2, -1, classes)


def signed_class(digits: np.ndarray) -> np.ndarray:
    """Return the classes of signed digits, see `signed`."""
    return np.clip(digits, -1, 1) % 3


class WavesRule(LocalRule):
    """Rule of the layout `canvas.modular.Waves`.

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
