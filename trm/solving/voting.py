"""Voting: solve a problem in many views and combine their answers.

A view is a symmetry of the square and a shift. Each view is masked before it is turned, turned back
after the model has filled it, and compared with the others in the problem's own frame.

Views vote per row or per solution. Per row, the winning row is written to the one canvas that all
views then continue from. Per solution, each view is solved to the end on its own, and then whole
solutions vote.

A recursive model can work on each view several times, with noise on its states
(`trm.solving.noise`); such rollouts vote as views do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from augment.symmetry import SYMMETRIES, lookup
from augment.views import View, distinct_views
from canvas.choices import check_choice
from canvas.drawing import Drawing
from trm.solving.rows import FilledCanvases, Prediction, fill_row_by_row, in_views

if TYPE_CHECKING:
    from trm.solving.predictor import Predictor

PER = ("row", "solution")
RANDOM = "random"  # each canvas in one of the eight symmetries, by the seed and the problem


@dataclass(frozen=True)
class Voting:
    """Settings of a vote: the solutions of a problem, and the rule by which they vote.

    A problem is solved in several views, in several rollouts with noise, in both orders of its
    operands, or, where its orientation is unknown, for each guess of that.

    Raises:
        ValueError: a setting has no valid value.
    """

    views: int = 1  # highest number of different views of a problem, the identity first
    # Of views, beside shifts. None: those of training, which `Solver.with_voting` knows.
    symmetries: tuple[str, ...] | None = None
    vote: str = "majority"  # one of `VOTES`
    per: str = "row"  # one of `PER`: after each row, which all views then share, or at the end
    seed: int = 0  # of views and noise
    orders: int = 1  # 2 solves each problem with its operands swapped, too; answers vote
    rollouts: int = 1  # of each view, all but the first with noise
    noise: float = 0.0  # standard deviation on z_H, before each supervision step
    # Orientation of the canvases, a symmetry or `RANDOM`, unknown to the model. Each symmetry is a
    # guess with its own solution, see `trm.solving.orientation`. None: the canvas is upright.
    orientation: str | None = None

    def __post_init__(self) -> None:
        check_choice("vote", self.vote, VOTES)
        check_choice("vote-per", self.per, PER)
        for name in self.symmetries or ():
            check_choice("symmetry", name, SYMMETRIES)
        if self.views < 1:
            raise ValueError(f"a problem is solved in at least one view, not {self.views}")
        if self.orders not in (1, 2):
            raise ValueError(f"a problem has 1 or 2 orders of its operands, not {self.orders}")
        if self.rollouts < 1:
            raise ValueError(f"each view has at least one rollout, not {self.rollouts}")
        if not (math.isfinite(self.noise) and self.noise >= 0):
            raise ValueError(f"noise is a standard deviation from 0 up, not {self.noise}")
        if (self.rollouts > 1) != (self.noise > 0):
            raise ValueError(
                "rollouts of a view differ only in their noise: give both, like --rollouts 8 "
                "--noise 0.2"
            )
        if self.orientation is not None:
            self._check_orientation(self.orientation)

    def _check_orientation(self, orientation: str) -> None:
        check_choice("view", orientation, (*SYMMETRIES, RANDOM))
        if self.rollouts > 1 or self.views > 1:
            raise ValueError(
                "a canvas in an unknown orientation has a solution for each guess of it: "
                "leave out --views and --rollouts"
            )
        if self.per != "solution":
            raise ValueError(
                "guesses of an orientation fill in different rows, so their solutions vote: "
                "--vote-per solution"
            )

    @property
    def guesses(self) -> tuple[str, ...]:
        """Symmetries that a canvas of an unknown orientation may be given in."""
        return self.symmetries or tuple(SYMMETRIES)

    @property
    def transposes(self) -> bool:
        """True if a view may exchange rows and columns; guesses are undone before solving."""
        return self.orientation is None and any(
            lookup(name).transpose for name in self.symmetries or ()
        )

    @property
    def solutions(self) -> int:
        """Highest number of solutions of one problem: views, or guesses, x orders x rollouts."""
        views = self.views if self.orientation is None else len(self.guesses)
        return views * self.orders * self.rollouts


class Tally(NamedTuple):
    """An answer, with the number of views that gave it and their mean confidence."""

    # In a `Decision` the ids of cells, tuple[int, ...]; in a `Solution` the text of a row or of the
    # answer, or None if no number can be read.
    answer: Any
    views: int  # number of views, or of rollouts, that gave it
    confidence: float  # their mean


class Decision(NamedTuple):
    """Result of a vote."""

    behind: list[int]  # indices of the views that voted for the winner
    confidence: float  # of these views: under `max_confidence` the highest, else the mean
    agreement: float  # share of these views
    votes: list[Tally]  # the different answers; most views first


def solve_by_vote(
    predictor: Predictor,
    voting: Voting,
    drawing: Drawing,
    is_readable: Callable[[int, np.ndarray], bool] = lambda *_: True,
) -> tuple[FilledCanvases, list[list[Decision]]]:
    """Solve problems in many views that vote.

    The views of a problem depend on its place on its canvas and the seed, not on other problems.

    Args:
        predictor: solves each view.
        voting: number of views and how they vote.
        drawing: the problems.
        is_readable: called with the index of a problem and a solved canvas, uint8 [H, W]; returns
            whether an answer can be read from it. If not, the confidence of that solution is 0.

    Returns:
        The canvases that won, with the steps of all views together, and for each problem its
        decisions: one for each row, or one for its solution.

    Raises:
        ValueError: a symmetry exchanges rows and columns of a canvas that is not square.
    """
    size, along_rows = drawing.canvases.shape[1:], predictor.translation_invariant
    boxes = np.stack([drawing.top, drawing.left, drawing.heights, drawing.widths], axis=1)
    views = [views_of(voting, size, tuple(box), along_rows) for box in boxes.tolist()]
    if voting.per == "row":
        decisions: list[list[Decision]] = [[] for _ in range(len(drawing))]

        def fill(inputs: np.ndarray, active: np.ndarray, row: int) -> Prediction:
            problem_of, every = flattened([views[i] for i in active])
            seen = in_views(predictor, inputs[problem_of], every, problem_of)
            unknown = drawing.cells_of_row(row)[active]
            voted, found = vote_on(voting.vote, seen, problem_of, inputs, unknown)
            for problem, decision in zip(active, found, strict=True):
                decisions[problem].append(decision)
            return voted

        return fill_row_by_row(fill, drawing, predictor.options.on_row), decisions

    problem_of, every = flattened(views)
    alone = predictor.free_running(drawing[problem_of], every, problem_of=problem_of)
    readable = [*map(is_readable, problem_of.tolist(), alone.canvases)]
    confidence = np.where(readable, alone.confidence.prod(axis=1), 0)
    seen = Prediction(alone.canvases, confidence, alone.steps, alone.settled)
    voted, found = vote_on(voting.vote, seen, problem_of, drawing.canvases, ~drawing.given)
    shared = FilledCanvases.begun(drawing).confidence
    for i, n in enumerate(drawing.num_rows.tolist()):  # the rows share the confidence evenly
        shared[i, :n] = found[i].confidence ** (1 / n)
    filled = FilledCanvases(voted.canvases, shared, voted.steps, voted.settled)
    return filled, [[decision] for decision in found]


def vote_on(
    rule: str, seen: Prediction, problem_of: np.ndarray, inputs: np.ndarray, unknown: np.ndarray
) -> tuple[Prediction, list[Decision]]:
    """Let the views of B canvases vote on the cells that are filled in.

    Args:
        rule: a name in `VOTES`.
        seen: V views, in the frame of their problem. Those of whole solutions have a column for
            each of R rows in ``steps`` and ``settled``, [V, R], and so has the result.
        problem_of: problem that each view shows, int64 [V], rising.
        inputs: canvases, uint8 [B, H, W].
        unknown: the cells that are filled in, bool [B, H, W].

    Returns:
        The canvases that won, with the steps of all views together, and the decisions.
    """
    canvases, steps, settled, decisions = inputs.copy(), [], [], []
    for i, cells in enumerate(unknown):
        one = seen.take(np.flatnonzero(problem_of == i))
        answers = [*map(tuple, one.canvases[:, cells].tolist())]
        decision = decide(rule, answers, one.confidence)
        canvases[i][cells] = answers[decision.behind[0]]
        steps.append(one.steps.sum(axis=0))
        settled.append(one.settled[decision.behind].all(axis=0))
        decisions.append(decision)
    confidence = np.array([decision.confidence for decision in decisions], dtype=np.float32)
    return Prediction(canvases, confidence, np.array(steps), np.array(settled)), decisions


def decide(rule: str, answers: Sequence[Any], confidence: np.ndarray) -> Decision:
    """Choose one of several answers; of equal scores the first wins.

    A view with confidence 0 does not vote, unless all have 0: some models give 0 to a turned
    canvas.

    Args:
        rule: a name in `VOTES`.
        answers: one of each of V views, hashable.
        confidence: of each view, float [V], 0 to 1.
    """
    different = dict.fromkeys(answers)  # in order
    gave = np.array([[answer == one for answer in answers] for one in different])  # [A, V]
    votes = [
        Tally(one, int(who.sum()), float(confidence[who].mean()))
        for one, who in zip(different, gave, strict=True)
    ]
    votes.sort(key=lambda one: -one.views)
    voters = confidence > 0 if (confidence > 0).any() else np.ones(len(answers), dtype=bool)
    voted_for = (gave & voters).any(axis=1)
    gave, trust = gave[voted_for][:, voters], confidence[voters].astype(np.float64)
    scoring = VOTES[rule]
    best = int(np.argmax(scoring.score(gave, trust)))
    behind = np.flatnonzero(voters)[gave[best]].tolist()
    sure = float(scoring.confidence(gave, trust)[best])
    return Decision(behind, sure, len(behind) / len(answers), votes)


# Called with ``gave``, bool [A, V], whether each of V views gave each of A answers, and the views'
# confidence, float [V]; returns the scores of the answers, float [A].
Score = Callable[[np.ndarray, np.ndarray], np.ndarray]


def majority(gave: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Return the number of views that gave each answer; the mean confidence breaks ties."""
    return gave.sum(axis=1) + 0.5 * mean_confidence(gave, confidence)


