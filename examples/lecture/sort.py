"""Sort: the letters of a text in order."""

from dataclasses import dataclass

import numpy as np

from canvas.texts import TextTask
from trm.extras.analysis.rasp import aggregate, select


@dataclass
class Sort(TextTask):
    """The letters in alphabetical order: cabab → aabbc."""

    def solve(self, text):
        return "".join(sorted(text))

    def program(self, text):
        earlier = select(text.indices, text.indices, np.less)
        equal = select(text.letters, text.letters, np.equal)
        before = select(text.letters, text.letters, np.less) | (equal & earlier)
        text.selectors["letters before"] = before
        of_rank = select(before.sum(axis=-1), text.indices, np.equal)
        text.selectors["letter of this rank"] = of_rank
        return aggregate(of_rank, text.letters, "")
