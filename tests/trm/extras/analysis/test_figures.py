"""Figures of probes, heads, selectors and ranks."""

from itertools import product

import numpy as np
import pytest
from looking import assert_apart, axes_of

from canvas.multiplication import Multiplication
from trm.evaluation.statistics import Share
from trm.extras.analysis import figures as analysis
from trm.extras.analysis.gap import GapStudy, Reader, gap_of
from trm.extras.analysis.patch import HeadEffects
from trm.extras.analysis.probe import ProbeScore, ProbeSettings, ProbeStudy
from trm.extras.analysis.ranks import Rank
from trm.extras.analysis.rasp import NAMES
from trm.extras.analysis.rasp_heads import Head, Overlap

SUBTASKS = Multiplication("lattice").local_rule().signals


def test_a_panel_for_each_sub_task_has_a_line_for_each_size():
    sizes = {"2 x 2 digits": "in range", "4 x 2 digits": "first beyond"}
    readings = [
        ProbeScore(size, name, site, step, Share(90 - 10 * step, 100), Share(5, 10))
        for size in sizes
        for name in SUBTASKS
        for site, step in (("input", 0), ("z_H", 1), ("z_L", 1), ("z_H", 4))
    ]
    study = ProbeStudy(ProbeSettings(), "z_H", {"cells": 1}, sizes, readings)
    figure = analysis.probing_figure(study, "decimal")
    axes = [one for one in axes_of(figure) if one.axison]
    names = [name.replace("_", " ") for name in SUBTASKS]
    assert [one.get_title(loc="left") for one in axes] == names
    assert [list(line.get_ydata()) for line in axes[0].lines] == [
        [90, 80, 50], [50, 50, 50], [90, 80, 50]
    ]  # fmt: skip
    assert [label.get_text() for label in axes[0].get_xticklabels()] == ["input", "1", "4"]
    assert_apart(figure)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 4, 8)])
def test_every_kind_has_its_table_with_intervals(shape):
    kinds, layers, heads = shape
    mean = np.zeros((layers, heads))
    mean[0, -1], mean[-1, 0] = 0.75, -0.001
    ends = [of.tolist() for of in (mean, mean - 0.1, mean + 0.1)]
    sites = [f"loop 3, layer {layer}" for layer in range(layers)]
    found = [
        HeadEffects(f"kind {n}", "another digit", sites, *ends, [("2 x 3", "4 x 3", 1)], 0)
        for n in range(kinds)
    ]
    figure = analysis.heads_figure(found, "why")
    assert_apart(figure)
    tables = [axes for axes in axes_of(figure) if axes.images]
    titles = [axes.get_title(loc="left") for axes in tables]
    assert titles == [f"kind {n}: another digit (1 pairs)" for n in range(kinds)]
    written = [text.get_text() for text in tables[0].texts]
    assert len(written) == 2 * layers * heads
    assert not any("-0.00" in text for text in written)
    if heads > 1:
        assert (written.count("0.75"), written.count("0.65 to 0.85")) == (1, 1)


def heads(layers: int = 2, number: int = 8) -> list[Head]:
    """All attend to the right, or now and then above."""
    shares = [("right", 0.9, True), ("above", 0.1, True), ("itself", 0.05, False)]
    shares += [(name, 0.2, False) for name in NAMES if name.endswith(("left", "column"))]
    overlaps = tuple(Overlap(name, x, x, x, 0.25, used) for name, x, used in shares)
    places = product(range(1, layers + 1), range(1, number + 1))
    return [Head("state", layer, head, overlaps) for layer, head in places]


def test_the_table_marks_selectors_of_the_program():
    figure = analysis.overlap_figure(heads(), "a longer title\non two lines")
    (axes,) = axes_of(figure)
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names[:2] == ["above *", "right *"]
    assert "itself" not in names
    assert len(names) == 7
    assert [label.get_text() for label in axes.get_yticklabels()][8] == "layer 2, head 1"
    assert len(axes.patches) == 16  # the best selector of each head
    assert {patch.get_x() for patch in axes.patches} == {0.5}
    assert_apart(figure)


