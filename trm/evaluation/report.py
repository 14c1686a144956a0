"""The grid in words: summaries for the terminal, reports and comparisons as Markdown.

A grid is the ``grid.json`` of `trm evaluate` as a dict, see `trm.evaluation.grid`. Shares are
pooled over cells by adding up what was right and what was asked, and carry their Wilson 95 %
interval.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
from rich.console import Console
from rich.markdown import Markdown

from canvas.task import describe_ranges
from trm.evaluation.errors import Diagnostics
from trm.evaluation.grid import (
    FAMILY,
    FIGURES,
    INSIDE,
    LABELS,
    NAMES,
    SHOWN,
    Cell,
    Grid,
    Model,
    cells_of,
    contrasts,
    in_order,
    pooled,
    share,
)
from trm.evaluation.names import by_setting
from trm.evaluation.statistics import SEEDS_MEANING, Paired, Share, of_seeds, paired
from trm.markdown import safe, table

_LISTED = 24  # cells that a comparison lists of a region; of more it says how many
_MEANS = {
    "steps": ("supervision steps a row", "{:.1f}"),
    "seconds_per_problem": ("seconds a problem", "{:.3g}"),
    "flops_per_problem": ("operations a problem", "{:.2g}"),
    "confidence": ("mean confidence", "{:.3f}"),
}

Say = Callable[[list[Cell]], dict[str, str]]  # what is said of cells, by its heading


def print_summary(console: Console, grid: Grid) -> None:
    """How each model does within its range and beyond, as tables in the terminal."""
    parts, unlike = [], grid.asked_unlike
    for model in grid.models:
        name = f"**{safe(model['name'])}**"
        parts.append(f"{name}: {safe(unlike[model['name']])}" if unlike else name)
        if grid.axes[0] == FAMILY:
            parts.append(table(*_by_cell(model, grid)))
        lines = [[measure, *words] for measure, words in _lines(grid, model, _summary)]
        parts.append(table(["", *grid.regions], lines))
    if together := _seeds_together(grid):
        meaning, heads, rows = together
        parts.append("**Seeds together**")
        for name, number, *words in rows:
            parts += [f"{safe(name)}, {number} seeds", table(heads[2:], [words])]
        parts.append(safe(meaning))
    console.print(Markdown("\n\n".join([*parts, *map(safe, _notes(grid))])))


def markdown(grid: Grid, *figures: str) -> str:
    """A whole grid as Markdown, with links to its pictures."""
    first, second = (LABELS[axis] for axis in grid.axes)
    versions = ", ".join(f"{name} {version}" for name, version in grid["versions"].items())
    parts = [
        "# How far beyond training",
        f"Evaluated {grid['created']} with {versions}.",
        *_overview(grid, figures),
        f"## {grid.figure_shown.capitalize()} by cell",
        f"Percent right (Wilson 95 % interval). Rows: {first}; columns: {second}; bold: sizes that "
        "the model was trained on.",
    ]
    for model in grid.models:
        parts += [f"### {safe(model['name'])}", table(*_by_cell(model, grid))]
    return "\n\n".join([*parts, *_what_goes_wrong(grid)]) + "\n"


def compare_markdown(grid: Grid, reference: str | None = None, *figures: str) -> str:
    """Several models against a reference model (None: the first), as Markdown.

    ValueError: no such model, or fewer than two.
    """
    base, figure_of = grid.reference(reference), grid.figure_shown
    rows, lists = [], []
    for model in grid.models:
        name, seen = safe(model["name"]), contrasts(model, base, figure_of)
        for where in grid.regions if model is not base else ():
            here = [c for c in seen if c.region == where]
            better = [c for c in here if c.told_apart and c.points > 0]
            worse = [c for c in here if c.told_apart and c.points < 0]
            counts = [len(here), len(better), len(worse), len(here) - len(better) - len(worse)]
            if here:
                rows.append([name, where, *map(str, counts)])
            if apart := better + worse:
                listed = [
                    f"{c.key[0]} × {c.key[1]}: {c.mine.percent} ({c.mine.span()}) against "
                    f"{c.theirs.percent} ({c.theirs.span()})"
                    for c in apart[:_LISTED]
                ]
                if len(apart) > _LISTED:
                    listed.append(f"and {len(apart) - _LISTED} more, see the figure")
                lists.append(f"- {name}, {where}: {'; '.join(listed)}")
    parts = [
        "# Comparison",
        *_overview(grid, figures),
        f"## Against {safe(base['name'])}",
        f"Cells in which {NAMES[figure_of]} are right more or less often than the reference's, the "
        "Wilson 95 % intervals not overlapping. Where two models are equally good and were asked "
        "equally often, chance parts fewer than 1 cell in 100 like this. Ranges are each model's "
        "own.",
        table(["model", "range", "cells", "better", "worse", "not distinguishable"], rows),
        *(["\n".join(lists)] if lists else []),
        *_problem_by_problem(grid, base),
        *_what_goes_wrong(grid),
    ]
    return "\n\n".join(parts) + "\n"


def shared_problems(
    mine: Sequence[Model],
    theirs: Sequence[Model],
    region: str | None = None,
    figure_of: str = "solutions",
) -> Paired | None:
    """Compare two settings, each the models of its seeds, over the cells that all were asked.

    These are the cells of a region as the first model sees it, or of all (None). Returns None
    where there are none, or it is not known which problems were right in ``figure_of``.
    """
    cells, solved = [cells_of(model) for model in (*mine, *theirs)], SHOWN[figure_of]
    found = []  # of each cell the texts of all models
    for key, cell in cells[0].items():
        texts = [some.get(key, {}).get(solved) for some in cells]
        lengths = {len(text) if isinstance(text, str) else None for text in texts}
        if region in (None, cell["region"]) and len(lengths) == 1 and None not in lengths:
            found.append(texts)
    if not any(texts[0] for texts in found):
        return None
    seeds = list(zip(*found, strict=True))
    return paired(seeds[: len(mine)], seeds[len(mine) :])


def _problem_by_problem(grid: Grid, base: Model) -> list[str]:
    """The same problems solved by one setting and not by another; empty where it is not known."""
    settings = by_setting(grid.models)
    name, reference = next((n, held) for n, held in settings.items() if base in held)
    rows = []
    for other, models in settings.items() if not grid.differing_problems else ():
        for where in [*grid.regions, "all"] if other != name else ():
            region = None if where == "all" else where
            found = shared_problems(models, reference, region, grid.figure_shown)
            if found is None:
                continue
            points, low, high = (100 * n for n in (found.difference, *found.interval))
            p = "–" if found.p is None else f"{found.p:.2g}"
            difference = f"{points:+.1f} ({low:+.1f} to {high:+.1f})"
            alone = map(str, found.alone or ("–", "–"))
            rows.append([safe(other), where, f"{found.problems:,}", difference, *alone, p])
    if not rows:
        return []
    heads = ["setting", "range", "problems", "difference", "this alone", "that alone", "p"]
    return [
        f"## Problem by problem, against {safe(name)}",
        "Over all cells that both were asked: the difference in percentage points; how many "
        "problems one alone solves, and the p of McNemar's exact test, where both have one seed. "
        "The interval is then Newcombe's, 95 %; of several seeds it is by a bootstrap over seeds "
        "and problems, and too narrow where they are few, or again Newcombe's where all of them "
        "solved the same problems.",
        table(heads, rows),
    ]


def _overview(grid: Grid, figures: Sequence[str]) -> list[str]:
    """What both reports begin with: pictures, checkpoints, summary, seeds together."""
    heads = ["model", "family", "layout", "parameters", "trained on", "step", "cost", "sha256"]
    rows = []
    for model in grid.models:
        cost = "not known"
        if known := model.get("cost"):
            cost = f"{known['flops'] / 1e12:,.3g} TFLOP, {known['seconds'] / 60:,.3g} min"
        numbers = (model["parameters"], model["step"])
        parameters, step = ("not known" if n is None else f"{n:,}" for n in numbers)
        sizes = describe_ranges(model["ranges"]) if model["ranges"] else "not known"
        who = [safe(model["name"]), model["family"] or "–", model["task"]["layout"] or "–"]
        row = [*who, parameters, sizes, step, cost, f"`{model['sha256'][:12]}`"]
        rows.append([*row, grid.how_asked(model) or "in one view"])
    what = f"{FIGURES[grid.figure_shown]}, by"
    parts = [
        *(f"![{what} {Path(name).stem}]({quote(name)})" for name in figures),
        "## Models",
        table([*heads, "asked"], rows),
        "## Summary",
        "\n".join(f"- {safe(note)}" for note in _notes(grid)),
        _by_region(grid, _summary),
    ]
    if together := _seeds_together(grid):
        meaning, heads, rows = together
        named = table(heads, [[safe(name), *words] for name, *words in rows])
        parts += ["## Seeds together", meaning, named]
    return parts


def _seeds_together(grid: Grid) -> tuple[str, list[str], list[list[str]]] | None:
    """A sentence and a table, heads and rows, of all settings of which there are several seeds."""
    figure_of, regions, rows = grid.figure_shown, grid.regions, []
    for name, models in by_setting(grid.models).items():
        words = []
        for where in regions:
            cells = [[c for c in model["cells"] if c["region"] == where] for model in models]
            words.append(of_seeds([s for some in cells if (s := pooled(some, figure_of)).total]))
        if len(models) > 1:
            rows.append([name, str(len(models)), *words])
    meaning = (
        "Models that are named and made alike but for the seed. "
        f"{NAMES[figure_of].capitalize()} right, in percent: {SEEDS_MEANING}."
    )
    return (meaning, ["setting", "seeds", *regions], rows) if rows else None


def _what_goes_wrong(grid: Grid) -> list[str]:
    """The diagnostics, and how to read them; empty where no row was looked at."""
    if not any(cell["diagnostics"] for model in grid.models for cell in model["cells"]):
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


def _notes(grid: Grid) -> list[str]:
    """What has to be known to read a summary."""
    asked = grid.problems_asked
    notes = [
        f"{asked[0].upper()}{asked[1:]}. Pooled over cells, with Wilson 95 % intervals; solutions "
        "and answers are free-running."
    ]
    if unlike := grid.asked_unlike:
        notes.append("NOT ASKED ALIKE: part of any difference may be due to how models were asked.")
        notes += [f"{name}: {how}." for name, how in unlike.items()]
    elif how := grid.how_asked(grid.models[0]):
        notes.append(f"How every model was asked: {how}.")
    if differing := grid.differing_problems:
        notes.append(f"NOT THE SAME PROBLEMS ({differing}): part of any difference may be theirs.")
    elif len(grid.models) > 1:
        notes.append("All models were asked the same problems.")
    applicable = set()
    for model in grid.models:
        cells = cells_of(model)
        refused = [cell for cell in cells.values() if not cell["applicable"]]
        applicable.add(frozenset(key for key, cell in cells.items() if cell["applicable"]))
        if refused:
            notes.append(
                f"{model['name']}: {len(refused)} of {len(cells)} cells are not applicable and "
                f"left out; the first: {refused[0]['reason']}."
            )
    if len(applicable) > 1:
        notes.append("The models' pooled figures cover different cells: compare cell by cell.")
    return notes


def _by_region(grid: Grid, say: Say) -> str:
    rows = [
        ["" if i else f"**{safe(model['name'])}**", measure, *words]
        for model in grid.models
        for i, (measure, words) in enumerate(_lines(grid, model, say))
    ]
    return table(["model", "", *grid.regions], rows)


def _lines(grid: Grid, model: Model, say: Say) -> list[tuple[str, list[str]]]:
    """What is said of a model's applicable cells: each line with its text for each region."""
    every = [[c for c in model["cells"] if c["region"] == where] for where in grid.regions]
    able = [[cell for cell in cells if cell["applicable"]] for cells in every]
    said = [say(cells) if cells else {} for cells in able]
    other = ["n/a" if a and not b else "–" for a, b in zip(every, able, strict=True)]
    lines = [
        (name, [words.get(name, o) for words, o in zip(said, other, strict=True)])
        for name in say([cell for cell in model["cells"] if cell["applicable"]])
    ]
    if not model["family"]:  # of predictions less is known
        lines = [(name, words) for name, words in lines if set(words) != {"–"}]
    refused = [f"{len(a) - len(b)} of {len(a)}" for a, b in zip(every, able, strict=True)]
    if say is _summary and every != able:
        lines.append(("n/a cells", refused))
    return lines


