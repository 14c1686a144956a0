import pytest

from trm.evaluation.grid import Grid
from trm.figures.studies import study_figure

COST = {"flops": 2e12, "samples": 960, "seconds": 120.0}


@pytest.fixture
def studied(make_grid):
    """An evaluation of settings, each the shares of its seeds that are right."""

    def made(cost=COST, **rights: list[float]) -> Grid:
        seeds = [(name, right) for name, some in rights.items() for right in some]
        grids = [
            make_grid({name: lambda a, b, right=right: right}, [4], [3], problems=100, cost=cost)
            for name, right in seeds
        ]
        return Grid(grids[0], models=[grid.models[0] for grid in grids])

    return made


def test_the_picture_has_a_mark_for_every_seed_and_does_without_costs(studied):
    figure = study_figure({"near": studied(a=[1, 0.5], c=[0.25])})
    by_setting, training, minutes, solving = figure.axes
    assert [text.get_text() for text in by_setting.get_yticklabels()] == ["a", "c"]
    marks = [line for line in by_setting.lines if line.get_linestyle() == "None"]
    assert sorted(x for line in marks for x in line.get_xdata()) == [0.25, 0.5, 1]
    for axes, cost in ((training, 2.0), (minutes, 2.0), (solving, 12.0)):
        assert all(x == pytest.approx(cost) for line in axes.lines for x in line.get_xdata())
    assert not study_figure({"near": studied(cost=None, a=[0.05])}).axes[1].axison
    assert study_figure({}) is None