def test_ranks_have_a_panel_per_kind_and_a_line_per_model():
    gpt = [Rank("weights", layer, "up", 8.0, 16) for layer in (1, 2)]
    gpt += [Rank("states", layer, name, 4.0, 16, 9) for layer, name in ((0, "input"), (1, "block"))]
    trm = [Rank("weights", 1, name, 8.0, 16) for name in ("gate", "up")]
    figure = analysis.ranks_figure({"gpt": gpt, "trm": trm})
    axes = {one.get_title(): one for one in axes_of(figure)}
    assert list(axes) == ["feed-forward up", "states: block", "feed-forward gate"]
    assert [len(one.lines) for one in axes.values()] == [2, 1, 1]
    assert axes["states: block"].lines[0].get_xydata().tolist() == [[0, 0.25], [1, 0.25]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["gpt", "trm"]


def test_singular_values_have_a_curve_for_each_layer():
    gpt = [
        Rank("weights", layer, name, 8.0, 16, None, (1.0, 0.5, 0.25))
        for layer in (1, 2)
        for name in ("up", "down")
    ]
    states = [Rank("states", 1, "block", 4.0, 16, 9, (1.0, 0.0))]
    figure = analysis.spectra_figure({"gpt": gpt + states, "other": gpt[:2]})
    axes = {one.get_title(): one for one in axes_of(figure)}
    assert list(axes) == ["feed-forward up", "feed-forward down"]
    assert [len(one.lines) for one in axes.values()] == [3, 3]
    assert axes["feed-forward up"].lines[1].get_xydata().tolist() == [[0, 1], [0.5, 0.5], [1, 0.25]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["gpt", "other"]
    assert analysis.spectra_figure({"of integers": states}) is None


@pytest.mark.parametrize("panels", [1, 3, 7])  # 1 to 3 rows, full or not
def test_any_number_of_panels_of_margins_fills_the_picture(panels):
    classes = list("-0123456789A"), list("-012")
    smallest = np.arange(48.0).reshape(12, 4) - 1  # of which two are wrong
    smallest[3, 3] = np.nan
    one = analysis.Margins("product, carry", ("own: a", "above: carry"), classes, smallest)
    title = f"open: 2 cell inputs are wrong, and {'many words more. ' * 6}"  # of several lines
    figure = analysis.draw_margins([one] * panels, 20.0, title)
    assert_apart(figure)
    *drawn, _ = (axes for axes in axes_of(figure) if axes.get_visible())
    assert len(drawn) == panels
    boxes = [axes.get_position() for axes in drawn]
    assert len({(round(box.width, 3), round(box.height, 3)) for box in boxes}) == 1
    used = sum(box.width * box.height for box in boxes)
    assert used > 0.4
    width, _ = figure.get_size_inches()
    assert width <= 9.3
    assert boxes[0].width * width > 2  # inches
    assert drawn[0].get_title(loc="left") == "product, carry: −1.00 at least"
    crosses = drawn[0].collections[0].get_offsets()
    assert [tuple(place) for place in crosses] == [(0, 0), (1, 0)]
    labels = [[text.get_text() for text in axis.get_ticklabels()] for axis in
              (drawn[0].yaxis, drawn[0].xaxis)]  # fmt: skip
    assert labels == [*classes]


def test_a_gap_has_a_panel_per_model():
    right = np.arange(20) < 15
    gaps = [
        gap_of(f"{n} x 2 digits", "in range", {"carry": right, "sum": right}, np.arange(20) < n)
        for n in (3, 4, 5)
    ]
    readers = {name: Reader("probe", "block", 2) for name in ("carry", "sum")}
    figure = analysis.gap_figure(
        {"small": GapStudy(readers, gaps), "large": GapStudy(readers, gaps)}
    )
    assert [axes.get_title(loc="left") for axes in axes_of(figure)] == ["small", "large"]
    curves = [[round(y) for y in line.get_ydata()] for line in axes_of(figure)[0].lines]
    assert [75, 75, 75] in curves
    assert [15, 20, 25] in curves
    assert_apart(figure)
