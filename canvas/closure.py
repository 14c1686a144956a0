"""All that cells can see on pages of any size: sets that are closed under a layout's rule."""

from math import prod

import numpy as np

from canvas.windows import END, Column, LocalRule, Windows


def closure(rule: LocalRule) -> np.ndarray:
    """The sights of `closed_windows`: their numbers, see `LocalRule.seen`, int64, sorted."""
    windows = rule.windows(closed_windows(rule))
    return _distinct(rule.seen(windows, rule.apply(windows))[0])


def closed_windows(rule: LocalRule) -> np.ndarray:
    """Windows that hold all of every page of any size, and are closed under the rule.

    Rows are worked out from the upper edge down, and each from its right edge to the left, until
    nothing new is found. Of a row above is kept, for each kind of row, what each kind of column can
    hand down, and which `_kept` classes of these can lie side by side: more than any page has.

    Returns:
        Their numbers, see `LocalRule.numbers`, int64, sorted.
    """
    found = _Closure(rule)
    while found.grow():
        pass
    return _distinct(np.concatenate(found.windows))


_EDGE = 0  # the mark of no cell at all


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """Each once, sorted; many times quicker than `np.unique` of NumPy 2.3, which hashes."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


class _Closure:
    """What is known of rows so far.

    Attributes:
        handed: of each kind of row and of column the messages that can be handed down.
        pairs: of each kind of row who can lie side by side, as numbers of two marks, that on the
            right first. A mark is a kind of column with what is kept of what it hands down; 0: the
            page's edge.
    """

    def __init__(self, rule: LocalRule) -> None:
        self.rule = rule
        self.joint = tuple(dict.fromkeys((*rule.down, *rule.down_right, *rule.down_left)))
        self.handed: dict[tuple[str, str], np.ndarray] = {}
        self.pairs: dict[str, set[int]] = {name: set() for name in rule.rows}
        self.windows: list[np.ndarray] = []
        self._worked_out: dict[tuple[str, str], object] = {}
        kinds = (column.kind for row in rule.rows.values() for column in row.columns.values())
        self._kinds = list(dict.fromkeys(kinds))
        self._messages = 1 + prod(rule.fields[name] for name in self.joint)
        kept = {name: rule.kept(name, np.arange(rule.fields[name])) for name in self.joint}
        self._kept = {name: (numbers, 1 + int(numbers.max())) for name, numbers in kept.items()}
        self._classes = prod(count for _, count in self._kept.values())
        self._marks = 1 + len(self._kinds) * self._classes
        # A state: the message from the right, what is known of the cells above right and above,
        # and the mark of that on the right.
        exact = rule.kept_together
        self._above = self._messages if exact else self._marks
        self._beyond = rule.sizes["down_left"] if exact else self._marks

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

    def _mark(self, kind: str, down: np.ndarray) -> np.ndarray:
        """The marks of what a kind of column hands down."""
        if not kind:
            return np.full_like(down, _EDGE)
        number = np.zeros_like(down)
        fields = self.rule.message(self.joint, down)
        for name, (numbers, count) in self._kept.items():
            number = number * count + numbers[fields[name]]
        return np.where(down > 0, 1 + self._kinds.index(kind) * self._classes + number, _EDGE)

    def _row(self, name: str, above: str) -> None:
        """Work out one kind of row below another."""
        row, todo = self.rule.rows[name], {}
        for one in row.first:
            kind = row.columns[one].kind
            over = self._handed(above, kind)
            key = over if self.rule.kept_together else _distinct(self._mark(kind, over))
            todo[one] = key * self._marks
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
        rule, kind, exact = self.rule, column.kind, self.rule.kept_together
        cells, of = np.unique(states // self._marks, return_inverse=True)
        beside = _Lists(of.reshape(-1), states % self._marks, len(cells))
        rest, over = np.divmod(cells, self._above)
        right, beyond = np.divmod(rest, self._beyond)
        marks = self._mark(kind, over) if exact else over
        pairs = np.array(sorted(self.pairs.get(above, ())), dtype=np.int64).reshape(-1)
        for target in column.left:
            there = "" if target == END else rule.rows[name].columns[str(target)].kind
            corners = self._handed(above, there)
            corner_marks = self._mark(there, corners)
            for mark, after in np.unique(np.stack((marks, beyond)), axis=1).T.tolist():
                fits = np.ones(len(corners), dtype=bool)
                if above:
                    fits = np.isin(corner_marks, pairs[pairs // self._marks == mark] % self._marks)
                here = np.flatnonzero((marks == mark) & (beyond == after))
                # What is above left looks alike from here where it differs in other fields alone.
                keys = corners[fits] if exact else corner_marks[fits]
                looks, like = np.unique(
                    self._seen(rule.down_right, corners[fits]), return_inverse=True
                )
                options = _distinct(like.reshape(-1) * self._above + keys)
                options_of = _Lists(options // self._above, options % self._above, len(looks))
                which, up, away, corner = self._products(
                    here, over if exact else None, above, kind, mark, after, len(looks)
                )
                for token in column.tokens if len(which) else ():
                    tokens = np.full(len(which), token)
                    windows = Windows(tokens, right[which], up, looks[corner], away)
                    out = rule.apply(windows)
                    self.windows.append(_distinct(rule.numbers(windows)))
                    down = rule.code(self.joint, out)
                    known = np.zeros(self._messages, dtype=bool)
                    known[down] = known[self._handed(name, kind)] = True
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
                    on = rule.code(rule.left, out) * self._beyond
                    on += self._seen(rule.down_left, over[which]) if exact else mark
                    on = _distinct((on * len(looks) + corner) * self._marks + mine)
                    on, says = np.divmod(on, self._marks)
                    on, look = np.divmod(on, len(looks))
                    key, index = options_of.of(look)
                    state = (on[index] * self._above + key) * self._marks + says[index]
                    found.setdefault(str(target), []).append(state)

    def _products(
        self,
        here: np.ndarray,
        over: np.ndarray | None,
        above: str,
        kind: str,
        mark: int,
        after: int,
        looks: int,
    ) -> tuple[np.ndarray, ...]:
        """All that cells with a mark above, and one above right, can see; int64 [N] each.

        Which cell, what it sees above and above right, and which of the looks above left.
        """
        rule = self.rule
        if over is not None:
            which, corner = np.repeat(here, looks), np.tile(np.arange(looks), len(here))
            return which, self._seen(rule.down, over[which]), np.full(len(which), after), corner
        parts = [here]
        ways = ((kind, mark, rule.down), (self._kind_of(after), after, rule.down_left))
        for of, number, names in ways:
            there = self._handed(above, of) if number else np.zeros(1, np.int64)
            there = there[self._mark(of, there) == number]
            parts.append(_distinct(self._seen(names, there)))
        return tuple(
            part.reshape(-1) for part in np.meshgrid(*parts, np.arange(looks), indexing="ij")
        )

    def _kind_of(self, mark: int) -> str:
        return self._kinds[(mark - 1) // self._classes] if mark else ""

    def _seen(self, names: tuple[str, ...], joint: np.ndarray) -> np.ndarray:
        """The code of what is handed in one direction, of all that is handed down."""
        if names == self.joint:
            return joint
        values = self.rule.message(self.joint, joint)
        return np.where(joint > 0, self.rule.code(names, values), 0)


class _Lists:
    """As many lists as ``count``: of ``values``, int64 [N], each is in the list ``of``."""

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
