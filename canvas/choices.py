"""Names that users choose from, and what they may have meant by others.

Knows nothing of canvases: it stands in the lowest package so that all of them can use it.
"""

from collections.abc import Iterable
from dataclasses import field, fields
from difflib import get_close_matches
from typing import Any

CHOICES, OPEN = "choices", "open"  # of a field's metadata


def check_choice(field: str, value: str, choices: Iterable[str]) -> None:
    """Raise a ValueError that names the nearest valid choice unless ``value`` is one."""
    choices = tuple(choices)
    if value not in choices:
        listed = ", ".join(choices)
        raise ValueError(
            f"{field} must be one of {listed}, got {value!r}.{did_you_mean(value, choices)}"
        )


def did_you_mean(value: object, choices: Iterable[str], alike: float = 0.4) -> str:
    """A question that names the choice nearest to a value, to end a sentence; empty if none is.

    Args:
        value: what was written.
        choices: what could have been.
        alike: from 0 to 1, how much the two have to be.
    """
    near = get_close_matches(str(value), list(choices), n=1, cutoff=alike)
    return f" Did you mean {near[0]}?" if near and near[0] != value else ""


def one_of(default: str, choices: Iterable[str], open: bool = False) -> Any:
    """A dataclass's field whose value is one of some names: `check_choices` checks it.

    An open one can also be a name with dots, of code of the user's own.
    """
    return field(default=default, metadata={CHOICES: tuple(choices), OPEN: open})


def check_choices(settings: Any, prefix: str = "") -> None:
    """Raise a ValueError where a field made by `one_of` has another value.

    Args:
        settings: an instance of a dataclass.
        prefix: of the fields' names, in the message.
    """
    for entry in fields(settings):
        if CHOICES in entry.metadata:
            value = getattr(settings, entry.name)
            if entry.metadata.get(OPEN) and isinstance(value, str) and "." in value:
                continue
            check_choice(prefix + entry.name, value, entry.metadata[CHOICES])
