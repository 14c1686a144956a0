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
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from augment.symmetry import SYMMETRIES, apply, compose, invert
from augment.views import View
from canvas.drawing import Drawing, WorkedDrawing
from canvas.layouts import written_box
from canvas.problems import Problems
from canvas.symbols import BLANK
from trm.solving.solution import Solution
from trm.solving.voting import ANY, Vote, Voting, decide

if TYPE_CHECKING:
    from trm.solving.solver import Solver


class Guess(NamedTuple):
    """A guess of a canvas's orientation."""

    problem: int  # index
    symmetry: str  # that the canvas is thought to be turned by
    drawing: Drawing  # of this one problem, as the guess reads it


class Tried(NamedTuple):
    """A guess with what was found of it."""

    symmetry: str
    bound: float  # confidence in its first row
    spent: int  # supervision steps of that row
    solution: Solution | None  # None: it could not win any more


def given_view(voting: Voting, operands: Sequence[int]) -> str:
    """Return the symmetry by which a problem's canvas is turned.

    A random one depends on the seed and the operands.
    """
    assert voting.given is not None
    if voting.given != ANY:
        return voting.given
    digest = hashlib.sha256(f"{voting.seed} {list(operands)}".encode()).digest()
    return tuple(SYMMETRIES)[digest[0] % len(SYMMETRIES)]


def solve_given(solver: Solver, problems: Problems, drawing: Drawing) -> list[Solution]:
    """Solve problems whose canvases are given in an unknown orientation.

    A solution is in the frame of the guess that won: upright if the guess is right.

    Args:
        solver: with ``voting.given``.
        problems: B problems.
        drawing: the same problems, upright.
    """
    voting, operands = solver.voting, problems.to_ints()
    assert voting is not None
    views = [given_view(voting, one) for one in operands]
    guesses = [
        guess
        for i, view in enumerate(views)
        for guess in _guesses(solver, drawing.canvases[i], view, i)
    ]
    of = np.array([guess.problem for guess in guesses], dtype=np.int64)
    bound, spent = _first_rows(solver, guesses)
    found: dict[int, Solution] = {}
    while len(chosen := _to_solve(of, bound, found)):
        for index in _alike(guesses, chosen):
            joined = _joined([guesses[i].drawing for i in index])
            written = solver.predictor.free_running(joined, [View()] * len(index))
            solutions = solver.solutions(problems[of[index]], joined, written)
            found.update(zip(index.tolist(), solutions, strict=True))
    return [
        _elected(
            voting,
            [
                Tried(guesses[j].symmetry, float(bound[j]), int(spent[j]), found.get(j))
                for j in np.flatnonzero(of == i).tolist()
            ],
            view,
            drawing[np.array([i])] if isinstance(drawing, WorkedDrawing) else None,
        )
        for i, view in enumerate(views)
    ]


def _first_rows(solver: Solver, guesses: Sequence[Guess]) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence in the first row of each guess, float64 [N], and its steps, int64 [N].

    Models that do not solve row by row have no first row to look at: 1, after 0 steps.
    """
    predictor = solver.predictor
    bound, spent = np.ones(len(guesses)), np.zeros(len(guesses), dtype=np.int64)
    if predictor.traits.unit == "row":
        for index in _alike(guesses, np.arange(len(guesses))):
            joined = _joined([guesses[i].drawing for i in index])
            first = replace(joined, heights=joined.first_step + 1)
            written = predictor.free_running(first, [View()] * len(index))
            bound[index] = np.nan_to_num(written.confidence[:, 0])
            spent[index] = written.steps[:, 0]
    return bound, spent


def _to_solve(of: np.ndarray, bound: np.ndarray, found: Mapping[int, Solution]) -> np.ndarray:
    """Return the guess of each problem to solve next, int64 [N]: none where no other may win.

    Args:
        of: problem of each guess, int64 [G].
        bound: the most confidence that its solution may have, float [G].
        found: solutions of guesses.
    """
    # A solution without an answer leaves open which of those with an answer wins.
    best = np.full(int(of.max(initial=-1)) + 1, -1.0)
    for i, solution in found.items():
        best[of[i]] = max(best[of[i]], _confidence(solution) if solution.answer is not None else -1)
    unsolved = np.array([i for i in range(len(of)) if i not in found], dtype=np.int64)
    # An equal one may come first, and the first of equals wins.
    unsolved = unsolved[bound[unsolved] >= best[of[unsolved]]]
    unsolved = unsolved[np.lexsort((unsolved, -bound[unsolved], of[unsolved]))]
    return unsolved[np.unique(of[unsolved], return_index=True)[1]]


def _alike(guesses: Sequence[Guess], index: np.ndarray) -> list[np.ndarray]:
    """Return indices in groups whose canvases have one shape."""
    shapes = np.array([guesses[i].drawing.canvases.shape for i in index])
    which = np.unique(shapes, axis=0, return_inverse=True)[1].reshape(-1)
    return [index[which == n] for n in range(int(which.max(initial=-1)) + 1)]


def _confidence(solution: Solution) -> float:
    """Return the product of the confidence in the rows, whether an answer can be read or not."""
    return float(np.prod(solution.row_confidence))


def _guesses(solver: Solver, canvas: np.ndarray, view: str, problem: int) -> list[Guess]:
    """Return the guesses of a canvas that differ and fit the model.

    Args:
        solver: with ``voting.given``.
        canvas: upright, uint8 [H, W].
        view: the symmetry by which it is given turned.
        problem: its index.
    """
    assert solver.voting is not None
    upright = canvas[written_box(canvas)]
    turned, task = apply(view, upright), solver.task
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
            drawn = task.canvas_layout.draw_guess(content, task.base, task.arity, solver.place)
        except ValueError:  # more operands or a larger canvas than there may be
            continue
        guesses.append(Guess(problem, view if right else name, drawn))
    return guesses


def _joined(drawings: Sequence[Drawing]) -> Drawing:
    names = [field.name for field in fields(Drawing)]
    return Drawing(*(np.concatenate([getattr(one, name) for one in drawings]) for name in names))


def _elected(
    voting: Voting, guesses: list[Tried], view: str, drawing: WorkedDrawing | None
) -> Solution:
    """Return the solution of the guess that wins.

    Args:
        voting: scores the guesses.
        guesses: of one problem.
        view: the symmetry by which the problem is given turned.
        drawing: the problem with its true solution; None: unknown.

    Raises:
        ValueError: there is no guess.
    """
    if not guesses:
        raise ValueError(
            "the canvas fits the model in none of the guessed orientations: name more --symmetries"
        )
    solved = [
        replace(one.solution, view=view, guess=one.symmetry) for one in guesses if one.solution
    ]
    whole = [_confidence(one) for one in solved]
    won, readable = (
        solved[decide(voting.vote, range(len(solved)), np.array(scores)).behind[0]]
        for scores in (whole, [one.confidence for one in solved])
    )
    if drawing is not None:
        won, readable = _with_truth(won, drawing), _with_truth(readable, drawing)
    steps = won.row_steps.copy()
    every = sum(one.spent for one in guesses) + sum(sum(one.row_steps) for one in solved)
    steps[-1] += every - sum(steps)
    known = [_confidence(one.solution) if one.solution else one.bound for one in guesses]
    return replace(
        won,
        row_steps=steps,
        views=len(guesses),
        views_asked=len(voting.guesses),
        # No two guesses write the same: the winner's share of all their confidence.
        agreement=_confidence(won) / sum(known) if sum(known) else 0.0,
        votes=[
            [
                Vote(one.solution.answer_text if one.solution else None, 1, p)
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
