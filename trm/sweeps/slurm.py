"""The runs of a study as a SLURM array, through submitit."""

import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trm.sweeps.plan import Plan
from trm.sweeps.running import call, run_point
from trm.sweeps.study import Point


def check_available() -> None:
    """Raise a ValueError where runs cannot be sent to SLURM from here."""
    if find_spec("submitit") is None:
        raise ValueError("--slurm needs submitit: pip install submitit, or leave --slurm out")
    if shutil.which("srun") is None:
        raise ValueError(
            "--slurm: there is no SLURM here (no srun): call it on a node of the cluster, or leave "
            "--slurm out"
        )


def submit(
    output: Path,
    plan: Plan,
    points: Sequence[Point],
    options: Mapping[str, str | int],
    at_once: int | None,
    cluster: str = "slurm",
) -> list[Any]:
    """Send runs to SLURM; returns submitit's jobs, one each.

    Args:
        output: of the study, which all nodes must see.
        plan: of the study.
        points: the runs.
        options: of sbatch, without ``slurm_`` before their names.
        at_once: most runs at the same time; None: as many as SLURM gives.
        cluster: submitit's name for where to; ``local`` starts all at once on this machine.

    Raises:
        ValueError: SLURM does not take the options.
    """
    import submitit

    try:
        executor: Any = submitit.AutoExecutor(folder=str(output / "slurm" / "%j"), cluster=cluster)
        known = {"timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node"}
        asked = {k if k in known else f"slurm_{k}": v for k, v in options.items()}
        if at_once is not None:
            asked["slurm_array_parallelism"] = at_once
        executor.update_parameters(name=output.resolve().name, **asked)
        tasks = [Task(output.resolve(), plan, point) for point in points]
        return list(executor.map_array(_do, tasks))
    except (RuntimeError, NameError, TypeError, AssertionError) as error:
        raise ValueError(f"--slurm: {error}") from None


class Task:
    """One run, as it is sent to a node."""

    def __init__(self, output: Path, plan: Plan, point: Point) -> None:
        self.output, self.plan, self.point = output, plan, point


def _do(task: Task) -> str:
    """Do a run on a node; returns how far it is."""
    return run_point(task.output, task.plan, task.point, call).stage
