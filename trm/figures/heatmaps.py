"""The digits × digits grid as heat maps: how far each model gets, and where two of them differ.

Colours run from dark to light with the share (viridis), so they stay in order when printed grey;
every cell says its number as well, and no mark depends on colour alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from canvas.choices import check_choice
from trm.evaluation.grid_schema import (
    FIGURES,
    Contrast,
    Model,
    cells_of,
    contrasts,
    reference_of,
    share,
)
from trm.figures.pages import Page, Paint, Scale, signed
from trm.figures.regions import draw_by_region

_SHARES = Scale("viridis", 0, 100, "%")
_HOW_TO_READ = (
    "Below every other model: its share minus this one's, in percentage points. Purple: it gets "
    "more right, orange: fewer.",
    "Small print and bars: the difference's 95\u00a0% interval (Newcombe). Bold, with a dot: the "
    "two models' own intervals do not overlap.",
)


def grid_figure(grid: dict[str, Any], figure_of: str = "solutions") -> Figure:
    """A heat map for each model of a grid, on one shared scale of 0 to 100 %.

    Cells within the training range are outlined, cells that a model cannot be asked are hatched,
    and cells without problems are blank. Where there is room, each cell gives its Wilson 95 %
    interval as well.

    Args:
        grid: what `trm evaluate` measured, as in its ``grid.json``.
        figure_of: which share, a name in `trm.evaluation.grid_schema.FIGURES`.

    Raises:
        ValueError: no such share, or no models.
    """
    check_choice("figure_of", figure_of, FIGURES)
    page = Page(grid, FIGURES[figure_of], lines=1)
    for i, model in enumerate(page.models):
        page.title(i, model)
        page.panel(i, 0, model, _shares(model, figure_of))
    page.bar(_SHARES, 0, page.blocks - 1)
    return page.figure


def comparison_figure(
    grid: dict[str, Any], reference: str | None = None, figure_of: str = "solutions"
) -> Figure:
    """Heat maps of several models and, below each, its difference from a reference model.

    Differences are in percentage points, with their 95 % interval where there is room for it. Cells
    whose Wilson 95 % intervals do not overlap are bold and bear a dot. How to read all this stands
    below the reference, which has no difference from itself.

    Args:
        grid: several models, as `trm.evaluation.report.side_by_side` lays them out.
        reference: a model's name; None is the first.
        figure_of: which share, a name in `trm.evaluation.grid_schema.FIGURES`.

    Raises:
        ValueError: no such share or model, or fewer than two models.
    """
    check_choice("figure_of", figure_of, FIGURES)
    base = reference_of(grid, reference)
    page = Page(grid, FIGURES[figure_of], lines=2)
    seen = [contrasts(m, base, figure_of) if m is not base else [] for m in page.models]
    furthest = max((abs(c.points) for cells in seen for c in cells), default=0.0)
    reach = max(20, 20 * int(np.ceil(furthest / 20)))
    points = Scale("PuOr", -reach, reach, "points")  # orange below the reference, purple above
    for i, model in enumerate(page.models):
        page.title(i, model)
        page.panel(i, 0, model, _shares(model, figure_of))
        if model is not base:
            values = {c.key: c.points for c in seen[i]}
            words = {key: signed(round(value)) for key, value in values.items()}
            small = {c.key: _reach(c) for c in seen[i]}
            marked = frozenset(c.key for c in seen[i] if c.told_apart)
            page.panel(i, 1, model, Paint(points, values, words, small, marked), base)
        else:
            others = {m["name"]: c for m, c in zip(page.models, seen, strict=True) if c}
            axes = page.note(i, 1, "The reference", _HOW_TO_READ, len(others))
            if axes and others:
                draw_by_region(axes, others)
    for block in range(page.blocks):
        page.bar(_SHARES, 2 * block, 2 * block)
        page.bar(points, 2 * block + 1, 2 * block + 1)
    return page.figure


def save_grid(path: str | Path, grid: dict[str, Any], figure_of: str = "solutions") -> None:
    """Write `grid_figure` as a PNG."""
    grid_figure(grid, figure_of).savefig(path, format="png")


def _reach(contrast: Contrast) -> str:
    low, high = (signed(round(end)) for end in contrast.interval)
    return f"{low} to {high}"


def _shares(model: Model, figure_of: str) -> Paint:
    shares = {key: share(cell, figure_of) for key, cell in cells_of(model).items()}
    known = {key: s for key, s in shares.items() if s is not None and s.total}
    return Paint(
        _SHARES,
        {key: 100 * s.value for key, s in known.items()},
        {key: s.percent for key, s in known.items()},
        {key: s.span() for key, s in known.items()},
    )
