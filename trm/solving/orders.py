"""A problem and the same one with its operands in another order: a x b as b x a, a + b as b + a.

Where a model is wrong on one, its errors on the other are others: other rows, other carries. The
two workings have little in common, so what is voted on is the answer.
"""

from dataclasses import replace

import numpy as np

from canvas.problems import Problems
from trm.solving.solution import Solution, Vote
from trm.solving.voting import decide

_COINCIDE = 0.01  # chance that two wrong answers are the same


def reversed_operands(problems: Problems) -> Problems:
    """The same problems with their operands from the last to the first."""
    return Problems.from_ints([one[::-1] for one in problems.to_ints()], problems.base)


def agreed(vote: str, solution: Solution, other: Solution) -> Solution:
    """What two solutions of a problem come to.

    Args:
        vote: one of `trm.solving.voting_settings.VOTES` but product.
        solution: of the problem as it was asked.
        other: of the same with its operands reversed.

    Returns:
        That whose answer won, the first one where both have it, as a solution of the problem as it
        was asked: its canvas may show the other order, and its steps are those of that working.
        ``votes`` are on the answer. The confidence is `posterior`'s, and all rows share it evenly.
    """
    both = [solution, other]
    texts = [one.answer_text for one in both]
    # Numbers as cells: which answers are the same is all that a vote looks at.
    distinct = list(dict.fromkeys(texts))
    answers = np.array([[distinct.index(text)] for text in texts], dtype=np.uint8)
    confidence = np.array([one.confidence if one.answer is not None else 0.0 for one in both])
    decision = decide(vote, answers, confidence)
    chosen = distinct[int(decision.cells[0])]
    place = texts.index(chosen)
    won, rows = both[place], len(both[place].row_confidence)
    own, others = float(confidence[place]), float(confidence[1 - place])
    sure = posterior(own, others, agree=len(distinct) == 1)
    differ = "" if len(distinct) == 1 else "the two orders give different answers"
    ballots = [
        Vote(distinct[int(ballot.cells[0])], ballot.views, ballot.confidence)
        for ballot in decision.ballots
    ]
    return replace(
        won,
        problem=solution.problem,
        operands=solution.operands,
        in_range=solution.in_range,
        row_confidence=[sure ** (1 / rows)] * rows,
        doubt="; ".join(dict.fromkeys(filter(None, (*(one.doubt for one in both), differ)))),
        views=solution.views + other.views,
        agreement=decision.agreement,
        votes=[ballots],
    )


def posterior(confidence: float, other: float, agree: bool) -> float:
    """The probability that an answer is right, once the other order's is known.

    By Bayes' rule: both are right, one is, or none, independently and with the probabilities that
    the model gives; two wrong answers are hardly ever the same. Where they differ, what the model
    thinks of itself is in doubt. That one of them is right is then believed no more than of a model
    of which nothing is known: an even chance, if it may be right in any share of cases from 0 to 1.

    Args:
        confidence: in the answer, 0 to 1.
        other: in the other order's, which may be the same.
        agree: whether it is.
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
