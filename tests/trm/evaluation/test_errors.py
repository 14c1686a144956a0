import json
import random
from collections.abc import Callable

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import draw_worked, row_steps
from canvas.symbols import BLANK, DIGIT_ZERO
from trm.evaluation.errors import (
    DIGIT,
    EMPTY,
    LENGTH,
    MISALIGNED,
    MISPLACED,
    Diagnostics,
    WrongRow,
    diagnose,
)
from trm.solving.rollout import Prediction, teacher_forced

Fault = Callable[[np.ndarray], None]  # spoils a row as it should be, in place
Where = tuple[int, int]  # problem and step
SPARE = 3  # blank columns on either side of a working


def put(place: int, digit: int) -> Fault:
    def fault(row: np.ndarray) -> None:
        row[-1 - SPARE - place] = DIGIT_ZERO + digit

    return fault


def move(columns: int) -> Fault:
    def fault(row: np.ndarray) -> None:
        row[:] = np.roll(row, columns)

    return fault


def erase(row: np.ndarray) -> None:
    row[:] = BLANK


def diagnosed(
    asked: list[tuple[int, ...]],
    faults: dict[Where, Fault],
    layout: str = "standard",
    base: int = 10,
) -> Diagnostics:
    """What is found where each row is right but for the faults."""
    kind = Addition if layout in Addition.layouts else Multiplication
    task, problems = kind(layout, base), Problems.from_ints(asked, base)
    worked = task.rules.work(problems)
    height, width = int(worked.heights.max()) + 2, int(worked.widths.max()) + 2 * SPARE
    drawing = draw_worked(worked, height, width, top=1, left=width - SPARE - worked.widths)
    steps = row_steps(drawing)
    written = {}
    for i, inputs in enumerate(steps.inputs):
        where = int(steps.problem[i]), int(steps.step[i])
        canvas = steps.labels[i].copy()
        faults.get(where, lambda row: None)(canvas[drawing.row_of_step(where[1])[where[0]]])
        written[inputs.tobytes()] = canvas

    def predictor(inputs: np.ndarray) -> Prediction:
        canvases = np.stack([written[canvas.tobytes()] for canvas in inputs])
        return Prediction(canvases, np.ones(len(inputs), np.float32), np.ones(len(inputs), int))

    return diagnose(task, problems, drawing, teacher_forced(predictor, drawing))


def only(found: Diagnostics) -> WrongRow:
    ((way, count),) = found.wrong.items()
    assert count == 1
    return way


# 12 · 34: 48, 36 one column to the left, 408; a carry enters the 4 of 408 and no other digit.
TWELVE = [(12, 34)]


def test_a_right_working_has_rows_and_digits_and_nothing_wrong():
    found = diagnosed(TWELVE, {})
    assert found.rows == {"partial product": 2, "answer": 1}
    assert (found.wrong_rows(), found.first_wrong_digits) == (0, (0, 0))
    assert not any(found.faults().values())
    assert found.digits == (7, 1)
    assert found.reached == (7, 1)


def both(*faults: Fault) -> Fault:
    def fault(row: np.ndarray) -> None:
        for one in faults:
            one(row)

    return fault


def cut(row: np.ndarray) -> None:
    row[-1 - SPARE - 3] = BLANK  # the highest digit of 1188


LONG = [(99, 12)]  # 198, 99 to the left, 1188
PRODUCT, ANSWER = ("partial product", 1), ("answer", 2)


@pytest.mark.parametrize(
    ("asked", "step", "fault", "way", "first", "reached"),
    [  # how the row is wrong, first wrong digits and those with a carry, digits reached
        (TWELVE, 2, put(2, 3), (*ANSWER, DIGIT, 2, True), (1, 1), (7, 1)),  # a forgotten carry
        (TWELVE, 2, put(1, 5), (*ANSWER, DIGIT, 1, False), (1, 0), (6, 0)),
        (TWELVE, 2, both(put(0, 1), put(2, 9)), (*ANSWER, DIGIT, 0, False), (1, 0), (5, 0)),
        # Places are counted from the row's own lowest digit: the column of the 6 of 36.
        (TWELVE, 1, put(1, 5), (*PRODUCT, DIGIT, 0, False), (1, 0), (6, 1)),
        *(
            (TWELVE, 1, move(n), (*PRODUCT, MISPLACED, None, None), (0, 0), (5, 1))
            for n in (-3, -1, 1, 2)
        ),
        *(
            (
                TWELVE,
                1,
                both(put(1, 5), move(n)),
                (*PRODUCT, MISALIGNED, None, None),
                (0, 0),
                (5, 1),
            )
            for n in (-1, 1)
        ),
        # Something right of the lowest digit.
        (TWELVE, 1, put(0, 7), (*PRODUCT, MISALIGNED, None, None), (0, 0), (5, 1)),
        # A digit too many is no wrong digit, and one left out is a matter of its carry.
        (TWELVE, 2, put(3, 1), (*ANSWER, LENGTH, 3, None), (0, 0), (7, 1)),
        (LONG, 2, cut, (*ANSWER, LENGTH, 3, True), (1, 1), (9, 4)),
        (TWELVE, 0, erase, ("partial product", 0, EMPTY, None, None), (0, 0), (5, 1)),
    ],
)
def test_each_wrong_row_has_one_fault(asked, step, fault, way, first, reached):
    found = diagnosed(asked, {(0, step): fault})
    assert only(found) == WrongRow(*way)
    assert found.faults()[way[2]] == found.wrong_rows() == 1
    assert found.first_wrong_digits == first
    assert found.reached == reached


