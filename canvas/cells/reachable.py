"""All inputs that cells can receive on canvases of any size: sets closed under a layout's rule."""

from math import prod
from typing import NamedTuple

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import END, TOKEN, input_name


def reachable_op_inputs(rule: LocalRule) -> np.ndarray:
    """Return the ids of all op inputs that occur in `reachable_cell_inputs`, int64, sorted.

    See `canvas.cells.encoding.OpEncoding`.
    """
    ids = reachable_cell_inputs(rule)
    if rule.encoding is rule.whole:
        return ids
    cell_inputs = rule.cell_inputs(ids)
    return _distinct(rule.op_input_ids(cell_inputs, rule.apply(cell_inputs))[0])


def reachable_cell_inputs(rule: LocalRule) -> np.ndarray:
    """Return a superset of the cell inputs of all canvases of any size, closed under the rule.

    Rows are computed from the upper edge down, and each from its right edge to the left, until
    nothing new is found. For each kind of row above, two things are stored: the messages that each
    kind of column can pass down, and the pairs of `LocalRule.reduced` classes that can lie side by
    side. This allows more than any canvas has.

    Returns:
        Ids as op inputs of `LocalRule.whole`, int64, sorted.

    Raises:
        ValueError: a state of the enumeration does not fit into 64 bits.
    """
    found = _Reachable(rule)
    found.grow()
    return _distinct(np.concatenate(found.cell_inputs))


_EDGE = 0  # the mark of a missing cell


def _distinct(ids: np.ndarray) -> np.ndarray:
    """Return each id once, sorted; many times faster than `np.unique` of NumPy 2.3 (hashing)."""
    ordered = np.sort(ids)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


