"""Canvases in an unknown orientation: eight guesses, of which the most confident wins.

A canvas of an unsolved problem is given turned by one of the eight symmetries, anywhere on a larger
one. Each symmetry is a guess: it is undone, and the canvas is then solved as an upright problem.
The first written line is its first line, and the rows below the operands are filled in one after
the other (`canvas.layouts.Layout.draw_guess`). The canvas of a guess depends on the written cells
alone: not on the place or size of the given canvas, and not on its true orientation. The guesses
of a turned canvas are therefore those of the upright one.

The confidence alone decides. The answer of the winner is read, without the operands of the problem,
and there may be none. Reading an answer uses the layout: in a lattice a sign marks one corner, so
that hardly any other guess yields an answer. `Solution.readable` is the winner if only guesses with
an answer vote.

The confidence in a solution is the product of that in its rows, so it only falls. The first row is
solved for all guesses; then the most confident guess is solved to its end, and the next one only if
it is still the more confident. The winner is the same as if all were solved to the end, in about
the time of one.

One reading may be right in more than one orientation. A lattice reflected in its anti-diagonal
nearly is the lattice of the swapped operands, and such a reflection of a sum may be another sum.
`relative` names them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from augment.symmetry import SYMMETRIES, apply, compose, invert
from canvas.boxes import written_box
from canvas.drawing import Drawing, WorkedDrawing
from canvas.problems import Problems
from canvas.symbols import BLANK
from trm.solving.placement import place_solution
from trm.solving.solution import Solution
from trm.solving.voting import RANDOM, Tally, Voting

if TYPE_CHECKING:
    from trm.solving.solver import Solver


@dataclass(eq=False)
class Guess:
    """A guess of a canvas's orientation, and what was found of it."""

    problem: int  # index
    symmetry: str  # that the canvas is thought to be turned by
    drawing: Drawing  # of this one problem, as the guess reads it
    first_row: float = 1.0  # confidence in its first row; 1: no row comes first
    spent: int = 0  # supervision steps of that row
    solution: Solution | None = None  # None: not solved, as it cannot win any more

    @property
    def confidence(self) -> float:
        """Confidence in the solution, whether an answer can be read or not; at most that, as yet.

        It is the product of the confidence in the rows.
        """
        return float(np.prod(self.solution.row_confidence)) if self.solution else self.first_row


def orientation_of(voting: Voting, operands: Sequence[int]) -> str:
    """Return the symmetry by which a problem's canvas is turned.

    A random one depends on the seed and the operands.
    """
    assert voting.orientation is not None
    if voting.orientation != RANDOM:
        return voting.orientation
    digest = hashlib.sha256(f"{voting.seed} {list(operands)}".encode()).digest()
    return tuple(SYMMETRIES)[digest[0] % len(SYMMETRIES)]


def solve_guesses(solver: Solver, problems: Problems, drawing: Drawing) -> list[Solution]:
    """Solve problems whose canvases are given in an unknown orientation.

    A solution is in the frame of the guess that won: upright if the guess is right.

    Args:
        solver: with ``voting.orientation``.
        problems: B problems.
        drawing: the same problems, upright.
    """
    voting, operands = solver.voting, problems.to_ints()
    assert voting is not None
    orientations = [orientation_of(voting, one) for one in operands]
    guesses = [_guesses(solver, drawing.canvases[i], one, i) for i, one in enumerate(orientations)]
    _fill_first_rows(solver, [*chain(*guesses)])
    while chosen := [one for of_problem in guesses if (one := _to_solve_next(of_problem))]:
        for alike, joined in _batches(chosen):
            written = solver.predictor.free_running(joined)
            batch = problems[np.array([guess.problem for guess in alike])]
            solutions = solver.solutions(batch, joined, written)
            for guess, solution in zip(alike, solutions, strict=True):
                guess.solution = solution
    worked = drawing if isinstance(drawing, WorkedDrawing) else None
    return [
        _elected(
            of_problem, len(voting.guesses), one, None if worked is None else worked[np.array([i])]
        )
        for i, (of_problem, one) in enumerate(zip(guesses, orientations, strict=True))
    ]


def _fill_first_rows(solver: Solver, guesses: Sequence[Guess]) -> None:
    """Fill in the first row of each guess, if the model solves row by row."""
    if solver.predictor.fills != "row":
        return
    for alike, joined in _batches(guesses):
        first = replace(joined, heights=joined.given_rows + 1)
        written = solver.predictor.free_running(first)
        confidence = np.nan_to_num(written.confidence[:, 0]).astype(np.float64)
        for i, guess in enumerate(alike):
            guess.first_row, guess.spent = float(confidence[i]), int(written.steps[i, 0])


def _to_solve_next(guesses: Sequence[Guess]) -> Guess | None:
    """Return the guess of a problem to solve next; None: no other may win."""
    # A solution without an answer leaves open which of those with an answer wins.
    readable = (one for one in guesses if one.solution and one.solution.answer is not None)
    best = max((one.confidence for one in readable), default=-1.0)
    # An equal one may come first, and the first of equals wins.
    open_ones = [one for one in guesses if not one.solution and one.confidence >= best]
    return max(open_ones, key=lambda one: one.confidence, default=None)


