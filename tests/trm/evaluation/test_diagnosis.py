import numpy as np
import pytest
from oracle import Oracle, Page

from canvas import symbols
from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.choices import OwnCodeError
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.task import Task
from trm.evaluation import diagnosis
from trm.evaluation.diagnosis import (
    KINDS,
    OTHER,
    Kind,
    WrongRow,
    by_chance,
    first_wrong_rows,
    kind_of,
    kinds_of,
    tally,
)
from trm.evaluation.grid_cells import cell_problems
from trm.evaluation.measure import measure_cell
from trm.solving.solver import Solver
from trm.solving.voting import Voting

STANDARD = Multiplication("standard")
SUM = Addition("column")
CARRIES = Addition("column_carries")


def wrong_rows(task: Task, operands: tuple[int, ...], rows: dict[int, str]) -> list[WrongRow]:
    """The first wrong row of a problem, after rows of its solution are replaced.

    The canvas has a blank row at the top, which is not counted, and a blank column on either side.
    """
    problem = Problems.from_ints([operands], task.base)
    height, width = (int(n) for n in task.canvas_layout.sizes(problem)[:, 0])
    drawing = task.canvas_layout.draw_worked(problem, height + 2, width + 2, top=1, left=1)
    canvases = drawing.truth.copy()
    for row, text in rows.items():
        canvases[0, 1 + row, :-1] = symbols.encode(text.rjust(width + 1, "_"))
    return first_wrong_rows(task, drawing, canvases)


def kind(task: Task, operands: tuple[int, ...], rows: dict[int, str]) -> str:
    (row,) = wrong_rows(task, operands, rows)
    return kind_of(row, kinds_of(task))


@pytest.mark.parametrize(
    ("task", "operands", "rows", "expected"),
    [
        # 47 x 8 = 376: 8 · 7 = 56, so 5 is carried; 8 · 4 + 5 = 37, so 3 is carried.
        (STANDARD, (47, 8), {2: "326"}, "carry"),  # 32 without the 5
        (STANDARD, (47, 8), {2: "76"}, "carry"),  # without the 3, which is a digit by itself
        (STANDARD, (47, 8), {2: "1376"}, "ends"),  # the 4th digit can get no carry
        (STANDARD, (21, 4), {2: "94"}, "carry"),  # true is 84: a 1 that nothing carries
        (STANDARD, (21, 4), {2: "184"}, "carry"),
        (STANDARD, (47, 36), {4: "2692"}, "carry"),  # 282 + 1410 = 1692: no carry to the 1000s
        (STANDARD, (99, 99), {4: "8801"}, "carry"),  # 891 + 8910: 8 + 9 + 1 to 18, and 9 with it
        # 99 + 99 + 99 = 297: 27, of which 2 carries come
        (SUM, (99, 99, 99), {3: "287"}, "carry"),  # one of the two
        (SUM, (99, 99, 99), {3: "277"}, "carry"),  # both
        (SUM, (47, 36), {2: "73"}, "carry"),
        (SUM, (41, 32), {2: "83"}, "carry"),
        (SUM, (99, 1), {2: "00"}, "carry"),
        (CARRIES, (47, 36), {2: "_0_"}, "carry"),  # the carry itself
        (Multiplication("accumulate"), (47, 36), {3: "1492"}, "carry"),  # of 3 · 7 = 21
        (Multiplication("accumulate"), (47, 36), {3: "1792"}, "carry"),  # of 8 + 1
        (Multiplication("running_sum"), (47, 36), {5: "1792"}, "carry"),
        # The product is written above: the carry of 3 · 7 is of no sum.
        (Multiplication("running_sum"), (47, 36), {5: "1492"}, OTHER),
        (Multiplication("interleaved"), (47, 36), {4: "121_"}, "carry"),  # true is 141_
        (Multiplication("lattice"), (47, 36), {1: "242_6"}, "carry"),  # true is 282: 24 + 4
        # 47 x 36: 282, 141_
        (STANDARD, (47, 36), {3: "141"}, "shifted"),
        (STANDARD, (47, 36), {3: "141__"}, "shifted"),
        (STANDARD, (4713, 2), {2: "942"}, "shifted"),  # true is 9426; the 6 is left out
        (STANDARD, (4713, 2), {2: "94426"}, "shifted"),  # the 4 is repeated
        (STANDARD, (3, 12), {3: "3"}, "shifted"),  # the only digit of the row
        (STANDARD, (47, 36), {4: "141_"}, "copied"),
        (STANDARD, (47, 36), {2: "36"}, "copied"),  # of the operand; the sign is not copied
        (STANDARD, (47, 36), {4: "1412"}, "copied"),  # all digits but one
        # 47 · 3 = 141 and 47 · 6 = 282 in each other's place, or the two last digits of them
        (STANDARD, (47, 36), {2: "141"}, "multiplier"),
        (STANDARD, (47, 36), {2: "941"}, "multiplier"),
        (STANDARD, (47, 36), {3: "282_"}, "multiplier"),
        (STANDARD, (47, 306), {2: "0"}, "multiplier"),
        (STANDARD, (47, 306), {3: "141_"}, "multiplier"),
        (STANDARD, (47, 36), {2: "151"}, OTHER),
        (Multiplication("interleaved"), (47, 36), {2: "141"}, "multiplier"),
        # 6 · 7 = 42
        (STANDARD, (47, 36), {2: "288"}, "product"),  # 6 · 8
        (STANDARD, (47, 36), {2: "285"}, "product"),  # 5 · 7
        (STANDARD, (47, 36), {2: "284"}, "product"),  # 6 · 4, of the next digit
        (STANDARD, (47, 36), {2: "287"}, OTHER),
        (STANDARD, (47, 36), {2: "2#2"}, OTHER),
        (STANDARD, (47, 36), {4: "1698"}, OTHER),  # nothing is multiplied in the sum
        (Multiplication("lattice"), (47, 36), {1: "288_6"}, "product"),
        (STANDARD, (4747, 2), {2: "94"}, "ends"),  # true is 9494
        (STANDARD, (4747, 2), {2: ""}, "ends"),
        (STANDARD, (4747, 2), {2: "59494"}, "ends"),
        (STANDARD, (47, 36), {3: "0141_"}, "ends"),
        (STANDARD, (4747, 2), {2: "9_94"}, OTHER),  # a gap
    ],
)
def test_the_first_incorrect_cell_has_the_kind_that_explains_it(task, operands, rows, expected):
    assert kind(task, operands, rows) == expected


