"""From operands to answers: the one door through which every command and script solves."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from augment.symmetry import lookup
from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.picture import to_text
from canvas.problems import MOST_CELLS, Canvas, Problems, Task
from canvas.reader import read
from canvas.render import Drawing, draw
from trm.solving.rollout import OnRow, Predictor
from trm.solving.voting import Voted, Voting, check_predictor, solve_by_vote


class Vote(NamedTuple):
    """One of the different answers that views gave.

    Attributes:
        answer: a row's symbols, or the product; None where no number can be read off the canvas.
        views: how many gave it.
        confidence: their mean confidence.
    """

    answer: str | None
    views: int
    confidence: float


@dataclass(frozen=True)
class Solution:
    """One problem, worked out by a model on its own rows.

    Attributes:
        a, b: the operands.
        product: what the canvas says; None where no number can be read off it.
        correct: whether that is a · b.
        exact: whether every cell of the working is right, not the product alone.
        canvas: ``uint8 [H, W]``, the model's.
        truth: ``uint8 [H, W]``, how the finished canvas should look.
        given: ``bool [H, W]``, the cells that the model was shown.
        rows: the canvas row of each step.
        row_confidence: the model's probability that each row is right; 0 where it is no number.
        row_steps: supervision steps spent on each row, by all views together.
        doubt: why the confidence is not calibrated, as few rows of that kind have been looked at
            in training; empty where it is.
        views: looks at the problem, see `Voting`.
        agreement: the share of them that gave the answer; of rows that were voted on, that of the
            row least agreed upon.
        votes: what was voted on, rows or the solution, each with its different answers.
    """

    a: int
    b: int
    product: int | None
    correct: bool
    exact: bool
    canvas: np.ndarray
    truth: np.ndarray
    given: np.ndarray
    rows: list[int]
    row_confidence: list[float]
    row_steps: list[int]
    doubt: str = ""
    views: int = 1
    agreement: float = 1.0
    votes: list[list[Vote]] = field(default_factory=list)

    @property
    def confidence(self) -> float:
        """Probability that the whole solution is right: the product of its rows'."""
        return float(np.prod(self.row_confidence))

    def record(self) -> dict[str, Any]:
        """The solution as plain data, fit for JSON; operands and product in base 10."""
        return {
            "a": self.a,
            "b": self.b,
            "product": self.product,
            "correct": self.correct,
            "exact": self.exact,
            "confidence": self.confidence,
            "calibrated": not self.doubt,
            "doubt": self.doubt or None,
            "row_confidence": self.row_confidence,
            "row_steps": self.row_steps,
            **self.vote_record(),
            "canvas": to_text(self.canvas).split("\n"),
        }

    def vote_record(self) -> dict[str, Any]:
        """How views agreed, as plain data; empty if there was but one."""
        if not self.votes:
            return {}
        return {
            "views": self.views,
            "agreement": self.agreement,
            "votes": [[vote._asdict() for vote in votes] for votes in self.votes],
        }


