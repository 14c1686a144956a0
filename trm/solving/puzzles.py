"""Solving puzzles of any kind: canvases whose cells a model fills in all at once.

What a task is to numbers, a `PuzzleFormat` is to puzzles: symbols and the size of a canvas, which
come from the data (`trm.io.puzzle_files`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from augment.symmetry import lookup
from augment.views import possible_shifts
from trm.io.puzzle_format import PuzzleFormat, check_symbols
from trm.runtime.limits import check_whole
from trm.runtime.progress import report
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.predictor import Predictor
from trm.solving.rows import in_views
from trm.solving.surest import SurestFirst
from trm.solving.voting import Voting, flattened, views_of, vote_on

_AT_ONCE = 256  # puzzles, of which all views are solved together


class SolvedPuzzles(NamedTuple):
    """Solutions of B puzzles."""

    canvases: np.ndarray  # uint8 [B, H, W]
    confidence: np.ndarray  # float32 [B], 0 to 1
    steps: np.ndarray  # int64 [B], supervision steps, of all views and passes together
    settled: np.ndarray  # bool [B], see `trm.solving.rows.Prediction`
    views: np.ndarray  # int64 [B], number of different views
    agreement: np.ndarray  # float32 [B], share of the views that gave this solution

    @staticmethod
    def joined(parts: Sequence["SolvedPuzzles"]) -> "SolvedPuzzles":
        """Concatenate batches."""
        return SolvedPuzzles(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class PuzzleSolver:
    """A model that solves puzzles.

    Raises:
        ValueError: puzzles have no such votes, or ``surest`` is no whole number from 1 up.
    """

    predictor: IterativePredictor
    format: PuzzleFormat  # of training
    symmetries: tuple[str, ...] = ("e",)  # of canvases in training
    shifted: bool = False  # whether training moved canvases
    voting: Voting | None = None  # None: one view
    file: Path | None = None  # the model's; None: it was not loaded from one
    surest: int | None = None  # cells written at a time, see `trm.solving.surest`; None: all

    def __post_init__(self) -> None:
        check_whole("surest", self.surest, 1)
        if self.voting is None:
            return
        if (
            self.voting.orders > 1
            or self.voting.rollouts > 1
            or self.voting.orientation is not None
        ):
            raise ValueError(
                "views of a puzzle vote, and nothing else does: leave out --orders, --rollouts, "
                "--noise and --view"
            )

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Height and width of a canvas in training."""
        return self.format.height, self.format.width

    def with_voting(self, voting: Voting | None) -> "PuzzleSolver":
        """Return the same solver with another voting; symmetries that are None: of training."""
        return replace(self, voting=voting)

    def solve(self, inputs: np.ndarray) -> SolvedPuzzles:
        """Solve puzzles, uint8 [B, H, W], of any size that the model accepts.

        Args:
            inputs: at least one puzzle.

        Raises:
            ValueError: these are no puzzles; or the model does not accept this size, or a view
                cannot turn it.
        """
        self._check(inputs)
        parts = []
        for start in range(0, len(inputs), _AT_ONCE):
            report("puzzles", start, len(inputs), solving=True)
            parts.append(self._solve(inputs[start : start + _AT_ONCE]))
        return SolvedPuzzles.joined(parts)

    def _check(self, inputs: np.ndarray) -> None:
        """Raise a ValueError unless arrays are puzzles of the model's symbols and sizes."""
        if not isinstance(inputs, np.ndarray):
            raise ValueError(f"puzzles are a NumPy array, not a {type(inputs).__name__}")
        if inputs.ndim != 3 or inputs.dtype.kind not in "iu":
            found = f"{inputs.dtype} {list(inputs.shape)}"
            raise ValueError(f"puzzles are whole numbers [B, H, W], not {found}")
        if not len(inputs):
            raise ValueError("there is no puzzle to solve")
        check_symbols("puzzles", inputs.reshape(len(inputs), -1), self.format.vocab_size)
        self.check_size(*inputs.shape[1:])

    def check_size(self, height: int, width: int) -> None:
        """Raise a ValueError unless the model accepts canvases of this size, in all views."""
        if not self.predictor.accepts(height, width):
            size = f"{self.format.height} x {self.format.width}"
            raise ValueError(
                f"the model cannot work on canvases of {height} x {width} cells: it was trained on "
                f"{size}, and its position encoding has no more places, or attention too many pairs"
            )
        turned = [name for name in self._voting.symmetries or () if lookup(name).transpose]
        if height != width and turned:
            raise ValueError(
                f"views {', '.join(turned)} exchange rows and columns, and canvases are {height} x "
                f"{width}: choose others, like --symmetries e,r180,v,h"
            )

    @property
    def _voting(self) -> Voting:
        """Settings of the vote, with symmetries; one view votes alone."""
        if self.voting is None:
            return Voting(symmetries=("e",))
        trained = self.voting.symmetries is None
        return replace(self.voting, symmetries=self.symmetries) if trained else self.voting

    def _solve(self, inputs: np.ndarray) -> SolvedPuzzles:
        inside, voting = self.format.inside(inputs), self._voting
        # Without padding there is no room for a shift.
        room = possible_shifts(inside if self.shifted else np.ones_like(inside)).T.tolist()
        size = height, width = inputs.shape[1:]
        views = [
            views_of(voting, size, (up, left, height - up - down, width - left - right), False)
            for up, down, left, right in room
        ]
        problem_of, every = flattened(views)
        predictor: Predictor = self.predictor
        if self.surest is not None:
            predictor = SurestFirst(self.predictor, self.surest)
        seen = in_views(predictor, inputs[problem_of], every, problem_of)
        voted, decisions = vote_on(
            voting.vote, seen, problem_of, inputs, self.format.unknown_cells(inputs)
        )
        agreement = np.array([decision.agreement for decision in decisions], np.float32)
        figures = voted.confidence, voted.steps, voted.settled
        return SolvedPuzzles(voted.canvases, *figures, np.bincount(problem_of), agreement)

    def records(self, inputs: np.ndarray, solved: SolvedPuzzles) -> list[dict[str, Any]]:
        """Return a record for JSON of each puzzle: puzzle and solution as text, and figures."""
        parts = zip(inputs, solved.canvases, *(part.tolist() for part in solved[1:]), strict=True)
        return [
            {
                "puzzle": self.format.to_text(given),
                "solution": self.format.to_text(canvas),
                **dict(zip(SolvedPuzzles._fields[1:], figures, strict=True)),
            }
            for given, canvas, *figures in parts
        ]

    def watched(
        self, inputs: np.ndarray, steps: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the solutions after each supervision step, in one view, all cells at a time.

        Args:
            inputs: puzzles, uint8 [B, H, W].
            steps: after which they stop, and not before; None: the most that solving takes.

        Returns:
            Solutions, uint8 [T, B, H, W], and confidence, float32 [T, B].

        Raises:
            ValueError: as for `solve`, or ``steps`` is no whole number from 1.
        """
        self._check(inputs)
        check_whole("steps", steps, 1)
        cells, confidence, _ = self.predictor.every_step(inputs, steps)
        return np.where(self.format.unknown_cells(inputs), cells, inputs), confidence
