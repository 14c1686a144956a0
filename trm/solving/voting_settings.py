"""How a problem is looked at in many views, and how these are to agree: the settings of a vote.

Needs no framework: command lines are read before one is imported. `trm.solving.voting` votes.
"""

from dataclasses import dataclass

from augment.symmetry import SYMMETRIES, lookup
from canvas.choices import check_choice

# How answers become one, and where that comes from.
VOTES = {
    "majority": "the answer of most views, then of the highest mean confidence (the evaluator of "
    "Jolicoeur-Martineau's TRM on ARC)",
    "max_confidence": "the answer of the most confident view; a local model, as quickstart is, has "
    "confidence 0 in pages that do not lie upright",
}
PER = ("row", "solution")


@dataclass(frozen=True)
class Voting:
    """In how many views a problem is looked at, and how these agree; or a ValueError."""

    views: int = 1  # different views of a problem at most, the identity first
    symmetries: tuple[str, ...] | None = None  # of views, beside shifts; None: those of training
    vote: str = "majority"  # one of `VOTES`
    per: str = "row"  # one of `PER`: on each row, which all views then go on from, or at the end
    seed: int = 0  # which views
    orders: int = 1  # 2 solves each problem with its operands reversed, too; answers vote

    def __post_init__(self) -> None:
        check_choice("vote", self.vote, VOTES)
        check_choice("vote-per", self.per, PER)
        for name in self.symmetries or ():
            check_choice("symmetry", name, SYMMETRIES)
        if self.views < 1:
            raise ValueError(f"a problem is looked at in at least one view, not {self.views}")
        if self.orders not in (1, 2):
            raise ValueError(f"a problem has 1 or 2 orders of its operands, not {self.orders}")

    @property
    def transposes(self) -> bool:
        """Whether a view may exchange rows and columns."""
        return any(lookup(name).transpose for name in self.symmetries or ())

    @property
    def samples(self) -> int:
        """How often a problem is looked at, at most."""
        return self.views * self.orders
