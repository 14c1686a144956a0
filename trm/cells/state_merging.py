"""State merging: latent codes with the same effect become one.

A network trained with relaxed codes uses several codes for one meaning, and sometimes one code for
two meanings. Solutions with decided codes are runs of an automaton:

- A *state* is the message that a cell passes in one direction, all its codes together.
- A *context* is a cell input with the states that the cell receives.
- A *step*: a cell in a context writes a symbol and passes states.

Example: cells read bits and write whether their sum so far is divisible by 3. A network passes
codes 0 to 5, in which 0 and 3, 1 and 4, and 2 and 5 mean the same remainder. In the context
(bit 1, state 2) as in (bit 1, state 5) the true symbol is "yes", and the passed states, 0 or 3, may
be the same. If this holds in nearly all contexts, with at least `_EVIDENCE` cells, 2 and 5 become
one. In the end 3 states remain.

The state that each op input should pass is found from true solutions. Three steps alternate:

- Tabulate for each context the true symbol and the passed states of most of its cells.
- Choose for each op input the state that best explains the cells that receive it (hard EM: Celeux &
  Govaert 1992, "A classification EM algorithm for clustering and two stochastic versions").
- Merge two states if they lead to the same symbol, and to states that may be the same, in every
  context in which both occur (compatible states of an incompletely specified machine: Paull & Unger
  1959, "Minimizing the number of states in incompletely specified sequential switching functions").

The network then learns the remaining messages, on all op inputs evenly.
"""

import math
from typing import NamedTuple

import numpy as np

_ROUNDS = 6  # highest number of alternations
# Conditions for merging two states. The first two are shares of the contexts in which both occur,
# and of the cells in these contexts.
_CONTRADICTIONS = 0.05  # highest share with different symbols
_LEFT_OPEN = 0.25  # highest share that passes states that cannot be the same
_EVIDENCE = 5  # fewest cells in contexts in which both states do the same
_COST = 2.0  # cost of a cell that a state explains incorrectly, in explained cells
_STAYS = 0.9  # an op input keeps its state if that has at least this share of the best score


class SolutionCells(NamedTuple):
    """N cells of solutions that pass a message of codes in each of D directions."""

    cell_input: np.ndarray  # int64 [N], id of the cell input without codes
    messages: np.ndarray  # int64 [N, D], id of all codes passed in a direction
    hints: np.ndarray  # int64 [N, D], id of the signals with labels passed in a direction
    sources: np.ndarray  # int64 [N, D], index of the cell that sends the message, −1 for none
    symbol: np.ndarray  # int64 [N], the true symbol, −1 for given cells
    right: np.ndarray  # bool [N], True if the model writes the true symbol

    def suspected(self) -> "SolutionCells":
        """Return the cells with given cells marked incorrect if their messages reach an error.

        A given cell writes no symbol, so its own correctness cannot be observed.
        """
        right = self.right.copy()
        while True:
            before, senders = right.copy(), self.sources[~right]
            right[senders[senders >= 0]] &= self.symbol[senders[senders >= 0]] >= 0
            if np.array_equal(before, right):
                return self._replace(right=right)

    def counted(self) -> np.ndarray:
        """Return the cells whose sources are all correct, bool [N].

        Codes of other cells are ignored: they may depend on errors.
        """
        counted: np.ndarray = np.ones(len(self.cell_input), dtype=bool)
        while True:
            sound = counted & self.right
            before, counted = counted, np.all((self.sources < 0) | sound[self.sources], axis=1)
            if np.array_equal(before, counted):
                return counted


def merged_messages(cells: SolutionCells) -> np.ndarray:
    """Return the messages that each cell should pass, int64 [N, D]; −1: unknown."""
    machine = _Machine(cells)
    for _ in range(_ROUNDS):
        machine.merge_alike()
        if not sum([machine.choose(direction) for direction in range(cells.messages.shape[1])]):
            break
    return machine.messages()


class _Table(NamedTuple):
    """Observations by context: a cell input and the states that the cell receives.

    Arrays have one entry for each context id. In a table `seen_from` a direction they are
    [contexts without this direction, states of this direction].
    """

    cells: np.ndarray  # number of cells, float64
    symbol: np.ndarray  # true symbol of most cells, int64; −1: it is given
    following: list[np.ndarray]  # state that most cells pass in each direction, int64; 0: unknown

    def seen_from(self, direction: int, shape: tuple[int, ...]) -> "_Table":
        """Return arrays [others, states] of contexts with several states of a direction."""

        def turned(part: np.ndarray) -> np.ndarray:
            return np.moveaxis(part.reshape(shape), 1 + direction, -1).reshape(
                -1, shape[1 + direction]
            )

        several = (turned(self.cells) > 0).sum(axis=1) > 1
        cells, symbol, *following = (turned(part)[several] for part in (*self[:2], *self[2]))
        return _Table(cells, symbol, following)


