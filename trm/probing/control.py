"""Control tasks: what a probe learns by heart, rather than reads.

After Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks". There a word's
control label is a random function of the word. Here a cell's is a random function of its *type*:
the symbol that the model reads there, and the cell's place in the working. The classes are drawn
with the frequencies that they have among the probe's training cells. Selectivity is the accuracy of
the probe less that of a probe for the control task.

A type that did not occur in training has a label that nobody can know, and longer problems have
many. Control accuracy and selectivity are therefore measured on cells of types that occurred.
"""

import numpy as np

from canvas.hints import UNDEFINED
from canvas.problems import mix

_FIELD = np.uint64(1 << 20)  # of a place; more than the sides of any canvas
_MIDDLE = 1 << 19  # places may be outside the working


def cell_types(symbols: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A number for each type of cell, ``uint64``, of arrays that broadcast to one shape.

    Args:
        symbols: the ids that a model reads.
        rows: from the top of the working.
        columns: from its right end.
    """
    places = ((rows + _MIDDLE).astype(np.uint64), (columns + _MIDDLE).astype(np.uint64))
    return (symbols.astype(np.uint64) * _FIELD + places[0]) * _FIELD + places[1]


def control_labels(
    types: np.ndarray, labels: np.ndarray, frequencies: np.ndarray, seed: int, task: int
) -> np.ndarray:
    """A random class for each cell, which follows from its type alone.

    Args:
        types: ``uint64 [N]``, see `cell_types`.
        labels: ``uint8 [N]``; where they are undefined, the control label is, too.
        frequencies: ``[C]``, how often each class occurs in training, counts or shares.
        seed: another one gives another random function.
        task: number of the sub-task, so that each has a function of its own.

    Returns:
        ``uint8 [N]``.
    """
    key = mix(mix(np.array([seed], dtype=np.uint64) + np.uint64(1)) + np.uint64(task))
    share = (mix(mix(types + key)) >> np.uint64(11)) / float(2**53)
    cumulative = np.cumsum(frequencies) / np.sum(frequencies)
    drawn = np.searchsorted(cumulative, share, side="right").clip(max=len(cumulative) - 1)
    return np.where(labels == UNDEFINED, UNDEFINED, drawn).astype(np.uint8)
