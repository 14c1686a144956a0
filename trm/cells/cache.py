"""Cache of a cell model's decisions: the outputs for each op input are computed once."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.cells.spec import SYMBOL
from canvas.symbols import MASK
from trm.runtime.torch_settings import standard_settings

if TYPE_CHECKING:
    from trm.cells.model import CellModel

_MOST_KNOWN = 2**24  # most possible op inputs of a model with a cache
_AT_ONCE = 16384  # most op inputs, to bound the memory


class Decided(NamedTuple):
    """Decisions of N ops, or of all ops of N cells."""

    classes: Tensor  # int64 [N, outputs], 0 for outputs that an op does not have
    log_right: Tensor  # float32 [N], log of the probability that all outputs are correct
    log_symbol: Tensor  # float32 [N], log-softmax of the decided symbol; 0 without a symbol


class CellCache:
    """Decisions of a model with its present weights, by id of the op input.

    They are cached if there are at most 2 ** 24 ids; else each call computes all.
    """

    @standard_settings(threads=1)
    @torch.no_grad()
    def __init__(self, model: "CellModel") -> None:
        self.model, self.tables = model, model.message_tables()
        self.index: Tensor | None = None  # int64 [ids], row in `found` of each id; −1: it is new
        self.found: Decided | None = None

    @property
    def keeps(self) -> bool:
        """True if decisions are cached."""
        return self.model.encoding.starts[-1] <= _MOST_KNOWN

    def __call__(self, ids: Tensor) -> Decided:
        """Return the decisions for N op inputs, from their ids, int64 [N]."""
        if not self.keeps:
            return self._answers(ids)
        count = self.model.encoding.starts[-1]
        if self.index is None:
            with torch.inference_mode(False):  # a later call may be outside of inference mode
                self.index = torch.full((count,), -1, device=ids.device)
        new = ids[self.index[ids] < 0].unique()
        if len(new):
            parts = [part for part in (self.found, self._answers(new)) if part]
            before = len(parts[0].classes) if self.found else 0
            self.index[new] = torch.arange(len(new), device=new.device) + before
            self.found = Decided(*map(torch.cat, zip(*parts, strict=True)))
        index = self.index[ids]
        assert self.found is not None
        return Decided(*(part[index] for part in self.found))

    @standard_settings(threads=1)
    @torch.no_grad()
    def decide(self, ids: np.ndarray) -> np.ndarray:
        """Return the classes alone, see `canvas.cells.local_rule.Decide`."""
        found = []
        for part in torch.from_numpy(ids).split(self.model.at_once(_AT_ONCE)):
            op_inputs, has = self.model.reader.decode(part), self.model.reader.outputs_of(part)
            decided = self(part).classes.masked_fill(has == 0, -1)
            given = op_inputs.reads_token[:, 0] & (op_inputs.token != MASK)
            decided[:, 0] = decided[:, 0].masked_fill(given, -1)
            found.append(decided)
        return torch.cat(found).numpy()

    def of_cells(self, tokens: Tensor, around: Tensor) -> Decided:
        """Return the decisions of N cells, op after op.

        Args:
            tokens: int64 [N].
            around: messages of the neighbours, int64 [N, neighbours, 1 + signals]: 1, then
                classes; all 0 if the neighbour does not exist.
        """
        N, outputs = len(tokens), len(self.model.outputs)
        own = around.new_zeros(N, outputs)
        inputs = torch.cat((tokens.unsqueeze(1), around.flatten(1), own), dim=1)
        log_right = log_symbol = torch.zeros_like(tokens, dtype=torch.float32)
        for level in self.model.encoding.levels:
            found = self(self.model.reader.ids(level, inputs))
            log_right = log_right + found.log_right.view(-1, N).sum(dim=0)
            log_symbol = log_symbol + found.log_symbol.view(-1, N).sum(dim=0)
            # In place, as inputs of the next ops; each output is of one op alone.
            inputs[:, -outputs:] += found.classes.view(-1, N, outputs).sum(dim=0)
        return Decided(inputs[:, -outputs:], log_right, log_symbol)

    def _answers(self, ids: Tensor) -> Decided:
        """Compute the decisions for op inputs, int64 [N], without the cache."""
        outputs, halt_logits = self.model.cells(self.model.reader.decode(ids), self.tables)
        classes, log_right = self.model.decided(outputs), F.logsigmoid(halt_logits)
        symbol = outputs[:, : self.model.outputs[SYMBOL]]
        log_symbol = symbol.float().log_softmax(dim=-1).amax(dim=-1)
        if len(self.model.encoding.ops) > 1:
            has = self.model.reader.outputs_of(ids)
            classes, log_symbol = classes * has, log_symbol * has[:, 0]
        return Decided(classes, log_right, log_symbol)
