"""From operands to answers: `Solver`, with which every command and script solves problems."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from augment.symmetry import lookup
from canvas import symbols
from canvas.canvas_size import Canvas
from canvas.drawing import Drawing, WorkedDrawing
from canvas.problems import Problems
from canvas.reading import Reading, read
from canvas.task import Task, describe_ranges
from trm.registry import SHARING, load
from trm.released import moved
from trm.runtime.progress import part
from trm.solving import placement
from trm.solving.operand_swap import solve_in_both_orders
from trm.solving.orientation import solve_guesses
from trm.solving.predictor import Predictor, Sampling
from trm.solving.rows import FilledCanvases
from trm.solving.solution import Solution
from trm.solving.voting import Decision, Tally, Voting, solve_by_vote
from trm.solving.watching import show_row_by_row


@dataclass(frozen=True)
class Solver:
    """A model with its task and canvas.

    Example: ``load_solver().solve(Problems.from_ints([(123, 45)], 10))`` returns one `Solution`.
    """

    predictor: Predictor
    task: Task  # layout and base; digit ranges are those of training, not limits
    canvas: Canvas = field(default_factory=Canvas)  # to solve on
    trained_symmetries: tuple[str, ...] = ("e",)  # of all canvases in training, learned or not
    voting: Voting | None = None  # number of views and how they vote; None: one view
    known_wrong: tuple[tuple[int, ...], ...] = ()  # problems with a known incorrect answer
    file: Path | None = None  # from which the model was loaded
    primed: Task | None = None  # of a few longer problems that training had as well

    def __repr__(self) -> str:
        model = type(getattr(self.predictor, "model", self.predictor)).__name__
        layout = f"{self.task.layout} {self.task.digits_in_words}"
        return f"Solver({model}, {layout}, trained on {self.trained_on})"

    @classmethod
    def from_pretrained(
        cls, name: str | Path, revision: str | None = None, **options: Any
    ) -> "Solver":
        """Load a model.

        Example: ``solve("12x3", Solver.from_pretrained("lattice")).answer`` is 36.

        Args:
            name: a folder, a file, or a name that `trm models` lists; else a model on the hub, like
                ``me/multiply``.
            revision: on the hub: a branch, a tag or a commit; None: the newest.
            options: those of `load_solver`, and token, cache_dir, local_files_only and
                force_download of ``huggingface_hub.snapshot_download``.

        Raises:
            FileNotFoundError: there is no such model here, and none on the hub can be read.
            ImportError: the hub is needed, and huggingface_hub is not installed.
            ValueError: see `load_solver`; or config.json differs from the weights.
        """
        solver: Solver = load(f"{SHARING}.from_pretrained")(name, revision, **options)
        return solver

    def save_pretrained(self, folder: str | Path, repo_id: str | None = None) -> None:
        """Write weights, settings and a model card into a folder.

        Changed weights are written as they are now, without the claims and figures of the old ones.

        Args:
            folder: is made.
            repo_id: the model's name in the card; None: the folder.

        Raises:
            ValueError: the folder has other files of these names, or the solver is of no file.
        """
        load(f"{SHARING}.save_pretrained")(self, folder, repo_id)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the folder of `save_pretrained` to the hub; return its URL.

        Args:
            repo_id: like ``me/multiply``.
            options: those of ``huggingface_hub.create_repo``, like private and token.

        Raises:
            ImportError: huggingface_hub is not installed.
            OSError: the hub cannot be reached, or refuses.
        """
        url: str = load(f"{SHARING}.push_to_hub")(self, repo_id, **options)
        return url

    def with_voting(self, voting: Voting) -> "Solver":
        """Return a copy of the solver that solves each problem in many views.

        Raises:
            ValueError: the model cannot work on turned canvases or on canvases of that shape, or
                its views can vote per solution alone.
        """
        canvas, predictor = self.canvas, self.predictor
        if voting.orientation is not None:  # each guess is undone first, and then read as upright
            upright = predictor.for_task(self.task, turned=True)
            return replace(self, voting=voting, predictor=upright)
        if voting.symmetries is None:
            voting = replace(voting, symmetries=self.trained_symmetries)
        if set(voting.symmetries or ()) - {"e"}:
            if predictor.fills == "symbol":
                raise ValueError(
                    "a GPT writes in one direction and cannot work on turned canvases: use only "
                    "shifts, --symmetries e"
                )
            if predictor.fills == "canvas" and voting.per != "solution":
                raise ValueError(
                    "this model recognises an upright solution, not an upright row: let solutions "
                    "vote, --vote-per solution"
                )
            predictor = predictor.for_task(self.task, turned=True)
        if voting.noise:
            predictor = predictor.with_options(noise=voting.noise, seed=voting.seed)
        if voting.transposes and canvas.cut:
            canvas = replace(canvas, square=True)
        elif voting.transposes and canvas.height != canvas.width:
            straight = [s for s in voting.symmetries or () if not lookup(s).transpose]
            raise ValueError(
                f"quarter turns need a square canvas, and this one has {canvas.height} x "
                f"{canvas.width} cells. Re-run with --symmetries {','.join(straight)}, or with "
                "an equal --height and --width"
            )
        return replace(self, predictor=predictor, voting=voting, canvas=canvas)

    def from_noise(self, seed: int = 0) -> "Solver":
        """Return a copy of the solver whose model starts every canvas from a random state.

        Raises:
            ValueError: the model takes no supervision steps.
        """
        return replace(self, predictor=self.predictor.with_options(start_seed=seed))

    def sampled(self, sampling: Sampling | None) -> "Solver":
        """Return a copy of the solver whose GPT samples its symbols; None: the likeliest ones.

        Raises:
            ValueError: the model is not a GPT.
        """
        return replace(self, predictor=self.predictor.with_options(sampling=sampling))

    def solve(self, problems: Problems, with_truth: bool = False) -> list[Solution]:
        """Solve any number of problems, each row built on the model's own rows.

        The solution of a problem does not depend on the other problems.

        Args:
            problems: in the model's base.
            with_truth: also store the true canvas in each solution.

        Raises:
            ValueError: a problem does not fit the canvas, or is written in another base.
        """
        if not isinstance(problems, Problems):
            raise ValueError(
                f"{problems!r} is not of canvas.problems.Problems: solve texts and numbers by "
                "trm.solve(problems, solver)"
            )
        for misfit in filter(None, self.misfits(problems)):
            raise ValueError(misfit)  # before any of the others is solved
        solutions: dict[int, Solution] = {}
        # If canvases are cut to their problems, a batch has problems of equal size, so that a
        # solution does not depend on the lengths of the others.
        sizes = self.task.canvas_layout.sizes(problems).T
        if not self.canvas.cut:
            sizes = np.zeros_like(sizes)
        different, which = np.unique(sizes, axis=0, return_inverse=True)
        batches: list[np.ndarray] = []
        for number, (rows, columns) in enumerate(different.tolist()):
            alike = np.flatnonzero(which == number)
            most = self.predictor.at_once(*self.canvas.size(rows, columns))
            batches += np.split(alike, range(most, len(alike), most))
        for index in batches:
            batch, done = problems[index], len(solutions)
            drawing = self.draw_worked(batch) if with_truth else self.draw(batch)
            with part(done, done + len(batch), len(problems)):
                found = self.solve_drawing(batch, drawing)
            solutions.update(zip(index.tolist(), found, strict=True))
        return [solutions[i] for i in range(len(problems))]

    def solve_drawing(self, problems: Problems, drawing: Drawing) -> list[Solution]:
        """Solve problems drawn on their canvases, in one batch."""
        voting, on_row = self.voting, self.predictor.options.on_row
        if voting is None:
            written = self.predictor.free_running(drawing)
            if on_row is not None and self.predictor.fills != "row":
                show_row_by_row(written, drawing, on_row)
            return self.solutions(problems, drawing, written)
        if voting.orders == 2:
            return solve_in_both_orders(self, problems, drawing)
        if self.orientation_unknown:
            return solve_guesses(self, problems, drawing)
        operands = problems.to_ints()

        def is_readable(i: int, canvas: np.ndarray) -> bool:
            return self.read(canvas, operands[i]) is not None

        written, decisions = solve_by_vote(self.predictor, voting, drawing, is_readable)
        return list(map(self._with_votes, self.solutions(problems, drawing, written), decisions))

    def solutions(
        self, problems: Problems, drawing: Drawing, written: FilledCanvases
    ) -> list[Solution]:
        """Read the solutions from a model's canvases."""
        names, in_range = self.task.names(problems), self.task.in_range(problems)
        confidence = np.nan_to_num(written.confidence)  # NaN if weights are far too large
        refuted = [operands in self.known_wrong for operands in problems.to_ints()]
        confidence = np.where(np.array(refuted, dtype=bool)[:, None], 0, confidence)
        certain = self.predictor.certain  # once: some models compare their weights for it
        by_row = self.voting is not None and self.voting.per == "row"
        chains = None if by_row else self.predictor.longest_chain(drawing)
        solutions = []
        for i, operands in enumerate(problems.to_ints()):
            n = int(drawing.num_rows[i])
            reading = self.read(written.canvases[i], None if self.orientation_unknown else operands)
            solutions.append(
                Solution(
                    problem=names[i],
                    operands=operands,
                    answer=None if reading is None else reading.answer,
                    true_answer=self.task.answer(operands),
                    in_range=bool(in_range[i]),
                    base=self.task.base,
                    canvas=written.canvases[i],
                    given=drawing.given[i],
                    rows=[int(drawing.canvas_row(k)[i]) for k in range(n)],
                    row_confidence=confidence[i, :n].tolist(),
                    row_steps=written.steps[i, :n].tolist(),
                    longest_chain=None if chains is None else int(chains[i]),
                    truth=drawing.truth[i] if isinstance(drawing, WorkedDrawing) else None,
                    answer_cells=() if reading is None else reading.answer_cells,
                    uncalibrated_reason=self._uncalibrated_reason(
                        certain, operands, bool(in_range[i]), written.settled[i, :n]
                    ),
                )
            )
        return solutions

    def _uncalibrated_reason(
        self, certain: bool, operands: tuple[int, ...], in_range: bool, settled: np.ndarray
    ) -> str:
        """Return why the confidence in a solution is not calibrated; empty: it is.

        Args:
            certain: whether the model is known to be correct.
            operands: of the problem.
            in_range: whether the model was trained on their lengths.
            settled: whether each row has settled, bool [rows].
        """
        options, reasons = self.predictor.options, list[str]()
        if not certain:
            if self.predictor.uncalibrated_reason:
                reasons.append(self.predictor.uncalibrated_reason)
            if not in_range:
                zero = self.task.smallest and 0 in operands
                other = f"outside the lengths trained on ({self.trained_on})"
                reasons.append("never trained on 0" if zero else other)
            views = (self.voting and self.voting.symmetries) or ()
            if set(views) - set(self.trained_symmetries):
                reasons.append("shown in symmetries that it was not trained on")
            if options.start_seed is not None:
                reasons.append("started from a random state")
        if options.sampling is not None:
            reasons.append(str(options.sampling))
        if unsettled := [str(k + 1) for k, done in enumerate(settled) if not done]:
            named = ("row " if len(unsettled) == 1 else "rows ") + ", ".join(unsettled)
            reasons.append(f"{named} did not settle within the {self.predictor.steps_in_words}")
        return "; ".join(reasons)

    @property
    def orientation_unknown(self) -> bool:
        """True if canvases are in an unknown orientation, see `trm.solving.orientation`."""
        return self.voting is not None and self.voting.orientation is not None

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Height and width of a canvas in training."""
        return self.canvas.size(*self.task.extent())

    @property
    def trained_on(self) -> str:
        """Sizes of the training problems, in words."""
        ranges = describe_ranges(self.task.ranges, self.task.gaps, self.task.unit)
        if self.primed is None:
            return ranges
        return f"{ranges}, primed with {describe_ranges(self.primed.ranges, self.primed.gaps)}"

    def read(self, canvas: np.ndarray, operands: tuple[int, ...] | None) -> Reading | None:
        """Read a solved canvas; None if no answer to these operands, or any, can be read."""
        try:
            reading = read(canvas, self.task.canvas_layout, self.task.base)
        except ValueError:
            return None
        return reading if operands in (None, reading.operands) else None

    def _with_votes(self, solution: Solution, decisions: list[Decision]) -> Solution:
        def answer(cells: tuple[int, ...]) -> str | None:
            if self.voting is None or self.voting.per == "row":
                blank = symbols.ALL_CHARACTERS[symbols.BLANK]
                return "".join(symbols.ALL_CHARACTERS[cell] for cell in cells).strip(blank)
            canvas = solution.canvas.copy()
            canvas[~solution.given] = cells
            reading = self.read(canvas, solution.operands)
            return None if reading is None else solution.write(reading.answer)

        def read_one(one: Tally) -> Tally:
            return Tally(answer(one.answer), one.views, float(np.nan_to_num(one.confidence)))

        votes = [[read_one(one) for one in decision.votes] for decision in decisions]
        agreement = min(decision.agreement for decision in decisions)
        number, voting = sum(one.views for one in votes[0]), self.voting
        assert voting is not None
        return replace(
            solution,
            views=number // voting.rollouts,
            views_asked=voting.views,
            rollouts=voting.rollouts,
            agreement=agreement,
            votes=votes,
        )

    def for_lengths(self, lengths: Sequence[int]) -> "Solver | None":
        """Return the solver on a canvas large enough for operands of these lengths.

        The canvas is training's if that is large enough, else a larger one. None: the model cannot
        work on a canvas of that size.

        Args:
            lengths: digits of each operand.

        Raises:
            ValueError: the layout or the model does not accept so many operands.
        """
        most = self.predictor.most_operands
        if most is not None and len(lengths) > most:
            raise ValueError(
                f"this model works with at most {most} operands, not with {len(lengths)}"
            )
        rows, columns = self.task.canvas_layout.room(lengths, self.task.base)
        height, width = placement.size_for(self, rows, columns)
        height, width = max(height, rows), max(width, columns)
        if self.voting and self.voting.transposes:
            height = width = max(height, width)
        if not self.predictor.accepts(height, width):
            return None
        if self.canvas.cut:
            return self
        return replace(self, canvas=replace(self.canvas, height=height, width=width))

    def draw(self, problems: Problems) -> Drawing:
        """Draw problems on a canvas to solve them on: centred, right ends below each other.

        Raises:
            ValueError: a problem does not fit, or is written in another base than the model's.
        """
        return self.task.canvas_layout.draw(problems, *placement.place_problems(self, problems))

    def draw_worked(self, problems: Problems) -> WorkedDrawing:
        """Draw problems with their true solutions, to compare a model's with."""
        placed = placement.place_problems(self, problems)  # raises before a large problem is solved
        return self.task.canvas_layout.draw_worked(problems, *placed)

    def misfits(self, problems: Problems) -> list[str | None]:
        """Return the reason why each problem does not fit its own canvas; None if it fits.

        A problem that the task, the layout or the model excludes fits no canvas. Problems are in
        the model's base.
        """
        return placement.misfits(self, problems)


__getattr__ = moved(__name__)  # what is in `trm.solving.watching` now
