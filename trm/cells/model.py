"""A model of one cell, which reads its own symbol and the decided messages of its neighbours.

A message contains the likeliest class of each of a few named signals, and nothing else. So a cell
has a finite set of inputs (`canvas.cells`), on which a trained model can be proved right.

This file contains one step of all cells of a canvas. The network of a cell is in
`trm.cells.network`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.cells.order import WritingOrder
from canvas.cells.spec import OWN
from canvas.choices import refuse_renamed
from canvas.symbols import BLANK, MASK
from trm.cells.cache import CellCache
from trm.cells.network import CellNetwork
from trm.models.coordinates import span
from trm.models.halting import log_odds
from trm.models.iterative import IterativeModel, check_tokens
from trm.models.sites import INPUT, Site, last_sites, layer_sites

_CERTAIN = 30.0  # logit of a decided symbol


@dataclass(frozen=True, eq=False)
class CellContext:
    """Encoded batch of canvases."""

    tokens: Tensor  # int64 [B, H, W], symbol ids as given
    masked: Tensor  # bool [B, H, W], cells to fill in
    cells: Tensor  # bool [B, H, W], cells to compute: from the first row to the last to fill in
    cache: CellCache  # decisions of the model

    @cached_property
    def order(self) -> WritingOrder:
        """The cells to compute, in the order of writing, as tensors on the canvases' device."""
        directions = [one for one in self.cache.model.encoding.directions if one != OWN]
        order = WritingOrder.of(self.cells.cpu().numpy(), directions)
        canvas, row, column, sources = (
            torch.from_numpy(one).to(self.cells.device) for one in order[:4]
        )
        return order._replace(canvas=canvas, row=row, column=column, sources=sources)

    def select(self, index: Tensor) -> "CellContext":
        """Return the same for some samples, by bool [B] or int64 indices."""
        return CellContext(self.tokens[index], self.masked[index], self.cells[index], self.cache)


class CellState(NamedTuple):
    """Decisions of all cells of B canvases after a step."""

    messages: Tensor  # int16 [B, H, W, signals], classes
    symbols: Tensor  # int64 [B, H, W], given or decided
    log_right: Tensor  # float32 [B, H, W], log of the probability that a cell is correct


