"""Windows: all that a cell can see where it works from decided messages of its neighbours.

In a layout that is worked out in the order of writing (rows downwards, each from the right to the
left) a cell sees its own symbol and what up to four neighbours hand on: that on its right, that
above, and those above left and above right. What is handed on is a few named classes, so that a
*window* is one of finitely many, however long the numbers are. A layout declares this as its
`LocalRule`: which quantities are handed where, what follows from a window, and which rows and
columns a page has. From that follow

- the windows of any drawn page (`canvas.pages`), to train on;
- a set of windows that holds all of every page of any size (`canvas.closure`), to prove on.

A cell can work in steps. Each is a *head*: it reads some of the quantities, by name, among them
what heads before it have decided, and says others. What one head reads is a *sight*. A rule with
one head, which reads all, has a sight for each window; one of many heads has few sights, and all of
them occur on small pages.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from canvas import symbols
from canvas.render import WorkedDrawing

END = ""  # in place of a column on the left: the page ends there
MOST_CODES = 62  # of a field that is not told: each has a letter of its own
SYMBOL = "symbol"  # what a cell writes, beside the fields that it hands on
TOKEN = "token"  # the symbol that stands in a cell, or the mask
OWN = "own"  # what a cell has decided itself, in place of a neighbour
NEIGHBOURS = {  # who hands a cell what, as rows down and columns right
    "left": (0, 1), "down": (-1, 0), "down_right": (-1, -1), "down_left": (-1, 1),
}  # fmt: skip
SEES = {  # what a cell calls it
    "left": "right", "down": "above", "down_right": "above_left", "down_left": "above_right",
    OWN: OWN,
}  # fmt: skip


class Head(NamedTuple):
    """A step of a cell: what it decides, of what it reads.

    `TOKEN`; whether there is a neighbour, by the names of `SEES`; or a field that one hands on, or
    the cell itself has decided, like ``right.carry`` and ``own.product``. None: all but the last.
    """

    says: tuple[str, ...]
    reads: tuple[str, ...] | None = None


class Heads:
    """How what each head reads is one number: a *sight*.

    A number is of mixed radix: the symbol, 0 if it is not read, then a code for each way. A code is
    the fields that are read, of mixed radix again; where there is no such cell all are none. Of a
    head that reads all, a code is 0 where there is no such cell, else 1 + that.
    """

    def __init__(
        self,
        messages: Mapping[str, Sequence[str]],
        classes: Mapping[str, int],
        heads: Sequence[Head],
        ids: int,
    ) -> None:
        self.heads, self.classes, self.ids = list(heads), dict(classes), ids
        own = tuple(dict.fromkeys(name for head in heads for name in _own(head)))
        # The fields that are handed in each way that there is.
        self.ways = {way: tuple(messages[way]) for way in NEIGHBOURS if messages.get(way)}
        if own:
            self.ways[OWN] = own
        # For each head and way the fields, "" for whether there is such a cell; and how many codes.
        self.reads = [[self._fields(head, way) for way in self.ways] for head in heads]
        self.sizes = [
            [prod(self._size(name) for name in names) + (head.reads is None) for names in of]
            for head, of in zip(heads, self.reads, strict=True)
        ]
        # The first sight of each head, and of what would come next.
        self.starts = [0, *accumulate(ids * prod(sizes) for sizes in self.sizes)]
        self.levels: list[list[int]] = []  # numbers of the heads that can decide at once
        known, left = set[str](), dict(enumerate(heads))
        while left:
            level = [i for i, head in left.items() if known.issuperset(_own(head))]
            if not level:
                raise ValueError("heads read what none before them decides")
            self.levels.append(level)
            known.update(name for i in level for name in left.pop(i).says)

    def _fields(self, head: Head, way: str) -> tuple[str, ...]:
        if head.reads is None:
            return self.ways[way] if way != OWN else ()
        who = SEES[way]
        names = ("",) if who in head.reads else ()
        return (*names, *(n for n in self.ways[way] if f"{who}.{n}" in head.reads))

    def _size(self, name: str) -> int:
        return self.classes[name] if name else 2

    def units(self, head: int) -> dict[str, int]:
        """How much each thing that a head reads counts in the number of its sight, by its name."""
        found, unit, whole = {}, 1, self.heads[head].reads is None
        parts = zip(self.ways, self.reads[head], self.sizes[head], strict=True)
        for way, names, size in reversed(list(parts)):
            count = unit
            for name in reversed(names):
                found[read_name(way, name)] = count
                count *= self._size(name)
            if whole and names:
                found[read_name(way, "")] = unit
            unit *= size
        if whole or TOKEN in (self.heads[head].reads or ()):
            found[TOKEN] = unit
        return found

    def fields(self, number: int, way: int, code: np.ndarray) -> dict[str, np.ndarray]:
        """The fields of a head's codes, the last one first; "" for whether there is a cell."""
        names, found = self.reads[number][way], {}
        if self.heads[number].reads is None and names:
            found[""] = (code > 0) * 1
            code = code - found[""]
        parts = np.unravel_index(code, [self._size(name) for name in names]) if names else ()
        return found | dict(zip(names[::-1], parts[::-1], strict=True))

    def numbers(self, head: int, seen: Mapping[str, np.ndarray]) -> np.ndarray:
        """The sights of a head, int64 [N], of what N cells see, see `LocalRule.apply`."""
        number = np.full(len(next(iter(seen.values()))), self.starts[head])
        for name, unit in self.units(head).items():
            number += seen[name] * unit
        return number

    def shown(self, numbers: np.ndarray) -> Iterator[tuple[Head, np.ndarray, "Seen"]]:
        """What sights show: of each head which ones of N are its, int64, and what it reads."""
        of = np.searchsorted(self.starts, numbers, side="right") - 1
        for number, head in enumerate(self.heads):
            here = np.flatnonzero(of == number)
            code = numbers[here] - self.starts[number]
            token, *codes = np.unravel_index(code, (self.ids, *self.sizes[number]))
            seen = Seen({TOKEN: token} if TOKEN in self.units(number) else {})
            for i, way in enumerate(self.ways):
                fields = self.fields(number, i, codes[i])
                seen |= {read_name(way, name): part for name, part in fields.items()}
            yield head, here, seen


