"""Folders of runs: which checkpoint a run goes on from, and in whose folder.

A run's folder holds its `config.yaml`, its figures and `checkpoints/last.ckpt`. A run that goes on
from a `last.ckpt` below its logger's folder goes on in that run's own folder; any other checkpoint
begins a run of its own. What only evaluates leaves no folder.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace
from lightning.pytorch.utilities import rank_zero_only

from trm.configs import read_config
from trm.files import replacing

NEWEST = ("best", "last")  # of the newest run
CHECKPOINTS = "checkpoints"
CONFIG = "config.yaml"
_LAST = "last.ckpt"
_TRACES = (CONFIG, f"{CHECKPOINTS}/{_LAST}", "events.out.tfevents.*")  # of a run that trained
_EVALUATED = ("verbose", "return_predictions")  # keys of the configs of commands that only evaluate


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
        self.dirpath = Path(config.checkpoint.dirpath) if config.checkpoint.dirpath else None

    def newest_checkpoint(self, name: str) -> Path:
        """The newest run's `best` or `last`; ValueError: there is none."""
        found = [folder / f"{name}.ckpt" for folder in self._checkpoint_folders()]
        found = [file for file in found if file.is_file()]
        if not found:
            raise ValueError(
                f"there is no {name}.ckpt of an earlier run below {self.dirpath or self.folder}: "
                "name a file, or repeat the --checkpoint.dirpath of the run"
            )
        return max(found, key=_written)

    def to_go_on_from(self) -> Path | None:
        """The newest run's `last`; of one that was killed before it, what that went on from.

        None, and says so, where there is nothing; ValueError where that is gone, or unknown.
        """
        if self.dirpath is not None or self.logger is None:
            last = self._checkpoint_folders()[0] / _LAST
            return last if last.is_file() else _anew(f"There is no {last}")
        run = max((f for f in self._folders() if _trained(f)), key=_latest, default=None)
        if run is None:
            return _anew(f"Below {self.folder} there is no run")
        if (last := run / CHECKPOINTS / _LAST).is_file():
            return last
        try:
            earlier = _read(run / CONFIG).get("ckpt_path")
            if earlier and not Path(earlier).is_file():
                raise ValueError(f"began from {earlier}, which is gone")
        except ValueError as error:
            raise ValueError(
                f"the newest run has left no checkpoint, and {error}: name a checkpoint after "
                f"--ckpt_path, or remove the folder {run}"
            ) from None
        if earlier:
            return Path(earlier)
        return _anew(f"The newest run, {run}, has left no checkpoint")

    def go_on_in_place(self, checkpoint: Path) -> None:
        """Settle that a run goes on in its own folder, if the checkpoint is its `last`."""
        if self.logger is None:
            return
        kept, run = checkpoint.resolve().parent, None  # the folder here whose `last` this is
        last = checkpoint.name == _LAST
        if self.dirpath is None:
            inside = kept.name == CHECKPOINTS and kept.parent.parent == self.folder.resolve()
            run = kept.parent if last and inside else None
        elif last and kept == self.dirpath.resolve():
            mine = [folder for folder in self._folders() if _dirpath(folder) == kept]
            run = max(mine, key=_latest, default=None)
        if run is None or "version" not in self.logger.init_args:
            _say(
                f"{checkpoint} is not the last.ckpt of a run below {self.folder}: a new run begins."
            )
        elif self.logger.init_args.version is None:
            number = run.name.removeprefix("version_")
            self.logger.init_args.version = int(number) if number.isdecimal() else run.name

    def refuse_to_overwrite(self) -> None:
        """Raise a ValueError where a run that begins would write over another one."""
        version = self.logger.init_args.get("version") if self.logger else None
        if self.dirpath is not None:
            run, other = self.dirpath, "--checkpoint.dirpath"
        elif self.logger is None:
            run, other = self.folder, "--trainer.default_root_dir"
        elif version is not None:
            name = f"version_{version}" if isinstance(version, int) else version
            run, other = self.folder / name, "version"
        else:
            return  # a new folder
        last = (run if self.dirpath is not None else run / CHECKPOINTS) / _LAST
        if last.is_file():
            raise ValueError(
                f"{run} holds a run already: go on with it by --ckpt_path {last}, or choose "
                f"another {other}"
            )

    def _folders(self) -> list[Path]:
        return [path for path in self.folder.glob("*") if path.is_dir()]

    def _checkpoint_folders(self) -> list[Path]:
        if self.dirpath is not None:
            return [self.dirpath]
        runs = [self.folder] if self.logger is None else self._folders()
        return [run / CHECKPOINTS for run in runs]


def keep_config(config: str, run: Path) -> bool:
    """Write a run's config, as YAML, into its folder, whole; returns whether it was written.

    It is not if the latest config there says the same, and never in another's place: the second
    one of a run is `config-2.yaml`.
    """
    kept = sorted(run.glob("config*.yaml"), key=_written)
    with suppress(ValueError):  # damaged: another one stands beside it
        if kept and _settled(_read(kept[-1])) == _settled(yaml.safe_load(config)):
            return False
    run.mkdir(parents=True, exist_ok=True)
    with replacing(run / (f"config-{len(kept) + 1}.yaml" if kept else CONFIG)) as part:
        part.write_text(config, encoding="utf-8")
    return True


def _settled(config: dict[str, Any]) -> dict[str, Any]:
    held = {key: value for key, value in config.items() if key != "ckpt_path"}
    logger = (held.get("trainer") or {}).get("logger")
    for one in logger if isinstance(logger, list) else [logger]:
        if isinstance(one, dict):
            (one.get("init_args") or {}).pop("version", None)
    return held


def _trained(run: Path) -> bool:
    traces = any(any(run.glob(trace)) for trace in _TRACES)
    return traces and not any(key in _undamaged(run) for key in _EVALUATED)


def _dirpath(run: Path) -> Path | None:
    """Where a run keeps its checkpoints, if not in its folder."""
    dirpath = (_undamaged(run).get("checkpoint") or {}).get("dirpath")
    return Path(dirpath).resolve() if dirpath else None


def _undamaged(run: Path) -> dict[str, Any]:
    with suppress(ValueError):
        return _read(run / CONFIG)
    return {}


def _latest(run: Path) -> tuple[int, str]:
    files = [run / CONFIG, run / CHECKPOINTS / _LAST]
    return max(map(_written, [file for file in files if file.is_file()] or [run])), run.name


def _written(file: Path) -> int:
    return file.stat().st_mtime_ns


def _read(file: Path) -> dict[str, Any]:
    """A run's config; empty where there is none; ValueError: it is damaged."""
    return read_config(file) if file.is_file() else {}


def _anew(sentence: str) -> Path | None:
    _say(f"{sentence}: training begins anew.")
    return None


@rank_zero_only
def _say(sentence: str) -> None:
    logging.getLogger("trm").warning(sentence)
