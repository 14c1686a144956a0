"""The laws of a layout, checked on the table of a model.

A network that computes its rule in all inputs of its cells is as correct as the rule. Laws say what
the outputs of cells have to be, in place of what the rule returns:

- `by_checker`: the laws of the package's layouts, run by `trm.cells.proof.check` on the saved
  table. That program finds the inputs of all cells by itself, from the rows that a canvas has. Each
  of them has to be among the inputs on which the network was run.
- `Survey`: laws that a rule states, in the inputs that it finds: those of a layout of one's own,
  and those of mazes, which the checker lacks.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.reachable import reachable_cell_inputs, reachable_op_inputs
from canvas.cells.spec import SYMBOL, TOKEN, Inputs, RowKind
from canvas.choices import OwnCodeError, failure
from canvas.symbols import ALL_CHARACTERS, MASK
from canvas.task import Task
from trm.cells.proof import check
from trm.cells.proof.latent import BESIDE, Beside
from trm.cells.proof.program import TABLE, CellProgram


@dataclass(frozen=True)
class Laws:
    """Laws that were checked in this call."""

    names: tuple[str, ...] = ()
    cell_inputs: int = 0  # in which they were checked
    by_rule: bool = False  # stated by the rule of the layout, not by `check.py`
    against: str = ""  # the first cell that is against one of them; empty: all hold

    @property
    def hold(self) -> bool:
        """True if laws were checked, and hold."""
        return bool(self.names) and not self.against


@dataclass
class Survey:
    """Inputs that an enumeration of `canvas.cells.reachable` visits, and the rule's laws in them.

    Attributes:
        rule: of the layout.
        names: those of the laws that were checked.
        against: the first cell that is against one of them; after it none is checked.
        failed: the error of a law, after which none is checked.
        inputs: ids of cell inputs, int64 [N], by names of row and column.
        left_out: numbers of inputs that the rule's `can_occur` excludes, by the same names.
    """

    rule: LocalRule
    names: dict[str, None] = field(default_factory=dict)
    against: str = ""
    failed: OwnCodeError | MemoryError | None = None
    inputs: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)

    def __call__(
        self, row: str, column: str, inputs: Inputs, outputs: Mapping[str, np.ndarray], out: int
    ) -> None:
        """Count inputs, and check the laws that the rule states of them."""
        if out:
            self.left_out[row, column] = self.left_out.get((row, column), 0) + out
        if not len(inputs[TOKEN]):
            return
        ids = self.rule.whole.encode(0, inputs)
        before = self.inputs.get((row, column), ids[:0])
        self.inputs[row, column] = np.union1d(before, ids)
        if self.against or self.failed:
            return
        try:
            self._check(row, column, inputs, outputs)
        except check.LawError as wrong:
            self.against = str(wrong)
        except (OwnCodeError, MemoryError) as error:
            self.failed = error
        except Exception as error:
            rule = type(self.rule).__name__
            self.failed = OwnCodeError(f"the laws of {rule} fail: {failure(error)}")
            self.failed.__cause__ = error

    def _check(
        self, row: str, column: str, inputs: Inputs, outputs: Mapping[str, np.ndarray]
    ) -> None:
        """Check the laws that the rule states of a kind of cell.

        Raises:
            LawError: a law does not hold.
        """
        given = inputs[TOKEN] != MASK
        shown = {**outputs, SYMBOL: np.where(given, inputs[TOKEN], outputs[SYMBOL])}
        for law in self.rule.laws(row, column):
            name = getattr(law, "__name__", repr(law))
            statement = (law.__doc__ or "").strip().partition("\n")[0]
            holds = np.asarray(law(inputs, shown))
            if holds.shape != inputs[TOKEN].shape or holds.dtype != bool:
                raise OwnCodeError(f"the law {name} returns no bool for each of N cells")
            self.names[name] = None
            where = f"in row {row}, column {column}"
            check.demand(holds, f"{name}: {statement}", where, {**inputs, **_own(shown)})

    def laws(self) -> Laws:
        """Return the laws that were checked.

        Raises:
            OwnCodeError: a law failed with an exception.
        """
        if self.failed:
            raise self.failed
        every = np.unique(np.concatenate([np.zeros(0, np.int64), *self.inputs.values()]))
        number = 0 if self.against else len(every)
        return Laws(tuple(self.names), number, True, self.against)

    def never(self, drawn: np.ndarray) -> list[str]:
        """Describe the reachable inputs that no drawn canvas has.

        Example: ``["row sum, column rest: 12 of 40 inputs", "above.place: 24 to 31"]``.

        Args:
            drawn: ids of the cell inputs of drawn canvases, int64, sorted.
        """
        found = []
        for (row, column), ids in self.inputs.items():
            if missing := len(np.setdiff1d(ids, drawn)):
                found.append(f"row {row}, column {column}: {missing:,} of {len(ids):,} inputs")
        every = np.unique(np.concatenate([np.zeros(0, np.int64), *self.inputs.values()]))
        there, shown = self.rule.cell_inputs(every), self.rule.cell_inputs(drawn)
        for name in there:
            values = np.setdiff1d(there[name], shown[name]).tolist()
            if values and name == TOKEN:
                found.append(f"symbols: {' '.join(ALL_CHARACTERS[value] for value in values)}")
            elif values:
                found.append(f"{name}: {ranges(values)}")
        return found


def _own(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"own.{name}": part for name, part in outputs.items()}


def ranges(values: list[int]) -> str:
    """Return sorted whole numbers as text: [1, 2, 3, 5] → ``1 to 3, 5``."""
    parts: list[list[int]] = []
    for value in values:
        if parts and value == parts[-1][1] + 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in parts)


def surveyed(task: Task, rule: LocalRule) -> tuple[np.ndarray, Survey | None]:
    """Return the ids of all op inputs of a rule, int64, sorted, and their survey.

    None: the layout is the package's own, and the checker has its laws.
    """
    found = None if of_the_package(task, rule) else Survey(rule)
    return reachable_op_inputs(rule, found), found


def of_the_package(task: Task, rule: LocalRule) -> bool:
    """Return whether task, layout and rule are the package's own, so that the checker has laws."""
    return task.layout in check.LAYOUTS and in_the_package(task, rule)


