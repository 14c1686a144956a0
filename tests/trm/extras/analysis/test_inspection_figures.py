"""Figures of one problem: what they show, and that nothing overlaps or is cut off."""

from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from drawings import drawn
from looking import assert_apart, axes_of
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from canvas.cells.drawn import draw_signals
from canvas.drawing import UNDEFINED, row_steps
from canvas.multiplication import Multiplication
from canvas.picture import WRONG_INK
from canvas.symbols import encode
from trm.extras.analysis import inspection_figures as inspection
from trm.extras.analysis.lens import Lens
from trm.extras.analysis.patch import Patching

A = np.stack([encode(line) for line in ("_12", "*_3", "_36")])
B = np.stack([encode(line) for line in ("_13", "*_3", "_39")])


def titles_of(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in axes_of(figure)]


@pytest.mark.parametrize(("problem", "heads"), [((978, 65), 3), ((12345678, 87654321), 8)])
def test_every_attention_head_has_a_map(problem, heads):
    canvas = row_steps(drawn("lattice", [problem], top=1, left=1)).inputs[-1]
    attention = np.zeros((1, heads, canvas.size, canvas.size))
    attention[..., canvas.shape[1] + 3] = 1
    figure = inspection.attention_figure(canvas, (2, 3), {"z_H": attention}, "why")
    names = [f"z_H, layer 1, head {i + 1}" for i in range(heads)]
    assert_apart(figure)
    assert [title for title in titles_of(figure) if title] == names
    (frame,) = axes_of(figure)[0].patches
    x, y = frame.get_x() + frame.get_width() / 2, frame.get_y() + frame.get_height() / 2
    assert (x, y) == (3, 1)  # the blank row above is left out


@pytest.mark.parametrize(("lines", "operands"), [(72, (123, 45)), (6, (10**30, 3))])
def test_lens_lines_have_names_and_incorrect_symbols_frames(lines, operands):
    steps = row_steps(drawn("lattice", [operands], top=1, left=1))
    canvas, truth, answer = steps.inputs[0], steps.labels[0], steps.answer[0]
    (row, *_), columns = np.nonzero(answer)
    symbols = truth[row, columns].astype(int)
    log_probs = np.full((lines, len(columns), 20), -9.0, dtype=np.float32)
    log_probs[:, np.arange(len(columns)), symbols] = np.log(0.9)
    log_probs[0, 1, symbols[1] + 1] = 0
    names = [f"step 100, cycle 12, z_H, layer {i + 1}" for i in range(lines)]
    figure = inspection.lens_figure(Lens(names, int(row), columns, log_probs), canvas, truth, "why")
    assert_apart(figure)
    below = axes_of(figure)[1]
    framed = [
        [path.get_extents().get_points().mean(axis=0).tolist() for path in drawn.get_paths()]
        for drawn in below.collections
        if WRONG_INK.lower() in {to_hex(colour) for colour in drawn.get_edgecolors()}
    ]
    assert framed == [[pytest.approx([columns[1], 0])]]
    texts = {text.get_text(): text.get_window_extent() for text in below.texts}
    assert {"true", *names} <= set(texts)
    for above, under in pairwise(texts[name] for name in names):
        assert above.y0 >= under.y1 - 2  # no name runs into the next


@pytest.mark.parametrize(("a", "b"), [(14, 5), (3**5, 3**4)])
def test_signals_have_a_line_each_beside_their_true_values(a, b):
    task = Multiplication("standard", base=3)
    drawing = drawn("standard", [(a, b)], top=1, left=1, base=3)
    steps = row_steps(drawing)
    row = int(drawing.canvas_row(drawing.num_rows - 1)[0])
    maps = draw_signals(task.local_rule(), drawing, drawing.num_rows - 1)
    signals = {name: (held[0].copy(), held[0]) for name, held in maps.items()}
    signals["sum"][0][row, 3] += 1
    figure = inspection.signals_figure(steps.inputs[-1], row, signals, "112 x 12")
    assert_apart(figure)
    titles = titles_of(figure)
    assert {f"{name.replace('_', ' ')}: true" for name in signals} <= set(titles)
    counted = int((signals["carry"][1] != UNDEFINED).sum())
    assert titles.count(f"decided: {counted} of {counted} correct") == len(signals) - 1
    framed = [
        axes.get_title(loc="left")
        for axes in axes_of(figure)
        for drawn in axes.collections
        if WRONG_INK.lower() in {to_hex(colour) for colour in drawn.get_edgecolors()}
    ]
    assert framed == [f"decided: {counted - 1} of {counted} correct"]


@pytest.mark.parametrize(("sites", "width"), [(1, 3), (12, 8), (3, 40)])
def test_every_site_has_a_map_with_framed_differences(sites, width):
    canvases = np.pad(np.stack([A, B]), ((0, 0), (0, 0), (width - 3, 0)), constant_values=11)
    scored = np.zeros(canvases.shape[1:], dtype=bool)
    scored[2, -1] = True
    effects = np.zeros((sites, 3, width), dtype=np.float32)
    effects[0, -1], effects[:, 1, -1] = 0.75, np.nan
    names = [f"layer {i + 1}" for i in range(sites)]
    found = Patching(names, effects, canvases, scored, (-1.0, 1.0), (True, True))
    figure = inspection.patching_figure(found, ("12 × 3", "13 × 3"), "why")
    assert_apart(figure)
    maps = [axes for axes in axes_of(figure) if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in maps] == ["A: 12 × 3", "B: 13 × 3", *names]
    for axes in maps:
        colours = {round(f.get_y() + 0.44): to_hex(f.get_edgecolor()) for f in axes.patches}
        assert colours == {0: "#e69f00", 2: "#1a1a1a"}  # black in the row of the answer


def test_a_filled_canvas_is_coloured_by_its_deciding_steps():
    canvas = np.stack([encode(row) for row in ("____", "_12*", "_35_", "____")])
    truth = np.stack([encode(row) for row in ("____", "_12*", "_36_", "____")])
    decided = np.zeros((4, 4), np.int64)
    decided[2] = 1, 4, 2, 0
    figure = inspection.settled_figure(canvas, truth, decided, "12 × 3: settled", "step")
    assert_apart(figure)
    axes, bar = figure.axes
    assert bar.get_ylabel() == "step"
    assert [round(tick) for tick in bar.get_yticks()] == [1, 2, 3, 4]
    fills = axes.collections[0].get_facecolors()[:, :3].round(3)
    assert len(fills) == 2 * 4  # blank rows are left out
    viridis = matplotlib.colormaps["viridis"]
    for place, share in ((4, 0.0), (5, 1.0), (6, 1 / 3)):
        assert fills[place] == pytest.approx(viridis(share)[:3], abs=0.01)
    assert len({tuple(fill) for fill in fills[[0, 1, 2, 3, 7]]}) == 1, "what is given is grey"
