"""The picture of a probing study."""

from dataclasses import replace

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from canvas.hints import hint_classes
from canvas.multiplication import Multiplication
from trm.figures.probing import probing_figure
from trm.probing.results import (
    ROW,
    Count,
    Gap,
    ProbeStudy,
    Reading,
    SizeResult,
    Table,
)

HINTS = hint_classes(Multiplication("standard").rules, 10)


def made_up(heads: bool = True, sizes: int = 5, steps: int = 4) -> ProbeStudy:
    found = []
    for k in range(sizes):
        share = Count.wilson(90 - 10 * k, 100)
        readings = [
            Reading(hint, "z_H", step, ROW, share, share if heads else None, share, share, share)
            for hint in HINTS
            for step in range(1, steps + 1)
        ]
        gap = Gap("head" if heads else "probe", list(HINTS), Table(5, k, 1, 1), Table(1, 1, 1, 1))
        region = "in range" if k < 2 else "both beyond"
        size = {"digits_a": k + 1, "digits_b": 2}
        found.append(
            SizeResult(size, f"{k + 1} x 2 digits", region, readings=readings, gap=gap, problems=4)
        )
    return ProbeStudy({"seed": 0}, HINTS, "z_H", steps, {"cells": 1}, found, {"name": "decimal"})


@pytest.mark.parametrize("heads", [True, False])
def test_maps_bars_and_a_panel_for_each_sub_task(heads):
    figure = probing_figure(made_up(heads))
    axes = [one for part in figure.subfigs for one in part.axes]
    maps = [one for one in axes if one.images]
    assert len(maps) == 1 + heads
    assert maps[0].images[0].get_array().shape == (len(HINTS), 5)
    titles = [one.get_title(loc="left") for one in axes if one.get_visible()]
    assert set(HINTS) <= set(titles)
    words = [text.get_text() for text in maps[0].texts]
    assert words[:5] == ["90.0", "80.0", "70.0", "60.0", "50.0"]


def test_all_sub_tasks_right_is_said_of_no_smaller_share():
    study = made_up()
    first = study.sizes[0]
    nearly = Count.wilson(99_999, 100_000)
    sizes = [replace(first, readings=[replace(r, probe=nearly) for r in first.readings])]
    axes = probing_figure(replace(study, sizes=sizes)).subfigs[0].axes[0]
    assert {text.get_text() for text in axes.texts} == {"99.9"}


@pytest.mark.parametrize(("sizes", "steps"), [(1, 1), (9, 32)])
def test_any_number_of_sizes_and_steps_is_drawn_within_the_page(sizes, steps):
    figure = probing_figure(made_up(sizes=sizes, steps=steps))
    FigureCanvasAgg(figure).draw()
    width = figure.bbox.width
    for part in figure.subfigs:
        for axes in part.axes:
            if not axes.get_visible():
                continue
            box = axes.get_tightbbox()
            assert box is not None
            assert box.x0 >= -1
            assert box.x1 <= width + 1
