"""Puzzles of any kind as files: folders of arrays, as of HRM and the published TRM, and text.

A folder has one folder for each split, ``train`` and ``test``, with these files:

- ``dataset.json``: ``vocab_size``, ``seq_len``, ``pad_id``, ``ignore_label_id`` (may be null) and
  ``sets``, usually ``["all"]``. This package adds ``height``, ``width`` and ``characters``, which
  other readers ignore.
- for each set ``all__inputs.npy`` and ``all__labels.npy``, whole numbers [N, seq_len], a puzzle in
  each row; ``all__puzzle_indices.npy`` [P + 1] and ``all__group_indices.npy`` [G + 1], where the
  puzzles and the groups of puzzles begin; ``all__puzzle_identifiers.npy`` [P].

Puzzles of one group are variants of each other. An epoch has one of each group.

Text has a puzzle in each line, a character for each cell. Puzzles without solutions, as text or as
an array, may be compressed by gzip.
"""

import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from trm.io.files import (
    NO_UTF8,
    check_file,
    fingerprint,
    numbered_lines,
    read_object,
    write_bytes,
)
from trm.io.puzzle_format import MOST_CELLS, Puzzles, check_plain_int, check_symbols, sides_of
from trm.io.puzzle_format import PuzzleFormat as PuzzleFormat  # its released place

SPLITS = ("train", "test")
_FIELDS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
_ABOUT = "dataset.json"
IDENTIFIERS = "identifiers.json", b'["<blank>"]\n'  # name and content of a file beside the splits
_ARRAYS = (".npy", ".npz")  # of files of puzzles; an archive is refused as one
_OWN = ("height", "width", "characters")  # entries of `_ABOUT` that other programs do not write


def read_format(
    folder: str | Path,
    split: str = "train",
    height: int | None = None,
    width: int | None = None,
    characters: str | None = None,
    unknown: str | None = None,
) -> PuzzleFormat:
    """Return the format of a folder from its ``dataset.json`` alone.

    Args:
        folder: of the splits.
        split: ``train`` or ``test``.
        height: in place of that of the file; one side alone is enough. None: that of the file.
        width: as ``height``.
        characters: in place of those of the file; None or an empty text: those of the file.
        unknown: see `PuzzleFormat`.

    Raises:
        FileNotFoundError: there is no such folder or file.
        ValueError: the file has no such entries, or they do not fit together.
    """
    about, file = _about(Path(folder), split), Path(folder) / split / _ABOUT
    missing = [name for name in ("vocab_size", "seq_len") if name not in about]
    if missing:
        raise ValueError(f"{file} has no {missing[0]}")
    try:
        check_plain_int("seq_len", about["seq_len"], 1, MOST_CELLS)
        sides = (height, width) if height or width else (about.get("height"), about.get("width"))
        for name, side in zip(("height", "width"), sides, strict=True):
            if side is not None:
                check_plain_int(name, side, 1, MOST_CELLS)
        high, wide = sides
        high, wide = sides_of(about["seq_len"], high, wide, "seq_len", "data.height and data.width")
        return PuzzleFormat(
            high,
            wide,
            about["vocab_size"],
            about.get("pad_id"),
            about.get("ignore_label_id"),
            characters or about.get("characters") or "",
            unknown or "",
        )
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def read_puzzles(folder: str | Path, split: str = "train", **more: Any) -> Puzzles:
    """Read the puzzles of a split; see `read_format` for the arguments.

    Raises:
        FileNotFoundError: there is no such folder, or a file is missing.
        ValueError: an array is damaged, empty, of another type or shape, or has symbols that
            ``dataset.json`` does not allow.
    """
    folder, found = Path(folder), read_format(folder, split, **more)
    sets = _about(folder, split).get("sets", ["all"])
    if not isinstance(sets, list) or not sets or not all(_is_name(name) for name in sets):
        raise ValueError(f'{folder / split / _ABOUT}: sets is a list of names, like ["all"]')
    parts = [_read_set(folder / split, name, found) for name in sets]
    joined = parts[0]
    if any(part.format.pad is None for part in parts):
        found = replace(found, pad=None)
    for part in parts[1:]:
        inputs, labels, answer = (
            np.concatenate([getattr(one, name) for one in (joined, part)])
            for name in ("inputs", "labels", "answer")
        )
        puzzles = np.concatenate([joined.puzzles, joined.puzzles[-1] + part.puzzles[1:]])
        groups = np.concatenate([joined.groups, joined.groups[-1] + part.groups[1:]])
        joined = Puzzles(found, inputs, labels, answer, puzzles, groups)
    return joined


