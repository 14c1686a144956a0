import math

import pytest
import torch

from trm.training.configs import ScheduleConfig
from trm.training.schedules import build_schedule, learning_rate_factor


def test_warmup_rises_in_equal_steps_and_never_starts_at_zero():
    config = ScheduleConfig(warmup_steps=4)
    assert [learning_rate_factor(s, config) for s in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


@pytest.mark.parametrize(
    ("decay", "middle"), [("linear", 0.55), ("cosine", 0.55), ("constant", 1.0)]
)
def test_decay_runs_from_one_to_min_ratio_at_the_end(decay, middle):
    config = ScheduleConfig(warmup_steps=10, decay=decay, min_ratio=0.1)
    factors = [learning_rate_factor(s, config, total_steps=30) for s in (10, 20, 30, 1000)]
    end = 1.0 if decay == "constant" else 0.1
    assert factors == pytest.approx([1.0, middle, end, end])


def test_cosine_decay_is_slow_at_both_ends():
    config = ScheduleConfig(decay="cosine")
    quarter, three_quarters = (learning_rate_factor(s, config, 100) for s in (25, 75))
    assert quarter == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert quarter + three_quarters == pytest.approx(1.0)


def test_the_schedules_own_length_comes_before_the_trainers():
    config = ScheduleConfig(decay="linear", total_steps=10)
    assert learning_rate_factor(5, config, total_steps=1000) == pytest.approx(0.5)


def test_trial_run_shorter_than_its_warmup_only_warms_up():
    config = ScheduleConfig(warmup_steps=100, decay="cosine")
    assert learning_rate_factor(0, config, total_steps=1) == pytest.approx(0.01)


@pytest.mark.parametrize("endless", [None, -1, math.inf])
def test_decay_without_an_end_is_refused_before_the_first_step(endless):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    with pytest.raises(ValueError, match="a cosine decay has to end somewhere"):
        build_schedule(optimizer, ScheduleConfig(warmup_steps=5, decay="cosine"), endless)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"decay": "cosin"}, "got 'cosin'. Did you mean cosine"),
        ({"warmup_steps": -1}, "warmup_steps is at least 0"),
        ({"min_ratio": 2.0}, "min_ratio is a factor from 0 to 1"),
        ({"warmup_steps": 9, "total_steps": 9}, "leaves no step after the 9 of"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        ScheduleConfig(**settings)
