"""Codes of a network that invents them, made few: those that do the same are merged.

Trained with soft codes, a network says one thing in several codes, and now and then two things in
one. But pages that are worked out with one code at a time are runs of an automaton: a state is what
a cell hands on, a step is what another cell makes of the states that it is handed and of what else
it sees. Two states are the same if, whatever they meet, the same symbols are written and the same
states follow. What true pages show of that is put together, pair by pair, most evidence first
(evidence-driven state merging: Lang, Pearlmutter & Price 1998, "Results of the Abbadingo One DFA
Learning Competition"), with all that follows from a pair (congruence closure: Downey, Sethi &
Tarjan 1980). The network then learns the codes that are left, on all sights evenly.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

_CONTRADICTIONS = 0.05  # for one cell that speaks for two states being the same, at most
_RARE = 0.005  # states that fewer cells lead to, of those with the same told part, are noise


class PageCells(NamedTuple):
    """N cells of pages that hand on C codes each, and are handed K."""

    window: np.ndarray  # int64 [N], which of all that cells see, but for the codes, is seen
    codes: np.ndarray  # int64 [N, C], what is handed on
    told: np.ndarray  # int64 [N, C], what is told beside each of these
    sources: np.ndarray  # int64 [N, K], the cells by which codes are handed to it, −1 for none
    kinds: tuple[int, ...]  # which of their codes each is
    symbol: np.ndarray  # int64 [N], what stands there in truth, −1 where it is given
    right: np.ndarray  # bool [N], whether that is what is written

    def counted(self) -> np.ndarray:
        """Cells that depend on nothing wrong, bool [N]: they see codes that mean something."""
        counted: np.ndarray = np.ones(len(self.window), dtype=bool)
        while True:
            sound = counted & self.right
            before, counted = counted, np.all((self.sources < 0) | sound[self.sources], axis=1)
            if np.array_equal(before, counted):
                return counted


def merged_codes(cells: PageCells, numbers: Sequence[int]) -> np.ndarray:
    """The codes that each cell should hand on, int64 [N, C]; −1: that is not known.

    ``numbers`` are how many there are of each code.
    """
    counted = cells.counted()
    seen = [
        np.where(source >= 0, cells.codes[source, kind], -1)
        for source, kind in zip(cells.sources.T, cells.kinds, strict=True)
    ]
    sights = np.stack((cells.window, *seen), axis=1)
    _, first, sight = np.unique(sights, axis=0, return_index=True, return_inverse=True)
    size = len(first)  # code c of sight s is state c * size + s
    handed = np.where(cells.sources >= 0, np.array(cells.kinds) * size + sight[cells.sources], -1)
    # What no cell is handed, as below the last row, means nothing.
    used = np.isin(np.arange(len(numbers) * size), handed)
    end = np.arange(len(numbers)) * size + sight[:, None]
    end = np.where(cells.right[:, None] & used[end], end, -1)
    # The same for all cells of a sight.
    told, codes = cells.told[first].T.ravel(), cells.codes[first].T.ravel()
    kind = np.repeat(np.arange(len(numbers)), size)
    weight = np.bincount(sight[counted & cells.right], minlength=size)
    weight = np.tile(weight, len(numbers)) * used
    groups = list(zip(kind.tolist(), told.tolist(), strict=True))
    steps = np.column_stack((cells.window, handed, cells.symbol, end))[counted]
    states = _Automaton(groups, _steps(steps, len(cells.kinds)))
    states.merge_codes(codes.tolist(), np.argsort(-weight, kind="stable").tolist())
    while any(states.merge_group(group) for group in sorted(set(groups))):
        pass  # what is merged adds to the evidence in other groups
    root = np.array([states.find(state) for state in range(len(groups))])
    weights = np.bincount(root, weight, minlength=len(groups))
    names = np.full(len(groups), -1)
    for c, one in sorted(set(groups)):
        mine = (kind == c) & (told == one)
        roots = np.unique(root[mine])
        roots = roots[np.argsort(-weights[roots], kind="stable")][: numbers[c]]
        roots = roots[weights[roots] > _RARE * weight[mine].sum()]
        # Each keeps a code of its own, the one that it has had most.
        use = np.zeros((len(roots), numbers[c]))
        for row, state in zip(use, roots, strict=True):
            np.add.at(row, codes[root == state], weight[root == state])
        states_named, names_found = linear_sum_assignment(use, maximize=True)
        names[roots[states_named]] = names_found
    return names[root].reshape(len(numbers), size).T[sight]


class _Step(NamedTuple):
    """What follows from what a cell sees."""

    symbol: int  # −1: given
    states: tuple[int, ...]  # −1: unknown
    times: int  # that it was seen

    def also(self, other: "_Step") -> "_Step":
        """The same step, seen again: of two symbols the one that was seen more often stands."""
        if self.symbol != other.symbol:
            return max(self, other, key=lambda each: each.times)
        pairs = zip(self.states, other.states, strict=True)
        states = tuple(mine if mine >= 0 else theirs for mine, theirs in pairs)
        return _Step(self.symbol, states, self.times + other.times)


_Seen = tuple[int, ...]  # a window, and the states that are handed to it, −1 for none
_Steps = dict[_Seen, _Step]


def _steps(cells: np.ndarray, handed: int) -> _Steps:
    """What was seen to follow from what: of cells the window, the states handed, symbol, states."""
    found, times = np.unique(cells, axis=0, return_counts=True)
    steps: _Steps = {}
    for row, number in zip(found.tolist(), times.tolist(), strict=True):
        seen, (symbol, *states) = tuple(row[: 1 + handed]), row[1 + handed :]
        step = _Step(symbol, tuple(states), number)
        steps[seen] = steps[seen].also(step) if seen in steps else step
    return steps


class _Merger(NamedTuple):
    """What changes if two states are the same."""

    evidence: int  # cells after which with either of two states the same is written, or handed on
    parents: dict[int, int]
    steps: _Steps
    uses: dict[int, set[_Seen]]


class _Automaton:
    """States, some of which are found to be the same: only those of one group can be."""

    def __init__(self, groups: list[tuple[int, int]], steps: _Steps) -> None:
        self.groups, self.steps, self.parent = groups, steps, list(range(len(groups)))
        self.uses: list[set[_Seen]] = [set() for _ in groups]  # steps that a state is handed to
        for seen in steps:
            for state in seen[1:]:
                if state >= 0:
                    self.uses[state].add(seen)

    def find(self, state: int) -> int:
        """The state that stands for it."""
        while self.parent[state] != state:
            self.parent[state] = state = self.parent[self.parent[state]]
        return state

    def merger(self, one: int, other: int, tolerance: float = 0.0) -> _Merger | None:
        """What follows from two states being the same; None: too much contradicts it."""
        parents: dict[int, int] = {}
        steps: _Steps = {}
        uses: dict[int, set[_Seen]] = {}

        def find(state: int) -> int:
            state = self.find(state)
            while state in parents:
                state = parents[state]
            return state

        def found(keys: Iterable[_Seen]) -> set[_Seen]:
            return {(key[0], *(s if s < 0 else find(s) for s in key[1:])) for key in keys}

        pairs, evidence, wrong = [(one, other)], 0, 0
        while pairs:
            a, b = map(find, pairs.pop())
            if a == b:
                continue
            if self.groups[a] != self.groups[b]:
                return None
            few, many = sorted((a, b), key=lambda state: len(uses.get(state, self.uses[state])))
            mine = found(uses.get(few, self.uses[few]))
            parents[few] = many
            uses[many] = uses.get(many, self.uses[many]) | found(mine)
            for key in mine:
                step = steps.get(key) or self.steps[key]
                (now,) = found((key,))
                if known := steps.get(now) or self.steps.get(now):
                    least, ends = min(known.times, step.times), (known.states, step.states)
                    if known.symbol != step.symbol:
                        wrong += least
                    else:
                        then = [pair for pair in zip(*ends, strict=True) if min(pair) >= 0]
                        same = then and all(find(mine) == find(theirs) for mine, theirs in then)
                        evidence += least if same or step.symbol >= 0 else 0
                        pairs += then
                    step = known.also(step)
                steps[now] = step
            if wrong > tolerance * evidence:
                return None
        return _Merger(evidence, parents, steps, uses)

    def accept(self, merger: _Merger) -> None:
        for state, parent in merger.parents.items():
            self.parent[state] = parent
        self.steps |= merger.steps
        for state, keys in merger.uses.items():
            self.uses[state] = keys

    def merge_codes(self, codes: list[int], order: list[int]) -> None:
        """Merge the states of one code, in an order, unless they contradict."""
        states: dict[tuple[tuple[int, int], int], list[int]] = {}
        for state in order:
            mine = states.setdefault((self.groups[state], codes[state]), [])
            mine[:] = dict.fromkeys(map(self.find, mine))
            if self.find(state) in mine:
                continue
            merger = next(filter(None, (self.merger(other, state) for other in mine)), None)
            if merger is None:
                mine.append(self.find(state))
            else:
                self.accept(merger)

    def merge_group(self, group: tuple[int, int]) -> bool:
        """Merge what has most evidence, again and again, as long as little contradicts it.

        In one group; whether anything was merged.
        """
        merged = False
        while True:
            mine = sorted({self.find(s) for s, one in enumerate(self.groups) if one == group})
            pairs = combinations(mine, 2)
            mergers = filter(None, (self.merger(*pair, _CONTRADICTIONS) for pair in pairs))
            best = max(mergers, key=lambda each: each.evidence, default=None)
            if best is None or not best.evidence:
                return merged
            self.accept(best)
            merged = True
