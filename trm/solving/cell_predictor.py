"""A `CellModel` as it solves: in the order of writing, every cell once."""

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from augment.views import View
from canvas import symbols
from canvas.cell_inputs import OWN, TOKEN, LocalRule
from canvas.pages import UNDEFINED
from canvas.reachable import reachable_cell_inputs
from canvas.render import Drawing
from canvas.rule_check import check_reachable
from canvas.task import Task
from trm.models.attention import compute_dtype, computes_float32
from trm.models.cell import CellModel
from trm.models.cell_cache import CellCache
from trm.models.wavefront import Wavefront, run_wavefront
from trm.solving.rollout import OnRow, Prediction, Predictor, Rollout, Trace, free_running
from trm.torch_settings import standard_settings


class Refutation(NamedTuple):
    """Inputs of cells in which a model is known to be wrong."""

    rule: LocalRule  # the model's, with its latent codes
    wrong: np.ndarray  # int64 [N], sorted, see `LocalRule.seen`
    most: float  # confidence in a row at most, 0 to 1: the share of inputs that are right

    def limit(self, sure: np.ndarray, canvases: np.ndarray, handed: np.ndarray) -> None:
        """Limit the confidence in rows, float32 [B, H], of canvases worked out, in place.

        Where a cell has an input that is known to be wrong, it and all rows below get 0. What cells
        hand on is as `LocalRule.around` takes it.
        """
        np.minimum(sure, self.most, out=sure)
        page, row, column = handed[:, 1:, 1:-1, 0].nonzero()
        seen = self.rule.around(handed, page, row, column)
        seen[TOKEN] = canvases[page, row, column].astype(np.int64)
        decided = handed[page, row + 1, column + 1, 1:].astype(np.int64)
        numbers, cells = self.rule.seen(seen, dict(zip(self.rule.signals, decided.T, strict=True)))
        wrong = cells[np.isin(numbers, self.wrong)]
        first = np.full(len(sure), sure.shape[1])
        np.minimum.at(first, page[wrong], row[wrong])
        sure[np.arange(sure.shape[1]) >= first[:, None]] = 0


