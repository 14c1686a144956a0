"""Worked examples in the docstrings of local rules."""

import inspect
import textwrap

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.cells.drawn import drawn_cell_inputs
from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import NEIGHBOUR_NAMES, SYMBOL, Inputs, input_name
from canvas.multiplication import Multiplication
from canvas.picture import to_text
from canvas.problems import Problems
from canvas.sampling import sample
from canvas.symbols import CHARACTERS
from canvas.task import Task

# Task, operands, the cell's row on the page and its column from the right, from 1.
EXAMPLES = {
    "standard": (Multiplication("standard"), (47, 36), 4, 2, False),
    "running_sum": (Multiplication("running_sum"), (47, 36), 4, 2, False),
    "interleaved": (Multiplication("interleaved"), (47, 36), 6, 2, False),
    "accumulate": (Multiplication("accumulate"), (47, 36), 4, 2, False),
    "latent_long": (Multiplication("accumulate"), (47, 36), 4, 2, True),
    "lattice": (Multiplication("lattice"), (47, 36), 3, 4, False),
    "latent_lattice": (Multiplication("lattice"), (47, 36), 3, 4, True),
    "column": (Addition("column"), (47, 36), 3, 2, False),
    "column_carries": (Addition("column_carries"), (47, 36), 3, 2, False),
}


NO_NUMBERS = ("row", "zero", "adds", "total", "comes")  # signals whose class is not 1 + a number


def example(
    task: Task, operands: tuple[int, ...], row: int, column: int, latent: bool
) -> tuple[LocalRule, str]:
    """Return the rule, and its inputs and outputs in one cell of a page, as text."""
    rule = task.local_rule(latent)
    problems = Problems.from_ints([operands], task.base)
    drawing = task.canvas_layout.draw_worked(problems)
    found = drawn_cell_inputs(rule, drawing)
    cells = found.column == drawing.truth.shape[2] - column
    (cell,) = np.flatnonzero(cells & (found.row == row - 1))

    def shown(name: str, value: int) -> str:
        digits = 1 + rule.base
        if name in NO_NUMBERS:
            return f"{name} {value}"
        return f"{name} {'-' if value == 0 else value - 1 if value < digits else 'special'}"

    lines = [f"Example, {task.names(problems)[0]}:", ""]
    page = to_text(drawing.truth[0]).splitlines()
    lines += [f"    {line}" for line in page]
    lines += ["", f"The cell in row {row}, column {column} from the right:", ""]
    for direction, names in rule.messages.items():
        if names:
            values = (found.cell_inputs[input_name(direction, name)][cell] for name in names)
            said = ", ".join(shown(*one) for one in zip(names, values, strict=True))
            lines.append(f"- reads from {NEIGHBOUR_NAMES[direction].replace('_', ' ')}: {said}")
    written = CHARACTERS[found.outputs[SYMBOL][cell]]
    lines.append(f"- writes: {written}")
    said = ", ".join(shown(name, int(found.outputs[name][cell])) for name in rule.signals)
    lines.append(f"- decides: {said}")
    wrapped = [
        textwrap.wrap(line, 92, subsequent_indent="  ") if line[:1] == "-" else [line]
        for line in lines
    ]
    return rule, "\n".join(part for parts in wrapped for part in parts)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_docstrings_are_correct(name: str) -> None:
    rule, text = example(*EXAMPLES[name])
    documented = inspect.getdoc(inspect.getmodule(type(rule)))
    assert documented is not None
    assert text in documented


@pytest.mark.parametrize("name", EXAMPLES)
def test_decisions_of_op_inputs_are_those_of_their_cells(name: str) -> None:
    task, *_, latent = EXAMPLES[name]
    rule = task.local_rule(latent)
    drawing = task.canvas_layout.draw_worked(sample(task, 0, "train", 0, np.arange(20)))
    found = drawn_cell_inputs(rule, drawing)
    ids, cells = rule.op_input_ids(found.cell_inputs, found.outputs)
    for output, decided in zip((SYMBOL, *rule.signals), rule.decide(ids).T, strict=True):
        asked = decided >= 0
        assert asked.any()
        assert (decided == found.outputs[output][cells])[asked].all()


@pytest.mark.parametrize("base", [2, 10])
@pytest.mark.parametrize("layout", ["standard", "accumulate", "interleaved", "running_sum"])
def test_a_cell_without_ops_passes_the_signals_of_that_with_ops(layout: str, base: int) -> None:
    task = Multiplication(layout, base=base, digits_a=(1, 3), digits_b=(1, 3), smallest=0)
    hinted, rule = task.local_rule(), task.local_rule(latent=True)
    drawing = task.canvas_layout.draw_worked(sample(task, 0, "train", 0, np.arange(40)))
    with_ops, without = (drawn_cell_inputs(one, drawing).outputs for one in (hinted, rule))
    assert not rule.ops
    assert {*rule.signals} == {"written", *(n for of in hinted.messages.values() for n in of)}
    beyond = ("column_multiplier", "diagonal") if layout == "accumulate" else ()
    for name in {SYMBOL, *rule.signals} - {"written"}:
        differ = with_ops[name] != without[name]
        assert differ.any() == (name in beyond)
        # The rule with ops alone passes zeros on, on the left of b.
        assert (with_ops[name][differ] == 1).all()
        assert not without[name][differ].any()
        assert rule.signals.get(name) == hinted.signals.get(name)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("the leftmost column has a digit of a", {"above_left": 0, "above_right.passing": 2}),
        ("a sum on the left of a", {"above_right.passing": "special", "above.sum": 2}),
        ("a row below that of the last digit of b", {"above_left.diagonal": 0}),
    ],
)
def test_inputs_that_no_solution_has_are_left_out(name: str, changed: dict[str, int | str]) -> None:
    task = Multiplication("accumulate", base=2, smallest=0)
    rule = task.local_rule(latent=True)
    drawing = task.canvas_layout.draw_worked(Problems.from_ints([(5, 6)], 2))
    found = drawn_cell_inputs(rule, drawing)
    units = found.column == drawing.truth.shape[2] - 1
    (which,) = np.flatnonzero((found.row == 3) & units)
    column = "units" if "last digit" in name else "rest"
    inputs = Inputs({n: part[[which]] for n, part in found.cell_inputs.items()})
    assert rule.can_occur("total", column, inputs).all()
    for signal, value in changed.items():
        inputs[signal] = np.array([rule.base + 1 if value == "special" else value])
    assert not rule.can_occur("total", column, inputs).any()


def test_latent_codes_beyond_the_classes_change_no_rule() -> None:
    rule = Multiplication("accumulate", base=2).local_rule(latent=True)
    coded = rule.with_codes({"carry": 30, "sum": 3})
    inputs = coded.cell_inputs(np.arange(0, coded.whole.starts[-1], coded.whole.starts[-1] // 999))
    assert inputs["right.carry"].max() > 1
    outputs = coded.cell((), inputs)
    assert all((outputs[name] >= 0).all() for name in coded.signals)


def test_a_written_digit_is_that_of_its_cell() -> None:
    task = Multiplication("accumulate", base=2, smallest=0)
    drawing = task.canvas_layout.draw_worked(Problems.from_ints([(3, 3)], 2))
    found = drawn_cell_inputs(task.local_rule(latent=True), drawing)
    shown = np.zeros(drawing.truth.shape[1:], dtype=int)
    shown[found.row, found.column] = found.outputs["written"]
    assert shown.tolist() == [[0, 0, 2, 2]] * 3 + [[2, 1, 1, 2]]
