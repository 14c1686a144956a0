"""Files that hold models: where they lie, and by which names they say what they hold.

Needs no framework: a command line that names a wrong file is answered before one is imported. What
reads them is in `trm.checkpoints.loading`.
"""

from collections.abc import Sequence
from pathlib import Path

from trm.checkpoints.names import SUFFIX, named_weights, no_such_name

# How it was trained is in docs/generalisation.md.
SHIPPED = Path(__file__).parent.parent / "pretrained" / f"lattice{SUFFIX}"

# Entries of a checkpoint.
CHECKPOINT_KEY = "trm"  # which model the weights belong to, and how it solves
DATA_KEY = "CanvasDataModule"  # the data module's own state, see it
COST_KEY = "cost"  # what training has taken: see `Cost` in `trm.training.callbacks`

FORMAT = 2  # of the entry `CHECKPOINT_KEY`

PROOF_SUFFIX = ".proof.json"  # in place of the checkpoint's: the last verdict of `trm prove` on it

_BEST_FIRST = ("best.ckpt", "last.ckpt", "*.ckpt", f"*{SUFFIX}")


def find_checkpoint(path: str | Path, names: Sequence[str] = _BEST_FIRST) -> Path:
    """A checkpoint file: the path itself, or below a folder the newest of the first of the names.

    Where there is no such path, it may be a name of weights, see `trm.checkpoints.names`.
    FileNotFoundError: there is none. ValueError: the path is empty, which would mean the current
    folder, or the folder holds several files of weights alone, which no run leaves.
    """
    if not str(path):
        raise ValueError("the checkpoint's path is empty: name a file, or the folder of a run")
    path = Path(path)
    if path.is_file():
        return path
    if not path.is_dir():
        may_be_name = path.name == str(path)
        if may_be_name and (file := named_weights().get(path.name.removesuffix(SUFFIX))):
            return file
        why = f"; {no_such_name(path.name)}" if may_be_name else ""
        raise FileNotFoundError(
            f"there is no checkpoint {path}{why}; train one, for example with "
            "`trm fit --config quickstart`, and name its file or its run's folder"
        )
    for name in names:
        files = [file for file in path.rglob(name) if file.is_file()]
        if name.endswith(SUFFIX) and len(files) > 1:
            raise ValueError(
                f"{path} holds {len(files)} files of weights: name one of them, as {files[0]}"
            )
        if files:
            return max(files, key=lambda file: file.stat().st_mtime_ns)
    raise FileNotFoundError(f"there is no checkpoint below {path}")