def max_confidence(gave: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Return the highest confidence of the views that gave each answer."""
    return np.where(gave, confidence, 0).max(axis=1)


def weighted(gave: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Return the sum of the confidences of the views that gave each answer."""
    return gave @ confidence


def product(gave: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Return the log of the product, over all views, of each answer's probability.

    A view with confidence p assigns p to its own answer. It spreads the rest, 1 - p, evenly over A
    others: the A - 1 answers of other views, and one that stands for all that no view gave. Cell
    probabilities are not used. p is clipped to 1e-6 and 1 - 1e-6, so that no view decides alone.

    Example: two views give x with 0.6 and 0.5, a third gives y with 0.9, so A is 2. The product of
    x is 0.6 · 0.5 · 0.1 / 2 = 0.015, that of y 0.4 / 2 · 0.5 / 2 · 0.9 = 0.045: y wins.
    """
    p = np.clip(confidence, 1e-6, 1 - 1e-6)
    return np.where(gave, np.log(p), np.log((1 - p) / len(gave))).sum(axis=1)


def mean_confidence(gave: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Return the mean confidence of the views that gave each answer, float [A]."""
    return (gave @ confidence) / gave.sum(axis=1)


class ScoringRule(NamedTuple):
    """Score of each answer in a vote. The highest wins; of equal scores, the answer given first."""

    score: Score
    meaning: str
    confidence: Score = mean_confidence  # in each answer; that in the winner is the decision's


VOTES = {
    "majority": ScoringRule(
        majority,
        "the answer of most views, then of the highest mean confidence (the evaluator of "
        "Jolicoeur-Martineau's TRM on ARC)",
    ),
    "max_confidence": ScoringRule(
        max_confidence, "the answer of the most confident view", max_confidence
    ),
    "weighted": ScoringRule(weighted, "the answer with the largest sum of confidences"),
    "product": ScoringRule(
        product, "the answer with the largest product of the probabilities that all views give it"
    ),
}


@lru_cache(maxsize=4096)
def views_of(
    voting: Voting, size: tuple[int, int], box: tuple[int, ...], along_rows: bool
) -> list[View]:
    """Return the views of problems that fill the same box of their canvases, each once a rollout.

    Args:
        voting: how many views and rollouts, and which.
        size: height and width of the canvases.
        box: its first row, first column, rows and columns.
        along_rows: see `augment.views.distinct_views`.
    """
    top, left, rows, columns = box
    content = np.zeros(size, dtype=bool)
    content[top : top + rows, left : left + columns] = True
    allowed = voting.symmetries or ()
    views = distinct_views(content, allowed, voting.views, voting.seed, along_rows)
    return [view._replace(rollout=number) for number in range(voting.rollouts) for view in views]


def flattened(views: Sequence[list[View]]) -> tuple[np.ndarray, list[View]]:
    """Return the problem of each of V views, int64 [V], and the views, from those of problems."""
    problem_of = np.arange(len(views)).repeat([len(one) for one in views])
    return problem_of, list(chain(*views))