def in_the_package(task: Task, rule: LocalRule) -> bool:
    """Return whether task, layout and rule are the package's own, with a theorem in its docs."""
    return all(map(_in_canvas, (type(task), type(task.canvas_layout), type(rule))))


def _in_canvas(kind: type) -> bool:
    """Return whether a class is the one that the package `canvas` defines under its name."""
    module = sys.modules.get(kind.__module__)
    ours = kind.__module__.partition(".")[0] == "canvas"
    return ours and getattr(module, kind.__qualname__, None) is kind


def by_checker(program: CellProgram, rule: LocalRule, numbers: np.ndarray) -> Laws:
    """Run the checker on a table, as it is saved.

    Args:
        program: the table, of a layout of the package.
        rule: with the signals of the table, none of which is a latent code.
        numbers: sorted ids of the op inputs that the table was extracted from, int64 [N].
    """
    _, laws_of = check.LAWS[program.layout]
    names = dict.fromkeys(
        law.__name__
        for row in check.LAYOUTS[program.layout]
        for column in row.columns
        for law in laws_of(row, column.place)
    )
    try:
        with TemporaryDirectory() as folder:
            program.save(Path(folder) / TABLE)
            table = check.load(Path(folder) / TABLE)
        enumeration = check.Enumeration(table)
        number = enumeration.run()
    except (check.LawError, check.NotCheckableError) as wrong:
        return Laws(tuple(names), against=str(wrong))
    unknown = np.setdiff1d(_op_inputs(table, rule, enumeration.cells()), numbers)
    against = (
        f"cells have {len(unknown):,} inputs that the rule's rows lack" if len(unknown) else ""
    )
    return Laws(tuple(names), number, against=against)


