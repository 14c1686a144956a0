"""Lightning's predict loop on any number of devices, as work that can be stopped and goes on."""

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import lightning as L
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader

from trm.launcher import end_together
from trm.precision import FLOAT32, on_cpu
from trm.processes import ending_together


class Work(L.LightningModule):
    """What is done item by item; each item's outcome is written down before the next begins."""

    def on_predict_end(self) -> None:
        """Wait until every process is done."""
        self.trainer.strategy.barrier("work")


def make_trainer(
    accelerator: str,
    devices: int | list[int],
    nodes: int,
    callbacks: Sequence[L.Callback],
    oversubscribe: bool = False,
    precision: str = FLOAT32,
) -> L.Trainer:
    """A trainer that only predicts.

    Args:
        accelerator, devices, nodes: as Lightning's trainer takes them; a list of devices holds
            their indices.
        callbacks: what shows progress.
        oversubscribe: whether there may be more processes than CPU cores.
        precision: one of `trm.precision.PRECISIONS`, settled.

    Raises:
        ValueError: there are no such devices, or too many processes are asked for.
    """
    if isinstance(devices, list) and on_cpu(accelerator):
        raise ValueError(
            "there is no accelerator here, and processes on a CPU have no indices: give --devices "
            "a number"
        )
    with _quiet(), _as_value_errors():
        trainer = L.Trainer(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            precision=precision,  # type: ignore[arg-type]
            logger=False,
            callbacks=list(callbacks),
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=any(
                isinstance(c, L.pytorch.callbacks.ProgressBar) for c in callbacks
            ),
        )
    if not oversubscribe:
        check_cores(trainer, "--devices")
    return trainer


def check_cores(trainer: L.Trainer, option: str) -> None:
    """Refuse more processes than there are CPU cores to run them.

    Args:
        trainer: which has started none yet.
        option: of the command line, that says how many.

    Raises:
        ValueError: there are more.
    """
    on_cpu = trainer.strategy.root_device.type == "cpu"
    if on_cpu and trainer.num_devices > cores():
        raise ValueError(
            f"{trainer.num_devices} processes on {cores()} CPU cores would only wait for each "
            f"other: take {option} {cores()}, or insist with --oversubscribe"
        )


def run(trainer: L.Trainer, work: Work, items: DataLoader[Any]) -> None:
    """Do all items, each process its share.

    Raises:
        SystemExit: it was stopped by a SIGTERM.
        ChildProcessError: one of the other processes was lost.
    """
    with ending_together() as processes, _quiet(), _as_value_errors():
        end_together(trainer, processes)
        trainer.predict(work, items, return_predictions=False)


def cores() -> int:
    """How many CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
