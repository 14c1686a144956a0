"""Cell inputs: all that a cell reads, its own symbol and the decided messages of its neighbours.

In a layout that is worked out in the order of writing (rows downwards, each from the right to the
left) a cell reads its own symbol and the messages of up to four neighbours: the one on its right,
the one above, and those above left and above right. A message is a few named classes, so that a
*cell input* is one of finitely many, however long the numbers are. A layout declares this as its
`LocalRule`: which signals are handed where, what follows from a cell input, and which rows and
columns a page has. From that follow

- the cell inputs of any drawn page (`canvas.pages`), to train on;
- a set of cell inputs that holds all of every page of any size (`canvas.reachable`), to prove on.

A cell can work in steps. Each is an *op*: it reads some of the signals, by name, among them
what ops before it have decided, and says others. What one op reads is an *op input*. A rule with
one op, which reads all, has an op input for each cell input; one of many ops has few op inputs, and
all of them occur on small pages.
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
MOST_CODES = 62  # of a signal that is not told: each has a letter of its own
SYMBOL = "symbol"  # the output that a cell writes, beside its signals
TOKEN = "token"  # the symbol that stands in a cell, or the mask
OWN = "own"  # what a cell has decided itself, in place of a neighbour
NEIGHBOURS = {  # who hands a cell what, as rows down and columns right
    "left": (0, 1), "down": (-1, 0), "down_right": (-1, -1), "down_left": (-1, 1),
}  # fmt: skip
SEES = {  # what a cell calls it
    "left": "right", "down": "above", "down_right": "above_left", "down_left": "above_right",
    OWN: OWN,
}  # fmt: skip


class Op(NamedTuple):
    """A step of a cell: what it decides, of what it reads.

    `TOKEN`; whether there is a neighbour, by the names of `SEES`; or a signal that one hands on, or
    the cell itself has decided, like ``right.carry`` and ``own.product``. None: all but the last.
    """

    outputs: tuple[str, ...]
    inputs: tuple[str, ...] | None = None


class OpEncoding:
    """Codec of op inputs: all that an op reads as one number.

    A number is of mixed radix: the symbol, 0 if it is not read, then a code for each way. A code is
    the signals that are read, of mixed radix again; where there is no such cell all are none. Of an
    op that reads all, a code is 0 where there is no such cell, else 1 + that.
    """

    def __init__(
        self,
        messages: Mapping[str, Sequence[str]],
        classes: Mapping[str, int],
        ops: Sequence[Op],
        ids: int,
    ) -> None:
        self.ops, self.classes, self.ids = list(ops), dict(classes), ids
        own = tuple(dict.fromkeys(name for op in ops for name in _own(op)))
        # The signals that are handed in each way that there is.
        self.directions = {
            direction: tuple(messages[direction])
            for direction in NEIGHBOURS
            if messages.get(direction)
        }
        if own:
            self.directions[OWN] = own
        # For each op and way the signals, "" for whether there is such a cell; and how many codes.
        self.inputs = [
            [self._signals(op, direction) for direction in self.directions] for op in ops
        ]
        self.sizes = [
            [prod(self._size(name) for name in names) + (op.inputs is None) for names in of]
            for op, of in zip(ops, self.inputs, strict=True)
        ]
        # The first op input of each op, and of what would come next.
        self.starts = [0, *accumulate(ids * prod(sizes) for sizes in self.sizes)]
        self.levels: list[list[int]] = []  # numbers of the ops that can decide at once
        known, left = set[str](), dict(enumerate(ops))
        while left:
            level = [i for i, op in left.items() if known.issuperset(_own(op))]
            if not level:
                raise ValueError("ops read what none before them decides")
            self.levels.append(level)
            known.update(name for i in level for name in left.pop(i).outputs)

    def _signals(self, op: Op, direction: str) -> tuple[str, ...]:
        if op.inputs is None:
            return self.directions[direction] if direction != OWN else ()
        who = SEES[direction]
        names = ("",) if who in op.inputs else ()
        return (*names, *(n for n in self.directions[direction] if f"{who}.{n}" in op.inputs))

    def _size(self, name: str) -> int:
        return self.classes[name] if name else 2

    def units(self, op: int) -> dict[str, int]:
        """Weight of each thing that an op reads in the number of its op input, by its
        name."""
        found, unit, whole = {}, 1, self.ops[op].inputs is None
        parts = zip(self.directions, self.inputs[op], self.sizes[op], strict=True)
        for direction, names, size in reversed(list(parts)):
            count = unit
            for name in reversed(names):
                found[input_name(direction, name)] = count
                count *= self._size(name)
            if whole and names:
                found[input_name(direction, "")] = unit
            unit *= size
        if whole or TOKEN in (self.ops[op].inputs or ()):
            found[TOKEN] = unit
        return found

    def signals(self, number: int, direction: int, message_id: np.ndarray) -> dict[str, np.ndarray]:
        """The signals of an op's codes, the last one first; "" for whether there is a cell."""
        names, found = self.inputs[number][direction], {}
        if self.ops[number].inputs is None and names:
            found[""] = (message_id > 0) * 1
            message_id = message_id - found[""]
        parts = np.unravel_index(message_id, [self._size(name) for name in names]) if names else ()
        return found | dict(zip(names[::-1], parts[::-1], strict=True))

    def numbers(self, op: int, seen: Mapping[str, np.ndarray]) -> np.ndarray:
        """The op inputs of an op, int64 [N], of what N cells see, see `LocalRule.apply`."""
        number = np.full(len(next(iter(seen.values()))), self.starts[op])
        for name, unit in self.units(op).items():
            number += seen[name] * unit
        return number

    def shown(self, numbers: np.ndarray) -> Iterator[tuple[Op, np.ndarray, "Seen"]]:
        """Decode N op inputs: for each op which ones are its, int64, and what it reads."""
        of = np.searchsorted(self.starts, numbers, side="right") - 1
        for number, op in enumerate(self.ops):
            here = np.flatnonzero(of == number)
            message_id = numbers[here] - self.starts[number]
            token, *ids = np.unravel_index(message_id, (self.ids, *self.sizes[number]))
            seen = Seen({TOKEN: token} if TOKEN in self.units(number) else {})
            for i, direction in enumerate(self.directions):
                signals = self.signals(number, i, ids[i])
                seen |= {input_name(direction, name): part for name, part in signals.items()}
            yield op, here, seen


