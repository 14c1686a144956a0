"""Files that are read with care, and written whole or not at all."""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_STALE = 3600  # seconds; no write takes as long


def make_folder(output: Path) -> None:
    """Make the folder that ``--output`` names.

    Raises:
        ValueError: it is a file, lies below one, or nothing can be written there.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise ValueError(
            f"--output {output} is no folder to write to ({error.strerror}): choose another"
        ) from None


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A path to write to, which takes the file's place once all is written and on the disk."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def sweep(folder: Path, name: str) -> None:
    """Remove what processes that were killed in the middle of `replacing` left in a folder.

    Args:
        folder: where the files are.
        name: of the files that were to be replaced, a pattern.
    """
    for part in folder.glob(f".{name}.[0-9]*"):
        if part.stat().st_mtime < time.time() - _STALE:  # another process may be writing now
            part.unlink(missing_ok=True)


def read_object(file: Path) -> dict[str, Any] | None:
    """A JSON object; None where there is none, or a damaged one."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def write_object(file: Path, data: dict[str, Any]) -> None:
    """A JSON object as a file in a folder that is made if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        part.write_text(json.dumps(data) + "\n", encoding="utf-8")


def fingerprint(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal: what tells it from others."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
