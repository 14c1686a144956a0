"""Reading of files with clear errors, and writing of files as a whole or not at all."""

import codecs
import errno
import glob
import gzip
import hashlib
import io
import json
import os
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeVar

from canvas.choices import did_you_mean

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
_STALE = 3600  # seconds, longer than any write
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a write, which does not name its file
LONGEST = 2**20  # most bytes of a line
_GZIP = b"\x1f\x8b"
NO_UTF8 = (  # text after the name of a file
    "is no text in UTF-8, perhaps UTF-16, as PowerShell's > writes it: save it as UTF-8, for "
    "example by `| Out-File -Encoding utf8 FILE`"
)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_new_folders: ContextVar[list[Path] | None] = ContextVar("new_folders", default=None)


@contextmanager
def removing_empty_folders() -> Iterator[None]:
    """Remove empty folders of `make_folder` if an exception ends this context."""
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
    """Make the folder of ``--output``.

    Raises:
        ValueError: it cannot be made, or cannot be written to.
    """
    if (made := _new_folders.get()) is not None:
        made += reversed([one for one in (output, *output.parents) if not os.path.exists(one)])
    try:
        output.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise _unwritable("--output", output, error) from None


def check_folder(folder: Path, option: str) -> None:
    """Check that a folder can be written to, or made; it is not made.

    Args:
        folder: the folder.
        option: that names it, for the error.

    Raises:
        ValueError: it cannot.
    """
    there = next(one for one in (folder, *folder.absolute().parents) if os.path.exists(one))
    try:
        with TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise _unwritable(option, folder, error) from None


def _unwritable(option: str, folder: Path, error: OSError) -> ValueError:
    return ValueError(
        f"{option} {folder} is no folder to write to ({error.strerror}): choose another"
    )


def check_place(file: Path, option: str) -> None:
    """Check that the file of an option can be written, before the work for it begins.

    Raises:
        ValueError: it is a folder, its name is too long, or its folder is missing or cannot be
            written to.
    """
    try:
        if file.is_dir():
            raise ValueError(f"{option} {file} is a folder: name a file in it")
        if file.exists() and not file.is_file():  # a device or a pipe
            return
    except OSError as error:
        raise ValueError(f"{option} {file}: {error.strerror}; choose another") from None
    folder = file.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"{option} {file}: there is no folder {file.parent}; make it first")
    try:
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"{option} {file}: its folder cannot be written to ({error.strerror}): choose another"
        ) from None


def make_own_folder(output: Path, command: str, names: Sequence[str], key: str = "format") -> None:
    """Make the folder of ``--output``, or accept it with files of the same command.

    Args:
        output: the folder.
        command: the command that writes into it.
        names: names or patterns of its files; the first is a JSON object.
        key: a key of this object in files of the command.

    Raises:
        ValueError: the folder contains such files of another program, or cannot be written to.
    """
    make_folder(output)
    there = [file for name in names for file in sorted(output.glob(name))]
    if there and key not in (read_object(output / names[0]) or {}):
        raise ValueError(
            f"{there[0]} is in the way, and {command} did not write it: choose another --output"
        )


def check_file(file: Path, wanted: str, option: str = "") -> None:
    """Raise an error in words if a file that is to be read is missing, or a folder.

    Args:
        file: the file.
        wanted: what to give.
        option: text before the file's name in the error, such as ``--input ``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder.
    """
    if file.is_dir():
        raise ValueError(f"{option}{file} is a folder: give {wanted}")
    if not file.exists():
        raise FileNotFoundError(f"{option}{file}: there is no such file; give {wanted}")


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Provide a path to write to; its file replaces ``file`` once it is complete and on the disk.

    A link stays, and its target is replaced. Permissions stay.

    Raises:
        ValueError: there is no such folder, or ``file`` is no regular file, but a device, say.
        OSError: it cannot be written; the error names ``file`` as it was given.
    """
    given = file
    if not file.parent.is_dir():
        raise ValueError(f"{file}: there is no folder {file.parent}; make it, or name another")
    file = file.resolve()
    if file.exists() and not file.is_file():
        raise ValueError(f"{file} is no file that could be replaced: name another")
    for part in file.parent.glob(f".{glob.escape(file.name)}.[0-9]*"):  # left by killed processes
        with suppress(FileNotFoundError):  # another process may remove it, too
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
    except OSError as error:
        full = error.filename is None and error.errno in _FULL
        if not full and (error.filename is None or Path(error.filename) != part):
            raise
        raise type(error)(error.errno, error.strerror, str(given)) from error
    finally:
        with suppress(OSError):  # a folder that takes no file may refuse this, too
            part.unlink(missing_ok=True)


@contextmanager
def writing(file: Path) -> Iterator[IO[str]]:
    """Provide a text stream to write a file as by `replacing`.

    A name in ``.gz`` is compressed by gzip; the same text gives the same bytes.
    """
    with replacing(file) as part, ExitStack() as open_ones:
        raw: Any = open_ones.enter_context(part.open("wb"))
        if file.suffix == ".gz":
            raw = open_ones.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
        yield open_ones.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline="\n"))


@contextmanager
def alone(file: Path, busy: str = "", patience: float = 0) -> Iterator[None]:
    """Lock a file, so that only this process makes it.

    Args:
        file: it need not exist; its folder does.
        busy: a sentence for users where another process makes it; empty: that of an ``--output``.
        patience: seconds to wait for another process.

    Raises:
        ValueError: another process makes it.
    """
    from filelock import FileLock, Timeout

    real = file.resolve()
    lock = FileLock(real.with_name(f".{real.name}.lock"), timeout=patience)
    try:
        with lock:
            try:
                yield
            finally:
                Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout:
        raise ValueError(
            busy
            or f"another process is at work on {file}: let it finish, or choose another --output"
        ) from None


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and in all folders below, also behind links to folders.

    Each folder occurs once, so links that form a circle do no harm. It occurs by its own path, else
    by a link to it, else by a link to such a link.
    """
    seen = set[str]()
    places = [folder]
    for place in places:
        for top, folders, files in os.walk(place):
            real = os.path.realpath(top)
            if real in seen:
                folders.clear()
                continue
            seen.add(real)
            folders.sort()
            links = [link for name in folders if (link := Path(top, name)).is_symlink()]
            places += sorted(links, key=lambda link: (link.parent / link.readlink()).is_symlink())
            yield from (Path(top, name) for name in sorted(files))


