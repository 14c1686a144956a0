"""A problem and the same one with its operands in another order: a x b as b x a, a + b as b + a.

Where a model is wrong on one, its errors on the other are others: other rows, other carries. The
two workings have little in common, so what is voted on is the answer.
"""

from dataclasses import replace

import numpy as np

from canvas.problems import Problems
from trm.solving.solution import Solution, Vote
from trm.solving.voting import decide


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
        was asked: its canvas may show the other order. ``votes`` are on the answer; steps and
        confidence are those of the working that is shown.
    """
    both = [solution, other]
    texts = [one.answer_text for one in both]
    # Numbers as cells: which answers are the same is all that a vote looks at.
    distinct = list(dict.fromkeys(texts))
    answers = np.array([[distinct.index(text)] for text in texts], dtype=np.uint8)
    confidence = np.array([one.confidence if one.answer is not None else 0.0 for one in both])
    decision = decide(vote, answers, confidence)
    chosen = distinct[int(decision.cells[0])]
    won = both[texts.index(chosen)]
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
        doubt="; ".join(dict.fromkeys(filter(None, (*(one.doubt for one in both), differ)))),
        views=solution.views + other.views,
        agreement=decision.agreement,
        votes=[ballots],
    )
