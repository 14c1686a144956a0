"""Lightning's predict loop on any number of devices, as work that can be stopped and goes on."""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import TypeVar

import lightning as L
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader

from trm.precision import FLOAT32, on_cpu
from trm.processes import end_at_once_by_signals, launch

T = TypeVar("T")
_NOT_OURS = ("treespec, LeafSpec", "predict returned None", "Couldn't infer the batch ind")


class _Work(L.LightningModule):
    """What is done item by item; each item's outcome is written down before the next begins."""

    def __init__(self, items: Sequence[T], do: Callable[[T, str], None]) -> None:
        super().__init__()
        self.items, self.do = items, do

    def predict_step(self, index: int) -> None:
        """Do an item, if there is one."""
        if index < len(self.items):
            self.do(self.items[index], str(self.device))

    def on_predict_end(self) -> None:
        """Wait until every process is done."""
        self.trainer.strategy.barrier("work")


class _Bar(RichProgressBar):
    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    @property
    def predict_description(self) -> str:
        return self.what


class EndAtOnce(L.Callback):
    """Has signals end one of several processes at once.

    Lightning would tell the others in a collective call from within the signal's handler, which
    waits for ever if they are in another call by then.
    """

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Undo what Lightning has just set up."""
        if trainer.world_size > 1:
            end_at_once_by_signals()

    on_validation_start = on_test_start = on_predict_start = on_train_start


def start_processes(trainer: L.Trainer) -> None:
    """Run this command in as many processes as a trainer has devices, unless this is one of them.

    Raises:
        SystemExit: they have ended, see `trm.processes.launch`.
        ValueError: they are of several nodes.
    """
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size > 1 and environment and not environment.creates_processes_externally:
        if trainer.num_nodes > 1:
            raise ValueError("processes on several nodes are started by srun or by torchrun")
        launch(["-P", "-m", "trm", *sys.argv[1:]], trainer.num_devices)


def make_trainer(
    accelerator: str,
    devices: int | list[int],
    nodes: int,
    precision: str = FLOAT32,
    what: str | None = None,
) -> L.Trainer:
    """A trainer that only predicts; see `start_processes`.

    A list of devices holds their indices; the precision is a settled one; a progress bar says
    ``what`` is done, None: there is none. ValueError: there are no such devices.
    """
    if isinstance(devices, list) and on_cpu(accelerator):
        raise ValueError(
            "there is no accelerator here, and processes on a CPU have no indices: give --devices "
            "a number"
        )
    with _quiet():
        return L.Trainer(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            precision=precision,  # type: ignore[arg-type]
            logger=False,
            callbacks=[EndAtOnce(), *([_Bar(what)] if what else [])],
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=what is not None,
        )


def run(trainer: L.Trainer, items: Sequence[T], do: Callable[[T, str], None]) -> None:
    """Do all items, each process every n-th of them; ``do`` is given an item and the device."""
    indices = range(max(len(items), trainer.world_size))  # Lightning wants one for each process
    loader: DataLoader[int] = DataLoader(indices, collate_fn=itemgetter(0))  # type: ignore[arg-type]
    with _quiet():
        trainer.predict(_Work(items, do), loader, return_predictions=False)


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Lightning says about itself and the machine; its errors as ValueErrors."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PossibleUserWarning)
            for message in _NOT_OURS:
                warnings.filterwarnings("ignore", f".*{message}.*")
            yield
    except MisconfigurationException as error:
        raise ValueError(str(error)) from error  # Lightning's own word for a wrong call
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
