"""Folders of runs: the checkpoint and the folder of a resumed run.

A run's folder is that of its logger, SAVE_DIR/NAME/version_N: `runs/quickstart/version_0`. It
contains `config.yaml`, the run's metrics and `checkpoints/last.ckpt`, the end of its last epoch. A
run that resumes from its last checkpoint keeps its folder, unless its problems change. Every other
training creates a folder; evaluation does not.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace
from lightning.pytorch.utilities import rank_zero_only

from trm.checkpoints import CHECKPOINTS, find_checkpoint, version_of
from trm.io.files import check_folder

NEWEST = ("best", "last")  # of the newest run
BEST, LAST, CONFIG = "best.ckpt", "last.ckpt", "config.yaml"


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


def check_folders(config: Namespace) -> None:
    """Check that the folders of a run and of its checkpoints are on this machine, and writable.

    Raises:
        ValueError: one is not; its key is named.
    """
    places = [
        ("trainer.logger.save_dir", logger_settings(config).get("save_dir")),
        ("trainer.default_root_dir", config.trainer.default_root_dir),
        ("checkpoint.dirpath", config.checkpoint.dirpath),
    ]
    callbacks = config.trainer.callbacks
    for one in callbacks if isinstance(callbacks, list) else [callbacks]:
        if isinstance(one, Namespace):
            places.append(("trainer.callbacks.dirpath", one.get("init_args.dirpath")))
    for key, place in places:
        if "://" in str(place):
            raise ValueError(
                f"{key}: {place} is not on this machine, where a run keeps its checkpoints: name a "
                "folder, and copy it when training has ended"
            )
        if place is not None:
            check_folder(Path(place), f"{key}:")
    check_folder(folder_of_runs(config), f"{places[0][0]}:")


def folder_of_runs(config: Namespace) -> Path:
    """Return the folder of all runs of this name, each in a folder of its own."""
    settings = logger_settings(config)
    return Path(settings.get("save_dir") or ".", settings.get("name") or "")


def find_newest(config: Namespace, name: str, fit: bool) -> Path | None:
    """Return the newest run's `best` or `last` checkpoint.

    A run that was stopped in its first epoch has no last checkpoint; its best one is taken, if any.
    None: there is no checkpoint yet and training starts from scratch, which is also printed.

    Raises:
        FileNotFoundError: there is none, and training needs one.
        ValueError: there are several runs, see `find_checkpoint`.
    """
    folder = folder_of_runs(config)
    own = folder / _version_name(config)
    found, goes_on = None, "training starts from scratch"
    try:
        place = own if own.is_dir() else folder
        found = find_checkpoint(place, (LAST, BEST) if name == "last" else (BEST,))
    except FileNotFoundError:
        if not fit or name != "last":
            raise
    if not fit or name != "last":
        return found
    stopped = _newest_without_checkpoint(folder)
    if found is not None:
        goes_on = f"training resumes from {found}"
        if found.name == BEST:
            stopped = found.parents[1]
            goes_on += (
                ", which was written within it. Samples begin anew, so it will not end with the "
                "weights of a run without a stop"
            )
        elif stopped and version_of(stopped) < version_of(found.parents[1]):
            stopped = None
    if stopped:
        print_sentence(f"No epoch of {stopped} has ended: {goes_on}.")
    elif found is None:
        print_sentence(f"There is no run below {folder}: {goes_on}.")
    return found


def _newest_without_checkpoint(folder: Path) -> Path | None:
    """Return the newest version of a run, if it has begun and has no checkpoint."""
    begun = [file.parent for file in folder.glob(f"*/{CONFIG}")]
    newest = max(begun, key=version_of, default=None)
    return None if newest is None or any((newest / CHECKPOINTS).glob("*.ckpt")) else newest


def _version_name(config: Namespace) -> str:
    version = logger_settings(config).get("version")
    return version if isinstance(version, str) else f"version_{version}"


def settle_folder(config: Namespace, checkpoint: Path | None, anew: Sequence[str]) -> bool:
    """Choose the folder of a run; return whether it resumes in its own folder.

    A run whose problems changed, by the settings ``anew``, gets a new folder. So does one that
    begins with another checkpoint than its last, or than its best if no epoch has ended.

    Raises:
        ValueError: another run would be overwritten.
    """
    settings, folder = logger_settings(config), folder_of_runs(config)
    version, name = settings.get("version"), _version_name(config)
    if checkpoint:
        run = _run_in(folder, checkpoint)
        mine = run is not None and (version is None or run.name == name)
        newest = (checkpoint.parent / LAST).is_file()
        if run and mine and checkpoint.name == (LAST if newest else BEST) and not anew:
            settings.version = run.name
            return True
        why = f", as {' and '.join(anew)} changed" if anew else ""
        print_sentence(f"A new run goes on from {checkpoint}, in a folder of its own{why}.")
    last = folder / name / CHECKPOINTS / LAST
    if last.is_file():
        raise ValueError(
            f"{last.parent} holds a run already: resume it with --ckpt_path {last}, or choose "
            "another version"
        )
    return False


def _run_in(folder: Path, checkpoint: Path) -> Path | None:
    """Return the folder in ``folder`` of the run of a checkpoint; None: it is elsewhere.

    The run, its checkpoints and the checkpoint itself may be links.
    """
    paths = Path(os.path.abspath(checkpoint)), checkpoint.resolve()
    runs = [path.parent.parent for path in paths]
    here = [one for one in folder.glob("*") if one.is_dir()]
    here.sort(key=version_of, reverse=True)  # numbers before links of other names
    return next((one for one in here if any(map(one.samefile, runs))), None)


@rank_zero_only
def print_sentence(sentence: str) -> None:
    """Print a sentence, also with --quiet."""
    logging.getLogger("trm").warning(sentence)
