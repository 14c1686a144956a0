"""A study as a page: how far its runs are, and what came out, setting by setting.

Seeds of a setting stand together: the mean of their shares, the lowest and the highest of them, and
Wilson's 95 % interval over all their problems, which says nothing about other seeds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trm.evaluation.grid_schema import FAMILY, INSIDE, REGIONS, Model, axes_of, pooled, size_name
from trm.evaluation.intervals import Share
from trm.evaluation.seeds import figures
from trm.files import read_object
from trm.markdown import safe, table
from trm.sweeps.plan import Plan, Planned
from trm.sweeps.running import DONE, EVALUATING, FAILED, TRAINING, folder_of, grid_of, state_of
from trm.sweeps.study import Point

PAGE, PICTURE = "study.md", "study.png"
_CELLS = 8  # that a table has columns for; more are put together by region
_MILESTONE = re.compile(r"^epoch \d+, step .*$", re.M)


@dataclass(frozen=True)
class Gathered:
    """What an evaluation found of one setting.

    Attributes:
        setting: which one.
        seeds: how many are evaluated.
        shares: of each column, those of the seeds.
        flops, seconds: that training took, the mean of the seeds; None: not known.
    """

    setting: Planned
    seeds: int
    shares: dict[str, list[Share]]
    flops: float | None
    seconds: float | None


def gathered(output: Path, plan: Plan, evaluation: str) -> list[Gathered]:
    """What is known so far of one evaluation, of each setting that has a seed evaluated."""
    of_setting: dict[str, list[dict[str, Any]]] = {}
    for point in plan.points():
        grid = read_object(grid_of(output, evaluation, point))
        if grid is not None and evaluation in state_of(output, point).evaluated:
            of_setting.setdefault(point.setting, []).append(grid)
    every = [grid for grids in of_setting.values() for grid in grids]
    ways = _columns(every)
    found = []
    for setting in plan.settings:
        grids = of_setting.get(setting.name, [])
        models = [grid["models"][0] for grid in grids]
        if not models:
            continue
        shares = {name: [pooled(cells(model)) for model in models] for name, cells in ways.items()}
        costs = [model["cost"] for model in models if model.get("cost")]
        found.append(
            Gathered(
                setting,
                len(models),
                {name: [s for s in some if s.total] for name, some in shares.items()},
                _mean([cost["flops"] for cost in costs]),
                _mean([cost["seconds"] for cost in costs]),
            )
        )
    return found


def page(output: Path, plan: Plan) -> str:
    """The study as Markdown."""
    points = list(plan.points())
    states = {point: state_of(output, point) for point in points}
    done = sum(state.stage == DONE for state in states.values())
    parts = [f"# {output.resolve().name}: {done} of {len(points)} runs are done"]
    failed = [(point, state) for point, state in states.items() if state.stage == FAILED]
    if failed:
        listed = [f"- {safe(point.name)}: {safe(state.error)}" for point, state in failed]
        parts += ["## Failed", "\n".join(listed)]
    running = [(p, s) for p, s in states.items() if s.stage in (TRAINING, EVALUATING)]
    if running:
        listed = [
            f"- {safe(point.name)}: {state.stage}{_milestone(output, point)}"
            for point, state in running
        ]
        parts += ["## Running", "\n".join(listed)]
    if plan.evaluations:
        parts += [f"![Whole solutions right]({PICTURE})"] if done else []
    for name in plan.evaluations:
        if results := _results(gathered(output, plan, name)):
            parts += [f"## {safe(name)}", _MEANING, results]
    parts += ["## Settings", settings_table(plan)]
    return "\n\n".join(parts) + "\n"


_MEANING = (
    "Whole free-running solutions right, in percent: the mean over seeds, the lowest and the "
    "highest seed in brackets, and the Wilson 95 % interval over all problems of all seeds."
)


def settings_table(plan: Plan) -> str:
    """What each setting is, and what a run of it takes, as Markdown."""
    heads = ["setting", "parameters", "steps", "samples", "TFLOP", "about"]
    rows = [[safe(one.name), *expected(one)] for one in plan.settings]
    return table(heads, rows)


def expected(one: Planned) -> list[str]:
    """What a run takes: parameters, steps, samples, TFLOP and time."""
    trial = one.trial
    return [
        f"{trial.parameters:,}",
        f"{trial.steps:,}",
        f"{trial.steps * trial.samples:,}",
        f"{trial.steps * trial.flops / 1e12:,.3g}",
        duration(trial.steps * trial.seconds),
    ]


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _results(found: Sequence[Gathered]) -> str:
    if not found:
        return ""
    columns = list(found[0].shares)
    rows = []
    for one in found:
        cost = "–" if one.flops is None else f"{one.flops / 1e12:,.3g}"
        took = "–" if one.seconds is None else duration(one.seconds)
        who = [safe(one.setting.name), f"{one.setting.trial.parameters:,}", cost, took]
        rows.append([*who, str(one.seeds), *(figures(one.shares[name]) for name in columns)])
    return table(["setting", "parameters", "TFLOP", "training", "seeds", *columns], rows)


def _columns(grids: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The columns of a table of these evaluations: names, and how to get a model's cells."""
    if not grids:
        return {}
    axes = axes_of(grids[0])
    sizes = list(
        dict.fromkeys(
            (cell["row"], cell["column"]) for grid in grids for cell in grid["models"][0]["cells"]
        )
    )
    if axes[0] != FAMILY and len(sizes) <= _CELLS:

        def at(size: tuple[Any, Any]) -> Any:
            return lambda model: [c for c in model["cells"] if (c["row"], c["column"]) == size]

        return {size_name(axes, size): at(size) for size in sizes}

    def in_region(where: str) -> Any:
        return lambda model: _of_region(model, where)

    there = {cell["region"] for grid in grids for cell in grid["models"][0]["cells"]}
    return {where: in_region(where) for where in (INSIDE, *REGIONS[1:]) if where in there}


def _of_region(model: Model, where: str) -> list[dict[str, Any]]:
    return [cell for cell in model["cells"] if cell["region"] == where]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _milestone(output: Path, point: Point) -> str:
    """The last figures that a run has told."""
    log = folder_of(output, point) / "log.txt"
    told = _MILESTONE.findall(log.read_text(errors="replace")) if log.is_file() else []
    return f", {safe(told[-1])}" if told else ""
