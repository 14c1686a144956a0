"""Check a layout: problems are worked out on it and read back, which has to give the answers."""

import inspect
from collections.abc import Iterator

import numpy as np

from canvas.arithmetic import Numbers
from canvas.cells.check import check_rule
from canvas.cells.local_rule import LocalRule
from canvas.choices import OwnCodeError, failure
from canvas.problems import Problems
from canvas.reading import read
from canvas.sampling import sample
from canvas.symbols import BLANK, ids_of
from canvas.task import Task

_PROBLEMS = 32  # of a sample
_MOST, _SHORTER = 100, 30  # digits of an operand; where there can be more, so many are drawn
_passed: set[str] = set()  # layouts and rules of the package that passed in this process


def check_once(task: Task, rule: LocalRule | None = None) -> None:
    """Check a task's layout or, with ``rule``, a local rule of it; raises as the check does.

    The package's own are checked once in a process, and a user's own each time.
    """
    key = repr((task, type(rule), rule and rule.signals))
    if key in _passed and not _is_own(task, task.canvas_layout, rule or task):
        return
    if rule is None:
        check_layout(task)
    else:
        check_rule(task, rule)
    _passed.add(key)


def _is_own(*parts: object) -> bool:
    """Return whether a task, layout or rule is of a user's own class."""
    return any(type(part).__module__.partition(".")[0] != "canvas" for part in parts)


def check_layout(task: Task, more: Problems | None = None) -> int:
    """Work out a sample of a task's problems, and some more; how many they were.

    The local rules of a user's own layout are held against drawn canvases as well; those of the
    package are where a model is trained on them, loaded or proved, see `canvas.cells.check`.

    OwnCodeError names the first row that does not show the answer that the task says, or lies
    outside the layout's room; or the first cell in which a rule and its canvas differ.
    """
    shorter = [min(n, _SHORTER) for n in task.longest]
    longest = shorter if max(task.longest) > _MOST else None
    found = sample(task, 0, "train", 0, np.arange(_PROBLEMS), longest).to_ints()
    largest = Problems.from_ints([[task.base**n - 1 for n in longest or task.longest]], task.base)
    found += largest[task.allows(largest)].to_ints() + (more.to_ints() if more else [])
    problems = Problems.from_ints(found, task.base)
    try:
        wrong = next(_wrong_rows(task, problems), None)
    except OwnCodeError:
        raise
    except Exception as error:
        wrong = failure(error, inspect.getfile(type(task.canvas_layout)))
    if wrong:
        raise OwnCodeError(f"the layout {task.layout} is wrong: {wrong}")
    for rule in _own_rules(task):
        check_rule(task, rule)
    return len(problems)


def _own_rules(task: Task) -> Iterator[LocalRule]:
    """The local rules of a layout, if it, the rule or the task is a user's own."""
    known: set[type] = set()
    for latent in (False, True):
        try:
            rule = task.local_rule(latent=latent)
        except ValueError:  # there is none, or none of so many operands
            continue
        if _is_own(task, task.canvas_layout, rule) and type(rule) not in known:
            known.add(type(rule))
            yield rule


def _wrong_rows(task: Task, problems: Problems) -> Iterator[str]:
    layout, base, names = task.canvas_layout, task.base, task.names(problems)
    ids = ids_of(base)

    def written(number: int) -> str:
        return Numbers.from_ints([number], base).to_text()[0]

    layout.check_operands(problems)
    for found in layout.checked_rows(problems):
        wrong = found.present & (found.numbers.digits >= base).any(axis=1)
        places = np.broadcast_to(found.row, wrong.shape)
        for i in np.flatnonzero(wrong).tolist():
            yield f"row {places[i] + 1} of {names[i]} has a digit that base {base} does not have"
    worked = layout.draw_worked(problems)
    for i, operands in enumerate(problems.to_ints()):
        canvas = worked.truth[i, : worked.heights[i], : worked.widths[i]]
        try:
            said = read(canvas, layout, base)
        except ValueError as error:
            written_rows = (canvas != BLANK).any(axis=1)
            if not written_rows.all():
                row = int(np.argmin(written_rows)) + 1
                yield f"row {row} of {names[i]} is empty: write at least one digit, perhaps 0"
                continue
            yield f"{names[i]} cannot be read back: {error}"
            continue
        if said.operands != operands:
            read_as = f" {task.sign} ".join(map(written, said.operands))
            yield f"{names[i]} is read back as {read_as}"
        answer = task.answer(operands)
        if said.answer != answer:
            cells = said.answer_cells
            right = [answer // base**k % base for k in range(len(cells))]
            rows = [c[0] for c, d in zip(cells, right, strict=True) if canvas[c] != ids[d]]
            row = min(rows, default=cells[-1][0]) + 1
            yield (
                f"row {row} of {names[i]} shows the answer {written(said.answer)}, and it is "
                f"{written(answer)}"
            )