def arrays_hash(folder: str | Path, split: str = "train") -> str:
    """Return the SHA-256 of a split's arrays, wherever their folder is."""
    files = sorted(Path(folder, split).glob("*.npy"))
    listed = [(file.name, fingerprint(file)) for file in files]
    return hashlib.sha256(repr(listed).encode()).hexdigest()


def write_puzzles(
    folder: str | Path,
    split: str,
    format: PuzzleFormat,
    inputs: np.ndarray,
    labels: np.ndarray,
    groups: np.ndarray | None = None,
) -> None:
    """Write a split of a folder, in the format that HRM and the published TRM read.

    Args:
        folder: made if it is missing.
        split: ``train`` or ``test``.
        format: of the puzzles.
        inputs: ids, whole numbers [N, H, W] or [N, H * W].
        labels: the solutions, of the same shape.
        groups: first puzzle of each group and the end, [G + 1]; None: each is a group of its own.

    Raises:
        ValueError: the arrays have another shape, or the files exist.
    """
    place = Path(folder) / split
    if place.exists() and any(place.iterdir()):
        raise ValueError(f"{place} has files already: name another folder")
    count = len(inputs)
    shapes = {tuple(array.shape) for array in (inputs, labels)}
    if shapes not in ({(count, format.cells)}, {(count, format.height, format.width)}):
        raise ValueError(f"inputs and labels are [N, {format.height}, {format.width}] both")
    place.mkdir(parents=True, exist_ok=True)
    own = {name: asdict(format)[name] for name in _OWN}
    for name, content in split_files(format, inputs, labels, groups, **own).items():
        write_bytes(place / name, content)
    write_bytes(Path(folder) / IDENTIFIERS[0], IDENTIFIERS[1])


def split_files(
    format: PuzzleFormat,
    inputs: np.ndarray,
    labels: np.ndarray,
    groups: np.ndarray | None = None,
    **more: Any,
) -> dict[str, bytes]:
    """Return the files of a split by name, see `write_puzzles`; ``more`` goes to `_ABOUT`."""
    count = len(inputs)
    starts = np.arange(count + 1, dtype=np.int32)
    arrays = {
        "inputs": inputs.reshape(count, -1),
        "labels": labels.reshape(count, -1),
        "puzzle_identifiers": np.zeros(count, dtype=np.int32),
        "puzzle_indices": starts,
        "group_indices": starts if groups is None else np.asarray(groups, dtype=np.int32),
    }
    about = {
        "pad_id": format.pad or 0,
        "ignore_label_id": format.ignored,
        "blank_identifier_id": 0,
        "vocab_size": format.vocab_size,
        "seq_len": format.cells,
        "num_puzzle_identifiers": 1,
        "total_groups": len(arrays["group_indices"]) - 1,
        "mean_puzzle_examples": 1.0,
        "total_puzzles": count,
        "sets": ["all"],
        **more,
    }
    found = {}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.save(stream, array)
        found[f"all__{name}.npy"] = stream.getvalue()
    return found | {_ABOUT: (json.dumps(about) + "\n").encode()}


