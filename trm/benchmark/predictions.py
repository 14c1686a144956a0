"""Predictions from files: JSON Lines, perhaps compressed by gzip, each line looked at with care.

A line is an object ``{"id": …, "prediction": …}``: the id of a problem, and a text or a whole
number, a list of lines for a canvas, or null for none. ``confidence``, a number from 0 to 1, may be
there; whatever else a line holds is left alone. A record of ``trm solve`` is read, too: its
``answer`` is the prediction, or its ``canvas`` where a canvas is asked for.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LONGEST = 2**20  # bytes of a line
_SHOWN = 60
_RECORD = {"line", "operands", "answer", "correct", "confidence"}  # what trm solve writes, in part
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Prediction:
    """What a model says of a problem.

    Attributes:
        text: as it was written; None: it says nothing.
        confidence: from 0 to 1; None: not told.
    """

    text: str | None
    confidence: float | None = None


def read_predictions(
    file: str | Path, problems: Mapping[str, object], canvas: bool = False
) -> dict[str, Prediction]:
    """The predictions of a file by the ids of their problems.

    Args:
        file: JSON Lines, or these compressed by gzip.
        problems: the ids that there are, as the keys.
        canvas: whether canvases are asked for.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no prediction, is about another problem, or one comes again; the
            message names the line. Or there is none.
    """
    found: dict[str, Prediction] = {}
    lines: dict[str, int] = {}
    for number, line in _lines(Path(file)):
        try:
            name, prediction = _prediction(line, canvas)
            if name not in problems:
                raise ValueError(_foreign(name, problems))
            if name in found:
                raise ValueError(f"{name} has a prediction in line {lines[name]:,} already")
        except ValueError as error:
            raise ValueError(f"{file}, line {number:,}: {error}") from None
        found[name], lines[name] = prediction, number
    if not found:
        raise ValueError(
            f'{file} holds no prediction: write lines like {{"id": …, "prediction": …}}'
        )
    return found


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, with their numbers from 1.

    Raises:
        ValueError: a line is too long, or what is compressed is damaged.
    """
    with file.open("rb") as raw:
        compressed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        source = gzip.GzipFile(fileobj=raw) if compressed else raw
        number = 0
        try:
            while line := source.readline(_LONGEST + 1):
                number += 1
                if len(line) > _LONGEST:
                    raise ValueError(f"{file}, line {number:,}: more than {_LONGEST:,} bytes")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield number, line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{file} is damaged behind line {number:,} ({error}): compress it again"
            ) from None


def _prediction(line: bytes, canvas: bool) -> tuple[str, Prediction]:
    """The id and the prediction of a line.

    Raises:
        ValueError: there is none.
    """
    try:
        # Numbers stay as they are written: they may be longer than Python reads at once.
        data = json.loads(line.decode("utf-8"), parse_int=_Number, parse_float=_Number)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except (ValueError, RecursionError):
        raise ValueError(f"not JSON: {_short(line.decode('utf-8').strip())}") from None
    if not isinstance(data, dict):
        raise ValueError('not an object like {"id": "…", "prediction": "…"}')
    name = data.get("id")
    if not isinstance(name, str) or isinstance(name, _Number):
        raise ValueError("no id of a problem, a text")
    if "prediction" in data:
        said = data["prediction"]
    elif data.keys() >= _RECORD:
        if canvas and "canvas" not in data:
            raise ValueError("no canvas: run trm solve with --canvases")
        said = data["canvas" if canvas else "answer"]
    else:
        raise ValueError("no prediction")
    if isinstance(said, list) and all(isinstance(row, str) for row in said):
        said = "\n".join(said)
    if not isinstance(said, str | None):
        raise ValueError(f"the prediction is {_short(json.dumps(said))}, not a text or a number")
    return name, Prediction(said, _confidence(data.get("confidence")))


class _Number(str):
    """A number of JSON, as it is written."""


def _confidence(written: Any) -> float | None:
    if written is None:
        return None
    value = float(written) if isinstance(written, _Number) else -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"the confidence is {_short(str(written))}, not a number from 0 to 1")
    return value


def _foreign(name: str, problems: Mapping[str, object]) -> str:
    """What is wrong with an id that no problem has."""
    suite, asked = name.partition("/")[0], next(iter(problems), "").partition("/")[0]
    if suite == asked:
        return f"{asked}, as far as it is asked for, has no problem {_short(name)}"
    if suite.startswith(f"{asked}-secret-"):
        return f"{_short(name)} is of a suite with a secret: name its file by --secret"
    return f"{_short(name)} is no problem of {asked}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def is_compact(file: Path) -> bool:
    """Whether a file begins with a prediction, as `write_predictions` writes them."""
    try:
        return next(_lines(file))[1].startswith(b'{"id": ')
    except (StopIteration, ValueError, IsADirectoryError):
        return False


def write_predictions(
    file: str | Path, found: Mapping[str, Prediction], confidences: bool = True
) -> None:
    """Write predictions as small as they can be; by gzip, if the file's name ends in .gz.

    The same predictions give the same bytes.

    Args:
        file: to be written.
        found: predictions by ids.
        confidences: whether they are kept.
    """
    from trm.files import replacing

    lines = []
    for name, prediction in found.items():
        line: dict[str, Any] = {"id": name, "prediction": prediction.text}
        if confidences and prediction.confidence is not None:
            line["confidence"] = prediction.confidence
        lines.append(json.dumps(line) + "\n")
    data = "".join(lines).encode("ascii")
    with replacing(Path(file)) as part:
        part.write_bytes(gzip.compress(data, mtime=0) if str(file).endswith(".gz") else data)
