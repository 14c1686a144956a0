"""Cell inputs: drawn pages against the local rules, and the reachable set against drawn pages."""

import random
from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.cells.drawn import draw_signals, drawn_cell_inputs
from canvas.cells.local_rule import LocalRule
from canvas.cells.reachable import reachable_cell_inputs, reachable_op_inputs
from canvas.cells.rules.accumulate import AccumulateRule
from canvas.cells.spec import NEIGHBOURS, SYMBOL, TOKEN, Inputs, input_name
from canvas.drawing import UNDEFINED
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import BLANK, MASK, TIMES
from canvas.task import Task

TASKS: dict[str, Task] = {
    "lattice": Multiplication(layout="lattice"),
    "lattice, base 2": Multiplication(layout="lattice", base=2),
    "lattice, base 3": Multiplication(layout="lattice", base=3),
    "standard, base 3": Multiplication(layout="standard", base=3, smallest=0),
    "accumulate, base 3": Multiplication(layout="accumulate", base=3, smallest=0),
    "interleaved, base 2": Multiplication(layout="interleaved", base=2, smallest=0),
    "running_sum, base 2": Multiplication(layout="running_sum", base=2, smallest=0),
    "column": Addition(layout="column"),
    "column, base 2": Addition(layout="column", base=2),
    "column_carries": Addition(layout="column_carries"),
    "column_carries, base 2": Addition(layout="column_carries", base=2),
    "latent column": Addition(layout="column"),
    "latent lattice": Multiplication(layout="lattice", smallest=0),
    "latent lattice, base 3": Multiplication(layout="lattice", base=3, smallest=0),
    "latent accumulate": Multiplication(layout="accumulate", base=2, smallest=0),
}
SMALL = [name for name in TASKS if name != "lattice"]  # whose 1.2 million inputs take seconds


def rule_of(name: str) -> LocalRule:
    return TASKS[name].local_rule(latent=name.startswith("latent"))


@cache
def closed(name: str) -> Inputs:
    rule = rule_of(name)
    return rule.cell_inputs(reachable_cell_inputs(rule))


@cache
def all_cell_inputs(name: str) -> np.ndarray:
    rule = rule_of(name)
    if not rule.ops:
        return rule.whole.encode(0, closed(name))
    return np.unique(rule.op_input_ids(closed(name), rule.apply(closed(name)))[0])


def drawn(task: Task, operands: list[tuple[int, ...]], around: tuple[int, int, int]):
    """Pages with blank columns on both sides and blank rows above, and their cell inputs."""
    problems = Problems.from_ints(operands, task.base)
    left, right, top = around
    height, width = task.canvas_layout.draw(problems).canvases.shape[1:]
    size = top + height, left + width + right
    return task.canvas_layout.draw_worked(problems, *size, top=top, left=left)


@pytest.mark.parametrize("name", SMALL)
def test_rules_write_solutions_within_their_reachable_inputs(name: str) -> None:
    task, rule, draw = TASKS[name], rule_of(name), random.Random(name)
    most, known = rule.most_operands or (7 if task.layout == "column" else 2), all_cell_inputs(name)

    def operand() -> int:
        least, above = task.smallest, task.base ** draw.randint(1, 12)
        ends = least, above - 1, above
        return draw.choice(ends) if draw.random() < 0.2 else draw.randint(least, above)

    for _ in range(3):
        count, around = draw.randint(2, most), tuple(map(draw.randrange, (4, 4, 3)))
        operands = [tuple(operand() for _ in range(count)) for _ in range(15)]
        drawing = drawn(task, operands, around)
        some = np.array([draw.randrange(n) for n in drawing.num_rows])
        for rows in (None, some):
            found = drawn_cell_inputs(rule, drawing, rows)
            asked = found.cell_inputs[TOKEN] == MASK
            truth = drawing.truth[found.canvas, found.row, found.column]
            assert (found.outputs[SYMBOL][asked] == truth[asked]).all()
            if rows is None:
                seen = rule.op_input_ids(found.cell_inputs, found.outputs)[0]
                assert np.isin(seen, known).all()


