"""Accuracy, confidence and calibration of a model on the puzzles of a folder of arrays."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from trm.evaluation.grid_format import PUZZLES_ABOUT
from trm.evaluation.models import check_models
from trm.evaluation.statistics import Share, auroc, reliability
from trm.io.files import fingerprint, make_own_folder, versions, write_json, writing
from trm.io.puzzle_format import Puzzles
from trm.solving.puzzles import PuzzleSolver

FILES = (PUZZLES_ABOUT, "puzzles.jsonl")
FORMAT = 1


def check_symbols(solver: PuzzleSolver, puzzles: Puzzles) -> None:
    """Check that puzzles are of a model's kind.

    Raises:
        ValueError: they have another number of symbols, or the model does not accept their size.
    """
    mine, theirs = solver.format.vocab_size, puzzles.format.vocab_size
    if mine != theirs:
        raise ValueError(
            f"the puzzles have {theirs} symbols, and the model was trained on {mine}: take puzzles "
            "like those of its training"
        )
    solver.check_size(puzzles.format.height, puzzles.format.width)


def measure_puzzles(
    solver: PuzzleSolver, puzzles: Puzzles
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Solve puzzles and compare the solutions with the labels.

    Args:
        solver: of the model, with its views.
        puzzles: with solutions.

    Returns:
        Figures, and a record of each puzzle.

        - ``exact``: share of puzzles all of whose counted cells are correct, see `Share.data`.
        - ``cells``: share of counted cells that are correct, float.
        - ``confidence``: mean; ``calibration_error``: see `trm.evaluation.statistics.Reliability`.
        - ``auroc``: of the confidence, see `trm.evaluation.statistics.auroc`.
        - ``steps``: mean supervision steps, of all views and passes together; ``views``: mean
          number.

    Raises:
        ValueError: see `check_symbols`.
    """
    check_symbols(solver, puzzles)
    began = time.perf_counter()
    solved = solver.solve(puzzles.inputs)
    seconds = time.perf_counter() - began
    correct = (solved.canvases == puzzles.labels) | ~puzzles.answer
    exact, sure = correct.all(axis=(1, 2)), solved.confidence.astype(np.float64)
    figures = {
        "exact": Share(int(exact.sum()), len(exact)).data(),
        "cells": float(correct[puzzles.answer].mean()),
        "confidence": float(sure.mean()),
        "calibration_error": reliability(sure, exact).error,
        "auroc": auroc(sure, exact),
        "steps": float(solved.steps.mean()),
        "views": float(solved.views.mean()),
        "agreement": float(solved.agreement.mean()),
        "settled": float(solved.settled.mean()),
        "seconds_per_puzzle": seconds / len(exact),
    }
    records = solver.records(puzzles.inputs, solved)
    for record, label, one in zip(records, puzzles.labels, exact.tolist(), strict=True):
        record |= {"label": puzzles.format.to_text(label), "correct": one}
    return figures, records


def write_measured(
    output: Path, models: list[tuple[str, PuzzleSolver]], puzzles: Puzzles, folder: str
) -> list[dict[str, Any]]:
    """Measure models on the same puzzles, and write ``puzzles.json`` and ``puzzles.jsonl``.

    Args:
        output: folder of the files.
        models: name of each model, and its solver.
        puzzles: with solutions.
        folder: of the puzzles, as a note in the file.

    Returns:
        The figures of each model, see `measure_puzzles`, with its name and its file's SHA-256.

    Raises:
        ValueError: the folder holds files of another program, or figures of another model; or see
            `check_symbols`.
    """
    for _, solver in models:
        check_symbols(solver, puzzles)
    make_own_folder(output, "trm evaluate", FILES)
    # Before the work: a training that goes on may replace a file meanwhile.
    of_models = [
        {"model": name, "sha256": solver.file and fingerprint(solver.file)}
        for name, solver in models
    ]
    check_models(output / PUZZLES_ABOUT, of_models)
    found, lines = [], []
    for about_model, (name, solver) in zip(of_models, models, strict=True):
        figures, records = measure_puzzles(solver, puzzles)
        found.append(about_model | figures)
        lines += [{"model": name, **record} for record in records]
    voting, surest = models[0][1].voting, models[0][1].surest
    about = {"format": FORMAT, "data": folder, "puzzles": asdict(puzzles.format)}
    about |= {"voting": voting and asdict(voting), "surest": surest}
    about |= {"versions": versions(), "models": found}
    with writing(output / FILES[1]) as sink:
        sink.writelines(json.dumps(line) + "\n" for line in lines)
    write_json(output / FILES[0], about)
    return found