def _own(head: Head) -> list[str]:
    """The fields that a head reads of those that the cell itself has decided."""
    return [name[4:] for name in head.reads or () if name.startswith("own.")]


def read_name(way: str, field: str) -> str:
    """The name by which heads read a field that is handed on this way; "": whether one is there."""
    return f"{SEES[way]}.{field}" if field else SEES[way]


class Seen(dict[str, np.ndarray]):
    """What a head sees of N cells, int64 [N] each, by the names by which a `Head` reads."""

    def __missing__(self, name: str) -> np.ndarray:
        raise KeyError(f"a head looks at {name} unasked")


class Column(NamedTuple):
    """A kind of column as it stands in a kind of row."""

    kind: str  # of the column, the same in all rows
    tokens: tuple[int, ...]  # that can stand there, `symbols.MASK` for a cell to be worked out
    left: tuple[str, ...]  # what can stand on its left: names of a row's columns, or `END`


class RowKind(NamedTuple):
    """A kind of row: its columns by name, from the right."""

    columns: Mapping[str, Column]
    first: tuple[str, ...]  # which of them can stand at the page's right edge
    below: tuple[str, ...]  # kinds of rows that can stand above; "" for the page's upper edge


class LocalRule(ABC):
    """What cells of a layout hand on, and what follows from it; see this module's docstring."""

    # The fields that a cell hands in each direction. Those handed left depend on its row, the
    # others are all that rows below learn of it.
    left: tuple[str, ...]
    down: tuple[str, ...]
    down_right: tuple[str, ...] = ()
    down_left: tuple[str, ...] = ()
    steps: tuple[Head, ...] = ()  # the heads, in order; none: one that reads all
    besides: tuple[str, ...] = ()  # what no cell decides, but probes can look for
    # Whether `canvas.closure` keeps together what comes from the right and what stands above, class
    # by class; else, where nothing follows from both, what `kept` keeps.
    kept_together = True
    most_operands: int | None = None  # of a page; None: any number
    rows: Mapping[str, RowKind]  # the kinds that a page has; more than pages show, never less

    def __init__(self, base: int) -> None:
        self.base = base  # of the digits
        self.codes: dict[str, int] = {}  # of fields that networks are not told, see `with_codes`
        self.digits = tuple(symbols.DIGIT_IDS[:base].tolist())

    def with_codes(self, codes: Mapping[str, int]) -> Self:
        """The same rule for a network that is not told some fields, and hands on codes instead.

        How many there are of each such field; what they mean is the network's affair: the classes
        that `cell` gives count for nothing. ValueError: no such field, or cells work in steps.
        """
        if unknown := sorted(set(codes) - set(self.fields)):
            raise ValueError(
                f"codes name {', '.join(unknown)}, and cells hand on {', '.join(self.fields)}"
            )
        if codes and self.steps:
            raise ValueError("codes are for cells that read all at once, and these work in steps")
        if some := [name for name, number in codes.items() if not 2 <= number <= MOST_CODES]:
            raise ValueError(f"{some[0]} has 2 to {MOST_CODES} codes, not {codes[some[0]]}")
        rule = type(self)(self.base)
        rule.codes = dict(codes)
        return rule

    @abstractmethod
    def classes(self, field: str) -> int:
        """How many classes a field has, the first of which is none."""

    @abstractmethod
    def cell(self, says: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        """What follows from N sights of the head that says something: int64 [N] each.

        The id of the `SYMBOL` to write, and the class of each field. A function of the sights
        alone: of each, never of its place on a page.
        """

    def kept(self, field: str, classes: np.ndarray) -> np.ndarray:
        """What `canvas.closure` remembers of neighbouring columns: of `classes`, a few numbers.

        That a field is none, its first class, or another.
        """
        return np.minimum(classes, 2)

    def draw_besides(self, drawing: WorkedDrawing) -> dict[str, np.ndarray]:
        """The classes of `besides`, as `draw_fields` has them."""
        return {}

    @cached_property
    def fields(self) -> dict[str, int]:
        """All fields, and how many classes each has: those that are handed on, then the others."""
        handed = (name for way in self.messages.values() for name in way)
        decided = (name for head in self.steps for name in head.says if name != SYMBOL)
        names = dict.fromkeys((*handed, *decided))
        return {name: self.codes.get(name) or self.classes(name) for name in names}

    @property
    def messages(self) -> dict[str, tuple[str, ...]]:
        """The fields that are handed in each direction, by the names of `NEIGHBOURS`."""
        return {name: getattr(self, name) for name in NEIGHBOURS}

    @cached_property
    def heads(self) -> Heads:
        """The heads, and how what they see is numbered."""
        return self._heads(self.steps) if self.steps else self.whole

    @cached_property
    def whole(self) -> Heads:
        """A single head that reads all: its sights are windows."""
        return self._heads((Head((SYMBOL, *self.fields)),))

    def _heads(self, heads: Sequence[Head]) -> Heads:
        return Heads(self.messages, self.fields, heads, symbols.vocab_size(self.base))

    @property
    def network(self) -> dict[str, Any]:
        """What a model's config has to say of it."""
        ways = {way: {n: self.fields[n] for n in names} for way, names in self.messages.items()}
        found: dict[str, Any] = {"messages": {way: names for way, names in ways.items() if names}}
        if self.steps:
            found["heads"] = [
                {"says": list(head.says), "reads": list(head.reads or ())} for head in self.steps
            ]
            handed = {name for names in self.messages.values() for name in names}
            found["own"] = {n: size for n, size in self.fields.items() if n not in handed}
        return found

    def code(self, names: Sequence[str], values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Messages of these fields as numbers from 1 up, int64 as the classes; of no field 0."""
        if not names:
            return np.zeros(np.shape(next(iter(values.values()))), dtype=np.int64)
        sizes = [self.fields[name] for name in names]
        return 1 + np.ravel_multi_index([values[name] for name in names], sizes)

    def message(self, names: Sequence[str], code: np.ndarray) -> dict[str, np.ndarray]:
        """What `code` made numbers of, "" for whether there is such a cell."""
        there = (code > 0).astype(np.int64)
        sizes = [self.fields[name] for name in names]
        parts = np.unravel_index(code - there, sizes) if names else ()
        return {"": there, **dict(zip(names, parts, strict=True))}

    def windows(self, numbers: np.ndarray) -> Seen:
        """What windows show, of their numbers as sights of `whole`."""
        ((_, _, seen),) = self.whole.shown(numbers)
        return seen

    def around(
        self, handed: np.ndarray, page: np.ndarray, row: np.ndarray, column: np.ndarray
    ) -> dict[str, np.ndarray]:
        """What N cells see of their neighbours, int64 [N] by the names by which heads read.

        ``handed [B, H + 1, W + 2, 1 + fields]`` is what all cells hand on, first 1 for there being
        such a cell; around the cells is a margin of 0, above and on both sides.
        """
        place = {name: i for i, name in enumerate(("", *self.fields))}
        found: dict[str, np.ndarray] = {}
        for way, names in self.whole.ways.items():
            down, right = NEIGHBOURS[way]
            there = handed[page, row + 1 + down, column + 1 + right].astype(np.int64, copy=False)
            found |= {read_name(way, name): there[:, place[name]] for name in ("", *names)}
        return found

    def apply(self, windows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All that follows from windows, head after head: int64 [N] by output.

        Of windows what they show, int64 [N] each, by the names by which heads read.
        """
        found: dict[str, np.ndarray] = {}
        seen = Seen(windows)
        for says, reads in self.heads.heads:
            said = self.cell(says, seen if reads is None else Seen({n: seen[n] for n in reads}))
            found |= said
            seen |= {read_name(OWN, name): part for name, part in said.items()}
        return found

    def seen(
        self, windows: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The sights of windows, as numbers, and of which window each is: int64 [M] each.

        Where a symbol is given nothing is asked of a head that says the symbol alone.
        """
        seen = {**windows, **{read_name(OWN, name): part for name, part in outputs.items()}}
        everywhere = np.arange(len(windows[TOKEN]))
        asked = np.flatnonzero(windows[TOKEN] == symbols.MASK)
        of = [asked if head.says == (SYMBOL,) else everywhere for head in self.heads.heads]
        numbers = [self.heads.numbers(head, seen)[here] for head, here in enumerate(of)]
        return np.concatenate(numbers), np.concatenate(of)

    def answers(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """What follows from sights: int64 [N] by output, −1 where a head does not say it.

        The symbol's is −1 where it is given, too.
        """
        found = {name: np.full(len(numbers), -1) for name in (SYMBOL, *self.fields)}
        for head, here, seen in self.heads.shown(numbers):
            said = self.cell(head.says, seen)
            for name in head.says:
                found[name][here] = said[name]
            if head.reads is None:
                found[SYMBOL][here[seen[TOKEN] != symbols.MASK]] = -1
        return found