class _Machine:
    """Automaton with states in each direction, from 1; 0: there is no neighbour.

    It is built from rows. A row counts equal cells, in inputs and outputs, that depend on correct
    cells alone.
    """

    def __init__(self, cells: SolutionCells) -> None:
        there = cells.sources >= 0
        received = np.take_along_axis(cells.messages, cells.sources, axis=0)
        op_inputs = np.column_stack((cells.cell_input, np.where(there, received, -1)))
        _, first, self.op_input = np.unique(
            op_inputs, axis=0, return_index=True, return_inverse=True
        )
        size = len(first)  # also the index of a missing neighbour's op input
        cell_input = np.unique(cells.cell_input, return_inverse=True)[1]
        by = np.where(there, self.op_input[cells.sources], size)
        rows = np.column_stack((cell_input, self.op_input, cells.symbol, cells.right, by))
        rows, times = np.unique(rows[cells.counted()], axis=0, return_counts=True)
        self.cell_input, self.own, self.symbol, right = rows.T[:4]
        self.right, self.by, self.times = right > 0, rows.T[4:], times.astype(np.float64)
        # For each direction: the network's own state of each op input, and the hints and the
        # message of each state.
        self.initial: list[np.ndarray] = []
        self.hints: list[np.ndarray] = []
        self.message: list[np.ndarray] = []
        for pair in zip(cells.hints[first].T, cells.messages[first].T, strict=True):
            pairs, state = np.unique(np.column_stack(pair), axis=0, return_inverse=True)
            self.initial.append(np.append(1 + state, 0))
            hints, message = np.pad(pairs, ((1, 0), (0, 0)), constant_values=-1).T
            self.hints.append(hints)
            self.message.append(message)
        self.state = [initial.copy() for initial in self.initial]
        # A message that no cell receives, as below the last row, is kept as it is.
        self.used = [np.isin(np.arange(size + 1), by[by < size]) for by in self.by]
        self.known = [np.ones(size + 1, dtype=bool) for _ in self.by]
        self.shape = (int(cell_input.max()) + 1, *map(len, self.message))

    def messages(self) -> np.ndarray:
        """Return the message of each cell and direction, int64 [N, D]; −1: unknown."""
        directions = zip(self.known, self.message, self.state, strict=True)
        found = [np.where(known, message[state], -1) for known, message, state in directions]
        return np.stack(found, axis=1)[self.op_input]

    def _contexts(self, but: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the context of each row, and whether its states are known.

        The state of direction ``but`` counts as 0.
        """
        parts, known = [self.cell_input], np.ones(len(self.cell_input), dtype=bool)
        for direction, by in enumerate(self.by):
            parts.append(self.state[direction][by] * (direction != but))
            known &= self.known[direction][by] | (direction == but)
        return np.ravel_multi_index(parts, self.shape), known

    def _following(self) -> list[np.ndarray]:
        """Return the state that each row passes, for each direction; 0: unknown."""
        directions = zip(self.used, self.known, self.state, strict=True)
        return [
            np.where(self.right & (used & known)[self.own], state[self.own], 0)
            for used, known, state in directions
        ]

    def _table(self) -> _Table:
        contexts, known = self._contexts()
        total = math.prod(self.shape)

        def most(values: np.ndarray, least: int) -> np.ndarray:
            """Return the most frequent value of each context, from ``least`` up."""
            found, valid = np.full(total, least - 1), known & (values >= least)
            pairs = np.column_stack((contexts, values))[valid]
            pairs, which = np.unique(pairs, axis=0, return_inverse=True)
            order = np.argsort(np.bincount(which, self.times[valid]), kind="stable")
            found[pairs[order, 0]] = pairs[order, 1]
            return found

        cells = np.bincount(contexts[known], self.times[known], minlength=total)
        return _Table(cells, most(self.symbol, 0), [most(part, 1) for part in self._following()])

    def choose(self, direction: int) -> int:
        """Choose for each op input the state that best explains its receivers.

        Contexts that an op input alone accounts for do not count. An error-free state is replaced
        only by another error-free state. Of states with equal scores, the one with the highest
        score over all op inputs with the same original state is chosen.

        Returns:
            The number of op inputs whose state changed.
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
        alone = np.bincount(same, times)[same]  # the op input's own cells in this context
        step, op_inputs = math.prod(self.shape[2 + direction :]), len(state) - 1
        score, wrong = np.full((2, op_inputs, self.shape[1 + direction]), -np.inf)
        for one in range(1, self.shape[1 + direction]):
            at = contexts + one * step
            others = table.cells[at] > np.where(state[op_input] == one, alone, 0)
            labelled = others & (symbol >= 0) & (table.symbol[at] >= 0)
            errs = labelled & (symbol != table.symbol[at])
            pairs = [(mine, other[at]) for mine, other in zip(after, table.following, strict=True)]
            moves = others & ~errs & np.any([(a > 0) & (b > 0) for a, b in pairs], axis=0)
            moves &= np.all([(a == b) | (a == 0) | (b == 0) for a, b in pairs], axis=0)
            explained = (labelled & ~errs) + moves.astype(np.float64)
            wrong[:, one] = np.bincount(op_input, times * errs, op_inputs)
            score[:, one] = (
                np.bincount(op_input, times * explained, op_inputs) - _COST * wrong[:, one]
            )
        score[self.hints[direction] != self.hints[direction][state[:-1], None]] = -np.inf
        prior = np.zeros((score.shape[1], score.shape[1]))
        np.add.at(prior, self.initial[direction][:-1], np.maximum(score, 0))
        score += (prior / np.maximum(2 * prior.max(axis=1, keepdims=True), 1))[
            self.initial[direction][:-1]
        ]
        mine = np.arange(op_inputs), state[:-1]
        sound = wrong[mine] == 0
        score[sound[:, None] & (wrong > 0)] = -np.inf
        enough = np.where(sound, _STAYS, 1) * score.max(axis=1)
        moved = self.used[direction][:-1] & (score[mine] < enough)
        state[:-1] = np.where(moved, score.argmax(axis=1), state[:-1])
        # A state with errors and no positive score is unknown; without errors it may be unique.
        mine = mine[0], state[:-1]
        self.known[direction][:-1] = (
            ~self.used[direction][:-1] | (score[mine] > 0) | (wrong[mine] == 0)
        )
        return int(moved.sum())

    def merge_alike(self) -> None:
        """Merge states that do the same in all contexts, pairs with the most evidence first."""
        while True:
            table = self._table()
            views = [table.seen_from(direction, self.shape) for direction in range(len(self.state))]
            alike = [hints == hints[:, None] for hints in self.hints]
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
        """Merge pairs of states with enough evidence; return the number of merged states."""
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
    """Compare the states of a direction pairwise.

    Args:
        view: the table of this direction, see `_Table.seen_from`.
        may: pairs that may be the same so far, bool [states, states].
        alike: of each direction, pairs that may be the same so far.

    Returns:
        may: pairs that still may be the same, bool [states, states].
        evidence: number of cells that support a pair, float64 [states, states].
    """
    live = view.cells.any(axis=0)
    may, evidence = np.logical_and(may, np.outer(live, live)), np.zeros(may.shape)
    for one in np.flatnonzero(live):
        here = view.cells[:, one] > 0
        cells, symbol, following = view.cells[here], view.symbol[here], view.following
        labelled = (cells > 0) & (symbol >= 0) & (symbol[:, [one]] >= 0)
        differs = labelled & (symbol != symbol[:, [one]])
        steps, different, left_open = np.zeros((3, *cells.shape), dtype=bool)
        for part, might in zip(following, alike, strict=True):
            theirs, mine = part[here], part[here][:, [one]]
            both = (theirs > 0) & (mine > 0)
            steps |= both
            different |= both & (theirs != mine)
            left_open |= both & ~might[theirs, mine]
        same = ~differs & (labelled | (steps & ~different))
        support = np.minimum(cells, cells[:, [one]])
        for weight in (cells > 0, support):
            parts = (differs, labelled, left_open, steps)
            wrong, written, apart, moved = ((weight * part).sum(axis=0) for part in parts)
            may[one] &= (wrong <= _CONTRADICTIONS * written) & (apart <= _LEFT_OPEN * moved)
        evidence[one] = (support * same).sum(axis=0)
    may &= may.T
    return may, np.where(np.triu(may, 1), evidence, 0)
