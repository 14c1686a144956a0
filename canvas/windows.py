"""Windows: all that a cell can see where it works from decided messages of its neighbours.

In a layout that is worked out in the order of writing (rows downwards, each from the right to the
left) a cell sees its own symbol and what three neighbours hand on: that on its right, that above,
and that above left. What is handed on is a few named classes, so that a *window* is one of finitely
many, however long the numbers are. A layout declares this as its `LocalRule`: which quantities are
handed where, what follows from a window, and which rows and columns a page has. From that follow

- the windows of any drawn page (`page_windows`), to train on;
- a set of windows that holds all of every page of any size (`closure`), to prove on.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from canvas import symbols
from canvas.hints import draw_hints
from canvas.layouts import Layout
from canvas.problems import Problems
from canvas.render import WorkedDrawing

END = -1  # in place of a column's successor: the page ends on its left
SYMBOL = "symbol"  # what a cell writes, beside the fields that it hands on
NEIGHBOURS = {"left": (0, 1), "down": (-1, 0), "down_right": (-1, -1)}  # who hands a cell what


class Windows(NamedTuple):
    """N windows: a cell's own symbol, and the code of each neighbour's message, int64 [N] each.

    A code is 0 where there is no such cell, else 1 + its fields as one number of mixed radix, as
    `LocalRule.code` has it.
    """

    token: np.ndarray
    right: np.ndarray  # handed to the left
    above: np.ndarray  # handed down
    above_left: np.ndarray  # handed down and to the right

    def take(self, index: np.ndarray) -> "Windows":
        """Some of them, by bool [N] or int64 indices."""
        return Windows(*(part[index] for part in self))


class Message(NamedTuple):
    """What N neighbours hand on, taken apart."""

    present: np.ndarray  # bool [N], whether there is such a cell
    fields: dict[str, np.ndarray]  # classes of each, int64 [N]; 0, none, where there is no cell

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None


class Column(NamedTuple):
    """A kind of column as it stands in a kind of row."""

    kind: str  # of the column, the same in all rows
    tokens: tuple[int, ...]  # that can stand there, `symbols.MASK` for a cell to be worked out
    left: tuple[int | str, ...]  # what can stand on its left: names of a row's columns, or `END`


class RowKind(NamedTuple):
    """A kind of row: its columns by name, from the right."""

    columns: Mapping[str, Column]
    first: tuple[str, ...]  # which of them can stand at the page's right edge
    below: tuple[str, ...]  # kinds of rows that can stand above; "" for the page's upper edge


class LocalRule(ABC):
    """What cells of a layout hand on, and what follows from it; see this module's docstring.

    Attributes:
        base: of the digits.
        left, down, down_right: the fields that a cell hands in each direction. Those handed left
            depend on its row, the others are all that rows below learn of it.
        rows: the kinds of rows that a page has, by name; more than pages show, never less.
    """

    left: tuple[str, ...]
    down: tuple[str, ...]
    down_right: tuple[str, ...] = ()
    rows: Mapping[str, RowKind]

    def __init__(self, base: int) -> None:
        self.base = base
        self.digits = tuple(symbols.DIGIT_IDS[:base].tolist())

    @abstractmethod
    def classes(self, field: str) -> int:
        """How many classes a field has, the first of which is none."""

    @abstractmethod
    def cell(
        self, token: np.ndarray, right: Message, above: Message, above_left: Message
    ) -> dict[str, np.ndarray]:
        """What follows from N windows: the id of the `SYMBOL` to write, and the class of each
        field, int64 [N].

        A function of the windows alone: of each, never of its place on a page.
        """

    @cached_property
    def fields(self) -> dict[str, int]:
        """All fields that are handed on, and how many classes each has."""
        names = dict.fromkeys((*self.left, *self.down, *self.down_right))
        return {name: self.classes(name) for name in names}

    @property
    def messages(self) -> dict[str, tuple[str, ...]]:
        """The fields that are handed in each direction, by the names of `NEIGHBOURS`."""
        return {name: getattr(self, name) for name in NEIGHBOURS}

    @property
    def message_classes(self) -> dict[str, dict[str, int]]:
        """`messages` with the classes of each field, as a model's config has them."""
        ways = self.messages.items()
        return {way: {name: self.fields[name] for name in names} for way, names in ways if names}

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """How many codes there are for what comes from the right, above, and above left."""
        ways = self.messages.values()
        right, above, corner = (1 + prod(map(self.fields.get, way)) if way else 1 for way in ways)  # type: ignore[arg-type]
        return right, above, corner

    def code(self, names: Sequence[str], values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Messages of these fields as numbers from 1 up, int64 as the classes; of no field 0."""
        if not names:
            return np.zeros(np.shape(next(iter(values.values()))), dtype=np.int64)
        number: np.ndarray = np.zeros((), dtype=np.int64)
        for name in names:
            number = number * self.fields[name] + np.asarray(values[name], dtype=np.int64)
        return np.asarray(1 + number)

    def message(self, names: Sequence[str], code: np.ndarray) -> Message:
        """What `code` made numbers of; 0 is an absent cell."""
        rest, found = np.maximum(np.asarray(code) - 1, 0), {}
        for name in reversed(names):
            rest, found[name] = np.divmod(rest, self.fields[name])
        return Message(np.asarray(code) > 0, found)

    def number(self, windows: Windows) -> np.ndarray:
        """Windows as one number each, int64 [N]; see `windows`."""
        number = windows.token.astype(np.int64)
        for part, size in zip(windows[1:], self.sizes, strict=True):
            number = number * size + part
        return number

    def windows(self, numbers: np.ndarray) -> Windows:
        """What `number` made numbers of."""
        rest, parts = numbers, []
        for size in reversed(self.sizes):
            rest, part = np.divmod(rest, size)
            parts.append(part)
        return Windows(rest, *reversed(parts))

    def apply(self, windows: Windows) -> dict[str, np.ndarray]:
        """`cell` of windows as they are coded."""
        seen = (
            self.message(self.messages[way], part)
            for way, part in zip(NEIGHBOURS, windows[1:], strict=True)
        )
        return self.cell(windows.token, *seen)

    def asks(self, windows: Windows) -> np.ndarray:
        """Whose symbol is to be written, rather than given: bool [N]."""
        return windows.token == symbols.MASK


@dataclass(frozen=True)
class PageWindows:
    """The windows of all cells of B pages, N together, as training takes them."""

    windows: Windows
    page: np.ndarray  # int64 [N], which page each is of
    row: np.ndarray  # int64 [N], and which of its canvas rows
    column: np.ndarray


def page_windows(
    rule: LocalRule,
    layout: Layout,
    problems: Problems,
    drawing: WorkedDrawing,
    known_rows: np.ndarray | None = None,
) -> PageWindows:
    """What every cell of worked pages sees, with the true messages.

    A page begins with its first row, ends with its last one, and is as wide as the canvas.

    Args:
        rule, layout, problems: those of the drawing.
        known_rows: ``int64 [B]``, how many of the rows to be worked out are shown as they are
            written, from the first one; their cells are seen by themselves alone. None: no row.
    """
    B, H, W = drawing.truth.shape
    row = np.arange(H) - drawing.top[:, None]
    inside = np.broadcast_to(((row >= 0) & (row < drawing.heights[:, None]))[..., None], (B, H, W))
    shown = drawing.first_step if known_rows is None else drawing.first_step + known_rows
    given = drawing.given | (row < shown[:, None])[..., None]
    tokens = np.where(given, drawing.truth, np.uint8(symbols.MASK))
    classes = draw_hints(layout, problems, drawing, None, rule.fields)
    seen = []
    for way, (down, right) in NEIGHBOURS.items():
        code = np.where(inside, rule.code(rule.messages[way], classes), 0)
        around = np.pad(code, ((0, 0), (1, 0), (1, 1)))
        seen.append(around[:, 1 + down : 1 + down + H, 1 + right : 1 + right + W][inside])
    return PageWindows(Windows(tokens[inside].astype(np.int64), *seen), *inside.nonzero())


def closure(rule: LocalRule) -> np.ndarray:
    """Windows that hold all of every page of any size, and are closed under the rule.

    Rows are worked out from the upper edge down, and each from its right edge to the left, until
    nothing new is found. Of a row above is kept, for each kind of row, what each kind of column can
    hand down, and which `_kept` classes of these can lie side by side: more than any page has.

    Returns:
        Their numbers, see `LocalRule.number`, int64, sorted.
    """
    found = _Closure(rule)
    while found.grow():
        pass
    return _distinct(np.concatenate(found.windows))


_EDGE = 0  # the class of no cell at all


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """Each once, sorted; many times quicker than `np.unique` of NumPy 2.3, which hashes."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


class _Closure:
    """What is known of rows so far.

    Attributes:
        handed: of each kind of row and of column the messages that can be handed down.
        pairs: of each kind of row who can lie side by side: kinds of two columns, that on the right
            first, each with the class of what it hands down.
    """

    def __init__(self, rule: LocalRule) -> None:
        self.rule = rule
        self.joint = tuple(dict.fromkeys((*rule.down, *rule.down_right)))
        self.handed: dict[tuple[str, str], np.ndarray] = {}
        self.pairs: dict[str, set[tuple[str, int, str, int]]] = {name: set() for name in rule.rows}
        self.windows: list[np.ndarray] = []
        self._worked_out: dict[tuple[str, str], object] = {}
        kinds = (column.kind for row in rule.rows.values() for column in row.columns.values())
        self._kinds = list(dict.fromkeys(kinds))
        self._messages = 1 + prod(rule.fields[name] for name in self.joint)
        self._classes = 1 + 3 ** len(self.joint)
        # A state: the message from the right, that from above, and what is on the right.
        self._beside = 1 + len(self._kinds) * self._classes

    def grow(self) -> bool:
        """Work every kind of row out below every other; whether there was anything new to do."""
        todo = [(name, above) for name, row in self.rule.rows.items() for above in row.below]
        known = [(one, self._known(one[1])) for one in todo]
        fresh = [(one, now) for one, now in known if self._worked_out.get(one) != now]
        for (name, above), now in fresh:
            self._row(name, above)
            self._worked_out[name, above] = now
        return bool(fresh)

    def _known(self, above: str) -> object:
        """How much is known of a kind of row."""
        sizes = [len(self._handed(above, kind)) for kind in self._kinds]
        return sizes, len(self.pairs.get(above, ()))

    def _handed(self, row: str, kind: str) -> np.ndarray:
        """What a column of a row can hand down; beyond the page's edges nothing."""
        if not row or not kind:
            return np.zeros(1, np.int64)
        return self.handed.get((row, kind), np.zeros(0, np.int64))

    def _kept(self, down: np.ndarray) -> np.ndarray:
        """What is remembered of messages: whether each field is none, its first class, another."""
        number = np.zeros_like(down)
        for field in self.rule.message(self.joint, down).fields.values():
            number = number * 3 + np.minimum(field, 2)
        return np.where(down > 0, 1 + number, _EDGE)

    def _row(self, name: str, above: str) -> None:
        """Work out one kind of row below another."""
        row = self.rule.rows[name]
        todo = {one: self._handed(above, row.columns[one].kind) * self._beside for one in row.first}
        seen = {one: np.zeros(0, np.int64) for one in row.columns}
        while todo:
            found: dict[str, list[np.ndarray]] = {}
            for one, states in todo.items():
                seen[one] = np.concatenate([seen[one], states])
                self._column(name, above, row.columns[one], states, found)
            fresh = {one: _distinct(np.concatenate(parts)) for one, parts in found.items()}
            fresh = {one: np.setdiff1d(states, seen[one]) for one, states in fresh.items()}
            todo = {one: states for one, states in fresh.items() if len(states)}

    def _column(
        self,
        name: str,
        above: str,
        column: Column,
        states: np.ndarray,
        found: dict[str, list[np.ndarray]],
    ) -> None:
        """Work out one column from all its states; adds those of columns on its left to ``found``.

        What lies above left has to go with what lies above.
        """
        rule, kind = self.rule, column.kind
        cells, of = np.unique(states // self._beside, return_inverse=True)
        right, over = np.divmod(cells, self._messages)
        beside = states % self._beside
        classes = self._kept(over)
        for target in column.left:
            there = "" if target == END else rule.rows[name].columns[str(target)].kind
            options = self._handed(above, there)
            option_class = self._kept(options)
            for c in np.unique(classes):
                next_to = [
                    q for k, p, j, q in self.pairs.get(above, ()) if (k, p, j) == (kind, c, there)
                ]
                some = options[np.isin(option_class, next_to)] if above else options
                here = np.flatnonzero(classes == c)
                which, corner = np.repeat(here, len(some)), np.tile(some, len(here))
                for token in column.tokens if len(which) else ():
                    seen = (self._seen(rule.down, over[which]), self._seen(rule.down_right, corner))
                    windows = Windows(np.full(len(which), token), right[which], *seen)
                    self.windows.append(rule.number(windows))
                    out = rule.apply(windows)
                    down = rule.code(self.joint, out)
                    known = np.zeros(self._messages, dtype=bool)
                    known[down] = known[self._handed(name, kind)] = True
                    self.handed[name, kind] = np.flatnonzero(known)
                    handed = self._kept(down)
                    for mine in np.flatnonzero(np.bincount(handed)).tolist():
                        says = np.zeros(len(cells), dtype=bool)
                        says[which[handed == mine]] = True
                        self._note(name, np.flatnonzero(np.bincount(beside[says[of]])), kind, mine)
                        if target == END:
                            self.pairs[name].add((kind, mine, "", _EDGE))
                    if target == END:
                        continue
                    after = 1 + self._kinds.index(kind) * self._classes + handed
                    state = rule.code(rule.left, out) * self._messages + corner
                    found.setdefault(str(target), []).append(
                        _distinct(state * self._beside + after)
                    )

    def _note(self, name: str, beside: np.ndarray, kind: str, mine: int) -> None:
        """Note what can lie on the right of a column that hands down a class."""
        for one in beside.tolist():
            if one:  # 0 is the page's right edge
                k, p = divmod(one - 1, self._classes)
                self.pairs[name].add((self._kinds[k], p, kind, mine))

    def _seen(self, names: tuple[str, ...], joint: np.ndarray) -> np.ndarray:
        """The code of what is handed in one direction, of all that is handed down."""
        if names == self.joint:
            return joint
        values = self.rule.message(self.joint, joint).fields
        return np.where(joint > 0, self.rule.code(names, values), 0)
