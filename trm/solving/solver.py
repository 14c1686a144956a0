"""From operands to answers: the one door through which every command and script solves."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from canvas.arithmetic import Numbers
from canvas.layouts import Worked
from canvas.picture import to_text
from canvas.problems import Canvas, Problems, Task
from canvas.reader import read
from canvas.render import Drawing, draw
from trm.solving.rollout import Filler, OnRow


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
        row_confidence: the model's probability that each row is right.
        row_steps: supervision steps spent on each row.
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
            "row_confidence": self.row_confidence,
            "row_steps": self.row_steps,
            "canvas": to_text(self.canvas).split("\n"),
        }


@dataclass(frozen=True)
class Solver:
    """A model with what it needs to know about canvases.

    Args:
        filler: the model.
        task: layout and base; digit ranges are those of training and bind nobody.
        canvas: to solve on.
    """

    filler: Filler
    task: Task
    canvas: Canvas = field(default_factory=Canvas)

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
        rollout = self.filler.free_running(drawing, on_row)
        solutions = []
        for i, (a, b) in enumerate(zip(problems.a.to_ints(), problems.b.to_ints(), strict=True)):
            n = int(drawing.steps[i])
            try:
                said = read(rollout.canvases[i], self.task.rules, self.task.base)
                product = said.product if (said.a, said.b) == (a, b) else None
            except ValueError:
                product = None
            solutions.append(
                Solution(
                    a=a,
                    b=b,
                    product=product,
                    correct=product == a * b,
                    exact=bool((rollout.canvases[i] == drawing.canvases[i]).all()),
                    canvas=rollout.canvases[i],
                    truth=drawing.canvases[i],
                    given=drawing.given[i],
                    rows=[int(drawing.row_of_step(k)[i]) for k in range(n)],
                    row_confidence=[float(c) for c in rollout.confidence[i, :n]],
                    row_steps=[int(s) for s in rollout.steps[i, :n]],
                )
            )
        return solutions

    def for_lengths(self, digits_a: int, digits_b: int) -> "Solver | None":
        """The same solver on a canvas that operands of so many digits fit on.

        Training's canvas if it is large enough, else a larger one; None where the model cannot
        work on any.
        """
        rows, columns = self.task.rules.extent(digits_a, digits_b)
        height, width = self.canvas.size(rows, columns)
        height, width = max(height, rows), max(width, columns)
        if not self.filler.accepts(height, width):
            return None
        if self.canvas.cut:
            return self
        return replace(self, canvas=replace(self.canvas, height=height, width=width))

    def write(self, number: int) -> str:
        """A number in the model's base."""
        return Numbers.from_ints([number], self.task.base).to_text()[0]

    def draw(self, problems: Problems) -> Drawing:
        """Problems on a canvas to solve them on: centred, right ends below each other."""
        worked = self.task.rules.work(problems.a, problems.b)
        # The place of the operands depends on their lengths alone: it must not tell how long the
        # product is.
        rows, columns = self.task.room(problems)
        height, width = self.canvas.size(int(rows.max()), int(columns.max()))
        self._check_fit(problems, worked, height, width)
        top = (height - rows).clip(0) // 2
        right = width - (width - columns).clip(0) // 2
        return draw(worked, height, width, top=top, left=(right - worked.widths).clip(0))

    def _check_fit(self, problems: Problems, worked: Worked, height: int, width: int) -> None:
        for i in np.flatnonzero((worked.heights > height) | (worked.widths > width)):
            need_height = max(int(worked.heights[i]), height)
            need_width = max(int(worked.widths[i]), width)
            name = problems[i : i + 1].names()[0]
            grow = f"Re-run with --height {need_height} --width {need_width}, or train"
            if not self.filler.accepts(need_height, need_width):
                grow = "The model knows no larger one: train"
            raise ValueError(
                f"{name} needs a canvas of at least {worked.heights[i]} x {worked.widths[i]} "
                f"(height x width), and this one has {height} x {width}. {grow} on a larger canvas."
            )
