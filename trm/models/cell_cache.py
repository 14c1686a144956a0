"""Decisions of a cell model, each worked out once: what follows from a cell's inputs."""

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.cells.spec import SYMBOL

if TYPE_CHECKING:
    from trm.models.cell import CellModel

_MOST_KNOWN = 2**24  # inputs that there can be at most for their answers to be kept


class Decided(NamedTuple):
    """Decisions of N heads, or of all heads of N cells."""

    classes: Tensor  # int64 [N, outputs], 0 for what a head does not say
    log_right: Tensor  # float32 [N], log of the probability that all of it is right
    log_symbol: Tensor  # float32 [N], and that the symbol is, of all symbols; else 0


class CellCache:
    """The answers of a model, as it is now, to what its heads read: each is worked out once.

    Answers are kept where there are at most 2 ** 24 different inputs; else each call computes all.
    """

    def __init__(self, model: "CellModel") -> None:
        self.model, self.tables = model, model.message_tables()
        self.index: Tensor | None = None  # of each sight's answer in `found`; −1: it is new
        self.found: Decided | None = None

    def __call__(self, numbers: Tensor) -> Decided:
        """Return the answers to N op inputs, by their ids, int64 [N]."""
        count = self.model.encoding.starts[-1]
        if count > _MOST_KNOWN:
            return self._answers(numbers)
        if self.index is None:
            with torch.inference_mode(False):  # it may be made there, and used elsewhere
                self.index = torch.full((count,), -1, device=numbers.device)
        new = numbers[self.index[numbers] < 0].unique()
        if len(new):
            parts = [part for part in (self.found, self._answers(new)) if part]
            before = len(parts[0].classes) if self.found else 0
            self.index[new] = torch.arange(len(new), device=new.device) + before
            self.found = Decided(*map(torch.cat, zip(*parts, strict=True)))
        index = self.index[numbers]
        assert self.found is not None
        return Decided(*(part[index] for part in self.found))

    def decide(self, tokens: Tensor, around: Tensor) -> Decided:
        """Return the decisions of N cells, head after head.

        Args:
            tokens: int64 [N].
            around: of the neighbours, int64 [N, ways, 1 + fields], 1 for there being such a cell,
                then classes; 0: no such cell.
        """
        N, outputs = len(tokens), len(self.model.outputs)
        own = around.new_zeros(N, outputs)
        seen = torch.cat((tokens.unsqueeze(1), around.flatten(1), own), dim=1)
        log_right = log_symbol = torch.zeros_like(tokens, dtype=torch.float32)
        for level in self.model.encoding.levels:
            found = self(self.model.reader.ids(level, seen))
            log_right = log_right + found.log_right.view(-1, N).sum(dim=0)
            log_symbol = log_symbol + found.log_symbol.view(-1, N).sum(dim=0)
            # In place, where the next heads read them; no two heads say the same.
            seen[:, -outputs:] += found.classes.view(-1, N, outputs).sum(dim=0)
        return Decided(seen[:, -outputs:], log_right, log_symbol)

    def _answers(self, numbers: Tensor) -> Decided:
        """Compute the answers to all of these op inputs."""
        outputs, halt_logits = self.model.cells(self.model.reader.decode(numbers), self.tables)
        classes, log_right = self.model.decided(outputs), F.logsigmoid(halt_logits)
        symbol = outputs[:, : self.model.outputs[SYMBOL]]
        log_symbol = symbol.float().log_softmax(dim=-1).amax(dim=-1)
        if len(self.model.encoding.ops) > 1:
            says = self.model.reader.outputs_of(numbers)
            classes, log_symbol = classes * says, log_symbol * says[:, 0]
        return Decided(classes, log_right, log_symbol)
