import numpy as np

from canvas.hints import UNDEFINED, draw_hints
from canvas.multiplication import Multiplication
from canvas.picture import WRONG, WRONG_INK, pixels
from canvas.problems import Problems
from canvas.render import draw_worked, row_steps
from trm.figures.hint_maps import _map, class_sign, hints_figure

TASK = Multiplication("standard", base=3)


def last_row(a: int, b: int, size: tuple[int, int]):
    problems = Problems.from_ints([(a, b)], 3)
    drawing = draw_worked(TASK.rules.work(problems), *size)
    steps = row_steps(drawing)
    truth = draw_hints(TASK.rules, problems, drawing, drawing.steps - 1)
    row = int(drawing.row_of_step(drawing.steps - 1)[0])
    return steps.inputs[-1], row, {name: classes[0] for name, classes in truth.items()}


def colour(text: str) -> list[int]:
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]


def test_a_sign_is_the_quantity_or_the_kind_of_row():
    assert [class_sign("carry", n) for n in (0, 1, 3, UNDEFINED)] == ["", "0", "2", ""]
    assert [class_sign("row_kind", n) for n in (0, 1, 2, 4)] == ["", "g", "p", "a"]


def test_wrong_cells_alone_are_framed():
    _, row, truth = last_row(14, 5, (6, 8))
    classes = truth["sum"].copy()

    def framed(believed: np.ndarray) -> bool:
        image = pixels(_map("sum", believed, truth["sum"], row, 22))
        return all((image == colour(ink)).all(axis=2).any() for ink in (WRONG, WRONG_INK))

    assert not framed(classes)
    unread = classes.copy()
    unread[row, 0] = UNDEFINED
    assert not framed(unread)
    classes[row, 3] += 1
    assert framed(classes)


def test_a_page_has_a_line_for_each_hint_and_a_map_for_each_step():
    canvas, row, truth = last_row(14, 5, (6, 8))
    sizes = []
    for names in (["step 1"], [f"step {n}" for n in (1, 2, 4, 8, 16, 32)]):
        believed = {name: np.stack([right] * len(names)) for name, right in truth.items()}
        figure = hints_figure(canvas, row, truth, believed, names, "112 x 12")
        texts = [text.get_text() for text in figure.texts]
        assert {"112 x 12", *truth} <= set(texts)
        counted = int((truth["carry"] != UNDEFINED).sum())
        for name in names:
            assert texts.count(f"{name}: {counted} of {counted}") == len(truth)
        sizes.append(pixels(figure).shape)
    assert sizes[0][0] == sizes[1][0]
    assert sizes[0][1] < sizes[1][1]


def test_blank_rows_and_columns_are_left_out_and_wide_canvases_have_smaller_cells():
    small, large = (last_row(14, 5, size) for size in ((6, 8), (30, 60)))
    shapes = [
        pixels(hints_figure(c, r, t, {n: x[None] for n, x in t.items()}, ["step 1"], "")).shape
        for c, r, t in (small, large)
    ]
    assert shapes[1][0] <= shapes[0][0] + 8 * 22 + 22
    wide = last_row(3**30, 3**30, (36, 64))
    maps = {name: np.stack([right] * 6) for name, right in wide[2].items()}
    assert pixels(hints_figure(*wide, maps, ["step"] * 6, "")).shape[1] < 7 * 64 * 16
