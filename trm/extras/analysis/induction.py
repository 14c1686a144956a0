"""Induction heads of a GPT: a score for each head.

An induction head finds an earlier occurrence of the present token, and attends to the token after
it (Olsson et al. 2022, "In-context Learning and Induction Heads", arXiv 2209.11895). Its score is
the attention from the tokens of a repeated random sequence to the tokens after their earlier
occurrences.

The sequence is a row of different digits in random order, on an otherwise blank canvas; it is
repeated in a random later row. A head that attends by places alone, such as to the row above, has
the same attention without the repetition: the control has other orders of digits in the first row.

Example: in ``31_#__#31_#`` the score is the attention from the second 3 to the first 1.
"""

from dataclasses import dataclass

import numpy as np

from canvas.symbols import BLANK, DIGIT_IDS
from trm.evaluation.statistics import bootstrap
from trm.extras.analysis.record import SequenceRecorder
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.families import family_of
from trm.solving.solver import Solver

_ATTENTION = 2**24  # most attention weights that are kept at once


@dataclass(frozen=True)
class Induction:
    """Scores of one head, means over sequences."""

    update: str  # ``tokens``, or the loop of a looped GPT
    block: int  # from 1, like the head
    head: int
    score: float  # attention on the token after the earlier occurrence, 0 to 1
    control: float  # attention on the same place where nothing is repeated
    low: float  # lower end of the 95 % interval of score - control, a paired bootstrap
    high: float

    @property
    def gain(self) -> float:
        """Score above the control."""
        return self.score - self.control


@standard_settings()
def induction_scores(solver: Solver, sequences: int = 64, seed: int = 0) -> list[Induction]:
    """Return the scores of all heads, loop by loop and block by block.

    Args:
        solver: with a GPT. Canvases have the size of the longest problem of its training.
        sequences: number of repeated sequences, and of controls.
        seed: of their digits and places.

    Raises:
        ValueError: the model is no GPT, or its canvas is too small.
    """
    model, task = solver.predictor.model, solver.task
    if not family_of(model).reads_sequences:
        raise ValueError(
            f"induction heads are those of a GPT, which reads a sequence, and this model is a "
            f"{type(model).__name__}: give --checkpoint a GPT"
        )
    height, width = solver.canvas_size
    length = min(width, int(task.base))
    if height < 2 or length < 2:
        raise ValueError(
            f"a canvas of {height} x {width} has no room for a sequence and its repetition"
        )
    draw = np.random.default_rng(seed)
    rows = np.sort([draw.choice(height, 2, replace=False) for _ in range(sequences)], axis=1)
    orders = np.stack([draw.permutation(int(task.base))[:length] for _ in range(sequences)])
    others = np.stack([_other(draw, order) for order in orders])
    config = model.config
    each = config.num_layers * config.num_heads * (1 + height * (width + 1)) ** 2
    most = max(1, _ATTENTION // each)
    parts: list[list[dict[str, np.ndarray]]] = []
    chosen = np.split(np.arange(sequences), range(most, sequences, most))
    for done, index in enumerate(chosen):
        report("sequences", done, len(chosen))
        found = []
        for first in (orders, others):
            canvases = repeated(first[index], orders[index], rows[index], height, width)
            weights = SequenceRecorder(model, canvases).attention()
            where = rows[index], width, length
            found.append({name: scores(of.numpy(), *where) for name, of in weights.items()})
        parts.append(found)
    results = []
    for update in parts[0][0]:
        score, control = (
            np.concatenate([part[k][update] for part in parts], axis=1) for k in range(2)
        )  # [blocks, sequences, heads]
        for block in range(len(score)):
            low, high = bootstrap(score[block] - control[block])
            for head in range(score.shape[2]):
                mean, other = (float(of[block, :, head].mean()) for of in (score, control))
                ends = float(low[head]), float(high[head])
                results.append(Induction(update, block + 1, head + 1, mean, other, *ends))
    return results


def repeated(
    first: np.ndarray, second: np.ndarray, rows: np.ndarray, height: int, width: int
) -> np.ndarray:
    """Return canvases, uint8 [N, H, W], with digits in two rows.

    Args:
        first: digits of the upper row in the order of a GPT, from the right, int64 [N, K].
        second: digits of the lower row.
        rows: upper and lower row, int64 [N, 2].
        height: of the canvases.
        width: of the canvases, K or more.
    """
    canvases = np.full((len(rows), height, width), BLANK, dtype=np.uint8)
    sample = np.arange(len(rows))[:, None]
    columns = width - 1 - np.arange(first.shape[1])
    for row, digits in zip(rows.T, (first, second), strict=True):
        canvases[sample, row[:, None], columns] = DIGIT_IDS[digits]
    return canvases


def scores(attention: np.ndarray, rows: np.ndarray, width: int, length: int) -> np.ndarray:
    """Return the attention on the tokens after the earlier occurrences, [blocks, N, heads].

    Args:
        attention: float [blocks, N, heads, S, S].
        rows: upper and lower row of each sequence, int64 [N, 2].
        width: of the canvas.
        length: number of digits in a row.
    """
    upper, lower = (1 + row[:, None] * (width + 1) + np.arange(length - 1) for row in rows.T)
    sample = np.arange(len(rows))[:, None]
    found: np.ndarray = attention.swapaxes(1, 2)[:, :, sample, lower, upper + 1].mean(axis=-1)
    return found.swapaxes(1, 2)


def _other(draw: np.random.Generator, order: np.ndarray) -> np.ndarray:
    """Return the same digits in an order in which none has the place that it has in ``order``."""
    while ((found := draw.permutation(order)) == order).any():
        pass  # about one order in three is such a derangement; of two digits, one in two
    return found
