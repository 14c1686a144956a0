"""What models are called: runs of one name, evaluations side by side, seeds of one setting."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from trm.evaluation.grid import Grid, Model

_SEED = re.compile(r"[\s,_-]*\bseed[\s_-]?\d+|[\s,_-]*seed[\s_-]?\d+$")
_ALIKE = ("family", "model", "task", "canvas", "ranges")  # of a model's entry


def distinct_names(*ways: Sequence[str]) -> list[str]:
    """What to call each of N things: by the first of the ways in which no other has its name.

    Ways have N names each; those of the last one, which all differ, are taken where the others do
    not tell all apart.
    """
    names = list(ways[0])
    for way in ways[1:]:
        names = [
            longer if names.count(name) > 1 else name
            for name, longer in zip(names, way, strict=True)
        ]
    return names if len(set(names)) == len(names) else list(ways[-1])


def with_seeds(names: Sequence[str], seeds: Sequence[Any]) -> list[str]:
    """Names like ``quickstart, seed 1``."""
    return [f"{name}, seed {seed}" for name, seed in zip(names, seeds, strict=True)]


def check_alike(models: Sequence[Model]) -> None:
    """ValueError for models of different tasks or bases, or whose sizes have other measures."""
    kinds = {model["name"]: "{task} in base {base}".format(**model["task"]) for model in models}
    for model in models:
        if settings := model.get("settings"):
            kinds[model["name"]] += " by {} and {}".format(*settings["axes"])
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        raise ValueError(f"these models cannot be compared: {listed}. Evaluate them one by one")


def side_by_side(grids: Sequence[Grid], labels: Sequence[str]) -> Grid:
    """The models of several grids as one grid, each with the settings of its own.

    Names that several bear are told apart by their seeds, or by their grids' labels. ValueError if
    tasks, bases or axes differ.
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
    """Models by what they are called without their seed.

    Together are those that are named alike but for it, as ``lattice, seed 0`` and ``lattice, seed
    1``, whose checkpoints tell the same of model and task, and which were asked alike. Others keep
    their names.
    """
    found: dict[tuple[str, ...], list[Model]] = {}
    for model in models:
        name = model["name"]
        common = _SEED.sub("", name)
        alike = [*map(model.get, _ALIKE), Grid(settings={}).how_asked(model)]
        told = json.dumps(alike, sort_keys=True, default=str)
        found.setdefault((common, told) if common and common != name else (name,), []).append(model)
    names = [key[0] if len(held) > 1 else held[0]["name"] for key, held in found.items()]
    return {
        name if names.count(name) == 1 else ", ".join(model["name"] for model in held): held
        for name, held in zip(names, found.values(), strict=True)
    }
