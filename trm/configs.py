"""Configurations: YAML files, looked at before anything that they name is imported or built.

A configuration is code: it imports and calls the classes that it names. What it names beside this
project's own and its libraries' is named before it runs. And a small file can stand for a large
one, as aliases repeat what an anchor holds: sizes are counted before values are made.
"""

import importlib.util
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from canvas.choices import did_you_mean
from trm.known_settings import ROOTS, check_settings
from trm.known_values import check_values
from trm.shipped_configs import find_config

_LARGEST = 2**18  # characters of a file
_VALUES = 20_000  # values in it, those of aliases counted as often as they are repeated
_DEEPEST = 50  # levels of lists and mappings
_OPTIONS, _JOINED = ("--config", "-c"), "--config="  # what a configuration is named after
_KNOWN = ("trm", "canvas", "augment", "torch", "lightning", "albumentations")  # packages
# Keys whose value may be a class.
_NAMES_CLASS = ("class_path", "model", "network", "task", "layout", "position")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class TooLargeError(ValueError):
    """YAML that stands for more than any configuration holds."""


def check_size(text: str) -> None:
    """Raise `TooLargeError` where YAML is too long, too deep, or grows too large by its aliases.

    Raises:
        yaml.YAMLError: it is no YAML.
    """
    if len(text) > _LARGEST:
        raise TooLargeError(f"a configuration has at most {_LARGEST:,} characters")
    sizes: dict[str, int] = {}  # of what each anchor holds
    open_ones: list[tuple[str | None, int]] = []  # lists and mappings: anchor, size before it
    size = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            size += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_ones.append((event.anchor, size))
            size += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_ones.pop()
            if anchor:
                sizes[anchor] = size - before
        elif isinstance(event, yaml.ScalarEvent):
            size += 1 + len(event.value) // 100
            if event.anchor:
                sizes[event.anchor] = 1 + len(event.value) // 100
        if len(open_ones) > _DEEPEST:
            raise TooLargeError(f"a configuration is at most {_DEEPEST} levels deep")
        if size > _VALUES:
            raise TooLargeError(
                f"a configuration has at most {_VALUES:,} values, what aliases repeat among them"
            )


def _check_keys(text: str) -> None:
    """Raise a ValueError where a key stands twice in a mapping: YAML's readers take the last."""
    todo, seen = [yaml.compose(text, Loader=yaml.SafeLoader)], set()
    while todo:
        node = todo.pop()
        if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
            continue
        seen.add(id(node))  # aliases are the node that they stand for
        if not isinstance(node, yaml.MappingNode):
            todo += node.value
            continue
        names = set()
        for key, value in node.value:
            todo.append(value)
            if (name := str(key.value)) in names:
                raise ValueError(f"line {key.start_mark.line + 1}: {name} stands there twice")
            names.add(name)


def read_config(
    file: Path, kind: str = "a config", keys: str = "model, data and trainer"
) -> dict[str, Any]:
    """What a configuration's file holds, as plain data.

    Args:
        file: to read.
        kind: what it is, in messages.
        keys: some that it has, in messages.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is no YAML, too large, has no keys, or one twice; the message names it.
    """
    try:
        text = file.read_text(encoding="utf-8")
        check_size(text)
        held = yaml.safe_load(text)
    except TooLargeError as error:
        raise ValueError(f"{file}: {error}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        place = getattr(error, "problem_mark", None)
        where = f", line {place.line + 1}" if place is not None else ""
        raise ValueError(f"{file}{where}: this is no YAML") from None
    if not isinstance(held, dict):
        raise ValueError(f"{file}: {kind} has keys like {keys}")
    try:
        _check_keys(text)
    except ValueError as error:
        raise ValueError(f"{file}, {error}") from None
    return held


def config_of_run(name: str) -> dict[str, Any]:
    """What a configuration of one run holds, by its file or the name of one of the package's own.

    Raises:
        FileNotFoundError, ValueError: see `read_config`; or it is of many runs.
    """
    file = find_config(name)
    held = read_config(file)
    if "axes" in held:
        raise ValueError(f"{file} is a study, of many runs: trm sweep {name} --output DIR")
    return held


def check_run(config: Mapping[str, Any], options: Mapping[str, Any], values: bool = True) -> None:
    """Look at the settings of a run, as `check_call` does, where all of them are in sections.

    Args:
        config: what its configuration holds.
        options: what it is given beside that, as text, by dotted names.
        values: whether to look at the values, too.

    Raises:
        ValueError: there is no such setting, or a value is refused; the message names it.
    """
    for name in options:
        root = name.partition(".")[0]
        if root not in ROOTS:
            near = did_you_mean(root, ROOTS, 0.6) or " `trm fit --help` lists them all."
            raise ValueError(f"there is no setting {name}.{near}")
    words = [f"--{name}={value}" for name, value in options.items()]
    check_settings(words, [config])
    if values:
        check_values(words, [config])


def check_call(words: list[str]) -> list[str]:
    """Look at the configurations that the words of a training command name.

    Returns:
        the words, with files in place of names of the package's own configurations.

    Raises:
        ValueError: none is given, one cannot be read, they or the words name a setting that there
            is not, or the task refuses its settings; the message names it.
    """
    if {"-h", "--help"} & set(words):
        return words
    checked, given = list(words), False
    held = []
    for place, (before, word) in enumerate(pairwise(words), start=1):
        option = _JOINED if word.startswith(_JOINED) else ""
        if not option and before not in _OPTIONS:
            continue
        given, name = True, word.removeprefix(option)
        if not name:
            raise ValueError("the name after --config is empty: give a file")
        file = find_config(name)
        held.append(config_of_run(name))
        checked[place] = f"{option}{file}"
    if not given and not any(word.startswith("--model") for word in words):
        raise ValueError(f"give a config, as in `trm {words[0]} --config quickstart`")
    check_settings(words, held)
    check_values(words, held)
    return checked


def own_classes(value: Any) -> Iterator[str]:
    """The classes of the user's own that a configuration asks for, by their dotted names."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key in _NAMES_CLASS and isinstance(below, str):
                if _DOTTED.fullmatch(below) and below.partition(".")[0] not in _KNOWN:
                    yield below
            else:
                yield from own_classes(below)
    elif isinstance(value, list):
        for below in value:
            yield from own_classes(below)


def classes_in_call(words: list[str]) -> Iterator[str]:
    """As `own_classes`, of what the words of a command line set."""
    for word, after in pairwise([*words, ""]):
        option, joined, value = word.partition("=")
        if option.startswith("--"):
            key = option.removeprefix("--").rpartition(".")[2]
            yield from own_classes({key: value if joined else after})


def foreign_names(value: Any) -> Iterator[str]:
    """What a configuration names of code that is neither this project's nor its libraries'."""
    if isinstance(value, dict):
        for below in value.values():
            yield from foreign_names(below)
    elif isinstance(value, list):
        for below in value:
            yield from foreign_names(below)
    elif isinstance(value, str) and _DOTTED.fullmatch(value):
        package = value.partition(".")[0]
        if package not in _KNOWN and importlib.util.find_spec(package) is not None:
            yield value
