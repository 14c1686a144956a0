"""Pages as a `LocalRecursiveModel` works them out: in the order of writing, every cell once."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.symbols import BLANK, MASK
from canvas.windows import NEIGHBOURS, OWN, SYMBOL
from trm.models.coordinates import span
from trm.models.iterative import check_tokens
from trm.models.local import LocalRecursiveModel

_MOST_KNOWN = 2**24  # sights that there can be at most for their answers to be remembered


class Decided(NamedTuple):
    """What N heads have decided, or all heads of N cells."""

    classes: Tensor  # int64 [N, outputs], 0 for what a head does not say
    log_right: Tensor  # float32 [N], log of the probability that all of it is right
    log_symbol: Tensor  # float32 [N], and that the symbol is, of all symbols; else 0


class Known:
    """What a model as it is now answers to sights, each worked out once where there are few."""

    def __init__(self, model: LocalRecursiveModel) -> None:
        self.model, self.tables = model, model.message_tables()
        self.index: Tensor | None = None  # of each sight's answer in `found`; −1: it is new
        self.found: Decided | None = None

    def __call__(self, numbers: Tensor) -> Decided:
        """The answers to N sights, see `LocalRecursiveModel.numbers`."""
        count = self.model.heads.starts[-1]
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

    def _answers(self, numbers: Tensor) -> Decided:
        """The same, all of them worked out."""
        outputs, halt_logits = self.model.cells(numbers, self.tables)
        classes, log_right = self.model.decided(outputs), F.logsigmoid(halt_logits)
        symbol = outputs[:, : self.model.outputs[SYMBOL]]
        log_symbol = symbol.float().log_softmax(dim=-1).amax(dim=-1)
        if len(self.model.heads.heads) > 1:
            says = self.model.says(numbers)
            classes, log_symbol = classes * says, log_symbol * says[:, 0]
        return Decided(classes, log_right, log_symbol)


def _decide(tokens: Tensor, around: Tensor, known: Known) -> Decided:
    """What N cells decide, head after head.

    Args:
        tokens: int64 [N].
        around: of the neighbours, int64 [N, ways, 1 + fields], 1 for there being such a cell,
            then classes; 0: no such cell.
    """
    N, outputs = len(tokens), len(known.model.outputs)
    seen = torch.cat((tokens.unsqueeze(1), around.flatten(1), around.new_zeros(N, outputs)), dim=1)
    log_right = log_symbol = torch.zeros_like(tokens, dtype=torch.float32)
    for level in known.model.heads.levels:
        found = known(known.model.numbers(level, seen))
        log_right = log_right + found.log_right.view(-1, N).sum(dim=0)
        log_symbol = log_symbol + found.log_symbol.view(-1, N).sum(dim=0)
        # In place, where the next heads read them; no two heads say the same.
        seen[:, -outputs:] += found.classes.view(-1, N, outputs).sum(dim=0)
    return Decided(seen[:, -outputs:], log_right, log_symbol)


class InOrder(NamedTuple):
    """Canvases that were worked out in the order of writing."""

    tokens: Tensor  # as given [B, H, W], what was asked filled in
    halt_logits: Tensor  # float32 [B, H]: the cells of the row that were filled in are right
    log_symbol: Tensor  # float32 [B, H, W], of what was filled in; else 0
    # int16 [B, H + 1, W + 2, 1 + fields], as `LocalRule.around` has it: 1 for a cell of the page,
    # then its classes.
    handed: Tensor


@torch.no_grad()
def work_in_order(
    model: LocalRecursiveModel, tokens: Tensor, known: Known | None = None
) -> InOrder:
    """Work canvases out, every cell once, after all that it depends on.

    A page goes from its first row to the last one that is filled in. All cells of a front are
    worked out together: of each row one, two columns behind the row above.

    Args:
        model: in evaluation mode.
        tokens: symbol ids, integers [B, H, W]; masked cells are filled in.
        known: answers to sights that have come before; new ones are added.
    """
    check_tokens(tokens)
    known = known or Known(model)
    B, H, W = tokens.shape
    asked, used = tokens == MASK, tokens != BLANK
    last = asked.any(dim=2).flip(1).cumsum(dim=1).flip(1) > 0  # [B, H], rows down to the last asked
    rows = used.any(dim=2) & (last | ~last[:, :1])
    cells = (span(rows).unsqueeze(2) & span(used.any(dim=1)).unsqueeze(1)).nonzero()
    front, order = (2 * cells[:, 1] - cells[:, 2]).sort(stable=True)
    page, row, column = cells[order].unbind(1)
    token, asks = tokens[page, row, column].long(), asked[page, row, column]
    # What is handed on, with a margin around each page, as one list of cells.
    margin = tokens.new_zeros(B, H + 1, W + 2, 1 + len(model.fields), dtype=torch.int16)
    handed, place = margin.flatten(0, 2), (page * (H + 1) + row + 1) * (W + 2) + column + 1
    front = front.unique_consecutive(return_counts=True)[1].tolist()
    steps = [NEIGHBOURS[way] for way in model.heads.ways if way != OWN]
    offsets = [down * (W + 2) + right for down, right in steps]
    around = torch.tensor(offsets, device=place.device)
    found = []
    for here, its in zip(place.split(front), token.split(front), strict=True):
        decided = _decide(its, handed[here.unsqueeze(1) + around].long(), known)
        found.append((decided.classes[:, 0].clone(), decided.log_right, decided.log_symbol))
        decided.classes[:, 0] = 1
        handed[here] = decided.classes.to(handed.dtype)
    filled = tokens.clone()
    log_symbol = torch.zeros(B, H, W, dtype=torch.float32, device=tokens.device)
    sure = log_symbol[..., 0].clone()
    if found:
        classes, right, log = map(torch.cat, zip(*found, strict=True))
        filled[page, row, column] = torch.where(asks, classes, token).to(tokens.dtype)
        log_symbol[page, row, column] = log * asks
        sure.index_put_((page, row), right * asks, accumulate=True)
    return InOrder(filled, all_right(sure), log_symbol, margin)


def all_right(log_probability: Tensor) -> Tensor:
    """The halt logit of "all cells are right" from the log of its probability, float32 [...]."""
    log = log_probability.clamp(max=-1e-7)
    return log - torch.log(-torch.expm1(log))
