"""A study as a page: how far its runs are, and what came out, by setting.

Seeds of a setting stand together, see `trm.evaluation.statistics`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from trm.evaluation.grid import REGIONS, SHORTER, Cell, Grid, pooled, size_name
from trm.evaluation.statistics import SEEDS_MEANING, of_seeds
from trm.figures.studies import Found, Gathered, study_figure
from trm.files import read_object, replacing
from trm.markdown import safe, table
from trm.sweep.runs import States, done, grid_of, wanted
from trm.sweep.study import EQUAL_LOSS, Run, Study

PAGE, PICTURE = "study.md", "study.png"
_CELLS = 8  # that a table has columns for; more are put together by region
_MEANING = (
    f"Whole free-running solutions right, in percent: {SEEDS_MEANING}. Of many cells the regions "
    "are told: each setting's are seen from its own training range, and a cell that a model cannot "
    "work on is left out."
)
_EQUAL_LOSS = (
    "Evaluated is each run's first checkpoint whose loss on validation is at or below the best "
    "loss of the worst run that it is compared with; costs of training are those up to it."
)


def gathered(output: Path, study: Study, states: States, evaluation: str) -> list[Gathered]:
    """What is known so far of one evaluation, by setting, of every run that has it behind it.

    By the sizes of its problems, or where these are many, by their regions.
    """
    cells: dict[Run, list[Cell]] = {}
    axes = ("", "")
    for run, asked in wanted(study, states).items():
        if asked and states[run].evaluated.get(evaluation) == asked[evaluation]:
            grid = Grid(read_object(grid_of(output, evaluation, run)) or {})
            if grid:
                axes, cells[run] = grid.axes, grid.models[0]["cells"]

    def size(cell: Cell) -> str:
        return size_name(axes, (cell["row"], cell["column"]))

    every = [cell for some in cells.values() for cell in some]
    columns = list(dict.fromkeys(map(size, every)))
    if len(columns) > _CELLS:
        there = {cell["region"] for cell in every}
        columns = [name for name in (*REGIONS, SHORTER) if name in there]

    def found(run: Run) -> Found:
        mine, state = cells[run], states[run]
        flops = [n for cell in mine if (n := cell.get("flops_per_problem"))]
        shares = {
            name: pooled(cell for cell in mine if name in (size(cell), cell["region"]))
            for name in columns
        }
        loss = state.losses.get(state.evaluated[evaluation][0])
        return Found(shares, state.cost, loss, sum(flops) / len(flops) if flops else None)

    settings = []
    for one in study.settings:
        seeds = tuple(found(run) for run in cells if run.setting.name == one.name)
        settings += [Gathered(one.name, one.parameters, seeds)] if seeds else []
    return settings


def write_report(output: Path, study: Study, states: States, stages: Mapping[Run, str]) -> None:
    """Write the page, with the stages under way, and its picture."""
    evaluations = {name: gathered(output, study, states, name) for name in study.evaluations}
    if figure := study_figure(evaluations):
        with replacing(output / PICTURE) as part:
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
    over = len(done(study, states))
    parts = [f"# {output.resolve().name}: {over} of {len(states)} runs are done"]
    failed = [f"- {safe(run.name)}: {safe(s.error)}" for run, s in states.items() if s.error]
    running = [f"- {safe(run.name)}: {stage}" for run, stage in stages.items()]
    for title, lines in (("Failed", failed), ("Running", running)):
        parts += [f"## {title}", "\n".join(lines)] if lines else []
    if (output / PICTURE).is_file():
        parts.append(f"![Whole solutions right]({PICTURE})")
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
