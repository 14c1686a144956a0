"""Supervision steps in which the cells of a worked canvas settled."""

from collections.abc import Sequence

import numpy as np

from canvas.symbols import MASK
from trm.solving.watching import Moment


def last_changes(moments: Sequence[Moment]) -> np.ndarray:
    """Return the supervision step, from 1, in which each cell last changed in its row's turn.

    The moments are those of `trm.solving.watching.solve_watched` on an iterative model. Returns
    ``int64 [H, W]``, 0 for cells that were not filled in. A cell that keeps the symbol of the first
    step has a 1: it was masked before.

    Example: a row is masked ``__``, and then ``12``, ``13``, ``13`` after three steps → ``1 2``.
    """
    changed = np.zeros(moments[0].canvas.shape, dtype=np.int64)
    before, due = moments[0].canvas, np.zeros(changed.shape, dtype=bool)
    for moment in moments:
        if not moment.masked and not moment.step:
            continue  # a random start, or a row filled in at once
        if moment.masked:
            due = moment.canvas == MASK
        else:
            changed[due & (moment.canvas != before)] = moment.step
        before = moment.canvas
    return changed
