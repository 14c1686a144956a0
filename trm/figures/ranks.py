"""Effective ranks layer by layer: a panel for each feed-forward matrix, and one for the states."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from trm.probing.features import INPUT
from trm.probing.ranks import STATES, WEIGHTS, Rank

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^vDPX"
_LINES = ("-", "--", ":", "-.")  # of the tensors of a state


def ranks_figure(models: Mapping[str, Sequence[Rank]]) -> Figure:
    """The share of the full rank that each layer makes use of, a line for each model.

    Args:
        models: by name, of each its ranks; at least one rank in all.

    Raises:
        ValueError: there is nothing to draw.
    """
    every = [one for ranks in models.values() for one in ranks]
    if not every:
        raise ValueError("no model has a feed-forward or states whose rank could be drawn")
    panels = list(dict.fromkeys(one.name for one in every if one.kind == WEIGHTS))
    states = any(one.kind == STATES for one in every)
    figure = Figure(figsize=(1.4 + 3 * (len(panels) + states), 3.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels) + states, sharey=True, squeeze=False)[0]
    handles = {}
    for number, (model, ranks) in enumerate(models.items()):
        style = {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[number % len(_MARKERS)],
        }
        for axis, name in zip(axes, panels, strict=False):
            line = [one for one in ranks if (one.kind, one.name) == (WEIGHTS, name)]
            handles[model] = _draw(axis, line, style)
        of_states = [one for one in ranks if one.kind == STATES]
        given = [one for one in of_states if one.name == INPUT]
        tensors = list(dict.fromkeys(one.name for one in of_states if one.name != INPUT))
        for linestyle, tensor in zip(_LINES, tensors, strict=False):
            line = given + [one for one in of_states if one.name == tensor]
            handle = _draw(axes[-1], line, style | {"linestyle": linestyle})
            handles[model if len(tensors) == 1 else f"{model}, {tensor}"] = handle
        if len(tensors) > 1:
            handles.pop(model, None)  # its weights are drawn as its first tensor is
    for axis, name in zip(axes, [*panels, STATES][: len(axes)], strict=True):
        axis.set_title(name if name == STATES else f"feed-forward {name}", fontsize=10)
        axis.set_xlabel("layer")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylim(0, 1)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("effective rank / full rank")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return figure


def _draw(axis: Axes, line: Sequence[Rank], style: Mapping[str, Any]) -> Line2D:
    """One line of a panel; its handle for the legend."""
    (handle,) = axis.plot([one.layer for one in line], [one.share for one in line], **style)
    return handle
