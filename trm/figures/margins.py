"""How sure a model is of what it does, over what meets in a cell."""

import numpy as np
from matplotlib.figure import Figure

from canvas.windows import TOKEN, LocalRule
from trm.figures.style import WRONG, new_figure
from trm.proof.program import Program
from trm.proof.prove import Judged
from trm.proof.written import CLASSES

_ACROSS = 3  # panels


def margins_figure(program: Program, rule: LocalRule, judged: Judged, title: str) -> Figure:
    """A panel for each output that depends on two inputs or more: the last two of them.

    Colour: the smallest margin of all windows in which these two meet. White: no page shows it.
    Crosses: a window is wrong. Classes are named as in the program that is written as Python.
    """
    shown = list(rule.heads.shown(judged.numbers))
    pairs: dict[tuple[int, *tuple[str, ...]], list[str]] = {}
    for number, (head, _, _) in enumerate(shown):
        for name in head.says:
            fields = [i for i in program.tables[name].inputs if i != TOKEN and "." in i][-2:]
            if len(fields) == 2:
                pairs.setdefault((number, *fields), []).append(name)
    rows = -(-len(pairs) // _ACROSS)
    figure = new_figure(15, 1.1 + 4.7 * rows, title)
    panels = figure.subplots(rows, min(len(pairs), _ACROSS), squeeze=False)
    least, most = min(0.0, float(judged.margin.min())), float(np.median(judged.margin))
    for ((number, *fields), names), panel in zip(pairs.items(), panels.flat, strict=False):
        _, here, inputs = shown[number]
        sizes = [rule.fields[name.partition(".")[2]] for name in fields]
        smallest = np.full(sizes, np.inf)
        np.minimum.at(smallest, tuple(inputs[name] for name in fields), judged.margin[here])
        smallest[np.isinf(smallest)] = np.nan
        image = panel.imshow(smallest, vmin=least, vmax=most, cmap="viridis", origin="lower")
        wrong = np.argwhere(smallest <= 0)
        panel.scatter(wrong[:, 1], wrong[:, 0], marker="x", s=60, color=WRONG)
        panel.set_title(", ".join(names), fontsize=11)
        for axis, field, size in zip((panel.yaxis, panel.xaxis), fields, sizes, strict=True):
            code = field.partition(".")[2] in rule.codes
            names = [str(n) for n in range(size)] if code else list(CLASSES[:size])
            axis.set_ticks(range(size), names, fontsize=8)
            axis.set_label_text(field.replace("_", " ").replace(".", ": "), fontsize=9)
    for panel in panels.flat[len(pairs) :]:
        panel.set_visible(False)
    bar = figure.colorbar(image, ax=list(panels.flat), shrink=0.7, pad=0.01)
    bar.set_label("smallest margin between the right logit and the next")
    return figure
