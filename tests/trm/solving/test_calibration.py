import numpy as np
import pytest

from trm.solving.gpt_predictor import Calibration, fit_calibration


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
