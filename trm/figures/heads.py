"""Heat maps of what heads bring to the answer, one for each kind of pairs."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from canvas.picture import HIGHLIGHT, INK, PAPER
from trm.figures.sheet import Sheet
from trm.probing.heads import HeadEffects

_CELL = (78, 38)  # pixels of a head, across and down
_EDGE, _TITLE, _NOTE, _KIND, _HEADS, _GAP, _BAR = 16, 30, 26, 26, 20, 18, 90
_LETTER, _LEAST = 8, 860  # pixels that a letter of a layer's name takes, and the notes
_COLOURS = matplotlib.colormaps["RdBu_r"]  # red and blue, never green: readable by everyone
_SCALE = Normalize(-1, 1)
_GREY = "#595959"
_HOW_TO_READ = (
    "mean effect over pairs, small: its 95 % interval. 0: the first problem's answer stands; "
    "1: the second's, as clearly as in its own run"
)


def heads_figure(found: Sequence[HeadEffects], title: str) -> Figure:
    """Layers down and heads across, for each kind of pairs.

    Args:
        found: of one model, at least one kind.
        title: of the figure.
    """
    layers, heads = np.shape(found[0].mean)
    wide, high = _CELL[0] * heads, _CELL[1] * layers
    left = _EDGE + _LETTER * max(map(len, found[0].sites)) + _GAP
    block = _KIND + _HEADS + high + _GAP
    top = _EDGE + _TITLE + _NOTE
    sheet = Sheet(max(left + wide + _BAR, _LEAST + 2 * _EDGE), top + block * len(found) + _EDGE)
    sheet.write(_EDGE, _EDGE + 8, title, fontsize=11.5, weight="bold")
    sheet.write(_EDGE, _EDGE + _TITLE + 2, _HOW_TO_READ, fontsize=9, color=_GREY)
    for number, one in enumerate(found):
        y = top + block * number
        name = f"{one.kind}: {one.meaning} ({len(one.pairs)} pairs)"
        sheet.write(_EDGE, y + _KIND / 2, name, fontsize=10, weight="bold", color=HIGHLIGHT)
        axes = sheet.axes(left, y + _KIND + _HEADS, wide, high)
        mean = np.array(one.mean)
        axes.imshow(mean, cmap=_COLOURS, norm=_SCALE, aspect="auto", interpolation="none")
        for (i, j), effect in np.ndenumerate(mean):
            ink = PAPER if abs(effect) > 0.6 else INK
            ends = f"{one.low[i][j]:.2f} to {one.high[i][j]:.2f}"
            for text, above, size in ((f"{effect:.2f}", -0.16, 9), (ends, 0.24, 6.5)):
                shown = text.replace("-0.00", "0.00")
                axes.text(j, i + above, shown, ha="center", va="center", fontsize=size, color=ink)
        axes.set_xticks(range(heads), [f"head {head + 1}" for head in range(heads)], fontsize=7.5)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.set_yticks([])
        for layer, site in enumerate(one.sites):
            middle = y + _KIND + _HEADS + (layer + 0.5) * _CELL[1]
            sheet.write(left - 8, middle, site, fontsize=9, ha="right")
    bar = sheet.axes(left + wide + _GAP, top + _KIND + _HEADS, 12, min(200, max(high, 70)))
    sheet.figure.colorbar(
        ScalarMappable(_SCALE, _COLOURS), cax=bar, extend="both", ticks=[-1, 0, 1]
    )
    bar.tick_params(labelsize=8)
    return sheet.figure
