"""What probes get right, counted over the problems of a size."""

from dataclasses import replace
from typing import Any

import numpy as np

from canvas.hints import UNDEFINED
from trm.probing.cells import Examples
from trm.probing.features import Site, Watched
from trm.probing.fitting import Cells, Probes, take
from trm.probing.results import (
    ALL,
    ROW,
    Count,
    FirstError,
    Gap,
    Reading,
    SizeResult,
    Table,
)

_RESAMPLES = 1000
_READERS = ("probe", "head", "control", "known")


class Tally:
    """Counts by problem, so that intervals can be those of problems.

    Args:
        probes: fitted.
        last: the site whose sub-tasks are compared with the answer.
        problems: how many there will be.
        seed: of the bootstrap.
    """

    def __init__(self, probes: Probes, last: Site, problems: int, seed: int) -> None:
        self.probes, self.last, self.problems, self.seed = probes, last, problems, seed
        self.names = tuple(probes.classes)
        shape = (2, len(self.names), problems)  # scopes: the working row, all cells
        self.right: dict[tuple[str, Site], np.ndarray] = {}
        self.total, self.known, self.majority = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        self.read: set[str] = set()  # the hints that the model's own heads name
        # By problem and row that is filled in, grown as rows come; None: no such row yet.
        self.subtasks = np.ones((problems, 0), dtype=bool)
        self.answers = np.ones((problems, 0), dtype=bool)
        self.there = np.zeros((problems, 0), dtype=bool)
        self.places: np.ndarray | None = None  # [right or total, hints, rows, columns]
        self.size = (0, 0)

    def add(self, examples: Examples, watched: Watched, first: int) -> None:
        """Count a batch, whose first problem has this number."""
        cells = take(examples, watched)
        problem = examples.problem[cells.example] + first
        defined = cells.hints != UNDEFINED
        known = defined & self.probes.known(cells.types)[:, None]
        controls = self.probes.control(cells.types, cells.hints)
        self.total += self._count(defined, cells.working, problem)
        self.known += self._count(known, cells.working, problem)
        for scope, majority in enumerate(self.probes.majority):
            counted = self._count(defined & (cells.hints == majority), cells.working, problem)
            self.majority[scope] += counted[scope]
        judged = None
        for site, features in cells.features.items():
            said, control = self.probes(site, features)
            right = defined & (said == cells.hints)
            self._add("probe", site, right, cells.working, problem)
            self._add("known", site, right & known, cells.working, problem)
            self._add("control", site, known & (control == controls), cells.working, problem)
            if site.name == self.last.name and site.step in watched.heads:
                named = self._heads(watched, site.step, cells)
                right = np.where(named == UNDEFINED, right, defined & (named == cells.hints))
                self._add("head", site, right, cells.working, problem)
            if site == self.last:
                judged = right | ~defined
        assert judged is not None
        self._rows(examples, watched, cells, judged, first)

    def result(self, size: SizeResult) -> SizeResult:
        """The size with its figures."""
        weights = np.random.default_rng(self.seed).multinomial(
            self.problems, np.full(self.problems, 1 / self.problems), _RESAMPLES
        )
        readings = []
        sites = dict.fromkeys(site for reader, site in self.right if reader == "probe")
        for scope, name in enumerate((ROW, ALL)):
            for h, hint in enumerate(self.names):
                total, known = self.total[scope, h], self.known[scope, h]
                if not total.any():
                    continue
                majority = _share(self.majority[scope, h], total, weights)
                for site in sites:
                    counts: dict[str, Count | None] = {
                        reader: _share(
                            self.right[reader, site][scope, h],
                            known if reader in ("control", "known") else total,
                            weights,
                        )
                        for reader in _READERS
                        if (reader, site) in self.right and (reader != "head" or hint in self.read)
                    }
                    where = (hint, site.name, site.step, name)
                    counts.setdefault("head", None)
                    readings.append(Reading(*where, majority=majority, **counts))  # type: ignore[arg-type]
        return replace(
            size,
            height=self.size[0],
            width=self.size[1],
            problems=self.problems,
            rows=int(self.there.sum()),
            cells=int(self.total[1].max(axis=0).sum()),
            readings=readings,
            gap=self._gap(),
            first_error=self._first_error(weights),
        )

    @property
    def judge(self) -> str:
        """Who says what a sub-task is: the model's own heads where it has any."""
        return "head" if self.read else "probe"

    @property
    def judged(self) -> list[str]:
        """The sub-tasks of the working row that are judged: those with a head, if any has one."""
        asked = self.total[0].any(axis=1)
        return [
            name
            for name, there in zip(self.names, asked, strict=True)
            if there and (not self.read or name in self.read)
        ]

    def _heads(self, watched: Watched, step: int, cells: Cells) -> np.ndarray:
        """What the model's heads name, ``uint8 [N, hints]``; undefined without a head."""
        named = np.full(cells.hints.shape, UNDEFINED, dtype=np.uint8)
        for h, name in enumerate(self.names):
            if name in watched.heads[step]:
                self.read.add(name)
                maps = watched.heads[step][name].flatten(1).cpu().numpy()
                named[:, h] = maps[cells.example, cells.cell]
        return named

    def _count(self, flags: np.ndarray, working: np.ndarray, problem: np.ndarray) -> np.ndarray:
        """Flags ``bool [N, hints]`` by scope, hint and problem."""
        return np.stack(
            [
                [
                    np.bincount(problem, weights=column, minlength=self.problems).astype(np.int64)
                    for column in part.T
                ]
                for part in (flags & working[:, None], flags)
            ]
        )

    def _add(
        self, reader: str, site: Site, flags: np.ndarray, working: np.ndarray, problem: np.ndarray
    ) -> None:
        counted = self._count(flags, working, problem)
        key = reader, site
        self.right[key] = self.right[key] + counted if key in self.right else counted

    def _rows(
        self, examples: Examples, watched: Watched, cells: Cells, right: np.ndarray, first: int
    ) -> None:
        """Rows whose sub-tasks, and whose answers, are all right; and where cells are wrong."""
        B, H, W = examples.inputs.shape
        self.size = H, W
        if self.places is None:
            self.places = np.zeros((2, len(self.names), H, 2 * W), dtype=np.int64)
        steps = examples.rows - examples.first[:, None]  # [B, H]
        grow = max(0, H - self.there.shape[1])
        self.there = np.pad(self.there, ((0, 0), (0, grow)))
        for name in ("subtasks", "answers"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, grow)), constant_values=1))
        problem = np.broadcast_to((examples.problem + first)[:, None, None], (B, H, W))
        step = np.broadcast_to(steps[:, :, None], (B, H, W))
        working = examples.working
        self.there[problem[working], step[working]] = True
        wrong = working & (watched.answers != examples.labels)
        self.answers[problem[wrong], step[wrong]] = False
        counted = [self.names.index(name) for name in self.judged]
        row, column = np.divmod(cells.cell, W)
        at = cells.working
        bad = at & ~right[:, counted].all(axis=1)
        self.subtasks[
            examples.problem[cells.example[bad]] + first, steps[cells.example[bad], row[bad]]
        ] = False
        place = (
            examples.rows[cells.example, row][at],
            (examples.columns[cells.example, column] + W)[at].clip(0, 2 * W - 1),
        )
        for h in counted:
            defined = (cells.hints[at, h] != UNDEFINED).astype(np.int64)
            np.add.at(self.places[0, h], place, defined * right[at, h])
            np.add.at(self.places[1, h], place, defined)

    def _gap(self) -> Gap:
        rows = _table(self.subtasks[self.there], self.answers[self.there])
        subtasks = (self.subtasks | ~self.there).all(axis=1)
        whole = _table(subtasks, (self.answers | ~self.there).all(axis=1))
        return Gap(self.judge, self.judged, rows, whole)

    def _first_error(self, weights: np.ndarray) -> FirstError:
        """The sub-task with the lowest accuracy, and the cell where it is wrong most often."""
        assert self.places is not None
        right, total = self.places
        counted = [h for h, name in enumerate(self.names) if name in self.judged and total[h].any()]
        if not counted:
            return FirstError(self.judge, "")
        shares = {h: right[h].sum() / total[h].sum() for h in counted}
        worst = min(counted, key=lambda h: (shares[h], h))
        if shares[worst] == 1:
            return FirstError(self.judge, "")
        wrong = total[worst] - right[worst]
        row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
        return FirstError(
            self.judge,
            self.names[worst],
            _share(self.right[self.judge, self.last][0, worst], self.total[0, worst], weights),
            int(row) + 1,
            int(column) - self.size[1] + 1,
            Count.wilson(int(right[worst][row, column]), int(total[worst][row, column])),
        )


def _table(subtasks: Any, answers: Any) -> Table:
    """From ``bool [N]`` each."""
    pairs = [(subtasks, answers), (subtasks, ~answers), (~subtasks, answers), (~subtasks, ~answers)]
    return Table(*(int((one & other).sum()) for one, other in pairs))


def _share(right: np.ndarray, total: np.ndarray, weights: np.ndarray) -> Count:
    """A share of cells from counts by problem ``[P]``; see `trm.probing.results` of its interval.

    Args:
        right, total: of each problem.
        weights: ``int64 [resamples, P]``, how often each problem is in each bootstrap sample.
    """
    k, n = int(right.sum()), int(total.sum())
    if not 0 < k < n:
        problems = int((total > 0).sum())
        ends = Count.wilson(problems if k else 0, problems)
        return Count(k, n, ends.low, ends.high)
    drawn = weights @ total
    shares = (weights @ right)[drawn > 0] / drawn[drawn > 0]
    low, high = np.percentile(shares, (2.5, 97.5))
    return Count(k, n, float(low), float(high))
