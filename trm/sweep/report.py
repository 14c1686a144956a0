"""A study as a page: how far its runs are, and what came out, by setting.

Seeds of a setting stand together, see `trm.evaluation.statistics`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trm.evaluation.grid import Grid
from trm.evaluation.statistics import SEEDS_MEANING, of_seeds
from trm.figures.studies import by_name, columns_of, costs_of, shares_of, study_figure
from trm.figures.style import save
from trm.files import read_object, write_text
from trm.markdown import safe, table
from trm.sweep.runs import States, done, grid_of, wanted
from trm.sweep.study import EQUAL_LOSS, Run, Study

PAGE, PICTURE = "study.md", "study.png"
_MEANING = (
    f"Whole free-running solutions right, in percent: {SEEDS_MEANING}. Of many cells the regions "
    "are told: each setting's are seen from its own training range, and a cell that a model cannot "
    "work on is left out."
)
_EQUAL_LOSS = (
    "Evaluated is each run's first checkpoint whose loss on validation is at or below the best "
    "loss of the worst run that it is compared with; costs of training are those up to it."
)


def gathered(output: Path, study: Study, states: States) -> dict[str, Grid]:
    """What is known so far of each evaluation: every run that has it behind it, under its setting.

    Its cost is that of its training, and there is a ``loss``, or None.
    """
    found = {}
    for name in study.evaluations:
        asked = wanted(study, states).items()
        runs = [run for run, of in asked if of and states[run].evaluated.get(name) == of[name]]
        runs.sort(key=lambda run: study.settings.index(run.setting))
        grids = {run: held for run in runs if (held := read_object(grid_of(output, name, run)))}
        models = []
        for run, grid in grids.items():
            loss = states[run].losses.get(states[run].evaluated[name][0])
            about: Any = {"name": run.setting.name, "cost": states[run].cost, "loss": loss}
            models.append(grid["models"][0] | about)
        if models:
            found[name] = Grid(grid, models=models)
    return found


def write_report(output: Path, study: Study, states: States, stages: Mapping[Run, str]) -> None:
    """Write the page, with the stages under way, and its picture."""
    evaluations = gathered(output, study, states)
    if figure := study_figure(evaluations):
        save(figure, output / PICTURE)
    over = len(done(study, states))
    parts = [f"# {output.resolve().name}: {over} of {len(states)} runs are done"]
    failed = [f"- {safe(run.name)}: {safe(s.error)}" for run, s in states.items() if s.error]
    running = [f"- {safe(run.name)}: {stage}" for run, stage in stages.items()]
    for title, lines in (("Failed", failed), ("Running", running)):
        parts += [f"## {title}", "\n".join(lines)] if lines else []
    if (output / PICTURE).is_file():
        parts.append(f"![Whole solutions right]({PICTURE})")
    for name, grid in evaluations.items():
        equal = [_EQUAL_LOSS] if study.checkpoint == EQUAL_LOSS else []
        parts += [f"## {safe(name)}", _MEANING, *equal, _results(grid)]
    rows = [[safe(one.name), f"{one.parameters:,}", f"{one.steps:,}"] for one in study.settings]
    parts += ["## Settings", table(["setting", "parameters", "steps"], rows)]
    write_text(output / PAGE, "\n\n".join(parts) + "\n")


def _results(grid: Grid) -> str:
    columns, costs, rows = columns_of(grid), costs_of(grid.models), []
    with_loss = any(model["loss"] is not None for model in grid.models)
    for name, seeds in by_name(grid).items():
        took = ("–" if n is None else f"{n:,.3g}" for n in costs_of(seeds).values())
        row = [safe(name), f"{seeds[0]['parameters']:,}", *took, str(len(seeds))]
        if with_loss:
            losses = [seed["loss"] for seed in seeds]
            row.append(", ".join("–" if loss is None else f"{loss:.3g}" for loss in losses))
        rows.append(row + [of_seeds(shares_of(grid, seeds, column)) for column in columns])
    heads = ["setting", "parameters", *costs, "seeds"]
    return table([*heads, *(["validation loss"] if with_loss else []), *columns], rows)