def test_what_was_given_is_not_judged():
    assert not diagnosed([(321, 654)], {(0, 1): put(0, 9)}, "lattice").wrong  # a margin digit


def test_a_lattices_rows_are_running_sums_and_the_last_the_answer():
    found = diagnosed([(321, 654)], {(0, 1): put(2 + 1, 9)}, "lattice")  # the second 3 of 1733
    assert found.rows == {"running sum": 2, "answer": 1}
    assert only(found) == WrongRow("running sum", 1, DIGIT, place=1, carry=True)


@pytest.mark.parametrize("layout", [*Multiplication.layouts, *Addition.layouts])
@pytest.mark.parametrize("base", [2, 3, 10])
def test_a_carry_is_what_the_lower_places_amount_to(layout, base):
    draws = random.Random(base)
    task = (Addition if layout in Addition.layouts else Multiplication)(layout, base)
    many = [2] * 20 if task.arity == (2, 2) else [2, base] * 10
    asked = [tuple(draws.randint(1, base ** draws.randint(1, 6)) for _ in range(n)) for n in many]
    digits = carries = 0
    for operands in asked:
        rows = task.rules.addends(operands, base)
        if [] in rows:  # of carries: as long as the sum but for its lowest digit, and read off
            digits += len(np.base_repr(sum(operands), base)) - 1
        for row in filter(None, rows):
            total = sum(number * factor * base**shift for number, factor, shift in row)
            places = range(len(np.base_repr(total, base)))
            low = [
                sum(n * base**shift % base**place * factor for n, factor, shift in row)
                for place in places
            ]
            digits += len(places)
            carries += sum(low[place] >= base**place for place in places)
    found = diagnosed(asked, {}, layout, base)
    assert found.digits == (digits, carries)
    assert not found.wrong


PAIRS = [(12, 34), (99, 99), (5, 17), (123, 45)]
FAULTS: dict[Where, Fault] = {
    **{(0, 2): put(2, 3), (1, 0): move(-1), (1, 2): put(1, 7), (3, 0): put(0, 2), (3, 1): erase}
}


def test_what_is_found_in_parts_adds_up():
    parts = [
        diagnosed([pair], {(0, step): FAULTS[i, step] for p, step in FAULTS if p == i})
        for i, pair in enumerate(PAIRS)
    ]
    found = diagnosed(PAIRS, FAULTS)
    assert sum(parts, Diagnostics()) == found
    assert found.wrong_rows() == len(FAULTS) == sum(found.faults().values())
    assert found.wrong_rows("answer") == 2


def test_diagnostics_pass_through_json():
    found = diagnosed(PAIRS, FAULTS)
    data = json.loads(json.dumps(found.to_json()))
    assert Diagnostics.from_json(data) == found
    assert data["rows"]["partial product"] == {"total": 8, "wrong": 3}
    assert data["faults"] == {
        EMPTY: 1, MISPLACED: 1, MISALIGNED: 0, DIGIT: 3, LENGTH: 0
    }  # fmt: skip
    assert data["first_wrong_digits"]["total"] == found.first_wrong_digits[0] == 3
    assert Diagnostics.from_json(Diagnostics().to_json()) == Diagnostics()


@pytest.mark.parametrize(
    ("layout", "fault", "rows", "way", "digits"),
    [  # 87 + 604 + 9 = 700; carries are rows of their own kind, here 12 below the 70
        ("column", put(1, 6), {"answer": 1}, ("answer", 0, DIGIT, 1, True), (3, 2)),
        ("column_carries", put(1, 1), {"carries": 1, "answer": 1},
         ("carries", 0, DIGIT, 0, False), (5, 2)),
    ],
)  # fmt: skip
def test_a_sum_is_judged_where_its_carries_are(layout, fault, rows, way, digits):
    found = diagnosed([(87, 604, 9)], {(0, 0): fault}, layout)
    assert (found.rows, only(found), found.digits) == (rows, WrongRow(*way), digits)