def _summary(cells: list[Cell]) -> dict[str, str]:
    said = {
        "solutions": pooled(cells, "solutions").short,
        "answers": pooled(cells, "answers").short,
        "teacher-forced rows": pooled(cells, "rows_teacher_forced").short,
    }
    for key, (name, form) in _MEANS.items():  # over problems
        known = [(n, cell["problems"]) for cell in cells if (n := cell.get(key)) is not None]
        total = sum(n for _, n in known)
        said[name] = form.format(sum(value * n for value, n in known) / total) if total else "–"
    return said | {"problems": str(sum(cell["problems"] for cell in cells))}


def _diagnostics(cells: list[Cell]) -> dict[str, str]:
    known = (Diagnostics.from_json(cell["diagnostics"]) for cell in cells if cell["diagnostics"])
    found = sum(known, Diagnostics())
    if not found.rows:
        return {}
    first = [
        way.place + 1
        for way, n in found.wrong.items()
        if way.carry is not None and way.place is not None
        for _ in range(n)
    ]
    low, middle, high = np.percentile(first or [0], (25, 50, 75))
    shares = {f"wrong {kind}s": (found.wrong_rows(kind), n) for kind, n in found.rows.items()}
    shares |= {f"of wrong rows: {f}": (n, found.wrong_rows()) for f, n in found.faults().items()}
    return {
        **{name: Share(*counts).short for name, counts in shares.items()},
        "first wrong digit": f"{middle:g} ({low:g}–{high:g})" if first else "–",
        "a carry enters it": Share(*found.first_wrong_digits[::-1]).short,
        "a carry enters digits up to there": Share(*found.reached[::-1]).short,
    }


def _by_cell(model: Model, grid: Grid) -> tuple[list[str], list[list[str]]]:
    """Heading and rows of a table of all cells; with a column of all digits for families."""
    axes, figure_of, cells = grid.axes, grid.figure_shown, cells_of(model)
    columns = in_order(b for _, b in cells)
    heads, rows = [" \\ ".join(axes).replace("digits_", ""), *map(str, columns)], []
    for a in in_order(a for a, _ in cells):
        row = [str(a)]
        for b in columns:
            cell = cells.get((a, b))
            found = share(cell, figure_of) if cell else None
            text = "n/a" if cell else ""
            if found is not None:
                text = f"{found.percent} ({found.span()})" if found.total else "–"
            bold = cell and found and found.total and cell["region"] == INSIDE
            row.append(f"**{text}**" if bold else text)
        if axes[0] == FAMILY:
            row.append(pooled((c for (of, _), c in cells.items() if of == a), figure_of).short)
        rows.append(row)
    return [*heads, "all"] if axes[0] == FAMILY else heads, rows
