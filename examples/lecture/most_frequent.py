"""Most frequent: the different letters of a text, the most frequent one first."""

from dataclasses import dataclass

import numpy as np

from canvas.texts import TextTask
from trm.extras.analysis.rasp import aggregate, select, true_of


@dataclass
class MostFrequent(TextTask):
    """Letters by their count, then by their first place: cabab → abc--."""

    outputs = "-"

    def solve(self, text):
        letters = sorted(dict.fromkeys(text), key=lambda letter: -text.count(letter))
        return "".join(letters).ljust(len(text), "-")

    def program(self, text):
        same = text.selectors["same letter"] = select(text.letters, text.letters, np.equal)
        earlier = select(text.indices, text.indices, np.less)
        first = (same & earlier).sum(axis=-1) == 0  # of its letter
        counts = same.sum(axis=-1)
        tied = select(counts, counts, np.equal) & earlier
        before = (select(counts, counts, np.greater) | tied) & true_of(first)
        text.selectors["more frequent letters"] = before
        of_rank = select(before.sum(axis=-1), text.indices, np.equal) & true_of(first)
        text.selectors["letter of this rank"] = of_rank
        return aggregate(of_rank, text.letters, "-")
