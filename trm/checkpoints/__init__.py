"""Checkpoint files: finding them, and the names of their entries.

Imports no framework, so that a command line with a wrong file fails at once.
`trm.checkpoints.content` reads the files.
"""

import io
import json
import pickle
import re
import zipfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from canvas.choices import shortened
from trm.checkpoints.names import HEADER, SUFFIX, in_history, named_weights, no_such_name
from trm.io.files import files_below

# Its training is described in docs/generalisation.md.
SHIPPED = Path(__file__).parent.parent / "pretrained" / f"lattice{SUFFIX}"

# Entries of a checkpoint.
CHECKPOINT_KEY = "trm"  # the model's class and config, and settings of solving
DATA_KEY = "CanvasDataModule"  # state of `trm.training.data.CanvasDataModule`
COST_KEY = "cost"  # of training: see `Cost` in `trm.training.callbacks`

# Names of the weights of auxiliary heads: the prefix, the sub-task, and the ending of a module.
AUXILIARY, AUXILIARY_HEAD = "auxiliary.", "_head"

FORMAT = 2  # of the entry `CHECKPOINT_KEY`

PROOF_SUFFIX = ".proof.json"  # replaces the checkpoint's; the last verdict of `trm prove`
DECISIONS_SUFFIX = ".decisions.npz"  # replaces it, too; the decisions of a proved model

CHECKPOINTS = "checkpoints"  # folder in that of a run
_BEST_FIRST = ("best.ckpt", "last.ckpt", "*.ckpt", f"*{SUFFIX}")
_VERSION = re.compile(r"version_(\d+)")  # folder of one training of a run, numbered by Lightning
_SHOWN = 5  # runs that a message names


def find_checkpoint(path: str | Path, names: Sequence[str] = _BEST_FIRST) -> Path:
    """Find a checkpoint file.

    Args:
        path: a file; a folder of one run, in whose newest version with such files the first name
            that occurs is found; or a name of weights, see `trm.checkpoints.names`.
        names: file names or patterns, in order of preference.

    Versions are ordered by their numbers, and files of one version and pattern by the steps that
    they record. Times of files do not count: copies have others.

    Example: ``runs/x`` with ``version_2`` and ``version_10`` →
    ``runs/x/version_10/checkpoints/best.ckpt``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no path, or an empty one, or the folder has several runs, or several files
            of weights alone, which no run creates.
    """
    if not isinstance(path, str | Path):
        raise ValueError(
            f"a checkpoint is a file, the folder of a run, or a name that `trm models` lists, not "
            f"{shortened(str(path))} ({type(path).__name__})"
        )
    if not str(path):
        raise ValueError("the checkpoint's path is empty: name a file, or the folder of a run")
    path = Path(path)
    if path.is_file():
        return path
    if not path.is_dir():
        may_be_name = path.name == str(path)
        if may_be_name and (file := named_weights().get(path.name.removesuffix(SUFFIX))):
            return file
        if may_be_name and (command := in_history(path.name)):
            raise FileNotFoundError(
                f"the weights {path} are only in the git history: write them to a file by "
                f"`{command}`, and name that file"
            )
        why = f"; {no_such_name(path.name)}" if may_be_name else ""
        raise FileNotFoundError(
            f"there is no checkpoint {path}{why}; train one, for example with "
            "`trm fit --config quickstart`, and name its file or its run's folder"
        )
    every = [file for file in files_below(path) if any(fnmatch(file.name, name) for name in names)]
    every = [file for file in every if file.is_file()]
    files = [file for file in every if file.suffix != SUFFIX]
    if not files and len(every) > 1:
        raise ValueError(
            f"{path} holds {len(every)} files of weights: name one of them, such as {every[0]}"
        )
    runs = dict[Path, list[Path]]()
    for file in files or every:
        runs.setdefault(_run(file)[0], []).append(file)
    if not runs:
        raise FileNotFoundError(f"there is no checkpoint below {path}")
    if path in runs:  # it is itself the folder of a run, and others are in folders below
        runs = {path: runs[path]}
    if len(runs) > 1:
        shown = ", ".join(map(str, sorted(runs)[:_SHOWN])) + ", …" * (len(runs) > _SHOWN)
        raise ValueError(f"{path} holds {len(runs)} runs: name one of them, {shown}")
    (files,) = runs.values()
    newest = max(_run(file)[1] for file in files)
    files = [file for file in files if _run(file)[1] == newest]
    best = next(name for name in names if any(fnmatch(file.name, name) for file in files))
    return max((file for file in files if fnmatch(file.name, best)), key=_step)


