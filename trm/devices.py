"""Work shared by any number of devices, which can be stopped and goes on."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lightning.fabric import Fabric
from lightning.fabric.utilities.exceptions import MisconfigurationException
from rich.progress import track

from trm.files import write_json
from trm.precision import on_cpu
from trm.processes import start_processes

T = TypeVar("T")


def open_devices(accelerator: str, devices: int | list[int], nodes: int, precision: str) -> Fabric:
    """Devices to share work out to, see `join_processes`.

    A list of devices holds their indices; the precision is a settled one. ValueError: there are no
    such devices.
    """
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
        raise ValueError(str(error)) from error  # Lightning's own words for a wrong call


def join_processes(fabric: Fabric) -> None:
    """Be one of its processes, which are started where that has not been done.

    Raises:
        SystemExit, ValueError: see `trm.processes.start_processes`.
    """
    start_processes(fabric.strategy)
    with _quiet():
        fabric.launch()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Lightning tells of devices, by one logger or the other."""
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
    fabric: Fabric,
    files: Mapping[Path, T],
    make: Callable[[T], Any],
    is_made: Callable[[Path], bool],
    what: str | None,
) -> None:
    """Make the files that are not made yet, of JSON, each process every n-th of them.

    Each file is written before the next is begun. A progress bar says ``what`` they are, None:
    there is none. ValueError: in the end not all of them are there.
    """
    left = [file for file in files if not is_made(file)]
    if what and fabric.is_global_zero and len(left) < len(files):
        print(f"{len(files) - len(left)} of {len(files)} {what} are done already")
    fabric.barrier()  # before one of them is made, all processes know which are left
    mine = left[fabric.global_rank :: fabric.world_size]
    hidden = what is None or not fabric.is_global_zero
    with fabric.autocast():
        for file in track(mine, what or "", disable=hidden):
            write_json(file, make(files[file]))
    fabric.barrier()
    missing = next((file for file in files if not file.is_file()), None)
    if missing and fabric.is_global_zero:
        raise ValueError(
            f"{missing} is missing: all nodes must see its folder. The same command goes on where "
            "it was"
        )


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
