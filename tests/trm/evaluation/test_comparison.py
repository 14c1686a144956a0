from trm.evaluation.comparison import shared_problems


def model(*cells: tuple[int, str, str | None]) -> dict:
    return {"cells": [{"row": n, "column": 1, "region": r, "solved": s} for n, r, s in cells]}


def test_cells_that_only_one_was_asked_are_left_out():
    mine = model((1, "in range", "1111"), (2, "first beyond", "10"), (3, "first beyond", "11"))
    theirs = model((1, "in range", "1000"), (2, "first beyond", "01"))
    assert shared_problems([mine], [theirs]).problems == 6
    assert shared_problems([mine], [theirs], "in range").mine_alone == 3
    assert shared_problems([mine], [theirs], "both beyond") is None


def test_older_evaluations_do_not_tell_which_problems_were_solved():
    older = {"cells": [{"row": 1, "column": 1, "region": "in range"}]}
    assert shared_problems([older], [older]) is None