@dataclass(frozen=True)
class Solver:
    """A model with what it needs to know about canvases.

    Args:
        predictor: the model.
        task: layout and base; digit ranges are those of training and bind nobody.
        canvas: to solve on.
        practised: the symmetries in which it has seen canvases in training.
        voting: how many views are asked, and how they agree; None: one.
    """

    predictor: Predictor
    task: Task
    canvas: Canvas = field(default_factory=Canvas)
    practised: tuple[str, ...] = ("e",)
    voting: Voting | None = None

    def with_voting(self, voting: Voting) -> "Solver":
        """The same solver, asking many views.

        Raises:
            ValueError: quarter turns on a canvas that is not square, or what `solve_by_vote`
                refuses.
        """
        if voting.symmetries is None:
            voting = replace(voting, symmetries=self.practised)
        check_predictor(self.predictor, voting)
        canvas = self.canvas
        if voting.transposes:
            if canvas.cut:
                canvas = replace(canvas, square=True)
            elif canvas.height != canvas.width:
                straight = [s for s in voting.symmetries or () if not lookup(s).transpose]
                raise ValueError(
                    f"quarter turns need a square canvas, and this one has {canvas.height} x "
                    f"{canvas.width} cells. Re-run with --symmetries {','.join(straight)}, or with "
                    "an equal --height and --width"
                )
        return replace(self, voting=voting, canvas=canvas)

    def solve(
        self,
        problems: Problems,
        on_row: OnRow | None = None,
    ) -> list[Solution]:
        """Work problems out row by row on the model's own rows.

        Args:
            problems: any number; all are worked out together, in one batch.
            on_row: called with the step and all canvases before and after each row.

        Raises:
            ValueError: a problem does not fit the canvas, or is written in another base.
        """
        if problems.a.base != self.task.base:
            raise ValueError(
                f"the model multiplies in base {self.task.base}, not {problems.a.base}"
            )
        return self.solve_drawing(problems, self.draw(problems), on_row)

    def solve_drawing(
        self,
        problems: Problems,
        drawing: Drawing,
        on_row: OnRow | None = None,
    ) -> list[Solution]:
        """As `solve`, where the problems have been drawn on their canvases already."""
        voted = None
        if self.voting is None:
            rollout = self.predictor.free_running(drawing, on_row)
        else:
            room = self.task.room(problems)
            voted = solve_by_vote(self.predictor, self.voting, problems, drawing, room, on_row)
            rollout = voted.rollout
        solutions = []
        for i, (a, b) in enumerate(zip(problems.a.to_ints(), problems.b.to_ints(), strict=True)):
            n = int(drawing.steps[i])
            lengths = int(problems.a.lengths[i]), int(problems.b.lengths[i])
            settled = rollout.settled[i, :n]
            product = self._product(rollout.canvases[i], a, b)
            solution = Solution(
                a=a,
                b=b,
                product=product,
                correct=product == a * b,
                exact=bool((rollout.canvases[i] == drawing.canvases[i]).all()),
                canvas=rollout.canvases[i],
                truth=drawing.canvases[i],
                given=drawing.given[i],
                rows=[int(drawing.row_of_step(k)[i]) for k in range(n)],
                row_confidence=[_sure(c) for c in rollout.confidence[i, :n]],
                row_steps=[int(s) for s in rollout.steps[i, :n]],
                doubt="; ".join(filter(None, (self._unpractised(lengths), _unsettled(settled)))),
            )
            solutions.append(solution if voted is None else self._votes(solution, voted, i))
        return solutions

    def _unpractised(self, lengths: tuple[int, int]) -> str:
        """What is said of operands of other lengths than training's; empty for those."""
        ranges = self.task.digits_a, self.task.digits_b
        if all(low <= n <= high for n, (low, high) in zip(lengths, ranges, strict=True)):
            return ""
        (_, a), (_, b) = ranges
        longer = any(n > high for n, (_, high) in zip(lengths, ranges, strict=True))
        return f"{'longer' if longer else 'shorter'} than practised (up to {a} x {b} digits)"

    def _product(self, canvas: np.ndarray, a: int, b: int) -> int | None:
        """What a worked canvas says a · b is; None where no number can be read."""
        try:
            said = read(canvas, self.task.rules, self.task.base)
        except ValueError:
            return None
        return said.product if (said.a, said.b) == (a, b) else None

    def _votes(self, solution: Solution, voted: Voted, i: int) -> Solution:
        """A solution with how its views agreed."""
        decisions = voted.decisions[i]
        whole = self.voting is not None and self.voting.per == "solution"

        def answer(cells: np.ndarray) -> str | None:
            if not whole:
                return symbols.decode(cells).strip(symbols.decode(np.array([symbols.BLANK])))
            canvas = solution.truth.copy()
            canvas[~solution.given] = cells
            product = self._product(canvas, solution.a, solution.b)
            return None if product is None else self.write(product)

        return replace(
            solution,
            views=int(voted.views[i]),
            agreement=min(decision.agreement for decision in decisions),
            votes=[
                [Vote(answer(b.cells), b.views, _sure(b.confidence)) for b in decision.ballots]
                for decision in decisions
            ],
        )

    def for_lengths(self, digits_a: int, digits_b: int) -> "Solver | None":
        """The same solver on a canvas that operands of so many digits fit on.

        Training's canvas if it is large enough, else a larger one; None where the model cannot
        work on any.
        """
        rows, columns = self.task.rules.extent(digits_a, digits_b)
        height, width = self.canvas.size(rows, columns)
        height, width = max(height, rows), max(width, columns)
        if self.voting and self.voting.transposes:
            height = width = max(height, width)
        if height * width > MOST_CELLS or not self.predictor.accepts(height, width):
            return None
        if self.canvas.cut:
            return self
        return replace(self, canvas=replace(self.canvas, height=height, width=width))

    def write(self, number: int) -> str:
        """A number in the model's base."""
        return Numbers.from_ints([number], self.task.base).to_text()[0]

    def draw(self, problems: Problems) -> Drawing:
        """Problems on a canvas to solve them on: centred, right ends below each other."""
        # The place of the operands depends on their lengths alone: it must not tell how long the
        # product is.
        rows, columns = self.task.room(problems)
        height, width = self.canvas.size(int(rows.max()), int(columns.max()))
        if too_large := _too_large(height, width):
            raise ValueError(too_large)
        worked = self.task.rules.work(problems.a, problems.b)
        misfits = self._misfits(problems, worked.heights, worked.widths, height, width)
        for misfit in filter(None, misfits):
            raise ValueError(misfit)
        top = (height - rows).clip(0) // 2
        right = width - (width - columns).clip(0) // 2
        return draw(worked, height, width, top=top, left=(right - worked.widths).clip(0))

    def misfits(self, problems: Problems) -> list[str | None]:
        """Why each problem does not fit the canvas it would be solved on; None where it does.

        Each is told by itself: on a canvas that is cut, the others do not count.
        """
        rows, columns = self.task.room(problems)
        if not self.canvas.cut:
            height, width = self.canvas.size(0, 0)
            return self._misfits(problems, rows, columns, height, width)
        told: list[str | None] = []
        for name, need in zip(problems.names(), np.stack([rows, columns], axis=1), strict=True):
            height, width = self.canvas.size(int(need[0]), int(need[1]))
            fits = self.predictor.accepts(height, width)
            misfit = None if fits else f"{name} needs a canvas that the model cannot work on"
            told.append(_too_large(height, width) or misfit)
        return told

    def _misfits(
        self, problems: Problems, heights: np.ndarray, widths: np.ndarray, height: int, width: int
    ) -> list[str | None]:
        told: list[str | None] = [_too_large(height, width)] * len(problems)
        if told[0]:
            return told
        for i in np.flatnonzero((heights > height) | (widths > width)):
            need_height, need_width = max(int(heights[i]), height), max(int(widths[i]), width)
            name = problems[i : i + 1].names()[0]
            grow = f"Re-run with --height {need_height} --width {need_width}, or train"
            if not self.predictor.accepts(need_height, need_width):
                grow = "The model knows no larger one: train"
            told[i] = (
                f"{name} needs a canvas of at least {heights[i]} x {widths[i]} "
                f"(height x width), and this one has {height} x {width}. {grow} on a larger canvas."
            )
        return told


def _too_large(height: int, width: int) -> str | None:
    """Why a canvas is refused, if it is."""
    if height * width <= MOST_CELLS:
        return None
    return f"its canvas of {height} x {width} cells is more than {MOST_CELLS:,} cells"


def _unsettled(settled: np.ndarray) -> str:
    """What is said of rows ``bool [S]`` that were still changing; empty if none was."""
    rows = [str(row) for row in np.flatnonzero(~settled) + 1]
    if not rows:
        return ""
    named = f"row {rows[0]}" if len(rows) == 1 else f"rows {', '.join(rows)}"
    return f"{named} did not settle within the supervision steps"


def _sure(confidence: float) -> float:
    """A confidence; none at all where a model's weights are so large that it has no value."""
    return float(confidence) if np.isfinite(confidence) else 0.0
