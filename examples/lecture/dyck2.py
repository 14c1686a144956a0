"""Dyck-2: whether brackets of two kinds are balanced, character by character."""

from dataclasses import dataclass

import numpy as np

from examples.lecture.dyck1 import Dyck1
from trm.extras.analysis.rasp import aggregate, select, true_of


@dataclass
class Dyck2(Dyck1):
    """T: balanced so far; P: can be completed; F: cannot. ({)} → PPFF."""

    letters = "(){}"

    def program(self, text):
        until = text.selectors["until here"] = select(text.indices, text.indices, np.less_equal)
        opens = np.isin(text.letters, ["(", "{"])
        depth = (until & true_of(opens)).sum(axis=-1) - (until & true_of(~opens)).sum(axis=-1)
        level = np.where(opens, depth, depth + 1)  # the same for both brackets of a pair
        earlier = select(text.indices, text.indices, np.less)
        same_level = select(level, level, np.equal) & earlier
        number = same_level.sum(axis=-1)  # of a bracket among those of its level
        partner = text.selectors["last of this level"] = same_level & select(
            number, number - 1, np.equal
        )
        pair = np.char.add(aggregate(partner, text.letters, ""), text.letters)
        mismatched = ~opens & ~np.isin(pair, ["()", "{}"])
        failed = (until & true_of(mismatched)).any(axis=-1)
        return np.where(failed, "F", np.where(depth == 0, "T", "P"))
