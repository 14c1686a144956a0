"""All inputs that cells can receive on canvases of any size: sets closed under a layout's rule."""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import END, TOKEN, Inputs, input_name

# Called with the kinds of row and column, N cell inputs, their outputs, and the number of inputs
# that `LocalRule.can_occur` left out beside them.
Visit = Callable[[str, str, Inputs, dict[str, np.ndarray], int], None]


def reachable_op_inputs(rule: LocalRule, visit: Visit | None = None) -> np.ndarray:
    """Return the ids of all op inputs that occur in `reachable_cell_inputs`, int64, sorted.

    See `canvas.cells.encoding.OpEncoding`.
    """
    ids = reachable_cell_inputs(rule, visit)
    if rule.encoding is rule.whole:
        return ids
    cell_inputs = rule.cell_inputs(ids)
    return _distinct(rule.op_input_ids(cell_inputs, rule.apply(cell_inputs))[0])


def reachable_cell_inputs(rule: LocalRule, visit: Visit | None = None) -> np.ndarray:
    """Return a superset of the cell inputs of all canvases of any size, closed under the rule.

    Rows are computed from the upper edge down, and each from its right edge to the left, until
    nothing new is found. For each kind of row above, two things are stored: the messages that each
    kind of column can pass down, and the pairs of `LocalRule.reduced` classes that can lie side by
    side. This allows more than any canvas has; what `LocalRule.can_occur` excludes is left out.

    Args:
        rule: of a layout.
        visit: called with all inputs that are found, some of them several times.

    Returns:
        Ids as op inputs of `LocalRule.whole`, int64, sorted.

    Raises:
        ValueError: a state of the enumeration does not fit into 64 bits.
    """
    if not rule.ordered:
        return _all_messages(rule, visit)
    found = _Reachable(rule, visit)
    found.grow()
    return _distinct(np.concatenate(found.cell_inputs))


def _all_messages(rule: LocalRule, visit: Visit | None) -> np.ndarray:
    """Return the inputs of a rule without an order of writing: all messages from every side.

    These contain the inputs of every canvas, in any state of its cells.
    """
    found = [np.zeros(0, dtype=np.int64)]
    for name, row in rule.rows.items():
        for one, column in row.columns.items():
            messages = prod(rule.whole.sizes[0])
            if len(column.tokens) * messages > _MOST_MARKS:
                raise ValueError(_TOO_MANY)
            tokens = np.array(column.tokens, dtype=np.int64)
            ids = np.add.outer(tokens * messages, np.arange(messages)).reshape(-1)
            possible = ids[rule.can_occur(name, one, rule.cell_inputs(ids))]
            found.append(possible)
            if visit is not None:
                inputs = rule.cell_inputs(possible)
                visit(name, one, inputs, rule.apply(inputs), len(ids) - len(possible))
    return _distinct(np.concatenate(found))


_EDGE = 0  # the mark of a missing cell
_MOST_MARKS = 2**20  # and keys; less where a state would not fit into 64 bits
_AT_ONCE = 4096  # states, to bound the memory of their combinations
_TOO_MANY = (
    "the messages of these cells have too many classes to be enumerated: take a smaller base, "
    "fewer codes, or a layout with fewer signals"
)