def _own(op: Op) -> list[str]:
    """The signals that an op reads of those that the cell itself has decided."""
    return [name[4:] for name in op.inputs or () if name.startswith("own.")]


def input_name(direction: str, signal: str) -> str:
    """The name by which ops read a signal that is handed on this way; "": whether one is there."""
    return f"{SEES[direction]}.{signal}" if signal else SEES[direction]


class Seen(dict[str, np.ndarray]):
    """Inputs of an op in N cells, int64 [N] each, by the names by which an `Op` reads."""

    def __missing__(self, name: str) -> np.ndarray:
        raise KeyError(f"an op looks at {name} unasked")


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
    """Messages of the cells of a layout, and the function of a cell; see this module."""

    # The signals that a cell hands in each direction. Those handed left depend on its row, the
    # others are all that rows below learn of it.
    left: tuple[str, ...]
    down: tuple[str, ...]
    down_right: tuple[str, ...] = ()
    down_left: tuple[str, ...] = ()
    ops: tuple[Op, ...] = ()  # the ops, in order; none: one that reads all
    probe_targets: tuple[str, ...] = ()  # what no cell decides, but probes can look for
    # Whether `canvas.reachable` keeps together what comes from the right and what stands above,
    # class by class; else, where nothing follows from both, what `kept` keeps.
    kept_together = True
    most_operands: int | None = None  # of a page; None: any number
    rows: Mapping[str, RowKind]  # the kinds that a page has; more than pages show, never less

    def __init__(self, base: int) -> None:
        self.base = base  # of the digits
        self.codes: dict[str, int] = {}  # of signals that networks are not told, see `with_codes`
        self.digits = tuple(symbols.DIGIT_IDS[:base].tolist())

    def with_codes(self, codes: Mapping[str, int]) -> Self:
        """Return the same rule for a network without hints for some signals: they are latent codes.

        How many there are of each such signal; what they mean is the network's affair: the classes
        that `cell` gives count for nothing. ValueError: no such signal, or cells work in steps.
        """
        if unknown := sorted(set(codes) - set(self.signals)):
            raise ValueError(
                f"codes name {', '.join(unknown)}, and cells hand on {', '.join(self.signals)}"
            )
        if codes and self.ops:
            raise ValueError("codes are for cells that read all at once, and these work in steps")
        if some := [name for name, number in codes.items() if not 2 <= number <= MOST_CODES]:
            raise ValueError(f"{some[0]} has 2 to {MOST_CODES} codes, not {codes[some[0]]}")
        rule = type(self)(self.base)
        rule.codes = dict(codes)
        return rule

    @abstractmethod
    def classes(self, signal: str) -> int:
        """Number of classes of a signal, the first of which is none."""

    @abstractmethod
    def cell(self, outputs: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        """Compute the outputs of an op from N op inputs: int64 [N] each.

        The id of the `SYMBOL` to write, and the class of each signal. A function of the op inputs
        alone: of each, never of its place on a page.
        """

    def kept(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Reduce `classes` to the few numbers that `canvas.reachable` keeps of a neighbour.

        That a signal is none, its first class, or another.
        """
        return np.minimum(classes, 2)

    def draw_probe_targets(self, drawing: WorkedDrawing) -> dict[str, np.ndarray]:
        """The classes of `probe_targets`, as `draw_signals` has them."""
        return {}

    @cached_property
    def signals(self) -> dict[str, int]:
        """All signals, and how many classes each has: those in messages, then the others."""
        handed = (name for direction in self.messages.values() for name in direction)
        decided = (name for op in self.ops for name in op.outputs if name != SYMBOL)
        names = dict.fromkeys((*handed, *decided))
        return {name: self.codes.get(name) or self.classes(name) for name in names}

    @property
    def messages(self) -> dict[str, tuple[str, ...]]:
        """The signals that are handed in each direction, by the names of `NEIGHBOURS`."""
        return {name: getattr(self, name) for name in NEIGHBOURS}

    @cached_property
    def encoding(self) -> OpEncoding:
        """The ops, and how what they see is numbered."""
        return self._encode(self.ops) if self.ops else self.whole

    @cached_property
    def whole(self) -> OpEncoding:
        """A single op that reads all: its op inputs are cell inputs."""
        return self._encode((Op((SYMBOL, *self.signals)),))

    def _encode(self, ops: Sequence[Op]) -> OpEncoding:
        return OpEncoding(self.messages, self.signals, ops, symbols.vocab_size(self.base))

    @property
    def network(self) -> dict[str, Any]:
        """Settings of the rule for a model's config."""
        directions = {
            direction: {n: self.signals[n] for n in names}
            for direction, names in self.messages.items()
        }
        found: dict[str, Any] = {
            "messages": {direction: names for direction, names in directions.items() if names}
        }
        if self.ops:
            found["ops"] = [
                {"outputs": list(op.outputs), "inputs": list(op.inputs or ())} for op in self.ops
            ]
            handed = {name for names in self.messages.values() for name in names}
            found["own"] = {n: size for n, size in self.signals.items() if n not in handed}
        return found

    def message_id(self, names: Sequence[str], values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Messages of these signals as numbers from 1 up, int64 as the classes; of no signal 0."""
        if not names:
            return np.zeros(np.shape(next(iter(values.values()))), dtype=np.int64)
        sizes = [self.signals[name] for name in names]
        return 1 + np.ravel_multi_index([values[name] for name in names], sizes)

    def message(self, names: Sequence[str], message_id: np.ndarray) -> dict[str, np.ndarray]:
        """Decode messages from their ids, see `message_id`; "": the presence of the cell."""
        there = (message_id > 0).astype(np.int64)
        sizes = [self.signals[name] for name in names]
        parts = np.unravel_index(message_id - there, sizes) if names else ()
        return {"": there, **dict(zip(names, parts, strict=True))}

    def cell_inputs(self, numbers: np.ndarray) -> Seen:
        """Decode cell inputs from their numbers as op inputs of `whole`."""
        ((_, _, seen),) = self.whole.shown(numbers)
        return seen

    def around(
        self, handed: np.ndarray, page: np.ndarray, row: np.ndarray, column: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Read the messages of N cells' neighbours, int64 [N] by the names by which ops read.

        ``handed [B, H + 1, W + 2, 1 + signals]`` is what all cells hand on, first 1 for there being
        such a cell; around the cells is a margin of 0, above and on both sides.
        """
        place = {name: i for i, name in enumerate(("", *self.signals))}
        found: dict[str, np.ndarray] = {}
        for direction, names in self.whole.directions.items():
            down, right = NEIGHBOURS[direction]
            there = handed[page, row + 1 + down, column + 1 + right].astype(np.int64, copy=False)
            found |= {input_name(direction, name): there[:, place[name]] for name in ("", *names)}
        return found

    def apply(self, cell_inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All that follows from cell inputs, op after op: int64 [N] by output.

        Of cell inputs what they show, int64 [N] each, by the names by which ops read.
        """
        found: dict[str, np.ndarray] = {}
        seen = Seen(cell_inputs)
        for outputs, inputs in self.encoding.ops:
            said = self.cell(
                outputs, seen if inputs is None else Seen({n: seen[n] for n in inputs})
            )
            found |= said
            seen |= {input_name(OWN, name): part for name, part in said.items()}
        return found

    def seen(
        self, cell_inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The op inputs of cell inputs, as numbers, and of which cell input each is: int64 [M]
        each.

        Where a symbol is given nothing is asked of an op that says the symbol alone.
        """
        seen = {**cell_inputs, **{input_name(OWN, name): part for name, part in outputs.items()}}
        everywhere = np.arange(len(cell_inputs[TOKEN]))
        asked = np.flatnonzero(cell_inputs[TOKEN] == symbols.MASK)
        of = [asked if op.outputs == (SYMBOL,) else everywhere for op in self.encoding.ops]
        numbers = [self.encoding.numbers(op, seen)[here] for op, here in enumerate(of)]
        return np.concatenate(numbers), np.concatenate(of)

    def answers(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Compute the outputs of op inputs: int64 [N] by output, −1 where an op has no such output.

        The symbol's is −1 where it is given, too.
        """
        found = {name: np.full(len(numbers), -1) for name in (SYMBOL, *self.signals)}
        for op, here, seen in self.encoding.shown(numbers):
            said = self.cell(op.outputs, seen)
            for name in op.outputs:
                found[name][here] = said[name]
            if op.inputs is None:
                found[SYMBOL][here[seen[TOKEN] != symbols.MASK]] = -1
        return found
