"""What a checkpoint came to, as `trm validate` and `trm test` print it."""

from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console

from trm.evaluation.statistics import Share
from trm.training.canvas_module import CanvasModule, Validated
from trm.training.samples import hint_key

# Of the figures that a module logs, those that count problems or rows.
_OF_PROBLEMS = ("solved",)
_OF_ROWS = ("free_running_rows", "teacher_forced_rows", "confidence_accuracy")
_SHARES = ("teacher_forced_cells",)  # a mean over rows


class Scores(L.Callback):
    """Prints the figures of a checkpoint that is scored: shares with counts and Wilson intervals.

    Lightning's own table, bare means with sixteen digits, is left out for it.
    """

    def __init__(self) -> None:
        self._problems = self._rows = 0  # so far, on this device

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Begin anew."""
        self._problems = self._rows = 0

    def on_validation_batch_end(
        self, trainer: L.Trainer, module: Any, outputs: Any, *_: Any
    ) -> None:
        """Count."""
        self._count(trainer, module, outputs)

    def on_test_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, *_: Any) -> None:
        """Count."""
        self._count(trainer, module, outputs)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print."""
        self._print(trainer, pl_module)

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print."""
        self._print(trainer, pl_module)

    def _count(self, trainer: L.Trainer, module: Any, outputs: Any) -> None:
        if trainer.state.fn != "fit" and isinstance(module, CanvasModule):
            validated: Validated = outputs["validated"]
            self._problems += len(validated.problems)
            self._rows += len(validated.forced.rows_exact)

    def _print(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.state.fn == "fit" or not isinstance(module, CanvasModule):
            return
        counts = torch.tensor([self._problems, self._rows], device=module.device)
        problems, rows = trainer.strategy.reduce(counts, reduce_op="sum").tolist()
        _show(
            {name: float(value) for name, value in trainer.callback_metrics.items()}, problems, rows
        )


@rank_zero_only
def _show(figures: dict[str, float], problems: int, rows: int) -> None:
    console = Console(highlight=False, soft_wrap=True)
    widest = max(map(len, figures), default=0)
    for name, value in sorted(figures.items()):
        figure = name.rpartition("/")[2]
        total = problems if figure in _OF_PROBLEMS else rows if figure in _OF_ROWS else 0
        if total:
            text = str(Share(round(value * total), total))
        else:
            share = figure in _SHARES or figure.startswith(hint_key(""))
            text = f"{100 * value:.2f} %" if share else f"{value:.4g}"
        console.print(f"{name:<{widest}}  {text}")
