"""Codes of a network that invents them, made few: those that do the same are merged.

Trained with soft codes, a network says one thing in several codes, and now and then two things in
one. But rows that are worked out from right to left with one code at a time are runs of an
automaton: a state is what a cell hands to the left, a step is what the next cell sees and writes.
Two states are the same if, whatever the next cell sees, it writes the same symbol and leads to the
same state. What true pages show of that is put together, pair by pair, most evidence first
(evidence-driven state merging: Lang, Pearlmutter & Price 1998, "Results of the Abbadingo One DFA
Learning Competition"). The network then learns the codes that are left, on all sights evenly.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

_CONTRADICTIONS = 0.05  # for one cell that speaks for two states being the same, at most
_RARE = 0.005  # states that fewer cells lead to, of those with the same told part, are noise


class RowCells(NamedTuple):
    """N cells, each after the one on its right.

    ``window``: which of all that cells see, but for the code, is seen, int64 [N]; ``told``: what
    is told of the message that is handed left, int64 [N]; ``code``: the code beside it, int64 [N];
    ``source``: the cell on the right, −1 for none, int64 [N]; ``symbol``: what stands there in
    truth, −1 where it is given, int64 [N]; ``right``: whether that is what is written, bool [N].
    """

    window: np.ndarray
    told: np.ndarray
    code: np.ndarray
    source: np.ndarray
    symbol: np.ndarray
    right: np.ndarray

    def counted(self) -> np.ndarray:
        """Cells with nothing wrong on their right, bool [N]: they see codes that mean something."""
        counted = np.ones(len(self.code), dtype=bool)
        while True:
            more = np.where(self.source >= 0, (counted & self.right)[self.source], True)
            if (more == counted).all():
                return counted
            counted = more


def merged_codes(cells: RowCells, codes: int) -> np.ndarray:
    """The code that each cell should hand on, int64 [N]; −1: that is not known.

    Args:
        cells: of pages of training.
        codes: how many there are.
    """
    counted = cells.counted()
    seen = np.where(cells.source >= 0, cells.code[cells.source], -1)
    _, first, sight = np.unique(
        cells.window * (codes + 1) + seen, return_index=True, return_inverse=True
    )
    told, code = cells.told[first], cells.code[first]  # the same for all cells of a sight
    weight = np.bincount(sight[counted & cells.right], minlength=len(first))
    states = _states(cells, counted, sight, told.tolist())
    states.merge_codes(code, weight)
    states.merge_all()
    root = np.array([states.find(state) for state in range(len(first))])
    weights = np.bincount(root, weight, minlength=len(first))
    names = np.full(len(first), -1)
    for one in np.unique(told):
        roots = np.unique(root[told == one])
        roots = roots[np.argsort(-weights[roots], kind="stable")][:codes]
        roots = roots[weights[roots] > _RARE * weight[told == one].sum()]
        # Each keeps a code of its own, the one that it has had most.
        use = np.zeros((len(roots), codes))
        for row, state in zip(use, roots, strict=True):
            np.add.at(row, code[root == state], weight[root == state])
        states_named, names_found = linear_sum_assignment(use, maximize=True)
        names[roots[states_named]] = names_found
    return names[root[sight]]


def _states(
    cells: RowCells, counted: np.ndarray, sight: np.ndarray, told: list[int]
) -> "_Automaton":
    """Of every sight the state in which it leaves its row, and what was seen to follow."""
    next_cells = counted & (cells.source >= 0)
    after = np.where(cells.right[next_cells], sight[next_cells], -1)
    before = sight[cells.source[next_cells]]
    steps = np.stack((before, cells.window[next_cells], cells.symbol[next_cells], after), axis=1)
    steps, times = np.unique(steps, axis=0, return_counts=True)
    follows: list[dict[int, _Step]] = [{} for _ in told]
    for (state, window, symbol, then), number in zip(steps.tolist(), times.tolist(), strict=True):
        # In order: of one symbol the last step is one that leads on. Of several, which only a code
        # of two meanings is followed by, it is an arbitrary one.
        follows[state][window] = _Step(symbol, then, number)
    return _Automaton(told, follows)


class _Step(NamedTuple):
    """What follows from a state and a window."""

    symbol: int
    state: int  # −1: unknown
    times: int  # that it was seen

    def either(self, other: "_Step") -> "_Step":
        state = self.state if self.state >= 0 else other.state
        return _Step(self.symbol, state, self.times + other.times)


class _Merger(NamedTuple):
    """What changes if two states are the same."""

    evidence: int  # cells of which both have shown the window, and after which the same is written
    parents: dict[int, int]
    follows: dict[int, dict[int, _Step]]


class _Automaton:
    """States, some of which are found to be the same.

    Args:
        told: of each state; only those of which the same is told can be the same.
        follows: what was seen after each state, by window.
    """

    def __init__(self, told: list[int], follows: list[dict[int, _Step]]) -> None:
        self.told, self.follows, self.parent = told, follows, list(range(len(told)))

    def find(self, state: int, parents: dict[int, int] | None = None) -> int:
        """The state that stands for it."""
        while self.parent[state] != state:
            self.parent[state] = state = self.parent[self.parent[state]]
        while parents and state in parents:
            state = parents[state]
        return state

    def merger(self, one: int, other: int, tolerance: float = 0.0) -> _Merger | None:
        """What follows from two states being the same; None: too much contradicts it."""
        parents: dict[int, int] = {}
        follows: dict[int, dict[int, _Step]] = {}
        pairs, evidence, wrong = [(one, other)], 0, 0
        while pairs:
            a, b = (self.find(state, parents) for state in pairs.pop())
            if a == b:
                continue
            if self.told[a] != self.told[b]:
                return None
            few, many = sorted((a, b), key=lambda s: len(follows.get(s, self.follows[s])))
            together = dict(follows.get(many, self.follows[many]))
            for window, step in follows.get(few, self.follows[few]).items():
                known = together.get(window)
                if known is None:
                    together[window] = step
                elif known.symbol != step.symbol:
                    wrong += min(known.times, step.times)
                    together[window] = max(known, step, key=lambda each: each.times)
                else:
                    evidence += min(known.times, step.times)
                    together[window] = known.either(step)
                    if known.state >= 0 and step.state >= 0:
                        pairs.append((known.state, step.state))
            if wrong > tolerance * evidence:
                return None
            parents[few], follows[many] = many, together
        return _Merger(evidence, parents, follows)

    def accept(self, merger: _Merger) -> None:
        for state, parent in merger.parents.items():
            self.parent[state] = parent
        for state in merger.follows.keys() - merger.parents.keys():
            self.follows[state] = merger.follows[state]

    def merge_codes(self, code: np.ndarray, weight: np.ndarray) -> None:
        """Merge the states of one code, those with most cells first, unless they contradict."""
        states: dict[tuple[int, int], list[int]] = {}
        for state in np.argsort(-weight, kind="stable").tolist():
            mine = states.setdefault((self.told[state], int(code[state])), [])
            mine[:] = dict.fromkeys(self.find(other) for other in mine)
            if self.find(state) in mine:
                continue
            merger = next(filter(None, (self.merger(other, state) for other in mine)), None)
            if merger is None:
                mine.append(self.find(state))
            else:
                self.accept(merger)

    def merge_all(self) -> None:
        """Merge what has most evidence, again and again, as long as little contradicts it."""
        for told in set(self.told):
            while True:
                mine = {self.find(s) for s in range(len(self.told)) if self.told[s] == told}
                mergers = [
                    self.merger(one, other, _CONTRADICTIONS)
                    for one in sorted(mine)
                    for other in sorted(mine)
                    if one < other and not self.follows[one].keys().isdisjoint(self.follows[other])
                ]
                best = max(filter(None, mergers), key=lambda each: each.evidence, default=None)
                if best is None or not best.evidence:
                    break
                self.accept(best)
