"""Problems longer than those of training: which, and where there are none."""

from types import SimpleNamespace

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import split_of
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.training.beyond import longer
from trm.training.data import CanvasDataModule

TASK = Multiplication("standard", base=3, digits_a=(1, 3), digits_b=(1, 2))


def data(canvas: Canvas | None = None, **more) -> CanvasDataModule:
    settings = {"batch_size": 8, "batches_per_epoch": 4, "validation_problems": 10} | more
    made = CanvasDataModule(TASK, canvas or Canvas(), beyond_problems=6, **settings)
    model = TinyRecursiveModel(RecursiveConfig(hidden_size=16, position="relative_2d"))
    made.trainer = SimpleNamespace(
        world_size=1,
        global_rank=0,
        max_epochs=1,
        lightning_module=SimpleNamespace(model=model),
    )
    return made


def test_both_operands_have_twice_the_digits_and_are_of_the_validation_split():
    made = data(training_problems=4)
    made.setup("fit")
    assert made.groups == ("validation", "training_problems", "beyond")
    (problems, drawing), *others = made.val_dataloader()[2]
    assert (len(problems), others) == (6, [])
    assert (problems.lengths == [6, 4]).all()
    assert (split_of(problems) == 1).all()
    again = next(iter(made.val_dataloader()[2]))[1]
    assert (drawing.truth == again.truth).all()


def test_they_are_worked_out_in_a_run_alone():
    made = data()
    made.setup("validate")
    assert made.groups == ("validation",)
    assert len(made.val_dataloader()) == 1


@pytest.mark.parametrize(
    ("task", "canvas", "position", "why"),
    [
        (TASK, Canvas(12, 12), "relative_2d", "training's canvas is of a fixed size"),
        (TASK, Canvas(), "learned", "the model takes no canvas of 8 x 11"),
        (Multiplication(digits_a=(1, 40), digits_b=(1, 1)), Canvas(), "relative_2d", ""),
        (
            Multiplication(digits_a=(1, 20), digits_b=(1, 20)),
            Canvas(),
            "relative_2d",
            "would take too long",
        ),
        (
            Multiplication(digits_a=(1, 600), digits_b=(1, 1)),
            Canvas(),
            "relative_2d",
            "numbers have at most 1,000 digits",
        ),
        (Addition("column", digits=(1, 5), addends=(2, 3)), Canvas(), "relative_2d", ""),
    ],
)
def test_they_are_left_out_where_they_cannot_be_worked_out(task, canvas, position, why):
    config = RecursiveConfig(hidden_size=16, position=position, height=4, width=5)
    found = longer(task, canvas, TinyRecursiveModel(config))
    assert why in found.left_out
    assert bool(why) == bool(found.left_out)
    assert found.lengths == tuple(2 * np.array(task.longest))


def test_a_negative_number_of_them_is_refused():
    with pytest.raises(ValueError, match=r"data\.beyond_problems is 0 or more, not -1"):
        CanvasDataModule(TASK, Canvas(), beyond_problems=-1)
