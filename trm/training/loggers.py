"""Loggers of a run: its table of metrics, and the curves of a resumed run, which continue.

Every run writes its metrics to `metrics.csv`, beside the files of its first logger.

TensorBoard reads the files of a run by the second in which each began; `SavedConfig` marks where
earlier ones end.
Lightning's CSVLogger deletes an existing table. W&B, MLflow and Trackio begin a new run unless they
get the id of the earlier one, which a checkpoint contains.
"""

import csv
import re
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import lightning as L
from jsonargparse import Namespace
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only

from trm.io.files import alone
from trm.training.runs import CONFIG

_SECOND = re.compile(r"events\.out\.tfevents\.(\d+)")
# Seconds for a killed process, whose workers hold its lock until they notice that it is gone.
_PATIENCE = 10
IDS = "trm.loggers"  # entry of a checkpoint: the id of its run, by logger class
# Settings with such an id.
_ID_SETTINGS = {"WandbLogger": "id", "MLFlowLogger": "run_id", "TrackioLogger": "run"}


class TrackioLogger(Logger):
    """Logs metrics to a Trackio project on this machine (``pip install trackio``).

    Args:
        project: name of the project, which `trackio show` opens.
        run: name of the run, which continues if it exists; None: Trackio chooses a new one.
    """

    def __init__(self, project: str, run: str | None = None) -> None:
        super().__init__()
        self._project, self._run_name = project, run
        self._run: Any = None

    @property
    def name(self) -> str:
        """Name of the project."""
        return self._project

    @property
    def version(self) -> str | None:
        """Name of the run; None: it has not begun."""
        return self._run_name

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The run, which begins at the first call."""
        if self._run is None:
            import trackio

            self._run = trackio.init(
                project=self._project, name=self._run_name, resume="allow", embed=False
            )
            self._run_name = self._run.name
        return self._run

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Log metrics of a step."""
        self.experiment.log({name: float(value) for name, value in metrics.items()}, step=step)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **more: Any) -> None:
        """Do nothing: a run's settings are in its config.yaml."""

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Write the remaining rows."""
        if self._run is not None:
            self._run.finish()
            self._run = None


def share_version(loggers: Sequence[Logger]) -> None:
    """Let all local loggers that were not given a version write to the first one's version."""
    local = [one for one in loggers if isinstance(one, TensorBoardLogger | CSVLogger)]
    for other in local[1:]:
        if other._version is None and local[0] is loggers[0]:
            other._version = local[0].version


def add_table(trainer: L.Trainer) -> None:
    """Let a trainer also write `metrics.csv` into its run's folder, at every logged step.

    Nothing is added to a trainer without loggers, to one whose first logger has no local folder, or
    if a CSVLogger writes to the run's folder already.
    """
    first = trainer.loggers[0] if trainer.loggers else None
    if not isinstance(first, TensorBoardLogger | CSVLogger):
        return
    table = CSVLogger(first.save_dir, first.name, version=first.version, flush_logs_every_n_steps=1)
    tables = [Path(one.log_dir) for one in trainer.loggers if isinstance(one, CSVLogger)]
    if Path(table.log_dir) not in tables:
        trainer.loggers = [*trainer.loggers, table]


def begin_runs(loggers: Sequence[Logger]) -> None:
    """Begin the runs of loggers that need a service, before anything is trained.

    Raises:
        ValueError: a logger cannot begin its run, for example without a login.
    """
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger | CSVLogger):
            continue
        try:
            getattr(logger, "experiment", None)  # begins the run, in Lightning's loggers
        except Exception as error:  # each service has errors of its own
            why = f"{type(logger).__name__} cannot begin its run: {str(error).rstrip('.')}"
            raise ValueError(
                f"{why}. Log in to its service, or log offline (for W&B WANDB_MODE=offline), or "
                "leave this logger out of trainer.logger"
            ) from error


