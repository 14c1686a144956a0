"""Many views of a problem, and how their answers become one.

A problem is shown in different views, each a symmetry of the square and a shift. Every view is
masked before it is turned, turned back after the model has answered, and compared with the others
in the problem's own frame.

Views vote row by row, the row that wins going back onto the one canvas that all of them then see,
or each works alone to the end and they vote on whole solutions. The two orders of a problem's
operands, a x b and b x a, vote on the answer alone: their solutions have little else in common.

A recursive model can work on each view several times, with noise on its states (`Noise` in
`trm.solving.iterative_predictor`); such rollouts vote as views do.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from augment.views import View, distinct_views
from canvas.render import Drawing
from trm.solving.rollout import OnRow, Prediction, Predictor, Rollout, free_running
from trm.solving.solution import Solution, Vote
from trm.solving.voting_settings import VOTES, Voting, mean_confidence

_COINCIDE = 0.01  # chance that two wrong answers of two orders are the same


class Decision(NamedTuple):
    """What several answers came to."""

    behind: list[int]  # who voted for the one that won
    confidence: float  # theirs: under `max_confidence` the highest, else the mean
    agreement: float  # their share
    # The different answers, most often given first: each, how many gave it, their mean confidence.
    ballots: list[tuple[Any, int, float]]


def decide(vote: str, answers: Sequence[Any], confidence: np.ndarray) -> Decision:
    """Make one answer of several, of whatever can be compared; of equal ones the first wins.

    By one of `VOTES`; of V ``answers`` and their ``confidence``, ``float [V]``, 0 to 1. A view with
    confidence 0 does not vote, unless all have that: so a cell model says that a page is turned.
    """
    groups: dict[Any, list[int]] = {}
    for view, answer in enumerate(answers):
        groups.setdefault(answer, []).append(view)
    ballots = [(answer, len(who), float(confidence[who].mean())) for answer, who in groups.items()]
    votes = confidence > 0 if (confidence > 0).any() else np.ones(len(answers), dtype=bool)
    gave = np.zeros((len(groups), len(answers)), dtype=bool)
    for i, who in enumerate(groups.values()):
        gave[i, who] = True
    voted = (gave & votes).any(axis=1)  # answers that a view voted for
    gave, sure = gave[voted][:, votes], confidence[votes].astype(np.float64)
    best = int(np.argmax(VOTES[vote].score(gave, sure)))
    means = mean_confidence(gave, sure)
    of_winner = sure[gave[best]].max() if vote == "max_confidence" else means[best]
    behind = np.flatnonzero(votes)[gave[best]].tolist()
    ranked = sorted(ballots, key=lambda ballot: -ballot[1])
    return Decision(behind, float(of_winner), len(behind) / len(answers), ranked)


def solve_by_vote(
    predictor: Predictor,
    voting: Voting,
    drawing: Drawing,
    on_row: OnRow | None = None,
    answers: Callable[[int, np.ndarray], bool] = lambda *_: True,
) -> tuple[Rollout, list[list[Decision]]]:
    """Work problems out in many views; ``on_row`` is called before and after each voted row.

    ``answers`` is called with the index of a problem and a worked canvas ``uint8 [H, W]``: whether
    a number can be read from it. The confidence of a whole solution from which none can be is 0.

    In which views a problem is shown depends on its place on its canvas and the seed, not on the
    problems beside it. Returns a rollout that views agreed upon, whose steps are those of all views
    together; and of each problem the decisions, one for each row or one for its solution.
    ValueError: a symmetry exchanges rows and columns of a canvas that is not square, or whole
    solutions are to be watched.
    """
    size = drawing.canvases.shape[1:]
    boxes = np.stack([drawing.top, drawing.left, drawing.heights, drawing.widths], axis=1)
    looks = [_looks_of(voting, size, *map(int, box)) for box in boxes]
    if voting.per == "solution":
        if on_row is not None:
            raise ValueError(
                "views that vote on whole solutions work on a canvas each, and there is no one "
                "canvas to watch: let them vote per row, or watch one view"
            )
        return _by_solution(predictor, voting, drawing, looks, answers)
    decisions: list[list[Decision]] = [[] for _ in range(len(drawing))]

    def fill(inputs: np.ndarray, active: np.ndarray, step: int) -> Prediction:
        mine = [looks[problem] for problem in active]
        back = np.repeat(np.arange(len(active)), [len(some) for some in mine])
        seen = predictor.in_views(inputs[back], *_columns(mine))
        answer = drawing.answer_cells(step)[active]
        canvases, confidence = inputs.copy(), np.empty(len(inputs), dtype=np.float32)
        settled = np.empty(len(inputs), dtype=bool)
        for i, problem in enumerate(active):
            one = seen.take(np.flatnonzero(back == i))
            rows = one.canvases[:, answer[i]]
            decision = decide(voting.vote, [row.tobytes() for row in rows], one.confidence)
            canvases[i][answer[i]], confidence[i] = rows[decision.behind[0]], decision.confidence
            settled[i] = one.settled[decision.behind].all()
            decisions[problem].append(decision)
        steps = np.bincount(back, weights=seen.steps, minlength=len(inputs)).astype(np.int64)
        return Prediction(canvases, confidence, steps, settled=settled)

    return free_running(fill, drawing, on_row), decisions


class Look(NamedTuple):
    """One way to look at a problem."""

    view: View
    rollout: int  # 0: without noise


@lru_cache(maxsize=4096)
def _looks_of(
    voting: Voting, size: tuple[int, int], top: int, left: int, rows: int, columns: int
) -> list[Look]:
    """The looks at all problems that take up the same box on their canvases."""
    content = np.zeros(size, dtype=bool)
    content[top : top + rows, left : left + columns] = True
    views = distinct_views(content, voting.symmetries or (), voting.views, voting.seed)
    return [Look(view, rollout) for rollout in range(voting.rollouts) for view in views]


def _columns(looks: Sequence[Sequence[Look]]) -> tuple[list[View], np.ndarray | None]:
    """All views, one after the other, and their rollouts, None where there is no noise."""
    views, rollouts = zip(*(look for some in looks for look in some), strict=True)
    return [*views], np.array(rollouts) if any(rollouts) else None


def _by_solution(
    predictor: Predictor,
    voting: Voting,
    drawing: Drawing,
    looks: list[list[Look]],
    answers: Callable[[int, np.ndarray], bool],
) -> tuple[Rollout, list[list[Decision]]]:
    of = np.repeat(np.arange(len(drawing)), [len(mine) for mine in looks])
    alone = predictor.free_running_views(drawing[of], *_columns(looks))
    voted, decisions = Rollout.begun(drawing), []
    for i, n in enumerate(drawing.steps.tolist()):
        mine, unknown = of == i, ~drawing.given[i]
        found, sure = alone.canvases[mine][:, unknown], alone.confidence[mine].prod(axis=1)
        sure = np.where([answers(i, canvas) for canvas in alone.canvases[mine]], sure, 0)
        decision = decide(voting.vote, [cells.tobytes() for cells in found], sure)
        voted.canvases[i][unknown] = found[decision.behind[0]]
        # A solution is held right as a whole; its rows share that evenly.
        voted.confidence[i, :n] = decision.confidence ** (1 / n)
        voted.steps[i] = alone.steps[mine].sum(axis=0)
        voted.settled[i] = alone.settled[mine][decision.behind].all(axis=0)
        decisions.append([decision])
    return voted, decisions


def agreed(vote: str, solution: Solution, other: Solution) -> Solution:
    """What the solutions of a problem and of the same with its operands reversed come to.

    Where a model is wrong on one, its errors on the other are others: other rows, other carries.
    Returns that whose answer won, the first one where both have it, as a solution of the problem as
    it was asked: its canvas may show the other order, and its steps are those of that solution. The
    confidence is `posterior`'s, and all rows share it evenly.
    """
    both = [solution, other]
    texts = [one.answer_text for one in both]
    confidence = np.array([one.confidence for one in both])
    decision = decide(vote, texts, confidence)
    place, agree = decision.behind[0], len(decision.ballots) == 1
    won, rows = both[place], len(both[place].row_confidence)
    sure = posterior(float(confidence[place]), float(confidence[1 - place]), agree)
    differ = "" if agree else "the two orders give different answers"
    reasons = (*(one.uncalibrated_reason for one in both), differ)
    return replace(
        won,
        problem=solution.problem,
        operands=solution.operands,
        in_range=solution.in_range,
        row_confidence=[sure ** (1 / rows)] * rows,
        uncalibrated_reason="; ".join(dict.fromkeys(filter(None, reasons))),
        views=solution.views + other.views,
        views_asked=solution.views_asked + other.views_asked,
        agreement=decision.agreement,
        votes=[[Vote(*ballot) for ballot in decision.ballots]],
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
