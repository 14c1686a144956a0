"""Codes of a network that invents them, made few: those that do the same become one.

Trained with soft codes, a network says one thing in several codes, and now and then two things in
one. But pages that are worked out with one code at a time are runs of an automaton: a state is what
a cell hands on one way, all codes together, and a step is what a cell that is handed states writes
and hands on. Which state each op input hands on is found from true pages in turns, as clusters are:

- Of each context, what cells see and the states that they are handed, it is noted what most of its
  cells wrote in truth, and what most of them hand on.
- Each op input takes the state that explains best what the cells do that are handed it (hard EM:
  Celeux & Govaert 1992, "A classification EM algorithm for clustering and two stochastic
  versions").
- States become one that write the same, and hand on what may be the same, wherever both are met
  (compatible states of a machine that leaves much open: Paull & Unger 1959, "Minimizing the number
  of states in incompletely specified sequential switching functions").

The network then learns the messages that are left, on all op inputs evenly.
"""

import math
from typing import NamedTuple

import numpy as np

_ROUNDS = 6  # of these turns, at most
# Of contexts in which two states that are the same are both met, and of their cells, at most:
_CONTRADICTIONS = 0.05  # in which different symbols are written
_LEFT_OPEN = 0.25  # in which what is handed on is known to differ
_EVIDENCE = 5  # cells of contexts in which both do the same, at least
_COST = 2.0  # of a cell that a state explains wrongly, in cells that it explains
_STAYS = 0.9  # of the cells that the best state explains; with so many an op input keeps its own


class PageCells(NamedTuple):
    """N cells of pages that hand on a message of codes in W ways each."""

    cell_input: np.ndarray  # int64 [N], which of all that cells see, but for the codes, is seen
    messages: np.ndarray  # int64 [N, W], what is handed on: all codes that go one way together
    told: np.ndarray  # int64 [N, W], what is told beside each of these
    sources: np.ndarray  # int64 [N, W], the cells by which it is handed messages, −1 for none
    symbol: np.ndarray  # int64 [N], what stands there in truth, −1 where it is given
    right: np.ndarray  # bool [N], whether that is what is written

    def suspected(self) -> "PageCells":
        """The same, but a given cell is not right if what it hands on ends in one that is not.

        It writes nothing by which it could be judged itself.
        """
        right = self.right.copy()
        while True:
            before, asked = right.copy(), self.sources[~right]
            right[asked[asked >= 0]] &= self.symbol[asked[asked >= 0]] >= 0
            if np.array_equal(before, right):
                return self._replace(right=right)

    def counted(self) -> np.ndarray:
        """Cells that depend on nothing wrong, bool [N]: they see codes that mean something."""
        counted: np.ndarray = np.ones(len(self.cell_input), dtype=bool)
        while True:
            sound = counted & self.right
            before, counted = counted, np.all((self.sources < 0) | sound[self.sources], axis=1)
            if np.array_equal(before, counted):
                return counted


def merged_messages(cells: PageCells) -> np.ndarray:
    """The messages that each cell should hand on, int64 [N, W]; −1: that is not known."""
    machine = _Machine(cells)
    for _ in range(_ROUNDS):
        machine.merge_alike()
        if not sum([machine.choose(direction) for direction in range(cells.messages.shape[1])]):
            break
    return machine.messages()


class _Table(NamedTuple):
    """What contexts show: one is a cell input, and the states that are handed to it.

    Arrays by the number of a context; seen from one way, those of the other ways times its states.
    """

    cells: np.ndarray  # how many have this context, float64
    symbol: np.ndarray  # what most of them wrote in truth, int64; −1: it is given
    following: list[np.ndarray]  # what most hand on, of each way, int64; 0: unknown

    def seen_from(self, direction: int, shape: tuple[int, ...]) -> "_Table":
        """Arrays [others, states] of the contexts in which several states of a way are met."""

        def turned(part: np.ndarray) -> np.ndarray:
            return np.moveaxis(part.reshape(shape), 1 + direction, -1).reshape(
                -1, shape[1 + direction]
            )

        several = (turned(self.cells) > 0).sum(axis=1) > 1
        cells, symbol, *following = (turned(part)[several] for part in (*self[:2], *self[2]))
        return _Table(cells, symbol, following)


