"""Double histogram: how many different letters occur as often as each letter."""

from dataclasses import dataclass

import numpy as np

from canvas.texts import TextTask
from examples.lecture.histogram import COUNTS, written
from trm.extras.analysis.rasp import select, true_of


@dataclass
class DoubleHistogram(TextTask):
    """The number of letters with the same count: abcab → 22122, as a and b both occur twice."""

    outputs = COUNTS

    def solve(self, text):
        counts = {letter: text.count(letter) for letter in text}
        return "".join(written([*counts.values()].count(counts[letter])) for letter in text)

    def program(self, text):
        same = text.selectors["same letter"] = select(text.letters, text.letters, np.equal)
        earlier = select(text.indices, text.indices, np.less)
        first = (same & earlier).sum(axis=-1) == 0  # of its letter
        counts = same.sum(axis=-1)
        alike = select(counts, counts, np.equal) & true_of(first)
        text.selectors["first of a letter with this count"] = alike
        return [written(count) for count in alike.sum(axis=-1)]
