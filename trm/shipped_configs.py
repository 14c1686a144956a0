"""The configurations that come with the package, found by short names.

They are the folder `configs` of the sources, which an installation has as `trm/recipes`. A name is
a path below it without the suffix: `quickstart`, `gpt/small_learned`.
"""

import re
from itertools import takewhile
from pathlib import Path

from canvas.choices import did_you_mean

SUFFIX = ".yaml"
_PREFIX = "configs/"  # as the sources have them; it may stand before a name
_INSTALLED = Path(__file__).parent / "recipes"
_SOURCES = Path(__file__).parents[1] / "configs"
_ALIKE = 0.5  # of a name and what may have been meant by it


def shipped_configs() -> dict[str, Path]:
    """All of them by name."""
    folder = _INSTALLED if _INSTALLED.is_dir() else _SOURCES
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}


def shipped_config(name: str) -> Path:
    """The one of this name, with or without the suffix.

    Raises:
        ValueError: there is none; the message names the nearest one.
    """
    found = shipped_configs()
    if (short := _short(name)) not in found:
        near = did_you_mean(short, found, _ALIKE) or " `trm configs` lists them all."
        raise ValueError(f"no config {name} comes with the package.{near}")
    return found[short]


def find_config(name: str) -> Path:
    """The file that a command line means: one of the user's own, else one of the package's.

    Raises:
        ValueError: there is neither; the message names the nearest one.
    """
    for own in (Path(name), Path(f"{name}{SUFFIX}")):
        if own.is_file():
            return own
    found = shipped_configs()
    if (short := _short(name)) in found:
        return found[short]
    suffix = SUFFIX if name.endswith(SUFFIX) else ""
    others = [str(other) for other in Path(name).parent.glob(f"*{SUFFIX}")]
    others += [f"{prefix}{other}{suffix}" for other in found for prefix in ("", _PREFIX)]
    near = did_you_mean(Path(name), others, _ALIKE) or " `trm configs` lists those of the package."
    raise ValueError(f"there is no config {name}.{near}")


def about(config: Path) -> str:
    """What a configuration is: the first sentence of the comment that it begins with."""
    lines = config.read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    text = " ".join(line.removeprefix("#").strip() for line in comment)
    return re.split(r"\.(?:\s|$)|(?:: )?\btrm (?:fit|sweep)\b", text)[0].strip()


def _short(name: str) -> str:
    return Path(name).as_posix().removeprefix(_PREFIX).removesuffix(SUFFIX)
