"""Work on any number of devices that can be stopped and continued."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trm.io.files import write_json
from trm.runtime.precision import computing_in, on_cpu
from trm.runtime.processes import one_of_several, start_processes
from trm.runtime.progress import Meter, listening, progress

if TYPE_CHECKING:
    from lightning.fabric import Fabric

T = TypeVar("T")
_FEW = 8  # processes that any CPU is given


def check_devices(accelerator: Any, devices: Any) -> None:
    """Check a command's devices before anything is loaded, in the form of Lightning's trainer.

    Raises:
        ValueError: there is no such accelerator, or a CPU has far fewer cores than processes.
    """
    if accelerator in ("gpu", "cuda", "mps"):
        import torch

        there: dict[str, Any] = {
            "gpu": torch.accelerator.is_available,
            "cuda": torch.cuda.is_available,
            "mps": torch.backends.mps.is_available,
        }
        if not there[accelerator]():
            name = "GPU" if accelerator == "gpu" else f"device {accelerator!r}"
            raise ValueError(f"there is no {name} to compute on: take cpu or auto")
    processes = int(devices) if str(devices).isdecimal() else 1
    if processes > (most := max(_FEW, 2 * cores())) and on_cpu(accelerator):
        raise ValueError(
            f"{processes} devices are as many processes, and this CPU has {cores()} cores: take at "
            f"most {most}"
        )


class OneProcess:
    """This process alone, on the CPU, in place of a Fabric: Lightning takes seconds to import."""

    is_global_zero, global_rank, world_size, strategy = True, 0, 1, None

    def __init__(self, precision: str) -> None:
        import torch

        self.device, self.precision = torch.device("cpu"), precision

    def launch(self) -> None:
        """Start no other process."""

    def barrier(self) -> None:
        """Wait for no other process."""

    def autocast(self) -> AbstractContextManager[Any]:
        """Return a context that computes in the precision."""
        return computing_in(self.precision, "cpu")


def open_devices(
    accelerator: str, devices: int | list[int], nodes: int, precision: str
) -> "Fabric | OneProcess":
    """Return a Fabric for these devices, see `join_processes`; for one CPU process `OneProcess`.

    ``devices`` is a number, or a list of indices. ``precision`` is a result of
    `trm.runtime.precision.settle`.

    Raises:
        ValueError: there are no such devices.
    """
    check_devices(accelerator, devices)
    started = one_of_several() or os.environ.get("SLURM_NTASKS", "1") != "1"
    if (devices, nodes) == (1, 1) and not started and on_cpu(accelerator):
        return OneProcess(precision)
    from lightning.fabric import Fabric
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    if isinstance(devices, list) and on_cpu(accelerator):
        raise ValueError(
            "there is no accelerator here, and processes on a CPU have no indices: give --devices "
            "a number"
        )
    try:
        with _quiet():
            return Fabric(
                accelerator=accelerator,
                devices=devices,
                num_nodes=nodes,
                precision=precision,  # type: ignore[arg-type]
            )
    except (MisconfigurationException, RuntimeError) as error:
        raise ValueError(str(error)) from error  # Lightning's own message


def join_processes(fabric: "Fabric | OneProcess") -> None:
    """Join the processes of a Fabric; start them unless a launcher has.

    Raises:
        SystemExit: the started processes have ended, see `trm.runtime.processes.start_processes`.
        ValueError: they are on several nodes, and no launcher has started them.
    """
    start_processes(fabric.strategy)
    with _quiet():
        fabric.launch()


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Lightning's messages about devices, from both of its loggers."""
    loggers = [logging.getLogger(f"lightning.{name}") for name in ("fabric", "pytorch")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def make_files(
    fabric: "Fabric | OneProcess",
    files: Mapping[Path, T],
    make: Callable[[T], Any],
    is_made: Callable[[Path], bool],
    what: str,
    quiet: bool = False,
) -> None:
    """Make the JSON files that are not made yet; each of n processes makes every n-th of them.

    Each file is written before the next is begun. A bar counts files, named
    ``what``, and moves as ``make`` reports; ``quiet``: no bar.

    Raises:
        ValueError: at the end a file is missing.
    """
    left = [file for file in files if not is_made(file)]
    if not quiet and fabric.is_global_zero and len(left) < len(files):
        print(f"{len(files) - len(left)} of {len(files)} {what} are done already")
    fabric.barrier()  # all processes compute `left` before any of them makes a file
    own = left[fabric.global_rank :: fabric.world_size]
    meter = Meter(what, len(own))
    with (
        fabric.autocast(),
        progress(quiet or not fabric.is_global_zero) as meter.report,
        listening(meter),
    ):
        for done, file in enumerate(own):
            with meter.part(done, done + 1, len(own)):
                write_json(file, make(files[file]))
    fabric.barrier()
    missing = next((file for file in files if not file.is_file()), None)
    if missing and fabric.is_global_zero:
        raise ValueError(
            f"{missing} is missing: all nodes must see its folder. The same command goes on where "
            "it was"
        )


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
