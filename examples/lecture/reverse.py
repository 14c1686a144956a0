"""Reverse: a text backwards."""

from dataclasses import dataclass

import numpy as np

from canvas.texts import TextTask
from trm.extras.analysis.rasp import aggregate, select


@dataclass
class Reverse(TextTask):
    """A text backwards: abcab → bacba."""

    def solve(self, text):
        return text[::-1]

    def program(self, text):
        opposite = select(text.indices, text.length - 1 - text.indices, np.equal)
        text.selectors["opposite"] = opposite
        return aggregate(opposite, text.letters, "")