class _Reachable:
    """Messages and neighbours found so far, by kind of row and column."""

    def __init__(self, rule: LocalRule) -> None:
        self.rule = rule
        self.joint = tuple(dict.fromkeys((*rule.down, *rule.down_right, *rule.down_left)))
        # For each kind of row the pairs of cells that can lie side by side, each as one number of
        # two marks, that on the right first. A mark is a kind of column with the `reduced` classes
        # of the message that it passes down.
        self.pairs: dict[str, set[int]] = {"": {_EDGE}} | {name: set() for name in rule.rows}
        self.cell_inputs: list[np.ndarray] = []
        kinds = (column.kind for row in rule.rows.values() for column in row.columns.values())
        self._kinds = list(dict.fromkeys(kinds))
        # For each kind of row and column the messages that can be passed down. Beyond the canvas's
        # edges, "", there is one: no cell.
        self.messages_down = {
            (row, kind): np.zeros(0 if row and kind else 1, dtype=np.int64)
            for row in self.pairs
            for kind in ("", *self._kinds)
        }
        self._messages = 1 + prod(rule.signals[name] for name in self.joint)
        reduced = {name: rule.reduced(name, np.arange(rule.signals[name])) for name in self.joint}
        self._reduced = {
            name: (classes, 1 + int(classes.max())) for name, classes in reduced.items()
        }
        self._classes = prod(count for _, count in self._reduced.values())
        self._marks = 1 + len(self._kinds) * self._classes
        # A state is one number of four parts: the message from the right, the keys of the cells
        # above right and above, and the mark of the cell on the right.
        self._keys = self._messages if rule.exact_together else self._marks
        self._beyond = self._keys if rule.down_left else 1
        left = 1 + prod(rule.signals[name] for name in rule.left)
        if left * self._beyond * self._keys * self._marks >= 2**63:
            raise ValueError(
                "the messages of these cells have too many classes to be enumerated: take a "
                "smaller base, fewer codes, or a layout with fewer signals"
            )

    def grow(self) -> None:
        """Compute every kind of row below every other, until nothing new is found."""
        pairs = [(name, above) for name, row in self.rule.rows.items() for above in row.below]
        done: dict[tuple[str, str], object] = {}
        while todo := {one: now for one in pairs if done.get(one) != (now := self._known(one[1]))}:
            for name, above in todo:
                self._row(name, above)
            done |= todo

    def _known(self, above: str) -> object:
        """Return the numbers of messages and pairs found for a kind of row, to detect changes."""
        return [len(self.messages_down[above, kind]) for kind in self._kinds], len(
            self.pairs[above]
        )

    def _mark(self, kind: str, down: np.ndarray) -> np.ndarray:
        """Return the marks of messages that a kind of column passes down."""
        if not kind:
            return np.full_like(down, _EDGE)
        joint = np.zeros_like(down)
        signals = self.rule.message(self.joint, down)
        for name, (classes, count) in self._reduced.items():
            joint = joint * count + classes[signals[name]]
        return np.where(down > 0, 1 + self._kinds.index(kind) * self._classes + joint, _EDGE)

    def _key(self, kind: str, down: np.ndarray) -> np.ndarray:
        """Return the part of a message from above that a state stores: all of it, or its mark."""
        return down if self.rule.exact_together else self._mark(kind, down)

    def _by_key(self, messages_down: dict[str, np.ndarray], names: tuple[str, ...]) -> "_Lists":
        """Return the messages from a row above in one direction: for each key a list of ids."""
        size = 1 + prod(self.rule.signals[name] for name in names)
        both = [
            self._key(kind, m) * size + self._message_ids(names, m)
            for kind, m in messages_down.items()
        ]
        return _Lists(*np.divmod(_distinct(np.concatenate(both)), size), self._keys)

    def _row(self, name: str, above: str) -> None:
        """Compute one kind of row below another."""
        row, todo = self.rule.rows[name], {}
        messages_down = {kind: self.messages_down[above, kind] for kind in ("", *self._kinds)}
        directions = (
            self._by_key(messages_down, names) for names in (self.rule.down, self.rule.down_left)
        )
        below = _Below(name, above, messages_down, *directions)
        for one in row.first:
            kind = row.columns[one].kind
            todo[one] = _distinct(self._key(kind, messages_down[kind])) * self._marks
        seen = {one: np.zeros(0, np.int64) for one in row.columns}
        while todo:
            found: dict[str, list[np.ndarray]] = {}
            for one, states in todo.items():
                seen[one] = np.concatenate([seen[one], states])
                for target in row.columns[one].left:
                    found.setdefault(target, []).extend(self._column(below, one, target, states))
            fresh = {one: _distinct(np.concatenate(of)) for one, of in found.items() if of}
            fresh = {one: np.setdiff1d(states, seen[one]) for one, states in fresh.items()}
            todo = {one: states for one, states in fresh.items() if len(states)}

    def _column(self, row: "_Below", one: str, target: str, states: np.ndarray) -> list[np.ndarray]:
        """Compute a column from all its states, and return the states of the target on its left.

        The cell above left must be one that can lie beside the cell above.
        """
        rule, name, messages_down, found = self.rule, row.name, row.messages_down, []
        columns = rule.rows[name].columns
        kind, there = columns[one].kind, "" if target == END else columns[target].kind
        cells, of = np.unique(states // self._marks, return_inverse=True)
        beside = _Lists(of.reshape(-1), states % self._marks, len(cells))
        rest, over = np.divmod(cells, self._keys)
        right, beyond = np.divmod(rest, self._beyond)
        mark_of = np.zeros(self._keys, dtype=np.int64)
        mark_of[self._key(kind, messages_down[kind])] = self._mark(kind, messages_down[kind])
        marks, corner_marks = mark_of[over], self._mark(there, messages_down[there])
        pairs = np.array(sorted(self.pairs[row.above]), dtype=np.int64)
        for mark in np.unique(marks).tolist():
            beside_it = pairs[pairs // self._marks == mark] % self._marks
            corners = messages_down[there][np.isin(corner_marks, beside_it)]
            # Messages from above left that differ in unread signals alone are treated as equal.
            looks, like = np.unique(
                self._message_ids(rule.down_right, corners), return_inverse=True
            )
            options = _distinct(like.reshape(-1) * self._keys + self._key(there, corners))
            options_of = _Lists(*np.divmod(options, self._keys), len(looks))
            # All combinations of messages from above, above right and above left.
            which = np.flatnonzero(marks == mark)
            up, index = row.down.of(over[which])
            which = which[index]
            away, index = row.down_left.of(beyond[which])
            which, up = which[index], up[index]
            corner = np.tile(np.arange(len(looks)), len(which))
            which, up, away = (part.repeat(len(looks)) for part in (which, up, away))
            for token in columns[one].tokens if len(which) else ():
                cell_inputs = {TOKEN: np.full(len(which), token)}
                ids = right[which], up, looks[corner], away
                for (direction, names), message_id in zip(rule.messages.items(), ids, strict=True):
                    signals = rule.message(names, message_id)
                    cell_inputs |= {
                        input_name(direction, signal): part for signal, part in signals.items()
                    }
                out = rule.apply(cell_inputs)
                self.cell_inputs.append(_distinct(rule.whole.encode(0, cell_inputs)))
                down = rule.message_id(self.joint, out)
                known = np.zeros(self._messages, dtype=bool)
                known[down] = known[self.messages_down[name, kind]] = True
                self.messages_down[name, kind] = np.flatnonzero(known)
                mine = self._mark(kind, down)
                cell, passed = np.divmod(_distinct(which * self._marks + mine), self._marks)
                at, index = beside.of(cell)
                both = _distinct(at * self._marks + passed[index])
                self.pairs[name].update(both[both >= self._marks].tolist())
                if target == END:
                    self.pairs[name].update((np.unique(mine) * self._marks + _EDGE).tolist())
                    continue
                # The message to the left, with each key of an equal message above the target.
                on = rule.message_id(rule.left, out) * self._beyond
                on += over[which] if rule.down_left else 0
                on = _distinct((on * len(looks) + corner) * self._marks + mine)
                on, passed = np.divmod(on, self._marks)
                on, look = np.divmod(on, len(looks))
                key, index = options_of.of(look)
                found.append((on[index] * self._keys + key) * self._marks + passed[index])
        return found

    def _message_ids(self, names: tuple[str, ...], joint: np.ndarray) -> np.ndarray:
        """Return the ids of the messages in one direction, from the ids of all signals below."""
        if names == self.joint:
            return joint
        return np.where(
            joint > 0, self.rule.message_id(names, self.rule.message(self.joint, joint)), 0
        )


class _Below(NamedTuple):
    """Kind of row that is computed below another, and the messages from that one."""

    name: str
    above: str  # "": beyond the canvas's edge
    messages_down: dict[str, np.ndarray]  # messages by kind of column; "": no cell
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
