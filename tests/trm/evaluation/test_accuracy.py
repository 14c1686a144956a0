from collections import Counter
from types import SimpleNamespace

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import Problems, split_of
from trm.evaluation.accuracy import answers, by_size, held_out, workings


class Recorder:
    """A solver that only remembers what it was given."""

    def __init__(self, task: Multiplication) -> None:
        self.task = task

    def solve(self, problems: Problems, with_truth: bool = False) -> list[tuple[int, ...]]:
        assert with_truth  # solutions are judged cell by cell
        self.problems = problems
        return problems.to_ints()


def said(*operands: int, correct: bool = True, exact: bool = True) -> SimpleNamespace:
    return SimpleNamespace(operands=operands, correct=correct, exact=exact)


def test_problems_held_out_belong_to_their_split_alone():
    solver = Recorder(Multiplication(digits_a=(1, 3), digits_b=(1, 3)))
    for index, split in ((1, "validation"), (2, "test")):
        held_out(solver, 50, split)
        assert (split_of(solver.problems) == index).all()


def test_a_large_number_can_be_solved_batch_by_batch():
    solver = Recorder(Multiplication())
    at_once = held_out(solver, 30, seed=5)
    assert at_once == held_out(solver, 10, seed=5) + held_out(solver, 20, seed=5, first=10)
    assert at_once != held_out(solver, 30, seed=6)


def test_lengths_are_drawn_evenly_whatever_training_favoured():
    solver = Recorder(Multiplication(digits_a=(2, 3), digits_b=(2, 3), long_bias=8.0))
    held_out(solver, 400)
    counts = Counter(map(tuple, solver.problems.lengths.tolist()))
    assert len(counts) == 4
    assert min(counts.values()) > 60


def test_answers_are_counted():
    share = answers([said(2, 3), said(2, 4, correct=False), said(5, 5)])
    assert (share.right, share.total) == (2, 3)


def test_workings_count_only_where_every_cell_is_right():
    share = workings([said(2, 3), said(2, 4, exact=False), said(5, 5, correct=False, exact=False)])
    assert (share.right, share.total) == (1, 3)


def test_answers_are_counted_for_each_pair_of_lengths():
    solved = [said(12, 3), said(99, 9, correct=False), said(9, 10), said(100, 1)]
    cells = by_size(solved, Multiplication())
    assert list(cells) == [(1, 2), (2, 1), (3, 1)]
    assert (cells[2, 1].right, cells[2, 1].total) == (1, 2)


def test_lengths_are_those_of_the_models_base():
    assert list(by_size([said(8, 2)], Multiplication(base=2))) == [(4, 2)]
    assert list(by_size([said(9, 2)], Multiplication(base=3))) == [(3, 1)]


def test_sums_are_counted_by_the_longest_addend_and_their_number():
    solved = [said(12, 3), said(4, 99, correct=False), said(1, 2, 3), said(100, 0, 7, 8)]
    cells = by_size(solved, Addition())
    assert list(cells) == [(1, 3), (2, 2), (3, 4)]
    assert (cells[2, 2].right, cells[2, 2].total) == (1, 2)