def _distinct(ids: np.ndarray) -> np.ndarray:
    """Return each id once, sorted; many times faster than `np.unique` of NumPy 2.3 (hashing)."""
    ordered = np.sort(ids)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _union(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the ids in either of two arrays, sorted."""
    return _distinct(np.concatenate((some, others)))


class _Reachable:
    """Cells and neighbours found so far, by kind of row and column.

    A cell that was found is one number of two parts, the message with all that it passes to rows
    below, and its mark. A mark stands for a kind of column and the `reduced` classes of the
    message; by `LocalRule.marks_neighbour` for those of the cell on the right, too.
    """

    def __init__(self, rule: LocalRule, visit: Visit | None = None) -> None:
        self.rule, self.visit = rule, visit
        names = (*rule.down, *rule.down_right, *rule.down_left)
        self.joint = tuple(dict.fromkeys((*names, *(rule.left if rule.marks_neighbour else ()))))
        # For each kind of row the pairs of cells that can lie side by side, each as one number of
        # two marks, that on the right first.
        none = np.zeros(0, dtype=np.int64)
        self.pairs = {"": np.array([_EDGE])} | dict.fromkeys(rule.rows, none)
        self.cell_inputs: list[np.ndarray] = []
        kinds = (column.kind for row in rule.rows.values() for column in row.columns.values())
        self._kinds = list(dict.fromkeys(kinds))
        # For each kind of row and column the cells that were found. Beyond the canvas's edges, "",
        # there is one: no cell.
        self.found = {
            (row, kind): np.zeros(0 if row and kind else 1, dtype=np.int64)
            for row in self.pairs
            for kind in ("", *self._kinds)
        }
        reduced = {name: rule.reduced(name, np.arange(rule.signals[name])) for name in self.joint}
        for name, classes in reduced.items():
            # Any numbers are sound, as cells with equal ones are not distinguished.
            if classes.shape != (rule.signals[name],) or classes.dtype.kind not in "iu":
                raise ValueError(f"{type(rule).__name__}.reduced returns no number for each {name}")
        self._reduced = {
            name: (classes - classes.min(), 1 + int(np.ptp(classes)))
            for name, classes in reduced.items()
        }
        self._classes = prod(count for _, count in self._reduced.values())
        # A state is one number of four parts: the message from the right, the keys of the cells
        # above right and above, and the mark of the cell on the right. A key stands for a mark, or
        # for a cell, see `LocalRule.exact_together`.
        left = 1 + prod(rule.signals[name] for name in rule.left)
        parts = 3 if rule.down_left else 2
        self._most = min(_MOST_MARKS, int((2**62 / left) ** (1 / parts)))
        self._beyond = self._most if rule.down_left else 1
        messages = 1 + prod(rule.signals[name] for name in self.joint)
        if self._most < 2 or messages * self._most >= 2**63 or self._classes >= 2**40:
            raise ValueError(_TOO_MANY)
        self._own, self._marks = _Numbers(self._most), _Numbers(self._most)
        self._cells = _Numbers(self._most)

    def grow(self) -> None:
        """Compute every kind of row below every other, until nothing new is found."""
        pairs = [(name, above) for name, row in self.rule.rows.items() for above in row.below]
        done: dict[tuple[str, str], object] = {}
        while todo := {one: now for one in pairs if done.get(one) != (now := self._known(one[1]))}:
            for name, above in todo:
                self._row(name, above)
            done |= todo

    def _known(self, above: str) -> object:
        """Return the numbers of cells and pairs found for a kind of row, to detect changes."""
        return [len(self.found[above, kind]) for kind in self._kinds], len(self.pairs[above])

    def _own_mark(self, kind: str, message: np.ndarray) -> np.ndarray:
        """Return the number of a kind of column with the reduced classes of a message."""
        joint = np.zeros_like(message)
        signals = self.rule.message(self.joint, message)
        for name, (classes, count) in self._reduced.items():
            joint = joint * count + classes[signals[name]]
        return self._own.of(1 + self._kinds.index(kind) * self._classes + joint)

    def _mark(self, own: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the marks of cells, from their own part and the marks on their right."""
        if not self.rule.marks_neighbour:
            return own
        return self._marks.of(own * self._most + self._marks.ids[right] // self._most)

    def _key(self, cells: np.ndarray) -> np.ndarray:
        """Return the part of the cell above that a state stores."""
        return self._cells.of(cells) if self.rule.exact_together else cells % self._most

    def _by_key(self, above: dict[str, np.ndarray], names: tuple[str, ...]) -> "_Lists":
        """Return the messages from a row above in one direction: for each key a list of ids."""
        size = 1 + prod(self.rule.signals[name] for name in names)
        cells = np.concatenate(list(above.values()))
        keys, index = np.unique(self._key(cells), return_inverse=True)
        both = _distinct(index.reshape(-1) * size + self._message_ids(names, cells))
        index, ids = np.divmod(both, size)
        return _Lists(keys[index], ids, int(keys.max()) + 1)

    def _row(self, name: str, above: str) -> None:
        """Compute one kind of row below another."""
        row, todo = self.rule.rows[name], {}
        cells = {kind: self.found[above, kind] for kind in ("", *self._kinds)}
        directions = (self._by_key(cells, of) for of in (self.rule.down, self.rule.down_left))
        below = _Below(name, above, cells, *directions)
        for one in row.first:
            todo[one] = _distinct(self._key(cells[row.columns[one].kind])) * self._most
        seen = {one: np.zeros(0, np.int64) for one in row.columns}
        while todo:
            found: dict[str, list[np.ndarray]] = {}
            for one, states in todo.items():
                seen[one] = np.concatenate([seen[one], states])
                for target in row.columns[one].left:
                    found.setdefault(target, []).extend(self._column(below, one, target, states))
            fresh = {one: _distinct(np.concatenate(of)) for one, of in found.items() if of}
            fresh = {
                one: np.setdiff1d(states, seen[one], assume_unique=True)
                for one, states in fresh.items()
            }
            todo = {one: states for one, states in fresh.items() if len(states)}

    def _column(self, row: "_Below", one: str, target: str, states: np.ndarray) -> list[np.ndarray]:
        """Compute a column from all its states, and return the states of the target on its left.

        The cell above left must be one that can lie beside the cell above.
        """
        columns, most, found = self.rule.rows[row.name].columns, self._most, list[np.ndarray]()
        there = "" if target == END else columns[target].kind
        above = row.cells[columns[one].kind]
        cells, of = np.unique(states // most, return_inverse=True)
        beside = _Lists(of.reshape(-1), states % most, len(cells))
        rest, over = np.divmod(cells, most)
        right, beyond = np.divmod(rest, self._beyond)
        mark_of = np.zeros(1 + int(over.max(initial=0)), dtype=np.int64)
        keys = self._key(above)
        mark_of[keys[keys < len(mark_of)]] = (above % most)[keys < len(mark_of)]
        marks = mark_of[over]
        looks, looks_of, options_of = self._corners(row, there, int(marks.max(initial=0)))
        for token in columns[one].tokens:
            for first in range(0, len(cells), _AT_ONCE):
                # All combinations of messages from above, above right and above left.
                which = np.arange(first, min(len(cells), first + _AT_ONCE))
                up, index = row.down.of(over[which])
                which = which[index]
                away, index = row.down_left.of(beyond[which])
                which, up = which[index], up[index]
                look, index = looks_of.of(marks[which])
                which, up, away = which[index], up[index], away[index]
                cell_inputs = {TOKEN: np.full(len(which), token)}
                ids = right[which], up, looks[look], away
                for (direction, names), message_id in zip(
                    self.rule.messages.items(), ids, strict=True
                ):
                    signals = self.rule.message(names, message_id)
                    cell_inputs |= {
                        input_name(direction, signal): part for signal, part in signals.items()
                    }
                possible = self.rule.can_occur(row.name, one, Inputs(cell_inputs))
                left_out = len(possible) - int(np.count_nonzero(possible))
                if left_out:
                    cell_inputs = {name: part[possible] for name, part in cell_inputs.items()}
                    which, look = which[possible], look[possible]
                out = self.rule.apply(cell_inputs) if len(which) else {}
                if self.visit is not None:
                    self.visit(row.name, one, Inputs(cell_inputs), out, left_out)
                if not len(which):
                    continue
                self.cell_inputs.append(_distinct(self.rule.whole.encode(0, cell_inputs)))
                message = self.rule.message_id(self.joint, out)
                mark = self._own_mark(columns[one].kind, message)
                on = self.rule.message_id(self.rule.left, out) * self._beyond
                on += over[which] if self.rule.down_left else 0
                if self.rule.marks_neighbour:
                    at, index = beside.of(which)
                    on, look, message = on[index], look[index], message[index]
                    mark = self._mark(mark[index], at)
                    both = _distinct(at * most + mark)
                else:
                    cell, passed = np.divmod(_distinct(which * most + mark), most)
                    at, index = beside.of(cell)
                    both = _distinct(at * most + passed[index])
                if target == END:
                    both = np.concatenate((both, _distinct(mark) * most + _EDGE))
                self.pairs[row.name] = _union(self.pairs[row.name], both)
                place = row.name, columns[one].kind
                self.found[place] = _union(self.found[place], _distinct(message * most + mark))
                if target == END:
                    continue
                # The message to the left, with each key of an equal message above the target.
                on, passed = np.divmod(_distinct((on * len(looks) + look) * most + mark), most)
                on, look = np.divmod(on, len(looks))
                key, index = options_of.of(look)
                found.append((on[index] * most + key) * most + passed[index])
        return found

    def _corners(
        self, row: "_Below", there: str, highest: int
    ) -> tuple[np.ndarray, "_Lists", "_Lists"]:
        """Return what can be above left of a cell, if the column on its left is of kind `there`.

        Messages that differ in unread signals alone are equal.

        Args:
            row: the cell's row.
            there: "" beyond the canvas's edge.
            highest: mark of a cell above.

        Returns:
            looks: messages from above left, int64 [L]; one for each mark above that it goes with.
            looks_of: for each mark of the cell above, indices of its looks.
            options_of: for each of the looks, the keys of the cells above left.
        """
        near, far = np.divmod(self.pairs[row.above], self._most)
        corners = row.cells[there]
        marks, keys = corners % self._most, self._key(corners)
        count = 1 + max(int(far.max(initial=0)), int(marks.max(initial=0)))
        corner, pair = _Lists(marks, np.arange(len(corners)), count).of(far)
        names = self.rule.down_right
        size = 1 + prod(self.rule.signals[name] for name in names)
        looks, like = np.unique(
            near[pair] * size + self._message_ids(names, corners)[corner], return_inverse=True
        )
        if len(looks) > self._most:
            raise ValueError(_TOO_MANY)
        options = _distinct(like.reshape(-1) * self._most + keys[corner])
        options_of = _Lists(*np.divmod(options, self._most), len(looks))
        near, looks = np.divmod(looks, size)
        count = 1 + max(highest, int(near.max(initial=0)))
        return looks, _Lists(near, np.arange(len(looks)), count), options_of

    def _message_ids(self, names: tuple[str, ...], cells: np.ndarray) -> np.ndarray:
        """Return the ids of the messages that cells pass in one direction."""
        joint = cells // self._most
        if names == self.joint:
            return joint
        return np.where(
            joint > 0, self.rule.message_id(names, self.rule.message(self.joint, joint)), 0
        )


class _Numbers:
    """Consecutive numbers for ids, in the order in which they come; 0 has the number 0."""

    def __init__(self, most: int) -> None:
        self.ids = np.zeros(1, dtype=np.int64)  # by number
        self._most, self._order = most, np.zeros(1, dtype=np.int64)  # numbers, ordered by id

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Return the numbers of ids, int64 of the same shape; new ids get the next ones.

        Raises:
            ValueError: there are too many.
        """
        ordered = self.ids[self._order]
        at = np.searchsorted(ordered, ids).clip(max=len(ordered) - 1)
        if (new := ordered[at] != ids).any():
            self.ids = np.concatenate((self.ids, _distinct(ids[new])))
            if len(self.ids) > self._most:
                raise ValueError(_TOO_MANY)
            self._order = np.argsort(self.ids)
            return self.of(ids)
        return self._order[at]


class _Below(NamedTuple):
    """Kind of row that is computed below another, and the messages from that one."""

    name: str
    above: str  # "": beyond the canvas's edge
    cells: dict[str, np.ndarray]  # those found, by kind of column; "": no cell
    down: "_Lists"  # for each key, the messages from above
    down_left: "_Lists"  # for each key, the messages from above right


class _Lists:
    """``count`` lists of numbers: ``values[i]`` is in the list ``of[i]``, int64 [N] each."""

    def __init__(self, of: np.ndarray, values: np.ndarray, count: int) -> None:
        self._values = values[np.argsort(of, kind="stable")]
        self._counts = np.bincount(of, minlength=count)
        self._starts = np.cumsum(self._counts) - self._counts

    def of(self, lists: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of some lists, concatenated, and for each its index in ``lists``."""
        many = self._counts[lists]
        index = np.repeat(np.arange(len(lists)), many)
        step = np.arange(len(index)) - np.repeat(np.cumsum(many) - many, many)
        return self._values[self._starts[lists[index]] + step], index
