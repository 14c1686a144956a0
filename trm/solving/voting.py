"""Voting: solve a problem in many views and combine their answers.

A view is a symmetry of the square and a shift. Each view is masked before it is turned, turned back
after the model has filled it, and compared with the others in the problem's own frame.

Views vote per row or per solution. Per row, the winning row is written to the one canvas that all
views then continue from. Per solution, each view is solved to the end on its own, and then whole
solutions vote. The two orders of a problem's operands, a x b and b x a, vote on the answer alone:
their solutions have little else in common.

A recursive model can work on each view several times, with noise on its states (`Noise` in
`trm.solving.noise`); such rollouts vote as views do.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from augment.views import View, distinct_views
from canvas import symbols
from canvas.drawing import Drawing
from trm.solving.predictor import Predictor
from trm.solving.rows import FilledCanvases, Prediction, fill_row_by_row, in_views
from trm.solving.solution import Solution, Vote
from trm.solving.voting_settings import VOTES, Voting, mean_confidence

_COINCIDE = 0.01  # probability that the incorrect answers of two orders are equal


class Decision(NamedTuple):
    """Result of a vote."""

    behind: list[int]  # indices of the views that voted for the winner
    confidence: float  # of these views: under `max_confidence` the highest, else the mean
    agreement: float  # share of these views
    # Each different answer, number of views that gave it, their mean confidence; most views first.
    ballots: list[tuple[Any, int, float]]


def solve_by_vote(
    predictor: Predictor,
    voting: Voting,
    drawing: Drawing,
    answers: Callable[[int, np.ndarray], bool] = lambda *_: True,
) -> tuple[FilledCanvases, list[list[Decision]]]:
    """Solve problems in many views that vote.

    The views of a problem depend on its place on its canvas and the seed, not on other problems.

    Args:
        predictor: solves each view.
        voting: number of views and how they vote.
        drawing: the problems.
        answers: called with the index of a problem and a solved canvas, uint8 [H, W]; returns
            whether an answer can be read from it. If not, the confidence of that solution is 0.

    Returns:
        The canvases that won, with the steps of all views together, and for each problem its
        decisions: one for each row, or one for its solution.

    Raises:
        ValueError: a symmetry exchanges rows and columns of a canvas that is not square.
    """
    size = drawing.canvases.shape[1:]
    boxes = np.stack([drawing.top, drawing.left, drawing.heights, drawing.widths], axis=1)
    anywhere = predictor.traits.translation_invariant
    views = [views_of(voting, size, *map(int, box), along_rows=anywhere) for box in boxes]
    if voting.per == "solution":
        return _by_solution(predictor, voting, drawing, *flattened(views), answers)
    decisions: list[list[Decision]] = [[] for _ in range(len(drawing))]

    def fill(inputs: np.ndarray, active: np.ndarray, step: int) -> Prediction:
        back, every = flattened([views[problem] for problem in active])
        seen = in_views(predictor, inputs[back], every)
        voted, found = vote_on(voting.vote, seen, back, inputs, drawing.answer_cells(step)[active])
        for problem, decision in zip(active, found, strict=True):
            decisions[problem].append(decision)
        return voted

    return fill_row_by_row(fill, drawing, predictor.options.on_row), decisions


def vote_on(
    vote: str, seen: Prediction, of: np.ndarray, inputs: np.ndarray, answer: np.ndarray
) -> tuple[Prediction, list[Decision]]:
    """Let the views of B canvases vote on the cells that are filled in.

    Args:
        vote: a name in `VOTES`.
        seen: all views, in the frame of their canvas.
        of: canvas of each view, int64 [V], rising.
        inputs: canvases, uint8 [B, H, W].
        answer: the cells that are filled in, bool [B, H, W].

    Returns:
        The canvases that won, with the steps of all views together, and the decisions.
    """
    canvases, confidence = inputs.copy(), np.empty(len(inputs), dtype=np.float32)
    settled, decisions = np.empty(len(inputs), dtype=bool), []
    for i, masked in enumerate(answer):
        one = seen.take(np.flatnonzero(of == i))
        found = one.canvases[:, masked]
        decision = decide(vote, found, one.confidence)
        canvases[i][masked], confidence[i] = found[decision.behind[0]], decision.confidence
        settled[i] = one.settled[decision.behind].all()
        decisions.append(decision)
    steps = np.bincount(of, weights=seen.steps, minlength=len(inputs)).astype(np.int64)
    return Prediction(canvases, confidence, steps, settled), decisions


def decide(vote: str, answers: Sequence[Any] | np.ndarray, confidence: np.ndarray) -> Decision:
    """Choose one of several answers; of equal scores the first wins.

    A view with confidence 0 does not vote, unless all have 0: some models give 0 to a turned
    canvas.

    Args:
        vote: a name in `VOTES`.
        answers: one of each of V views: hashable, or arrays.
        confidence: of each view, float [V], 0 to 1.
    """
    keys = [one.tobytes() if isinstance(one, np.ndarray) else one for one in answers]
    gave = np.array([[key == one for key in keys] for one in dict.fromkeys(keys)])  # [A, V]
    ballots = [
        (answers[who.argmax()], int(who.sum()), float(confidence[who].mean())) for who in gave
    ]
    votes = confidence > 0 if (confidence > 0).any() else np.ones(len(answers), dtype=bool)
    voted = (gave & votes).any(axis=1)  # answers that a view voted for
    gave, trust = gave[voted][:, votes], confidence[votes].astype(np.float64)
    best = int(np.argmax(VOTES[vote].score(gave, trust)))
    means = mean_confidence(gave, trust)
    of_winner = trust[gave[best]].max() if VOTES[vote].highest else means[best]
    behind = np.flatnonzero(votes)[gave[best]].tolist()
    ranked = sorted(ballots, key=lambda ballot: -ballot[1])
    return Decision(behind, float(of_winner), len(behind) / len(answers), ranked)


@lru_cache(maxsize=4096)
def views_of(
    voting: Voting,
    size: tuple[int, int],
    top: int,
    left: int,
    rows: int,
    columns: int,
    along_rows: bool,
) -> list[View]:
    """Return the views of problems that fill the same box of their canvases."""
    content = np.zeros(size, dtype=bool)
    content[top : top + rows, left : left + columns] = True
    allowed = voting.symmetries or ()
    views = distinct_views(content, allowed, voting.views, voting.seed, along_rows)
    return [view._replace(rollout=number) for number in range(voting.rollouts) for view in views]


def flattened(views: Sequence[Sequence[View]]) -> tuple[np.ndarray, list[View]]:
    """Return the problem of each view, int64 [V], and the views of all problems in order."""
    return np.repeat(np.arange(len(views)), list(map(len, views))), list(chain(*views))


def _by_solution(
    predictor: Predictor,
    voting: Voting,
    drawing: Drawing,
    of: np.ndarray,
    views: list[View],
    answers: Callable[[int, np.ndarray], bool],
) -> tuple[FilledCanvases, list[list[Decision]]]:
    alone = predictor.free_running(drawing[of], views)
    voted, decisions = FilledCanvases.begun(drawing), []
    if alone.most_steps is not None:
        first = np.unique(of, return_index=True)[1]
        voted = voted._replace(most_steps=alone.most_steps[first])
    for i, n in enumerate(drawing.steps.tolist()):
        mine, unknown = np.flatnonzero(of == i), ~drawing.given[i]
        solved, confidence = alone.canvases[mine], alone.confidence[mine].prod(axis=1)
        confidence = np.where([answers(i, canvas) for canvas in solved], confidence, 0)
        decision = decide(voting.vote, found := solved[:, unknown], confidence)
        voted.canvases[i][unknown] = found[decision.behind[0]]
        # The confidence is that of the whole solution; its rows share it evenly.
        voted.confidence[i, :n] = decision.confidence ** (1 / n)
        voted.steps[i] = alone.steps[mine].sum(axis=0)
        voted.settled[i] = alone.settled[mine][decision.behind].all(axis=0)
        decisions.append([decision])
    return voted, decisions


def agreed(vote: str, solution: Solution, other: Solution) -> Solution:
    """Combine the solutions of a problem and of the problem with its operands reversed.

    A model's errors on the two orders differ, as rows and carries differ.

    Returns:
        The solution whose answer won, the first if both agree, with the problem in its original
        order. Its canvas and steps may be those of the reversed order. The confidence is that of
        `posterior`, and all rows share it evenly.
    """
    if other.operands != solution.operands[::-1]:  # a wrong guess of the orientation read others
        other = replace(other, right_answer=solution.right_answer, truth=_nothing(other))
    both = [solution, other]
    texts = [one.answer_text for one in both]
    confidence = np.array([one.confidence for one in both])
    decision = decide(vote, texts, confidence)
    place, agree = decision.behind[0], len(decision.ballots) == 1
    won, rows = both[place], len(both[place].row_confidence)
    combined = posterior(float(confidence[place]), float(confidence[1 - place]), agree)
    differ = "" if agree else "the two orders give different answers"
    reasons = (*(one.uncalibrated_reason for one in both), differ)
    votes = [Vote(*ballot) for ballot in decision.ballots]
    combination = replace(
        won,
        problem=solution.problem,
        operands=solution.operands,
        in_range=solution.in_range,
        row_confidence=[combined ** (1 / rows)] * rows,
        uncalibrated_reason="; ".join(dict.fromkeys(filter(None, reasons))),
    )
    if solution.guess is not None:
        steps = won.row_steps.copy()
        steps[-1] += sum(both[1 - place].row_steps)
        return replace(
            combination,
            row_steps=steps,
            views=solution.views,
            views_asked=solution.views_asked,
            agreement=solution.agreement,
            votes=[*solution.votes, votes],
            view=solution.view,
            guess=solution.guess,
            readable=solution.readable,
        )
    return replace(
        combination,
        views=solution.views + other.views,
        views_asked=solution.views_asked + other.views_asked,
        agreement=decision.agreement,
        votes=[votes],
    )


def _nothing(solution: Solution) -> np.ndarray | None:
    """Return an empty canvas in place of the true solution, which a misread problem has none of."""
    return None if solution.truth is None else np.full_like(solution.canvas, symbols.BLANK)


def posterior(confidence: float, other: float, agree: bool) -> float:
    """Return the probability that an answer is correct, given the answer of the other order.

    By Bayes' rule: the two are correct independently, with the probabilities that the model gives,
    and two incorrect answers are hardly ever equal. If the answers differ, the model's confidence
    is in doubt. The probability that one of them is correct is then at most 0.5, which is that of
    a model whose accuracy is uniform from 0 to 1.

    Args:
        confidence: in the answer, 0 to 1.
        other: confidence in the answer of the other order, 0 to 1.
        agree: whether the two answers are equal.
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
