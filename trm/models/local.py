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

from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.symbols import BLANK, MASK
from canvas.windows import NEIGHBOURS, OWN, SYMBOL, TOKEN, Head, Heads, Sights
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
    present: Tensor  # whether there is such a neighbour, of which it reads something


@dataclass
class Page:
    """A batch of canvases: the box of each from its first row to the last that is filled in."""

    tokens: Tensor  # int64 [B, H, W]
    inside: Tensor  # bool [B, H, W]
    asked: Tensor  # bool [B, H, W], cells to fill in

    def select(self, index: Tensor) -> "Page":
        """The same for some samples, by bool [B] or int64 indices."""
        return Page(self.tokens[index], self.inside[index], self.asked[index])


class Cells(NamedTuple):
    """What N cells have decided."""

    symbol: Tensor  # int64 [N]
    values: Tensor  # int64 [N, 1 + fields], 1 for there being such a cell, then classes
    log_right: Tensor  # float32 [N], log of the probability that all of it is right
    states: Tensor  # [N, heads * D], z_H of every head


class LocalRecursiveModel(IterativeModel):
    """See this module's docstring.

    Attributes:
        outputs: what the heads say of a cell, and how many classes each has: its symbol, then every
            field.
        heads: the steps of a cell, and how what they read is coded.
    """

    config: LocalConfig
    translation_invariant = True
    H_init: Tensor
    L_init: Tensor
    _weights: Tensor  # int64 [heads, ways, 1 + fields], how much each counts in a code
    _starts: Tensor  # int64 [heads, ways], where a head's codes begin
    _whole: Tensor  # bool [heads], which read all
    _reads: Tensor  # bool [heads, ways], which read anything of a way
    _token: Tensor  # bool [heads], which read the symbol

    def __init__(self, config: LocalConfig):
        super().__init__()
        self.config = config
        D = config.hidden_size
        handed = {name: n for way in config.messages.values() for name, n in way.items()}
        self.fields = handed | config.own
        self.outputs = {SYMBOL: config.vocab_size, **self.fields}
        steps = [Head(tuple(one["says"]), tuple(one["reads"])) for one in config.heads]
        ways = {way: tuple(config.messages.get(way, ())) for way in NEIGHBOURS}
        self.heads = Heads(ways, self.fields, steps or [Head(tuple(self.outputs))])
        self.scale = D**0.5
        self.embed_tokens = nn.Embedding(config.vocab_size, D)
        # Of each class of each field; last, where heads read it, of whether there is a neighbour.
        presence = 2 * any("" in names for of in self.heads.reads for names in of)
        self.embed_messages = nn.Embedding(sum(self.fields.values()) + presence, D)
        truncated_normal_(self.embed_tokens.weight, 1 / self.scale)
        truncated_normal_(self.embed_messages.weight, 1 / self.scale)
        # A bias for each attention head and way, scaled as embeddings are: one rate suits all.
        first = torch.zeros(config.num_heads, len(self.heads.ways))
        for head in range(config.num_heads):
            first[head, head % first.shape[1]] = config.direction_bias / self.scale
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
        self.embed_heads = None
        if steps:
            self.embed_heads = nn.Embedding(len(steps), D)
            truncated_normal_(self.embed_heads.weight, 1 / self.scale)
        self._add_codes()

    def _add_codes(self) -> None:
        """What says how heads' codes are made, and where each head's begin in `message_tables`."""
        heads = self.heads
        count, ways = len(heads.heads), len(heads.ways)
        weights = torch.zeros(count, ways, 1 + len(self.fields), dtype=torch.int64)
        place = {name: i for i, name in enumerate(("", *self.fields))}
        for head in range(count):
            for way, counts in enumerate(heads.weights(head)):
                for name, count_of in counts.items():
                    weights[head, way, place[name]] = count_of
        sizes = torch.tensor(heads.sizes).view(count, ways)
        whole = torch.tensor([head.reads is None for head in heads.heads])
        reads = [[bool(names) for names in of] for of in heads.reads]
        token = [head.reads is None or TOKEN in head.reads for head in heads.heads]
        parts = {"weights": weights, "starts": sizes.cumsum(0) - sizes, "whole": whole}
        parts |= {"reads": torch.tensor(reads).view(count, ways), "token": torch.tensor(token)}
        for name, part in parts.items():
            self.register_buffer(f"_{name}", part, persistent=False)

    @property
    def blocks(self) -> list[tuple[PostNormBlock, Attention]]:
        """The layers, each with its attention."""
        return [(layer, layer.mixing) for layer in self.layers]  # type: ignore[misc]

    def parts(self, outputs: Tensor) -> dict[str, Tensor]:
        """Logits of the symbol and of each field, [..., C] each, of the heads' [..., sum of C]."""
        sizes = list(self.outputs.values())
        return dict(zip(self.outputs, outputs.split(sizes, dim=-1), strict=True))

    def margins(self, outputs: Tensor, labels: dict[str, Tensor]) -> Tensor:
        """The least by which a right logit of each sight exceeds the others, float [N].

        Of the heads' outputs [N, sum of C], and the right classes of each output, int64 [N]; −1
        where it is not asked.
        """
        least = outputs.new_full((len(outputs),), torch.inf)
        for name, logits in self.parts(outputs).items():
            label = labels[name].clamp(min=0)[:, None]
            others = logits.scatter(1, label, -torch.inf).amax(1)
            margin = logits.gather(1, label)[:, 0] - others
            least = torch.minimum(least, margin.masked_fill(labels[name] < 0, torch.inf))
        return least

    def message_tables(self) -> list[tuple[Tensor, ...]]:
        """Keys and values of all that can be read, for each layer and way [codes, 2 * D].

        A row for every code of each head (`canvas.windows.Heads`), head after head.
        """
        dtype = compute_dtype(self.embed_messages.weight)
        vectors = [part.to(dtype) for part in self.message_vectors(self.embed_messages.weight)]
        return [tuple(mixing.keys_values(v) for v in vectors) for _, mixing in self.blocks]

    def message_vectors(self, embed: Tensor) -> list[Tensor]:
        """The sum of the embeddings of all fields that are read, for each way [codes, D]."""
        heads, embed, start = self.heads, embed * self.message_scale, self.class_starts
        vectors = []
        for way in range(len(heads.ways)):
            of_heads = []
            for head in range(len(heads.heads)):
                codes = torch.arange(heads.sizes[head][way], device=embed.device)
                total = embed.new_zeros(len(codes), embed.shape[1])
                for name, value in heads.fields(head, way, codes).items():
                    if name or heads.heads[head].reads is not None:
                        total = total + embed[start[name] + value]
                of_heads.append(total)
            vectors.append(torch.cat(of_heads))
        return vectors

    @property
    def class_starts(self) -> dict[str, int]:
        """Where the classes of each field begin among all; "": of whether there is a neighbour."""
        starts = accumulate(self.fields.values(), initial=0)
        return dict(zip((*self.fields, ""), starts, strict=True))

    @property
    def message_scale(self) -> float:
        """Of embeddings of classes, with which the longest message is of unit size a channel."""
        most = max(1, *(len(names) for names in self.heads.ways.values()))
        return (self.config.hidden_size / most) ** 0.5

    def cells(
        self, sights: Sights, tables: list[tuple[Tensor, ...]] | None = None
    ) -> tuple[Tensor, Tensor]:
        """What follows from sights.

        Args:
            sights: of N heads: which, symbol ids, and codes, int64 [N], [N] and [N, ways].
            tables: `message_tables`, where many calls share them.

        Returns:
            Logits, [N, sum of C], see `parts`, of which those count that the head says; and halt
            logits, float32 [N], of "what it says is right".
        """
        z_H = self.think(sights, tables)
        return self.lm_head(z_H), self.halt_head(z_H)[:, 0].float()

    def think(self, sights: Sights, tables: list[tuple[Tensor, ...]] | None = None) -> Tensor:
        """The state z_H, [N, D], at the end of all cycles; arguments as for `cells`."""
        tables = tables or self.message_tables()
        index, present = self.places(sights)
        keys_values = [
            torch.stack([t[i] for t, i in zip(of, index.unbind(1), strict=True)], 1)
            for of in tables
        ]
        x = self.embed_tokens.weight * self.scale
        x = x.to(compute_dtype(x))[sights.token]  # [N, D]
        if self.embed_heads is not None:
            x = x * self.reads_token(sights)
            x = x + (self.embed_heads.weight * self.scale).to(x.dtype)[sights.head]
        return self.settle(x, Seen(keys_values, present))

    def relaxed(self, tokens: Tensor, messages: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """What follows from messages that are not decided, to learn what codes should mean.

        Args:
            tokens: int64 [N].
            messages: probabilities of all classes of all fields, float [N, ways, classes]; of a
                field that is not handed on that way, 0.
            present: which neighbours there are, bool [N, ways].

        Returns:
            As `cells`.
        """
        vectors = messages @ (self.embed_messages.weight * self.message_scale)
        x = (self.embed_tokens.weight * self.scale)[tokens]
        keys_values = [mixing.keys_values(vectors) for _, mixing in self.blocks]
        z_H = self.settle(x, Seen(keys_values, present))
        return self.lm_head(z_H), self.halt_head(z_H)[:, 0].float()

    def settle(self, x: Tensor, seen: Seen) -> Tensor:
        """The state z_H at the end of all cycles, of the input; [N, D] each."""
        z_H, z_L = (init.to(x.dtype).expand_as(x) for init in (self.H_init, self.L_init))
        with torch.no_grad():
            for _ in range(self.config.H_cycles - 1):
                z_H, z_L = self.cycle(x, z_H, z_L, seen)
        return self.cycle(x, z_H, z_L, seen)[0]

    def places(self, sights: Sights) -> tuple[Tensor, Tensor]:
        """Where codes stand in `message_tables`, int64 [N, ways]; and which are read, bool."""
        head, _, codes = sights
        present = torch.where(self._whole[head, None], codes > 0, self._reads[head])
        return codes + self._starts[head], present

    def reads_token(self, sights: Sights) -> Tensor:
        """Which heads read the symbol, bool [N, 1]."""
        return self._token[sights.head, None]

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

    def decide(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The likeliest classes, of all heads' states [..., heads * D].

        The symbol, int64 [...], and values as `Cells` has them, int64 [..., 1 + fields].
        """
        parts = self.read_all(states)
        chosen = [parts[name].argmax(dim=-1) for name in self.outputs]
        return chosen[0], torch.stack((torch.ones_like(chosen[0]), *chosen[1:]), dim=-1)

    def read_all(self, states: Tensor) -> dict[str, Tensor]:
        """All that cells say, logits [..., C] each, of all heads' states [..., heads * D]."""
        found: dict[str, Tensor] = {}
        for head, z_H in zip(self.heads.heads, states.chunk(len(self._whole), -1), strict=True):
            parts = self.parts(self.lm_head(z_H))
            found |= {name: parts[name] for name in head.says}
        return {name: found[name] for name in self.outputs}

    def log_right(self, states: Tensor) -> Tensor:
        """Log of the probability that all heads are right, float32 [...]."""
        logits = self.halt_head(states.unflatten(-1, (len(self._whole), -1)))[..., 0]
        return F.logsigmoid(logits.float()).sum(dim=-1)

    def work(
        self,
        tokens: Tensor,
        around: Tensor,
        tables: list[tuple[Tensor, ...]],
        known: "Known | None" = None,
    ) -> Cells:
        """What N cells decide, head after head.

        Args:
            tokens: int64 [N].
            around: the values of the neighbours, int64 [N, ways, 1 + fields]; 0: no such cell.
            tables: `message_tables`.
            known: states of sights that have come before; new ones are added.
        """
        heads, N = self.heads.heads, len(tokens)
        values = around.new_zeros(N, 1 + len(self.fields))
        values[:, 0] = 1
        symbol = tokens
        states: list[Tensor | None] = [None] * len(heads)
        place = {name: i for i, name in enumerate(self.outputs)}
        for level in self.heads.levels:
            own = (values[:, None],) if OWN in self.heads.ways else ()
            seen = torch.cat((around, *own), dim=1)
            codes = torch.cat([(seen * self._weights[head]).sum(-1) for head in level])
            which = torch.tensor(level, device=tokens.device).repeat_interleave(N)
            sights = Sights(which, tokens.repeat(len(level)), codes)
            z_H = self.think(sights, tables) if known is None else known(sights, tables)
            for head, z in zip(level, z_H.chunk(len(level)), strict=True):
                states[head] = z
                parts = self.parts(self.lm_head(z))
                for name in heads[head].says:
                    chosen = parts[name].argmax(dim=-1)
                    if name == SYMBOL:
                        symbol = chosen
                    else:
                        values[:, place[name]] = chosen
        together = torch.cat(states, dim=-1)  # type: ignore[arg-type]
        return Cells(symbol, values, self.log_right(together), together)

    def window_numbers(self, tokens: Tensor, around: Tensor) -> Tensor:
        """Windows as numbers, see `canvas.windows.LocalRule.numbers`.

        Of symbol ids int64 [...] and the values of neighbours int64 [..., ways, 1 + fields].
        """
        number, place = tokens, {name: 1 + i for i, name in enumerate(self.fields)}
        for i, (way, names) in enumerate(self.heads.ways.items()):
            if way == OWN:
                continue
            code, size = torch.zeros_like(number), 1
            for name in names:
                code = code * self.fields[name] + around[..., i, place[name]]
                size = size * self.fields[name]
            number = number * (1 + size) + (1 + code) * around[..., i, 0]
        return number

    def encode(self, tokens: Tensor) -> Page:
        """See `IterativeModel`: symbol ids, integers [B, H, W]; ValueError for anything else."""
        if tokens.ndim != 3 or tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise ValueError(
                "tokens must be symbol ids of integer dtype and shape [batch, height, width], "
                f"got {tokens.dtype} {list(tokens.shape)}."
            )
        asked = tokens == MASK
        filled = tokens != BLANK
        rows, columns = filled.any(dim=2), filled.any(dim=1)
        last = torch.where(asked.any(dim=(1, 2))[:, None], asked.any(dim=2), rows)
        rows = _from_first(rows) & _from_first(last.flip(1)).flip(1)
        columns = _from_first(columns) & _from_first(columns.flip(1)).flip(1)
        return Page(tokens.long(), rows.unsqueeze(2) & columns.unsqueeze(1), asked)

    def initial_state(self, context: Page) -> Tensor:
        """Zero, [B, H * W, D]: what the heads say of that is what cells hand on at first."""
        batch, cells = context.tokens.flatten(1).shape
        return self.H_init.new_zeros(batch, cells, len(self._whole) * self.config.hidden_size)

    def iterate(self, context: Page, state: Tensor) -> Tensor:
        """A supervision step of all cells at once, [B, H * W, heads * D] to the same."""
        at = context.inside
        _, values = self.decide(state)
        values = values.unflatten(1, at.shape[1:]) * at.unsqueeze(-1)
        around = torch.stack([_shifted(values, *step) for step in self.steps], dim=3)[at]
        known = None if self.embed_heads is None else Known(self)
        states = self.work(context.tokens[at], around, self.message_tables(), known).states
        zero = torch.zeros_like(state, dtype=states.dtype)
        return zero.masked_scatter(at.flatten(1).unsqueeze(-1), states)

    @property
    def steps(self) -> list[tuple[int, int]]:
        """Rows down and columns right to the neighbours that hand something on."""
        return [NEIGHBOURS[way] for way in self.heads.ways if way != OWN]

    def finished(self, tokens: Tensor) -> Tensor:
        """See `IterativeModel`."""
        state = work_in_order(self, tokens, states=True).state
        assert state is not None
        return state

    def read(self, state: Tensor, context: Page) -> tuple[Tensor, Tensor]:
        """See `IterativeModel`; the halt logit is of all cells to fill in, or of all there are."""
        logits = self.read_all(state)[SYMBOL].unflatten(1, context.tokens.shape[1:])
        blank = F.one_hot(torch.tensor(BLANK), self.config.vocab_size) * _CERTAIN
        logits = torch.where(context.inside.unsqueeze(-1), logits, blank.to(logits))
        counted = torch.where(
            context.asked.any(dim=(1, 2))[:, None, None], context.asked, context.inside
        )
        sure = self.log_right(state).view(counted.shape)
        return logits, all_right((sure * counted).sum(dim=(1, 2)))

    def decided(self, state: Tensor, context: Page) -> dict[str, Tensor]:
        """See `IterativeModel`: of every field; none outside the page."""
        values = self.decide(state)[1].unflatten(1, context.inside.shape[1:])
        fields = (values[..., 1:] * context.inside.unsqueeze(-1)).unbind(-1)
        return dict(zip(self.fields, fields, strict=True))

    def pairs(self, height: int, width: int) -> int:
        """See `IterativeModel`: every cell attends to its neighbours, once a head."""
        return len(self._whole) * len(self.steps) * height * width


class Known:
    """States of sights, each worked out once: few differ where cells work in steps."""

    def __init__(self, model: LocalRecursiveModel) -> None:
        sizes = torch.tensor(model.heads.sizes, device=model.H_init.device)
        self.model, self.sizes = model, sizes.view(len(model.heads.heads), -1)
        whole = model.config.vocab_size * self.sizes.prod(dim=1)
        self.starts = whole.cumsum(0) - whole
        self.numbers = whole.new_zeros(0)  # sorted
        self.states: Tensor | None = None

    def __call__(self, sights: Sights, tables: list[tuple[Tensor, ...]]) -> Tensor:
        """As `LocalRecursiveModel.think`."""
        head, token, codes = sights
        number = token * self.model.reads_token(sights)[:, 0]
        for way in range(codes.shape[1]):
            number = number * self.sizes[head, way] + codes[:, way]
        different, index = (number + self.starts[head]).unique(return_inverse=True)
        new = ~torch.isin(different, self.numbers)
        if new.any():
            one = index.new_zeros(len(different)).scatter_(
                0, index, torch.arange(len(index)).to(index)
            )
            found = self.model.think(Sights(*(part[one[new]] for part in sights)), tables)
            self.numbers, order = torch.cat((self.numbers, different[new])).sort()
            before = found[:0] if self.states is None else self.states
            self.states = torch.cat((before, found))[order]
        assert self.states is not None
        return self.states[torch.searchsorted(self.numbers, different)][index]


def all_right(log_probability: Tensor) -> Tensor:
    """The halt logit of "all cells are right" from the log of its probability, float32 [...]."""
    log = log_probability.clamp(max=-1e-7)
    return log - torch.log(-torch.expm1(log))


def _from_first(some: Tensor) -> Tensor:
    """From the first true one on, bool [B, N] to the same."""
    return some.byte().cummax(dim=1).values.bool()


def _shifted(values: Tensor, down: int, right: int) -> Tensor:
    """Of each cell what stands at an offset, [B, H, W, C]; 0 beyond the edge."""
    _, H, W, _ = values.shape
    around = F.pad(values, (0, 0, 1, 1, 1, 0))
    return around[:, 1 + down : 1 + down + H, 1 + right : 1 + right + W]


@dataclass
class InOrder:
    """Canvases that were worked out in the order of writing."""

    tokens: Tensor  # int64 [B, H, W], what was asked filled in
    halt_logits: Tensor  # float32 [B, H]: the cells of the row that were filled in are right
    known: Tensor  # bool [B], whether no cell saw a window that is not among the known ones
    state: Tensor | None  # [B, H * W, D], z_H of all cells; None: not wanted


@torch.no_grad()
def work_in_order(
    model: LocalRecursiveModel,
    tokens: Tensor,
    states: bool = False,
    windows: Tensor | None = None,
) -> InOrder:
    """Work canvases out, every cell once, after all that it depends on.

    All cells of a front are worked out together: of each row one, two columns behind the row above.
    Of what is handed on only the last four fronts are kept.

    Args:
        model: in evaluation mode.
        tokens: symbol ids, integers [B, H, W]; masked cells are filled in.
        states: whether those of all cells are wanted.
        windows: the known ones, numbered as `canvas.windows.LocalRule.numbers` has it, int64,
            sorted; None: all are.
    """
    page, tables = model.encode(tokens), model.message_tables()
    known = None if model.embed_heads is None else Known(model)
    filled = page.tokens.clone()
    B, H, W = filled.shape
    sure = torch.zeros(B, H, device=filled.device)
    known_all = torch.ones(B, dtype=torch.bool, device=filled.device)
    # By time modulo 4; what row r hands on is at r + 1.
    handed = filled.new_zeros(4, B, H + 1, 1 + len(model.fields))
    state = None
    if states:
        state = model.H_init.new_zeros(B, H, W, len(model.heads.heads) * model.config.hidden_size)
    rows = torch.arange(H, device=filled.device)
    used = page.inside.any(dim=0)  # [H, W]
    for time in range(W + 2 * (H - 1)):
        first, last = max(0, -(-(time - W + 1) // 2)), min(H - 1, time // 2)
        row = rows[first : last + 1]
        column = W - 1 - (time - 2 * row)
        now = handed[time % 4].zero_()
        row, column = (part[used[row, column]] for part in (row, column))
        if not len(row):
            continue
        here = page.inside[:, row, column]  # [B, A]
        around = torch.stack(
            [handed[(time + 2 * down - side) % 4][:, row + 1 + down] for down, side in model.steps],
            dim=2,
        )
        token = page.tokens[:, row, column]
        if windows is not None:
            number = model.window_numbers(token, around)
            at = torch.searchsorted(windows, number).clamp(max=len(windows) - 1)
            known_all &= ((windows[at] == number) | ~here).all(dim=1)
        cells = model.work(token.flatten(), around.flatten(0, 1), tables, known)
        asked = page.asked[:, row, column]
        now[:, row + 1] = cells.values.view(*here.shape, -1) * here.unsqueeze(-1)
        filled[:, row, column] = torch.where(asked, cells.symbol.view(here.shape), token)
        sure[:, row] += cells.log_right.view(here.shape) * asked
        if state is not None:
            found = cells.states.view(*here.shape, -1) * here.unsqueeze(-1)
            state[:, row, column] = found.to(state.dtype)
    state = None if state is None else state.flatten(1, 2)
    return InOrder(filled, all_right(sure), known_all, state)
