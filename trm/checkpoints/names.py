"""Short names of weights in the package and in docs/models of a checkout of the project.

The checkout is the one whose code runs, or the working folder: `pip install .` leaves the weights
where they are.

Imports no framework: only headers of files are read.
"""

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open

from trm.registry import FAMILIES

HEADER = "canvas_trm"  # the entry of a safetensors header that holds the settings
SUFFIX = ".safetensors"  # of a file of weights alone

FAMILY_NAMES = {family: entry.name for family, entry in FAMILIES.items()}  # for people

# In the package; the second is a part of docs/models, and only where it is installed.
_PACKAGE = [Path(__file__).parents[1] / name for name in ("pretrained", "weights")]
_ROOT = Path(__file__).parents[2]
_PROJECT = 'name = "canvas-trm"'  # a line of its pyproject.toml
_REGIONS = ("in range", "first beyond", "second beyond", "both beyond")
# Last parts of names that are not among a model's parameters: fixed, or fractions of integers.
_BUFFERS = ("H_init", "L_init", "multiplier", "shift", "silu")
PUZZLES = "puzzles"  # the entry of a card with figures of `trm evaluate --data`
_PACKED = "packed"  # last part of the name of bytes with two weights each


def named_weights() -> dict[str, Path]:
    """Files of weights by name, those of the package first."""
    folders = [*_PACKAGE, *_saved_models()]
    found: dict[str, Path] = {}
    for file in (file for folder in folders for file in sorted(folder.glob(f"*{SUFFIX}"))):
        found.setdefault(file.stem, file)
    return found


def _saved_models() -> Iterator[Path]:
    """Yield the folder docs/models of each checkout."""
    for root in filter(_is_checkout, dict.fromkeys((_ROOT, Path.cwd()))):
        yield root / "docs" / "models"


def _is_checkout(root: Path) -> bool:
    file = root / "pyproject.toml"
    if not file.is_file():
        return False
    return _PROJECT in file.read_text(encoding="utf-8", errors="replace").splitlines()


def no_such_name(name: str) -> str:
    """Return the second half of an error about an unknown name, with the nearest names."""
    known = named_weights()
    near = get_close_matches(name.removesuffix(SUFFIX), list(known), n=3, cutoff=0.6)
    nearest = f" (the nearest: {', '.join(near)})" if near else ""
    message = f"nor is it a name that `trm models` lists{nearest}"
    return f"{message}; {elsewhere()}" if only_packaged() else message


def in_history(name: str) -> str | None:
    """Return the command that restores weights which have left docs/models; None for others.

    The last table of ``docs/models/README.md`` has their names, such as `tiny-seed1`, `…-seed2`,
    and the commit of those that are not in the one named above it: "in commit `1a866c42`".
    """
    for file in (folder / "README.md" for folder in _saved_models()):
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        section = text.partition("\n## In the git history\n")[2]
        usual, full = re.search(r"git show (\w+):", section), ""
        for cell in re.findall(r"^\| (`.+?) \|", section, re.M):
            names, _, other = cell.partition(" commit ")
            commit = other.strip("`") or (usual[1] if usual else "")
            for part in re.findall("`(.+?)`", names):
                full = part.replace("…", full.rpartition("-seed")[0])
                if commit and full == name.removesuffix(SUFFIX):
                    return f"git show {commit}:docs/models/{full}{SUFFIX} > {full}{SUFFIX}"
    return None


def only_packaged() -> bool:
    """Return whether there is no checkout, and so no weights but those in the package."""
    return not any(_saved_models())


def elsewhere() -> str:
    """Return a hint for an installed package, which contains few weights."""
    return (
        "other weights are not in the installed package: run the command in the top folder of a "
        "checkout, or name a file of its folder docs/models"
    )


class FileFacts(NamedTuple):
    """Facts in the header of a file of weights."""

    family: str  # for people; recursive with its cycles
    task: str  # with its layout and base; of puzzles their size
    parameters: int
    results: str  # verdict of a proof, and test results


def about(file: Path) -> FileFacts:
    """Read the header of a file of weights.

    Raises:
        ValueError: the file has no header of this package, or is damaged.
    """
    try:
        with safe_open(file, "numpy") as content:
            header = json.loads(content.metadata()[HEADER])
            shapes = {name: content.get_slice(name).get_shape() for name in content.keys()}  # noqa: SIM118
        model, data = header["model"], header["data"]
        family = FAMILY_NAMES.get(model["family"], model["family"])
        if family == "recursive" and "H_cycles" in model["model"]:
            family += f", H {model['model']['H_cycles']}, L {model['model']['L_cycles']}"
        if "weight_bits" in model["model"]:
            family += f" in int{model['model']['weight_bits']}"
        facts = FileFacts(
            family,
            _puzzles(data["puzzles"]) if "puzzles" in data else _task(data["task"]),
            sum(_parameters(name, shape) for name, shape in shapes.items()),
            results(header.get("card") or {}),
        )
    except Exception as error:  # other bytes can fail in any way
        raise ValueError(f"{file} does not describe its model ({error})") from None
    return facts


def _task(task: Mapping[str, Any]) -> str:
    base = "" if task.get("base", 10) == 10 else f", base {task['base']}"
    return f"{task['task']}, {task['layout']}{base}"


def _puzzles(form: Mapping[str, Any]) -> str:
    return f"puzzles, {form['height']} x {form['width']}"


def _parameters(name: str, shape: list[int]) -> int:
    """Return the number of parameters in a tensor of a file."""
    last = name.rpartition(".")[2]
    return 0 if last in _BUFFERS else prod(shape) * (2 if last == _PACKED else 1)


def results(card: Mapping[str, Any]) -> str:
    """Return a summary of a card, like ``proved; tested: in range 500 of 500`` (solutions)."""
    parts = [(card.get("proof") or {}).get("verdict") or ""]
    counts: dict[str, list[int]] = {}
    for cell in card.get("cells") or ():
        figures = cell["solutions"] or cell["answers"]
        sums = counts.setdefault(cell["region"], [0, 0])
        sums[0] += figures["right"]
        sums[1] += figures["total"]
    order = sorted(counts, key=lambda region: [*_REGIONS, region].index(region))
    tested = ["{} {:,} of {:,}".format(region, *counts[region]) for region in order]
    for one in card.get(PUZZLES) or ():
        exact, views = one["exact"], f"{one['views']:g} view{'s' * (one['views'] != 1)}"
        tested.append(f"{one['data']} {exact['right']:,} of {exact['total']:,} in {views}")
    parts.append(f"tested: {', '.join(tested)}" if tested else "")
    return "; ".join(filter(None, parts)) or "neither proved nor tested in its header"
