"""Solving with a `CellModel`: decisions looked up, every cell once, or steps of all cells at once.

All ways give the same symbols and messages. Every cell once, in the order of writing, is the
shorter way (`trm.cells.computing`). Steps are for those who watch the model or limit their number.
A proved model on a CPU computes nothing twice: decisions are looked up (`trm.cells.table`). With a
table of all decisions the network is built when it is first needed (`trm.cells.lazy_network`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from augment.views import View
from canvas import symbols
from canvas.cells.drawn import right_cells as right_cells  # its released place
from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import AGAINST, OWN
from canvas.check import check_once
from canvas.drawing import UNDEFINED, Drawing
from canvas.task import Task
from trm.cells.confidence import Refutation, UprightInputs
from trm.cells.configs import CellConfig
from trm.cells.lazy_network import LazyNetwork
from trm.cells.table import CellTable, MemoTable, UnknownInputError
from trm.solving.predictor import Predictor, batch_size
from trm.solving.rows import FilledCanvases, Prediction, in_views
from trm.solving.trace import Trace

if TYPE_CHECKING:
    import torch

    from trm.cells.cache import CellCache
    from trm.cells.computing import Wavefront
    from trm.cells.model import CellModel

UNPROVED = "it is a cell model that is not proved"  # why its confidence is not calibrated
_CELLS_IN_A_PAIR = 8  # that are looked up


class Worked(NamedTuple):
    """Steps that canvases took."""

    # int64 [B, H], the step in which a row or one above it last changed; 0: without steps.
    steps: np.ndarray
    settled: np.ndarray  # bool [B, H], whether no further step can change the row


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Test if tensors have the same dtype, device, shape and elements."""
    return (one.dtype, one.device) == (other.dtype, other.device) and one.equal(other)


