"""Training problems that change from stage to stage, or are weighed by how rare they are."""

import pickle

import pytest

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from trm.training.data import CanvasDataModule
from trm.training.samples import Curriculum, RowStepSamples, SequenceSamples, Stage

TASK = Multiplication("lattice", digits_a=(1, 4), digits_b=(1, 3), long_bias=1.0)
STAGES = [
    Stage(2, {"digits_a": [1, 2], "digits_b": [1, 1]}),
    Stage(3, {"digits_a": [1, 3], "repeats": 0.5}),
]


def test_each_epoch_is_of_its_stage_and_the_last_ones_of_the_whole_task():
    stages = Curriculum(TASK, STAGES)
    first, second = stages.at(0), stages.at(2)
    assert stages.at(1) is first
    assert (first.digits_a, first.digits_b, first.long_bias) == ((1, 2), (1, 1), 1.0)
    assert (second.digits_a, second.digits_b, second.repeats) == ((1, 3), (1, 3), 0.5)
    assert stages.at(3) is stages.at(100) is TASK
    assert Curriculum(TASK).at(0) is TASK


@pytest.mark.parametrize("kind", [RowStepSamples, SequenceSamples])
def test_samples_are_as_long_as_their_stage_allows(kind):
    data = kind(TASK, Canvas(), "train", 0, 64, 64, curriculum=Curriculum(TASK, STAGES))
    longest = [
        tuple(data._drawing(range(64 * epoch, 64 * epoch + 64))[0].lengths.max(axis=0).tolist())
        for epoch in range(5)
    ]
    assert longest == [(2, 1), (2, 1), (3, 3), (4, 3), (4, 3)]
    heights = [data.__getitems__(range(64 * epoch, 64 * epoch + 64)) for epoch in (0, 4)]
    small, large = (next(iter(batch.values())) for batch in heights)
    assert small[0].numel() < large[0].numel()


def test_the_problems_worked_out_of_training_are_those_first_drawn():
    data = CanvasDataModule(
        TASK, Canvas(), batch_size=8, training_problems=16, seed=3, curriculum=STAGES
    )
    data.stage = "fit"
    drawn = [pair for problems, _ in data.val_dataloader()[1] for pair in problems.to_ints()]
    samples = RowStepSamples(TASK, Canvas(), "train", 3, 16, 8, curriculum=Curriculum(TASK, STAGES))
    assert drawn == samples._drawing(range(16))[0].to_ints()


def test_samples_follow_from_the_index_also_in_another_process_and_stage():
    task = Multiplication("lattice", digits_a=(1, 3), digits_b=(1, 3), long_bias=1.0)
    stages = Curriculum(task, [Stage(1, {"digits_a": [1, 2], "digits_b": [1, 1]})])
    data = RowStepSamples(task, Canvas(9, 9), "train", 7, 64, 8, curriculum=stages)
    late = data.__getitems__(range(64, 72))["labels"]
    early = data._drawing(range(64))[0]
    assert early.lengths.max(axis=0).tolist() == [2, 1]
    again = pickle.loads(pickle.dumps(data))
    assert (again.__getitems__(range(64, 72))["labels"] == late).all()
    assert (data[65]["labels"][0] == late[1]).all()
