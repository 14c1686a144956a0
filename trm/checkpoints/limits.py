"""What a file may expand to: checked before it does, as a small one may ask for all memory.

Honest files hold what they say: their archives are not packed, their tensors lie in them as they
are, and their settings are short.
"""

import pickletools
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

_MOST_VALUES = 10_000  # of settings, in all lists and dicts together
_LONGEST = 10_000  # characters of a text among them
_VIEWS = 4  # times a file's size that its tensors may come to: tied weights count twice

# What a checkpoint's pickle may name: containers, tensors, and what is in them. `torch.load` also
# knows functions that make tensors or bytes of any size from a number.
_NAMES = re.compile(
    r"collections OrderedDict|(builtins|__builtin__) set|_codecs encode|torch (Size|device)"
    r"|torch\._utils _rebuild_(tensor_v2|parameter)|torch \w+Storage"
    r"|torch (bool|(b?float|u?int|complex)\w+)"
)


def check_archive(file: Path) -> None:
    """Look at a file for `torch.load` without loading anything.

    Raises:
        ValueError: it is no archive of `torch.save`, larger inside than outside, or names something
            else than plain data and tensors.
        OSError, zipfile.BadZipFile: it cannot be read.
    """
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
        if packed or sum(entry.file_size for entry in entries) > file.stat().st_size:
            raise ValueError("larger inside than outside")
        for entry in entries:
            if entry.filename.endswith(".pkl"):
                for opcode, argument, _ in pickletools.genops(archive.read(entry)):
                    if opcode.name == "GLOBAL" and not _NAMES.fullmatch(str(argument)):
                        raise ValueError(f"it names {argument}")


def check_tensors(content: Any, size: int) -> None:
    """Look at all tensors below lists and dicts.

    Args:
        content: of a file.
        size: of that file, in bytes.

    Raises:
        ValueError: together they are larger than what a file of that size can hold, or none that
            has numbers in memory.
    """
    todo, seen, total = [content], set[int](), 0
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        if isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list | tuple | set):
            todo += value
        elif isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.device.type != "cpu":
                raise ValueError("a tensor without numbers")
            total += value.numel() * value.element_size()
        else:
            continue
        seen.add(id(value))
    if total > _VIEWS * size:
        raise ValueError(f"tensors of {total:,} bytes")


def check_settings(settings: Any) -> None:
    """Look at plain data that is going to be written, compared or quoted.

    Raises:
        ValueError: it is longer than anybody's settings; a value that stands in many places counts
            at each of them.
    """
    todo, values = [settings], 0
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set):
            todo += value
        values += 1
        if values + len(todo) > _MOST_VALUES or (isinstance(value, str) and len(value) > _LONGEST):
            raise ValueError("settings too long to be any")
