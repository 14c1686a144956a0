"""Settings as plain data, as JSON and YAML have them, and whether their types are right."""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

_LARGEST = 1_000_000  # of whole numbers: cells, channels, steps
_FEW = 100  # entries of a table


def plain(config: Any) -> dict[str, Any]:
    """A dataclass's settings as JSON has them."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items()}


def misfit(kind: type, settings: Mapping[str, Any]) -> str | None:
    """The first field of a dataclass whose setting is not of its type; None: all are."""
    hints = get_type_hints(kind)
    names = (field.name for field in fields(kind) if field.name in settings)
    return next((name for name in names if not fits(settings[name], hints[name])), None)


def fits(value: Any, kind: Any) -> bool:
    """Whether plain data is of a type: a number, text, a union or a tuple of such."""
    if kind is int:
        return type(value) is int and abs(value) <= _LARGEST
    if kind is float:
        return type(value) in (int, float) and abs(value) <= _LARGEST and math.isfinite(value)
    if kind in (str, bool, NoneType):
        return type(value) is kind
    parts = get_args(kind)
    if get_origin(kind) is dict:
        few = isinstance(value, dict) and len(value) <= _FEW
        return few and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if get_origin(kind) is tuple:
        whole = isinstance(value, list | tuple) and len(value) == len(parts)
        return whole and all(map(fits, value, parts))
    return any(fits(value, part) for part in parts)  # a union