class CellModel(CellNetwork, IterativeModel):
    """Model of one cell, applied to all cells of a canvas; see this module's docstring.

    One step of `iterate` updates all cells at once, each from its neighbours' messages of the step
    before. `trm.cells.computing` computes the fixed point directly. Attributes and functions of a
    single cell are those of `CellNetwork`.
    """

    translation_invariant = True
    states = {  # noqa: RUF012, of `CellState`
        "messages": "int16 [B, H, W, signals], decided classes, after a step of all cells",
        "symbols": "int64 [B, H, W], given or decided, after a step of all cells",
        "log_right": "float32 [B, H, W], log of the probability that a cell is correct",
    }

    def __init_subclass__(cls) -> None:
        """Refuse an earlier name."""
        refuse_renamed(cls, {"network": "apply_layers"})

    def sites(self, states: Sequence[str] = ()) -> dict[str, Site]:
        """Return the sites of the network, see `trm.models.hooks`."""
        ids = "int64 [N], ids of the op inputs that are computed"
        keys = "[N, directions, heads, D / heads]"
        shapes = "[N, D]", "[N, 1, heads, D / heads]", keys
        layers = layer_sites(
            self.layers, *shapes, "[N, heads, directions]", "[N, heads, D / heads]"
        )
        logits = Site("float [N, sum of C], logits of all outputs", self, method="op_logits")
        return {
            "op_inputs": Site(ids, self.reader, INPUT, method="decode"),
            **layers,
            "op_logits": logits,
            **last_sites(self, states),
        }

    def encode(self, tokens: Tensor, cache: CellCache | None = None) -> CellContext:
        """Encode canvases.

        Cells are computed from a canvas's first row to the last one to be filled in, or to the last
        one at all without an order of writing, over all columns that are not blank.

        Args:
            tokens: symbol ids, integers [B, H, W].
            cache: decisions computed before; new ones are added.
        """
        check_tokens(tokens)
        masked, used = tokens == MASK, tokens != BLANK
        last = (
            masked.any(dim=2).flip(1).cumsum(dim=1).flip(1) > 0
        )  # [B, H], down to the last to fill in
        last = last | (not self.encoding.ordered)
        rows = used.any(dim=2) & (last | ~last[:, :1])
        cells = span(rows).unsqueeze(2) & span(used.any(dim=1)).unsqueeze(1)
        return CellContext(tokens.long(), masked, cells, cache or CellCache(self))

    def initial_state(self, context: CellContext) -> CellState:
        """Return the state before the first step: all classes are 0."""
        messages = context.tokens.new_zeros(
            *context.tokens.shape, len(self.signals), dtype=torch.int16
        )
        never = torch.full_like(context.tokens, -torch.inf, dtype=torch.float32)
        return CellState(messages, context.tokens, never)

    def random_state(self, context: CellContext, generator: torch.Generator) -> CellState:
        """Return a state of random messages and symbols, drawn uniformly.

        `iterate` leads from any such state to the fixed point, in at most `settling_steps`.
        """

        def drawn(classes: int) -> Tensor:
            shape, device = context.tokens.shape, generator.device
            found = torch.randint(classes, shape, generator=generator, device=device)
            return found.to(context.tokens.device)

        state = self.initial_state(context)
        messages = torch.stack([drawn(classes) for classes in self.signals.values()], dim=-1)
        symbols = torch.where(context.masked, drawn(self.config.vocab_size), context.tokens)
        return state._replace(messages=messages.to(state.messages.dtype), symbols=symbols)

    @torch.no_grad()
    def iterate(self, context: CellContext, state: CellState) -> CellState:
        """Update all cells at once, each from the messages that its neighbours had before."""
        canvas, row, column, sources, sizes, _ = context.order
        if not sizes:
            return state
        token, masked = context.tokens[canvas, row, column], context.masked[canvas, row, column]
        passed = F.pad(state.messages[canvas, row, column], (1, 0, 0, 1))
        passed[:-1, 0] = 1
        decided = context.cache.of_cells(token, passed[sources].long())
        messages, symbols, log_right = (part.clone() for part in state)
        messages[canvas, row, column] = decided.classes[:, 1:].to(messages.dtype)
        symbols[canvas, row, column] = torch.where(masked, decided.classes[:, 0], token)
        log_right[canvas, row, column] = decided.log_right
        return CellState(messages, symbols, log_right)

    def settling_steps(self, context: CellContext) -> Tensor:
        """Return the steps after which a row and all above it cannot change, int64 [B, H].

        Without an order of writing: one more than the canvas has cells, as in `WritingOrder`. Else
        this is the length of the longest chain of cells that ends in the row, see
        `canvas.cells.order`; 0 for a row that is not computed.

        Example: rows of 4 columns settle after 4, 6 and 8 steps.
        """
        computed, columns = context.cells.any(dim=2), context.cells.any(dim=1).sum(dim=1)
        if not self.encoding.ordered:
            return (computed.sum(dim=1) * columns + 1)[:, None] * computed
        above = computed.long().cumsum(dim=1) - 1
        # In a single column a chain runs straight down.
        steps = torch.where(columns > 1, 2, 1)[:, None] * above + columns[:, None]
        return steps * computed

    def read(self, state: CellState, context: CellContext) -> tuple[Tensor, Tensor]:
        """Return the decided symbols as logits, float32 [B, H, W, V], and halt logits, float32 [B].

        The logit of a decided symbol is large, all others are 0. Halt logits are of "all cells that
        were to be filled in are correct".
        """
        logits = F.one_hot(state.symbols, self.config.vocab_size).float() * _CERTAIN
        return logits, log_odds((state.log_right.masked_fill(~context.masked, 0)).sum(dim=(1, 2)))
