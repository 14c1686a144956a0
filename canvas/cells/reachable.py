"""All that cells can see on pages of any size: sets that are closed under a layout's rule."""

from math import prod
from typing import NamedTuple

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import END, TOKEN, input_name


def reachable_op_inputs(rule: LocalRule) -> np.ndarray:
    """Return the ids of all op inputs that occur in `reachable_cell_inputs`, int64, sorted.

    See `canvas.cells.encoding.OpEncoding`.
    """
    numbers = reachable_cell_inputs(rule)
    if rule.encoding is rule.whole:
        return numbers
    cell_inputs = rule.cell_inputs(numbers)
    return _distinct(rule.seen(cell_inputs, rule.apply(cell_inputs))[0])


def reachable_cell_inputs(rule: LocalRule) -> np.ndarray:
    """Cell inputs that hold all of every page of any size, and are closed under the rule.

    Rows are worked out from the upper edge down, and each from its right edge to the left, until
    nothing new is found. Of a row above is kept, for each kind of row, what each kind of column can
    hand down, and which `_kept` classes of these can lie side by side: more than any page has.
    Given are their numbers, as op inputs of `LocalRule.whole`, int64, sorted.
    """
    found = _Reachable(rule)
    found.grow()
    return _distinct(np.concatenate(found.cell_inputs))


