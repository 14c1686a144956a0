"""Several models against one of them, as Markdown: cell by cell, seeds together, pair by pair."""

from collections.abc import Sequence
from typing import Any

from trm.evaluation.grid_schema import (
    NAMES,
    SHOWN,
    Contrast,
    Model,
    cells_of,
    contrasts,
    differing_problems,
    figure_shown,
    reference_of,
    regions_of,
)
from trm.evaluation.report import overview, seeds_together, what_goes_wrong
from trm.evaluation.seeds import by_setting
from trm.evaluation.statistics import Paired, paired
from trm.markdown import safe, table

_LISTED = 24  # cells that a comparison lists of a region; of more it says how many


def compare_markdown(grid: dict[str, Any], reference: str | None = None, figure: str = "") -> str:
    """Several models against a reference model, as Markdown.

    Args:
        grid: models, each with the ``settings`` of its own evaluation where those differ.
        reference: a model's name; None is the first.
        figure: where the picture lies, as a link from the text; empty for none.

    Raises:
        ValueError: no such model, or fewer than two.
    """
    base, figure_of = reference_of(grid, reference), figure_shown(grid)
    rows, lists = [], []
    for model in grid["models"]:
        if model is base:
            continue
        seen = contrasts(model, base, figure_of)
        for where in regions_of(grid):
            if not (here := [c for c in seen if c.region == where]):
                continue
            better = [c for c in here if c.told_apart and c.points > 0]
            worse = [c for c in here if c.told_apart and c.points < 0]
            alike = len(here) - len(better) - len(worse)
            counts = [str(len(cells)) for cells in (here, better, worse)]
            rows.append([safe(model["name"]), where, *counts, str(alike)])
            if better or worse:
                lists.append(f"- {safe(model['name'])}, {where}: {_listed(better + worse)}")
    parts = [
        "# Comparison",
        *overview(grid, figure),
        f"## Against {safe(base['name'])}",
        f"Cells in which {NAMES[figure_of]} are right more or less often than the reference's, the "
        "Wilson 95 % intervals not overlapping. Where two models are equally good and were asked "
        "equally often, chance parts fewer than 1 cell in 100 like this. Ranges are each model's "
        "own.",
        table(["model", "range", "cells", "better", "worse", "not distinguishable"], rows),
        *(["\n".join(lists)] if lists else []),
        *seeds_together(grid),
        *_problem_by_problem(grid, base),
        *what_goes_wrong(grid),
    ]
    return "\n\n".join(parts) + "\n"


def _problem_by_problem(grid: dict[str, Any], base: Model) -> list[str]:
    """The same problems solved by one setting and not by another; empty where it is not known."""
    settings = by_setting(grid["models"])
    name, reference = next((n, held) for n, held in settings.items() if base in held)
    if differing_problems(grid):
        return []
    rows = []
    for other, models in settings.items():
        if other == name:
            continue
        for where in [*regions_of(grid), "all"]:
            region = None if where == "all" else where
            found = shared_problems(models, reference, region, figure_shown(grid))
            if found is None:
                continue
            low, high = (100 * end for end in found.interval)
            points = 100 * (found.mine - found.theirs)
            alone = [found.mine_alone, found.theirs_alone]
            words = ["–" if n is None else str(n) for n in alone]
            p = "–" if found.p is None else f"{found.p:.2g}"
            difference = f"{points:+.1f} ({low:+.1f} to {high:+.1f})"
            rows.append([safe(other), where, f"{found.problems:,}", difference, *words, p])
    if not rows:
        return []
    return [
        f"## Problem by problem, against {safe(name)}",
        "Over all cells that both were asked: the difference in percentage points; how many "
        "problems one alone solves, and the p of McNemar's exact test, where both have one seed. "
        "The interval is then Newcombe's, 95 %; of several seeds it is by a bootstrap over seeds "
        "and problems, and too narrow where they are few, or again Newcombe's where all of them "
        "solved the same problems.",
        table(
            ["setting", "range", "problems", "difference", "this alone", "that alone", "p"], rows
        ),
    ]


def shared_problems(
    mine: Sequence[Model],
    theirs: Sequence[Model],
    region: str | None = None,
    figure_of: str = "solutions",
) -> Paired | None:
    """Compare two settings over the cells that all of their seeds were asked.

    Args:
        mine, theirs: models of a grid, which differ in the seed alone.
        region: of the cells, as seen from the first model's range; None: all of them.
        figure_of: what has to be right, a name in `SHOWN`.

    Returns:
        None where there are none, or it is not known which problems were solved.
    """
    cells = [cells_of(model) for model in (*mine, *theirs)]
    solved = SHOWN[figure_of]
    keys = [
        key
        for key, cell in cells[0].items()
        if region in (None, cell["region"])
        and all(isinstance(some.get(key, {}).get(solved), str) for some in cells)
        and len({len(some[key][solved]) for some in cells}) == 1
    ]
    if not any(cells[0][key][solved] for key in keys):
        return None
    found = [[some[key][solved] for key in keys] for some in cells]
    return paired(found[: len(mine)], found[len(mine) :])


def _listed(found: list[Contrast]) -> str:
    words = [
        f"{c.key[0]} × {c.key[1]}: {c.mine.percent} ({c.mine.span()}) against "
        f"{c.theirs.percent} ({c.theirs.span()})"
        for c in found[:_LISTED]
    ]
    more = len(found) - _LISTED
    return "; ".join(words) + (f"; and {more} more, see the figure" if more > 0 else "")