def read_inputs(
    file: str | Path, format: PuzzleFormat, height: int | None = None, width: int | None = None
) -> np.ndarray:
    """Read puzzles without solutions, uint8 [N, H, W].

    Args:
        file: ``.npy`` with whole numbers [N, H, W], [N, H * W] or [H, W]; any other file is text
            with a puzzle in each line. Either may be compressed by gzip, as a file in ``.gz``.
        format: of the puzzles in training.
        height: of the canvas; None: that of the array or of training, or else a square.
        width: as ``height``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it has no puzzles, or symbols or sizes do not fit; a line is named.
    """
    file = Path(file)
    check_file(file, "a file of puzzles, .npy or text", "--input ")
    if Path(file.name.lower().removesuffix(".gz")).suffix in _ARRAYS:
        cells = _load(file)
        if cells.ndim == 3:
            height, width = height or cells.shape[1], width or cells.shape[2]
        elif cells.ndim == 2 and cells.shape == (format.height, format.width) and not height:
            cells = cells[None]
        if cells.ndim not in (2, 3):
            raise ValueError(f"{file} has the shape {list(cells.shape)}: puzzles are [N, H, W]")
        cells = cells.reshape(len(cells), -1)
    else:
        cells = _from_lines(_numbered_texts(file), format, f"{file}, line")
    return _canvases(cells, format, str(file), height, width)


def inputs_of(
    lines: Sequence[str],
    format: PuzzleFormat,
    height: int | None = None,
    width: int | None = None,
) -> np.ndarray:
    """Return the puzzles of texts, uint8 [N, H, W]; see `read_inputs` for the arguments.

    Raises:
        ValueError: symbols or sizes do not fit.
    """
    if not all(line.strip() for line in lines):
        raise ValueError("a puzzle has a character for each cell, and one of these has none")
    cells = _from_lines(enumerate(lines, start=1), format, "puzzle")
    return _canvases(cells, format, "puzzles", height, width)


def _canvases(
    cells: np.ndarray, format: PuzzleFormat, source: str, height: int | None, width: int | None
) -> np.ndarray:
    """Return ids, [N, cells], as canvases, uint8 [N, H, W]; errors name their source."""
    if not cells.size:
        raise ValueError(f"{source} has no puzzle")
    sides = (height, width)
    if sides == (None, None) and cells.shape[1] == format.cells:
        sides = (format.height, format.width)
    remedy = f"--height and --width (in training {format.height} x {format.width})"
    height, width = sides_of(cells.shape[1], *sides, f"{source}: a puzzle", remedy)
    check_symbols(source, cells, format.vocab_size)
    return cells.astype(np.uint8).reshape(-1, height, width)


def _numbered_texts(file: Path) -> Iterable[tuple[int, str]]:
    """Yield the non-empty lines of a text file with their numbers from 1."""
    for number, line in numbered_lines(file):
        try:
            if b"\0" in line:
                raise UnicodeError
            yield number, line.decode("utf-8")
        except UnicodeError:
            raise ValueError(f"{file} {NO_UTF8}") from None


def _from_lines(lines: Iterable[tuple[int, str]], format: PuzzleFormat, where: str) -> np.ndarray:
    """Return the ids of puzzles in numbered lines, int64 [N, cells].

    Errors name ``where`` and the number of the line.
    """
    found = list[list[int]]()
    for number, line in lines:
        try:
            found.append(format.from_text(line.strip()))
        except ValueError as error:
            raise ValueError(f"{where} {number}: {error}") from None
        if len(found[-1]) != len(found[0]):
            raise ValueError(
                f"{where} {number} has {len(found[-1])} cells, and the first puzzle "
                f"{len(found[0])}: all are of one size"
            )
    return np.array(found, dtype=np.int64).reshape(len(found), -1 if found else 0)


