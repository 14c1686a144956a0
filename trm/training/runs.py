"""Folders of runs: which checkpoint a run goes on from, and in whose folder.

A run's folder is that of its logger, SAVE_DIR/NAME/version_N. It holds `config.yaml`, the run's
figures and `checkpoints/last.ckpt`, the end of its last epoch. A run goes on there from its last
checkpoint, unless its problems change. All else begins a run, and what only evaluates leaves none.
"""

import logging
from pathlib import Path

from jsonargparse import Namespace
from lightning.pytorch.utilities import rank_zero_only

from trm.checkpoints import find_checkpoint

NEWEST = ("best", "last")  # of the newest run
CHECKPOINTS, LAST, CONFIG = "checkpoints", "last.ckpt", "config.yaml"


def logger_settings(config: Namespace) -> Namespace:
    """The settings of the first logger, in whose folder a run is; ValueError: there is none."""
    given = config.trainer.logger
    first = given[0] if isinstance(given, list) and given else given
    if not isinstance(first, Namespace):
        raise ValueError(
            "trainer.logger: a run is kept in its logger's folder: leave the key out, or name one, "
            "such as lightning.pytorch.loggers.CSVLogger"
        )
    return first.init_args


def folder_of_runs(config: Namespace) -> Path:
    """Where all runs of this name are, each in a folder of its own."""
    settings = logger_settings(config)
    return Path(settings.get("save_dir") or ".", settings.get("name") or "")


def find_newest(config: Namespace, name: str, fit: bool) -> Path | None:
    """The newest run's `best` or `last`; None, said in a sentence: training begins anew."""
    folder = folder_of_runs(config)
    try:
        return find_checkpoint(folder, (f"{name}.ckpt",))
    except FileNotFoundError:
        if not fit or name != "last":
            raise
    say(f"There is no run below {folder}: training begins anew.")
    return None


def settle_folder(config: Namespace, checkpoint: Path | None, anew: bool) -> bool:
    """Settle that a run goes on in its own folder, or, with other problems, in a new one.

    Returns whether it goes on. ValueError: it would write over another run.
    """
    settings, folder = logger_settings(config), folder_of_runs(config)
    version = settings.get("version")
    name = version if isinstance(version, str) else f"version_{version}"
    if checkpoint:
        run = checkpoint.resolve().parents[1]
        mine = run.parent == folder.resolve() and (version is None or run.name == name)
        if mine and checkpoint.name == LAST and not anew:
            settings.version = run.name
            return True
        say(f"A new run begins with the weights of {checkpoint}.")
    last = folder / name / CHECKPOINTS / LAST
    if last.is_file():
        raise ValueError(
            f"{last.parent} holds a run already: go on with it by --ckpt_path {last}, or choose "
            "another version"
        )
    return False


@rank_zero_only
def say(sentence: str) -> None:
    """Say a sentence that is heard with --quiet, too."""
    logging.getLogger("trm").warning(sentence)
