"""What models are called: runs of one name, evaluations side by side, seeds of one setting."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from trm.evaluation.grid import Model

_SEED = re.compile(r"[\s,_-]*\bseed[\s_-]?\d+|[\s,_-]*seed[\s_-]?\d+$")
_ALIKE = ("family", "model", "task", "canvas", "ranges")  # of a model's entry


def told_apart(names: Sequence[str], seeds: Sequence[Any]) -> list[str]:
    """Names, those that several bear with their seed where that tells them apart.

    Args:
        seeds: of their training; of two models ``quickstart`` one becomes ``quickstart, seed 1``.
    """
    bearers = {name: [s for other, s in zip(names, seeds, strict=True) if other == name]
               for name in names}  # fmt: skip
    return [
        f"{name}, seed {seed}" if 1 < len(bearers[name]) == len(set(bearers[name])) else name
        for name, seed in zip(names, seeds, strict=True)
    ]


def side_by_side(grids: Sequence[dict[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """The models of several grids as one grid, each with the settings of its own.

    A name that several models bear is followed by the seed; where that does not tell them apart, it
    is preceded by its grid's label. ValueError if tasks, bases or axes differ.
    """
    found = [
        (label, model | {"settings": grid["settings"]})
        for grid, label in zip(grids, labels, strict=True)
        for model in grid["models"]
    ]
    kinds = {
        "{} in base {} by {} and {}".format(
            m["task"]["task"], m["task"]["base"], *m["settings"]["axes"]
        )
        for _, m in found
    }
    if len(kinds) > 1:
        listed = " and ".join(sorted(kinds))
        raise ValueError(
            f"these evaluations are of different things: {listed}. Compare like things"
        )
    seeds = [model.get("seed") for _, model in found]
    names = told_apart([model["name"] for _, model in found], seeds)
    full = [f"{label}: {name}" for (label, _), name in zip(found, names, strict=True)]
    shown = [full[i] if names.count(name) > 1 else name for i, name in enumerate(names)]
    shown = shown if len(set(shown)) == len(shown) else full
    models = [model | {"name": name} for (_, model), name in zip(found, shown, strict=True)]
    return grids[0] | {"models": models}


def by_setting(models: Iterable[Model]) -> dict[str, list[Model]]:
    """Models by what they are called without their seed.

    Together are those that are named alike but for it, as ``lattice, seed 0`` and ``lattice, seed
    1``, and whose checkpoints tell the same of model and task. Others keep their names.
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