def lock_run(loggers: Sequence[Logger]) -> ExitStack:
    """Lock a run's folder until the result is closed, so that no other process trains there too.

    Raises:
        ValueError: another process trains there.
    """
    lock = ExitStack()
    if loggers and isinstance(first := loggers[0], TensorBoardLogger | CSVLogger):
        busy = f"another process trains in {first.log_dir}: let it finish, or begin a new run"
        with suppress(NotImplementedError):  # a file system without locks
            lock.enter_context(alone(Path(first.log_dir, CONFIG), busy, _PATIENCE))
    return lock


def wait_for_next_second(loggers: Sequence[Logger]) -> None:
    """Wait until no earlier TensorBoard file of a run is of this second.

    TensorBoard reads the files of a run in the order of their names, which begin with the second.
    Of two files of one second, the later one may be read first; then it ends nothing, and the
    earlier one's values follow its own.
    """
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            files = (file.name for file in Path(logger.log_dir).glob("events.out.tfevents.*"))
            seconds = [int(match[1]) for name in files if (match := _SECOND.match(name))]
            left = max(seconds, default=0) + 1 - time.time()
            if 0 < left <= 1:  # a file that another computer's clock dates later is left alone
                time.sleep(left + 0.01)


def keep_tables(loggers: Sequence[Logger], step: int) -> None:
    """Keep the rows of earlier epochs in the tables of CSVLoggers.

    Rows from optimiser step ``step`` on, from 0, are dropped: they are logged again. So is a last
    row that a kill cut short. The old table is moved aside until the new one is written, so that
    none is lost.
    """
    for logger in loggers:
        if not isinstance(logger, CSVLogger):
            continue
        table = Path(logger.log_dir, "metrics.csv")
        aside = table.with_suffix(".before.csv")
        if table.is_file() and not aside.is_file():
            table.rename(aside)
        if not aside.is_file():
            continue
        with aside.open(newline="", encoding="utf-8") as file:
            every = list(csv.DictReader(file))
        rows = [row for row in every if (row["step"] or "").isdigit() and int(row["step"]) < step]
        with warnings.catch_warnings():  # it warns of deleting files that are kept here
            warnings.simplefilter("ignore")
            writer = logger.experiment
        writer.metrics = [
            {name: value for name, value in row.items() if value} for row in rows
        ] + writer.metrics
        writer.save()
        aside.unlink()


def run_ids(loggers: Sequence[Logger]) -> dict[str, str]:
    """Return the ids of the runs that W&B, MLflow and Trackio have begun, by logger class."""
    ids = {type(one).__name__: one.version for one in loggers}
    return {name: str(ids[name]) for name in _ID_SETTINGS if ids.get(name)}


def settings_of_loggers(config: Namespace) -> list[Namespace]:
    """Return the settings of a config's loggers, each with class_path and init_args."""
    given = config.trainer.logger
    every = given if isinstance(given, list) else [given]
    return [one for one in every if isinstance(one, Namespace)]


def give_ids(config: Namespace, content: dict[str, Any]) -> None:
    """Give loggers the ids of the runs that a checkpoint's content names."""
    for settings in settings_of_loggers(config):
        name = settings.class_path.rpartition(".")[2]
        if (held := content.get(IDS, {}).get(name)) and name in _ID_SETTINGS:
            settings.init_args[_ID_SETTINGS[name]] = held


def without_run(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config without what names one run: a checkpoint, versions and ids of loggers."""
    kept = deepcopy(config) | {"ckpt_path": None}
    loggers = kept["trainer"]["logger"]
    for settings in loggers if isinstance(loggers, list) else [loggers]:
        if isinstance(settings, dict):
            name, arguments = settings["class_path"].rpartition(".")[2], settings["init_args"]
            for key in {"version", _ID_SETTINGS.get(name, "version")} & arguments.keys():
                arguments[key] = None
    return kept


def logs_at(trainer: L.Trainer, step: int) -> bool:
    """Return whether the trainer keeps values logged at an optimiser step, from 1.

    Values logged at other steps are dropped, and logging them takes time in small models.
    """
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    return every > 0 and step % every == 0
