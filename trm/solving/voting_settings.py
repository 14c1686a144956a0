"""Settings of a vote: number and kind of views, and how their answers are scored.

Imports no framework, so that command lines can be read first. `trm.solving.voting` votes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from augment.symmetry import SYMMETRIES, lookup
from canvas.choices import check_choice

PER = ("row", "solution")
ANY = "random"  # each canvas in one of the eight symmetries, by the seed and the problem

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


class Rule(NamedTuple):
    """Scoring rule: the highest score wins; of equal scores, the answer given first."""

    score: Score
    meaning: str
    highest: bool = False  # confidence of the winner: the highest of its views, not their mean


VOTES = {
    "majority": Rule(
        majority,
        "the answer of most views, then of the highest mean confidence (the evaluator of "
        "Jolicoeur-Martineau's TRM on ARC)",
    ),
    "max_confidence": Rule(max_confidence, "the answer of the most confident view", highest=True),
    "weighted": Rule(weighted, "the answer with the largest sum of confidences"),
    "product": Rule(
        product, "the answer with the largest product of the probabilities that all views give it"
    ),
}


@dataclass(frozen=True)
class Voting:
    """Number of views of a problem, and how they vote.

    Raises:
        ValueError: a setting has no valid value.
    """

    views: int = 1  # highest number of different views of a problem, the identity first
    symmetries: tuple[str, ...] | None = None  # of views, beside shifts; None: those of training
    vote: str = "majority"  # one of `VOTES`
    per: str = "row"  # one of `PER`: after each row, which all views then share, or at the end
    seed: int = 0  # of views and noise
    orders: int = 1  # 2 solves each problem with its operands reversed, too; answers vote
    rollouts: int = 1  # of each view, all but the first with noise
    noise: float = 0.0  # standard deviation on z_H, before each supervision step
    # Orientation of the given canvas, a symmetry or `ANY`, unknown to the model. Each symmetry is a
    # guess with its own solution, see `trm.solving.orientation`. None: the canvas is upright.
    given: str | None = None

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

        if self.given is not None:
            self._check_given(self.given)

    def _check_given(self, given: str) -> None:
        check_choice("a given view", given, (*SYMMETRIES, ANY))
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
        return self.given is None and any(lookup(name).transpose for name in self.symmetries or ())

    @property
    def samples(self) -> int:
        """Highest number of solutions of one problem: views, or guesses, x orders x rollouts."""
        views = self.views if self.given is None else len(self.guesses)
        return views * self.orders * self.rollouts
