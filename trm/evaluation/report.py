"""The grid in words: summaries for the terminal and as Markdown.

A grid is the ``grid.json`` of `trm evaluate` as a dict, see `trm.evaluation.grid_schema`. Shares
are pooled over cells by adding up what was right and what was asked, and carry their Wilson 95 %
interval.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from urllib.parse import quote

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from canvas.task import describe_ranges
from trm.evaluation.diagnostics import FAULTS, Diagnostics
from trm.evaluation.grid_schema import (
    FAMILY,
    FIGURES,
    INSIDE,
    LABELS,
    Cell,
    Model,
    axes_of,
    cells_of,
    described,
    differing_problems,
    figure_shown,
    in_order,
    pooled,
    regions_of,
    share,
)
from trm.evaluation.seeds import meaning, together
from trm.evaluation.statistics import Share
from trm.markdown import safe, table
from trm.precision import FLOAT32

Lines = list[tuple[str, list[str]]]  # what a line is about, and its text for each region

_MEASURES = {
    "solutions": "solutions",
    "answers": "answers",
    "rows_teacher_forced": "teacher-forced rows",
}
_MEANS = {
    "steps": ("supervision steps a row", "{:.1f}"),
    "seconds_per_problem": ("seconds a problem", "{:.3g}"),
    "flops_per_problem": ("operations a problem", "{:.2g}"),
    "confidence": ("mean confidence", "{:.3f}"),
}


def print_summary(console: Console, grid: dict[str, Any]) -> None:
    """How each model does within its range and beyond, as a table in the terminal."""
    if axes_of(grid)[0] == FAMILY:
        for model in grid["models"]:
            families = Table(title=model["name"], title_justify="left", pad_edge=False)
            heads, rows = _cell_rows(model, axes_of(grid), figure_shown(grid))
            for heading in heads:
                families.add_column(heading)
            for row in rows:
                families.add_row(*(word.replace("*", "").replace(" (", "\n(") for word in row))
            console.print(families)
    table = Table(pad_edge=False)
    for heading in ("", *regions_of(grid)):
        table.add_column(heading, overflow="fold")  # a figure is never cut short
    for model in grid["models"]:
        table.add_row(Text(model["name"], style="bold", overflow="fold"))
        for measure, words in _summary(grid, model):
            table.add_row(measure, *(Text(word.replace(" (", "\n(")) for word in words))
        table.add_section()
    console.print(table)
    if seeds := _seeds_table(grid):
        console.print(seeds, Text(meaning(grid)), sep="\n")
    for note in _notes(grid):
        console.print(Text(note))


def _seeds_table(grid: dict[str, Any]) -> Table | None:
    """Several seeds of each setting together, for the terminal; None where there are none."""
    heads, rows = together(grid)
    if not rows:
        return None
    table = Table(title="Seeds together", title_justify="left", pad_edge=False)
    table.add_column(overflow="fold")
    for heading in heads[2:]:
        table.add_column(heading, min_width=len("[10.0–100.0]"))  # a figure is never cut short
    for name, seeds, *words in rows:
        narrow = (re.sub(r" (?=[\[(])", "\n", word) for word in words)
        table.add_row(Text(name, style="bold").append(f"\n{seeds} seeds"), *map(Text, narrow))
    return table


def markdown(grid: dict[str, Any], figure: str = "") -> str:
    """A whole grid as Markdown.

    Args:
        grid: as `trm evaluate` writes it.
        figure: where its picture lies, as a link from the text; empty for none.
    """
    axes = axes_of(grid)
    versions = ", ".join(f"{name} {version}" for name, version in grid["versions"].items())
    parts = [
        "# How far beyond training",
        f"Evaluated {grid['created']} with {versions}.",
        *overview(grid, figure),
        *seeds_together(grid),
        f"## {figure_shown(grid).capitalize()} by cell",
        f"Percent right (Wilson 95 % interval). Rows: {LABELS[axes[0]]}; columns: "
        f"{LABELS[axes[1]]}; bold: sizes that the model was trained on.",
    ]
    for model in grid["models"]:
        parts += [f"### {safe(model['name'])}", _cell_table(model, axes, figure_shown(grid))]
    parts += [
        *what_goes_wrong(grid),
    ]
    return "\n\n".join(parts) + "\n"


def overview(grid: dict[str, Any], figure: str) -> list[str]:
    """What both reports begin with: picture, checkpoints, summary."""
    heads = ["model", "family", "layout", "parameters", "trained on", "step", "cost", "sha256"]
    rows = []
    for model in grid["models"]:
        task = model["task"]
        sizes = describe_ranges(model["ranges"]) if model["ranges"] else "not known"
        who = [safe(model["name"]), model["family"] or "–", task["layout"] or "–"]
        who.append(_number(model["parameters"]))
        done = [_number(model["step"]), _cost(model.get("cost"))]
        rows.append([*who, sizes, *done, f"`{model['sha256'][:12]}`"])
    return [
        *([f"![{FIGURES[figure_shown(grid)]}, by cell]({quote(figure)})"] if figure else []),
        "## Models",
        table(heads, rows),
        "## Summary",
        "\n".join(f"- {safe(note)}" for note in _notes(grid)),
        _by_region(grid, _summary),
    ]


def seeds_together(grid: dict[str, Any]) -> list[str]:
    """What several seeds of a setting come to, as Markdown; empty where there are none."""
    heads, rows = together(grid)
    if not rows:
        return []
    return [
        "## Seeds together",
        meaning(grid),
        table(heads, [[safe(name), *words] for name, *words in rows]),
    ]


def _number(known: int | None) -> str:
    return "not known" if known is None else f"{known:,}"


def _cost(cost: dict[str, float] | None) -> str:
    """What training has taken, in words."""
    if not cost:
        return "not known"
    return f"{cost['flops'] / 1e12:,.3g} TFLOP, {cost['seconds'] / 60:,.3g} min"


def what_goes_wrong(grid: dict[str, Any]) -> list[str]:
    """The diagnostics, and how to read them; empty where no row was looked at."""
    if not any(cell["diagnostics"] for model in grid["models"] for cell in model["cells"]):
        return []
    return [
        "## What goes wrong",
        "Each row filled from the true rows before it. A wrong row is empty; or misplaced (the "
        "right digits in the wrong columns); or misaligned (other digits, their right end in the "
        "wrong column); or its right end is in place and a digit is wrong; or only its length is. "
        "Of the last two, the first wrong digit is counted from the right, the lowest being 1: "
        "median (quartiles). Errors sit on carries if a carry enters it more often than digits up "
        "to there, which errors could have met first.",
        _by_region(grid, _diagnostics),
    ]


def _notes(grid: dict[str, Any]) -> list[str]:
    """What has to be known to read a summary."""
    differing = differing_problems(grid)
    notes = [
        f"{described(grid)[0].upper()}{described(grid)[1:]}. Pooled over cells, with Wilson 95 % "
        "intervals; solutions and answers are free-running."
    ]
    if (view := grid["settings"].get("view", "e")) != "e":
        notes.append(f"Every page was shown to the models in the view {view} alone.")
    if (precision := grid["settings"].get("precision", FLOAT32)) != FLOAT32:
        notes.append(f"Computed in {precision}.")
    if len(grid["models"]) > 1:
        same = "All models were asked the same problems."
        other = f"NOT THE SAME PROBLEMS ({differing}): part of any difference may be theirs."
        notes.append(other if differing else same)
    for model in grid["models"]:
        refused = [cell for cell in model["cells"] if not cell["applicable"]]
        if refused:
            notes.append(
                f"{model['name']}: {len(refused)} of {len(model['cells'])} cells are not "
                f"applicable and left out; the first: {refused[0]['reason']}."
            )
    if len({frozenset(k for k, c in cells_of(m).items() if c["applicable"])
            for m in grid["models"]}) > 1:  # fmt: skip
        notes.append("The models' pooled figures cover different cells: compare cell by cell.")
    return notes


def _summary(grid: dict[str, Any], model: Model) -> Lines:
    parts = _parts(grid, model)
    lines = [
        _line(name, parts, partial(_share, figure_of=figure)) for figure, name in _MEASURES.items()
    ]
    lines += [
        _line(name, parts, partial(_mean, key=key, form=form))
        for key, (name, form) in _MEANS.items()
    ]
    lines.append(_line("problems", parts, lambda cells: str(sum(c["problems"] for c in cells))))
    refused = [sum(not cell["applicable"] for cell in cells) for cells in parts]
    if model["family"] is None:  # of predictions: nothing is known of how they were made
        lines = [line for line in lines if set(line[1]) != {"–"}]
    if any(refused):
        pairs = zip(refused, parts, strict=True)
        lines.append(("n/a cells", [f"{n} of {len(cells)}" for n, cells in pairs]))
    return lines


def _diagnostics(grid: dict[str, Any], model: Model) -> Lines:
    parts, cells = _parts(grid, model), model["cells"]
    if not any(cell["diagnostics"] for cell in cells):
        return []

    def line(name: str, say: Callable[[Diagnostics], str]) -> tuple[str, list[str]]:
        return _line(name, parts, lambda cells: say(_diagnosed(cells)))

    def wrong(found: Diagnostics, kind: str) -> str:
        return Share(found.wrong_rows(kind), found.rows.get(kind, 0)).short

    def fault_of(found: Diagnostics, fault: str) -> str:
        return Share(found.faults()[fault], found.wrong_rows()).short

    return [
        *(line(f"wrong {kind}s", partial(wrong, kind=kind)) for kind in _diagnosed(cells).rows),
        *(line(f"of wrong rows: {fault}", partial(fault_of, fault=fault)) for fault in FAULTS),
        line("first wrong digit", _first_wrong),
        line("a carry enters it", lambda d: Share(*d.first_wrong_digits[::-1]).short),
        line("a carry enters digits up to there", _carried),
    ]


def _diagnosed(cells: Iterable[Cell]) -> Diagnostics:
    found = (Diagnostics.from_json(cell["diagnostics"]) for cell in cells if cell["diagnostics"])
    return sum(found, Diagnostics())


def _carried(found: Diagnostics) -> str:
    """What to compare the line above with: errors sit on carries if more of them get one."""
    return Share(found.reached_with_carry, found.reached).short


def _first_wrong(found: Diagnostics) -> str:
    ways = [
        (way.place, n)
        for way, n in found.wrong.items()
        if way.place is not None and way.carry is not None
    ]
    if not ways:
        return "–"
    places = np.repeat([place + 1 for place, _ in ways], [n for _, n in ways])
    low, middle, high = np.percentile(places, (25, 50, 75))
    return f"{middle:g} ({low:g}–{high:g})"


def _parts(grid: dict[str, Any], model: Model) -> list[list[Cell]]:
    """A model's cells by the regions that the grid's tables have columns for."""
    return [
        [cell for cell in model["cells"] if cell["region"] == where] for where in regions_of(grid)
    ]


def _line(
    name: str, parts: list[list[Cell]], say: Callable[[list[Cell]], str]
) -> tuple[str, list[str]]:
    """What ``say`` makes of the applicable cells of each part."""
    words = []
    for cells in parts:
        applicable = [cell for cell in cells if cell["applicable"]]
        words.append(say(applicable) if applicable else "n/a" if cells else "–")
    return name, words


def _share(cells: list[Cell], figure_of: str) -> str:
    return pooled(cells, figure_of).short


def _mean(cells: list[Cell], key: str, form: str) -> str:
    """The mean over problems."""
    known = [(n, cell["problems"]) for cell in cells if (n := cell.get(key)) is not None]
    total = sum(n for _, n in known)
    return form.format(sum(value * n for value, n in known) / total) if total else "–"


def _by_region(grid: dict[str, Any], lines: Callable[[dict[str, Any], Model], Lines]) -> str:
    rows = [
        ["" if i else f"**{safe(model['name'])}**", measure, *words]
        for model in grid["models"]
        for i, (measure, words) in enumerate(lines(grid, model))
    ]
    return table(["model", "", *regions_of(grid)], rows)


def _cell_table(model: Model, axes: tuple[str, str], figure_of: str) -> str:
    return table(*_cell_rows(model, axes, figure_of))


def _cell_rows(
    model: Model, axes: tuple[str, str], figure_of: str
) -> tuple[list[str], list[list[str]]]:
    """Heading and rows of a table of all cells; with a column of all digits for families."""
    cells = cells_of(model)
    columns = in_order(b for _, b in cells)

    def word(cell: Cell | None) -> str:
        if cell is None:
            return ""
        found = share(cell, figure_of)
        if found is None:
            return "n/a"
        if not found.total:
            return "–"
        text = f"{found.percent} ({found.span()})"
        return f"**{text}**" if cell["region"] == INSIDE else text

    rows = [
        [str(a), *(word(cells.get((a, b))) for b in columns)] for a in in_order(a for a, _ in cells)
    ]
    heads = [" \\ ".join(axes).replace("digits_", ""), *map(str, columns)]
    if axes[0] == FAMILY:
        heads.append("all")
        for row in rows:
            family = [cell for (a, _), cell in cells.items() if str(a) == row[0]]
            row.append(pooled(family, figure_of).short)
    return heads, rows
