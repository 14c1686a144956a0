"""Comparison of models: evaluations side by side, their names, seeds, and problems they share."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from trm.evaluation.grid import Grid, Model, cells_of, outcomes
from trm.evaluation.statistics import Paired, paired

_SEED = re.compile(r"[\s,_-]*\bseed[\s_-]?\d+|[\s,_-]*seed[\s_-]?\d+$")
_ALIKE = ("family", "model", "task", "canvas", "ranges")  # of a model's entry


def distinct_names(*candidates: Sequence[str]) -> list[str]:
    """Return a distinct name for each of N things.

    Each candidate is a list of N names; the names of the last all differ. A thing gets its first
    name that no other thing has. If some names are still equal, all names are those of the last.

    Example: ``["a", "a", "b"], ["a 1", "a 2", "b 1"]`` → ``["a 1", "a 2", "b"]``.
    """
    names = list(candidates[0])
    for candidate in candidates[1:]:
        names = [
            longer if names.count(name) > 1 else name
            for name, longer in zip(names, candidate, strict=True)
        ]
    return names if len(set(names)) == len(names) else list(candidates[-1])


def with_seeds(names: Sequence[str], seeds: Sequence[Any]) -> list[str]:
    """Return names like ``quickstart, seed 1``."""
    return [f"{name}, seed {seed}" for name, seed in zip(names, seeds, strict=True)]


def check_alike(models: Sequence[Model]) -> None:
    """Require models of the same task and base, with sizes in the same measures.

    Raises:
        ValueError: a task, base or measure differs.
    """
    kinds = {}
    for model in models:
        task = model["task"]
        kinds[model["name"]] = task["task"] + (f" in base {task['base']}" if "base" in task else "")
    for model in models:
        if settings := model.get("settings"):
            kinds[model["name"]] += " by {} and {}".format(*settings["axes"])
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        raise ValueError(f"these models cannot be compared: {listed}. Evaluate them one by one")


def side_by_side(grids: Sequence[Grid], labels: Sequence[str]) -> Grid:
    """Join the models of several grids in one grid, each with its own settings.

    Equal names are extended by the seeds, or by the labels of the grids.

    Raises:
        ValueError: tasks, bases or axes differ.
    """
    models = [m | {"settings": grid["settings"]} for grid in grids for m in grid.models]
    names = [model["name"] for model in models]
    of = [label for label, grid in zip(labels, grids, strict=True) for _ in grid.models]
    full = [f"{label}: {name}" for label, name in zip(of, names, strict=True)]
    names = distinct_names(names, with_seeds(names, [m.get("seed") for m in models]), full)
    named = [model | {"name": name} for model, name in zip(models, names, strict=True)]
    check_alike(named)
    return Grid(settings=grids[0]["settings"], models=named)


def by_setting(models: Iterable[Model]) -> dict[str, list[Model]]:
    """Group models by their names without the seed.

    A group has models whose names differ in the seed only, like ``lattice, seed 0`` and ``lattice,
    seed 1``. Their checkpoints have the same model and task, and their evaluations the same
    settings. Other models keep their names.
    """
    found: dict[tuple[str, ...], list[Model]] = {}
    for model in models:
        name = model["name"]
        common = _SEED.sub("", name)
        alike = [*map(model.get, _ALIKE), Grid(settings={}).settings_in_words(model)]
        about = json.dumps(alike, sort_keys=True, default=str)
        key = (common, about) if common and common != name else (name,)
        found.setdefault(key, []).append(model)
    names = [key[0] if len(group) > 1 else group[0]["name"] for key, group in found.items()]
    return {
        name if names.count(name) == 1 else ", ".join(model["name"] for model in group): group
        for name, group in zip(names, found.values(), strict=True)
    }


def shared_problems(
    mine: Sequence[Model],
    theirs: Sequence[Model],
    region: str | None = None,
    solved: str = "solved",
) -> Paired | None:
    """Compare two settings, each the models of its seeds, over the cells that all models have.

    Args:
        mine: models of one setting.
        theirs: models of the other.
        region: of the first model, whose cells count; None: all cells.
        solved: one of the values of `trm.evaluation.grid_format.OUTCOMES`.

    Returns:
        The comparison; None without such cells, or without results per problem.
    """
    cells = [cells_of(model) for model in (*mine, *theirs)]
    found = []  # of each cell the texts of all models
    for key, cell in cells[0].items():
        texts = [of_model.get(key, {}).get(solved) for of_model in cells]
        lengths = {len(text) if isinstance(text, str) else None for text in texts}
        if region in (None, cell["region"]) and len(lengths) == 1 and None not in lengths:
            found.append(texts)
    if not any(texts[0] for texts in found):
        return None
    seeds = [[outcomes(text) for text in seed] for seed in zip(*found, strict=True)]
    return paired(seeds[: len(mine)], seeds[len(mine) :])
