from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trm.figures.tensorboard_curves import write_tensorboard


def board(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def test_each_model_is_a_run_with_its_shares_over_all_cells_and_by_length(make_grid, tmp_path):
    grid = make_grid({"good": lambda a, b: 1.0, "so/so": lambda a, b: 0.5 if b < 3 else None}, 4, 3)
    write_tensorboard(tmp_path, grid)
    names = ("1_good", "2_so_so")
    good, so_so = (board(tmp_path / "tensorboard" / name) for name in names)
    [whole] = good.Scalars("all_cells/solutions")
    assert (whole.step, whole.value) == (grid["models"][0]["step"], 1.0)
    assert so_so.Scalars("all_cells/solutions")[0].value == pytest.approx(0.5, abs=0.01)
    lengths = so_so.Scalars("by_digits_of_a/digits_of_b_02")
    assert [event.step for event in lengths] == [1, 2, 3, 4]
    assert "by_digits_of_a/digits_of_b_03" not in so_so.Tags()["scalars"]  # not applicable
    tags = good.Tags()["scalars"]
    assert "solutions/first_beyond" in tags
    assert len(tags) > 10
    for tag in tags:  # every curve says what it shows
        assert good.SummaryMetadata(tag).summary_description.endswith(".")
    sums = make_grid({"one": lambda a, b: 1.0}, 3, [2, 3], axes=("digits", "addends"))
    write_tensorboard(tmp_path / "sums", sums)
    events = board(tmp_path / "sums/tensorboard/1_one").Scalars("by_digits/addends_03")
    assert [event.step for event in events] == [1, 2, 3]
