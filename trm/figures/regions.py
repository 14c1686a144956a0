"""How models differ from a reference by region: pooled differences with their intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from canvas.picture import GRID, INK, PAPER
from trm.evaluation.grid_schema import REGIONS, SHORTER, UNKNOWN, Contrast
from trm.evaluation.statistics import Share, difference

_MARKS = "osD^vPX*"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito
_ALL = (*REGIONS, SHORTER, UNKNOWN)
_NAMED = 28  # characters of a name in the legend


def by_region(contrasts: Sequence[Contrast]) -> dict[str, tuple[Share, Share]]:
    """The shares of a model and of its reference in each region, over the cells of both."""
    found = {}
    for region in _ALL:
        here = [c for c in contrasts if c.region == region]
        if here:
            mine, theirs = ([getattr(c, name) for c in here] for name in ("mine", "theirs"))
            found[region] = (sum(mine, Share(0, 0)), sum(theirs, Share(0, 0)))
    return found


def draw_by_region(axes: Axes, models: Mapping[str, Sequence[Contrast]]) -> None:
    """A point with its interval for each model and region, regions below one another.

    Args:
        axes: to draw on.
        models: their contrasts with the reference, by name.
    """
    pooled = {name: by_region(contrasts) for name, contrasts in models.items()}
    regions = [r for r in _ALL if any(r in found for found in pooled.values())]
    step = 0.7 / len(pooled)
    for i, (name, found) in enumerate(pooled.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        heights = [regions.index(r) + (i - (len(pooled) - 1) / 2) * step for r in found]
        ends = [difference(*pair) for pair in found.values()]
        values = [100 * (mine.value - theirs.value) for mine, theirs in found.values()]
        axes.hlines(
            heights, *zip(*((100 * a, 100 * b) for a, b in ends), strict=True), color=colour
        )
        mark = _MARKS[i % len(_MARKS)]
        short = name if len(name) <= _NAMED else f"{name[: _NAMED // 2]}…{name[-_NAMED // 2 :]}"
        axes.plot(values, heights, mark, color=colour, markeredgecolor=PAPER, label=short)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(regions)), regions)
    axes.set_ylim(len(regions) - 0.5, -0.5)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title("all cells of a region together, points", fontsize=9, loc="left", color=INK)
    axes.tick_params(labelsize=8.5, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    if len(pooled) > 1:
        style: dict[str, Any] = {"fontsize": 8, "frameon": False, "borderpad": 0}
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0), borderaxespad=2, **style)
