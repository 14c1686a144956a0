from collections import Counter
from types import SimpleNamespace

from canvas.problems import Problems, Task, split_of
from trm.evaluation.accuracy import by_length, held_out, products


class Recorder:
    """A solver that only remembers what it was given."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def solve(self, problems: Problems) -> list[tuple[int, int]]:
        self.problems = problems
        return list(zip(problems.a.to_ints(), problems.b.to_ints(), strict=True))


def said(a: int, b: int, correct: bool = True) -> SimpleNamespace:
    return SimpleNamespace(a=a, b=b, correct=correct)


def test_problems_held_out_belong_to_their_split_alone():
    solver = Recorder(Task(digits_a=(1, 3), digits_b=(1, 3)))
    for index, split in ((1, "validation"), (2, "test")):
        held_out(solver, 50, split)
        assert (split_of(solver.problems.a, solver.problems.b) == index).all()


def test_a_large_number_can_be_solved_batch_by_batch():
    solver = Recorder(Task())
    at_once = held_out(solver, 30, seed=5)
    assert at_once == held_out(solver, 10, seed=5) + held_out(solver, 20, seed=5, first=10)
    assert at_once != held_out(solver, 30, seed=6)


def test_lengths_are_drawn_evenly_whatever_training_favoured():
    solver = Recorder(Task(digits_a=(2, 3), digits_b=(2, 3), long_bias=8.0))
    held_out(solver, 400)
    counts = Counter(
        zip(solver.problems.a.lengths.tolist(), solver.problems.b.lengths.tolist(), strict=True)
    )
    assert len(counts) == 4
    assert min(counts.values()) > 60


def test_products_are_counted():
    share = products([said(2, 3), said(2, 4, False), said(5, 5)])
    assert (share.right, share.total) == (2, 3)


def test_products_are_counted_for_each_pair_of_lengths():
    cells = by_length([said(12, 3), said(99, 9, False), said(9, 10), said(100, 1)], base=10)
    assert list(cells) == [(1, 2), (2, 1), (3, 1)]
    assert (cells[2, 1].right, cells[2, 1].total) == (1, 2)


def test_lengths_are_those_of_the_models_base():
    assert list(by_length([said(8, 2)], base=2)) == [(4, 2)]
    assert list(by_length([said(9, 2)], base=3)) == [(3, 1)]
