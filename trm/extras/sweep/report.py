"""Report of a study, as Markdown and a picture: progress of its runs, and results by setting.

Seeds of a setting are summarised together, see `trm.evaluation.statistics`.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from canvas.picture import PALE
from trm.evaluation.grid import Cell, Grid, Model, pooled
from trm.evaluation.grid_cells import size_name
from trm.evaluation.statistics import SEEDS_MEANING, Share, of_seeds
from trm.extras.sweep.budget import speed_of
from trm.extras.sweep.runs import Jobs
from trm.extras.sweep.study import EQUAL_LOSS
from trm.figures.style import mark, new_figure, save, tidy
from trm.io.files import read_object, write_text
from trm.io.markdown import known, safe, table

PAGE, PICTURE = "study.md", "study.png"
_CELLS = 8  # most cells that have columns of their own; more are pooled by region
_WIDE = 8.5  # inches of the picture: its text is legible across a page of a paper
_LONGEST_NAME = 24  # letters of a line of a setting's name
_FAR = 4  # ratio of highest to lowest cost above which the scale is logarithmic
_MEANING = (
    f"Correct free-running solutions, in percent: {SEEDS_MEANING}. Many cells are pooled by "
    "region: regions are relative to the setting's own training range, and cells that are not "
    "applicable to a model are left out."
)
_EQUAL_LOSS = (
    "Each run is evaluated at its first checkpoint whose validation loss is at or below the best "
    "loss of the worst run that it is compared with. Training costs are those up to this "
    "checkpoint."
)

_SPEED_MEANING = (
    "Training steps a second, with drawing the batches. A run has parts where the number of cycles "
    "or the problems change. The peak is that of the device's data sheet in bfloat16."
)


def gathered(jobs: Jobs) -> dict[str, Grid]:
    """Return the grid of each evaluation, with the runs evaluated so far, named by setting.

    A run's cost is that of its training. Each run has a ``loss``, or None.
    """
    found = {}
    runs = sorted(jobs.states, key=lambda run: jobs.study.settings.index(run.setting))
    for name in jobs.study.evaluations:
        grid, models = dict[str, Any](), []
        for run in runs:
            state, wanted = jobs.states[run], (jobs.wanted(run) or {}).get(name)
            if not wanted or state.evaluated.get(name) != wanted:
                continue
            if data := read_object(jobs.grid(name, run)):
                about: Any = {"name": run.setting.name, "cost": state.cost}
                models.append(data["models"][0] | about | {"loss": state.losses.get(wanted[0])})
                grid = data
        if models:
            found[name] = Grid(grid, models=models)
    return found


def write_report(jobs: Jobs) -> None:
    """Write the report, with the stages in progress, and its picture."""
    output, study, states = jobs.output, jobs.study, jobs.states
    evaluations = gathered(jobs)
    if figure := study_figure(evaluations):
        save(figure, output / PICTURE)
    else:
        (output / PICTURE).unlink(missing_ok=True)  # of evaluations that the study has no longer
    over = len(states) - len(jobs.left())
    parts = [f"# {output.resolve().name}: {over} of {len(states)} runs are done"]
    failed = [f"- {safe(run.name)}: {safe(s.error)}" for run, s in states.items() if s.error]
    running = [f"- {safe(run.name)}: {stage}" for run, stage in jobs.stages.items()]
    for title, lines in (("Failed", failed), ("Running", running)):
        parts += [f"## {title}", "\n".join(lines)] if lines else []
    notes = [
        f"- {safe(run.name)}: {safe(sentence)}"
        for run, state in states.items()
        for sentence in (state.note, state.stopped)
        if sentence
    ]
    if speeds := _speeds(jobs):
        parts += ["## Speed", _SPEED_MEANING, speeds]
    if notes:
        parts += ["## Time", "\n".join(notes)]
    if (output / PICTURE).is_file():
        parts.append(f"![Correct solutions]({PICTURE})")
    for name, grid in evaluations.items():
        equal = [_EQUAL_LOSS] if study.checkpoint == EQUAL_LOSS else []
        parts += [f"## {safe(name)}", _MEANING, *equal, _results(grid)]
    measured = {run.setting.name: state.steps for run, state in states.items() if state.steps}
    rows = [
        [safe(one.name), f"{one.parameters:,}", f"{one.steps or measured.get(one.name, 0):,}"]
        for one in study.settings
    ]
    parts += ["## Settings", table(["setting", "parameters", "steps"], rows)]
    if remarks := [f"- {safe(remark)}" for remark in changes(jobs)]:
        parts += ["## Changes", "\n".join(remarks)]
    write_text(output / PAGE, "\n\n".join(parts) + "\n")


def changes(jobs: Jobs) -> list[str]:
    """Return a remark on each change of the study that its figures do not show."""
    found = [
        f"{file} has changed since these runs were started, and their figures may be of its "
        f"earlier content: {', '.join(run.name for run in runs)}"
        for file, runs in jobs.changed_code().items()
    ]
    if left := jobs.leftovers():
        found.append(f"no longer in the study, and left out of its report: {', '.join(left)}")
    return found


def _speeds(jobs: Jobs) -> str:
    """Return the table of measured speeds; empty: none was measured."""
    rows = []
    for run in jobs.states:
        speed = speed_of(jobs, run)
        for case in speed.cases if speed else ():
            figures = [f"{case.rate:,.3g}", f"{case.rate * case.batch_size:,.3g}"]
            figures += [f"{case.tflop:.3g}"] if case.tflop else ["–"]
            figures += [known(case.of_peak, "{:.1%}").replace("%", " %")]
            figures += [known(case.memory, "{:.1f}")]
            how = "compiled" if case.compiled else "eager"
            about = [safe(run.name), f"{100 * case.part:.3g} %", how, f"{case.batch_size:,}"]
            rows.append([*about, *(figures if case.rate else ["–"] * 5), safe(case.remark)])
    heads = ["run", "part of it", "computed", "batch size", "steps/s", "samples/s", "TFLOP/step"]
    return table([*heads, "of peak", "GiB", "remarks"], rows) if rows else ""


def _results(grid: Grid) -> str:
    columns, costs, rows = columns_of(grid), costs_of(grid.models), []
    with_loss = any(model["loss"] is not None for model in grid.models)
    for name, seeds in by_name(grid).items():
        took = (known(n, "{:,.3g}") for n in costs_of(seeds).values())
        row = [safe(name), f"{seeds[0]['parameters']:,}", *took, str(len(seeds))]
        if with_loss:
            row.append(", ".join(known(seed["loss"], "{:.3g}") for seed in seeds))
        rows.append(row + [of_seeds(shares_of(grid, seeds, column)) for column in columns])
    heads = ["setting", "parameters", *costs, "seeds"]
    return table([*heads, *(["validation loss"] if with_loss else []), *columns], rows)


def columns_of(grid: Grid) -> list[str]:
    """Return the columns of a table: sizes of problems, or the regions where sizes are many."""
    cells = [cell for model in grid.models for cell in model["cells"]]
    sizes = dict.fromkeys(_name(grid, cell) for cell in cells)
    there = {cell["region"] for cell in cells}
    return [*sizes] if len(sizes) <= _CELLS else [one for one in grid.regions if one in there]


def _name(grid: Grid, cell: Cell) -> str:
    return size_name(grid.axes, (cell["row"], cell["column"]), grid.unit)


def by_name(grid: Grid) -> dict[str, list[Model]]:
    """Return the seeds of each setting."""
    names = dict.fromkeys(model["name"] for model in grid.models)
    return {name: [one for one in grid.models if one["name"] == name] for name in names}


def shares_of(grid: Grid, seeds: Sequence[Model], column: str) -> list[Share]:
    """Return the share of correct solutions in a column for each seed with problems there."""

    def within(cell: Cell) -> bool:
        return column in (cell["region"], _name(grid, cell))

    found = [pooled(filter(within, seed["cells"])) for seed in seeds]
    return [share for share in found if share.total]


def costs_of(seeds: Sequence[Model]) -> dict[str, float | None]:
    """Return costs by name, each the mean of the seeds with known costs; None: no such seed."""
    known = [cost for seed in seeds if (cost := seed["cost"])]
    flops = [[n / 1e6 for c in seed["cells"] if (n := c["flops_per_problem"])] for seed in seeds]
    values: dict[str, list[Any]] = {
        "TFLOP of training": [cost["flops"] / 1e12 for cost in known],
        "minutes of training": [cost["seconds"] / 60 for cost in known],
        "MFLOP of solving a problem": [np.mean(some) for some in flops if some],
    }
    return {name: float(np.mean(some)) if some else None for name, some in values.items()}


def study_figure(evaluations: Mapping[str, Grid]) -> Figure | None:
    """Draw each seed's share of correct solutions: by setting, and against its costs.

    Each evaluation has the settings on the left, with a bar at the mean of the seeds, and on the
    right one panel for each known cost below the other: operations and minutes of training,
    operations of solving a problem. Returns None before the first evaluation.
    """
    if not evaluations:
        return None
    lines = [len(by_name(grid)) * len(columns_of(grid)) for grid in evaluations.values()]
    heights = [max(1.6 + 0.27 * n, 5.2) for n in lines]  # inches: three costs, one below the other
    figure = new_figure(_WIDE, sum(heights))
    whole = figure.add_gridspec(len(heights), 2, height_ratios=heights, width_ratios=(5, 4))
    for i, (grid_name, grid) in enumerate(evaluations.items()):
        settings = by_name(grid)
        costs = {
            what: {name: n for name, seeds in settings.items() if (n := costs_of(seeds)[what])}
            for what in costs_of(grid.models)
        }
        costs = {what: known for what, known in costs.items() if known}
        first = figure.add_subplot(whole[i, 0] if costs else whole[i, :])
        _draw_settings(first, grid, grid_name, below=0.75 / heights[i])
        if costs:
            panels = whole[i, 1].subgridspec(len(costs), 1).subplots(squeeze=False)[:, 0]
            for axes, (what, known) in zip(panels, costs.items(), strict=True):
                _draw_costs(axes, grid, what, known)
    return figure


def _draw_settings(axes: Axes, grid: Grid, title: str, below: float) -> None:
    """Draw a line for each setting and column; the legend is ``below`` the axes (share of them)."""
    settings, columns = by_name(grid), columns_of(grid)
    for i, column in enumerate(columns):
        style = mark(i)
        for y, seeds in enumerate(settings.values()):
            at, shares = y + (i + 1) / (len(columns) + 1) - 0.5, shares_of(grid, seeds, column)
            values, label = [share.value for share in shares], "" if y else column
            axes.plot(values, [at] * len(values), alpha=0.8, ls="", label=label, **style)
            for share in shares:
                axes.plot(share.interval, [at, at], color=style["color"], linewidth=0.8)
            if shares:
                ends = [at - 0.1, at + 0.1]
                axes.plot([np.mean(values)] * 2, ends, color=style["color"])
    for y in range(len(settings)):
        axes.axhline(y - 0.5, color=PALE, linewidth=0.8)
    names = [fill(name, _LONGEST_NAME) for name in settings]
    axes.set_yticks(range(len(settings)), names, parse_math=False)
    axes.set(ylim=(len(settings) - 0.5, -0.5), xlim=(-0.03, 1.03), xlabel="correct solutions")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -below), "ncols": 2}
    axes.legend(fontsize=9, frameon=False, **place)
    axes.set_title(title, loc="left", fontsize=11, weight="bold", parse_math=False)


def _draw_costs(axes: Axes, grid: Grid, what: str, known: Mapping[str, float]) -> None:
    """Draw the shares of settings with a known cost, by name, against it."""
    settings = by_name(grid)
    for (name, cost), (i, column) in product(known.items(), enumerate(columns_of(grid))):
        style = mark(i)
        for share in shares_of(grid, settings[name], column):
            line: Any = {"color": style["color"], "linewidth": 0.8, "alpha": 0.7}
            axes.vlines(cost, *share.interval, **line)
            axes.plot([cost], [share.value], markersize=4.5, alpha=0.8, ls="", **style)
    low, high = min(known.values()), max(known.values())
    if high > _FAR * low:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:  # similar costs are drawn near each other, not at both ends
        axes.set_xlim(0.9 * low, high / 0.9)
        axes.locator_params(axis="x", nbins=4)
    axes.set(xlabel=what, ylim=(-0.03, 1.03))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    tidy(axes)
