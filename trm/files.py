"""Files that are read with care, and written whole or not at all."""

import codecs
import glob
import gzip
import hashlib
import io
import json
import os
import platform
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeVar

from canvas.choices import did_you_mean

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
_STALE = 3600  # seconds; no write takes as long
LONGEST = 2**20  # bytes of a line
_GZIP = b"\x1f\x8b"
NO_UTF8 = (  # follows the name of a file
    "is no text in UTF-8, perhaps UTF-16, as PowerShell's > writes it: save it as UTF-8, for "
    "example by `| Out-File -Encoding utf8 FILE`"
)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_new_folders: ContextVar[list[Path] | None] = ContextVar("new_folders", default=None)


@contextmanager
def removing_empty_folders() -> Iterator[None]:
    """Remove what `make_folder` has made and nothing was written into, if an error ends this."""
    made = list[Path]()
    before = _new_folders.set(made)
    try:
        yield
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        raise
    finally:
        _new_folders.reset(before)


def make_folder(output: Path) -> None:
    """Make the folder that ``--output`` names; ValueError: it cannot be, or cannot be written."""
    if (made := _new_folders.get()) is not None:
        made += reversed([one for one in (output, *output.parents) if not one.exists()])
    try:
        output.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise ValueError(
            f"--output {output} is no folder to write to ({error.strerror}): choose another"
        ) from None


def make_own_folder(output: Path, command: str, names: Sequence[str], key: str = "format") -> None:
    """Make the folder that ``--output`` names; ValueError: it holds files that others wrote.

    Args:
        output, command: the folder, and what writes into it.
        names: of its files, or patterns; the first is a JSON object.
        key: that this object has if the command wrote it.
    """
    make_folder(output)
    there = [file for name in names for file in sorted(output.glob(name))]
    if there and key not in (read_object(output / names[0]) or {}):
        raise ValueError(
            f"{there[0]} is in the way, and {command} did not write it: choose another --output"
        )


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A path to write to, which takes the file's place once all is written and on the disk.

    A link stays, and what it points to is replaced; permissions stay. ValueError: there is no such
    folder, or something else than a file is there, such as a device.
    """
    if not file.parent.is_dir():
        raise ValueError(f"{file}: there is no folder {file.parent}; make it, or name another")
    file = file.resolve()
    if file.exists() and not file.is_file():
        raise ValueError(f"{file} is no file that could be replaced: name another")
    for part in file.parent.glob(f".{glob.escape(file.name)}.[0-9]*"):  # of processes killed here
        with suppress(FileNotFoundError):  # another process may look as well
            if part.stat().st_mtime < time.time() - _STALE:
                part.unlink()
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.touch()
        with suppress(FileNotFoundError):
            part.chmod(stat.S_IMODE(file.stat().st_mode))
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def writing(file: Path) -> Iterator[IO[str]]:
    """A text, written as `replacing` does; by gzip, always the same bytes, if its name ends so."""
    with replacing(file) as part, ExitStack() as open_ones:
        raw: Any = open_ones.enter_context(part.open("wb"))
        if file.suffix == ".gz":
            raw = open_ones.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
        yield open_ones.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline="\n"))


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Work towards a file alone; ValueError: another process works towards it."""
    from filelock import FileLock, Timeout

    real = file.resolve()
    lock = FileLock(real.with_name(f".{real.name}.lock"), blocking=False)
    try:
        with lock:
            try:
                yield
            finally:
                Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout:
        raise ValueError(
            f"another process is at work on {file}: let it finish, or choose another --output"
        ) from None


def read_object(file: Path) -> dict[str, Any] | None:
    """A JSON object; None where there is none, or a damaged one."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def write_text(file: Path, text: str) -> None:
    """A text as a file, written as `replacing` does."""
    with replacing(file) as part:
        part.write_text(text, encoding="utf-8")


def write_json(file: Path, data: Any) -> None:
    """JSON as a file in a folder that is made if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(data, allow_nan=False) + "\n")


def fingerprint(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal: what tells it from others."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _AsUTF8:
    """Lines of a text as bytes of UTF-8."""

    def __init__(self, text: IO[str]) -> None:
        self.text = text

    def readline(self, size: int) -> bytes:
        return self.text.readline(size).encode("utf-8", "replace")


def read_utf8(file: Path) -> str:
    """A text that people have written; ValueError: it is not in UTF-8, with what to do."""
    held = file.read_bytes()
    try:
        if held[:2] in _UTF16 or b"\0" in held:
            raise UnicodeError
        return held.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeError:
        raise ValueError(f"{file} {NO_UTF8}") from None


def numbered_lines(file: Path, source: BinaryIO | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, without their ends, numbered from 1.

    Of a file, or of a stream in its place, perhaps packed by gzip. UTF-16 with its mark, as
    PowerShell's > writes it, comes as UTF-8. Of a line of more than `LONGEST` bytes the rest is
    left out. ValueError: it is damaged.
    """
    number = 0
    with ExitStack() as open_ones:
        raw: Any = source or open_ones.enter_context(file.open("rb"))
        packed = hasattr(raw, "peek") and raw.peek(len(_GZIP)).startswith(_GZIP)
        try:
            lines: Any = gzip.GzipFile(fileobj=raw) if packed else raw
            if hasattr(lines, "peek") and lines.peek(2)[:2] in _UTF16:
                text_of = io.TextIOWrapper(lines, "utf-16", errors="replace", newline="\n")
                open_ones.callback(text_of.detach)  # otherwise it closes a stream that is not ours
                lines = _AsUTF8(text_of)
            while line := lines.readline(LONGEST + 2):
                number, rest = number + 1, line
                while not rest.endswith(b"\n") and (rest := lines.readline(LONGEST)):
                    pass
                text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if text.strip():
                    yield number, text.removesuffix(b"\n").removesuffix(b"\r")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{file} is damaged ({error}): pack it again") from None


def validated(kind: "TypeAdapter[T]", data: Any, source: str) -> T:
    """Plain data as what a type says; ValueError: the source and the first place that is wrong."""
    from pydantic import ValidationError

    try:
        return kind.validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            known = getattr(getattr(kind, "_type", None), "__annotations__", ())
            message = f"there is no such field.{did_you_mean(first['loc'][-1], known)}"
        raise ValueError(": ".join(part for part in (source, place, message) if part)) from None


def versions() -> dict[str, str]:
    """Of Python, and of the packages that compute what files hold."""
    computing = ("canvas-trm", "torch", "lightning", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in computing}
