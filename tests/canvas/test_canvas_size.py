"""Sizes of canvases; blank rows and columns take nothing out of worked solutions."""

from dataclasses import replace

import numpy as np
from drawings import drawn

from canvas import symbols
from canvas.addition import Addition
from canvas.canvas_size import Canvas, Insertion
from canvas.drawing import WorkedDrawing
from canvas.multiplication import Multiplication
from canvas.problems import random_words


def inserted(drawing: WorkedDrawing, rows: int, columns: int, seed: int = 0) -> Insertion:
    key = np.arange(len(drawing), dtype=np.uint64) + np.uint64(1000 * seed)
    return Insertion.random(drawing, (rows, columns), random_words(key, rows + columns))


def test_inserted_blank_lines_change_no_cell_and_rows_are_found():
    drawing = drawn("standard", [(1234, 567), (98, 76), (5, 5)], 9, 11, top=1, left=2)
    found = inserted(drawing, 2, 3)
    moved = found(drawing.truth, symbols.BLANK)
    assert moved.shape == (3, 11, 14)
    for i in range(3):
        kept = moved[i][found.rows[i] >= 0][:, found.columns[i] >= 0]
        assert (kept == drawing.truth[i]).all()
        assert (moved[i][found.rows[i] < 0] == symbols.BLANK).all()
        assert (moved[i][:, found.columns[i] < 0] == symbols.BLANK).all()
        assert (found.rows[i] < 0).sum() == 2
        assert (found.columns[i] < 0).sum() == 3
    drawing = drawn("standard", [(1234, 567)] * 20, 9, 11, top=1, left=2)
    found = inserted(drawing, 3, 0)
    row = drawing.canvas_row(1)
    moved = found(drawing.truth, symbols.BLANK)
    index = np.arange(20)
    assert (moved[index, found.row(row)] == drawing.truth[index, row]).all()
    assert len(set(found.row(row))) > 1


def test_blank_lines_go_between_digits_and_rows_or_at_the_edge():
    drawing = drawn("standard", [(1234, 567)] * 500, 9, 11, top=1, left=2)
    found = inserted(drawing, 1, 1)
    given = np.flatnonzero(drawing.given[0].any(axis=0))
    assert set((found.columns < 0).argmax(axis=1)) == set(range(given[0] + 1, given[-1] + 1))
    rows = range(drawing.top[0] + 1, drawing.top[0] + drawing.heights[0])
    assert set((found.rows < 0).argmax(axis=1)) == set(rows)
    drawing = drawn("lattice", [(5, 5)], 4, 6)
    alone = np.zeros_like(drawing.given)
    alone[0, 0, 3] = True  # one given cell
    found = inserted(replace(drawing, given=alone), 0, 2)
    assert found.columns.tolist() == [[-1, -1, 0, 1, 2, 3, 4, 5]]


def test_a_cut_canvas_fits_its_longest_problem_and_a_margin():
    Canvas(6, 5).check(Addition("column_carries", digits=(1, 3), addends=(2, 4)))
    canvas = Canvas(margin=2)
    canvas.check(Multiplication())
    assert canvas.cut
    assert canvas.size(5, 7) == (6, 8)
    assert canvas.size(5, 7, (0, 2)) == (5, 9)
    assert Canvas(margin=2, square=True).size(5, 7) == (8, 8)
    assert Canvas(9, 9).size(5, 7) == (9, 9)
    assert not Canvas(9, 9).cut
