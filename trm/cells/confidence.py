"""Limits of a cell model's confidence in solved canvases, by what their cells have read.

These are known wrong inputs of a refuted model, and inputs that no upright solution has.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from canvas.cells.check import check_reachable
from canvas.cells.local_rule import LocalRule
from canvas.cells.order import WritingOrder
from canvas.cells.reachable import reachable_cell_inputs
from canvas.cells.spec import Inputs
from canvas.task import Task


class Refutation(NamedTuple):
    """Op inputs for which a model has a known wrong output."""

    rule: LocalRule  # the model's, with its latent codes
    wrong: np.ndarray  # int64 [N], sorted, see `LocalRule.op_input_ids`
    most: float  # highest confidence in a row, 0 to 1: the share of op inputs answered correctly

    def limit(self, confidence: np.ndarray, canvases: np.ndarray, messages: np.ndarray) -> None:
        """Limit the confidence in rows of solved canvases, in place.

        A row in which a cell has a known wrong input gets 0, and so do all rows below it.

        Args:
            confidence: float32 [B, H], changed in place.
            canvases: uint8 [B, H, W], before solving.
            messages: of the cells, see `trm.cells.computing.Wavefront`.
        """
        np.minimum(confidence, self.most, out=confidence)
        order, inputs = cell_inputs_of(self.rule, canvases, messages)
        decided = messages[order.canvas, order.row, order.column, 1:].astype(np.int64)
        ids, cells = self.rule.op_input_ids(
            inputs, dict(zip(self.rule.signals, decided.T, strict=True))
        )
        wrong = cells[np.isin(ids, self.wrong)]
        first = np.full(len(confidence), confidence.shape[1])
        np.minimum.at(first, order.canvas[wrong], order.row[wrong])
        confidence[np.arange(confidence.shape[1]) >= first[:, None]] = 0


class UprightInputs:
    """Cell inputs of upright solutions, for canvases that may be turned or have more operands.

    Args:
        rule: of the solutions.
        task: on some of whose solutions the cell inputs are checked.
    """

    def __init__(self, rule: LocalRule, task: Task) -> None:
        self.rule, self.task = rule, task

    @cached_property
    def ids(self) -> np.ndarray:
        """Ids of the cell inputs, see `canvas.cells.reachable.reachable_cell_inputs`.

        The first access takes seconds.

        Raises:
            OwnCodeError: a drawn solution has a cell input that is not among them.
        """
        found = reachable_cell_inputs(self.rule)
        check_reachable(self.task, self.rule, found)
        return found

    def limit(self, confidence: np.ndarray, canvases: np.ndarray, messages: np.ndarray) -> None:
        """Set the confidence in all rows of a solved canvas with another cell input to 0, in place.

        Args:
            confidence: float32 [B, H], changed in place.
            canvases: uint8 [B, H, W], before solving.
            messages: of the cells, see `trm.cells.computing.Wavefront`.
        """
        order, inputs = cell_inputs_of(self.rule, canvases, messages)
        ids = self.rule.whole.encode(0, inputs)
        at = np.searchsorted(self.ids, ids).clip(max=len(self.ids) - 1)
        confidence[order.canvas[self.ids[at] != ids]] = 0


def cell_inputs_of(
    rule: LocalRule, canvases: np.ndarray, messages: np.ndarray
) -> tuple[WritingOrder, Inputs]:
    """Return the computed cells of canvases, and what they read."""
    order = WritingOrder.of(messages[..., 0] > 0, rule.whole.directions)
    place = order.canvas, order.row, order.column
    passed = np.pad(messages[place].astype(np.int64), ((0, 1), (0, 0)))
    return order, rule.inputs_from(canvases[place].astype(np.int64), passed[order.sources])
