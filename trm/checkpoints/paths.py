"""Where checkpoints lie.

Needs no framework: a command line that names a wrong file is answered before one is imported.
"""

from pathlib import Path

SUFFIX = ".safetensors"  # of a file of weights alone

# How it was trained is in docs/generalisation.md.
SHIPPED = Path(__file__).parent.parent / "pretrained" / f"lattice{SUFFIX}"


def find_checkpoint(path: str | Path) -> Path:
    """A checkpoint file: the path itself, or the best one of the newest run below a folder.

    Raises:
        FileNotFoundError: there is none.
        ValueError: the path is empty, which would mean the current folder, or the folder holds
            several files of weights alone, which no run leaves.
    """
    if not str(path):
        raise ValueError("the checkpoint's path is empty: name a file, or the folder of a run")
    path = Path(path)
    if path.is_file():
        return path
    if path.is_dir():
        for name in ("best.ckpt", "last.ckpt", "*.ckpt", f"*{SUFFIX}"):
            files = [file for file in path.rglob(name) if file.is_file()]
            if name.endswith(SUFFIX) and len(files) > 1:
                raise ValueError(
                    f"{path} holds {len(files)} files of weights: name one of them, as {files[0]}"
                )
            found = sorted(files, key=lambda file: file.stat().st_mtime)
            if found:
                return found[-1]
        raise FileNotFoundError(f"there is no checkpoint below {path}")
    raise FileNotFoundError(
        f"there is no checkpoint {path}; train one, for example with "
        "`trm fit --config quickstart`, and name its file or its run's folder"
    )
