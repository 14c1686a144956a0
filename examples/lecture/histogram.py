"""Histogram: how often each letter occurs."""

from dataclasses import dataclass

import numpy as np

from canvas.texts import TextTask
from trm.extras.analysis.rasp import select

COUNTS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # the last one also stands for all higher counts


def written(count):
    """Return the character of a count from 1 up."""
    return COUNTS[min(count, len(COUNTS)) - 1]


@dataclass
class Histogram(TextTask):
    """The count of each letter: abcab → 22122."""

    outputs = COUNTS

    def solve(self, text):
        return "".join(written(text.count(letter)) for letter in text)

    def program(self, text):
        same = text.selectors["same letter"] = select(text.letters, text.letters, np.equal)
        return [written(count) for count in same.sum(axis=-1)]
