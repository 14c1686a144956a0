"""Export of a model's weights: `trm inspect --export`.

A safetensors file describes its model, and every command accepts it as a checkpoint. An HTML page
shows cell models at work in a browser. ONNX is for other programs. ``--dtype int8`` writes a cell
model in integers (`trm.cells.integer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trm.checkpoints import CHECKPOINT_KEY, COST_KEY, SUFFIX, find_checkpoint
from trm.checkpoints.names import PUZZLES
from trm.commands.arguments import Arguments
from trm.io.files import check_file, check_place, fingerprint, read_object, write_new
from trm.runtime.progress import progress

if TYPE_CHECKING:
    from trm.extras.page.page import Shown

# Figures of each cell of a grid that a model card repeats.
_CARD_FIGURES = ("row", "column", "region", "solutions", "answers", "rows_teacher_forced")
_PUZZLE_FIGURES = ("exact", "cells", "confidence", "calibration_error", "auroc", "views", "steps")
PAGE, ONNX = ".html", ".onnx"  # in place of `SUFFIX`
INTEGERS = {"int8": 8, "int4": 4}  # bits of a weight
DTYPES = ("float32", "bfloat16", *INTEGERS)


def export(args: Arguments) -> int:
    """Write the file that ``--export`` names, and print its contents."""
    checkpoint, output = find_checkpoint(args.checkpoint), Path(args.export)
    if output.suffix not in (SUFFIX, PAGE, ONNX):
        raise ValueError(f"--export {output} has to end in {SUFFIX}, {PAGE} or {ONNX}")
    check_place(output, "--export")
    if args.untrained:
        args.refuse("--untrained draws new weights, which have no figures", "figures")
    if args.dtype in INTEGERS:
        why = f"--dtype {args.dtype} writes another model than the checkpoint's, of trained weights"
        args.refuse(why, "figures", "untrained")
    if output.suffix != PAGE:
        args.refuse(f"only a web page ({PAGE}) contains several models", "beside")
    if output.suffix != SUFFIX:
        args.refuse(f"--dtype applies to a file of weights ({SUFFIX})", "dtype")
    checkpoints = [args.checkpoint, *args.beside]
    args.find_checkpoints(*checkpoints)

    import torch

    from trm.cells.integer import IntegerCellModel
    from trm.cells.model import CellModel
    from trm.checkpoints.content import load_checkpoint, pack
    from trm.checkpoints.loading import reinitialised
    from trm.evaluation.models import labels
    from trm.extras.page.page import page
    from trm.extras.sharing import to_onnx
    from trm.solving.puzzles import PuzzleSolver

    first, *others = map(shown, labels(checkpoints), checkpoints)
    solver, content = first.solver, load_checkpoint(checkpoint)
    model = solver.predictor.model
    if isinstance(model, IntegerCellModel):
        args.refuse("the model is in integers already", "dtype", "untrained")
    if args.dtype in INTEGERS:
        if not isinstance(model, CellModel):
            args.refuse(
                f"only a cell model is written in integers, not a {type(model).__name__}", "dtype"
            )
        first = _in_integers(args, first, content)
    if args.untrained:
        model = reinitialised(model)
        first = first._replace(weights=model.state_dict(), card={})
        content |= {"global_step": 0, "epoch": 0, COST_KEY: None}
    dtype = getattr(torch, args.dtype) if args.dtype not in (None, *INTEGERS) else None
    if dtype and any((w.to(dtype).to(w.dtype) != w).any() for w in first.weights.values()):
        args.refuse(
            f"the figures were measured before rounding to {args.dtype}; evaluate the exported "
            "file, and export that with its figures",
            "figures",
        )
        first = first._replace(card={})  # proof and figures are of the weights before rounding
    if args.figures:
        card_of = _card_of_puzzles if isinstance(solver, PuzzleSolver) else _card
        first = first._replace(card=first.card | card_of(checkpoint, args.figures, first.card))
    if output.suffix == PAGE:
        packed = page([first, *others]).encode()
    elif output.suffix == ONNX:
        packed = to_onnx(model, *solver.canvas_size)
    else:
        packed = pack(content, first.card, first.weights, dtype)
    write_new(output, packed, f"--export {output}")
    held = [first, *others] if output.suffix == PAGE else [first]
    sizes = [f"{one.solver.predictor.model.num_parameters:,} parameters" for one in held]
    if others:
        sizes = [f"{one.name} {size}" for one, size in zip(held, sizes, strict=True)]
    args.info.print(f"{output}: {', '.join(sizes)}; {len(packed):,} bytes")
    return 0


def _in_integers(args: Arguments, first: Shown, content: dict[str, Any]) -> Shown:
    """Return a model in integers, without a card, and describe it in a checkpoint's content."""
    from trm.cells.proof.integers import in_integers
    from trm.checkpoints.content import network_entry
    from trm.solving.solver import Solver

    assert isinstance(first.solver, Solver)  # as its model is a cell model
    with progress(args.quiet):
        model, differ, tried = in_integers(first.solver, INTEGERS[args.dtype])
    if differ:
        args.info.print(f"decides differently than the checkpoint: {differ:,} of {tried:,} inputs")
    content[CHECKPOINT_KEY] |= network_entry(model)
    return first._replace(weights=model.state_dict(), card={})


def shown(name: str, checkpoint: str | Path) -> Shown:
    """Return a checkpoint's solver, weights and card, which contains the noted proof."""
    from trm.checkpoints.content import load_checkpoint, network_weights
    from trm.checkpoints.puzzles import load_any
    from trm.extras.model_card import description
    from trm.extras.page.page import Shown

    solver = load_any(checkpoint, device="cpu")  # raises if anything does not fit
    content = load_checkpoint(checkpoint)
    card = description(checkpoint, content, solver)
    return Shown(name, solver, network_weights(content), card)


def _card(checkpoint: Path, evaluations: Sequence[str], old: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's figures from evaluations, which differ in their cells alone.

    Figures of the old card stay where they were measured in the same way: they are of the same
    weights.

    Raises:
        ValueError: an evaluation did not measure this checkpoint, or its problems were drawn or
            solved with other settings than those of the first.
    """
    from trm.evaluation.grid import read_grid

    card: dict[str, Any] = {}
    sha256 = fingerprint(checkpoint)
    for evaluation in evaluations:
        grid = read_grid(evaluation)
        model = next((model for model in grid["models"] if model["sha256"] == sha256), None)
        if model is None:
            raise ValueError(f"{evaluation} has no figures of {checkpoint}: evaluate it first")
        settings = {key: grid["settings"][key] for key in ("split", "seed", "axes")}
        if words := grid.settings_in_words(model):
            settings["asked"] = words
        if not card and _way(old.get("settings", {})) == settings:
            card = {key: old[key] for key in ("measured", "settings", "cells")}
        if card and _way(card["settings"]) != settings:
            raise ValueError(
                f"{evaluation} was measured in another way than {evaluations[0]}: write the "
                "figures of one kind of evaluation into a file"
            )
        cells = {(cell["row"], cell["column"]): cell for cell in card.get("cells", ())}
        for cell in filter(lambda cell: cell["applicable"], model["cells"]):
            cells[cell["row"], cell["column"]] = {key: cell[key] for key in _CARD_FIGURES}
        problems = max(grid["settings"]["problems"], card.get("settings", {}).get("problems", 0))
        card = {
            "checkpoint_sha256": sha256,
            "measured": max(grid["created"], card.get("measured", "")),
            "settings": settings | {"problems": problems},
            "cells": [cells[place] for place in sorted(cells)],
        }
    return card


def _card_of_puzzles(
    checkpoint: Path, evaluations: Sequence[str], old: dict[str, Any]
) -> dict[str, Any]:
    """Return a checkpoint's figures from evaluations on arrays of puzzles, one entry for each.

    Figures of the old card stay unless the same puzzles were solved again in the same views.

    Raises:
        FileNotFoundError: there is no such evaluation.
        ValueError: an evaluation did not measure this checkpoint.
    """
    from trm.evaluation.puzzles import FILES

    sha256 = fingerprint(checkpoint)
    found = {_puzzle_way(one): one for one in old.get(PUZZLES, ())}
    for evaluation in evaluations:
        file = Path(evaluation) / FILES[0]
        check_file(file, "an evaluation of puzzles, by `trm evaluate --data`")
        measured = read_object(file) or {}
        models = [one for one in measured.get("models", ()) if one.get("sha256") == sha256]
        if not models:
            raise ValueError(f"{evaluation} has no figures of {checkpoint}: evaluate it first")
        one = {name: models[0][name] for name in _PUZZLE_FIGURES}
        one |= {"data": measured["data"], "vote": (measured["voting"] or {}).get("vote")}
        if surest := measured.get("surest"):
            one["surest"] = surest
        found[_puzzle_way(one)] = one
    return {"checkpoint_sha256": sha256, PUZZLES: [*found.values()]}


def _puzzle_way(figures: dict[str, Any]) -> tuple[Any, ...]:
    """Return which puzzles were solved, in which views, and how many cells at a time."""
    return figures["data"], figures["views"], figures["vote"], figures.get("surest")


def _way(settings: dict[str, Any]) -> dict[str, Any]:
    """Return how problems were drawn and solved, without their number."""
    return {key: value for key, value in settings.items() if key != "problems"}
