import pytest

from trm.evaluation.statistics import Share
from trm.figures.studies import Found, Gathered, study_figure

COST = {"flops": 2e12, "samples": 960, "seconds": 120.0}


def setting(name: str, *rights: int, cost=COST) -> Gathered:
    """Each seed's right solutions of 100."""
    shares = [{"4 x 4 digits": Share(right, 100)} for right in rights]
    seeds = [Found(some, cost, None, cost and 12e6) for some in shares]
    return Gathered(name, 10, tuple(seeds))


def test_the_picture_has_a_mark_for_every_seed():
    held = [setting("a", 100, 50), setting("c", 25)]
    by_setting, training, minutes, solving = study_figure({"near": held, "far": []}).axes
    assert [text.get_text() for text in by_setting.get_yticklabels()] == ["a", "c"]
    marks = [line for line in by_setting.lines if line.get_linestyle() == "None"]
    assert sorted(x for line in marks for x in line.get_xdata()) == [0.25, 0.5, 1]
    for axes, cost in ((training, 2.0), (minutes, 2.0), (solving, 12.0)):
        assert all(x == pytest.approx(cost) for line in axes.lines for x in line.get_xdata())


def test_the_picture_does_without_costs_and_without_anything():
    assert not study_figure({"near": [setting("a", 5, cost=None)]}).axes[1].axison
    assert study_figure({"near": []}) is None
