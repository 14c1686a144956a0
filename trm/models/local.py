"""A tiny recursive model of one cell, which sees its own symbol and decided messages of neighbours.

What a cell hands on is the likeliest class of a few named quantities, and nothing else. So what it
can ever see is a finite set (`canvas.windows`), on which a trained model can be proved right.

Inside a cell it is the model of Jolicoeur-Martineau 2025 (`trm.models.recursive`): z_L is updated
L_cycles times from z_L + z_H + input, then z_H once from z_H + z_L; H_cycles times, of which the
last has a gradient. In every update the cell attends to its neighbours' messages, which stand
still, so that cycles see no more of the page. At the end z_H is decided and handed on.

A page is worked out in the order of writing, every cell once (`work_in_order`).

From the top: what a cell computes, from embeddings to heads; how what it sees is coded; pages.
"""

from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.symbols import BLANK, MASK
from canvas.windows import NEIGHBOURS, OWN, SYMBOL, TOKEN, Head, Heads, read_name
from trm.models.attention import (
    Attention,
    Linear,
    PostNormBlock,
    SwiGLU,
    compute_dtype,
    truncated_normal_,
)
from trm.models.configs import LocalConfig
from trm.models.coordinates import span
from trm.models.iterative import Network, check_tokens

_MOST_KNOWN = 2**24  # sights that there can be at most for their answers to be remembered


# What N cells attend to: of each layer keys and values, [N, ways, 2 * D]; which there are, bool.
Around = tuple[list[Tensor], Tensor]


class Sights(NamedTuple):
    """What N heads see, apart."""

    head: Tensor  # int64 [N]
    token: Tensor  # int64 [N], symbol ids
    reads_token: Tensor  # bool [N, 1], whether they count
    places: Tensor  # int64 [N, ways], where what is read stands in `message_tables`
    present: Tensor  # bool [N, ways], whether there is something to read


class Decided(NamedTuple):
    """What N heads have decided, or all heads of N cells."""

    classes: Tensor  # int64 [N, outputs], of which those of a head count that it says
    log_right: Tensor  # float32 [N], log of the probability that all of it is right
    log_symbol: Tensor  # float32 [N], and that the symbol is, of all symbols


