"""Local rules and sets of inputs held against drawn pages: the first difference is named."""

import numpy as np
import pytest
from twice import AddOnce, AddTwice

from canvas.addition import Addition
from canvas.cells.check import QUICK, check_reachable, check_rule, checked_canvases, edge_problems
from canvas.cells.reachable import reachable_cell_inputs
from canvas.check import check_layout
from canvas.choices import OwnCodeError
from canvas.multiplication import Multiplication


def wrong(call, *args) -> str:
    with pytest.raises(OwnCodeError) as error:
        call(*args)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_rule_that_agrees_with_its_layout_passes():
    task = AddTwice()
    assert check_rule(task, task.local_rule()) == 49 + sum(QUICK)
    check_reachable(task, task.local_rule(), reachable_cell_inputs(task.local_rule()))
    assert check_layout(task) > 30


def test_a_rule_of_another_sum_is_refused_with_its_first_cell():
    task = AddTwice("thrice")
    said = wrong(check_rule, task, task.local_rule())
    assert "ThriceRule is wrong: in row 3, column " in said
    assert "of 0 + 1 the rule returns 3, and the canvas" in said
    assert "has 2" in said
    assert said == wrong(check_layout, task), "trm render, Python and a configuration say it"


def test_a_class_beyond_its_signal_is_named():
    task = AddTwice("few_classes")
    said = wrong(check_rule, task, task.local_rule())
    assert "FewClassesRule is wrong: in row 3, column " in said
    assert "returns class 3 of sum_carry" in said


def test_an_answer_that_differs_from_the_tasks_is_named():
    task = AddOnce()
    said = wrong(check_rule, task, task.local_rule())
    assert "the answer of the task addonce is 1" in said


def test_a_rule_that_raises_is_named_with_its_line(monkeypatch):
    task = AddTwice()
    rule = task.local_rule()
    monkeypatch.setattr(type(rule), "times", None)
    assert "twice.py, line " in wrong(check_rule, task, rule)


def test_a_set_without_the_digit_four_lacks_an_input():
    task = AddTwice("no_four")
    rule = task.local_rule()
    assert check_rule(task, rule) > 100, "its cells are right"
    said = wrong(check_reachable, task, rule, reachable_cell_inputs(rule))
    assert "inputs of the local rule NoFourRule are too few: the cell in row 2," in said
    assert ", in which 4 stands, has an input that is not among them. Nothing is proved" in said


@pytest.mark.parametrize("base", [2, 16])
def test_rules_of_the_package_agree_with_their_layouts(base):
    """Pages have zeros, nines and single digits, and longer numbers, too."""
    for name, layout in Multiplication.layouts.items():
        if layout.local_rule:
            task = Multiplication(name, base=base, digits_a=(1, 4), digits_b=(1, 4))
            check_rule(task, task.local_rule(), (20, 10))
            check_rule(task, task.local_rule(latent=True), (20, 10))
    for name in Addition.layouts:
        task = Addition(name, base=base)
        check_rule(task, task.local_rule(), (20, 10))
        check_rule(task, task.local_rule(latent=True), (20, 10))


def test_checked_canvases_have_all_lengths_zeros_and_nines():
    task = Multiplication("standard", digits_a=(2, 4), digits_b=(2, 3))
    found: dict[bool, list] = {True: [], False: []}
    margins = set()
    for pages in checked_canvases(task, task.local_rule(), (40, 40)):
        found[pages.trained] += pages.problems.to_ints()
        margins |= set(zip(pages.drawing.left.tolist(), pages.drawing.widths.tolist(), strict=True))
    assert len(found[True]) == 40
    assert task.in_range(task.problems(found[True])).all()
    assert len(found[False]) == 49 + 40
    assert {(0, 0), (0, 9), (9, 0), (999999, 999999), (1001, 10)} <= set(found[False])
    longest = {max(len(str(n)) for n in one) for one in found[False][49:]}
    assert min(longest) > 4
    assert max(longest) > 8
    assert len(margins) > 20


def test_edge_problems_are_those_that_the_task_allows():
    class Ordered(Multiplication):
        def allows(self, problems):
            return np.array([a >= b for a, b in problems.to_ints()])

    found = edge_problems(Ordered("direct")).to_ints()
    assert len(found) == 28
    assert all(a >= b for a, b in found)
    three = edge_problems(Addition("column"), Addition("column").local_rule()).to_ints()
    assert (9, 0, 9) in three
    two = Addition("column_carries")
    assert {len(one) for one in edge_problems(two, two.local_rule()).to_ints()} == {2}
