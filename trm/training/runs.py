"""Folders of runs: which checkpoint a run goes on from, and in whose folder.

A run's folder holds its `config.yaml`, its figures and `checkpoints/last.ckpt`, the end of its last
epoch; `checkpoints/start`, where it began, until there is one. A folder without either is no run.
A run goes on in its own folder from its last checkpoint, unless its problems change. All else
begins a run, and what only evaluates leaves none.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace
from lightning.pytorch.utilities import rank_zero_only

from trm.checkpoints.loading import load_checkpoint
from trm.configs import read_config
from trm.files import replacing

NEWEST = ("best", "last")  # of the newest run
CHECKPOINTS = "checkpoints"
LAST, START = "last.ckpt", "start"
CONFIG = "config.yaml"


class Runs:
    """The runs of one name, as the settings of a trainer say where they are."""

    def __init__(self, config: Namespace) -> None:
        trainer = config.trainer
        root = trainer.default_root_dir or "."
        if trainer.logger in (None, True):
            where = Namespace(save_dir=str(root), name="lightning_logs", version=None)
            kind = "lightning.pytorch.loggers.TensorBoardLogger"
            trainer.logger = Namespace(class_path=kind, init_args=where)
        loggers = trainer.logger if isinstance(trainer.logger, list) else [trainer.logger]
        self.logger = loggers[0] if loggers and loggers[0] else None
        settings = self.logger.init_args if self.logger else {}
        # Holds a folder for each run; the one run's own where nothing is logged.
        self.folder = Path(settings.get("save_dir") or root, settings.get("name") or "")
        self.fixed: Path | None = None  # where every run of this name has its checkpoints
        if config.checkpoint.dirpath or not self.logger:
            self.fixed = Path(config.checkpoint.dirpath or self.folder / CHECKPOINTS)

    def newest(self, *names: str) -> Path | None:
        """The newest checkpoint with one of these names."""
        folders = [self.fixed] if self.fixed else self.folder.glob(f"*/{CHECKPOINTS}")
        found = [folder / name for folder in folders for name in names]
        return max(filter(Path.is_file, found), key=_written, default=None)

    def find(self, name: str, fit: bool) -> Path | None:
        """The newest run's `best` or `last`; None, said in a sentence: training begins anew.

        Raises:
            ValueError: there is none, and something is to be done with it.
        """
        begins = [START] if fit and name == "last" else []
        found = self.newest(f"{name}.ckpt", *begins)
        where = self.fixed or self.folder
        if begins and not found:
            say(f"There is no run below {where}: training begins anew.")
        elif not found:
            raise ValueError(
                f"there is no {name}.ckpt of an earlier run below {where}: name a file, or repeat "
                "the --checkpoint.dirpath of the run"
            )
        return found

    def settle_folder(self, checkpoint: Path | None, anew: bool) -> None:
        """Settle that a run goes on in its own folder, or, with other problems, in a new one.

        Raises:
            ValueError: it would write over another run.
        """
        version = self.logger.init_args.get("version") if self.logger else None
        if checkpoint:
            kept, run = checkpoint.resolve().parent, None
            if self.fixed and kept == self.fixed.resolve():
                mine = [path for path in self.folder.glob("*") if _dirpath(path) == kept]
                run = max(mine, key=_written, default=kept)
            elif kept.name == CHECKPOINTS and kept.parent.parent == self.folder.resolve():
                run = kept.parent
            given = version is None or run is None or run.name in (version, f"version_{version}")
            if run and (self.fixed or given) and checkpoint.name in (LAST, START) and not anew:
                if self.logger and run != kept and version is None:
                    number = run.name.removeprefix("version_")
                    self.logger.init_args.version = int(number) if number.isdecimal() else run.name
                return
            say(f"A new run begins with the weights of {checkpoint}.")
        other, taken = "version", self.folder / f"version_{version}" / CHECKPOINTS
        if self.fixed:
            other, taken = "--checkpoint.dirpath", self.fixed
        elif isinstance(version, str):
            taken = self.folder / version / CHECKPOINTS
        for last in (taken / LAST, taken / START):
            if last.is_file():
                raise ValueError(
                    f"{taken} holds a run already: go on with it by --ckpt_path {last}, or choose "
                    f"another {other}"
                )

    def goes_on(self) -> str:
        """Where a run that has been stopped goes on, as the end of a sentence."""
        last = self.newest(LAST, START)
        if not last:
            return "; it had not begun"
        try:
            done, _ = progress(load_checkpoint(last))
        except ValueError as error:
            return f"; {error}"
        where = f"after epoch {done}" if done else "from its start, as no epoch is complete"
        return f"; with --ckpt_path last it goes on {where}"


def progress(checkpoint: dict[str, Any]) -> tuple[int, int]:
    """Complete epochs and optimiser steps of a run; ValueError: it holds weights alone."""
    try:
        epochs = checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"]
        return epochs, checkpoint["global_step"] if checkpoint["optimizer_states"] else 0
    except (KeyError, TypeError):
        raise ValueError(
            "the checkpoint holds weights alone, from which training cannot go on: take one of the "
            "run"
        ) from None


def keep_config(config: str, run: Path) -> bool:
    """Write a run's config, as YAML, into its folder, whole; returns whether it was written.

    It is not if the latest config there says the same, and never in another's place: the second
    one of a run is `config-2.yaml`.
    """
    kept = sorted(run.glob("config*.yaml"), key=_written)
    with suppress(ValueError):  # damaged: another one stands beside it
        if kept and _compared(read_config(kept[-1])) == _compared(yaml.safe_load(config)):
            return False
    run.mkdir(parents=True, exist_ok=True)
    with replacing(run / (f"config-{len(kept) + 1}.yaml" if kept else CONFIG)) as part:
        part.write_text(config, encoding="utf-8")
    return True


def _compared(config: dict[str, Any]) -> dict[str, Any]:
    trainer = {**(config.get("trainer") or {}), "logger": None}
    return {**config, "trainer": trainer, "ckpt_path": None}


def _dirpath(run: Path) -> Path | None:
    """Where a run keeps its checkpoints, if not in its folder."""
    with suppress(ValueError, OSError):
        held = read_config(run / CONFIG).get("checkpoint") or {}
        return Path(held["dirpath"]).resolve() if held.get("dirpath") else None
    return None


def _written(path: Path) -> tuple[int, Path]:
    return path.stat().st_mtime_ns, path


@rank_zero_only
def say(sentence: str) -> None:
    """Say a sentence that is heard with --quiet, too."""
    logging.getLogger("trm").warning(sentence)
