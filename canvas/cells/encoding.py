"""Codec of op inputs: all that an op reads, as one number and back."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from math import prod

import numpy as np

from canvas.cells.spec import NEIGHBOURS, OWN, SEES, TOKEN, Op, Seen, input_name


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
        """Return the weight of each thing that an op reads in the id of its input, by name."""
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

    @cached_property
    def reads(self) -> list[list[str]]:
        """The names of all that each op reads, in the order of the columns of `table`."""
        return [list(self.units(op))[::-1] for op in range(len(self.ops))]

    @property
    def width(self) -> int:
        """Number of columns of `table`: the most that an op reads."""
        return max(map(len, self.reads))

    def table(self, op: int, seen: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return what an op reads in N cells, int64 [N, width]; columns without a name are 0.

        Args:
            op: index of the op.
            seen: the cells' inputs and decisions by name, see `LocalRule.apply`.
        """
        found = np.zeros((len(next(iter(seen.values()))), self.width), dtype=np.int64)
        for column, name in enumerate(self.reads[op]):
            found[:, column] = seen[name]
        return found

    def codes(self, op: int) -> np.ndarray:
        """Return the weights of the columns of `table` in codes, int64 [width, 1 + directions].

        The first code is the symbol, then one for each direction.
        """
        units, strides = self.units(op), np.cumprod([1, *self.sizes[op][::-1]])[::-1]
        found = np.zeros((self.width, len(strides)), dtype=np.int64)
        for row, name in enumerate(self.reads[op]):
            place = 0 if name == TOKEN else 1 + self._direction_of(name)
            found[row, place] = units[name] // strides[place]
        return found

    def _direction_of(self, name: str) -> int:
        who = name.partition(".")[0]
        return [SEES[direction] for direction in self.directions].index(who)

    def ids_of(self, ops: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Return the ids of N op inputs, int64 [N].

        Args:
            ops: indices of the ops, int64 [N].
            table: what they read, int64 [N, width].
        """
        ids = np.array(self.starts)[ops]
        for op, names in enumerate(self.reads):
            here, units = np.flatnonzero(ops == op), self.units(op)
            ids[here] += table[here, : len(names)] @ np.array([units[name] for name in names])
        return ids

    def op_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the index of the op of each id, int64 [N]."""
        return np.searchsorted(self.starts, ids, side="right") - 1

    def numbers(self, op: int, seen: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the ids of an op's inputs, int64 [N]; arguments as for `table`."""
        number = np.full(len(next(iter(seen.values()))), self.starts[op])
        for name, unit in self.units(op).items():
            number += seen[name] * unit
        return number

    def shown(self, numbers: np.ndarray) -> Iterator[tuple[Op, np.ndarray, "Seen"]]:
        """Decode N ids: for each op the indices of its ids, int64, and what it reads there."""
        of = self.op_of(numbers)
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