_EDGE = 0  # the mark of no cell at all


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """Each once, sorted; many times quicker than `np.unique` of NumPy 2.3, which hashes."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


class _Reachable:
    """Knowledge of rows so far."""

    def __init__(self, rule: LocalRule) -> None:
        self.rule = rule
        self.joint = tuple(dict.fromkeys((*rule.down, *rule.down_right, *rule.down_left)))
        # Of each kind of row who can lie side by side, as numbers of two marks, that on the right
        # first. A mark is a kind of column with what is kept of what it hands down.
        self.pairs: dict[str, set[int]] = {"": {_EDGE}} | {name: set() for name in rule.rows}
        self.cell_inputs: list[np.ndarray] = []
        kinds = (column.kind for row in rule.rows.values() for column in row.columns.values())
        self._kinds = list(dict.fromkeys(kinds))
        # Of each kind of row and column the messages that can be handed down; beyond the page's
        # edges, "", one: that there is no cell.
        self.handed = {
            (row, kind): np.zeros(0 if row and kind else 1, dtype=np.int64)
            for row in self.pairs
            for kind in ("", *self._kinds)
        }
        self._messages = 1 + prod(rule.signals[name] for name in self.joint)
        kept = {name: rule.kept(name, np.arange(rule.signals[name])) for name in self.joint}
        self._kept = {name: (numbers, 1 + int(numbers.max())) for name, numbers in kept.items()}
        self._classes = prod(count for _, count in self._kept.values())
        self._marks = 1 + len(self._kinds) * self._classes
        # A state: the message from the right, the keys of the cells above right and above, and the
        # mark of that on the right.
        self._keys = self._messages if rule.kept_together else self._marks
        self._beyond = self._keys if rule.down_left else 1

    def grow(self) -> None:
        """Work every kind of row out below every other, until nothing new is found."""
        pairs = [(name, above) for name, row in self.rule.rows.items() for above in row.below]
        done: dict[tuple[str, str], object] = {}
        while todo := {one: now for one in pairs if done.get(one) != (now := self._known(one[1]))}:
            for name, above in todo:
                self._row(name, above)
            done |= todo

    def _known(self, above: str) -> object:
        """Amount of what is known of a kind of row."""
        return [len(self.handed[above, kind]) for kind in self._kinds], len(self.pairs[above])

    def _mark(self, kind: str, down: np.ndarray) -> np.ndarray:
        """The marks of what a kind of column hands down."""
        if not kind:
            return np.full_like(down, _EDGE)
        number = np.zeros_like(down)
        signals = self.rule.message(self.joint, down)
        for name, (numbers, count) in self._kept.items():
            number = number * count + numbers[signals[name]]
        return np.where(down > 0, 1 + self._kinds.index(kind) * self._classes + number, _EDGE)

    def _key(self, kind: str, down: np.ndarray) -> np.ndarray:
        """Part of the message from a kind of column above that a state keeps: all, or its mark."""
        return down if self.rule.kept_together else self._mark(kind, down)

    def _by_key(self, handed: dict[str, np.ndarray], names: tuple[str, ...]) -> "_Lists":
        """Messages from a row above in one direction: for each key a list of ids."""
        size = 1 + prod(self.rule.signals[name] for name in names)
        both = [self._key(kind, m) * size + self._seen(names, m) for kind, m in handed.items()]
        return _Lists(*np.divmod(_distinct(np.concatenate(both)), size), self._keys)

    def _row(self, name: str, above: str) -> None:
        """Work out one kind of row below another."""
        row, todo = self.rule.rows[name], {}
        handed = {kind: self.handed[above, kind] for kind in ("", *self._kinds)}
        directions = (
            self._by_key(handed, names) for names in (self.rule.down, self.rule.down_left)
        )
        below = _Below(name, above, handed, *directions)
        for one in row.first:
            kind = row.columns[one].kind
            todo[one] = _distinct(self._key(kind, handed[kind])) * self._marks
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
        """Work out a column from all its states, with a target on its left; the target's states.

        What lies above left has to go with what lies above.
        """
        rule, name, handed, found = self.rule, row.name, row.handed, []
        columns = rule.rows[name].columns
        kind, there = columns[one].kind, "" if target == END else columns[target].kind
        cells, of = np.unique(states // self._marks, return_inverse=True)
        beside = _Lists(of.reshape(-1), states % self._marks, len(cells))
        rest, over = np.divmod(cells, self._keys)
        right, beyond = np.divmod(rest, self._beyond)
        mark_of = np.zeros(self._keys, dtype=np.int64)
        mark_of[self._key(kind, handed[kind])] = self._mark(kind, handed[kind])
        marks, corner_marks = mark_of[over], self._mark(there, handed[there])
        pairs = np.array(sorted(self.pairs[row.above]), dtype=np.int64)
        for mark in np.unique(marks).tolist():
            beside_it = pairs[pairs // self._marks == mark] % self._marks
            corners = handed[there][np.isin(corner_marks, beside_it)]
            # What is above left looks alike from here where it differs in other signals alone.
            looks, like = np.unique(self._seen(rule.down_right, corners), return_inverse=True)
            options = _distinct(like.reshape(-1) * self._keys + self._key(there, corners))
            options_of = _Lists(*np.divmod(options, self._keys), len(looks))
            # All that such a cell can see above, above right and above left.
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
                self.cell_inputs.append(_distinct(rule.whole.numbers(0, cell_inputs)))
                down = rule.message_id(self.joint, out)
                known = np.zeros(self._messages, dtype=bool)
                known[down] = known[self.handed[name, kind]] = True
                self.handed[name, kind] = np.flatnonzero(known)
                mine = self._mark(kind, down)
                cell, says = np.divmod(_distinct(which * self._marks + mine), self._marks)
                at, index = beside.of(cell)
                both = _distinct(at * self._marks + says[index])
                self.pairs[name].update(both[both >= self._marks].tolist())
                if target == END:
                    self.pairs[name].update((np.unique(mine) * self._marks + _EDGE).tolist())
                    continue
                # What goes on to the left, with each key of what looks like this above it.
                on = rule.message_id(rule.left, out) * self._beyond
                on += over[which] if rule.down_left else 0
                on = _distinct((on * len(looks) + corner) * self._marks + mine)
                on, says = np.divmod(on, self._marks)
                on, look = np.divmod(on, len(looks))
                key, index = options_of.of(look)
                found.append((on[index] * self._keys + key) * self._marks + says[index])
        return found

    def _seen(self, names: tuple[str, ...], joint: np.ndarray) -> np.ndarray:
        """The code of what is handed in one direction, of all that is handed down."""
        if names == self.joint:
            return joint
        return np.where(
            joint > 0, self.rule.message_id(names, self.rule.message(self.joint, joint)), 0
        )


class _Below(NamedTuple):
    """A kind of row that is worked out below another, and what is known of that one."""

    name: str
    above: str  # "": beyond the page's edge
    handed: dict[str, np.ndarray]  # the messages of each kind of column; "": of no cell
    down: "_Lists"  # for each key, what can be seen above
    down_left: "_Lists"  # and above right


class _Lists:
    """``count`` lists: of ``values``, int64 [N], each is in the list ``of``."""

    def __init__(self, of: np.ndarray, values: np.ndarray, count: int) -> None:
        self._values = values[np.argsort(of, kind="stable")]
        self._counts = np.bincount(of, minlength=count)
        self._starts = np.cumsum(self._counts) - self._counts

    def of(self, lists: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All numbers of some lists, one after the other, and the index of each one's list."""
        many = self._counts[lists]
        index = np.repeat(np.arange(len(lists)), many)
        step = np.arange(len(index)) - np.repeat(np.cumsum(many) - many, many)
        return self._values[self._starts[lists[index]] + step], index