def test_an_error_is_the_lowest_digit_of_the_first_incorrect_row():
    (row,) = wrong_rows(STANDARD, (47, 36), {3: "221_", 4: "9999"})
    # From the right: the blank column, the blank of the row, the number, the blank column.
    lines = row.truth, row.written, row.above
    assert [symbols.decode(line) for line in lines] == ["__141_", "__122_", "_282__"]
    assert (row.at, row.kind, row.base, row.multiplies) == (3, "partial product", 10, True)
    assert row.signals["multiplicand"].tolist()[2:4] == [1 + 7, 1 + 4]
    assert row.signals["carry"].tolist()[2] == 1 + 2
    assert kind_of(row) == "carry"  # 3 · 4 = 12, and the 2 of 21 is missing
    (row,) = wrong_rows(STANDARD, (47, 36), {4: "9999"})
    assert (row.at, row.kind, row.multiplies) == (1, "answer", False)


def test_a_correct_solution_has_no_incorrect_row_and_no_shares():
    assert wrong_rows(STANDARD, (47, 36), {}) == []
    found = tally(STANDARD, [])
    assert [*found] == ["shifted", "copied", "multiplier", "carry", "product", "ends", "other"]
    assert found["carry"] == {"right": 0, "total": 0, "low": 0.0, "high": 1.0, "chance": None}


def test_layouts_without_signals_have_fewer_kinds_of_errors():
    assert kinds_of(STANDARD) == [*KINDS, OTHER]
    assert kinds_of(SUM) == ["shifted", "copied", "carry", "ends", "other"]
    assert kinds_of(Multiplication("direct")) == ["shifted", "copied", "ends", "other"]
    assert kind(Multiplication("direct"), (47, 8), {2: "326"}) == OTHER
    assert kind(Multiplication("direct"), (47, 8), {2: "37"}) == "shifted"
    assert [*tally(SUM, [])] == kinds_of(SUM)
    three = Addition("column_carries", addends=(2, 3))  # the rule of the layout is for two
    assert kinds_of(three) == ["shifted", "copied", "ends", "other"]


def test_the_share_by_chance_is_over_all_incorrect_symbols():
    (row,) = wrong_rows(STANDARD, (47, 8), {2: "346"})
    # True is 376. Of 0, 1, 2, 3, 4, 5, 6, 8, 9 and the blank, 2 lacks the carry. Of 4 · 7, 4 · 9,
    # 3 · 8, 5 · 8 and 7 · 8, and the carry 5, the last digits are 3, 1, 9, 5 and 1.
    found = by_chance(row, kinds_of(STANDARD))
    none = dict.fromkeys(("shifted", "copied", "multiplier", "ends"), 0)
    assert found == pytest.approx(none | {"carry": 0.1, "product": 0.4, "other": 0.5})
    shares = tally(STANDARD, [row, *wrong_rows(STANDARD, (47, 8), {2: "326"})])
    counted = {name: (part["right"], part["total"]) for name, part in shares.items()}
    assert counted == dict.fromkeys(counted, (0, 2)) | {"carry": (1, 2), "other": (1, 2)}
    assert shares["product"]["chance"] == pytest.approx(0.4)
    assert shares["carry"]["low"] == pytest.approx(0.0945, abs=1e-4)