class CellPredictor(Predictor):
    """Fills in all masked cells of canvases, in any rows.

    It takes supervision steps if it is watched, their number is limited, or it starts from a random
    state; else it computes every cell once.

    Args:
        model: a cell model, on the device where it is to run; or one that is built later, whose
            weights in the file are those of a proof.
        proved: whether the model is proved correct at every length; the confidence is then 1. The
            proof holds for float32, or for integers: in any other arithmetic the network's own
            confidence is used.
        max_steps: most supervision steps, each of all cells at once. None: as many as it takes.
    """

    fills = "canvas"
    translation_invariant = True

    def __init__(
        self,
        model: CellModel | LazyNetwork,
        proved: bool = False,
        max_steps: int | None = None,
    ) -> None:
        self._network = model
        self.max_steps = max_steps
        self.most_confidence = 1.0  # of a row; below 1 where the model's rule was only tested
        self.most_operands: int | None = None  # limit of the rule; None: that of the task
        self.upright: UprightInputs | None = None  # see `for_upright`; None: any input is trusted
        self.refutation: Refutation | None = None  # known wrong inputs; None: none are known
        self._caches: dict[torch.dtype, CellCache] = {}
        if isinstance(model, LazyNetwork):
            self._proved, self._bits, self._double = True, model.bits, False
        else:
            self.proved = proved
            self.uncalibrated_reason = "" if proved else UNPROVED
        self.may_look_up = True  # False: run the network, also where the model is proved
        self._seen: dict[str, torch.Tensor] = {}  # copies of those weights; empty: hash them
        self._closed: CellTable | None = None  # all decisions, read from a file
        self._memo: MemoTable | None = None

    @property
    def model(self) -> CellModel:
        """The network; it is built if it was not needed before."""
        network = self._network
        return network.model if isinstance(network, LazyNetwork) else network

    @model.setter
    def model(self, model: CellModel) -> None:
        self._network = model

    @property
    def _unbuilt(self) -> LazyNetwork | None:
        """The network, not built before its first use."""
        network = self._network
        return network if isinstance(network, LazyNetwork) and not network.built else None

    @property
    def config(self) -> CellConfig:
        """Settings of the network."""
        return self._unbuilt.config if self._unbuilt else self.model.config

    @property
    def proved(self) -> bool:
        """True if the model is proved, and now computes in the arithmetic of its proof.

        A proof is of these very weights: once they are changed in memory, the model is not proved.
        """
        if not self._proved:
            return False
        if self._unbuilt is not None:
            return self._unbuilt.computes_as_proved
        self._check_weights()
        if self._double:
            import torch

            from trm.models.attention import compute_dtype

            return self._proved and compute_dtype(self.model.H_init) == torch.float64
        return self._proved and self.model.computes_as_proved

    @proved.setter
    def proved(self, proved: bool) -> None:
        """Set for the weights of now, in float32, or in float64 if the model is in that."""
        import torch

        from trm.models.weights import model_hash

        self._proved, self._bits, self._seen = proved, model_hash(self.model), {}
        self._double = self.model.H_init.dtype == torch.float64

    @property
    def certain(self) -> bool:  # type: ignore[override]
        """True if the model is `proved`."""
        return self.proved

    def _check_weights(self) -> None:
        """Forget the proof, and all that was computed before, if the weights have changed."""
        from trm.models.weights import model_hash

        now = self.model.state_dict()
        if self._seen.keys() == now.keys() and all(
            _equal(self._seen[name], tensor) for name, tensor in now.items()
        ):
            return  # as at the last call, without a hash
        self._seen = {name: tensor.detach().clone() for name, tensor in now.items()}
        if self._bits != (bits := model_hash(self.model)):
            self._bits = bits
            self._clear_cache()
            if self._proved:
                self._proved, self._closed = False, None
                self.most_confidence = 1 - 1e-6
                self.uncalibrated_reason = (
                    "its weights have changed since they were loaded: they are not proved"
                )

    @property
    def cache(self) -> CellCache:
        """Cached outputs of earlier op inputs, in the dtype that is computed in now."""
        from trm.cells.cache import CellCache
        from trm.models.attention import compute_dtype

        self._check_weights()
        dtype = compute_dtype(self.model.H_init)
        if dtype not in self._caches:
            self._caches[dtype] = CellCache(self.model)
        return self._caches[dtype]

    def _clear_cache(self) -> None:
        self._caches, self._memo = {}, None

    def read_table(self, file: Path, digest: str) -> None:
        """Read the decisions of a proved model, to look them up instead of computing them.

        Args:
            file: of `trm prove --decisions`.
            digest: of the proof; a table with another one is ignored.

        Raises:
            ValueError: the file is damaged.
        """
        self._closed = CellTable.read(file, digest=digest)

    @property
    def device(self) -> str:
        return "cpu" if self._unbuilt else super().device

    @property
    def looks_up(self) -> bool:
        """True if decisions are looked up: of a proved model on a CPU, whose canvases are upright.

        Not without an order of writing, in which a table is read once for each cell. Limits of the
        confidence need all messages, which a table does not keep. Steps update all cells at once.
        """
        if not self.may_look_up or self.upright is not None or self.refutation is not None:
            return False
        return self.proved and self.device == "cpu" and not self.takes_steps and self.ordered

    @property
    def ordered(self) -> bool:
        """True if cells have an order of writing."""
        return AGAINST.isdisjoint(self.config.messages)

    def with_options(self, **changes: Any) -> Self:
        if changes.get("start_seed") is not None and not self.ordered:
            raise ValueError(
                "--start noise is for cells with an order of writing: these begin with open "
                "messages, and do not recover from others: leave it out"
            )
        one = super().with_options(**changes)
        one._clear_cache()
        return one

    def _looked_up(self, canvases: np.ndarray) -> np.ndarray | None:
        """Return filled canvases, uint8 [B, H, W]; None: a table lacks an input."""
        try:
            table = self._closed
            if table is None:
                table = self._memo = self._memo or MemoTable(self.cache)
            return table.fill(canvases)
        except UnknownInputError:
            return None

    @property
    def takes_steps(self) -> bool:
        """True if all cells are updated at once, step by step."""
        chosen = self.max_steps is not None or self.options.start_seed is not None
        return chosen or self.options.on_step is not None

    def longest_chain(self, drawing: Drawing) -> np.ndarray | None:
        if not self.takes_steps:
            return None
        from trm.runtime.torch_settings import tensor_for

        context = self.model.encode(tensor_for(self.model, drawing.masked), self.cache)
        return self.model.settling_steps(context).amax(dim=1).cpu().numpy()

    def at_once(self, height: int, width: int) -> int:
        if self.looks_up and (self._closed is not None or self.cache.keeps):
            # A cell that is looked up takes the time and memory of a fraction of a pair.
            return batch_size(self.device, -(-height * width // _CELLS_IN_A_PAIR))
        encoding = self.model.encoding
        directions = sum(direction != OWN for direction in encoding.directions)
        return batch_size(self.device, len(encoding.ops) * directions * height * width)

    def for_task(self, task: Task, turned: bool = False) -> Predictor:
        if turned:
            if self.config.codes:
                raise ValueError(
                    "a model with latent codes cannot recognise an upright canvas, as its cell "
                    "inputs are not known in advance: leave out --symmetries"
                )
            return self.for_upright(task, task.local_rule())
        rule = self.rule_of(task)
        check_once(task, rule)
        # Problems with more operands have cell inputs that these never have.
        return self if rule.most_operands is None else self.for_upright(task, rule)

    def limit(self, task: Task, wrong: np.ndarray, most: float) -> None:
        """Limit the confidence of a refuted model of decided messages.

        Args:
            task: whose problems are solved.
            wrong: ids of the op inputs with a wrong output, int64 [N], sorted.
            most: the highest confidence in a row, 0 to 1.
        """
        rule = self.rule_of(task).with_codes(self.config.codes)
        self.refutation = Refutation(rule, wrong, most)

    def rule_of(self, task: Task) -> LocalRule:
        """Return the local rule that the model follows in a task's layout."""
        return task.local_rule(latent=bool(self.config.codes))

    def for_upright(self, task: Task, rule: LocalRule) -> CellPredictor:
        """Return a copy with confidence only in upright solutions of a rule.

        It is for canvases that may be turned or have more operands than the rule covers. A solution
        with a cell input that no upright solution of the rule has gets confidence 0. The rule's
        cell inputs are checked on some solutions of the task.
        """
        one = copy(self)
        one.upright, one.most_operands = UprightInputs(rule, task), rule.most_operands
        return one

    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        cells, confidence, worked = self._solved(inputs)
        # Only rows with masked cells count; without any the product is 1.
        rows = (inputs == symbols.MASK).any(axis=2)
        confidence = np.where(rows, confidence, 1).prod(axis=1)
        settled = (worked.settled | ~rows).all(axis=1)
        return Prediction(cells, confidence, (worked.steps * rows).max(axis=1), settled=settled)

    def free_running(
        self,
        drawing: Drawing,
        views: Sequence[View] | None = None,
        problem_of: np.ndarray | None = None,
    ) -> FilledCanvases:
        """See `Predictor`. All rows are solved at once.

        In views the rows share the confidence evenly. There are no rollouts.
        """
        if views is None:
            return self._all_rows(drawing)
        return self._all_rows_in_views(drawing, views, problem_of)

    def _all_rows(self, drawing: Drawing) -> FilledCanvases:
        filled, confidence, worked = self._solved(drawing.masked)
        written = FilledCanvases.begun(drawing)
        np.copyto(written.canvases, filled, where=drawing.unknown)
        sample, row = (np.arange(written.steps.shape[1]) < drawing.num_rows[:, None]).nonzero()
        place = sample, drawing.canvas_row(0)[sample] + row
        written.confidence[sample, row] = confidence[place]
        written.steps[sample, row] = worked.steps[place]
        written.settled[sample, row] = worked.settled[place]
        return written

    def _all_rows_in_views(
        self, drawing: Drawing, views: Sequence[View], problem_of: np.ndarray | None
    ) -> FilledCanvases:
        written, unknown = FilledCanvases.begun(drawing), drawing.unknown
        filled = in_views(self, drawing.masked, views, problem_of)
        written.canvases[unknown] = filled.canvases[unknown]
        rows = drawing.num_rows[:, None]
        share = filled.confidence[:, None] ** (1 / rows)
        there = np.arange(int(rows.max())) < rows
        written.confidence[:] = np.where(there, share, 1)
        written.steps[:] = np.where(there, filled.steps[:, None], 0)
        written.settled[:] = ~there | filled.settled[:, None]
        return written

    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        from trm.cells.computing import every_cell_once

        worked = every_cell_once(self, inputs)
        written = worked.tokens.byte().cpu().numpy(), worked.log_symbol.cpu().numpy()
        return Trace.by_symbol(inputs, *written, labels)

    def signals(self, inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Return the decided classes by signal, uint8 [B, H, W] each.

        See `canvas.cells.drawn.draw_signals`. Latent codes are left out, as their classes have no
        meaning of their own.

        Args:
            inputs: canvases, uint8 [B, H, W].
        """
        there, *found = self._work(inputs)[0].messages.unbind(-1)
        return {
            name: classes.masked_fill(there == 0, UNDEFINED).byte().cpu().numpy()
            for name, classes in zip(self.model.signals, found, strict=True)
            if name not in self.config.codes
        }

    def _solved(self, canvases: np.ndarray) -> tuple[np.ndarray, np.ndarray, Worked]:
        """Return filled canvases, uint8 [B, H, W], confidence of rows, float32 [B, H], and steps.

        The confidence is 0 in rows that have not settled, as they may have read messages that were
        about to change.
        """
        if self.looks_up and (filled := self._looked_up(canvases)) is not None:
            return filled, np.ones(canvases.shape[:2], np.float32), _without_steps(canvases)
        found, worked = self._work(canvases)
        confidence = found.halt_logits.sigmoid().cpu().numpy()
        confidence = np.where(worked.settled, 1 if self.proved else confidence, 0)
        most = 1.0 if self.proved else self.most_confidence
        confidence = np.minimum(confidence, most).astype(np.float32)
        for limits in (self.upright, self.refutation):
            if limits is not None:
                limits.limit(confidence, canvases, found.messages.cpu().numpy())
        return found.tokens.byte().cpu().numpy(), confidence, worked

    def _work(self, canvases: np.ndarray) -> tuple[Wavefront, Worked]:
        """Run the network."""
        from trm.cells.computing import every_cell_once, in_steps

        if self.takes_steps and (canvases == symbols.MASK).any():
            return in_steps(self, canvases)
        return every_cell_once(self, canvases), _without_steps(canvases)


def _without_steps(canvases: np.ndarray) -> Worked:
    """Return that canvases, uint8 [B, H, W], took no steps."""
    return Worked(np.zeros(canvases.shape[:2], np.int64), np.ones(canvases.shape[:2], bool))
