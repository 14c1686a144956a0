"""How training tells how far it is: a line in a terminal, and a line a validation elsewhere."""

import sys
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.utilities import rank_zero_info
from rich import get_console
from rich.progress import TimeRemainingColumn

_BAR = (8, 40)  # columns that the bar of a terminal takes, fewest and most
_BESIDE = 70  # columns beside it
_SHORT = (  # figures of the progress bar, their short names and how they are written
    ("train/loss", "loss", "{:.3f}"),
    ("train/row_accuracy", "rows", "{:.0%}"),
    ("validation/solved", "solved", "{:.1%}"),
)
_TOLD = (
    "train/loss",
    "validation/loss",
    "train/row_accuracy",
    "validation/solved",
    "training_problems/solved",
    "beyond/solved",
)


class TrainingBar(RichProgressBar):
    """The progress of training in a line that fits a terminal of 80 columns."""

    def configure_columns(self, trainer: L.Trainer) -> list[Any]:
        """The epoch, a bar in the room that is left, batches, and the time to the epoch's end."""
        epoch, bar, batches, *_ = super().configure_columns(trainer)
        bar.bar_width = min(_BAR[1], max(_BAR[0], get_console().width - _BESIDE))
        return [epoch, bar, batches, TimeRemainingColumn()]

    def get_metrics(
        self, trainer: L.Trainer, pl_module: L.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """A few figures under short names."""
        held = trainer.progress_bar_metrics
        return {short: form.format(held[name]) for name, short, form in _SHORT if name in held}

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """End the line after the last epoch: what is printed next would follow on it."""
        super().on_train_epoch_end(trainer, pl_module)
        last = trainer.should_stop or trainer.current_epoch + 1 == trainer.max_epochs
        if last and self.progress is not None:
            self.progress.stop()

    def _get_train_description(self, current_epoch: int) -> str:
        # Lightning's own counts epochs from 0. Steps or hours may end training instead.
        of = f"/{most}" if (most := self.trainer.max_epochs or 0) > 0 else ""
        return f"epoch {current_epoch + 1}{of}"


class Milestones(L.Callback):
    """Says in a line what each validation came to, where no terminal shows a progress bar."""

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Say it."""
        if trainer.state.fn != "fit" or trainer.sanity_checking or sys.stdout.isatty():
            return
        held = trainer.callback_metrics
        figures = [f"{name} {held[name]:.3f}" for name in _TOLD if name in held]
        step = f"epoch {trainer.current_epoch + 1}, step {trainer.global_step:,}"
        rank_zero_info(f"{step}: {', '.join(figures)}")
