import numpy as np
import pytest

from trm.evaluation.selective_prediction import reliability, risk_coverage
from trm.evaluation.statistics import Share


def test_the_curve_of_a_score_by_hand():
    curve = risk_coverage(np.array([0.2, 0.9, 0.5, 0.7]), np.array([False, True, True, False]))
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.risk, [0, 1 / 2, 1 / 3, 2 / 4])
    assert curve.area == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert [curve.at(c) for c in (0.25, 0.3, 1.0)] == [0, 1 / 2, 1 / 2]


def test_equal_scores_are_answered_together_in_whatever_order_they_come():
    score, right = np.array([1.0, 0.5, 0.5, 0.5]), np.array([True, True, False, False])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 1, 3]):
        curve = risk_coverage(score[order], right[order])
        np.testing.assert_allclose(curve.coverage, [0.25, 1])
        np.testing.assert_allclose(curve.risk, [0, 0.5])


def test_calibration_by_hand():
    bins = reliability(np.array([0.95, 0.85, 1.0, 0.25]), np.array([True, False, True, True]))
    np.testing.assert_allclose(bins.confidence, [0.25, 0.85, 0.975])
    np.testing.assert_allclose(bins.right, [1, 0, 1])
    assert bins.problems.tolist() == [1, 1, 2]
    assert bins.error == pytest.approx((0.75 + 0.85 + 2 * 0.025) / 4)


def test_shares_have_the_intervals_of_their_problems():
    score = np.array([0.95] * 30 + [0.15] * 2)
    right = np.array([True] * 27 + [False] * 3 + [True] * 2)
    bins, curve = reliability(score, right), risk_coverage(score, right)
    expected = [Share(2, 2).interval, Share(27, 30).interval]
    np.testing.assert_allclose(np.transpose(bins.interval), expected)
    expected = [Share(3, 30).interval, Share(3, 32).interval]
    np.testing.assert_allclose(np.transpose(curve.interval), expected)
    assert curve.answered.tolist() == [30, 32]
