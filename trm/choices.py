"""Names that users choose from."""

from collections.abc import Iterable
from difflib import get_close_matches


def check_choice(field: str, value: str, choices: Iterable[str]) -> None:
    """Raise a ValueError that names the nearest valid choice unless ``value`` is one."""
    choices = tuple(choices)
    if value not in choices:
        near = get_close_matches(str(value), choices, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{field} must be one of {', '.join(choices)}, got {value!r}.{hint}")
