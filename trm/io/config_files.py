"""Configurations: YAML files, found by name and checked before their classes are imported.

The package's own are in the folder `configs` of the sources; an installation has it as
`trm/recipes`. A name is a path below it without the suffix: `quickstart`, `gpt/small_learned`.

A configuration is code: Lightning imports and calls the classes in it.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import yaml

from canvas.choices import did_you_mean
from trm.io.files import read_utf8

SUFFIX = ".yaml"
_PREFIX = "configs/"  # folder in the sources; optional before a name
_INSTALLED = Path(__file__).parents[1] / "recipes"
_SOURCES = Path(__file__).parents[2] / "configs"
_ALIKE = 0.5  # least similarity of a suggested name
_OPTIONS, _JOINED = ("--config", "-c"), "--config="
# For the package's own YAML: ten times as fast, and crashes on what is nested too deeply.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def shipped_configs() -> dict[str, Path]:
    """Return the files of the package's configurations by name."""
    folder = _INSTALLED if _INSTALLED.is_dir() else _SOURCES
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}


def find_config(name: str) -> Path:
    """Return the file for a name on a command line: the user's own, else the package's.

    The name may omit the suffix.

    Raises:
        ValueError: there is no such file; the message suggests a similar name.
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
    """Return a configuration's description: the first sentence of the comment at its top."""
    lines = read_utf8(config).splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    text = " ".join(line.removeprefix("#").strip() for line in comment)
    ends = r"(?<!et al)\.(?:\s|$)|(?<=\?)\s|(?:: )?\btrm (?:fit|sweep)\b"
    return re.split(ends, text)[0].strip()


class _Loader(yaml.SafeLoader):
    """YAML loader that refuses duplicate keys; other loaders use the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in names and key.value != "<<":
                what = f"{key.value} stands there twice"
                raise yaml.MarkedYAMLError(problem=what, problem_mark=key.start_mark)
            names.add(str(key.value))
        return super().construct_mapping(node, deep)


@lru_cache(maxsize=16)
def _parsed(text: str) -> Any:
    """Return the content of a YAML file; a command reads a config several times."""
    return yaml.load(text, _Loader)


def read_config(
    file: Path, kind: str = "a config", keys: str = "model, data and trainer"
) -> dict[str, Any]:
    """Read a configuration as plain data; messages contain its kind and some keys.

    Raises:
        ValueError: the file is no YAML, has no keys, or has a key twice; the message contains the
            file.
    """
    text = read_utf8(file)
    try:
        content = deepcopy(_parsed(text))
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{file}{where}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError(f"{file}: this is no YAML") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file}: {kind} has keys like {keys}")
    return content


def config_of_run(name: str) -> dict[str, Any]:
    """Read the configuration of one run by its name, see `find_config`.

    Raises:
        ValueError: it is a study of many runs, or cannot be read.
    """
    file = find_config(name)
    content = read_config(file)
    if "axes" in content:
        raise ValueError(f"{file} is a study, of many runs: trm sweep {name} --output DIR")
    return content


def reads_arrays(words: list[str]) -> bool:
    """Return whether a training command is about a folder of arrays, by its configs and options."""
    found = any(word.partition("=")[0] == "--data.folder" for word in words)
    for _, _, name in _configs(words):
        if Path(name).is_file():
            data = read_config(Path(name)).get("data")
            found = found or (isinstance(data, dict) and "folder" in data)
    return found


def _configs(words: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the index of each word with a config, the option that begins it, and the name."""
    for i, (before, word) in enumerate(pairwise(["", *words])):
        option = _JOINED if word.startswith(_JOINED) else ""
        if option or before in _OPTIONS:
            yield i, option, word.removeprefix(option)


def check_call(words: list[str]) -> list[str]:
    """Return the words of a training command, with files in place of names of configurations.

    Example: ``fit --config quickstart`` → ``fit --config .../configs/quickstart.yaml``.

    Raises:
        ValueError: no configuration is given, or one cannot be read.
    """
    if {"-h", "--help"} & set(words):
        return words
    checked = list(words)
    for i, option, name in _configs(words):
        if not name:
            raise ValueError("the name after --config is empty: give a file")
        config_of_run(name)
        checked[i] = f"{option}{find_config(name)}"
    if not any(word.startswith(("--model", *_OPTIONS)) for word in words):
        raise ValueError(f"give a config, as in `trm {words[0]} --config quickstart`")
    return checked
