"""Intervals and tests against published figures and against what they promise."""

import math

import numpy as np
import pytest

from trm.evaluation import statistics
from trm.evaluation.grid import outcomes
from trm.evaluation.statistics import (
    Paired,
    Share,
    auroc,
    bootstrap,
    difference,
    paired,
    reliability,
    risk_coverage,
)


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [  # roots of (p - share)^2 = z^2 p (1 - p) / n, worked out by hand or from Newcombe 1998
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons(right, total, low, high):
    assert Share(right, total).interval == pytest.approx((low, high), abs=1e-4)


def test_shares_are_written_with_counts_and_intervals():
    assert str(Share(5, 10)) == "50.0 % (5 of 10; 95 % interval 23.7 to 76.3 %)"
    assert Share(5, 10).short == "50.0 % (23.7–76.3)"
    assert Share(5, 10, ends=(0.2, 0.8)).short == "50.0 % (20.0–80.0)"
    assert sum([Share(1, 2), Share(3, 3)], Share(0, 0)) == Share(4, 5)
    assert Share(128, 128).span() == "97–100"
    told = [Share(n, 1000).percent for n in (0, 1, 5, 500, 999, 1000)]
    assert told == ["0", "<1", "<1", "50", ">99", "100"]
    nothing = Share(0, 0)
    assert math.isnan(nothing.value)
    assert nothing.interval == (0.0, 1.0)
    assert (str(nothing), nothing.short, nothing.percent) == ("none", "–", "")
    assert statistics.of_seeds([Share(50, 100), Share(100, 100)]) == "75.0 [50.0–100.0] (65.7–82.5)"
    assert statistics.of_seeds([Share(50, 100)]) == "50.0 (40.4–59.6)"
    assert statistics.of_seeds([]) == "–"


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [  # Newcombe 1998, table II, method 10
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_the_interval_of_a_difference_is_newcombes(one, other, low, high):
    assert difference(Share(*one), Share(*other)) == pytest.approx((low, high), abs=1e-4)
    assert difference(Share(*other), Share(*one)) == pytest.approx((-high, -low), abs=1e-4)


def compared(mine: list[list[str]], theirs: list[list[str]]) -> Paired:
    """Compare seeds, each of texts with a 1 for each solved problem of a cell."""
    return paired(*([[*map(outcomes, seed)] for seed in seeds] for seeds in (mine, theirs)))


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [(0, 0, 1.0), (5, 0, 2 / 2**5), (0, 5, 2 / 2**5), (1, 3, 2 * 5 / 2**4), (7, 7, 1.0)],
)
def test_mcnemars_test_is_that_of_a_fair_coin(one, other, p):
    mine, theirs = "1" * one + "0" * other + "1", "0" * one + "1" * other + "1"
    assert compared([[mine]], [[theirs]]).p == pytest.approx(p)


def test_bootstrap_intervals_have_their_width_and_coverage():
    values = np.random.default_rng(3).normal((0, 5), size=(400, 2))
    low, high = bootstrap(values)
    half = 1.96 * values.std(axis=0) / 20
    np.testing.assert_allclose(low, values.mean(axis=0) - half, atol=0.02)
    np.testing.assert_allclose(high, values.mean(axis=0) + half, atol=0.02)
    # Pairs of 60 problems: both solve 70 %, one alone 20, the other alone 2.
    random, held = np.random.default_rng(0), 0
    for _ in range(400):
        kind = random.choice(4, size=60, p=(0.7, 0.2, 0.02, 0.08))
        mine, theirs = ("".join("01"[k in of] for k in kind) for of in ((0, 1), (0, 2)))
        low, high = compared([[mine]], [[theirs]]).interval
        held += low <= 0.18 <= high
    assert 0.93 * 400 <= held <= 0.99 * 400


def draws(seed: int, share: float, n: int = 400) -> str:
    return "".join("01"[x] for x in (np.random.default_rng(seed).random(n) < share).astype(int))


def test_disagreeing_seeds_widen_the_interval_of_a_difference():
    found = compared([["1011", "01"]], [["1011", "01"]])
    assert found.interval[0] < 0 < found.interval[1]
    assert (found.p, found.problems) == (1.0, 6)
    low, high = compared([["1" * 16]] * 2, [["1" * 16]]).interval
    assert (low, high) == compared([["1" * 16]], [["1" * 16]]).interval
    assert low < -0.1 < 0.1 < high
    low, high = draws(1, 0.5), draws(2, 0.95)
    one = compared([[high]], [[low]])
    several = compared([[high], [low]], [[low], [low]])
    width = [found.interval[1] - found.interval[0] for found in (one, several)]
    assert width[1] > 2 * width[0]
    assert several.p is several.alone is None
    assert several.interval[0] <= 0  # both of its seeds may have been the worse one


def test_the_curve_of_a_score_by_hand_equal_ones_together():
    curve = risk_coverage(np.array([0.2, 0.9, 0.5, 0.7]), np.array([False, True, True, False]))
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.risk, [0, 1 / 2, 1 / 3, 2 / 4])
    assert curve.area == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    shares = [curve.share_at(c) for c in (0.25, 0.3, 1.0)]
    assert [(s.right, s.total) for s in shares] == [(0, 1), (1, 2), (2, 4)]
    score, right = np.array([1.0, 0.5, 0.5, 0.5]), np.array([True, True, False, False])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 1, 3]):
        curve = risk_coverage(score[order], right[order])
        np.testing.assert_allclose(curve.coverage, [0.25, 1])
        np.testing.assert_allclose(curve.risk, [0, 0.5])


def test_calibration_by_hand_has_the_intervals_of_its_problems():
    bins = reliability(np.array([0.95, 0.85, 1.0, 0.25]), np.array([True, False, True, True]))
    np.testing.assert_allclose(bins.confidence, [0.25, 0.85, 0.975])
    np.testing.assert_allclose(bins.accuracy, [1, 0, 1])
    assert bins.problems.tolist() == [1, 1, 2]
    assert bins.error == pytest.approx((0.75 + 0.85 + 2 * 0.025) / 4)
    score = np.array([0.95] * 30 + [0.15] * 2)
    right = np.array([True] * 27 + [False] * 3 + [True] * 2)
    bins, curve = reliability(score, right), risk_coverage(score, right)
    expected = [Share(2, 2).interval, Share(27, 30).interval]
    np.testing.assert_allclose(np.transpose(bins.interval), expected)
    expected = [Share(3, 30).interval, Share(3, 32).interval]
    np.testing.assert_allclose(np.transpose(curve.interval), expected)
    assert curve.answered.tolist() == [30, 32]


def test_auroc_is_the_share_of_pairs_in_the_right_order():
    random = np.random.default_rng(0)
    score, right = np.round(random.random(80), 1), random.random(80) < 0.6
    pairs = [(a > b) + (a == b) / 2 for a in score[right] for b in score[~right]]
    assert auroc(score, right) == pytest.approx(np.mean(pairs))
    assert auroc(np.array([0.9, 0.6, 0.7]), np.array([True, True, False])) == 0.5
    assert auroc(np.full(5, 0.3), np.arange(5) < 2) == 0.5  # all scores are equal
    for all_alike in (np.ones(3, bool), np.zeros(3, bool)):
        assert auroc(np.array([0.1, 0.2, 0.3]), all_alike) is None
