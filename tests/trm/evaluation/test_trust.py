import numpy as np
import pytest
from matplotlib.colors import to_hex

from trm.evaluation.trust import reliability, risk_coverage, trust_figure


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


def test_a_score_that_foresees_errors_has_less_area_than_one_that_does_not():
    rng = np.random.default_rng(0)
    right = rng.random(5000) < 0.8
    knowing = risk_coverage(right + rng.normal(0, 0.3, 5000), right)
    guessing = risk_coverage(rng.random(5000), right)
    assert knowing.area < 0.06 < 0.15 < guessing.area
    assert knowing.at(1) == guessing.at(1) == pytest.approx(1 - right.mean())


def test_calibration_by_hand():
    bins = reliability(np.array([0.95, 0.85, 1.0, 0.25]), np.array([True, False, True, True]))
    np.testing.assert_allclose(bins.confidence, [0.25, 0.85, 0.975])
    np.testing.assert_allclose(bins.right, [1, 0, 1])
    assert bins.problems.tolist() == [1, 1, 2]
    assert bins.error == pytest.approx((0.75 + 0.85 + 2 * 0.025) / 4)


def test_scores_that_are_none_are_refused():
    for score, right in (([], []), ([np.nan], [True]), ([1.0], [True, False])):
        with pytest.raises(ValueError, match="for each problem"):
            risk_coverage(np.array(score), np.array(right))


def test_curves_are_told_apart_without_colour():
    curve = risk_coverage(np.array([0.2, 0.9]), np.array([False, True]))
    bins = reliability(np.array([0.2, 0.9]), np.array([False, True]))
    figure = trust_figure({"a": curve, "b": curve}, {"a": bins}, 2)
    left, right = figure.axes
    assert len({line.get_linestyle() for line in left.lines}) == 2
    assert len({to_hex(line.get_color()) for line in left.lines}) == 2
    assert "mean risk 25.00 %" in left.get_legend().get_texts()[0].get_text()
    assert "calibration error 15.0 %" in right.get_legend().get_texts()[0].get_text()
