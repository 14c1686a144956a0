"""Largest sizes that calls and configs accept.

Beyond them a run would not end, or would fill the machine's memory. A mistyped size is therefore
refused with an error before the run begins.
"""

import os
import re
from numbers import Integral
from typing import Any

MOST_STEPS = 10_000  # supervision steps of a row, loops of a GPT, or cycles of a step
MOST_LAYERS = 1_000
MOST_CHANNELS = 16_384  # of a token; four times as many inside a block
MOST_SAMPLES = 1_000_000  # of one optimiser step, over all devices
MOST_WORKERS = 256  # processes that make samples

_NO_MEMORY = re.compile(
    r"out of memory|not enough memory|can't allocate|cannot allocate|signal: Killed", re.I
)


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise a ValueError unless an argument is a whole number from ``least`` to ``most``, or None.

    Integers of NumPy are whole numbers.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and not (whole and least <= value and (most is None or value <= most)):
        end = "up" if most is None else f"to {most:,}"
        shown = f"{value:,}" if whole else repr(value)
        raise ValueError(f"{name}: {shown} is not a whole number from {least:,} {end}")


def host_memory() -> int | None:
    """Return the bytes of this machine's memory; None where the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # AttributeError: on Windows
        return None


def lacks_memory(error: BaseException) -> bool:
    """Test if an error was caused by a lack of memory, of the machine or of a device."""
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    # If the system has killed a worker, the cause of the error contains that.
    return any(_NO_MEMORY.search(str(one)) for one in (error, error.__cause__))
