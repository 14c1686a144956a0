"""Local rules of the layouts that people write, for models without hints.

A cell reads the digit written above it, and one message from each neighbour. A network has latent
codes for these messages: it chooses how many it needs, and what they mean. Neither the digits that
meet nor carries are given, and a cell has no ops.

Example, 11 x 11 in base 2, `Accumulate`:

    __11
    *_11
    __11
    1001

The cell in row 4, column 2 from the right:

- reads from right: across
- reads from above: written 1, below
- reads from above left: forward
- reads from above right: back
- writes: 0
- decides: across, written 0, below, forward, back
"""

from math import prod

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.accumulate import AccumulateRule
from canvas.cells.rules.interleaved import InterleavedRule
from canvas.cells.rules.long import LongRule
from canvas.cells.rules.parts import digit_class
from canvas.cells.rules.running_sum import RunningSumRule
from canvas.cells.rules.standard import StandardRule
from canvas.cells.spec import SYMBOL, TOKEN, Inputs, input_name
from canvas.symbols import MASK

_WRITTEN = "written"
# The one message in each direction: across to the left, below, and forward and back diagonally.
_NAMES = {"left": "across", "down": "below", "down_right": "forward", "down_left": "back"}


class LatentLongRule(LocalRule):
    """Rule of a layout with one message in each direction, and the digit that is written.

    The true class of a message is the id of all signals that `hinted` passes in that direction. A
    network that is trained with codes for these messages never receives these classes.
    """

    hinted: type[LongRule]  # the layout's rule with a signal for each quantity
    left = (_NAMES["left"],)
    down = (_WRITTEN, _NAMES["down"])
    down_right = (_NAMES["down_right"],)
    down_left = (_NAMES["down_left"],)

    def __init__(self, base: int) -> None:
        self.parts = self.hinted(base)
        self.rows, self.exact_together = self.parts.rows, self.parts.exact_together
        self._of = {_NAMES[way]: names for way, names in self.parts.messages.items()}
        super().__init__(base)

    def classes(self, signal: str) -> int:
        if signal == _WRITTEN:
            return 1 + self.base
        return prod(self.parts.signals[name] for name in self._of[signal])

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Reduce each signal of a message as `hinted` does; a written digit follows from them."""
        if signal == _WRITTEN:
            return np.zeros_like(classes)
        packed = np.zeros_like(classes)
        for name, part in self.parts.message(self._of[signal], 1 + classes).items():
            if name:
                every = np.arange(self.parts.signals[name])
                most = 1 + int(self.parts.reduced(name, every).max())
                packed = packed * most + self.parts.reduced(name, part)
        return packed

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        token = inputs[TOKEN]
        known = {TOKEN: token}
        for direction, names in self.parts.messages.items():
            # A code of a network can exceed the classes; what follows from codes is not used.
            message = inputs[input_name(direction, _NAMES[direction])]
            message = message % self.classes(_NAMES[direction])
            there = inputs[input_name(direction, "")] > 0
            signals = self.parts.message(names, np.where(there, 1 + message, 0))
            known |= {input_name(direction, name): part for name, part in signals.items()}
        found = self.parts.apply(known)
        symbol = found[SYMBOL].astype(np.int64)
        written = digit_class(np.where(token == MASK, symbol, token), self.base)
        messages = {name: self.parts.message_id(of, found) - 1 for name, of in self._of.items()}
        return {SYMBOL: symbol, _WRITTEN: written, **messages}


class LatentStandardRule(LatentLongRule):
    """Rule of `canvas.multiplication.Standard` for models without hints."""

    hinted = StandardRule


class LatentAccumulateRule(LatentLongRule):
    """Rule of `canvas.multiplication.Accumulate` for models without hints."""

    hinted = AccumulateRule


class LatentInterleavedRule(LatentLongRule):
    """Rule of `canvas.multiplication.Interleaved` for models without hints."""

    hinted = InterleavedRule


class LatentRunningSumRule(LatentLongRule):
    """Rule of `canvas.multiplication.RunningSum` for models without hints."""

    hinted = RunningSumRule
