"""Largest sizes that a call or a config may ask for.

Beyond them a run would not end, or fill the machine's memory: a digit too many is answered by a
sentence before anything begins.
"""

import os
import re

MOST_STEPS = 10_000  # supervision steps of a row, loops of a GPT, or cycles of a step
MOST_LAYERS = 1_000
MOST_CHANNELS = 16_384  # of a token, and four times as many inside a block
MOST_SAMPLES = 1_000_000  # of one optimiser step, over all devices
MOST_WORKERS = 256  # processes that draw samples

_NO_MEMORY = re.compile(
    r"out of memory|not enough memory|can't allocate|cannot allocate|signal: Killed", re.I
)


def host_memory() -> int | None:
    """Bytes of this machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # AttributeError: on Windows
        return None


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory of the machine or of a device was not enough."""
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    # A worker that the system has killed is named by the error before the last.
    return any(_NO_MEMORY.search(str(one)) for one in (error, error.__cause__))