def _about(folder: Path, split: str) -> dict[str, Any]:
    """Return the content of a split's ``dataset.json``."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: there is no such folder of arrays; docs/arrays.md has commands to write one"
        )
    file = folder / split / _ABOUT
    if not (folder / split).is_dir():
        there = ", ".join(sorted(one.name for one in folder.iterdir() if one.is_dir()))
        raise FileNotFoundError(f"{folder} has no folder {split}, but {there or 'none'}")
    check_file(file, "a folder of arrays, in which each split has one")
    if (about := read_object(file)) is None:
        raise ValueError(f"{file} is no JSON object")
    return about


def _read_set(folder: Path, name: str, format: PuzzleFormat) -> Puzzles:
    files = {field: folder / f"{name}__{field}.npy" for field in _FIELDS}
    for file in files.values():
        check_file(file, "all arrays of a split")
    arrays = {field: _load(file) for field, file in files.items()}
    for field in ("inputs", "labels"):
        shape, file = arrays[field].shape, files[field]
        if len(shape) != 2:
            raise ValueError(f"{file} has the shape {list(shape)}, and not [puzzles, cells]")
        if shape[1] != format.cells:
            raise ValueError(
                f"{file} has {shape[1]} cells a puzzle, and {_ABOUT} a seq_len of {format.cells}"
            )
    count = len(arrays["inputs"])
    if not count:
        raise ValueError(f"{files['inputs']} has no puzzle")
    if len(arrays["labels"]) != count:
        raise ValueError(
            f"{files['labels']} has {len(arrays['labels']):,} rows, and the inputs have {count:,}"
        )
    check_symbols(files["inputs"], arrays["inputs"], format.vocab_size)
    labels = np.asarray(arrays["labels"])
    answer = np.ones(labels.shape, bool)
    if format.ignored is not None:
        answer = labels != format.ignored
    check_symbols(files["labels"], labels, format.vocab_size, answer)
    if not answer.any(axis=1).all():
        first = int(answer.any(axis=1).argmin())
        raise ValueError(f"{files['labels']}: row {first} has no label, only the ignored one")
    puzzles = _starts(files["puzzle_indices"], arrays["puzzle_indices"], count, "rows of inputs")
    groups = _starts(files["group_indices"], arrays["group_indices"], len(puzzles) - 1, "puzzles")
    identifiers = arrays["puzzle_identifiers"]
    if len(identifiers) != len(puzzles) - 1:
        raise ValueError(
            f"{files['puzzle_identifiers']} has {len(identifiers):,} entries for "
            f"{len(puzzles) - 1:,} puzzles"
        )
    if len(different := np.unique(identifiers)) > 1:
        raise ValueError(
            f"{files['puzzle_identifiers']} has {len(different):,} different identifiers: puzzles "
            "whose rule follows from their identifier, as in ARC, are not learned here"
        )
    shape = count, format.height, format.width
    cells = np.where(answer, labels, 0).astype(np.uint8).reshape(shape)
    inputs, answer = arrays["inputs"].astype(np.uint8).reshape(shape), answer.reshape(shape)
    if (answer & ~format.inside(inputs)).any():  # its id of padding is a symbol like others
        format = replace(format, pad=None)
    return Puzzles(format, inputs, cells, answer, puzzles, groups)


def _load(file: Path) -> np.ndarray:
    """Return an array of whole numbers; it stays on the disk until it is used."""
    try:
        if file.suffix.lower() == ".gz":
            with gzip.open(file) as unpacked:
                array = np.load(unpacked, allow_pickle=False)
        else:
            array = np.load(file, mmap_mode="r", allow_pickle=False)
    except PermissionError:
        raise
    except Exception:  # other bytes can fail in any way
        raise ValueError(f"{file} is no array of NumPy, or damaged") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        kind = getattr(array, "dtype", "an archive")
        raise ValueError(f"{file} has {kind}, and not whole numbers")
    return array


def _starts(file: Path, array: np.ndarray, total: int, what: str) -> np.ndarray:
    """Return checked places where parts begin, int64 [parts + 1]."""
    starts = array.astype(np.int64)
    if starts.ndim != 1 or len(starts) < 2 or starts[0] != 0 or starts[-1] != total:
        raise ValueError(f"{file} begins with 0 and ends with the number of {what}, {total:,}")
    if (np.diff(starts) <= 0).any():
        raise ValueError(f"{file} does not rise: every part has one entry or more")
    return starts


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name.replace("_", "").replace("-", "").isalnum()
