"""Models that differ in the seed alone, taken together."""

import re
from collections.abc import Iterable, Sequence

from trm.evaluation.grid_schema import Model
from trm.evaluation.intervals import Share

_SEED = re.compile(r"[\s,_-]*\bseed[\s_-]?\d+|[\s,_-]*seed[\s_-]?\d+$")
_ALIKE = ("family", "model", "task", "canvas", "ranges")  # of a model's entry


def by_setting(models: Iterable[Model]) -> dict[str, list[Model]]:
    """Models by what they are called without their seed.

    Together are those that are named alike but for it, as ``lattice, seed 0`` and ``lattice, seed
    1``, and of which all that their checkpoints tell of model and task is the same. Others keep
    their names.
    """
    found: dict[str, list[Model]] = {}
    for model in models:
        name = _SEED.sub("", model["name"]) or model["name"]
        others = found.setdefault(name, [])
        if others and any(others[0].get(key) != model.get(key) for key in _ALIKE):
            name = model["name"]
            others = found.setdefault(name, [])
        others.append(model)
    return {(n if len(held) > 1 else held[0]["name"]): held for n, held in found.items()}


def figures(shares: Sequence[Share]) -> str:
    """Shares of several seeds in words: mean, [lowest to highest], (Wilson interval of all)."""
    if not shares:
        return "–"
    values = [100 * share.value for share in shares]
    low, high = sum_of(shares).interval
    spread = f" [{min(values):.1f}–{max(values):.1f}]" if len(values) > 1 else ""
    return f"{sum(values) / len(values):.1f}{spread} ({100 * low:.1f}–{100 * high:.1f})"


def sum_of(shares: Iterable[Share]) -> Share:
    """Shares put together."""
    held = list(shares)
    return Share(sum(share.right for share in held), sum(share.total for share in held))
