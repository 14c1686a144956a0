"""Entries of models in ``grid.json`` without their cells, and names of models."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from canvas.tasks import task_data
from trm.checkpoints import CHECKPOINT_KEY, COST_KEY, DATA_KEY, find_checkpoint
from trm.checkpoints.content import load_checkpoint
from trm.checkpoints.loading import load_solver
from trm.evaluation.comparison import check_alike, distinct_names, with_seeds
from trm.io.files import fingerprint, read_object
from trm.solving.solver import Solver


def describe(checkpoint: str | Path, name: str, steps: int | None = None) -> dict[str, Any]:
    """Return a model's entry in ``grid.json`` without its cells.

    It is a `trm.evaluation.grid_format.ModelData`. ``steps`` is the maximum of supervision steps a
    row; None: the checkpoint's own. Raises the exceptions of
    `trm.checkpoints.loading.load_solver`.
    """
    file = find_checkpoint(checkpoint)
    solver, content = load_solver(file, steps, device="cpu"), load_checkpoint(file)
    predictor = solver.predictor
    return {
        "name": name,
        "checkpoint": str(checkpoint),
        "sha256": fingerprint(file),
        "family": content[CHECKPOINT_KEY]["family"],
        "parameters": predictor.model.num_parameters,
        "model": content[CHECKPOINT_KEY]["model"],
        "solve_steps": predictor.max_steps,
        "seed": content[DATA_KEY].get("seed"),
        "task": task_data(solver.task),
        "ranges": solver.task.ranges,
        "unit": solver.task.unit,
        "canvas": asdict(solver.canvas),
        "symmetries": list(solver.trained_symmetries),
        "step": content["global_step"],
        "cost": content.get(COST_KEY),
    }


def load_described(file: Path, sha256: str, steps: int | None = None, **options: Any) -> Solver:
    """Return the solver of a checkpoint that `describe` has read, and nothing has replaced since.

    Args:
        file: the checkpoint.
        sha256: of the file, by `describe`.
        steps: as for `trm.checkpoints.loading.load_solver`.
        options: as there.

    Raises:
        ValueError: the file has changed, as by a training that is not over; see also there.
    """
    solver = load_solver(file, steps, **options)
    if fingerprint(file) != sha256:
        raise ValueError(
            f"{file} has changed since this evaluation began, perhaps by a training that goes on: "
            "copy the checkpoint, and evaluate the copy"
        )
    return solver


def labels(checkpoints: Sequence[str | Path], seeds: Sequence[Any] | None = None) -> list[str]:
    """Return distinct names for checkpoints.

    These are the names of their runs or files; where equal, with the seed of training; else paths.
    """
    files = [find_checkpoint(checkpoint).absolute() for checkpoint in checkpoints]
    of_run = [file.parent.name == "checkpoints" for file in files]
    names = [f.parents[2].name if run else f.stem for f, run in zip(files, of_run, strict=True)]
    seeded = [] if seeds is None else [with_seeds(names, seeds)]
    return distinct_names(names, *seeded, list(map(str, checkpoints)))


def describe_all(checkpoints: Sequence[str | Path], steps: int | None) -> list[dict[str, Any]]:
    """Return the entries of models that solve the same problems, named by `labels`.

    Raises the exceptions of `describe`.

    Raises:
        ValueError: a checkpoint is given twice, or tasks or bases differ.
    """
    files = [find_checkpoint(checkpoint).resolve() for checkpoint in checkpoints]
    if twice := [str(p) for p, f in zip(checkpoints, files, strict=True) if files.count(f) > 1]:
        raise ValueError(f"{' and '.join(twice)}: one checkpoint, given more than once")
    models = [describe(path, "", steps) for path in checkpoints]
    names = labels(checkpoints, [model["seed"] for model in models])
    models = [model | {"name": name} for model, name in zip(models, names, strict=True)]
    check_alike(models)
    return models


def check_models(file: Path, models: Sequence[dict[str, Any]]) -> None:
    """Require that a file holds no figures of a model that is not among these.

    A damaged file, or one of another form, is accepted: it is rewritten from the cells.

    Raises:
        ValueError: the file holds another model's figures.
    """
    earlier = (read_object(file) or {}).get("models")
    known = {model["sha256"] for model in models}
    for model in earlier if isinstance(earlier, list) else ():
        sha256 = model.get("sha256") if isinstance(model, dict) else None
        if isinstance(sha256, str) and sha256 not in known:
            name = model.get("name", model.get("model"))  # of a task, of puzzles
            about = [model.get("checkpoint"), f"SHA-256 {sha256[:12]}"]
            raise ValueError(
                f"{file} holds the figures of another checkpoint, {name} "
                f"({', '.join(filter(None, about))}): choose another --output"
            )
