"""Swapped operands: a problem is solved as a x b and as b x a, and the two answers vote.

Only the answers can vote, as the two solutions have little else in common.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from canvas import symbols
from canvas.drawing import Drawing, WorkedDrawing
from canvas.problems import Problems
from canvas.reading import read_problem
from trm.runtime.progress import part
from trm.solving.solution import Solution
from trm.solving.voting import decide

if TYPE_CHECKING:
    from trm.solving.solver import Solver

_COINCIDE = 0.01  # probability that the incorrect answers of two orders are equal


def solve_in_both_orders(solver: Solver, problems: Problems, drawing: Drawing) -> list[Solution]:
    """Solve problems as they are and with their operands swapped; the two answers vote.

    The operands of a canvas in an unknown orientation are those in the given cells of the most
    confident guess. If there are none, or the model cannot swap them, its solution stays as it is.

    Args:
        solver: with ``voting.orders`` of 2.
        problems: B problems.
        drawing: the same problems, in their own order.
    """
    voting, unknown = solver.voting, solver.orientation_unknown
    assert voting is not None
    one_order = alone = replace(solver, voting=None)
    if unknown or voting.solutions > 2:
        one_order = replace(solver, voting=replace(voting, orders=1))
    with part(0, 1, 2):
        solutions = one_order.solve_drawing(problems, drawing)
    shown = [_shown(solver, one) for one in solutions] if unknown else problems.to_ints()
    swapped = {i: operands[::-1] for i, operands in enumerate(shown) if operands is not None}
    if unknown:
        one_order = alone
    if solver.predictor.options.on_row is not None:  # only the first order is watched
        one_order = replace(one_order, predictor=solver.predictor.with_options(on_row=None))
    again = Problems.from_ints([*swapped.values()], problems.base)
    with part(1, 2, 2):
        second = one_order.solve(again, isinstance(drawing, WorkedDrawing))
    for i, solution in zip(swapped, second, strict=True):
        solutions[i] = agreed(voting.vote, solutions[i], solution)
    return solutions


def _shown(solver: Solver, solution: Solution) -> tuple[int, ...] | None:
    """Return the operands in a solution's given cells; None: none that can be solved swapped."""
    given = np.where(solution.given, solution.canvas, np.uint8(symbols.BLANK))
    try:
        operands = read_problem(given, solver.task.canvas_layout, solver.task.base)
    except ValueError:
        return None
    swapped = Problems.from_ints([operands[::-1]], solver.task.base)
    return None if any(solver.misfits(swapped)) else operands


def agreed(vote: str, solution: Solution, other: Solution) -> Solution:
    """Combine the solutions of a problem and of the problem with its operands swapped.

    A model's errors on the two orders differ, as rows and carries differ.

    Returns:
        The solution whose answer won, the first if both agree, with the problem in its original
        order. Its canvas may be that of the swapped order. The confidence is that of `posterior`,
        and all rows share it evenly. Its other steps are those of the other order.
    """
    if other.operands != solution.operands[::-1]:  # a wrong guess of the orientation read others
        other = replace(other, true_answer=solution.true_answer, truth=_nothing(other))
    both = [solution, other]
    texts = [one.answer_text for one in both]
    confidence = np.array([one.confidence for one in both])
    decision = decide(vote, texts, confidence)
    place, agree = decision.behind[0], len(decision.votes) == 1
    won, rows = both[place], len(both[place].row_confidence)
    combined = posterior(float(confidence[place]), float(confidence[1 - place]), agree)
    differ = "" if agree else "the two orders give different answers"
    reasons = (*(one.uncalibrated_reason for one in both), differ)
    combination = replace(
        won,
        problem=solution.problem,
        operands=solution.operands,
        in_range=solution.in_range,
        row_confidence=[combined ** (1 / rows)] * rows,
        other_steps=won.other_steps + both[1 - place].steps,
        uncalibrated_reason="; ".join(dict.fromkeys(filter(None, reasons))),
    )
    if solution.guess is not None:
        return replace(
            combination,
            views=solution.views,
            views_asked=solution.views_asked,
            agreement=solution.agreement,
            votes=[*solution.votes, decision.votes],
            view=solution.view,
            guess=solution.guess,
            readable=solution.readable,
        )
    return replace(
        combination,
        views=solution.views + other.views,
        views_asked=solution.views_asked + other.views_asked,
        agreement=decision.agreement,
        votes=[decision.votes],
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
