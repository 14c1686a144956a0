"""Training samples of cell models: op inputs of drawn solutions, or whole solutions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from canvas.cells.drawn import drawn_cell_inputs
from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import SYMBOL, TOKEN
from canvas.drawing import WorkedDrawing
from canvas.problems import random_below
from canvas.symbols import MASK
from trm.training.random_bits import Purpose
from trm.training.samples import TrainingBatch, TrainingSamples

_POOLED = 1000  # problems worked out at once for a pool


@dataclass(eq=False)
class CellInputSamples(TrainingSamples):
    """Batches of whole solutions, in which each distinct op input is a sample.

    A batch has ``op_inputs``: their ids, int64 [N], see `canvas.cells.encoding.OpEncoding`, and
    ``labels``: int64 [N, 1 + signals], see `LocalRule.decide`.

    In half the solutions a random number of first rows is given; all other rows are to be filled
    in. Three op inputs in five occur more than once in a batch, those of blank cells most often.
    Each counts once, so that rare ones keep their weight, at half the cost.

    With a ``pool`` the distinct op inputs of so many problems are collected once, no row of which
    is given. A batch is then drawn evenly from them, and N is the batch size.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        if self.mixture.pool:
            words = self.keys(indices).words(Purpose.ROW, 1)
            chosen = torch.from_numpy(random_below(words[:, 0], len(self.pooled["op_inputs"])))
            return {name: part[chosen] for name, part in self.pooled.items()}
        _, drawing, _, keys = self.draw_batch(indices)
        words = keys.words(Purpose.ROW, 2)
        known = random_below(words[:, 0], drawing.num_rows) * random_below(words[:, 1], 2)
        known *= drawing.given_rows > 0  # without a given row all are filled in together
        return self.batch(self.task.local_rule(), drawing, known)

    @cached_property
    def pooled(self) -> TrainingBatch:
        """Distinct op inputs of the first ``pool`` training problems, as a batch."""
        pool, rule = self.mixture.pool, self.task.local_rule()
        data = replace(self, size=pool, mixture=replace(self.mixture, pool=0))
        ids = np.zeros(0, dtype=np.int64)
        for start in range(0, pool, _POOLED):
            drawing = data.draw_batch(range(start, min(start + _POOLED, pool))).drawing
            ids = np.union1d(ids, _op_inputs(rule, drawing))
        return labelled(rule, ids)

    @staticmethod
    def batch(
        rule: LocalRule, drawing: WorkedDrawing, known: np.ndarray | None = None
    ) -> TrainingBatch:
        """Return the distinct op inputs of solutions.

        Args:
            rule: the layout's local rule.
            drawing: the solutions.
            known: number of given first rows of each, int64 [B]; None: none.
        """
        return labelled(rule, _op_inputs(rule, drawing, known))


class SolutionSamples(TrainingSamples):
    """Batches of whole solutions for models with latent codes.

    A batch has N cells, each after those that it depends on:

    - ``tokens``: int64 [N].
    - ``labels``: int64 [N, 1 + signals]. The symbol, −1 where it is given, then each signal.
    - ``sources``: int64 [N, directions]. Indices of the neighbouring cells, −1 for none.
    - ``places``: int64 [N, 2]. The row in the solution, and the column from the right.
    - ``canvases``: int64 [N]. The index of the solution.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        return self.batch(self.task.local_rule(latent=True), self.draw_batch(indices).drawing)

    @staticmethod
    def batch(rule: LocalRule, drawing: WorkedDrawing) -> TrainingBatch:
        """Return the cells of solutions as tensors."""
        found = drawn_cell_inputs(rule, drawing)
        width = drawing.truth.shape[2]
        symbols = np.where(found.cell_inputs[TOKEN] == MASK, found.outputs[SYMBOL], -1)
        places = found.row - drawing.top[found.canvas], width - 1 - found.column
        batch = {
            "tokens": found.cell_inputs[TOKEN],
            "labels": np.stack([symbols, *(found.outputs[name] for name in rule.signals)], axis=1),
            "sources": found.sources,
            "places": np.stack(places, axis=1),
            "canvases": found.canvas,
        }
        return {name: torch.from_numpy(array) for name, array in batch.items()}


def _op_inputs(
    rule: LocalRule, drawing: WorkedDrawing, known: np.ndarray | None = None
) -> np.ndarray:
    """Return the ids of the distinct op inputs of solutions, int64, sorted."""
    found = drawn_cell_inputs(rule, drawing, known)
    if not rule.ordered:
        return found.updates
    return np.unique(rule.op_input_ids(found.cell_inputs, found.outputs)[0])


def labelled(rule: LocalRule, ids: np.ndarray) -> TrainingBatch:
    """Return op inputs, from their ids, int64 [N], with the labels of a rule."""
    return {"op_inputs": torch.from_numpy(ids), "labels": torch.from_numpy(rule.decide(ids))}
