"""LightningModule that trains an iterative model on puzzles of any kind, all cells at once."""

from typing import Any, NamedTuple

import numpy as np
import torch

from canvas.symbols import BLANK
from trm.models.iterative import Batch, IterativeModel
from trm.runtime.torch_settings import standard_settings
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.puzzles import PuzzleSolver, SolvedPuzzles
from trm.training.canvas_module import Calibrate
from trm.training.iterative_module import IterativeModule
from trm.training.negatives import with_own_rows
from trm.training.puzzle_data import PuzzleBatch, PuzzleDataModule

_NAMES = {"row_accuracy": "exact_accuracy"}  # of metrics, where they have another one for puzzles


class ValidatedPuzzles(NamedTuple):
    """A batch of puzzles with a model's solutions."""

    problems: PuzzleBatch
    solved: SolvedPuzzles
    exact: np.ndarray  # bool [B], whether all cells that count are correct


class PuzzleModule(IterativeModule):
    """Trains an `IterativeModel` to fill in all cells of a puzzle.

    The arguments are those of `IterativeModule`, without auxiliary losses.
    """

    data: Any  # a `PuzzleDataModule`

    @property
    def training_metrics(self) -> list[str]:
        return [_NAMES.get(name, name) for name in super().training_metrics]

    @property
    def validated_metrics(self) -> list[str]:
        return ["solved", "cells", "loss", "confidence_accuracy", "supervision_steps"]

    def with_own_rows(self, model: IterativeModel, batch: Batch, steps: int) -> Batch:
        """Return a batch with cells that the model reveals, see `data.revealed_own`."""
        if not self.data.has_negatives:
            return batch
        form = self.data.format
        unknown = form.characters.index(form.unknown)
        return with_own_rows(model, batch, steps, (unknown, unknown))

    def prepare(self, data: Any) -> None:
        """Check the data, also of a test: puzzles have no sub-tasks."""
        self.check(data)

    def check(self, data: Any) -> None:
        """Check that the model can be trained on puzzles.

        Raises:
            ValueError: it cannot: its symbols or its canvas are others, or a setting is of the
                symbols of arithmetic.
        """
        if not isinstance(data, PuzzleDataModule):
            raise ValueError(
                "trm.training.PuzzleModule is trained on puzzles: name their folder in data.folder"
            )
        if self.auxiliary_config.weights:
            raise ValueError("model.auxiliary: puzzles have no sub-tasks, leave it out")
        config, form = self.model.config, data.format
        if getattr(config, "vocab_size", form.vocab_size) != form.vocab_size:
            raise ValueError(
                f"the puzzles have {form.vocab_size} symbols, and the network is built for "
                f"{config.vocab_size}: set vocab_size={form.vocab_size} in its config"
            )
        for name in ("skip_blank", "crop"):
            if getattr(config, name, False):
                raise ValueError(f"{name} is of the blank cells of arithmetic: set it to false")
        if getattr(config, "halt_pool", "") == "mask":
            raise ValueError("halt_pool mask needs masked cells: set it to first or every")
        near = getattr(config, "neighbourhood", "all")
        if near != "all" and form.vocab_size > BLANK:
            raise ValueError(
                f"neighbourhood {near} is of the symbols of arithmetic, and with "
                f"{form.vocab_size} symbols some ids of puzzles mean others: set it to all"
            )
        if not self.model.accepts(form.height, form.width):
            raise ValueError(
                f"the network does not accept canvases of {form.height} x {form.width} cells: set "
                "height and width in its config"
            )

    def predictor(self, calibration: Calibrate | None = None) -> IterativePredictor:
        predictor = super().predictor(calibration)
        assert isinstance(predictor, IterativePredictor)
        return predictor.with_options(unknown=self.data.format.unknown_cells)

    def samples_of(self, batch: PuzzleBatch) -> PuzzleBatch:  # type: ignore[override]
        return batch

    def solver(self) -> PuzzleSolver:
        """Return the solver of puzzles, in one view."""
        data = self.data
        return PuzzleSolver(self.predictor(), data.format, tuple(data.symmetries), data.shifts)

    def log_training(self, metrics: dict[str, Any]) -> None:
        super().log_training({_NAMES.get(name, name): value for name, value in metrics.items()})

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        """Solve puzzles and return a record of each, see `trm.solving.puzzles.records`."""
        solver = self.solver()
        return solver.records(batch.inputs, solver.solve(batch.inputs))

    def score(self, batch: PuzzleBatch, group: str, calibrated: bool = True) -> ValidatedPuzzles:
        """Solve a batch of puzzles and add up metrics under a group's name."""
        with standard_settings(self.threads), torch.no_grad():
            solved = self.solver().solve(batch.inputs)
            loss = self.loss_of(batch)
        correct = (solved.canvases == batch.labels) | ~batch.answer
        exact, number = correct.all(axis=(1, 2)), len(correct)
        cells = int(batch.answer.sum())
        trusted = solved.confidence > 0.5
        self.add_metrics(
            group,
            {
                "solved": (exact.mean(), number),
                "cells": (correct[batch.answer].mean(), cells),
                "loss": (loss, number),
                "confidence_accuracy": ((trusted == exact).mean(), number),
                "supervision_steps": (solved.steps.mean(), number),
            },
        )
        return ValidatedPuzzles(batch, solved, exact)
