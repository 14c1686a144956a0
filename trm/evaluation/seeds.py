"""Models that differ in the seed alone, taken together."""

import json
import re
from collections.abc import Iterable
from typing import Any

from trm.evaluation.grid_schema import NAMES, Model, figure_shown, pooled, regions_of
from trm.evaluation.statistics import SEEDS_MEANING, of_seeds

_SEED = re.compile(r"[\s,_-]*\bseed[\s_-]?\d+|[\s,_-]*seed[\s_-]?\d+$")
_ALIKE = ("family", "model", "task", "canvas", "ranges")  # of a model's entry


def by_setting(models: Iterable[Model]) -> dict[str, list[Model]]:
    """Models by what they are called without their seed.

    Together are those that are named alike but for it, as ``lattice, seed 0`` and ``lattice, seed
    1``, and of which all that their checkpoints tell of model and task is the same. Others keep
    their names.
    """
    found: dict[tuple[str, ...], list[Model]] = {}
    for model in models:
        name = model["name"]
        common = _SEED.sub("", name)
        alike = json.dumps([model.get(key) for key in _ALIKE], sort_keys=True, default=str)
        key = (common, alike) if common and common != name else (name,)
        found.setdefault(key, []).append(model)
    names = [key[0] if len(held) > 1 else held[0]["name"] for key, held in found.items()]
    return {
        name if names.count(name) == 1 else ", ".join(model["name"] for model in held): held
        for name, held in zip(names, found.values(), strict=True)
    }


def together(grid: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of a table of all settings of which a grid has several seeds."""
    figure_of, regions, rows = figure_shown(grid), regions_of(grid), []
    for name, models in by_setting(grid["models"]).items():
        if len(models) < 2:
            continue
        words = []
        for where in regions:
            cells = [[c for c in model["cells"] if c["region"] == where] for model in models]
            shares = [pooled(some, figure_of) for some in cells]
            words.append(of_seeds([s for s in shares if s.total]))
        rows.append([name, str(len(models)), *words])
    return ["setting", "seeds", *regions], rows


def meaning(grid: dict[str, Any]) -> str:
    """What the figures of `together` are, in sentences."""
    return (
        "Models that are named and made alike but for the seed. "
        f"{NAMES[figure_shown(grid)].capitalize()} right, in percent: {SEEDS_MEANING}."
    )
