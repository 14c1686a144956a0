"""Lightning's predict loop on any number of devices, as work that can be stopped and goes on."""

import logging
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import lightning as L
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader


class Work(L.LightningModule):
    """What is done item by item; each item's outcome is written down before the next begins."""

    def on_predict_start(self) -> None:
        """Stop at a SIGTERM; Lightning would note it, and its predict loop go on."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._stop)  # Lightning restores the former one
        if self.trainer.received_sigterm:
            self._stop()

    def _stop(self, *_: object) -> NoReturn:
        launcher = self.trainer.strategy.launcher
        if launcher is not None:
            launcher.kill(signal.SIGTERM)  # the processes that this one has started
        raise SystemExit(128 + signal.SIGTERM)

    def on_predict_end(self) -> None:
        """Wait until every process is done."""
        self.trainer.strategy.barrier("work")


def make_trainer(
    accelerator: str, devices: int, nodes: int, callbacks: Sequence[L.Callback]
) -> L.Trainer:
    """A trainer that only predicts.

    Args:
        accelerator, devices, nodes: as Lightning's trainer takes them.
        callbacks: what shows progress.

    Raises:
        ValueError: there are no such devices.
    """
    with _quiet(), _as_value_errors():
        return L.Trainer(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            logger=False,
            callbacks=list(callbacks),
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=any(
                isinstance(c, L.pytorch.callbacks.ProgressBar) for c in callbacks
            ),
        )


def run(trainer: L.Trainer, work: Work, items: DataLoader[Any]) -> None:
    """Do all items, each process its share."""
    with _quiet(), _as_value_errors():
        trainer.predict(work, items, return_predictions=False)


@contextmanager
def _as_value_errors() -> Iterator[None]:
    try:
        yield
    except MisconfigurationException as error:
        raise ValueError(str(error)) from error  # Lightning's own word for a wrong call


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Lightning says about itself and the machine."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PossibleUserWarning)
            silenced = (
                "treespec, LeafSpec",
                "predict returned None",
                "Couldn't infer the batch ind",
            )
            for message in silenced:
                warnings.filterwarnings("ignore", f".*{message}.*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