def _op_inputs(
    table: check.Program, rule: LocalRule, cells: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return the ids of the op inputs of cells that decide by a table, int64, sorted.

    Args:
        table: of a layout of the package.
        rule: with the same signals.
        cells: what stands in N cells and what they read, int [N] by name.
    """
    found = [np.zeros(0, np.int64)]
    for symbol in np.unique(cells[TOKEN]).tolist():
        here = cells[TOKEN] == symbol
        reads = {name: part[here].astype(np.int64) for name, part in cells.items()}
        outputs = {SYMBOL: reads[TOKEN]}
        for name, one in table.tables.items():
            if name == SYMBOL and symbol != MASK:
                continue
            outputs[name], _ = one.look_up({**reads, **_own(outputs)})
        found.append(np.unique(rule.op_input_ids(reads, outputs)[0]))
    return np.unique(np.concatenate(found))


def of_rule(task: Task, rule: LocalRule) -> Laws:
    """Check the laws of a rule without hints, by the one with hints.

    The checker runs on the table of the rule with hints. Both rules have to have the same rows, and
    to write the same symbols on all canvases of any size.

    Args:
        task: of the package.
        rule: for latent codes, with its true classes.
    """
    hinted = task.local_rule()
    numbers = reachable_op_inputs(hinted)
    table = CellProgram.extract(task.layout, hinted, numbers, hinted.decide(numbers))
    laws = by_checker(table, hinted, numbers)
    if laws.against or type(rule) is type(hinted):
        return laws
    if not _covers(rule, hinted):
        return replace(laws, against="the rule without hints lacks rows that canvases have")
    differ = 0

    def compare(
        row: str, column: str, inputs: Inputs, outputs: dict[str, np.ndarray], out: int
    ) -> None:
        nonlocal differ
        if outputs:
            wrong = outputs[SYMBOL] != outputs[BESIDE + SYMBOL]
            differ += int(np.count_nonzero(wrong & (inputs[TOKEN] == MASK)))

    reachable_cell_inputs(Beside(rule, hinted, hinted.signals, hinted.apply), compare)
    against = f"the two rules write different symbols in {differ:,} cells"
    return replace(laws, against=against if differ else "")


def _covers(rule: LocalRule, hinted: LocalRule) -> bool:
    """Return whether a rule has all rows of another one, for its own number of operands.

    A rule for at most N operands has to allow each stack of 2 to N given rows with the row below.
    """
    if rule.rows == hinted.rows:
        return True
    if rule.most_operands is None:
        return False
    given = {name: MASK not in _tokens(row) for name, row in hinted.rows.items()}
    stacks = [[name] for name, row in hinted.rows.items() if "" in row.below and given[name]]
    for number in range(1, rule.most_operands + 1):
        below = [
            [*stack, name]
            for stack in stacks
            for name, row in hinted.rows.items()
            if stack[-1] in row.below
        ]
        ended = [stack for stack in below if not given[stack[-1]]]
        if number > 1 and not all(_allows(rule, [hinted.rows[n] for n in one]) for one in ended):
            return False
        # Rows to be filled in that stand below another such row.
        more = {name for name, row in hinted.rows.items() if {s[-1] for s in ended} & {*row.below}}
        if any(not given[name] for name in more):
            return False
        stacks = [stack for stack in below if given[stack[-1]]]
    return True


def _tokens(row: RowKind) -> set[int]:
    return {token for column in row.columns.values() for token in column.tokens}


def _allows(rule: LocalRule, stack: list[RowKind]) -> bool:
    """Return whether rows of these columns can stand below each other by a rule."""
    above = {""}
    for row in stack:
        above = {
            name
            for name, one in rule.rows.items()
            if above & {*one.below} and (one.columns, one.first) == (row.columns, row.first)
        }
    return bool(above)
