"""A tiny recursive model of one cell, which sees its own symbol and decided messages of neighbours.

What a cell hands on is the likeliest class of a few named quantities, and nothing else. So what it
can ever see is a finite set (`canvas.windows`), on which a trained model can be proved right.

Inside a cell it is the model of Jolicoeur-Martineau 2025 (`trm.models.recursive`): z_L is updated
L_cycles times from z_L + z_H + input, then z_H once from z_H + z_L; H_cycles times, of which the
last has a gradient. In every update the cell attends to its neighbours' messages, which stand
still, so that cycles see no more of the page. At the end z_H is decided and handed on.

A page is worked out in the order of writing, every cell once (`work_in_order`). As an
`IterativeModel` all cells take a supervision step at once, from the messages of the step before,
which leads to the same page, and can be looked into.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.windows import NEIGHBOURS
from trm.models.configs import LocalConfig
from trm.models.iterative import IterativeModel
from trm.models.layers import (
    Attention,
    Linear,
    PostNormBlock,
    SwiGLU,
    compute_dtype,
    truncated_normal_,
)

_CERTAIN = 30.0  # logit of a blank cell outside the page


class Seen(NamedTuple):
    """What N cells attend to: of each layer keys and values, [N, ways, 2 * D]; bool [N, ways]."""

    keys_values: list[Tensor]
    present: Tensor  # whether there is such a neighbour


@dataclass
class Page:
    """A batch of canvases: the box of each from its first row to the last that is filled in."""

    tokens: Tensor  # int64 [B, H, W]
    inside: Tensor  # bool [B, H, W]
    asked: Tensor  # bool [B, H, W], cells to fill in

    def select(self, index: Tensor) -> "Page":
        """The same for some samples, by bool [B] or int64 indices."""
        return Page(self.tokens[index], self.inside[index], self.asked[index])


class LocalRecursiveModel(IterativeModel):
    """See this module's docstring.

    Attributes:
        outputs: what the heads say of a cell, in order, and how many classes each has: its symbol,
            then each field that it hands on.
        codes: how many messages there are in each direction, 0 (no such neighbour) among them.
    """

    config: LocalConfig
    translation_invariant = True
    can_carry = False
    H_init: Tensor
    L_init: Tensor

    def __init__(self, config: LocalConfig):
        super().__init__()
        self.config = config
        D = config.hidden_size
        self.fields = {name: n for way in config.messages.values() for name, n in way.items()}
        self.outputs = {"symbol": config.vocab_size, **self.fields}
        self.ways = {name: list(config.messages.get(name, ())) for name in NEIGHBOURS}
        self.codes = [
            1 + prod(self.fields[name] for name in names) if names else 1
            for names in self.ways.values()
        ]
        self.scale = D**0.5
        self.embed_tokens = nn.Embedding(config.vocab_size, D)
        self.embed_messages = nn.Embedding(sum(self.fields.values()), D)
        truncated_normal_(self.embed_tokens.weight, 1 / self.scale)
        truncated_normal_(self.embed_messages.weight, 1 / self.scale)
        # A bias for each head and neighbour, scaled as embeddings are: one rate suits all.
        first = torch.zeros(config.num_heads, len(NEIGHBOURS))
        for head in range(config.num_heads):
            first[head, head % len(NEIGHBOURS)] = config.direction_bias / self.scale
        self.position = nn.ParameterDict({"direction": nn.Parameter(first)})
        self.layers = nn.ModuleList(
            PostNormBlock(Attention(D, config.num_heads), SwiGLU(D, config.intermediate_size))
            for _ in range(config.num_layers)
        )
        self.lm_head = Linear(D, sum(self.outputs.values()), bias=True)
        self.halt_head = nn.Linear(D, 1)
        nn.init.zeros_(self.halt_head.weight)
        nn.init.constant_(self.halt_head.bias, -5.0)
        for name in ("H_init", "L_init"):  # fixed, and not among the parameters
            self.register_buffer(name, truncated_normal_(torch.empty(D), 1.0))

    @property
    def blocks(self) -> list[tuple[PostNormBlock, Attention]]:
        """The layers, each with its attention."""
        return [(layer, layer.mixing) for layer in self.layers]  # type: ignore[misc]

    @property
    def updates(self) -> tuple[str, ...]:  # type: ignore[override]
        """In every H cycle z_L some times, then z_H; the state keeps the latter alone."""
        return ()

    def parts(self, outputs: Tensor) -> dict[str, Tensor]:
        """Logits of the symbol and of each field, [..., C] each, of the heads' [..., sum of C]."""
        sizes = list(self.outputs.values())
        return dict(zip(self.outputs, outputs.split(sizes, dim=-1), strict=True))

    def message_tables(self) -> list[tuple[Tensor, ...]]:
        """Keys and values of all messages, for each layer and direction [codes, 2 * D].

        A row for every code of `canvas.windows.LocalRule.code`, the first for no neighbour.
        """
        device, dtype = self.embed_messages.weight.device, compute_dtype(self.embed_messages.weight)
        most = max(1, *(len(names) for names in self.ways.values()))
        embed = self.embed_messages.weight * (self.config.hidden_size / most) ** 0.5
        start = dict(zip(self.fields, accumulate(self.fields.values(), initial=0), strict=False))
        vectors = []
        for names, size in zip(self.ways.values(), self.codes, strict=True):
            rest = (torch.arange(size, device=device) - 1).clamp(min=0)
            total = embed.new_zeros(size, embed.shape[1])
            for name in reversed(names):
                rest, value = rest // self.fields[name], rest % self.fields[name]
                total = total + embed[start[name] + value]
            vectors.append(total.to(dtype))
        return [tuple(mixing.keys_values(v) for v in vectors) for _, mixing in self.blocks]

    def cells(
        self, tokens: Tensor, codes: Tensor, tables: list[tuple[Tensor, ...]] | None = None
    ) -> tuple[Tensor, Tensor]:
        """What follows from windows.

        Args:
            tokens: symbol ids, int64 [N].
            codes: of the messages in each direction, int64 [N, 3], 0 for no neighbour.
            tables: `message_tables`, where many calls share them.

        Returns:
            The heads' logits, [N, sum of C], see `parts`; and halt logits, float32 [N], of "this
            cell is right".
        """
        z_H = self.think(tokens, codes, tables)
        return self.lm_head(z_H), self.halt_head(z_H)[:, 0].float()

    def think(
        self, tokens: Tensor, codes: Tensor, tables: list[tuple[Tensor, ...]] | None = None
    ) -> Tensor:
        """The state z_H, [N, D], at the end of all cycles; arguments as for `cells`."""
        tables = tables or self.message_tables()
        seen = Seen(
            [
                torch.stack([t[c] for t, c in zip(of, codes.unbind(1), strict=True)], 1)
                for of in tables
            ],
            codes > 0,
        )
        x = self.embed_tokens.weight * self.scale
        x = x.to(compute_dtype(x))[tokens]  # [N, D]
        z_H, z_L = (init.to(x.dtype).expand_as(x) for init in (self.H_init, self.L_init))
        with torch.no_grad():
            for _ in range(self.config.H_cycles - 1):
                z_H, z_L = self.cycle(x, z_H, z_L, seen)
        return self.cycle(x, z_H, z_L, seen)[0]

    def cycle(self, x: Tensor, z_H: Tensor, z_L: Tensor, seen: Seen) -> tuple[Tensor, Tensor]:
        """z_L some times, then z_H once; [N, D] each."""
        for _ in range(self.config.L_cycles):
            z_L = self.network(z_L + z_H + x, seen)
        return self.network(z_H + z_L, seen), z_L

    def network(self, x: Tensor, seen: Seen) -> Tensor:
        """All layers, once: [N, D] to the same."""
        heads = self.config.num_heads
        bias = (self.position["direction"] * self.scale).to(x.dtype).T  # [ways, heads]
        present = seen.present.unsqueeze(-1)
        alone = ~present.any(dim=1)  # [N, 1]
        for (layer, mixing), keys_values in zip(self.blocks, seen.keys_values, strict=True):
            k, v = keys_values.unflatten(-1, (2, heads, -1)).unbind(2)  # [N, ways, heads, D/heads]
            q = mixing.queries(x).unflatten(-1, (1, heads, -1)) * k.shape[-1] ** -0.5
            scores = ((q * k).sum(-1) + bias).masked_fill(~present, -torch.inf)
            scores = scores.masked_fill(alone.unsqueeze(1), 0)
            exact = torch.promote_types(v.dtype, torch.float32)
            weights = torch.softmax(scores, dim=1, dtype=exact).to(v.dtype)
            mixed = (weights.unsqueeze(-1) * v).sum(1).flatten(1).masked_fill(alone, 0)
            x = layer.after(x, mixing.out(mixed))
        return x

    def decide(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """What is written and what is handed on, of the heads' logits [..., sum of C].

        The likeliest symbol, int64 [...], and the codes of the messages in each direction, int64
        [..., 3].
        """
        chosen = {name: part.argmax(dim=-1) for name, part in self.parts(outputs).items()}
        return chosen["symbol"], self.encode_messages(chosen)

    def encode_messages(self, chosen: Mapping[str, Tensor]) -> Tensor:
        """Codes of the messages in each direction, int64 [..., 3], of each field's classes."""
        codes = []
        for names in self.ways.values():
            number = torch.zeros_like(next(iter(chosen.values())))
            for name in names:
                number = number * self.fields[name] + chosen[name]
            codes.append(number + bool(names))
        return torch.stack(codes, dim=-1)

    def encode(self, tokens: Tensor) -> Page:
        """See `IterativeModel`: symbol ids, integers [B, H, W]; ValueError for anything else."""
        if tokens.ndim != 3 or tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise ValueError(
                "tokens must be symbol ids of integer dtype and shape [batch, height, width], "
                f"got {tokens.dtype} {list(tokens.shape)}."
            )
        asked = tokens == self.config.mask_id
        filled = tokens != self.config.blank_id
        rows, columns = filled.any(dim=2), filled.any(dim=1)
        last = torch.where(asked.any(dim=(1, 2))[:, None], asked.any(dim=2), rows)
        rows = _from_first(rows) & _from_first(last.flip(1)).flip(1)
        columns = _from_first(columns) & _from_first(columns.flip(1)).flip(1)
        return Page(tokens.long(), rows.unsqueeze(2) & columns.unsqueeze(1), asked)

    def initial_state(self, context: Page) -> Tensor:
        """Zero, [B, H * W, D]: what the heads say of that is what cells hand on at first."""
        batch, cells = context.tokens.flatten(1).shape
        return self.H_init.new_zeros(batch, cells, self.config.hidden_size)

    def iterate(self, context: Page, state: Tensor) -> Tensor:
        """A supervision step of all cells at once, [B, H * W, D] to the same."""
        at = context.inside
        _, codes = self.decide(self.lm_head(state))
        codes = codes.unflatten(1, at.shape[1:]) * at.unsqueeze(-1)
        seen = [_shifted(codes[..., i], *way) for i, way in enumerate(NEIGHBOURS.values())]
        z_H = self.think(context.tokens[at], torch.stack(seen, dim=-1)[at])
        zero = torch.zeros_like(state, dtype=z_H.dtype)
        return zero.masked_scatter(at.flatten(1).unsqueeze(-1), z_H)

    def finished(self, tokens: Tensor) -> Tensor:
        """See `IterativeModel`."""
        state = work_in_order(self, tokens, states=True).state
        assert state is not None
        return state

    def read(self, state: Tensor, context: Page) -> tuple[Tensor, Tensor]:
        """See `IterativeModel`; the halt logit is of all cells to fill in, or of all there are."""
        logits = self.read_all(state, context)["symbol"]
        blank = F.one_hot(torch.tensor(self.config.blank_id), self.config.vocab_size) * _CERTAIN
        logits = torch.where(context.inside.unsqueeze(-1), logits, blank.to(logits))
        counted = torch.where(
            context.asked.any(dim=(1, 2))[:, None, None], context.asked, context.inside
        )
        sure = F.logsigmoid(self.halt_head(state)[..., 0].float()).view(counted.shape)
        return logits, all_right((sure * counted).sum(dim=(1, 2)))

    def read_hints(self, state: Tensor, context: Page) -> dict[str, Tensor]:
        """See `IterativeModel`: of every field that is handed on."""
        parts = self.read_all(state, context)
        return {name: parts[name] * context.inside.unsqueeze(-1) for name in self.fields}

    def read_all(self, state: Tensor, context: Page) -> dict[str, Tensor]:
        """All that cells say, logits [B, H, W, C] each."""
        outputs = self.lm_head(state).unflatten(1, context.tokens.shape[1:])
        return self.parts(outputs)

    def pairs(self, height: int, width: int) -> int:
        """See `IterativeModel`: every cell attends to its three neighbours."""
        return 3 * height * width


def all_right(log_probability: Tensor) -> Tensor:
    """The halt logit of "all cells are right" from the log of its probability, float32 [...]."""
    log = log_probability.clamp(max=-1e-7)
    return log - torch.log(-torch.expm1(log))


def _from_first(some: Tensor) -> Tensor:
    """From the first true one on, bool [B, N] to the same."""
    return some.byte().cummax(dim=1).values.bool()


def _shifted(codes: Tensor, down: int, right: int) -> Tensor:
    """Of each cell what stands at an offset, [B, H, W]; 0 beyond the edge."""
    _, H, W = codes.shape
    around = F.pad(codes, (1, 1, 1, 0))
    return around[:, 1 + down : 1 + down + H, 1 + right : 1 + right + W]


@dataclass
class InOrder:
    """Canvases that were worked out in the order of writing."""

    tokens: Tensor  # int64 [B, H, W], what was asked filled in
    halt_logits: Tensor  # float32 [B, H]: the cells of the row that were filled in are right
    state: Tensor | None  # [B, H * W, D], z_H of all cells; None: not wanted


@torch.no_grad()
def work_in_order(model: LocalRecursiveModel, tokens: Tensor, states: bool = False) -> InOrder:
    """Work canvases out, every cell once, after all that it depends on.

    All cells of a front are worked out together: of each row one, two columns behind the row above.
    Of what is handed on only the last three fronts are kept.

    Args:
        model: in evaluation mode.
        tokens: symbol ids, integers [B, H, W]; masked cells are filled in.
        states: whether those of all cells are wanted.
    """
    page, tables = model.encode(tokens), model.message_tables()
    filled = page.tokens.clone()
    B, H, W = filled.shape
    sure = torch.zeros(B, H, device=filled.device)
    handed = filled.new_zeros(3, B, H + 1, 3)  # by time modulo 3; row r is at r + 1
    state = None
    if states:
        state = model.H_init.new_zeros(B, H, W, model.config.hidden_size)
    rows = torch.arange(H, device=filled.device)
    used = page.inside.any(dim=0)  # [H, W]
    for time in range(W + 2 * (H - 1)):
        first, last = max(0, -(-(time - W + 1) // 2)), min(H - 1, time // 2)
        row = rows[first : last + 1]
        column = W - 1 - (time - 2 * row)
        now = handed[time % 3].zero_()
        row, column = (part[used[row, column]] for part in (row, column))
        if not len(row):
            continue
        here = page.inside[:, row, column]  # [B, A]
        before, two_before = handed[(time - 1) % 3], handed[(time - 2) % 3]
        seen = torch.stack(
            (before[:, row + 1, 0], two_before[:, row, 1], before[:, row, 2]), dim=-1
        )
        token = page.tokens[:, row, column]
        z_H = model.think(token.flatten(), seen.flatten(0, 1), tables)
        symbol, codes = model.decide(model.lm_head(z_H))
        halt = model.halt_head(z_H)[:, 0].float()
        asked = page.asked[:, row, column]
        now[:, row + 1] = codes.view(*here.shape, 3) * here.unsqueeze(-1)
        filled[:, row, column] = torch.where(asked, symbol.view(here.shape), token)
        sure[:, row] += F.logsigmoid(halt).view(here.shape) * asked
        if state is not None:
            state[:, row, column] = z_H.view(*here.shape, -1).to(state.dtype) * here.unsqueeze(-1)
    return InOrder(filled, all_right(sure), None if state is None else state.flatten(1, 2))
