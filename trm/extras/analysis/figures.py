"""Figures of analyses: probes, effects of heads, selectors, ranks, margins of proofs."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import TOKEN
from canvas.picture import GREY, PALE
from trm.cells.proof.compare import Comparison
from trm.cells.proof.program import CLASSES, CellProgram
from trm.extras.analysis.features import INPUT
from trm.extras.analysis.gap import GapStudy
from trm.extras.analysis.induction import Induction
from trm.extras.analysis.inspection_figures import effect_colours
from trm.extras.analysis.patch import HeadEffects
from trm.extras.analysis.probe import ProbeStudy
from trm.extras.analysis.ranks import STATES, WEIGHTS, Rank
from trm.extras.analysis.rasp import NAMES
from trm.extras.analysis.rasp_heads import Head
from trm.figures.style import WRONG, colours, draw_table, mark, new_figure, panels, tidy

_ACROSS = 3  # panels in a line: their text is legible across a page of a paper
_MARGIN_SIZE = (2.7, 2.5)  # inches of a panel of margins
_SEEN = 0.1  # least overlap for which a selector gets a column

# Names of L layers; of each head a value, a text, and small print below it, [L, heads] each.
HeadTable = tuple[Sequence[str], np.ndarray, np.ndarray, np.ndarray]


def probing_figure(study: ProbeStudy, name: str) -> Figure:
    """Draw the accuracy of probes, step by step, with a panel for each sub-task.

    A panel has a line for each size. Dotted: the class most frequent in training. The study has
    readings of at least one size.
    """
    across = min(_ACROSS, len(study.subtasks))
    down = -(-len(study.subtasks) // across)
    title = f"{name}: cells correct in rows filled in, %, by {study.unit}"
    figure = new_figure(max(2.8 * across + 0.4, 5), 2.3 * down + 1.2, title)
    every = panels(figure, len(study.subtasks), across, sharex=True, sharey=True)
    lines: dict[str, Any] = {}
    for axes, subtask in zip(every, study.subtasks, strict=True):
        for number, (size, where) in enumerate(study.sizes.items()):
            found = study.of(subtask, size)
            x = range(len(found))  # evenly apart, as the last step may be far away
            shares = [100 * one.probe.value for one in found]
            (lines[f"{size}, {where}"],) = axes.plot(x, shares, **mark(number), ms=4)
            axes.set_xticks(x, [str(one.step or "input") for one in found])
            if not number:
                majority = [100 * one.majority.value for one in found]
                (lines["majority"],) = axes.plot(x, majority, ":", color=GREY)
        axes.set_title(subtask.replace("_", " "), fontsize=9.5, loc="left", pad=3)
        axes.set_ylim(0, 103)
        axes.tick_params(labelsize=8, labelbottom=True)
        tidy(axes)
    handles = list(lines.values()), list(lines)
    figure.legend(*handles, loc="outside lower center", ncols=2, fontsize=8.5, frameon=False)
    return figure


def heads_figure(found: Sequence[HeadEffects], title: str) -> Figure:
    """Draw effects of heads with intervals: layers down and heads across, a table for each kind.

    There is at least one kind of pairs.
    """
    tables: dict[str, HeadTable] = {}
    for one in found:
        mean, low, high = (np.array(part) for part in (one.mean, one.low, one.high))
        texts, *ends = (np.vectorize(signed)(part) for part in (mean, low, high))
        small = np.vectorize("{} to {}".format)(*ends)
        name = f"{one.kind}: {one.meaning} ({len(one.pairs)} pairs)"
        tables[name] = one.sites, mean, texts, small
    note = "mean effect over pairs, below its 95 % interval. 0: the first problem's answer stands; "
    note += "1: the second's, as clearly as in its own run"
    return _draw_heads(tables, effect_colours(), title, note, extend="both", ticks=[-1, 0, 1])


def induction_figure(found: Sequence[Induction], title: str) -> Figure:
    """Draw induction scores: blocks down and heads across, a table for each loop."""
    updates = [*dict.fromkeys(one.update for one in found)]
    blocks, heads = max(one.block for one in found), max(one.head for one in found)
    lines = [f"block {block + 1}" for block in range(blocks)]
    tables: dict[str, HeadTable] = {}
    for update in updates:
        here = [one for one in found if one.update == update]
        score, control = (
            np.array([getattr(one, part) for one in here]).reshape(blocks, heads)
            for part in ("score", "control")
        )
        texts, small = (np.vectorize("{:.2f}".format)(part) for part in (score, control))
        tables[update if len(updates) > 1 else ""] = lines, score, texts, small
    note = "attention on the token after the earlier occurrence; below, without the repetition"
    return _draw_heads(tables, colours("Blues", 0, 1), title, note)


def _draw_heads(
    tables: Mapping[str, HeadTable], scale: ScalarMappable, title: str, note: str, **bar: Any
) -> Figure:
    """Draw tables of one size by their titles, below one another, beside a colour bar."""
    layers, heads = next(iter(tables.values()))[1].shape
    width, height = max(0.82 * heads + 2.2, 8), len(tables) * (0.4 * layers + 0.75) + 1.1
    figure = new_figure(width, height, title, note)
    every, names = panels(figure, len(tables), 1), [f"head {head + 1}" for head in range(heads)]
    for axes, (name, (lines, values, texts, small)) in zip(every, tables.items(), strict=True):
        draw_table(axes, values, texts, lines, names, scale, small=small)
        axes.set_title(name, fontsize=10, weight="bold", loc="left")
    figure.colorbar(scale, ax=every, shrink=min(1, 2 / height), aspect=15, pad=0.01, **bar)
    return figure


def signed(value: float) -> str:
    """Format a number like −0.12; a zero has no minus."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def overlap_figure(heads: Sequence[Head], title: str) -> Figure:
    """Draw a heat map of each head's attention on the cells of each selector, the best one framed.

    Selectors to which no head attends are left out. A star marks those of the program.
    """
    best = {head.best.selector for head in heads}
    shown = [
        one
        for one in heads[0].overlaps
        if one.in_program
        or one.selector in best
        or any(head.of(one.selector).overlap >= _SEEN for head in heads)
    ]
    order = {name: i for i, name in enumerate(NAMES)}
    shown.sort(key=lambda one: (not one.in_program, order.get(one.selector, len(order))))
    names = [one.selector for one in shown]
    values = np.array([[head.of(name).overlap for name in names] for head in heads])
    note = "*: of the layout's program. Framed: the selector that fits best"
    figure = new_figure(2.2 + 0.42 * len(names), 2.4 + 0.3 * len(heads), title, note)
    axes = figure.subplots()
    several = len({head.update for head in heads}) > 1
    texts = np.vectorize(lambda share: f"{share:.2f}"[-3:] if share < 0.995 else "1")(values)
    starred = [f"{one.selector} *" if one.in_program else one.selector for one in shown]
    rows = [head_name(head, several) for head in heads]
    draw_table(axes, values, texts, rows, starred, colours("Blues", 0, 1))
    for i, head in enumerate(heads):
        corner = (names.index(head.best.selector) - 0.5, i - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=WRONG, linewidth=2))
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="left", rotation_mode="anchor")
    return figure


