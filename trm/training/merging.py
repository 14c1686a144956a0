"""Codes of a network that invents them, made few: those that do the same are merged.

Trained with soft codes, a network says one thing in several codes, and now and then two things in
one. But pages that are worked out with one code at a time are runs of an automaton: a state is what
a cell hands on one way, all codes together; a step is what another cell makes of the states that it
is handed and of what else it sees. Two states are the same if, whatever they meet, the same symbols
are written and the same states follow. What true pages show of that is put together, state by
state, each with that for which there is most evidence (evidence-driven state merging: Lang,
Pearlmutter & Price 1998, "Results of the Abbadingo One DFA Learning Competition"), with all that
follows from a pair (congruence closure: Downey, Sethi & Tarjan 1980). States of few cells come
last, by evidence alone. The network then learns the messages that are left, on all sights evenly.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

_CONTRADICTIONS = 0.05  # for one cell that speaks for two states being the same, at most
_EVIDENCE = 5  # cells that speak for two states being the same, or lead to a state, at least
_MANY = 12  # cells that lead to a state, from which on what a network says of it counts


class PageCells(NamedTuple):
    """N cells of pages that hand on a message of codes in W ways each."""

    window: np.ndarray  # int64 [N], which of all that cells see, but for the codes, is seen
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
            before = right.copy()
            asked = self.sources[~right]
            right[asked[asked >= 0]] &= self.symbol[asked[asked >= 0]] >= 0
            if np.array_equal(before, right):
                return self._replace(right=right)

    def counted(self) -> np.ndarray:
        """Cells that depend on nothing wrong, bool [N]: they see codes that mean something."""
        counted: np.ndarray = np.ones(len(self.window), dtype=bool)
        while True:
            sound = counted & self.right
            before, counted = counted, np.all((self.sources < 0) | sound[self.sources], axis=1)
            if np.array_equal(before, counted):
                return counted


def merged_messages(cells: PageCells, numbers: Sequence[int]) -> np.ndarray:
    """The messages that each cell should hand on, int64 [N, W]; −1: that is not known.

    ``numbers`` are how many there are in each way.
    """
    counted, ways = cells.counted(), np.arange(len(numbers))
    received = np.take_along_axis(cells.messages, cells.sources, axis=0)
    sights = np.column_stack((cells.window, np.where(cells.sources >= 0, received, -1)))
    _, first, sight = np.unique(sights, axis=0, return_index=True, return_inverse=True)
    size = len(first)  # what follows from sight s in way w is state w * size + s
    handed = np.where(cells.sources >= 0, ways * size + sight[cells.sources], -1)
    # What no cell is handed, as below the last row, means nothing.
    used = np.isin(np.arange(len(ways) * size), handed)
    end = ways * size + sight[:, None]
    end = np.where(cells.right[:, None] & used[end], end, -1)
    # The same for all cells of a sight.
    told, messages = cells.told[first].T.ravel(), cells.messages[first].T.ravel()
    way = np.repeat(ways, size)
    weight = np.bincount(sight[counted & cells.right], minlength=size)
    weight = np.tile(weight, len(ways)) * used
    groups = list(zip(way.tolist(), told.tolist(), strict=True))
    steps = np.column_stack((cells.window, handed, end, cells.symbol))[counted]
    order = np.argsort(-weight, kind="stable").tolist()
    said = [*zip(groups, messages.tolist(), strict=True)]
    # What a network says counts at first where many cells show what it leads to, or none does.
    many = [state for state in order if not 0 < weight[state] < _MANY]
    states = _Automaton(groups, steps, range(len(groups)))
    states.merge(said, many, evidence=0)
    states.merge_alike(many)
    # Of what it says some is borne out by nothing else, as one message may mean two things that
    # pages never show in one place. Once all else is known, it is asked what these mean.
    found = states.roots.tolist()
    states = _Automaton(groups, steps, _borne_out(steps, states.roots, weight))
    states.merge_alike(many)
    weights = np.bincount(states.roots, weight, minlength=len(groups))[states.roots]
    states.merge(found, [state for state in many if weights[state] >= _MANY], evidence=0)
    # What few cells show is what these speak for; else what it says, unless they are too few.
    states.merge_few(order, weight)
    some = [state for state in order if _EVIDENCE <= weight[state] < _MANY]
    states.merge(said, some, evidence=0)
    root, names = states.roots, np.full(len(groups), -1)
    for one in sorted(set(groups)):
        mine = np.array([group == one for group in groups])
        names[mine] = _named(root[mine], messages[mine], weight[mine], numbers[one[0]])
    return names.reshape(len(ways), size).T[sight]


def _named(root: np.ndarray, said: np.ndarray, weight: np.ndarray, number: int) -> np.ndarray:
    """What N states of a group should say, int64 [N]; −1: too few cells lead to their like.

    Each root has a message of its own, of so many that there are: that which it has had most.
    """
    roots, of = np.unique(root, return_inverse=True)
    use = np.zeros((len(roots), number))
    np.add.at(use, (of, said), weight)
    kept = np.argsort(-use.sum(axis=1), kind="stable")[:number]
    kept = kept[use[kept].sum(axis=1) >= _EVIDENCE]
    named, found = linear_sum_assignment(use[kept], maximize=True)
    names = np.full(len(roots), -1)
    names[kept[named]] = found
    return names[of]


def _borne_out(steps: np.ndarray, root: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Who stands for each state that others bear out, int64 [states].

    States of one root that are met in the same contexts speak for one another, and so do others by
    way of these. Of each root most do; the rest falls into parts that stand for themselves.
    """
    handed = steps[:, 1 : 1 + (steps.shape[1] - 2) // 2]
    links = []  # of states and contexts
    for way in range(handed.shape[1]):
        met = handed[:, way] >= 0
        seen = np.column_stack((steps[met, :1], np.append(root, -1)[handed[met]]))
        context = np.unique(seen, axis=0, return_inverse=True)[1] + len(root) + len(steps) * way
        links.append((handed[met, way], context))
    ends = tuple(map(np.concatenate, zip(*links, strict=True)))
    size = len(root) + len(steps) * handed.shape[1]
    graph = csr_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(size, size))
    part = connected_components(graph, directed=False)[1][: len(root)]
    heavy = np.bincount(part, weight)[part]
    most = np.zeros(len(root))
    np.maximum.at(most, root, heavy)
    met = np.isin(np.arange(len(root)), ends[0])
    part = np.where((heavy == most[root]) | ~met, -1, part)
    _, first, same = np.unique(
        np.column_stack((root, part)), axis=0, return_index=True, return_inverse=True
    )
    return first[same]


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


