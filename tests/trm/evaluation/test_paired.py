import numpy as np
import pytest

from trm.evaluation.paired import mcnemar, paired, shared_problems


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [(0, 0, 1.0), (5, 0, 2 / 2**5), (0, 5, 2 / 2**5), (1, 3, 2 * 5 / 2**4), (7, 7, 1.0)],
)
def test_mcnemars_test_is_that_of_a_fair_coin(one, other, p):
    assert mcnemar(one, other) == pytest.approx(p)


def test_of_many_problems_the_normal_distribution_says_the_same():
    exact, many = mcnemar(470, 530), mcnemar(471, 531)
    assert many == pytest.approx(exact, rel=0.02)


def test_what_both_solve_takes_no_part():
    few = paired([["1100"]], [["1000"]])
    many = paired([["1100" + "1" * 96]], [["1000" + "1" * 96]])
    assert (few.mine_alone, few.theirs_alone) == (many.mine_alone, many.theirs_alone) == (1, 0)
    assert few.p == many.p == 1.0
    assert many.mine - many.theirs == pytest.approx(0.01)


def draws(seed: int, share: float, n: int = 400) -> str:
    return "".join("01"[x] for x in (np.random.default_rng(seed).random(n) < share).astype(int))


def test_the_interval_is_as_wide_as_theory_has_it_for_paired_shares():
    mine, theirs = draws(1, 0.8), draws(2, 0.6)
    found = paired([[mine]], [[theirs]])
    each = np.array([int(a) - int(b) for a, b in zip(mine, theirs, strict=True)])
    half = 1.96 * each.std() / len(each) ** 0.5
    assert found.interval == pytest.approx((each.mean() - half, each.mean() + half), abs=0.01)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """Pairs of 60 problems: both solve 70 %, one alone 20, the other alone 2."""
    random, held = np.random.default_rng(0), 0
    for _ in range(400):
        kind = random.choice(4, size=60, p=(0.7, 0.2, 0.02, 0.08))
        mine, theirs = (
            "".join("01"[int(k in solved)] for k in kind) for solved in ((0, 1), (0, 2))
        )
        low, high = paired([[mine]], [[theirs]]).interval
        held += low <= 0.18 <= high
    assert 0.93 * 400 <= held <= 0.99 * 400


def test_models_that_differ_on_no_problem_may_still_differ():
    found = paired([["1011", "01"]], [["1011", "01"]])
    low, high = found.interval
    assert low < 0 < high
    assert found.p == 1.0
    assert found.problems == 6


def test_seeds_that_all_solve_the_same_problems_leave_the_interval_some_width():
    low, high = paired([["1" * 16]] * 2, [["1" * 16]]).interval
    assert (low, high) == paired([["1" * 16]], [["1" * 16]]).interval
    assert low < -0.1 < 0.1 < high


def test_an_interval_beside_no_difference_beyond_chance_holds_none():
    mine, theirs = "1" * 500, "0" * 4 + "1" * 496
    found = paired([[mine]], [[theirs]])
    assert found.p == pytest.approx(0.125)
    assert found.interval[0] < 0.002


def test_seeds_that_disagree_widen_the_interval():
    low, high = draws(1, 0.5), draws(2, 0.95)
    one = paired([[high]], [[low]])
    several = paired([[high], [low]], [[low], [low]])
    width = [found.interval[1] - found.interval[0] for found in (one, several)]
    assert width[1] > 2 * width[0]
    assert several.p is several.mine_alone is None
    assert several.interval[0] <= 0  # both of its seeds may have been the worse one


def test_other_problems_cannot_be_compared():
    with pytest.raises(ValueError, match="same problems"):
        paired([["11"]], [["111"]])
    with pytest.raises(ValueError, match="same problems"):
        paired([[""]], [[""]])


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
