import numpy as np
import pytest

from trm.solving.calibration import Calibration, fit_calibration


def drawn(scale: float, offset: float, n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    scores = -rng.exponential(0.3, n)
    return scores, rng.random(n) < 1 / (1 + np.exp(-(scale * scores + offset)))


@pytest.mark.parametrize(("scale", "offset"), [(5.0, 2.0), (1.0, 0.0), (12.0, 4.0)])
def test_a_calibration_finds_the_probabilities_that_answers_were_drawn_with(scale, offset):
    found = fit_calibration(*drawn(scale, offset))
    assert found.scale == pytest.approx(scale, rel=0.15)
    assert found.offset == pytest.approx(offset, abs=0.2)


def test_among_rows_of_like_confidence_that_share_is_right():
    scores, right = drawn(6.0, 1.5)
    confidence = fit_calibration(scores, right)(scores)
    for low in (0.2, 0.5, 0.7):
        alike = (confidence >= low) & (confidence < low + 0.1)
        assert right[alike].mean() == pytest.approx(confidence[alike].mean(), abs=0.04)


@pytest.mark.parametrize("right", [True, False])
def test_answers_that_are_all_right_or_all_wrong_leave_room_for_doubt(right):
    found = fit_calibration(np.linspace(-1, 0, 100), np.full(100, right))
    confidence = found(np.linspace(-1, 0, 100))
    assert np.isfinite([found.scale, found.offset]).all()
    assert ((confidence > 0.9) & (confidence < 1) if right else confidence < 0.1).all()


def test_scores_that_part_right_from_wrong_do_not_run_away():
    scores = np.linspace(-1, 0, 100)
    found = fit_calibration(scores, scores > -0.5)
    assert np.isfinite([found.scale, found.offset]).all()
    assert found(np.array([-1.0]))[0] < 0.1
    assert found(np.array([0.0]))[0] > 0.9


def test_a_score_that_misleads_is_not_followed():
    scores = np.linspace(-1, 0, 100)
    found = fit_calibration(scores, scores < -0.5)
    assert found.scale == 0
    assert found(scores) == pytest.approx(0.5, abs=0.01)


def test_one_score_for_all_gives_the_share_that_was_right():
    found = fit_calibration(np.full(1000, -0.3), np.arange(1000) < 700)
    assert found(np.array([-0.3]))[0] == pytest.approx(0.7, abs=0.01)


def test_extreme_scores_are_no_overflow():
    assert Calibration(1e6, 0.0)(np.array([-1e6, 1e6])) == pytest.approx([0, 1])


def test_nothing_to_fit_to_is_refused():
    with pytest.raises(ValueError, match="at least one judged answer"):
        fit_calibration(np.array([]), np.array([], dtype=bool))
