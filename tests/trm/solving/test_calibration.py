import numpy as np
import pytest

from trm.solving.gpt_predictor import Calibration, fit_calibration, log_odds


def drawn(scale: float, offset: float, n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Answers that are right as often as a calibration says."""
    rng = np.random.default_rng(0)
    log_probs = -rng.exponential(0.3, n)
    return log_probs, rng.random(n) < Calibration(scale, offset)(log_probs)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (0.4, -1.0), (2.0, 1.0)])
def test_a_calibration_finds_the_probabilities_that_answers_were_drawn_with(scale, offset):
    found = fit_calibration(*drawn(scale, offset))
    assert found.scale == pytest.approx(scale, abs=0.1)
    assert found.offset == pytest.approx(offset, abs=0.2)


def test_among_rows_of_like_confidence_that_share_is_right():
    log_probs, right = drawn(0.5, -0.5)
    confidence = fit_calibration(log_probs, right)(log_probs)
    for low in (0.2, 0.5, 0.7):
        alike = (confidence >= low) & (confidence < low + 0.1)
        assert right[alike].mean() == pytest.approx(confidence[alike].mean(), abs=0.04)


def test_as_made_a_row_is_as_probable_as_the_model_was_sure():
    p = np.array([0.001, 0.2, 0.5, 0.9, 0.999])
    assert Calibration()(np.log(p)) == pytest.approx(p, rel=1e-4)


def test_a_model_that_made_no_mistake_is_still_doubted_where_it_doubts_itself():
    sure = np.full(900, np.log(0.9999))
    found = fit_calibration(sure, np.full(900, True))
    confidence = found(np.log([0.9999, 0.5, 0.01]))
    assert confidence[0] > 0.999
    assert confidence[1] < 0.9
    assert confidence[2] < 0.1


def test_a_single_mistake_does_not_make_all_answers_alike():
    rng = np.random.default_rng(0)
    log_probs = np.log(1 - rng.exponential(1e-3, 1000).clip(max=0.5))
    right = np.full(1000, True)
    right[np.argsort(log_probs)[500]] = False  # the model was as sure of it as of most others
    assert fit_calibration(log_probs, right)(np.log([0.01]))[0] < 0.2


def test_a_model_that_is_always_wrong_is_believed_no_more():
    found = fit_calibration(np.log(np.linspace(0.3, 0.9, 300)), np.full(300, False))
    assert (found(np.log(np.linspace(0.3, 0.9, 300))) < 0.1).all()


def test_a_score_that_misleads_is_not_followed():
    log_probs = np.linspace(-1, -0.01, 2000)
    found = fit_calibration(log_probs, log_probs < -0.5)
    assert found.scale == 0
    assert np.ptp(found(log_probs)) == 0


def test_what_was_never_written_is_not_right():
    assert Calibration(2.0, 50.0)(np.array([-np.inf])) == 0
    known = fit_calibration(*drawn(0.5, 0.0, 100))
    log_probs, right = drawn(0.5, 0.0, 100)
    more = np.append(log_probs, -np.inf), np.append(right, False)
    assert fit_calibration(*more) == known


def test_certainty_and_impossibility_are_no_overflow():
    assert np.isfinite(log_odds(np.array([0.0, -1e-30, -1e6]))).all()
    assert Calibration(10.0, 0.0)(np.array([-1e6, 0.0])) == pytest.approx([0, 1])


def test_weights_that_have_gone_astray_are_named():
    with pytest.raises(ValueError, match="log-probabilities are not finite"):
        fit_calibration(np.array([np.nan, -1.0]), np.array([True, False]))