def test_the_first_kind_of_the_table_that_fits_counts(monkeypatch):
    every = Kind(lambda row: row.written[row.at] == symbols.BLANK, "a blank for a digit")
    short = {2: "94"}
    assert kind(STANDARD, (4747, 2), short) == "ends"
    monkeypatch.setattr(diagnosis, "KINDS", KINDS | {"blank": every})
    assert kinds_of(STANDARD)[-2:] == ["blank", "other"]
    assert kind(STANDARD, (4747, 2), short) == "ends"
    assert kind(STANDARD, (4747, 2), {2: "9_94"}) == "blank"
    monkeypatch.setattr(diagnosis, "KINDS", {"blank": every} | KINDS)
    assert kind(STANDARD, (4747, 2), short) == "blank"


def test_a_kind_of_ones_own_that_fails_is_named(monkeypatch):
    monkeypatch.setitem(KINDS, "mine", Kind(lambda row: row.written[99] == 0, ""))
    with pytest.raises(OwnCodeError, match=r"the kind mine failed: .*test_diagnosis.*IndexError"):
        kind(STANDARD, (47, 36), {2: "2#2"})
    monkeypatch.delitem(KINDS, "mine")
    monkeypatch.setitem(KINDS, OTHER, KINDS["ends"])
    with pytest.raises(OwnCodeError, match="rename yours"):
        kinds_of(STANDARD)


def test_a_batch_of_problems_is_diagnosed_like_each_of_them():
    rng = np.random.default_rng(0)
    for task in (STANDARD, SUM, Multiplication("lattice"), Multiplication("running_sum", base=3)):
        problems = Problems.from_ints(rng.integers(1, 999, (20, 2)).tolist(), task.base)
        drawing = task.canvas_layout.draw_worked(problems)
        noise = rng.random(drawing.truth.shape) < 0.05
        canvases = np.where(noise & drawing.unknown, np.uint8(symbols.DIGIT_ZERO), drawing.truth)
        together = first_wrong_rows(task, drawing, canvases)
        one_by_one = [
            row for i in range(20) for row in first_wrong_rows(task, drawing[[i]], canvases[[i]])
        ]
        assert len(together) == len(one_by_one) > 1
        for row, alone in zip(together, one_by_one, strict=True):
            assert (row.at, row.with_other_carries) == (alone.at, alone.with_other_carries)
            assert kind_of(row, kinds_of(task)) == kind_of(alone, kinds_of(task))


def without_carries(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
    """Multiply without carries in the row of a partial product."""
    if (shown[page.first] == symbols.MASK).any():
        digits = symbols.DIGIT_OF[page.truth[[page.first - 2, page.first - 1]]]
        product = [symbols.DIGIT_IDS[a * digits[1].max() % 10] for a in digits[0] if a >= 0]
        filled[page.first, :] = symbols.BLANK
        right = np.flatnonzero(digits[0] >= 0)
        filled[page.first, right] = product


def copied_operand(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
    """Copy a to the rows of the partial product and of the answer."""
    filled[page.first :][:2] = page.truth[page.first - 2]


TRAINED = Multiplication("standard", digits_a=(1, 2), digits_b=(1, 2))


def test_a_grid_cell_counts_the_kinds_of_its_errors():
    solver = Solver(Oracle(fault=without_carries), TRAINED, Canvas())
    problems = cell_problems(TRAINED, (2, 1), 20, seed=0)
    solver.predictor.learn(solver.draw_worked(problems))
    cell = measure_cell(solver, ("digits_a", "digits_b"), (2, 1), problems=20)
    carried = sum(a % 10 * b > 9 for a, b in problems.to_ints())
    top = sum(a % 10 * b < 10 and a // 10 * b > 9 for a, b in problems.to_ints())
    wrong = carried + top
    assert 10 < wrong < 20
    assert cell["solutions"]["right"] == 20 - wrong
    errors = cell["errors"]
    assert [*errors] == [*KINDS, OTHER]
    assert {part["total"] for part in errors.values()} == {wrong}
    assert errors["carry"]["right"] == wrong
    assert errors["carry"]["low"] > 0.7
    assert 0.05 < errors["carry"]["chance"] < 0.2


def test_swapped_operands_are_diagnosed_on_their_own_canvas():
    voting = Voting(orders=2, vote="max_confidence")
    solver = Solver(Oracle(fault=copied_operand), TRAINED, Canvas(), voting=voting)
    problems = cell_problems(TRAINED, (1, 2), 10, seed=0)
    swapped = Problems.from_ints([pair[::-1] for pair in problems.to_ints()])
    solver.predictor.learn(solver.draw_worked(problems), faulty=False, confidence=0.4)
    solver.predictor.learn(solver.draw_worked(swapped), confidence=0.9)
    cell = measure_cell(solver, ("digits_a", "digits_b"), (1, 2), problems=10)
    wrong = sum(a > 1 for a, _ in problems.to_ints())
    assert cell["solutions"]["right"] == 10 - wrong < 10
    assert sum(part["right"] for part in cell["errors"].values()) == wrong