class LocalRecursiveModel(Network):
    """See this module's docstring.

    Attributes:
        outputs: what the heads say of a cell, and how many classes each has: its symbol, then every
            field.
        heads: the steps of a cell, and how what they read is coded.
    """

    config: LocalConfig
    H_init: Tensor
    L_init: Tensor
    _columns: Tensor  # int64 [heads, most that one reads], where that stands in what cells see
    _units: Tensor  # int64 [heads, most that one reads], how much it counts in a sight's number
    _starts: Tensor  # int64 [heads], the number of a head's first sight
    _sizes: Tensor  # int64 [heads, ways], how many codes a way has
    _tables: Tensor  # int64 [heads, ways], where a head's codes begin in `message_tables`
    _least: Tensor  # int64 [heads, ways], the least code by which there is something to read
    _token: Tensor  # bool [heads], which read the symbol

    def __init__(self, config: LocalConfig):
        super().__init__()
        self.config = config
        D = config.hidden_size
        handed = {name: n for way in config.messages.values() for name, n in way.items()}
        self.fields = handed | config.own
        self.outputs = {SYMBOL: config.vocab_size, **self.fields}
        ways = {way: tuple(config.messages.get(way, ())) for way in NEIGHBOURS}
        heads = [Head(tuple(one["says"]), tuple(one["reads"])) for one in config.heads]
        heads = heads or [Head(tuple(self.outputs))]
        self.heads = Heads(ways, self.fields, heads, config.vocab_size)
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
        if config.heads:
            self.embed_heads = nn.Embedding(len(heads), D)
            truncated_normal_(self.embed_heads.weight, 1 / self.scale)
        self._add_codes()

    def cells(self, numbers: Tensor, tables: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """What follows from sights.

        Args:
            numbers: of N sights, int64 [N], see `canvas.windows.Heads`.
            tables: `message_tables`, where many calls share them.

        Returns:
            Logits, [N, sum of C], see `parts`, of which those count that the head says; and halt
            logits, float32 [N], of "what it says is right".
        """
        tables, sights = tables or self.message_tables(), self.sights(numbers)
        keys_values = [table[sights.places] for table in tables]
        x = self.embed_tokens.weight * self.scale
        x = x.to(compute_dtype(x))[sights.token]  # [N, D]
        if self.embed_heads is not None:
            x = x * sights.reads_token
            x = x + (self.embed_heads.weight * self.scale).to(x.dtype)[sights.head]
        return self._heads_of(self.settle(x, (keys_values, sights.present)))

    def relaxed(self, tokens: Tensor, messages: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """As `cells`, of messages that are not decided, to learn what codes should mean.

        Of ``tokens`` int64 [N], probabilities of all classes of all fields, float [N, ways,
        classes], 0 for a field not handed on that way; and which neighbours there are, bool [N,
        ways].
        """
        vectors = messages @ (self.embed_messages.weight * self.message_scale)
        x = (self.embed_tokens.weight * self.scale)[tokens]
        keys_values = [mixing.keys_values(vectors) for _, mixing in self.blocks]
        return self._heads_of(self.settle(x, (keys_values, present)))

    def _heads_of(self, z_H: Tensor) -> tuple[Tensor, Tensor]:
        return self.lm_head(z_H), self.halt_head(z_H)[:, 0].float()

    def settle(self, x: Tensor, around: Around) -> Tensor:
        """The state z_H at the end of all cycles, of the input; [N, D] each."""
        z_H, z_L = (init.to(x.dtype).expand_as(x) for init in (self.H_init, self.L_init))
        for left in reversed(range(self.config.H_cycles)):
            with torch.set_grad_enabled(left == 0 and torch.is_grad_enabled()):
                for _ in range(self.config.L_cycles):
                    z_L = self.network(z_L + z_H + x, around)
                z_H = self.network(z_H + z_L, around)
        return z_H

    def network(self, x: Tensor, around: Around) -> Tensor:
        """All layers, once: [N, D] to the same."""
        heads = self.config.num_heads
        bias = (self.position["direction"] * self.scale).to(x.dtype).T  # [ways, heads]
        present = around[1].unsqueeze(-1)
        alone = ~present.any(dim=1)  # [N, 1]
        for (layer, mixing), keys_values in zip(self.blocks, around[0], strict=True):
            k, v = keys_values.unflatten(-1, (2, heads, -1)).unbind(2)  # [N, ways, heads, D/heads]
            q = mixing.queries(x).unflatten(-1, (1, heads, -1)) * k.shape[-1] ** -0.5
            scores = ((q * k).sum(-1) + bias).masked_fill(~present, -torch.inf)
            scores = scores.masked_fill(alone.unsqueeze(1), 0)
            exact = torch.promote_types(v.dtype, torch.float32)
            weights = torch.softmax(scores, dim=1, dtype=exact).to(v.dtype)
            mixed = (weights.unsqueeze(-1) * v).sum(1).flatten(1).masked_fill(alone, 0)
            x = layer.after(x, mixing.out(mixed))
        return x

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

    def message_tables(self) -> list[Tensor]:
        """Keys and values of all that can be read, for each layer [codes, 2 * D].

        A row for every code of each head (`canvas.windows.Heads`), way after way, in each head
        after head.
        """
        dtype = compute_dtype(self.embed_messages.weight)
        vectors = [part.to(dtype) for part in self.message_vectors(self.embed_messages.weight)]
        return [torch.cat([mixing.keys_values(v) for v in vectors]) for _, mixing in self.blocks]

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

    def message_vectors(self, embed: Tensor) -> list[Tensor]:
        """The sum of the embeddings of all fields that are read, for each way [codes, D]."""
        heads, embed, start = self.heads, embed * self.message_scale, self.class_starts
        vectors = []
        for way in range(len(heads.ways)):
            of_heads = []
            for head in range(len(heads.heads)):
                size = heads.sizes[head][way]
                total = embed.new_zeros(size, embed.shape[1])
                for name, value in heads.fields(head, way, np.arange(size)).items():
                    if name or heads.heads[head].reads is not None:
                        total = total + embed[torch.from_numpy(start[name] + value)]
                of_heads.append(total)
            vectors.append(torch.cat(of_heads))
        return vectors

    def _add_codes(self) -> None:
        """What says how sights are numbered, and where codes begin in `message_tables`."""
        heads, count = self.heads, len(self.heads.heads)
        names = (read_name(way, name) for way in heads.ways for name in ("", *self.fields))
        at = {name: i for i, name in enumerate((TOKEN, *names))}
        units = [{at[n]: unit for n, unit in heads.units(head).items()} for head in range(count)]
        most = max(map(len, units))
        sizes = torch.tensor(heads.sizes).view(len(units), -1)
        before = sizes.T.flatten().cumsum(0) - sizes.T.flatten()  # codes, way after way
        reads = zip(heads.heads, heads.reads, strict=True)  # who reads all has code 0 for no cell
        least = [[int(not names or head.reads is None) for names in of] for head, of in reads]
        parts = {
            "columns": torch.tensor([[*of, *[0] * (most - len(of))] for of in units]),
            "units": torch.tensor([[*of.values(), *[0] * (most - len(of))] for of in units]),
            "starts": torch.tensor(heads.starts[:-1]),
            "sizes": sizes,
            "tables": before.view(-1, len(units)).T,
            "least": torch.tensor(least).view(len(units), -1),
            "token": torch.tensor([0 in of for of in units]),
        }
        for name, part in parts.items():
            self.register_buffer(f"_{name}", part, persistent=False)

    def numbers(self, level: list[int], seen: Tensor) -> Tensor:
        """The sights of some heads, int64 [heads * N], of what N cells see, as `work` has it."""
        read = seen[:, self._columns[level]] * self._units[level]  # [N, heads, most that one reads]
        return (read.sum(-1) + self._starts[level]).T.flatten()

    def sights(self, numbers: Tensor) -> Sights:
        """What `numbers` made numbers of."""
        head = torch.bucketize(numbers, self._starts, right=True) - 1
        rest, found = numbers - self._starts[head], []
        for size in reversed(self._sizes[head].unbind(1)):
            found.append(rest % size)
            rest = rest // size
        codes = torch.stack(found[::-1], dim=1)
        places, present = codes + self._tables[head], codes >= self._least[head]
        return Sights(head, rest, self._token[head, None], places, present)

    def work(self, tokens: Tensor, around: Tensor, known: "Known") -> Decided:
        """What N cells decide, head after head.

        Args:
            tokens: int64 [N].
            around: of the neighbours, int64 [N, ways, 1 + fields], 1 for there being such a cell,
                then classes; 0: no such cell.
            known: answers sights.
        """
        place = {name: i for i, name in enumerate(self.outputs)}
        own = around.new_zeros(len(tokens), len(place))
        seen = torch.cat((tokens[:, None], around.flatten(1), own), dim=1)
        classes = seen[:, -len(place) :]  # in place, where the next heads read them
        log_right = log_symbol = torch.zeros_like(tokens, dtype=torch.float32)
        for level in self.heads.levels:
            answers = known(self.numbers(level, seen))
            log_right = log_right + answers.log_right.view(len(level), -1).sum(dim=0)
            each = (answers.classes.chunk(len(level)), answers.log_symbol.chunk(len(level)))
            for head, chosen, of_symbol in zip(level, *each, strict=True):
                says = [place[name] for name in self.heads.heads[head].says]
                classes[:, says] = chosen[:, says]
                log_symbol = of_symbol if place[SYMBOL] in says else log_symbol
        return Decided(classes, log_right, log_symbol)


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
            self.index[new] = torch.arange(len(new)).to(new) + before
            self.found = Decided(*map(torch.cat, zip(*parts, strict=True)))
        index = self.index[numbers]
        assert self.found is not None
        return Decided(*(part[index] for part in self.found))

    def _answers(self, numbers: Tensor) -> Decided:
        """The same, all of them worked out."""
        outputs, halt_logits = self.model.cells(numbers, self.tables)
        parts = self.model.parts(outputs)
        classes = torch.stack([logits.argmax(dim=-1) for logits in parts.values()], dim=1)
        log_symbol = parts[SYMBOL].float().log_softmax(dim=-1).amax(dim=-1)
        return Decided(classes, F.logsigmoid(halt_logits), log_symbol)


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
    inside = span(rows).unsqueeze(2) & span(used.any(dim=1)).unsqueeze(1)
    filled, log_symbol = tokens.clone(), torch.zeros(B, H, W, device=tokens.device)
    sure = log_symbol[..., 0].clone()
    handed = tokens.new_zeros(B, H + 1, W + 2, 1 + len(model.fields), dtype=torch.int16)
    steps = [NEIGHBOURS[way] for way in model.heads.ways if way != OWN]
    cells = inside.nonzero()
    front = 2 * cells[:, 1] - cells[:, 2] + W
    cells = cells[front.argsort(stable=True)]
    for page, row, column in (part.unbind(1) for part in cells.split(front.bincount().tolist())):
        if not len(page):
            continue
        around = [handed[page, row + 1 + down, column + 1 + right] for down, right in steps]
        token, asks = tokens[page, row, column].long(), asked[page, row, column]
        seen = torch.stack(around, dim=1).long()  # [N, ways, 1 + fields]
        found = model.work(token, seen, known)
        classes = found.classes
        filled[page, row, column] = torch.where(asks, classes[:, 0], token).to(tokens.dtype)
        log_symbol[page, row, column] = found.log_symbol * asks
        sure[page, row] += found.log_right * asks
        classes[:, 0] = 1
        handed[page, row + 1, column + 1] = classes.to(handed.dtype)
    return InOrder(filled, all_right(sure), log_symbol, handed)


def all_right(log_probability: Tensor) -> Tensor:
    """The halt logit of "all cells are right" from the log of its probability, float32 [...]."""
    log = log_probability.clamp(max=-1e-7)
    return log - torch.log(-torch.expm1(log))
