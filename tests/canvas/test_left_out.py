import numpy as np
import pytest

from canvas.addition import Addition
from canvas.sampling import sample
from canvas.task import describe_ranges
from canvas.tasks import task_data
from trm.evaluation.grid_cells import INSIDE, LEFT_OUT, SECOND, region
from trm.training.curriculum import Curriculum, Stage

TASK = Addition(digits=(1, 5), left_out=(4,))


def test_no_addend_has_a_length_that_is_left_out():
    problems = sample(TASK, 0, "train", 0, np.arange(300))
    assert {*problems.lengths.ravel().tolist()} == {1, 2, 3, 5}
    assert TASK.in_range(problems).all()
    assert not TASK.in_range(TASK.problems([(1234, 1), (1, 1234)])).any()
    assert describe_ranges(TASK.ranges, TASK.gaps) == "1 to 5 digits without 4, 2 addends"
    shorter = Addition(digits=(1, 3), left_out=(4,))  # of a curriculum
    assert describe_ranges(shorter.ranges, shorter.gaps) == "1 to 3 digits, 2 addends"


def test_a_length_that_is_left_out_is_a_region_of_its_own():
    by_digits = [region(TASK.ranges, ("digits", "addends"), (n, 2), TASK.gaps) for n in (3, 4, 5)]
    assert by_digits == [INSIDE, LEFT_OUT, INSIDE]
    assert region(TASK.ranges, ("digits_a", "digits_b"), (1, 4), TASK.gaps) == LEFT_OUT
    assert region(TASK.ranges, ("digits_a", "digits_b"), (4, 6), TASK.gaps) == SECOND


def test_ends_are_not_left_out_and_a_curriculum_keeps_the_gap():
    with pytest.raises(ValueError, match="to leave out an end, change digits"):
        Addition(digits=(1, 5), left_out=(5,))
    short = Curriculum(TASK, [Stage(1, {"digits": (1, 3)})]).at(0)
    assert short.left_out == (4,)
    with pytest.raises(ValueError, match="is left out of the task"):
        Curriculum(TASK, [Stage(1, {"left_out": ()})])


def test_a_task_that_leaves_nothing_out_has_the_data_of_before():
    assert "left_out" not in task_data(Addition(digits=(1, 4)))
    assert task_data(TASK)["left_out"] == (4,)