class _Merger(NamedTuple):
    """What changes if two states are the same."""

    evidence: int  # cells after which with either of two states the same is written, or handed on
    parents: dict[int, int]
    steps: _Steps
    uses: dict[int, set[_Seen]]


class _Automaton:
    """States, some of which are found to be the same: only those of one group can be."""

    def __init__(
        self, groups: list[tuple[int, int]], cells: np.ndarray, alike: Sequence[int] | np.ndarray
    ) -> None:
        """``cells`` are windows, the states handed, the states that follow, and symbols.

        ``alike`` says who stands for each state from the beginning.
        """
        self.groups, self.parent = groups, [int(state) for state in alike]
        self.steps: _Steps = {}
        self.uses: list[set[_Seen]] = [set() for _ in groups]  # steps that a state is handed to
        ways = (cells.shape[1] - 2) // 2
        cells = cells.copy()
        cells[:, 1:-1] = np.append(self.parent, -1)[cells[:, 1:-1]]
        found, times = np.unique(cells, axis=0, return_counts=True)
        for (*row, symbol), number in zip(found.tolist(), times.tolist(), strict=True):
            seen, step = tuple(row[: 1 + ways]), _Step(symbol, tuple(row[1 + ways :]), number)
            self.steps[seen] = self.steps[seen].also(step) if seen in self.steps else step
            for state in seen[1:]:
                if state >= 0:
                    self.uses[state].add(seen)

    @property
    def roots(self) -> np.ndarray:
        """Who stands for each state, int64 [states]."""
        return np.array([self.find(state) for state in range(len(self.parent))])

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
            return {(key[0], *[s if s < 0 else find(s) for s in key[1:]]) for key in keys}

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
                now = (key[0], *[many if state == few else state for state in key[1:]])
                if known := steps.get(now) or self.steps.get(now):
                    least, ends = min(known.times, step.times), (known.states, step.states)
                    if known.symbol != step.symbol:
                        wrong += least
                        if not tolerance:
                            return None
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

    def merge_alike(self, order: list[int]) -> None:
        """Merge states of a group, in an order, by evidence, which grows with what is merged."""
        while self.merge(self.groups, order, _EVIDENCE, _CONTRADICTIONS):
            pass

    def merge_few(self, order: list[int], weight: np.ndarray) -> None:
        """Merge each state of few cells with the state of many that most evidence speaks for.

        With none, if as much speaks for several. The message itself does not count, as it may be
        made up; what later cells make of it does.
        """
        known = np.flatnonzero(np.bincount(self.roots, weight) >= _MANY).tolist()
        for state in order:
            if self.find(state) in known:
                continue
            mergers = (self.merger(one, state) for one in known)
            found = sorted(filter(None, mergers), key=lambda each: -each.evidence)
            if found and found[0].evidence > (found[1].evidence if found[1:] else 0):
                self.accept(found[0])
                known = list(dict.fromkeys(map(self.find, known)))

    def merge(
        self, classes: Sequence[Hashable], order: list[int], evidence: int, tolerance: float = 0.0
    ) -> bool:
        """Merge states, in an order, each with that of its class before it that most speaks for.

        If there is so much evidence, and what contradicts it is tolerated. Whether any was merged.
        """
        kept: dict[Hashable, list[int]] = {}
        contexts: dict[int, set[_Seen]] = {}  # in which states are met; -2 stands for them
        merged = False
        for state in order:
            others = kept.setdefault(classes[state], [])
            others[:] = dict.fromkeys(map(self.find, others))
            if (mine := self.find(state)) in others:
                continue
            for one in (mine, *others):
                if one not in contexts:
                    contexts[one] = {
                        (seen[0], *(-2 if self.find(s) == one else s for s in seen[1:]))
                        for seen in self.uses[one]
                    }
            mergers = (
                self.merger(other, mine, tolerance)
                for other in others
                if not evidence or not contexts[mine].isdisjoint(contexts[other])
            )
            best = max(filter(None, mergers), key=lambda each: each.evidence, default=None)
            if best is None or best.evidence < evidence:
                others.append(mine)
            else:
                self.accept(best)
                merged = True
                for one, parent in best.parents.items():
                    contexts[parent] = contexts.get(parent, set()) | contexts.pop(one, set())
        return merged
