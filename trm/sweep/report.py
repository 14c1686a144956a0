"""A study as a page: how far its runs are, and what came out, by setting.

Seeds of a setting stand together, see `trm.evaluation.statistics`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from trm.evaluation.grid import REGIONS, SHORTER, Cell, Grid, pooled, size_name
from trm.evaluation.statistics import SEEDS_MEANING, of_seeds
from trm.figures.studies import Found, Gathered, study_figure, study_lines, study_maps
from trm.files import read_object, replacing
from trm.markdown import safe, table
from trm.sweep.runs import LOG, States, folder_of, grid_of, is_done, wanted
from trm.sweep.study import EQUAL_LOSS, Run, Setting, Study

PAGE, PICTURE, LINES, MAP = "study.md", "study.png", "study-lines.png", "study-map.png"
_CELLS = 8  # that a table has columns for; more are put together by region
_MILESTONE = re.compile(r"^epoch \d+, step .*$", re.M)
_MEANING = (
    f"Whole free-running solutions right, in percent: {SEEDS_MEANING}. Of many cells the regions "
    "are told: each setting's are seen from its own training range, and a cell that a model cannot "
    "work on is left out."
)
_EQUAL_LOSS = (
    "Evaluated is each run's first checkpoint whose loss on validation is at or below the best "
    "loss of the worst run that it is compared with; costs of training are those up to it."
)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def found(output: Path, study: Study, states: States, evaluation: str) -> dict[Run, Found]:
    """What is known so far of one evaluation, of every run that has it behind it.

    By the sizes of its problems, or where these are many, by their regions.
    """
    grids = {
        run: grid
        for run, asked in wanted(study, states).items()
        if asked
        and states[run].evaluated.get(evaluation) == asked[evaluation]
        and (grid := read_object(grid_of(output, evaluation, run))) is not None
    }
    every = {run: grid["models"][0]["cells"] for run, grid in grids.items()}
    axes = Grid(next(iter(grids.values()))).axes if grids else ("", "")

    by_region = False

    def name_of(cell: Cell) -> str:
        return str(cell["region"]) if by_region else size_name(axes, (cell["row"], cell["column"]))

    columns = list(dict.fromkeys(name_of(cell) for cells in every.values() for cell in cells))
    if by_region := len(columns) > _CELLS:
        there = {name_of(cell) for cells in every.values() for cell in cells}
        columns = [name for name in (*REGIONS, SHORTER) if name in there]
    outcome = {}
    for run, cells in every.items():
        flops, seconds = (
            _mean([n for cell in cells if (n := cell.get(f"{what}_per_problem"))])
            for what in ("flops", "seconds")
        )
        shares = {name: pooled(cell for cell in cells if name_of(cell) == name) for name in columns}
        loss = states[run].losses.get(states[run].evaluated[evaluation][0])
        outcome[run] = Found(shares, states[run].cost, loss, flops, seconds)
    return outcome


def gathered(study: Study, outcome: Mapping[Run, Found]) -> list[Gathered]:
    """What one evaluation found by setting, of each that has a seed evaluated."""
    settings = []
    for one in study.settings:
        seeds = tuple(f for run, f in outcome.items() if run.setting.name == one.name)
        settings += [Gathered(one.name, one.labels, one.parameters, seeds)] if seeds else []
    return settings


def numeric_axis(settings: Sequence[Setting]) -> tuple[str | None, dict[str, float]]:
    """The last axis whose values are different numbers, and every setting's value on it.

    It is an axis of one key, as ``model.network.config.num_layers: [1, 2, 4]``: names that have a
    number in them are none. None, and no values, where there is no such axis.
    """
    for axis in reversed(settings[0].labels if settings else ()):
        numbers = {}
        for one in settings:
            given = next((word for word in one.options if word.startswith(f"--{axis}=")), "")
            try:
                value = float(given.partition("=")[2])  # YAML reads 1e-3 as text
            except ValueError:
                value = math.nan
            numbers[one.name] = value
        if all(map(math.isfinite, numbers.values())) and len(set(numbers.values())) > 1:
            return axis, numbers
    return None, {}


def write_report(
    output: Path, study: Study, states: States, stages: Mapping[Run, str], drawn: bool = True
) -> None:
    """Write the page, with the stages under way; ``drawn``: and pictures."""
    evaluations = {
        name: gathered(study, found(output, study, states, name)) for name in study.evaluations
    }
    if drawn:
        figures = {PICTURE: study_figure(evaluations)}
        axis, values = numeric_axis(study.settings)
        if axis is not None:
            figures[LINES] = study_lines(evaluations, axis, values)
        if all(len(one.labels) == 2 for one in study.settings):
            figures[MAP] = study_maps(evaluations)
        for name, figure in figures.items():
            if figure is not None:
                with replacing(output / name) as part:
                    figure.savefig(part, format="png")
    with replacing(output / PAGE) as part:
        part.write_text(_page(output, study, states, stages, evaluations), encoding="utf-8")


def _page(
    output: Path,
    study: Study,
    states: States,
    stages: Mapping[Run, str],
    evaluations: Mapping[str, Sequence[Gathered]],
) -> str:
    asked = wanted(study, states)
    done = sum(is_done(state, asked[run]) for run, state in states.items())
    parts = [f"# {output.resolve().name}: {done} of {len(states)} runs are done"]
    seconds = _mean([state.cost["seconds"] for state in states.values() if state.cost])
    left = sum(not state.trained for state in states.values())
    if seconds and left:
        took = _duration(left * seconds)
        parts.append(
            f"To train the others takes one job about {took}, beside starts and evaluations."
        )
    failed = [f"- {safe(run.name)}: {safe(s.error)}" for run, s in states.items() if s.error]
    running = []
    for run, stage in stages.items():
        log = folder_of(output, run) / LOG
        told = _MILESTONE.findall(log.read_text(errors="replace")) if log.is_file() else []
        running.append(f"- {safe(run.name)}: {stage}" + (f", {safe(told[-1])}" if told else ""))
    for title, lines in (("Failed", failed), ("Running", running)):
        parts += [f"## {title}", "\n".join(lines)] if lines else []
    pictures = [name for name in (PICTURE, LINES, MAP) if (output / name).is_file()]
    parts += [f"![Whole solutions right]({name})" for name in pictures]
    for name, results in evaluations.items():
        if results:
            equal = [_EQUAL_LOSS] if study.checkpoint == EQUAL_LOSS else []
            parts += [f"## {safe(name)}", _MEANING, *equal, _results(results)]
    rows = [[safe(one.name), f"{one.parameters:,}", f"{one.steps:,}"] for one in study.settings]
    parts += ["## Settings", table(["setting", "parameters", "steps"], rows)]
    return "\n\n".join(parts) + "\n"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def _results(settings: Sequence[Gathered]) -> str:
    columns = list(settings[0].seeds[0].shares)
    with_loss = any(seed.loss is not None for one in settings for seed in one.seeds)
    rows = []
    for one in settings:
        flops = one.mean(lambda seed: seed.cost and seed.cost["flops"] / 1e12)
        seconds = one.mean(lambda seed: seed.cost and seed.cost["seconds"])
        problem = one.mean(lambda seed: seed.flops and seed.flops / 1e6)
        cost, each = ("–" if n is None else f"{n:,.3g}" for n in (flops, problem))
        took = "–" if seconds is None else _duration(seconds)
        losses = ", ".join("–" if s.loss is None else f"{s.loss:.3g}" for s in one.seeds)
        row = [safe(one.name), f"{one.parameters:,}", cost, took, each, str(len(one.seeds))]
        row += [losses] if with_loss else []
        rows.append(row + [of_seeds(one.shares(name)) for name in columns])
    heads = ["setting", "parameters", "training, TFLOP", "training", "a problem, MFLOP", "seeds"]
    return table([*heads, *(["validation loss"] if with_loss else []), *columns], rows)