def _batches(guesses: Sequence[Guess]) -> Iterator[tuple[list[Guess], Drawing]]:
    """Yield guesses whose canvases have one shape, and these canvases."""
    for shape in dict.fromkeys(guess.drawing.canvases.shape for guess in guesses):
        alike = [guess for guess in guesses if guess.drawing.canvases.shape == shape]
        names = [field.name for field in fields(Drawing)]
        parts = [[getattr(one.drawing, name) for one in alike] for name in names]
        yield alike, Drawing(*map(np.concatenate, parts))


def _guesses(solver: Solver, canvas: np.ndarray, orientation: str, problem: int) -> list[Guess]:
    """Return the guesses of a canvas that differ and fit the model.

    Args:
        solver: with ``voting.orientation``.
        canvas: upright, uint8 [H, W].
        orientation: the symmetry by which it is given turned.
        problem: its index.
    """
    assert solver.voting is not None
    upright = canvas[written_box(canvas)]
    turned, task = apply(orientation, upright), solver.task
    fitting = partial(place_solution, solver)
    guesses, seen = [], set()
    for name in solver.voting.guesses:
        content = apply(invert(name), turned)
        about = content.shape, content.tobytes()
        if about in seen:
            continue
        seen.add(about)
        # Where two symmetries give the same canvas, both are right.
        right = content.shape == upright.shape and (content == upright).all()
        try:
            drawn = task.canvas_layout.draw_guess(content, task.base, task.arity, fitting)
        except ValueError:  # more operands or a larger canvas than there may be
            continue
        guesses.append(Guess(problem, orientation if right else name, drawn))
    return guesses


def _elected(
    guesses: list[Guess], asked: int, orientation: str, drawing: WorkedDrawing | None
) -> Solution:
    """Return the solution of the guess that wins.

    Args:
        guesses: of one problem.
        asked: number of guesses that there may be; equal canvases are one guess.
        orientation: the symmetry by which the problem is given turned.
        drawing: the problem with its true solution; None: unknown.

    Raises:
        ValueError: there is no guess.
    """
    if not guesses:
        raise ValueError(
            "the canvas fits the model in none of the guessed orientations: name more --symmetries"
        )
    solved = [
        replace(one.solution, view=orientation, guess=one.symmetry)
        for one in guesses
        if one.solution
    ]
    known = [one.confidence for one in guesses]
    whole = [one.confidence for one in guesses if one.solution]
    best = int(np.argmax(whole))  # the first of equals
    won, readable = solved[best], max(solved, key=lambda one: one.confidence)
    if drawing is not None:
        won, readable = _with_truth(won, drawing), _with_truth(readable, drawing)
    every = sum(one.spent for one in guesses) + sum(sum(one.row_steps) for one in solved)
    return replace(
        won,
        other_steps=every - sum(won.row_steps),
        views=len(guesses),
        views_asked=asked,
        # No two guesses write the same: the winner's share of all their confidence.
        agreement=whole[best] / sum(known) if sum(known) else 0.0,
        votes=[
            [
                Tally(one.solution.answer_text if one.solution else None, 1, p)
                for one, p in zip(guesses, known, strict=True)
            ]
        ],
        readable=readable if readable.answer is not None else None,
    )


def relative(solution: Solution, guess: str) -> str:
    """Return the symmetry by which a canvas is turned as a guess reads it; e: it is upright.

    Example: a canvas given in r90 and taken for r270 is read in r180.
    """
    assert solution.view is not None
    return compose(solution.view, invert(guess))


def _with_truth(solution: Solution, drawing: WorkedDrawing) -> Solution:
    """Add the true solution, turned as the guess reads it.

    Both canvases become as large as their cells need, so that no cell is left out.
    """
    assert solution.guess is not None
    rel, own = relative(solution, solution.guess), solution.canvas
    truth, written = (apply(rel, part[0]) for part in (drawing.truth, drawing.canvases))
    if rel == "e" and own.shape == truth.shape:
        return replace(solution, truth=truth)
    # A model that writes on the blank cells around the box moves nothing: given cells are known.
    given = np.where(solution.given, own, np.uint8(BLANK))
    (top, left), used = _corner(given) - _corner(written), written_box(truth)
    # The true solution's ends on the solution's canvas.
    first = np.array([used[0].start + top, used[1].start + left])
    last = np.array([used[0].stop + top, used[1].stop + left])
    before, after = np.maximum(0, -first), np.maximum(0, last - own.shape)
    pad = np.stack([before, after], axis=1)
    canvas = np.pad(own, pad, constant_values=BLANK)
    shown = np.full_like(canvas, BLANK)
    shown[tuple(map(slice, first + before, last + before))] = truth[used]
    up, aside = before.tolist()
    return replace(
        solution,
        canvas=canvas,
        given=np.pad(solution.given, pad),
        truth=shown,
        rows=[row + up for row in solution.rows],
        answer_cells=tuple((row + up, column + aside) for row, column in solution.answer_cells),
    )


def _corner(canvas: np.ndarray) -> np.ndarray:
    """Return the row and the column in which the written box of a canvas begins, int64 [2]."""
    return np.array([side.start for side in written_box(canvas)])
