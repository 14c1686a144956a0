import numpy as np
import pytest
from matplotlib.colors import to_hex

from canvas.picture import PAPER
from trm.evaluation.selective_prediction import (
    reliability,
    reliability_figure,
    risk_coverage,
    trust_figure,
)
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


def test_shares_have_the_intervals_of_their_problems():
    score, right = (
        np.array([0.95] * 30 + [0.15] * 2),
        np.array([True] * 27 + [False] * 3 + [True] * 2),
    )
    bins, curve = reliability(score, right), risk_coverage(score, right)
    expected = [Share(2, 2).interval, Share(27, 30).interval]
    np.testing.assert_allclose(np.transpose(bins.interval), expected)
    expected = [Share(3, 30).interval, Share(3, 32).interval]
    np.testing.assert_allclose(np.transpose(curve.interval), expected)
    assert curve.answered.tolist() == [30, 32]


def test_curves_are_told_apart_without_colour():
    curve = risk_coverage(np.array([0.2, 0.9]), np.array([False, True]))
    bins = reliability(np.array([0.2, 0.9]), np.array([False, True]))
    figure = trust_figure({"a": curve, "b": curve}, {"a": bins}, 2)
    left, right, _ = figure.axes
    assert len({line.get_linestyle() for line in left.lines}) == 2
    assert len({to_hex(line.get_color()) for line in left.lines}) == 2
    assert "mean risk 25.00 %" in left.get_legend().get_texts()[0].get_text()
    assert "calibration error 15.0 %" in right.get_legend().get_texts()[0].get_text()


def test_bins_of_few_problems_are_hollow_uncertain_and_joined_to_no_other():
    score = np.repeat([0.95, 0.85, 0.15], [100, 100, 3])
    axes, counts = reliability_figure({"rows": reliability(score, np.arange(203) < 200)}).axes
    (hollow,) = [
        line for line in axes.lines if len(line.get_xdata()) and line.get_markerfacecolor() == PAPER
    ]
    np.testing.assert_allclose(hollow.get_xdata(), [15])
    (joined,) = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert np.isnan(joined.get_ydata()).tolist() == [True, False, False]
    low, high = axes.collections[0].get_segments()[0][:, 1]
    assert high - low > 40
    assert [bar.get_height() for bar in counts.patches] == [3, 100, 100]


def test_risks_of_few_problems_do_not_set_the_scale():
    right = np.arange(400) > 1  # the two surest are wrong
    (left, *_) = trust_figure({"a": risk_coverage(-np.arange(400.0), right)}, {}, 400).axes
    assert left.get_ylim()[1] < 20


@pytest.mark.parametrize("few", [False, True])
def test_axes_fill_their_figures(few):
    score = np.tile(np.linspace(0, 1, 5 if few else 100), 1 if few else 40)
    curve, bins = risk_coverage(score, score > 0.5), reliability(score, score > 0.5)
    for figure in (
        trust_figure({"one": curve}, {"one": bins}, len(score)),
        reliability_figure({"one": bins}),
    ):
        figure.draw_without_rendering()
        columns = 2 if len(figure.axes) > 2 else 1
        for axes in figure.axes:
            assert axes.get_position().width > 0.7 / columns
        assert sum(axes.get_position().height for axes in figure.axes[-2:]) > 0.6
