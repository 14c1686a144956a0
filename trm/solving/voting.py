"""Many views of a problem, and how their answers become one.

A problem is shown in different views, each a symmetry of the square and a shift. Every view is
masked before it is turned, turned back after the model has answered, and compared with the others
in the problem's own frame.

Views vote row by row, the row that wins going back onto the one canvas that all of them then see,
or each works alone to the end and they vote on whole solutions. The two orders of a problem's
operands, a x b and b x a, vote on the answer alone: their solutions have little else in common.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from augment.symmetry import apply, invert, lookup
from augment.views import View, distinct_views
from canvas.render import Drawing
from canvas.task import Task
from trm.solving.rollout import (
    OnRow,
    Prediction,
    Predictor,
    Rollout,
    free_running,
    predict_views,
)
from trm.solving.solution import Solution, Vote
from trm.solving.voting_settings import Voting

_COINCIDE = 0.01  # chance that two wrong answers of two orders are the same


class Ballot(NamedTuple):
    """One of the different answers to a row or a problem."""

    cells: np.ndarray  # uint8 [C], what it says
    views: int  # how many gave it
    confidence: float  # their mean


class Decision(NamedTuple):
    """What several answers came to."""

    cells: np.ndarray  # uint8 [C]
    confidence: float  # of the views that gave it: under `max_confidence` the highest, or the mean
    agreement: float  # the share of views that gave it
    ballots: list[Ballot]  # the different answers, most views first

    def behind(self, answers: np.ndarray) -> np.ndarray:
        """Whose answer it is, ``bool [V]`` of ``uint8 [V, C]``."""
        return (answers == self.cells).all(axis=1)


def decide(vote: str, answers: np.ndarray, confidence: np.ndarray) -> Decision:
    """Make one answer of several; of equal ones the first wins.

    Args:
        vote: one of `VOTES`.
        answers: ``uint8 [V, C]``, each view's symbols of the same cells.
        confidence: ``float [V]``, 0 to 1.
    """
    groups: dict[bytes, list[int]] = {}
    for view, answer in enumerate(answers):
        groups.setdefault(answer.tobytes(), []).append(view)
    ballots = [
        Ballot(answers[who[0]], len(who), float(confidence[who].mean())) for who in groups.values()
    ]
    highest = [float(confidence[who].max()) for who in groups.values()]
    if vote == "max_confidence":
        best = int(np.argmax(highest))
        sure = highest[best]
    else:
        best = max(range(len(ballots)), key=lambda i: (ballots[i].views, ballots[i].confidence))
        sure = ballots[best].confidence
    ranked = sorted(ballots, key=lambda ballot: -ballot.views)
    return Decision(ballots[best].cells, sure, ballots[best].views / len(answers), ranked)


def solve_by_vote(
    predictor: Predictor, voting: Voting, drawing: Drawing, on_row: OnRow | None = None
) -> tuple[Rollout, list[list[Decision]]]:
    """Work problems out in many views.

    In which views a problem is shown depends on its place on its canvas and the seed, not on the
    problems beside it.

    Args:
        predictor: the model.
        voting: how.
        drawing: B problems on their canvases.
        on_row: called before and after each row that is voted on.

    Returns:
        A rollout that views agreed upon, whose steps are those of all views together; and of each
        problem the decisions, one for each row or one for its solution.

    Raises:
        ValueError: a symmetry exchanges rows and columns of a canvas that is not square, or whole
            solutions are to be watched.
    """
    size = drawing.canvases.shape[1:]
    boxes = np.stack([drawing.top, drawing.left, drawing.heights, drawing.widths], axis=1)
    views = [_views_of(voting, size, *map(int, box)) for box in boxes]
    if voting.per == "row":
        return _by_row(predictor, voting, drawing, views, on_row)
    if on_row is not None:
        raise ValueError(
            "views that vote on whole solutions work on a canvas each, and there is no one canvas "
            "to watch: let them vote per row, or watch one view"
        )
    return _by_solution(predictor, voting, drawing, views)


@lru_cache(maxsize=4096)
def _views_of(
    voting: Voting, size: tuple[int, int], top: int, left: int, rows: int, columns: int
) -> list[View]:
    """The views of all problems that take up the same box on their canvases."""
    content = np.zeros(size, dtype=bool)
    content[top : top + rows, left : left + columns] = True
    return distinct_views(content, voting.symmetries or (), voting.views, voting.seed)


def _by_row(
    predictor: Predictor,
    voting: Voting,
    drawing: Drawing,
    views: list[list[View]],
    on_row: OnRow | None,
) -> tuple[Rollout, list[list[Decision]]]:
    decisions: list[list[Decision]] = [[] for _ in range(len(drawing))]

    def fill(inputs: np.ndarray, active: np.ndarray, step: int) -> Prediction:
        mine = [views[problem] for problem in active]
        back = np.repeat(np.arange(len(active)), [len(some) for some in mine])
        seen = predict_views(predictor, inputs[back], [view for some in mine for view in some])
        answer = drawing.answer_cells(step)[active]
        canvases, confidence = inputs.copy(), np.empty(len(inputs), dtype=np.float32)
        settled = np.empty(len(inputs), dtype=bool)
        for i, problem in enumerate(active):
            one = seen.take(np.flatnonzero(back == i))
            answers = one.canvases[:, answer[i]]
            decision = decide(voting.vote, answers, one.confidence)
            canvases[i][answer[i]], confidence[i] = decision.cells, decision.confidence
            settled[i] = one.settled[decision.behind(answers)].all()
            decisions[problem].append(decision)
        steps = np.bincount(back, weights=seen.steps, minlength=len(inputs)).astype(np.int64)
        return Prediction(canvases, confidence, steps, settled=settled)

    return free_running(fill, drawing, on_row), decisions


def _by_solution(
    predictor: Predictor, voting: Voting, drawing: Drawing, views: list[list[View]]
) -> tuple[Rollout, list[list[Decision]]]:
    of = np.repeat(np.arange(len(drawing)), [len(mine) for mine in views])
    alone = predictor.free_running_views(drawing[of], [view for mine in views for view in mine])
    voted, decisions = Rollout.begun(drawing), []
    for i, n in enumerate(drawing.steps.tolist()):
        mine, unknown = of == i, ~drawing.given[i]
        answers = alone.canvases[mine][:, unknown]
        decision = decide(voting.vote, answers, alone.confidence[mine].prod(axis=1))
        voted.canvases[i][unknown] = decision.cells
        # A solution is held right as a whole; its rows share that evenly.
        voted.confidence[i, :n] = decision.confidence ** (1 / n)
        voted.steps[i] = alone.steps[mine].sum(axis=0)
        voted.settled[i] = alone.settled[mine][decision.behind(answers)].all(axis=0)
        decisions.append([decision])
    return voted, decisions


def agreed(vote: str, solution: Solution, other: Solution) -> Solution:
    """What the solutions of a problem and of the same with its operands reversed come to.

    Where a model is wrong on one, its errors on the other are others: other rows, other carries.

    Returns:
        That whose answer won, the first one where both have it, as a solution of the problem as it
        was asked: its canvas may show the other order, and its steps are those of that solution.
        The confidence is `posterior`'s, and all rows share it evenly.
    """
    both = [solution, other]
    texts = [one.answer_text for one in both]
    # Numbers as cells: which answers are the same is all that a vote looks at.
    distinct = list(dict.fromkeys(texts))
    answers = np.array([[distinct.index(text)] for text in texts], dtype=np.uint8)
    confidence = np.array([one.confidence if one.answer is not None else 0.0 for one in both])
    decision = decide(vote, answers, confidence)
    place = texts.index(distinct[int(decision.cells[0])])
    won, rows = both[place], len(both[place].row_confidence)
    own, others = float(confidence[place]), float(confidence[1 - place])
    sure = posterior(own, others, agree=len(distinct) == 1)
    differ = "" if len(distinct) == 1 else "the two orders give different answers"
    reasons = (*(one.uncalibrated_reason for one in both), differ)
    return replace(
        won,
        problem=solution.problem,
        operands=solution.operands,
        in_range=solution.in_range,
        row_confidence=[sure ** (1 / rows)] * rows,
        uncalibrated_reason="; ".join(dict.fromkeys(filter(None, reasons))),
        views=solution.views + other.views,
        agreement=decision.agreement,
        votes=[[Vote(distinct[int(b.cells[0])], b.views, b.confidence) for b in decision.ballots]],
    )


def posterior(confidence: float, other: float, agree: bool) -> float:
    """The probability that an answer is right, once the other order's is known.

    By Bayes' rule: both are right, one is, or none, independently and with the probabilities that
    the model gives; two wrong answers are hardly ever the same. Where they differ, what the model
    thinks of itself is in doubt. That one of them is right is then believed no more than of a model
    of which nothing is known: an even chance, if it may be right in any share of cases from 0 to 1.
    """
    both_wrong = (1 - confidence) * (1 - other)
    if agree:
        both_right = confidence * other
        return both_right / (both_right + both_wrong * _COINCIDE) if both_right else 0.0
    this_one, that_one = confidence * (1 - other), (1 - confidence) * other
    if not this_one:
        return 0.0
    one = this_one + that_one
    one_is_right = one / (one + both_wrong * (1 - _COINCIDE))
    return min(one_is_right, 0.5) * this_one / one


class TurnedPredictor(Predictor):
    """Turns every canvas before a model sees it, and turns back what it writes."""

    def __init__(self, predictor: Predictor, symmetry: str) -> None:
        self.transposes = lookup(symmetry).transpose
        self.predictor, self.symmetry = predictor, symmetry
        self.model, self.translation_invariant = predictor.model, predictor.translation_invariant
        self.proved, self.in_order = predictor.proved, predictor.in_order

    def __call__(self, inputs: np.ndarray) -> Prediction:
        found = self.predictor(np.ascontiguousarray(apply(self.symmetry, inputs)))
        canvases = np.ascontiguousarray(apply(invert(self.symmetry), found.canvases))
        return replace(found, canvases=canvases)

    def free_running_views(self, drawing: Drawing, views: Sequence[View]) -> Rollout:
        """See `Predictor`: the model sees every view turned."""
        turned = [view.turned(self.symmetry) for view in views]
        return self.predictor.free_running_views(drawing, turned)

    def for_any_view(self, task: Task) -> "TurnedPredictor":
        return TurnedPredictor(self.predictor.for_any_view(task), self.symmetry)

    def accepts(self, height: int, width: int) -> bool:
        return self.predictor.accepts(*((width, height) if self.transposes else (height, width)))

    def pairs(self, height: int, width: int) -> int:
        return self.predictor.pairs(height, width)
