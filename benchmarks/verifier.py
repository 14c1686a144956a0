"""Confidence in incorrect canvases of each kind, in range and beyond.

    python benchmarks/verifier.py --checkpoint trm-lattice-whole-seed0 --digits 4 8

Row steps of held-out problems: ordinary ones, and those of `data.negatives`, as in training
(turned, guessed, with a wrong digit or other rows above, with the model's own incorrect rows
above). A line for each kind: how many have a confidence above a half, its mean, and AUROC, the
probability that it is lower than in an ordinary row that the model fills in correctly.
"""

import argparse
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import albumentations as A
import numpy as np
import torch

from augment.transforms import CanvasShift, SampleTransform
from trm import load_solver
from trm.evaluation.statistics import Share, auroc
from trm.io.markdown import table
from trm.solving.solver import Solver
from trm.training.negatives import KINDS, NegativesConfig, SamplesWithNegatives, with_own_rows

CORRECT, INCORRECT = "row step, filled in correctly", "row step, filled in incorrectly"
SHARES = NegativesConfig(turned=0.15, guessed=0.15, digit=0.15, other=0.15, own=0.1)


def confidence_by_kind(
    solver: Solver, number: int, seed: int, size: int = 64
) -> dict[str, np.ndarray]:
    """Return the confidence in row steps of each kind, float [N] by the kind's description."""
    canvas = replace(solver.canvas, square=True)
    turns = SampleTransform([A.D4(p=1.0), CanvasShift()])
    samples = SamplesWithNegatives(
        solver.task, canvas, "test", seed, number, size, transform=turns, negatives=SHARES
    )
    model: Any = solver.predictor.model
    found = defaultdict(list)
    for start in range(0, number, size):
        index = list(range(start, min(start + size, number)))
        batch, kinds = samples.__getitems__(index), samples.kinds(index)
        with torch.inference_mode():
            batch = with_own_rows(model, batch, 8)
        filled = solver.predictor(batch["inputs"].numpy())
        right = (filled.canvases == batch["labels"].numpy()) | ~batch["answer"].numpy()
        whole, correct = right.all(axis=(1, 2)), batch["correct"].numpy()
        for kind, upright, same, sure in zip(kinds, correct, whole, filled.confidence, strict=True):
            ordinary = CORRECT if same else INCORRECT
            found[ordinary if upright else KINDS[kind]].append(float(sure))
    return {kind: np.array(sure) for kind, sure in found.items()}


def lines_of(name: str, digits: str, found: dict[str, np.ndarray]) -> list[list[str]]:
    """Return a line for each kind."""
    right, lines = found.get(CORRECT, np.empty(0)), []
    for kind in (CORRECT, INCORRECT, *KINDS.values()):
        if kind not in found:
            continue
        sure = found[kind]
        accepted, mean = Share(int((sure > 0.5).sum()), len(sure)), f"{sure.mean():.3f}"
        both = np.concatenate([right, sure])
        area = None if kind == CORRECT else auroc(both, np.arange(len(both)) < len(right))
        lines.append(
            [name, digits, kind, str(accepted), mean, "" if area is None else f"{area:.3f}"]
        )
    return lines


def main() -> None:
    """Measure checkpoint after checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoint", nargs="+", required=True)
    add("--digits", type=int, nargs="*", default=[], help="of both operands; default: in range")
    add("--rows", type=int, default=960, help="row steps of all kinds together")
    add("--seed", type=int, default=0)
    args = parser.parse_args()
    lines = []
    for file in args.checkpoint:
        solver = load_solver(file)
        for n in args.digits or [None]:
            task: Any = solver.task
            if n is not None:
                task = replace(task, digits_a=(n, n), digits_b=(n, n), long_bias=0.0)
            found = confidence_by_kind(replace(solver, task=task), args.rows, args.seed)
            lines += lines_of(Path(file).stem, "in range" if n is None else f"{n} x {n}", found)
    heads = ["model", "digits", "canvas", "confidence above a half", "mean", "AUROC"]
    print(table(heads, lines))


if __name__ == "__main__":
    main()