def read_object(file: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if there is no file, or a damaged one."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def write_text(file: Path, text: str) -> None:
    """Write a text to a file as by `replacing`."""
    with replacing(file) as part:
        part.write_text(text, encoding="utf-8")


def write_bytes(file: Path, content: bytes) -> None:
    """Write bytes to a file as by `replacing`."""
    with replacing(file) as part:
        part.write_bytes(content)


def write_new(file: Path, content: bytes, name: str) -> None:
    """Write bytes to a file; raise a ValueError about ``name`` if it has other content already."""
    if differs(file, content):
        raise ValueError(
            f"{name} exists already, with other content: choose another name, or move it away"
        )
    write_bytes(file, content)


def differs(file: Path, content: bytes) -> bool:
    """Return whether a file exists and has other content."""
    return file.exists() and (not file.is_file() or file.read_bytes() != content)


def write_json(file: Path, data: Any) -> None:
    """Write data as JSON to a file; make its folder if necessary."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(data, allow_nan=False) + "\n")


def fingerprint(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _AsUTF8:
    """Stream of a text's lines as bytes of UTF-8."""

    def __init__(self, text: IO[str]) -> None:
        self.text = text

    def readline(self, size: int) -> bytes:
        return self.text.readline(size).encode("utf-8", "replace")


def read_utf8(file: Path) -> str:
    """Read a text file that a person has written.

    Raises:
        ValueError: the text is not in UTF-8; the message contains a remedy.
    """
    content = file.read_bytes()
    try:
        if content[:2] in _UTF16 or b"\0" in content:
            raise UnicodeError
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeError:
        raise ValueError(f"{file} {NO_UTF8}") from None


def numbered_lines(file: Path, source: BinaryIO | None = None) -> Iterator[tuple[int, bytes]]:
    r"""Yield the non-empty lines of a file with their numbers from 1, without line ends.

    ``source`` is a stream to read in place of the file. Either may be compressed by gzip. UTF-16
    with a byte order mark, as from PowerShell's >, is converted to UTF-8. Lines are cut after
    about `LONGEST` bytes, so that longer ones can be refused.

    Example: ``a,b\n\n12,34\n`` → ``(1, b"a,b"), (3, b"12,34")``.

    Raises:
        ValueError: the compressed data are damaged.
    """
    number = 0
    with ExitStack() as open_ones:
        raw: Any = source or open_ones.enter_context(file.open("rb"))
        packed = hasattr(raw, "peek") and raw.peek(len(_GZIP)).startswith(_GZIP)
        try:
            lines: Any = gzip.GzipFile(fileobj=raw) if packed else raw
            if hasattr(lines, "peek") and lines.peek(2)[:2] in _UTF16:
                text_of = io.TextIOWrapper(lines, "utf-16", errors="replace", newline="\n")
                open_ones.callback(text_of.detach)  # or it would close the caller's stream
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
    """Validate plain data and convert them to a type.

    Raises:
        ValueError: data do not fit; the message contains the source and the first wrong place.
    """
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
    """Return the versions of Python and of the packages that affect the contents of files.

    Sources that run without an installation have the version ``0+unknown``.
    """
    import platform
    from importlib.metadata import version

    from trm import __version__

    own = {"python": platform.python_version(), "canvas-trm": __version__}
    return own | {name: version(name) for name in ("torch", "lightning", "numpy")}
