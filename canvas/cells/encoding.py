"""Codec of op inputs: everything that an op reads, as one id and back."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod

import numpy as np

from canvas.cells.spec import (
    AGAINST,
    NEIGHBOUR_NAMES,
    NEIGHBOURS,
    OWN,
    TOKEN,
    Inputs,
    Op,
    input_name,
)


class OpEncoding:
    """Codec of op inputs: everything that an op reads, as one id.

    An id is a number of mixed radix: the symbol, 0 if it is not read, then a message id for each
    direction. A message id is a number of mixed radix, too: the classes of the signals that are
    read. Where the neighbour does not exist, all of them are 0. If an op reads everything, message
    id 0 stands for no neighbour, and all other message ids are one higher.

    Ids of op 0 begin at 0, those of the next op after them, see ``starts``.

    Example: an op reads a symbol (of 20), and from the right ``multiplier`` (of 11) and ``carry``
    (of 10). Symbol 5, multiplier 3 and carry 2 have the message id 3 * 10 + 2 = 32 and the id
    5 * (11 * 10) + 32 = 582.
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
        # The signals that are passed in each direction that is used.
        self.directions = {
            direction: tuple(messages[direction])
            for direction in NEIGHBOURS
            if messages.get(direction)
        }
        self.ordered = AGAINST.isdisjoint(self.directions)  # whether there is an order of writing
        if own:
            self.directions[OWN] = own
        # For each op and direction the signals, "" for the neighbour's presence; and the number of
        # message ids.
        self.inputs = [
            [self._signals(op, direction) for direction in self.directions] for op in ops
        ]
        self.sizes = [
            [prod(self._size(name) for name in names) + (op.inputs is None) for names in of]
            for op, of in zip(ops, self.inputs, strict=True)
        ]
        # The first id of each op; last, the number of all ids.
        self.starts = [0, *accumulate(ids * prod(sizes) for sizes in self.sizes)]
        self.levels: list[list[int]] = []  # indices of the ops that can run at the same time
        known, left = set[str](), dict(enumerate(ops))
        while left:
            level = [i for i, op in left.items() if known.issuperset(_own(op))]
            if not level:
                raise ValueError("ops read signals that no op before them decides")
            self.levels.append(level)
            known.update(name for i in level for name in left.pop(i).outputs)

    def _signals(self, op: Op, direction: str) -> tuple[str, ...]:
        if op.inputs is None:
            return self.directions[direction] if direction != OWN else ()
        neighbour = NEIGHBOUR_NAMES[direction]
        names = ("",) if neighbour in op.inputs else ()
        return (*names, *(n for n in self.directions[direction] if f"{neighbour}.{n}" in op.inputs))

    def _size(self, name: str) -> int:
        return self.classes[name] if name else 2

    def units(self, op: int) -> dict[str, int]:
        """Return the weight of each input of an op in the id, by input name."""
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

    def signals(self, op: int, direction: int, message_id: np.ndarray) -> dict[str, np.ndarray]:
        """Decode message ids: classes by signal, the last one first; "" for presence.

        Args:
            op: index of the op.
            direction: index in ``directions``.
            message_id: int64 [N].
        """
        names, found = self.inputs[op][direction], {}
        if self.ops[op].inputs is None and names:
            found[""] = (message_id > 0) * 1
            message_id = message_id - found[""]
        parts = np.unravel_index(message_id, [self._size(name) for name in names]) if names else ()
        return found | dict(zip(names[::-1], parts[::-1], strict=True))

    def encode(self, op: int, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the ids of the inputs of an op in N cells, int64 [N].

        Args:
            op: index of the op.
            values: inputs and outputs of the cells, int64 [N] by input name, see `LocalRule.apply`.
        """
        ids = np.full(len(next(iter(values.values()))), self.starts[op])
        for name, unit in self.units(op).items():
            ids += values[name] * unit
        return ids

    def decode(self, ids: np.ndarray) -> Iterator[tuple[Op, np.ndarray, Inputs]]:
        """Decode N ids, int64 [N]: for each op the indices of its ids, int64, and its inputs."""
        op_of_id = np.searchsorted(self.starts, ids, side="right") - 1
        for index, op in enumerate(self.ops):
            here = np.flatnonzero(op_of_id == index)
            sizes = (self.ids, *self.sizes[index])
            token, *message_ids = np.unravel_index(ids[here] - self.starts[index], sizes)
            inputs = Inputs({TOKEN: token} if TOKEN in self.units(index) else {})
            for i, direction in enumerate(self.directions):
                signals = self.signals(index, i, message_ids[i])
                inputs |= {input_name(direction, name): part for name, part in signals.items()}
            yield op, here, inputs


def _own(op: Op) -> list[str]:
    """Signals among an op's inputs that the cell itself decides."""
    return [name[4:] for name in op.inputs or () if name.startswith("own.")]