def head_name(head: Head, several: bool) -> str:
    """Return a name like ``layer 1, head 3``; it begins with the tensor if several are updated."""
    name = f"layer {head.layer}, head {head.head}"
    return f"{head.update}, {name}" if several else name


def ranks_figure(models: Mapping[str, Sequence[Rank]]) -> Figure:
    """Draw each layer's share of the full rank, with a line for each model.

    There is a panel for each kind of weights, and for each tensor of the state, input included.
    """
    every = [one for ranks in models.values() for one in ranks if one.name != INPUT]
    shown_in = list(dict.fromkeys((one.kind, one.name) for one in every))
    across = min(_ACROSS, len(shown_in))
    down = -(-len(shown_in) // across)
    figure, lines = new_figure(0.8 + 2.8 * across, 2.7 * down + 0.8), {}
    all_axes = panels(figure, len(shown_in), across, sharey=True)
    for axes, (kind, name) in zip(all_axes, shown_in, strict=True):
        for number, (model, ranks) in enumerate(models.items()):
            shown = [one for one in ranks if one.kind == kind and one.name in (name, INPUT)]
            if any(one.name == name for one in shown):
                at = [one.layer for one in shown], [one.share for one in shown]
                (lines[model],) = axes.plot(*at, **mark(number))
        axes.set_title(f"states: {name}" if kind == STATES else f"feed-forward {name}", fontsize=10)
        axes.set(xlabel="layer", ylim=(0, 1))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        tidy(axes)
    for first in all_axes[::across]:
        first.set_ylabel("effective rank / full rank")
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=2)
    return figure


