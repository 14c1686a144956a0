import numpy as np
from matplotlib.colors import to_hex

from trm.evaluation.statistics import reliability, risk_coverage
from trm.figures.calibration import trust_figure


def test_curves_are_told_apart_without_colour():
    curve = risk_coverage(np.array([0.2, 0.9]), np.array([False, True]))
    bins = reliability(np.array([0.2, 0.9]), np.array([False, True]))
    left, right, _ = trust_figure({"a": curve, "b": curve}, {"a": bins}, 2).axes
    assert len({line.get_linestyle() for line in left.lines}) == 2
    assert len({to_hex(line.get_color()) for line in left.lines}) == 2
    assert "mean risk 25.00 %" in left.get_legend().get_texts()[0].get_text()
    assert "calibration error 15.0 %" in right.get_legend().get_texts()[0].get_text()


def test_every_bin_has_its_share_interval_and_number():
    score = np.repeat([0.95, 0.85, 0.15], [100, 100, 3])
    right = np.arange(203) < 200
    curves, bins = {"rows": risk_coverage(score, right)}, {"rows": reliability(score, right)}
    _, axes, counts = trust_figure(curves, bins, 203).axes
    _, line = axes.lines
    np.testing.assert_allclose(line.get_xydata(), [[15, 0], [85, 100], [95, 100]])
    low, high = axes.collections[0].get_segments()[0][:, 1]
    assert high - low > 40
    assert [bar.get_height() for bar in counts.patches] == [3, 100, 100]
