"""Configurations: YAML files, found by name and looked at before anything they name is imported.

Those of the package are the folder `configs` of the sources, which an installation has as
`trm/recipes`. A name is a path below it without the suffix: `quickstart`, `gpt/small_learned`.

A configuration is code: it imports and calls the classes that it names.
"""

import re
from difflib import get_close_matches
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import yaml

from canvas.choices import did_you_mean
from trm.files import read_utf8

SUFFIX = ".yaml"
_PREFIX = "configs/"  # as the sources have them; it may stand before a name
_INSTALLED = Path(__file__).parent / "recipes"
_SOURCES = Path(__file__).parents[1] / "configs"
_ALIKE = 0.5  # of a name and the one suggested for it
_OPTIONS, _JOINED = ("--config", "-c"), "--config="


def shipped_configs() -> dict[str, Path]:
    """The configurations of the package by name."""
    folder = _INSTALLED if _INSTALLED.is_dir() else _SOURCES
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}


def find_config(name: str) -> Path:
    """The file that a command line means: one of the user's own, else one of the package's.

    With or without the suffix. ValueError: there is neither; the message names the nearest one.
    """
    for file in (Path(name), Path(f"{name}{SUFFIX}")):
        if file.is_file():
            return file
    found = shipped_configs()
    short = Path(name).as_posix().removeprefix(_PREFIX).removesuffix(SUFFIX)
    if short in found:
        return found[short]
    suffix = SUFFIX if name.endswith(SUFFIX) else ""
    others = [str(other) for other in Path(name).parent.glob(f"*{SUFFIX}")]
    others += [f"{prefix}{other}{suffix}" for other in found for prefix in ("", _PREFIX)]
    last = {other.rpartition("/")[2]: other for other in found}  # a name without its folder
    near = did_you_mean(Path(name), others, _ALIKE)
    if not near and (alike := get_close_matches(Path(short).name, last, n=1, cutoff=_ALIKE)):
        near = f" Did you mean {last[alike[0]]}?"
    if not near:
        top = " and ".join(other for other in found if "/" not in other)
        near = f" There are {top}, and more in folders: `trm configs` lists all."
    raise ValueError(f"there is no config {name}.{near}")


def about(config: Path) -> str:
    """What a configuration is: the first sentence of the comment that it begins with."""
    lines = read_utf8(config).splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    text = " ".join(line.removeprefix("#").strip() for line in comment)
    return re.split(r"\.(?:\s|$)|(?:: )?\btrm (?:fit|sweep)\b", text)[0].strip()


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML's readers take the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in names and key.value != "<<":
                what = f"{key.value} stands there twice"
                raise yaml.MarkedYAMLError(problem=what, problem_mark=key.start_mark)
            names.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_config(
    file: Path, kind: str = "a config", keys: str = "model, data and trainer"
) -> dict[str, Any]:
    """What a configuration's file holds, as plain data; messages name its kind and some keys.

    ValueError: it is no YAML, has no keys, or one twice; the message names it.
    """
    text = read_utf8(file)
    try:
        held = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{file}{where}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError(f"{file}: this is no YAML") from None
    if not isinstance(held, dict):
        raise ValueError(f"{file}: {kind} has keys like {keys}")
    return held


def config_of_run(name: str) -> dict[str, Any]:
    """What a configuration of one run holds, see `find_config`; ValueError: it is of many runs."""
    file = find_config(name)
    held = read_config(file)
    if "axes" in held:
        raise ValueError(f"{file} is a study, of many runs: trm sweep {name} --output DIR")
    return held


def check_call(words: list[str]) -> list[str]:
    """The words of a training command, with files in place of names of configurations.

    ValueError: none is given, or one cannot be read; the message names it.
    """
    if {"-h", "--help"} & set(words):
        return words
    checked = list(words)
    for i, (before, word) in enumerate(pairwise(words), start=1):
        option = _JOINED if word.startswith(_JOINED) else ""
        if option or before in _OPTIONS:
            if not (name := word.removeprefix(option)):
                raise ValueError("the name after --config is empty: give a file")
            config_of_run(name)
            checked[i] = f"{option}{find_config(name)}"
    if not any(word.startswith(("--model", *_OPTIONS)) for word in words):
        raise ValueError(f"give a config, as in `trm {words[0]} --config quickstart`")
    return checked
