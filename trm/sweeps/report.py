"""A study as a page: how far its runs are, and what came out, setting by setting.

Seeds of a setting stand together, see `trm.evaluation.statistics.of_seeds`.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trm.evaluation.grid import FAMILY, REGIONS, SHORTER, Model, axes_of, pooled, size_name
from trm.evaluation.statistics import SEEDS_MEANING, Share, of_seeds
from trm.files import read_object
from trm.markdown import safe, table
from trm.sweeps.plan import Plan, Planned
from trm.sweeps.running import (
    EVALUATING,
    FAILED,
    TRAINING,
    finished,
    folder_of,
    grid_of,
    states_of,
    wanted,
)
from trm.sweeps.study import EQUAL_LOSS, Point

PAGE, PICTURE, LINES, MAP = "study.md", "study.png", "study-lines.png", "study-map.png"
_CELLS = 8  # that a table has columns for; more are put together by region
_MILESTONE = re.compile(r"^epoch \d+, step .*$", re.M)


@dataclass(frozen=True)
class Found:
    """What an evaluation found of one run.

    Attributes:
        shares: of whole solutions right, by cell or region.
        cost: of training up to the checkpoint, see `trm.training.callbacks.Cost`; None: not known.
        loss: of the checkpoint on validation, where losses are equal; None: not known.
        flops, seconds: of solving a problem, the mean of the cells; None: not known.
    """

    shares: dict[str, Share]
    cost: dict[str, float] | None = None
    loss: float | None = None
    flops: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Gathered:
    """What an evaluation found of one setting.

    Attributes:
        setting: which one.
        seeds: of the runs that are evaluated.
    """

    setting: Planned
    seeds: tuple[Found, ...]

    def shares(self, column: str) -> list[Share]:
        """Of the seeds that were asked something there."""
        return [share for seed in self.seeds if (share := seed.shares[column]).total]

    def cost(self, name: str) -> float | None:
        """What training took, the mean of the seeds of which it is known."""
        return _mean([seed.cost[name] for seed in self.seeds if seed.cost])

    @property
    def flops(self) -> float | None:
        """Of solving a problem, the mean of the seeds."""
        return _mean([seed.flops for seed in self.seeds if seed.flops])

    @property
    def seconds(self) -> float | None:
        """The same by the clock."""
        return _mean([seed.seconds for seed in self.seeds if seed.seconds])

    @property
    def right_per_tflop(self) -> float | None:
        """Percentage points of whole solutions right per TFLOP of training; None: not known.

        The mean over the seeds whose cost is known, and over all that each of them was asked.
        """
        known = [(seed.shares.values(), seed.cost["flops"]) for seed in self.seeds if seed.cost]
        values = [
            [100 * share.value / (flops / 1e12) for share in shares if share.total]
            for shares, flops in known
            if flops
        ]
        return _mean([sum(some) / len(some) for some in values if some])


def found(output: Path, plan: Plan, evaluation: str) -> dict[Point, Found]:
    """What is known so far of one evaluation, of every run that has it behind it."""
    states = states_of(output, plan)
    grids = {
        point: grid
        for point, asked in wanted(plan, states).items()
        if asked
        and states[point].evaluated.get(evaluation) == asked[evaluation]
        and (grid := read_object(grid_of(output, evaluation, point))) is not None
    }
    columns = _columns(list(grids.values()))
    outcome = {}
    for point, grid in grids.items():
        [model] = grid["models"]
        flops, seconds = (
            _mean([n for cell in model["cells"] if (n := cell.get(f"{what}_per_problem"))])
            for what in ("flops", "seconds")
        )
        shares = {name: pooled(cells(model)) for name, cells in columns.items()}
        state = states[point]
        loss = state.losses.get(state.evaluated[evaluation][0])
        outcome[point] = Found(shares, state.cost, loss, flops, seconds)
    return outcome


def gathered(output: Path, plan: Plan, evaluation: str) -> list[Gathered]:
    """The same by setting, of each that has a seed evaluated."""
    outcome = found(output, plan, evaluation)
    settings = [
        Gathered(one, tuple(f for point, f in outcome.items() if point.setting == one.name))
        for one in plan.settings
    ]
    return [one for one in settings if one.seeds]


def has_map(settings: Sequence[Planned]) -> bool:
    """Whether a study is drawn as maps, too: one axis down, the other across."""
    return all(len(one.labels) == 2 for one in settings)


def numeric_axis(settings: Sequence[Planned]) -> tuple[str | None, dict[str, float]]:
    """The last axis whose values are different numbers, and every setting's value on it.

    It is an axis of one key, as ``model.network.config.num_layers: [1, 2, 4]``: names that have a
    number in them are none. None, and no values, where there is no such axis.
    """
    for axis in reversed(settings[0].labels if settings else ()):
        values = {one.name: _number_of(one, axis) for one in settings}
        numbers = {name: value for name, value in values.items() if value is not None}
        if len(numbers) == len(values) and len(set(numbers.values())) > 1:
            return axis, numbers
    return None, {}


def _number_of(setting: Planned, axis: str) -> float | None:
    """What a run is told of an axis, if that is a key and its value a number."""
    before = f"--{axis}="
    told = next((word for word in setting.words if word.startswith(before)), "")
    try:
        value = float(told.removeprefix(before))  # YAML reads 1e-3 as text, and trm fit does not
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def page(output: Path, plan: Plan) -> str:
    """The study as Markdown."""
    states = states_of(output, plan)
    asked = wanted(plan, states)
    done = sum(finished(state, asked[point]) for point, state in states.items())
    parts = [f"# {output.resolve().name}: {done} of {len(states)} runs are done"]
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
        pictures = {
            PICTURE: True,
            LINES: numeric_axis(plan.settings)[0],
            MAP: has_map(plan.settings),
        }
        parts += [
            f"![Whole solutions right]({name})" for name, has in pictures.items() if has and done
        ]
    for name in plan.evaluations:
        if results := _results(gathered(output, plan, name)):
            equal = [_EQUAL_LOSS] if plan.checkpoint == EQUAL_LOSS else []
            parts += [f"## {safe(name)}", _MEANING, *equal, results]
    parts += ["## Settings", settings_table(plan)]
    return "\n\n".join(parts) + "\n"


_MEANING = (
    f"Whole free-running solutions right, in percent: {SEEDS_MEANING}. Of many cells the regions "
    "are told: each setting's are seen from its own training range, and a cell that a model cannot "
    "work on is left out. Right per TFLOP is the mean of a run's columns, in percentage points, by "
    "the TFLOP of its training; of several seeds the mean."
)


_EQUAL_LOSS = (
    "Evaluated is each run's first checkpoint whose loss on validation is at or below the best "
    "loss of the worst run that it is compared with; costs of training are those up to it."
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


def _results(settings: Sequence[Gathered]) -> str:
    if not settings:
        return ""
    columns = list(settings[0].seeds[0].shares)
    with_loss = any(seed.loss is not None for one in settings for seed in one.seeds)
    rows = []
    for one in settings:
        seconds = one.cost("seconds")
        rows.append(
            [
                safe(one.setting.name),
                f"{one.setting.trial.parameters:,}",
                _in(one.cost("flops"), 1e12),
                "–" if seconds is None else duration(seconds),
                _in(one.flops, 1e6),
                _in(one.right_per_tflop, 1),
                str(len(one.seeds)),
                *([", ".join(f"{seed.loss:.3g}" for seed in one.seeds)] if with_loss else []),
                *(of_seeds(one.shares(name)) for name in columns),
            ]
        )
    heads = ["setting", "parameters", "training, TFLOP", "training", "a problem, MFLOP"]
    heads += ["right per TFLOP", "seeds"]
    heads += ["validation loss"] if with_loss else []
    return table([*heads, *columns], rows)


def _in(value: float | None, unit: float) -> str:
    return "–" if value is None else f"{value / unit:,.3g}"


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
    return {where: in_region(where) for where in (*REGIONS, SHORTER) if where in there}


def _of_region(model: Model, where: str) -> list[dict[str, Any]]:
    return [cell for cell in model["cells"] if cell["region"] == where]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _milestone(output: Path, point: Point) -> str:
    """The last figures that a run has told."""
    log = folder_of(output, point) / "log.txt"
    told = _MILESTONE.findall(log.read_text(errors="replace")) if log.is_file() else []
    return f", {safe(told[-1])}" if told else ""
