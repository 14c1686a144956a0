"""`trm inspect A --patch B`: what of B's activations makes a model write B's answer to A."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from canvas.picture import for_people
from canvas.render import WorkedDrawing, row_step
from trm.commands.arguments import read_problems

if TYPE_CHECKING:
    from trm.probing.patching import Patching
    from trm.solving.solver import Solver

BY = ("cells", "rows", "columns", "heads", "steps")
_STRONGEST = 8  # effects that are printed


def add_patch(parser: argparse.ArgumentParser) -> None:
    """``--patch`` and ``--patch-by``."""
    group = parser.add_argument_group("activation patching")
    group.add_argument(
        "--patch",
        metavar="B",
        help="another problem with numbers as long: its activations are put into the run on the "
        "first, one thing after the other",
    )
    group.add_argument(
        "--patch-by",
        choices=BY,
        help="what is put there at a time: the activations of a cell, of a row or a column of the "
        "canvas (default: cells), what a head gives in all cells, or the whole state after a "
        "supervision step",
    )


def patch_row(
    args: argparse.Namespace, solver: Solver, drawing: WorkedDrawing, row: int
) -> Patching | None:
    """Patch a row, if that is asked for.

    Args:
        args: of the command, with ``problem``, ``patch`` and ``patch_by``.
        solver: with the model.
        drawing: of the first problem.
        row: the step that fills in the row, from 0.

    Raises:
        ValueError: the other problem does not lie in the same cells, has the same row, or cannot
            be patched (`trm.probing.patching.patch`).
    """
    if args.patch is None:
        if args.patch_by is not None:
            raise ValueError(
                f"--patch-by {args.patch_by} says what of another problem is patched: give it with "
                "--patch, like --patch 123x457"
            )
        return None
    from trm.probing.lens import some_steps
    from trm.probing.patching import patch

    other = solver.draw_worked(read_problems([args.patch], solver.task))
    if not _same_cells(drawing, other):
        raise ValueError(
            f"--patch {args.patch}: it has to lie in the same cells as {args.problem}. Take one "
            "whose numbers have as many digits, in the same order"
        )
    differ = (drawing.truth != other.truth).any(axis=2)[0]
    if not differ[int(drawing.row_of_step(row)[0])]:
        rows = [k for k in range(int(drawing.steps[0])) if differ[int(drawing.row_of_step(k)[0])]]
        named = ", ".join(str(k + 1) for k in rows)
        raise ValueError(
            f"--patch {args.patch}: its row {row + 1} reads as that of {args.problem}, so nothing "
            "can be measured. "
            + (f"Take a --row that differs: {named}" if rows else "Take another problem")
        )
    steps = [row_step(one, np.array([row])) for one in (drawing, other)]
    inputs = np.concatenate([step.inputs for step in steps])
    labels = np.concatenate([step.labels for step in steps])
    used = max(1, int(solver.predictor(inputs).steps.max()))
    by = args.patch_by or BY[0]
    taken = range(1, used + 1) if by == "steps" else some_steps(used)
    return patch(solver.predictor, inputs, labels, by, taken)


def print_patching(found: Patching, width: int, names: tuple[str, str], row: int) -> None:
    """Say what the effect is measured by, and which effects are strongest.

    Args:
        found: of the row.
        width: of the canvas.
        names: of A and B.
        row: the row's number, from 1.
    """
    console = Console(highlight=False, soft_wrap=True)
    one, other = found.differences
    cells = int(found.scored.sum())
    console.print(
        f"row {row} of {names[0]} with activations of {names[1]}: logit difference {one:.1f} and "
        f"{other:.1f} in their own runs ({cells} {'cells differ' if cells > 1 else 'cell differs'})"
    )
    for name, right in zip(names, found.right, strict=True):
        if not right:
            console.print(f"  the model is wrong in row {row} of {name}: read effects with care")
    if found.by == "steps":
        console.print("effects step by step (0: A's answer stands, 1: the model says B's)")
        for site, of_step in zip(found.sites, found.effects, strict=True):
            named = zip(found.things, of_step, strict=True)
            words = "  ".join(f"{name} {effect:5.2f}" for name, effect in named)
            console.print(f"  {site:<8} {words}")
        return
    effects = np.nan_to_num(found.effects)
    order = np.argsort(-np.abs(effects), axis=None, kind="stable")
    seen: set[tuple[int, ...]] = set()
    console.print("strongest effects (0: A's answer stands, 1: the model says B's)")
    for index in order:
        place = tuple(int(i) for i in np.unravel_index(index, effects.shape))
        group = {"rows": place[:2], "columns": (place[0], place[-1])}.get(found.by, place)
        if group in seen:
            continue
        if len(seen) == _STRONGEST or abs(effects[place]) < 0.005:
            break
        seen.add(group)
        console.print(
            f"  {effects[place]:5.2f}  {found.sites[place[0]]}, {_thing(found, place[1:], width)}"
        )


def _thing(found: Patching, place: tuple[int, ...], width: int) -> str:
    """What was patched, counted from 1; row ends of a GPT are left of the first column."""
    if found.things:
        return found.things[place[0]]
    row, column = place[0] + 1, place[1] + 1 - (found.pages.shape[2] - width)
    if found.by == "rows":
        return f"row {row} of the canvas"
    if found.by == "columns":
        return f"column {column}" if column else "row ends"
    a, b = (for_people(int(symbol)) or "blank" for symbol in found.pages[:, place[0], place[1]])
    where = f"cell {row},{column}" if column else f"end of row {row} of the canvas"
    return where + (f" ({a}, in B {b})" if a != b else f" ({a})" if column else "")


def _same_cells(one: WorkedDrawing, other: WorkedDrawing) -> bool:
    """Whether two problems lie in the same cells of canvases of one size."""
    return one.given.shape == other.given.shape and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("given", "top", "left", "heights", "widths", "first_step")
    )
