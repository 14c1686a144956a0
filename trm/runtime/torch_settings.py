"""Settings of PyTorch that hold for a whole process.

Other code in the process may have changed them. `standard_settings` is a context in which they have
their standard values. It restores them afterwards.

- **Default dtype and device.** A model has the dtype of its file, whatever the defaults are.
- **Threads.** Some models run many small operations. On several threads each operation waits for
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

import numpy as np
import torch
from torch import Tensor, nn

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # users set numbers of threads in them
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_AT_IMPORT = torch.get_num_threads()
_PROCESS = os.getpid()

_lock = threading.Lock()
_limits = 0  # number of active limiting contexts, in all Python threads
_outside = 0  # number of threads outside of these contexts
_mine = threading.local()  # `limits`: number of active contexts in this Python thread


@contextmanager
def standard_settings(threads: int | None = None) -> Iterator[None]:
    """Compute with float32 and the CPU as defaults, on a suitable number of threads.

    Args:
        threads: largest useful number of threads; None: PyTorch's own number.
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
    """Make float32 the default dtype in a context; the default device stays."""
    before = torch.get_default_dtype()
    if before == torch.float32:  # process-wide settings change only if necessary
        yield
        return
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _chosen_by_user() -> bool:
    """Test if the environment or `torch.set_num_threads` sets the number of threads."""
    if any(os.environ.get(name) for name in _VARIABLES):
        return True
    return not _limits and torch.get_num_threads() not in _usual_numbers()


def _usual_numbers() -> set[int]:
    """Return PyTorch's own numbers of threads: logical cores, or physical ones."""
    if not hasattr(os, "sched_getaffinity"):
        return {_AT_IMPORT}
    cores = os.sched_getaffinity(0)
    try:
        physical = len({Path(_SIBLINGS.format(core)).read_bytes() for core in cores})
    except OSError:
        physical = _AT_IMPORT
    return {len(cores), physical}


@contextmanager
def _at_most(threads: int) -> Iterator[None]:
    """Limit the number of threads; several Python threads may do so at once.

    PyTorch gives a new Python thread the number that was set last in any thread. Therefore the
    first context records the number outside.
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


def tensor_for(model: nn.Module, array: np.ndarray) -> Tensor:
    """Return an array as a tensor on a model's device."""
    return torch.from_numpy(array).to(next(model.parameters()).device)
