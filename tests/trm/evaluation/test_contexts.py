"""What meets in a cell, against plain arithmetic; and which of it a model gets wrong."""

import json

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import row_steps
from canvas.symbols import BLANK, DIGIT_ZERO
from trm.evaluation.contexts import ENDS, FIELDS, ContextCoverage, cover_contexts, digits_of
from trm.evaluation.errors import columns_of
from trm.figures.contexts import contexts_figure
from trm.solving.rollout import Prediction, Predictor
from trm.solving.solver import Solver

SMALL = Multiplication("lattice", base=3, digits_a=(1, 2), digits_b=(1, 2))


def everything(task: Multiplication) -> Problems:
    """All problems of the task's sizes, of whatever split."""
    high = [task.base**n for n in task.longest]
    pairs = [(a, b) for a in range(1, high[0]) for b in range(1, high[1])]
    return Problems.from_ints(pairs, task.base)


class Student(Predictor):
    """Knows every row of some problems, except for one context, in which its digit is one off."""

    device = "cpu"

    def __init__(self, task: Multiplication, weak: tuple[int, ...]) -> None:
        self.task, self.rows, self.weak = task, {}, weak
        problems = everything(task)
        for i in range(len(problems)):
            self._learn(problems[i : i + 1])

    def _learn(self, problem: Problems) -> None:
        digits, drawing = (
            digits_of(self.task, problem),
            Solver(self, self.task).draw_worked(problem),
        )
        steps = row_steps(drawing)
        for row, (shown, labels) in enumerate(zip(steps.inputs, steps.labels, strict=True)):
            written, line = labels.copy(), int(drawing.row_of_step(row)[0])
            span = np.flatnonzero((labels[line] != BLANK) & steps.answer[row, line])
            mine = digits.row == row
            for context, place in zip(digits.contexts[mine], digits.place[mine], strict=True):
                if tuple(context) == self.weak:
                    cell = line, span[-1] - place
                    written[cell] = DIGIT_ZERO + (labels[cell] - DIGIT_ZERO + 1) % self.task.base
            self.rows[shown.tobytes()] = written

    def accepts(self, height: int, width: int) -> bool:
        return True

    def __call__(self, inputs: np.ndarray, *_: object, log_probs: bool = False) -> Prediction:
        canvases = np.stack([self.rows[canvas.tobytes()] for canvas in inputs])
        sure = np.full((*canvases.shape, 20), np.log(0.25), dtype=np.float32)
        return Prediction(canvases, np.ones(len(inputs)), np.zeros(len(inputs), int), sure)


def covered(weak: tuple[int, ...] = (), times: int = 2) -> ContextCoverage:
    return cover_contexts(Solver(Student(SMALL, weak), SMALL), 300, times)


def inner(coverage: ContextCoverage) -> tuple[int, ...]:
    """The context of an inner digit that training has most often."""
    at = coverage.contexts[:, FIELDS.index("end")] == ENDS.index("inner")
    return tuple(coverage.contexts[np.argmax(coverage.trained * at)].tolist())


def test_the_digits_of_a_lattice_meet_as_on_paper():
    digits = digits_of(Multiplication("lattice"), Problems.from_ints([(321, 54)]))
    # 321 x 4 = 1284, and 128 + 321 x 5 = 1733: digit of a, multiplier, handed down, carry, end.
    assert digits.contexts[:, :5].tolist() == [
        [1, 4, 0, 0, 0], [2, 4, 0, 0, 1], [3, 4, 0, 0, 1], [0, 4, 0, 1, 2],
        [1, 5, 8, 0, 0], [2, 5, 2, 1, 1], [3, 5, 1, 1, 1], [0, 5, 0, 1, 2],
    ]  # fmt: skip
    assert digits.contexts[:, 5].all()
    assert digits.row.tolist() == [0] * 4 + [1] * 4
    assert digits.place.tolist() == [0, 1, 2, 3] * 2


@pytest.mark.parametrize(
    "task",
    [
        *(Multiplication(layout) for layout in Multiplication.layouts),
        Multiplication("accumulate", base=3),
        Addition("column"),
        Addition("column_carries"),
    ],
    ids=lambda task: f"{task.layout} {task.base}",
)
def test_every_digit_is_what_its_context_comes_to(task):
    draw = np.random.default_rng(1)
    numbers = draw.integers(1, task.base**4, (40, 2)).tolist()
    problems = Problems.from_ints([*map(tuple, numbers), (1, task.base**3)], task.base)
    digits, work = digits_of(task, problems), task.rules.work(problems)
    columns = columns_of(task, problems)
    row_of_problem = np.arange(len(columns.problem)) - np.searchsorted(
        columns.problem, columns.problem
    )
    assert len(digits.row) == columns.lengths[columns.addends > 0].sum()
    last, factor, others, carry, _, _ = digits.contexts.T
    for i, row in enumerate(digits.row):
        line = work.truth[
            digits.problem[i], work.first_step[digits.problem[i]] + row_of_problem[row]
        ]
        shown = task.rules.given_columns()
        content = line[: work.widths[digits.problem[i]] - shown]
        written = content[content != BLANK][::-1]
        value = (last[i] * factor[i] + others[i] + carry[i]) % task.base
        assert written[digits.place[i]] == DIGIT_ZERO + value


def test_a_layout_that_does_not_say_what_its_rows_are_sums_of_is_refused(monkeypatch):
    monkeypatch.setattr(type(SMALL.rules), "addends", lambda *_: None)
    with pytest.raises(ValueError, match="the layout lattice does not say what its rows are sums"):
        digits_of(SMALL, Problems.from_ints([(1, 2)], 3))


def test_every_context_of_the_test_split_is_shown_and_one_that_fails_is_found():
    known = covered()
    weak = inner(known)
    student = covered(weak)
    assert (known.right == known.shown).all()
    assert not len(known.failing())
    (failing,) = student.failing()
    assert tuple(student.contexts[failing]) == weak
    assert student.right[failing] == 0
    assert student.shown[failing] > 0
    np.testing.assert_array_equal(known.contexts, student.contexts)
    np.testing.assert_allclose(known.confidence, 0.25, rtol=1e-6)
    assert known.trained[failing] > 0
    assert known.digits >= known.trained.sum()


def test_plain_data_and_a_picture_have_every_context():
    weak = inner(covered())
    coverage = covered(weak)
    data = json.loads(json.dumps(coverage.to_json()))
    assert len(data["contexts"]) == len(coverage.contexts)
    wrong = [line for line in data["contexts"] if line[8] < line[7]]
    assert [line[:6] for line in wrong] == [[*weak[:4], "inner", True]]
    figure = contexts_figure(coverage, "a student")
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == len(ENDS)
    cells = sum(
        int(np.isfinite(np.ma.filled(axes.images[0].get_array(), np.nan)).sum()) for axes in panels
    )
    assert cells == len(coverage.contexts)
    marks = [len(axes.collections[0].get_offsets()) for axes in panels]
    assert marks == [0, 1, 0]
