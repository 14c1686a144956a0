"""Figures of probes, heads, selectors and ranks."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from canvas import symbols
from canvas.multiplication import Multiplication
from canvas.render import RowSteps
from trm.analysis.patch import HeadEffects
from trm.analysis.probe_report import Gap, ProbeStudy, Reading, SizeResult, Table
from trm.analysis.ranks import Rank
from trm.analysis.rasp import NAMES, Cells
from trm.analysis.rasp_heads import Head, Overlap, Watched
from trm.evaluation.statistics import Share
from trm.figures import analysis

SUBTASKS = Multiplication("lattice").local_rule().fields


def axes_of(figure: Figure) -> list:
    figure.canvas.draw()
    return [axes for axes in figure.axes if axes.get_visible()]


def made_up(heads: bool = True, sizes: int = 5, steps: int = 4) -> ProbeStudy:
    found = []
    for k in range(sizes):
        share = Share(90 - 10 * k, 100)
        readings = [
            Reading(name, "z_H", step, share, share if heads else None, share, share, share)
            for name in SUBTASKS
            for step in range(1, steps + 1)
        ]
        gap = Gap(
            "head" if heads else "probe", list(SUBTASKS), Table(5, k, 1, 1), Table(1, 1, 1, 1)
        )
        region = "in range" if k < 2 else "both beyond"
        size = {"digits_a": k + 1, "digits_b": 2}
        name = f"{k + 1} x 2 digits"
        found.append(SizeResult(size, name, region, readings=readings, gap=gap, problems=4))
    return ProbeStudy({"seed": 0}, SUBTASKS, "z_H", steps, {"cells": 1}, found, {"name": "decimal"})


def test_maps_and_a_panel_for_each_sub_task(assert_apart):
    figure = analysis.probing_figure(made_up())
    axes = axes_of(figure)
    maps = [one for one in axes if one.images]
    assert len(maps) == 2
    assert maps[0].images[0].get_array().shape == (len(SUBTASKS), 5)
    assert set(SUBTASKS) <= {one.get_title(loc="left") for one in axes}
    assert [float(text.get_text()) for text in maps[0].texts[:5]] == [90, 80, 70, 60, 50]
    assert all(one.get_window_extent().height > 50 for one in axes)
    assert_apart(figure)
    study = made_up(heads=False, sizes=1)
    kept = [r for r in study.sizes[0].readings if r.subtask != "carry"]
    figure = analysis.probing_figure(replace(study, sizes=[replace(study.sizes[0], readings=kept)]))
    axes = axes_of(figure)
    assert "carry" not in {one.get_title(loc="left") for one in axes}
    assert len([one for one in axes if one.images]) == 1


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 8, 12)])
def test_every_kind_has_its_table_with_intervals(shape, assert_apart):
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
    shares += [(name, 0.2, False) for name in NAMES if name.startswith("first")]
    overlaps = tuple(Overlap(name, x, x, x, 0.25, 9, 3, used) for name, x, used in shares)
    return [
        Head("state", layer, head, overlaps)
        for layer in range(1, layers + 1)
        for head in range(1, number + 1)
    ]


def test_each_head_stands_beside_its_selector():
    inputs, labels = (
        np.stack([[symbols.encode(row) for row in ("_12_*", last)]]) for last in ("....3", "_3633")
    )
    row = RowSteps(inputs, labels, inputs == symbols.MASK, *np.zeros((2, 1), dtype=np.int64))
    cells = Cells(inputs, 10)
    attention = np.zeros((2, 1, 8, 10, 10))
    attention[..., 7, 8] = 0.9  # the framed cell attends to the one on its right
    selectors = {name: cells.selector(name) for name in NAMES}
    seen = Watched({"state": attention}, selectors, set(), 1, labels)
    figure = analysis.rasp_figure(row, seen, heads(), "why")
    titles = [axes.get_title(loc="left") for axes in axes_of(figure)]
    assert titles.count("\nattention: 0.90 on it") == 16
    assert "layer 2, head 8\nselect right" in titles


def test_the_table_marks_the_program_and_leaves_out_what_no_head_attends_to(assert_apart):
    figure = analysis.overlap_figure(heads(), "a longer title\non two lines")
    (axes,) = axes_of(figure)
    labels = axes.get_xticklabels()
    names = [label.get_text() for label in labels]
    assert names[:2] == ["above *", "right *"]
    assert "itself" not in names
    assert len(names) == 10
    assert [label.get_text() for label in axes.get_yticklabels()][8] == "layer 2, head 1"
    assert len(axes.patches) == 16  # the best selector of each head
    assert {patch.get_x() for patch in axes.patches} == {0.5}
    assert_apart(figure)


def test_a_line_for_each_model_and_each_tensor_of_its_state():
    gpt = [Rank("weights", layer, "up", 8.0, 16) for layer in (1, 2)]
    gpt += [Rank("states", layer, name, 4.0, 16, 9) for layer, name in ((0, "input"), (1, "block"))]
    trm = [Rank("weights", 1, name, 8.0, 16) for name in ("gate", "up")]
    trm += [Rank("states", 0, "input", 2.0, 16, 9)]
    trm += [Rank("states", 1, name, 4.0, 16, 9) for name in ("z_H", "z_L")]
    figure = analysis.ranks_figure({"gpt": gpt, "trm": trm})
    axes = {one.get_title(): one for one in axes_of(figure)}
    assert set(axes) == {"feed-forward up", "feed-forward gate", "states"}
    assert [len(one.lines) for one in axes.values()] == [2, 1, 3]
    assert axes["states"].lines[0].get_xydata().tolist() == [[0, 0.25], [1, 0.25]]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["gpt", "trm, z_H", "trm, z_L"]