def _run(checkpoint: Path) -> tuple[Path, int]:
    """Return the folder of a checkpoint's run and the number of its version; -1: it has none."""
    folder = checkpoint.parent
    folder = folder.parent if folder.name == CHECKPOINTS else folder
    version = version_of(folder)
    return (folder if version < 0 else folder.parent), version


def version_of(run: Path) -> int:
    """Return the number of a run's folder, such as 3 of ``version_3``; -1: it has none."""
    named = _VERSION.fullmatch(run.name)
    return int(named[1]) if named else -1


def _step(file: Path) -> tuple[int, str]:
    """Return the optimiser step that a checkpoint records, or -1 without one, and its name."""
    try:
        return int(_plain_content(file)["global_step"]), file.name
    except Exception:  # other bytes can fail in any way
        return -1, file.name


def is_weights(file: Path) -> bool:
    """Return whether a file is exported weights (safetensors), by its content, whatever its name.

    Such a file begins with the size of its header, in 8 bytes, and the header, which is JSON.
    """
    with file.open("rb") as stream:
        return stream.read(9)[8:] == b"{"


def read_task(path: str | Path) -> dict[str, Any]:
    """Return the settings of a file's task, among them its name; empty if they cannot be read.

    PyTorch is not imported, and nothing in the file is executed. `trm.checkpoints.content` reads
    the same entry with all checks and error messages.
    """
    return _settings(path, "task")


def read_puzzle_format(path: str | Path) -> dict[str, Any]:
    """Return the settings of a file's puzzles; empty if it has none, or they cannot be read."""
    return _settings(path, "puzzles")


def _settings(path: str | Path, entry: str) -> dict[str, Any]:
    """Return an entry of a file's data settings without PyTorch; empty if it cannot be read."""
    try:
        file = find_checkpoint(path)
        if is_weights(file):
            with file.open("rb") as stream:
                size = int.from_bytes(stream.read(8), "little")
                header = json.loads(stream.read(min(size, file.stat().st_size)))
            data = json.loads(header["__metadata__"][HEADER])["data"]
        else:
            data = _plain_content(file)[DATA_KEY]
        return dict(data[entry])
    except Exception:  # other bytes can fail in any way
        return {}


def _plain_content(file: Path) -> dict[str, Any]:
    """Return the content of a checkpoint without its tensors; other files raise any error."""
    with zipfile.ZipFile(file) as archive:
        (entry,) = (one for one in archive.infolist() if one.filename.endswith("data.pkl"))
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError("its content is packed")
        content: dict[str, Any] = _WithoutTensors(io.BytesIO(archive.read(entry))).load()
        return content


class _WithoutTensors(pickle.Unpickler):
    """Unpickles plain data; every class or function becomes an empty dictionary."""

    def find_class(self, module: str, name: str) -> Any:
        return _Nothing

    def persistent_load(self, key: Any) -> None:
        return None


class _Nothing(dict[Any, Any]):
    """Replaces all objects in a pickle that are not plain data."""

    def __init__(self, *args: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        pass

    def append(self, item: Any) -> None:
        """Accept items like a list."""

    def add(self, item: Any) -> None:
        """Accept items like a set."""

    extend = append
