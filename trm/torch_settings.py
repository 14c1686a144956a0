"""Settings of PyTorch that hold for a whole process, and the ones that our computations need.

Other code in the process may have changed them. `standard_settings` is a context in which they have
their standard values. It restores them afterwards.

- **Default dtype and device.** A model is as its file says, whatever the defaults are.
- **Threads.** A cell model runs many small operations. On several threads each operation waits for
  all of them. Where other programs keep the cores busy, that takes ten times as long as one thread
  does. A number of threads that the user has chosen stays.
- **Forked processes.** A forked process has no OpenMP threads, and an operation that waits for them
  never ends. One thread works there.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # in which users name a number of threads
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_AT_IMPORT = torch.get_num_threads()
_PROCESS = os.getpid()

_lock = threading.Lock()
_limits = 0  # contexts of all Python threads that limit the number now
_outside = 0  # the number of threads outside of them
_mine = threading.local()  # `limits`: those of this Python thread


@contextmanager
def standard_settings(threads: int | None = None) -> Iterator[None]:
    """Compute with float32 and the CPU as defaults, on a suitable number of threads.

    Args:
        threads: the most that the work is worth; None: as many as PyTorch takes.
    """
    with ExitStack() as contexts:
        contexts.enter_context(float32_default())
        if torch.get_default_device().type != "cpu":
            contexts.enter_context(torch.device("cpu"))
        if os.getpid() != _PROCESS:  # forked
            contexts.enter_context(_at_most(1))
        elif threads is not None and not _chosen_by_user():
            contexts.enter_context(_at_most(threads))
        yield


@contextmanager
def float32_default() -> Iterator[None]:
    """Make networks with float32 as the default dtype, on whichever device is the default."""
    before = torch.get_default_dtype()
    if before == torch.float32:  # nothing of the whole process is touched without need
        yield
        return
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _chosen_by_user() -> bool:
    """Whether the environment or `torch.set_num_threads` sets the number of threads."""
    if any(os.environ.get(name) for name in _VARIABLES):
        return True
    return not _limits and torch.get_num_threads() not in _usual_numbers()


def _usual_numbers() -> set[int]:
    """Numbers of threads that PyTorch takes by itself: logical cores, or physical ones."""
    if not hasattr(os, "sched_getaffinity"):
        return {_AT_IMPORT}
    mine = os.sched_getaffinity(0)
    try:
        physical = len({Path(_SIBLINGS.format(core)).read_bytes() for core in mine})
    except OSError:
        physical = _AT_IMPORT
    return {len(mine), physical}


@contextmanager
def _at_most(threads: int) -> Iterator[None]:
    """Limit the number of threads; several Python threads may do so at once.

    PyTorch gives a new Python thread the number that was set last, in whichever thread. So the
    number outside is the one that the first context found.
    """
    global _limits, _outside
    nested = getattr(_mine, "limits", 0)
    with _lock:
        if not _limits:
            _outside = torch.get_num_threads()
        _limits += 1
        before = torch.get_num_threads() if nested else _outside
    _mine.limits = nested + 1
    torch.set_num_threads(min(threads, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _mine.limits = nested
        with _lock:
            _limits -= 1
