"""Rule 110, a cellular automaton that computes whatever can be computed (Cook 2004).

A row is a step of the automaton: the task, its layout, and the layout's local rule. Example:

    00010
    00110
    01110
    11010
    11110
    10010
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from canvas.arithmetic import Numbers
from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import aligned, digit_class
from canvas.cells.spec import TOKEN, Inputs, Op, RowKind
from canvas.choices import one_of
from canvas.layouts import ANSWER, SUM, Row, table
from canvas.symbols import BLANK, DIGIT_IDS, MASK
from canvas.texts import TextTask, TwoRows


def next_bits(bits: np.ndarray) -> np.ndarray:
    """Return the next row of tapes, int64 [B, n], from the right to the left; outside is 0."""
    around = np.pad(bits, ((0, 0), (1, 1)))
    pattern = 4 * around[:, 2:] + 2 * bits + around[:, :-2]
    return 110 >> pattern & 1


class Rule110Rule(LocalRule):
    """Rule of the layout `Generations`: the new bit of a cell depends on three bits above it."""

    left = ()
    down = ("bit", "inside")
    down_right = down_left = ("bit",)
    ops = (
        Op(("given",), (TOKEN,)),
        Op(("inside",), ("own.given", "above.inside")),
        Op(("new",), ("above_left.bit", "above.bit", "above_right.bit")),
        Op(("bit",), ("own.given", "own.inside", "own.new")),
        Op(("symbol",), ("own.inside", "own.bit")),
    )

    def __init__(self, base: int) -> None:
        super().__init__(base)
        blank, bits, asked = (BLANK,), tuple(DIGIT_IDS[:2].tolist()), (MASK,)
        self.rows = {
            "tape": RowKind(aligned(blank, bits, bits, blank), ("margin", "edge"), ("",)),
            "generation": RowKind(
                aligned(asked, asked, asked, asked), ("margin", "edge"), ("tape", "generation")
            ),
        }

    def classes(self, signal: str) -> int:
        return 3 if signal == "given" else 2

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        return {outputs[0]: getattr(self, f"_{outputs[0]}")(inputs).astype(np.int64)}

    def _given(self, inputs: Inputs) -> np.ndarray:
        return digit_class(inputs[TOKEN], 2)

    def _inside(self, inputs: Inputs) -> np.ndarray:
        return np.asarray((inputs["own.given"] > 0) | (inputs["above.inside"] > 0))

    def _new(self, inputs: Inputs) -> np.ndarray:
        bits = np.stack([inputs[f"above{side}.bit"] for side in ("_right", "", "_left")], axis=1)
        return next_bits(bits)[:, 1]

    def _bit(self, inputs: Inputs) -> np.ndarray:
        given, new = inputs["own.given"], inputs["own.new"]
        return np.where(given > 0, given - 1, new) * inputs["own.inside"]

    def _symbol(self, inputs: Inputs) -> np.ndarray:
        return np.where(inputs["own.inside"] > 0, DIGIT_IDS[inputs["own.bit"]], BLANK)


class Generations(TwoRows):
    """A tape of n bits, and n steps of the automaton; outside of the tape is 0."""

    name = "generations"
    local_rule = Rule110Rule

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        return lengths[0] + 1, lengths[0]

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        (tape,) = operands
        inside = np.arange(tape.digits.shape[1]) < tape.lengths[:, None]
        bits = np.where(inside, tape.digits.astype(np.int64) - 1, 0)
        for step in range(1, int(tape.lengths.max()) + 1):
            bits = next_bits(bits) * inside
            digits = np.where(inside, bits + 1, 0).astype(np.uint8)
            numbers = Numbers(digits, tape.lengths, tape.base)
            yield Row(SUM, numbers, 0, step, step < tape.lengths)
            yield Row(ANSWER, numbers, 0, step, np.equal(step, tape.lengths))


@dataclass
class Rule110(TextTask):
    """A tape of n bits after n steps of Rule 110."""

    letters = "01"
    layouts = table([Generations()])

    layout: str = one_of("generations", layouts, open=True)

    def solve(self, *texts: str) -> str:
        bits = np.array([[int(bit) for bit in reversed(texts[0])]])
        for _ in texts[0]:
            bits = next_bits(bits)
        return "".join(map(str, bits[0, ::-1]))