def spectra_figure(models: Mapping[str, Sequence[Rank]]) -> Figure | None:
    """Draw the singular values of feed-forward weights, as shares of the largest.

    There is a panel for each kind of weights and a colour for each model; later layers are drawn
    paler. None if no model has such weights.
    """
    every = [one for ranks in models.values() for one in ranks if one.kind == WEIGHTS]
    names = list(dict.fromkeys(one.name for one in every))
    if not names:
        return None
    figure, lines = new_figure(0.8 + 2.8 * len(names), 3.5), dict[str, Any]()
    every_axes = panels(figure, len(names), len(names), sharey=True)
    for axes, name in zip(every_axes, names, strict=True):
        for number, (model, ranks) in enumerate(models.items()):
            shown = [one for one in ranks if one.kind == WEIGHTS and one.name == name]
            for one in shown:
                style = {
                    **mark(number),
                    "marker": "",
                    "alpha": 1 - 0.75 * (one.layer - 1) / len(shown),
                }
                place = np.linspace(0, 1, len(one.values))
                (line,) = axes.plot(place, one.values, **style)
                lines.setdefault(model, line)
        axes.set_title(f"feed-forward {name}", fontsize=10)
        axes.set(xlabel="place / full rank", ylim=(0, 1))
        tidy(axes)
    every_axes[0].set_ylabel("singular value / largest")
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=2)
    return figure


def gap_figure(found: Mapping[str, GapStudy]) -> Figure:
    """Draw shares of problems by size, with a panel for each model, by name.

    Lines: all sub-tasks correct, and solved, with intervals. Dotted: each sub-task. At least one
    model and one size.
    """
    title = "Problems with correct sub-tasks, and solved ones, %"
    figure = new_figure(4.0 * len(found) + 2.0, 3.9, title)
    every = panels(figure, len(found), len(found), sharey=True)
    lines: dict[str, Any] = {}
    for axes, (name, study) in zip(every, found.items(), strict=True):
        x = np.arange(len(study.gaps))
        for number, label in enumerate(study.readers):
            shares = [100 * one.subtasks[label].value for one in study.gaps]
            style = mark(2 + number) | {"ls": ":", "ms": 3, "lw": 1}
            aside = 0.03 * (number - (len(study.readers) - 1) / 2)  # equal shares stay visible
            (lines[label],) = axes.plot(x + aside, shares, **style)
        for number, label in enumerate(("all sub-tasks", "solved")):
            both = [one.solved if number else one.together for one in study.gaps]
            values = np.array([100 * one.value for one in both])
            ends = np.array([[100 * end for end in one.interval] for one in both]).T
            reach = np.abs(ends - values)
            at = x + 0.12 * (2 * number - 1)  # side by side
            lines[label] = axes.errorbar(at, values, reach, **mark(number), ms=5, capsize=2)
        axes.set_xticks(x, [one.size for one in study.gaps], rotation=30, ha="right", fontsize=8)
        axes.set_title(name, fontsize=9.5, loc="left", pad=3)
        axes.set(xlim=(-0.5, len(x) - 0.5), ylim=(-3, 103))
        tidy(axes)
    names = [name.replace("_", " ") for name in lines]
    place: dict[str, Any] = {"loc": "outside right center", "fontsize": 8, "frameon": False}
    figure.legend([*lines.values()], names, **place)
    return figure


