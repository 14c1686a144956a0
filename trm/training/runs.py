"""Folders of runs: the checkpoint and the folder of a resumed run.

A run's folder is that of its logger, SAVE_DIR/NAME/version_N: `runs/quickstart/version_0`. It
contains `config.yaml`, the run's figures and `checkpoints/last.ckpt`, the end of its last epoch. A
run that resumes from its last checkpoint keeps its folder, unless its problems change. Every other
training creates a folder; evaluation does not.
"""

import logging
from pathlib import Path

from jsonargparse import Namespace
from lightning.pytorch.utilities import rank_zero_only

from trm.checkpoints import find_checkpoint

NEWEST = ("best", "last")  # of the newest run
CHECKPOINTS, LAST, CONFIG = "checkpoints", "last.ckpt", "config.yaml"


def logger_settings(config: Namespace) -> Namespace:
    """Return the settings of the first logger, whose folder is the run's.

    Raises:
        ValueError: there is no logger.
    """
    given = config.trainer.logger
    first = given[0] if isinstance(given, list) and given else given
    if not isinstance(first, Namespace):
        raise ValueError(
            "trainer.logger: a run needs a logger, whose folder it uses: leave the key out, or "
            "name one, such as lightning.pytorch.loggers.CSVLogger"
        )
    return first.init_args


def folder_of_runs(config: Namespace) -> Path:
    """Return the folder of all runs of this name, each in a folder of its own."""
    settings = logger_settings(config)
    return Path(settings.get("save_dir") or ".", settings.get("name") or "")


def find_newest(config: Namespace, name: str, fit: bool) -> Path | None:
    """Return the newest run's `best` or `last` checkpoint.

    None: there is no run yet and training starts from scratch, which is also printed.

    Raises:
        FileNotFoundError: there is none, and training needs one.
    """
    folder = folder_of_runs(config)
    try:
        return find_checkpoint(folder, (f"{name}.ckpt",))
    except FileNotFoundError:
        if not fit or name != "last":
            raise
    print_sentence(f"There is no run below {folder}: training starts from scratch.")
    return None


def settle_folder(config: Namespace, checkpoint: Path | None, anew: bool) -> bool:
    """Choose the folder of a run; return whether it resumes in its own folder.

    A run whose problems changed (``anew``) gets a new folder.

    Raises:
        ValueError: another run would be overwritten.
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
        print_sentence(f"A new run begins with the weights of {checkpoint}.")
    last = folder / name / CHECKPOINTS / LAST
    if last.is_file():
        raise ValueError(
            f"{last.parent} holds a run already: resume it with --ckpt_path {last}, or choose "
            "another version"
        )
    return False


@rank_zero_only
def print_sentence(sentence: str) -> None:
    """Print a sentence, also with --quiet."""
    logging.getLogger("trm").warning(sentence)
