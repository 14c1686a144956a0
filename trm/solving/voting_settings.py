"""How a problem is looked at many times, and how the samples are to agree: the settings of a vote.

Needs no framework: command lines are read before one is imported. `trm.solving.voting` votes.
"""

from dataclasses import dataclass

from augment.symmetry import SYMMETRIES, lookup
from canvas.choices import check_choice

# How answers become one, and where that comes from.
VOTES = {
    "majority": "the answer of most views, then of the highest mean confidence (the evaluator of "
    "Jolicoeur-Martineau's TRM on ARC)",
    "weighted": "the answer with the largest sum of confidences (soft voting)",
    "max_confidence": "the answer of the most confident view; a local model, as quickstart is, has "
    "confidence 0 in pages that do not lie upright",
    "product": "cell by cell the symbol with the largest sum of log-probabilities (product of "
    "experts, Hinton 2002)",
}
PER = ("row", "solution")


@dataclass(frozen=True)
class Voting:
    """How often a problem is looked at, and how the samples agree.

    Raises:
        ValueError: a value that cannot be.
    """

    views: int = 1  # different views of a problem at most, the identity first
    symmetries: tuple[str, ...] | None = None  # of views, beside shifts; None: those of training
    vote: str = "majority"  # one of `VOTES`
    per: str = "row"  # one of `PER`: on each row, which all views then go on from, or at the end
    rollouts: int = 1  # of each view; the first is without noise
    noise: float = 0.0  # of the other rollouts of a recursive model, see `Predictor.perturbed`
    temperature: float = 0.0  # of the other rollouts of a GPT
    seed: int = 0  # which views, and which noise
    orders: int = 1  # 2 solves each problem with its operands reversed, too; answers vote

    def __post_init__(self) -> None:
        check_choice("vote", self.vote, VOTES)
        check_choice("vote-per", self.per, PER)
        for name in self.symmetries or ():
            check_choice("symmetry", name, SYMMETRIES)
        if self.views < 1 or self.rollouts < 1:
            raise ValueError("a problem is looked at in at least one view and one rollout")
        if self.orders not in (1, 2):
            raise ValueError(f"a problem has 1 or 2 orders of its operands, not {self.orders}")
        if self.orders == 2 and self.vote == "product":
            raise ValueError(
                "the workings of two orders have different cells, of which there is no product: "
                "take another vote, such as majority"
            )
        random = self.noise > 0 or self.temperature > 0
        if (self.rollouts > 1) != random:
            raise ValueError(
                "rollouts differ by noise (of a recursive model) or by temperature (of a GPT), and "
                "the first is without: give a number of rollouts from 2 up together with one of "
                f"these, not rollouts {self.rollouts}, noise {self.noise:g} and temperature "
                f"{self.temperature:g}"
            )

    @property
    def transposes(self) -> bool:
        """Whether a view may exchange rows and columns."""
        return any(lookup(name).transpose for name in self.symmetries or ())

    @property
    def samples(self) -> int:
        """How often a problem is looked at, at most."""
        return self.views * self.rollouts * self.orders