class Margins(NamedTuple):
    """Smallest margin for each pair of classes of two inputs."""

    outputs: str  # names of the outputs that depend on these inputs
    inputs: tuple[str, str]  # down and across
    classes: tuple[list[str], list[str]]  # names of their classes, D down and A across
    smallest: np.ndarray  # float [D, A]; NaN where no canvas has this pair


def margins_figure(
    program: CellProgram, rule: LocalRule, comparison: Comparison, title: str
) -> Figure | None:
    """Draw smallest margins, with a panel for each output that depends on two inputs or more.

    A panel shows the last two inputs. Classes have their names in the program written as Python.
    Returns None if no output depends on two inputs.
    """
    shown = list(rule.encoding.decode(comparison.numbers))
    pairs: dict[tuple[int, *tuple[str, ...]], list[str]] = {}
    for number, (head, _, _) in enumerate(shown):
        for name in head.outputs:
            signals = [i for i in program.tables[name].inputs if i != TOKEN and "." in i][-2:]
            if len(signals) == 2:
                pairs.setdefault((number, *signals), []).append(name)
    found = []
    for (number, *signals), names in pairs.items():
        _, here, inputs = shown[number]
        own = [signal.partition(".")[2] for signal in signals]
        smallest = np.full([rule.signals[name] for name in own], np.inf)
        np.minimum.at(smallest, tuple(inputs[name] for name in signals), comparison.margin[here])
        smallest[np.isinf(smallest)] = np.nan
        down, across = (
            [str(n) for n in range(size)] if name in rule.codes else list(CLASSES[:size])
            for name, size in zip(own, smallest.shape, strict=True)
        )
        first, second = (signal.replace("_", " ").replace(".", ": ") for signal in signals)
        found.append(Margins(", ".join(names), (first, second), (down, across), smallest))
    return draw_margins(found, float(np.median(comparison.margin)), title) if found else None


def draw_margins(found: Sequence[Margins], most: float, title: str) -> Figure:
    """Draw margins as heat maps, in panels of one size; at least one panel.

    Colour: the smallest margin of all cell inputs with this pair of classes, up to ``most``. Grey:
    no canvas has the pair. Cross: the output is incorrect for an input.
    """
    down = -(-len(found) // _ACROSS)
    across = -(-len(found) // down)  # as even as can be: four are two and two
    width, height = _MARGIN_SIZE
    size = max(width * across + 1.1, 5), height * down + 0.9
    note = "grey: on no canvas; cross: incorrect for an input"
    figure = new_figure(*size, title, note)
    every = panels(figure, len(found), across)
    least = min(0.0, *(float(np.nanmin(one.smallest)) for one in found))
    for one, panel in zip(found, every, strict=True):
        image = panel.imshow(one.smallest, "viridis", vmin=least, vmax=most, origin="lower")
        panel.set(aspect="auto", facecolor=PALE)  # panels of one size, for any number of classes
        wrong = np.argwhere(one.smallest <= 0)
        panel.scatter(wrong[:, 1], wrong[:, 0], marker="x", s=40, color=WRONG)
        lowest = signed(float(np.nanmin(one.smallest)))
        names = one.outputs.replace("_", " ")
        panel.set_title(fill(f"{names}: {lowest} at least", 36), fontsize=9.5, loc="left")
        both = zip((panel.yaxis, panel.xaxis), one.inputs, one.classes, strict=True)
        for axis, name, classes in both:
            axis.set_ticks(range(len(classes)), classes, fontsize=8)
            axis.set_label_text(name, fontsize=9)
    bar = figure.colorbar(image, ax=every, shrink=min(1, 4 / size[1]), pad=0.01)
    bar.set_label("margin of the correct logit over the next", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure
