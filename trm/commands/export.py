"""`trm export`: the weights of a checkpoint as a safetensors file that says what it holds."""

import argparse
from pathlib import Path
from typing import Any

from trm.checkpoints import COST_KEY, SUFFIX, find_checkpoint
from trm.commands.arguments import add_import, info_console
from trm.evaluation.grid import read_grid
from trm.files import fingerprint, replacing

# Of each cell's figures, those that a card repeats.
_CARD_FIGURES = ("row", "column", "region", "solutions", "answers", "rows_teacher_forced")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "--checkpoint", required=True, metavar="PATH", help="a checkpoint, or the folder of a run"
    )
    add_import(parser)
    parser.add_argument("--output", required=True, metavar=f"FILE{SUFFIX}", help="what to write")
    parser.add_argument(
        "--figures",
        metavar="DIR",
        help="a folder of trm evaluate: its figures of this checkpoint go into the model card",
    )

    parser.add_argument(
        "--half",
        action="store_true",
        help="weights as float16: half as large. They are rounded, so measure the file itself",
    )
    parser.add_argument(
        "--untrained",
        action="store_true",
        help="weights drawn anew, as before training: for what the architecture alone can do",
    )


def run(args: argparse.Namespace) -> int:
    """Read, check, write, report."""
    checkpoint, output = find_checkpoint(args.checkpoint), Path(args.output)
    if output.suffix != SUFFIX:
        raise ValueError(f"--output {output} has to end in {SUFFIX}")
    if not output.parent.is_dir():
        raise ValueError(f"--output {output}: there is no folder {output.parent}")
    if args.untrained and args.figures is not None:
        raise ValueError("--figures are of trained weights, and --untrained draws others: take one")
    import torch

    from trm.checkpoints.loading import load_checkpoint, load_solver, network_weights, pack
    from trm.models.draws import drawn_anew

    solver = load_solver(checkpoint, device="cpu")  # complains about what does not fit
    card = {} if args.figures is None else card_of(checkpoint, args.figures)
    content = load_checkpoint(checkpoint)
    weights = network_weights(content)
    if args.untrained:
        weights = drawn_anew(solver.predictor.model).state_dict()
        content |= {"global_step": 0, "epoch": 0, COST_KEY: None}
    if args.half:
        if card and any(value.dtype != torch.float16 for value in weights.values()):
            raise ValueError(
                "figures are of the weights as they were measured: export with --half, evaluate "
                "that file, then export it with --figures"
            )
        weights = {k: v.half() if v.is_floating_point() else v for k, v in weights.items()}
        if large := [name for name, value in weights.items() if not value.isfinite().all()]:
            raise ValueError(f"{large[0]} has numbers that are too large for float16")
    packed = pack(content, card, weights)
    with replacing(output) as part:
        part.write_bytes(packed)
    parameters = sum(p.numel() for p in solver.predictor.model.parameters())
    info_console(args).print(f"{output}: {parameters:,} parameters, {len(packed):,} bytes")
    return 0


def card_of(checkpoint: Path, evaluation: str | Path) -> dict[str, Any]:
    """A checkpoint's figures in an evaluation: what was asked, and what each cell gave.

    Raises:
        FileNotFoundError: there is no such evaluation.
        ValueError: it is damaged, or measured other checkpoints.
    """
    grid = read_grid(evaluation)
    sha256 = fingerprint(checkpoint)
    for model in grid["models"]:
        if model["sha256"] == sha256:
            settings = {key: grid["settings"][key] for key in ("split", "seed", "axes", "problems")}
            cells = [
                {key: cell[key] for key in _CARD_FIGURES}
                for cell in model["cells"]
                if cell["applicable"]
            ]
            return {
                "checkpoint_sha256": sha256,
                "measured": grid["created"],
                "settings": settings,
                "cells": cells,
            }
    raise ValueError(f"{evaluation} has no figures of {checkpoint}: evaluate it first")