class CellPredictor(Predictor):
    """Fills in all masked cells of canvases, whatever rows they are in.

    Args:
        model: on the device where it is to run.
        proved: whether it is right at every length, so that there is nothing to doubt. That is of
            float32: in any other arithmetic its confidence is the network's own.
        rule: of the layout, where pages may be turned or have more operands than it is of: where
            a cell sees a cell input that its pages do not have, the confidence in the page is 0.
            None: all pages are its own.
        task: of which these pages are; the rule's cell inputs are held against some of them.
    """

    translation_invariant = True
    cell_by_cell = True

    def __init__(
        self,
        model: CellModel,
        proved: bool = False,
        rule: LocalRule | None = None,
        task: Task | None = None,
    ) -> None:
        self.model, self.proved, self.rule, self.task = model, proved, rule, task
        self.refutation: Refutation | None = None  # what is known to be wrong; None: nothing
        self._known: dict[torch.dtype, CellCache] = {}

    @property
    def proved(self) -> bool:
        """True if it is proved, and computes in the arithmetic of its proof now."""
        return self._proved and computes_float32(self.model.H_init)

    @proved.setter
    def proved(self, proved: bool) -> None:
        self._proved = proved

    @cached_property
    def cell_inputs(self) -> np.ndarray:
        """All that upright pages have, see `canvas.reachable.reachable_cell_inputs`; it takes
        seconds.

        OwnCodeError: a drawn page has another one.
        """
        assert self.rule is not None
        found = reachable_cell_inputs(self.rule)
        if self.task is not None:
            check_reachable(self.task, self.rule, found)
        return found

    @property
    def known(self) -> CellCache:
        """Answers to all op inputs that have come before, in the dtype that now is computed in."""
        dtype = compute_dtype(self.model.H_init)
        if dtype not in self._known:
            self._known[dtype] = CellCache(self.model)
        return self._known[dtype]

    def clear_cache(self) -> None:
        self._known.clear()

    def pairs(self, height: int, width: int) -> int:
        directions = sum(direction != OWN for direction in self.model.encoding.directions)
        return len(self.model.encoding.ops) * directions * height * width

    def for_any_view(self, task: Task) -> "CellPredictor":
        if self.model.config.codes:
            raise ValueError(
                "which cell inputs an upright page has is not known of a model that invents its "
                "codes: "
                "leave out --symmetries"
            )
        return self.for_pages_of(task, task.local_rule())

    def for_pages_of(self, task: Task, rule: LocalRule) -> "CellPredictor":
        """The same, sure of upright pages of a rule alone."""
        one = copy(self)
        vars(one).pop("cell_inputs", None)  # of another rule
        one.rule, one.task, one.most_operands = rule, task, rule.most_operands
        return one

    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        masked = inputs == symbols.MASK
        cells, confidence = self._solved(inputs)
        # Of the rows that were asked for; where there is none, of nothing.
        confidence = np.where(masked.any(axis=2), confidence, 1).prod(axis=1)
        self._show(cells, masked, confidence)
        return Prediction(cells, confidence, np.zeros(len(cells), dtype=np.int64))

    def free_running(self, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
        """See `Predictor`: all rows at once; who watches is shown them one after the other."""
        filled, confidence = self._solved(drawing.masked)

        def fill(inputs: np.ndarray, active: np.ndarray, step: int) -> Prediction:
            masked = inputs == symbols.MASK
            sure = confidence[active, drawing.row_of_step(step)[active]]
            cells = np.where(masked, filled[active], inputs)
            self._show(cells, masked, sure)
            return Prediction(cells, sure, np.zeros(len(active), dtype=np.int64))

        return free_running(fill, drawing, on_row)

    def free_running_views(
        self, drawing: Drawing, views: Sequence[View], rollouts: np.ndarray | None = None
    ) -> Rollout:
        """See `Predictor`: all rows at once, which share the confidence in the page evenly."""
        rollout, unknown = Rollout.begun(drawing), drawing.unknown
        filled = self.in_views(drawing.masked, views)
        rollout.canvases[unknown] = filled.canvases[unknown]
        steps = drawing.steps[:, None]
        share = filled.confidence[:, None] ** (1 / steps)
        rollout.confidence[:] = np.where(np.arange(int(steps.max())) < steps, share, 1)
        return rollout

    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        worked = self._work(inputs)
        written = worked.tokens.byte().cpu().numpy(), worked.log_symbol.cpu().numpy()
        return Trace.by_symbol(inputs, *written, labels)

    def signals(self, inputs: np.ndarray) -> dict[str, np.ndarray]:
        """What cells of ``uint8 [B, H, W]`` decide, by signal, see `canvas.pages.draw_signals`.

        Of codes, which stand for nothing that has a name, none.
        """
        there, *found = self._work(inputs).handed[:, 1:, 1:-1].unbind(-1)
        return {
            name: classes.masked_fill(there == 0, UNDEFINED).byte().cpu().numpy()
            for name, classes in zip(self.model.signals, found, strict=True)
            if name not in self.model.config.codes
        }

    def _solved(self, canvases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Canvases ``uint8 [B, H, W]`` filled in; how sure each row is, ``float32 [B, H]``."""
        worked = self._work(canvases)
        sure = worked.halt_logits.sigmoid().cpu().numpy()
        sure = np.ones_like(sure) if self.proved else sure
        if self.rule is not None:
            handed = worked.handed.cpu().numpy()
            page, row, column = handed[:, 1:, 1:-1, 0].nonzero()
            seen = self.rule.around(handed, page, row, column)
            seen[TOKEN] = canvases[page, row, column].astype(np.int64)
            number = self.rule.whole.numbers(0, seen)
            at = np.searchsorted(self.cell_inputs, number).clip(max=len(self.cell_inputs) - 1)
            sure[page[self.cell_inputs[at] != number]] = 0
        if self.refutation is not None:
            self.refutation.limit(sure, canvases, worked.handed.cpu().numpy())
        return worked.tokens.byte().cpu().numpy(), sure

    @standard_settings(threads=1)
    @torch.inference_mode()
    def _work(self, canvases: np.ndarray) -> Wavefront:
        return run_wavefront(self.model, self.tokens(canvases), self.known)

    def _show(self, cells: np.ndarray, masked: np.ndarray, confidence: np.ndarray) -> None:
        """Report the cells of rows as they were worked out, from the right to the left."""
        if self.on_step is None:
            return
        place = masked[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] * masked  # from 1, in its row
        last, unknown = int(place.max()), np.full_like(confidence, np.nan)
        for number in range(1, last + 1):
            shown = np.where(place > number, symbols.MASK, cells)
            sure = confidence if number == last else unknown
            self.on_step(number, np.arange(len(cells)), shown, sure)


def right_cells(believed: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a field is right, and where there is something to be right about, ``bool [...]`` both.

    Of ``uint8 [...]`` classes, and the truth, see `canvas.pages.draw_signals`.
    """
    counted = (truth != UNDEFINED) & (believed != UNDEFINED)
    return (believed == truth) & counted, counted