Cells = dict[str, dict[tuple[int, int], int]]  # by field the class at a row and column, 0 elsewhere


def digits(value: int, base: int) -> list[int]:
    """The digits of a number, the lowest first."""
    found = [value % base]
    while value := value // base:
        found.append(value % base)
    return found


def fields_by_integers(task: Task, operands: tuple[int, ...]) -> Cells:
    """Decisions of the cells of a lattice or column; columns from the right end of the numbers."""
    base, found = task.base, defaultdict(dict)

    def number(signal: str, row: int, value: int) -> None:
        found[signal] |= {(row, c): 1 + digit for c, digit in enumerate(digits(value, base))}

    def carries(signal: str, row: int, *values: int, times: int = 1) -> None:
        """Out of each column of a sum, or of a number times a digit, from column 0 on."""
        for c in range(20):
            low = sum(value % base ** (c + 1) for value in values)
            found[signal][row, c] = 1 + low * times // base ** (c + 1)

    if isinstance(task, Addition):
        for row in range(1 + len(operands)):
            if row < len(operands):
                number("addend", row, operands[row])
            if row:
                number("sum", row, sum(operands[:row]))
                carries("sum_carry", row, sum(operands[: row - 1]), operands[row - 1])
        return found
    a, b = operands
    number("multiplicand", 0, a)
    above = 0
    for row, digit in enumerate(digits(b, base), start=1):
        number("multiplicand", row, a)
        found["multiplier"] |= {(row, c): 1 + digit for c in range(-2, 20)}
        carries("carry", row, a, times=digit)
        written = digits(a * digit, base) + [0] * len(digits(a, base))
        for c in range(max(len(digits(a, base)), len(digits(a * digit, base)))):
            found["product"][row, c - 1] = 1 + written[c]  # worked out one cell ahead
        carries("sum_carry", row, above // base, a * digit)
        above = above // base + a * digit
        number("addend", row, above)
    found["carry"] = {(row, c - 1): found for (row, c), found in found["carry"].items()}
    return found


@pytest.mark.parametrize("name", [n for n in TASKS if n.split(",")[0] in ("lattice", "column")])
def test_signals_agree_with_integers_down_to_an_op(name: str) -> None:
    task, draw = TASKS[name], random.Random(name)
    most = 2 if isinstance(task, Multiplication) else 4
    counts = [draw.randint(2, most) for _ in range(40)]
    operands = [
        tuple(draw.randrange(1, task.base ** draw.randint(1, 4)) for _ in range(count))
        for count in counts
    ]
    drawing = drawn(task, operands, (2, 1, 1))
    step = np.array([draw.randrange(n) for n in drawing.num_rows])
    maps = draw_signals(task.local_rule(), drawing, step)
    for i, numbers in enumerate(operands):
        expected = fields_by_integers(task, numbers)
        assert set(expected) == set(maps)
        end = int(drawing.left[i] + drawing.widths[i]) - task.canvas_layout.margin
        for signal, cells in expected.items():
            right = np.zeros(maps[signal].shape[1:], dtype=np.uint8)
            for (row, column), held in cells.items():
                if end - 1 - column >= 0:
                    right[drawing.top[i] + row, end - 1 - column] = held
            right[drawing.canvas_row(step)[i] + 1 :] = UNDEFINED
            np.testing.assert_array_equal(maps[signal][i], right, f"{signal} of {numbers}")


NUMBERS = {"lattice, base 2": 184, "lattice, base 3": 1368, "lattice": 1204976, "column": 5593}
NUMBERS |= {"column_carries": 834, "standard, base 3": 345}
NUMBERS |= {"latent lattice": 7406, "latent column": 801}


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_numbers_of_reachable_cell_inputs_are_pinned(name: str, number: int) -> None:
    """The lattice's are those of an independent enumeration, and 20 that a or b of 0 show."""
    rule = rule_of(name)
    assert len(all_cell_inputs(name) if rule.ops else reachable_cell_inputs(rule)) == number
    if number < 300:
        assert (reachable_op_inputs(rule) == all_cell_inputs(name)).all()


@pytest.mark.parametrize("name", ["lattice, base 3", "column, base 2"])
def test_reachable_cell_inputs_are_closed(name: str) -> None:
    """Each message of a cell is in some cell input of the set, on its left and below."""
    rule = rule_of(name)
    cell_inputs = closed(name)
    outputs = rule.apply(cell_inputs)
    asked = cell_inputs[TOKEN] == MASK
    for who, names in (("right", rule.left), ("above", rule.down)):
        seen = rule.message_id(names, {name: cell_inputs[f"{who}.{name}"] for name in names})
        handed = rule.message_id(names, outputs)
        last = asked & (who == "above") & ("column" in name)  # the answer is last
        assert set(handed[~last]) <= set(seen[cell_inputs[who] > 0])
    assert 0 < asked.sum() < len(asked)


@pytest.mark.parametrize("name", SMALL)
def test_ids_of_inputs_and_of_latent_codes_can_be_decoded(name: str) -> None:
    rule = rule_of(name)
    numbers = all_cell_inputs(name)[:1000]
    for number, (_, here, seen) in enumerate(rule.encoding.decode(numbers)):
        assert (rule.encoding.encode(number, seen) == numbers[here]).all()


def test_rules_declare_their_inputs_layouts_and_latent_codes():
    class Curious(type(TASKS["standard, base 3"].canvas_layout).local_rule):  # type: ignore[misc,name-defined]
        def cell(self, outputs, seen):
            return super().cell(outputs, seen | {TOKEN: seen["above.sum"]})

    rule = Curious(3)
    drawing = drawn(TASKS["standard, base 3"], [(1, 1)], (0, 0, 0))
    with pytest.raises(KeyError, match=r"an op reads above.sum, which is not"):
        drawn_cell_inputs(rule, drawing)
    lattice = type(TASKS["lattice"].canvas_layout)

    class Mine(lattice):  # type: ignore[valid-type,misc]
        def rows(self, operands):
            yield from super().rows(operands)

    assert lattice.local_rule is not None
    assert Mine.local_rule is Mine.latent_rule is None
    rule = rule_of("latent lattice").with_codes({"carry": 32})
    assert rule.signals["carry"] == 32
    with pytest.raises(ValueError, match="codes name sum, and cells pass multiplier, carry"):
        rule.with_codes({"sum": 4})
    with pytest.raises(ValueError, match="carry has 2 to 62 codes, not 1"):
        rule.with_codes({"carry": 1})
    with pytest.raises(ValueError, match="work in steps"):
        rule_of("standard, base 3").with_codes({"row": 4})


def from_right(rule: LocalRule, cell_inputs: Inputs) -> np.ndarray:
    """Messages from the right, as codes; 0: there is no such cell."""
    codes = rule.message_id(rule.left, {name: cell_inputs[f"right.{name}"] for name in rule.left})
    return codes * cell_inputs["right"]


def after(rule: LocalRule, cell_inputs: Inputs, token: int) -> np.ndarray:
    """Messages from the right where all cells up to the page's edge have one token, as codes."""
    left, codes = rule.message_id(rule.left, rule.apply(cell_inputs)), np.zeros(1, np.int64)
    while True:
        more = left[(cell_inputs[TOKEN] == token) & np.isin(from_right(rule, cell_inputs), codes)]
        if np.isin(more, codes).all():
            return codes
        codes = np.union1d(codes, more)


@pytest.mark.parametrize("name", [name for name in SMALL if "column" not in name])
def test_the_upright_view_alone_has_reachable_inputs_at_any_size(name):
    """The argument of docs/proof.md, of all cell inputs that there are."""
    rule, cell_inputs = rule_of(name), closed(name)
    right, asked = from_right(rule, cell_inputs), cell_inputs[TOKEN] == MASK
    # Transposed, or upside down, there is a cell to be filled in in the first row.
    assert not (asked & (cell_inputs["above"] == 0)).any()
    if "lattice" not in name:  # mirrored, the sign has blank cells alone on its right
        signs = right[cell_inputs[TOKEN] == TIMES]
        assert len(signs)
        assert not np.isin(signs, after(rule, cell_inputs, BLANK)).any()
    else:  # mirrored, a digit of a is above a cell that has no multiplier on its right
        met = asked & (cell_inputs["above.multiplicand"] > 0)
        assert met.any()
        assert not np.isin(right[met], after(rule, cell_inputs, MASK)).any()


class SideBySide(LocalRule):
    """Two rules of one layout on the same pages; counts cells to be filled in where they differ."""

    def __init__(self, *rules: LocalRule) -> None:
        self.parts = {f"{number} ": rule for number, rule in enumerate(rules)}
        for direction in NEIGHBOURS:
            names = (
                which + n for which, rule in self.parts.items() for n in getattr(rule, direction)
            )
            setattr(self, direction, tuple(names))
        super().__init__(rules[0].base)
        self.rows, self.differ = rules[0].rows, 0

    def classes(self, signal: str) -> int:
        return self.parts[signal[:2]].signals[signal[2:]]

    def cell(self, outputs: tuple[str, ...], seen: Inputs) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        written = []
        for which, rule in self.parts.items():
            out = rule.apply(self.inputs(which, seen))
            written.append(out.pop(SYMBOL))
            found |= {which + name: part for name, part in out.items()}
        self.differ += int((written[0] != written[1])[seen[TOKEN] == MASK].sum())
        return found | {SYMBOL: written[0]}

    def inputs(self, which: str, seen: Inputs) -> Inputs:
        """Return the inputs of one of the rules."""
        mine = Inputs({TOKEN: seen[TOKEN]})
        for direction, names in self.parts[which].whole.directions.items():
            mine[input_name(direction, "")] = seen[input_name(direction, "")]
            mine |= {
                input_name(direction, n): seen[input_name(direction, which + n)] for n in names
            }
        return mine

    def can_occur(self, row: str, column: str, cell_inputs: Inputs) -> np.ndarray:
        return np.logical_and.reduce(
            [
                rule.can_occur(row, column, self.inputs(which, cell_inputs))
                for which, rule in self.parts.items()
            ]
        )


@pytest.mark.parametrize(("base", "number"), [(2, 184), (3, 1368), (5, 22516)])
def test_rules_of_the_lattice_agree_with_and_without_hints(base, number):
    """So the laws of the lattice are of both: whatever cells of both can meet, they write it."""
    task = Multiplication("lattice", base=base)
    both = SideBySide(task.local_rule(), task.local_rule(latent=True))
    assert len(reachable_cell_inputs(both)) == number
    assert both.differ == 0


@pytest.mark.parametrize("base", [2, 3])
def test_rules_of_accumulate_agree_with_and_without_hints(base):
    """It passes no zeros on, on the left of b, and leaves out what no canvas has."""
    task = Multiplication("accumulate", base=base)
    rule = task.local_rule(latent=True)
    with_zeros = type("WithZeros", (type(rule),), {"hinted": AccumulateRule})(base)
    both = SideBySide(with_zeros, rule)
    both.exact_together, both.marks_neighbour = False, base == 2
    assert len(reachable_cell_inputs(both))
    assert both.differ == 0


def test_states_beyond_64_bits_are_refused():
    rule = Multiplication("accumulate").local_rule(latent=True)
    rule = rule.with_codes(dict.fromkeys(rule.signals, 62))
    with pytest.raises(ValueError, match="too many classes to be enumerated"):
        reachable_cell_inputs(rule)