class _Machine:
    """States are numbered in each way, from 1; 0: no cell is there to hand on one.

    It is made of rows: cells that depend on nothing wrong and see and do the same.
    """

    def __init__(self, cells: PageCells) -> None:
        there = cells.sources >= 0
        received = np.take_along_axis(cells.messages, cells.sources, axis=0)
        op_inputs = np.column_stack((cells.cell_input, np.where(there, received, -1)))
        _, first, self.op_input = np.unique(
            op_inputs, axis=0, return_index=True, return_inverse=True
        )
        size = len(first)  # also the number of an op input that stands for no cell
        cell_input = np.unique(cells.cell_input, return_inverse=True)[1]
        by = np.where(there, self.op_input[cells.sources], size)
        rows = np.column_stack((cell_input, self.op_input, cells.symbol, cells.right, by))
        rows, times = np.unique(rows[cells.counted()], axis=0, return_counts=True)
        self.cell_input, self.own, self.symbol, right = rows.T[:4]
        self.right, self.by, self.times = right > 0, rows.T[4:], times.astype(np.float64)
        # Of each way: the state that each op input hands on, as the network says, and as it is
        # found; of each state what is told beside it, and its message.
        self.said: list[np.ndarray] = []
        self.told: list[np.ndarray] = []
        self.message: list[np.ndarray] = []
        for pair in zip(cells.told[first].T, cells.messages[first].T, strict=True):
            pairs, state = np.unique(np.column_stack(pair), axis=0, return_inverse=True)
            self.said.append(np.append(1 + state, 0))
            told, message = np.pad(pairs, ((1, 0), (0, 0)), constant_values=-1).T
            self.told.append(told)
            self.message.append(message)
        self.state = [said.copy() for said in self.said]
        # What no cell is handed, as below the last row, means nothing, and stays as it is.
        self.used = [np.isin(np.arange(size + 1), by[by < size]) for by in self.by]
        self.known = [np.ones(size + 1, dtype=bool) for _ in self.by]
        self.shape = (int(cell_input.max()) + 1, *map(len, self.message))

    def messages(self) -> np.ndarray:
        """Of each cell and way, int64 [N, W]; −1: unknown."""
        directions = zip(self.known, self.message, self.state, strict=True)
        found = [np.where(known, message[state], -1) for known, message, state in directions]
        return np.stack(found, axis=1)[self.op_input]

    def _contexts(self, but: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The context of each row, as if one way handed on nothing; whether all of it is known."""
        parts, known = [self.cell_input], np.ones(len(self.cell_input), dtype=bool)
        for direction, by in enumerate(self.by):
            parts.append(self.state[direction][by] * (direction != but))
            known &= self.known[direction][by] | (direction == but)
        return np.ravel_multi_index(parts, self.shape), known

    def _following(self) -> list[np.ndarray]:
        """What each row hands on, in each way; 0: nobody knows."""
        directions = zip(self.used, self.known, self.state, strict=True)
        return [
            np.where(self.right & (used & known)[self.own], state[self.own], 0)
            for used, known, state in directions
        ]

    def _table(self) -> _Table:
        contexts, known = self._contexts()
        number = math.prod(self.shape)

        def most(values: np.ndarray, least: int) -> np.ndarray:
            """Of each context the value that most of its cells have, of those from the least up."""
            found, shown = np.full(number, least - 1), known & (values >= least)
            pairs = np.column_stack((contexts, values))[shown]
            pairs, which = np.unique(pairs, axis=0, return_inverse=True)
            order = np.argsort(np.bincount(which, self.times[shown]), kind="stable")
            found[pairs[order, 0]] = pairs[order, 1]
            return found

        cells = np.bincount(contexts[known], self.times[known], minlength=number)
        return _Table(cells, most(self.symbol, 0), [most(part, 1) for part in self._following()])

    def choose(self, direction: int) -> int:
        """Give each op input the state that explains best what follows; how many get another.

        What an op input explains by itself does not count; what never errs gives way only to what
        never errs either. Of states that explain as much it gets the one that explains most of all
        op inputs of which the network says the same.
        """
        table, state = self._table(), self.state[direction]
        contexts, known = self._contexts(but=direction)
        known &= self.used[direction][self.by[direction]]
        rows = np.column_stack((self.by[direction], contexts, self.symbol, *self._following()))[
            known
        ]
        rows, which = np.unique(rows, axis=0, return_inverse=True)
        op_input, contexts, symbol, *after = rows.T
        times = np.bincount(which, self.times[known])
        same = np.unique(rows[:, :2], axis=0, return_inverse=True)[1]
        alone = np.bincount(same, times)[same]  # cells by which an op input itself has this context
        step, op_inputs = math.prod(self.shape[2 + direction :]), len(state) - 1
        score, wrong = np.full((2, op_inputs, self.shape[1 + direction]), -np.inf)
        for one in range(1, self.shape[1 + direction]):
            at = contexts + one * step
            others = table.cells[at] > np.where(state[op_input] == one, alone, 0)
            shown = others & (symbol >= 0) & (table.symbol[at] >= 0)
            errs = shown & (symbol != table.symbol[at])
            pairs = [(mine, other[at]) for mine, other in zip(after, table.following, strict=True)]
            moves = others & ~errs & np.any([(a > 0) & (b > 0) for a, b in pairs], axis=0)
            moves &= np.all([(a == b) | (a == 0) | (b == 0) for a, b in pairs], axis=0)
            explained = (shown & ~errs) + moves.astype(np.float64)
            wrong[:, one] = np.bincount(op_input, times * errs, op_inputs)
            score[:, one] = (
                np.bincount(op_input, times * explained, op_inputs) - _COST * wrong[:, one]
            )
        score[self.told[direction] != self.told[direction][state[:-1], None]] = -np.inf
        prior = np.zeros((score.shape[1], score.shape[1]))
        np.add.at(prior, self.said[direction][:-1], np.maximum(score, 0))
        score += (prior / np.maximum(2 * prior.max(axis=1, keepdims=True), 1))[
            self.said[direction][:-1]
        ]
        mine = np.arange(op_inputs), state[:-1]
        sound = wrong[mine] == 0
        score[sound[:, None] & (wrong > 0)] = -np.inf
        enough = np.where(sound, _STAYS, 1) * score.max(axis=1)
        moved = self.used[direction][:-1] & (score[mine] < enough)
        state[:-1] = np.where(moved, score.argmax(axis=1), state[:-1])
        # Unknown is what only errs; what nothing else says may be a state of its own.
        mine = mine[0], state[:-1]
        self.known[direction][:-1] = (
            ~self.used[direction][:-1] | (score[mine] > 0) | (wrong[mine] == 0)
        )
        return int(moved.sum())

    def merge_alike(self) -> None:
        """Make states one that do the same in all contexts, those of most evidence first."""
        while True:
            table = self._table()
            views = [table.seen_from(direction, self.shape) for direction in range(len(self.state))]
            alike = [told == told[:, None] for told in self.told]
            while True:
                pairs = zip(views, alike, strict=True)
                compared = [_compared(view, may, alike) for view, may in pairs]
                before, alike = alike, [may for may, _ in compared]
                if all(map(np.array_equal, before, alike)):
                    break
            if not sum(
                self._merge(direction, evidence) for direction, (_, evidence) in enumerate(compared)
            ):
                return

    def _merge(self, direction: int, evidence: np.ndarray) -> int:
        """Make pairs of states one for which there is enough evidence; how many."""
        enough = np.argsort(-evidence, axis=None, kind="stable")[: (evidence >= _EVIDENCE).sum()]
        weight = np.bincount(self.state[direction][self.by[direction]], self.times, len(evidence))
        taken: set[int] = set()
        for pair in np.column_stack(np.unravel_index(enough, evidence.shape)).tolist():
            if taken.isdisjoint(pair):
                taken |= set(pair)
                few, many = sorted(pair, key=weight.__getitem__)
                self.state[direction][self.state[direction] == few] = many
        return len(taken)


def _compared(
    view: _Table, may: np.ndarray, alike: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Which states of a way may be the same, bool [states, states], of those that might be so far.

    And the cells that speak for it. ``alike`` says of each way which states might be the same.
    """
    live = view.cells.any(axis=0)
    may, evidence = np.logical_and(may, np.outer(live, live)), np.zeros(may.shape)
    for one in np.flatnonzero(live):
        here = view.cells[:, one] > 0
        cells, symbol, following = view.cells[here], view.symbol[here], view.following
        shown = (cells > 0) & (symbol >= 0) & (symbol[:, [one]] >= 0)
        differs = shown & (symbol != symbol[:, [one]])
        steps, different, left_open = np.zeros((3, *cells.shape), dtype=bool)
        for part, might in zip(following, alike, strict=True):
            theirs, mine = part[here], part[here][:, [one]]
            both = (theirs > 0) & (mine > 0)
            steps |= both
            different |= both & (theirs != mine)
            left_open |= both & ~might[theirs, mine]
        same = ~differs & (shown | (steps & ~different))
        support = np.minimum(cells, cells[:, [one]])
        for weight in (cells > 0, support):
            parts = (differs, shown, left_open, steps)
            wrong, written, apart, moved = ((weight * part).sum(axis=0) for part in parts)
            may[one] &= (wrong <= _CONTRADICTIONS * written) & (apart <= _LEFT_OPEN * moved)
        evidence[one] = (support * same).sum(axis=0)
    may &= may.T
    return may, np.where(np.triu(may, 1), evidence, 0)
