"""Check the folder of a proof again, for any layout, and for models without hints.

`trm.cells.proof.check` needs only a table, and contains the laws of the package's layouts. Four
parts can be checked for all layouts. They need the layout, its local rule and the task:

1. The table against the set: the reachable inputs are enumerated again, and the table has to
   return the rule's outputs for each. Latent codes are checked only by the outputs that follow.
2. The set against drawn canvases: no canvas has an input that is not in the set.
3. The answers against the task: the rule solves drawn canvases as the layout draws them, and their
   answers are those of the task.
4. The laws: those in the checker, or those that a layout of one's own states.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import SYMBOL
from canvas.choices import OwnCodeError
from canvas.task import Task
from trm.cells.proof import check
from trm.cells.proof.compare import compare_with_canvases
from trm.cells.proof.latent import explore
from trm.cells.proof.laws import surveyed
from trm.cells.proof.notes import LAWFUL, PROVED
from trm.cells.proof.program import TABLE, CellProgram
from trm.cells.proof.prove import Holds, holds_with_codes, holds_with_hints
from trm.checkpoints.loading import restored_task
from trm.io.files import read_object
from trm.runtime.progress import progress, report

_PARTS = ("table against the set", "set against drawn canvases", "answers against the task")


def main(path: str | Path, record: str, quiet: bool = False) -> int:
    """Check what can be checked, and print it part by part.

    Args:
        path: the folder of a proof; or a table alone, for which only the laws can be checked.
        record: the name of the file in the folder that records the proof.
        quiet: True: show no progress.

    Returns:
        0: all that could be checked is correct; 1: there is an error; 2: nothing could be checked.
    """
    folder = Path(path)
    file = folder / TABLE if folder.is_dir() else folder
    try:
        program = CellProgram.load(file)
    except (OSError, ValueError):
        return check.main(path)  # it prints the reason
    about = (read_object(folder / record) or {}) if folder.is_dir() else {}
    # A table without a record is only known by the name of its layout.
    laws = program.layout in check.LAYOUTS and not program.codes
    if laws and about.get("verdict", PROVED) == PROVED and (code := check.main(path)):
        return code
    try:
        task = restored_task(about["task"])
        if (task.layout, task.base) != (program.layout, program.base):
            raise ValueError(f"{record} describes another layout than {TABLE}")
    except OwnCodeError as error:
        return _ended(laws, f"{error}")
    except (KeyError, TypeError, ValueError) as error:
        why = "" if isinstance(error, KeyError) else f": {error}"
        return _ended(laws, f"no {record} beside the table names its task{why}")
    try:
        with progress(quiet, "trm prove"):
            inputs, holds = _checked(program, task)
    except (AssertionError, LookupError, OwnCodeError) as wrong:
        print(f"not proved: {wrong.args[0]}")
        return 1
    canvases, found = holds.tested.canvases, holds.laws
    print(f"{_PARTS[0]}: in all {inputs:,} reachable inputs it returns the rule's outputs")
    print(f"{_PARTS[1]}: {canvases:,} canvases have no other input")
    print(f"{_PARTS[2]}: {canvases:,} canvases are solved by the rule, with the task's answer")
    if holds.verdict == PROVED:
        rest = "the laws of the layout prove it for all canvases"
    elif holds.verdict == LAWFUL:
        rest = f"its laws hold: {', '.join(found.names)}; what follows is its author's argument"
    elif found.against:
        print(f"not proved: {found.against}")
        return 1
    else:
        rest = "it computes its rule, and the rule was only tested: other canvases are not covered"
    print(f"checked: all three parts; {rest}")
    return 0


def _ended(laws: bool, why: str) -> int:
    """Print why the three parts were not checked; return the exit code."""
    print(f"not checked: {', '.join(_PARTS)}: {why}", file=sys.stdout if laws else sys.stderr)
    return 0 if laws else 2


def _checked(program: CellProgram, task: Task) -> tuple[int, Holds]:
    """Check all parts; return the number of reachable inputs, and what holds.

    Raises:
        AssertionError, LookupError, OwnCodeError: a part is incorrect, as the message explains.
    """
    rule = task.local_rule(latent=bool(program.codes))
    if program.messages != rule.messages:
        raise AssertionError("the table's cells pass other messages than the rule declares")
    if not program.codes:
        report("enumerating", 0, 1)
        numbers, survey = surveyed(task, rule)
        drawn = compare_with_canvases(rule, task, numbers)
        _compare(rule, program.decide(rule, numbers), rule.decide(numbers))
        return len(numbers), holds_with_hints(task, rule, program, numbers, drawn, survey)
    sizes = {name: 1 + int(program.tables[name].values.max(initial=1)) for name in program.codes}
    coded = rule.with_codes(sizes)

    explored = explore(rule, coded, partial(program.decide, coded), task)
    if not explored.complete:
        raise AssertionError("its cells have more inputs than those of a correct table can have")
    _compare(coded, program.decide(coded, explored.numbers), explored.labels)
    return len(explored.numbers), holds_with_codes(task, explored)


def _compare(rule: LocalRule, classes: np.ndarray, right: np.ndarray) -> None:
    """Compare the classes of a table with the labels, int64 [N, outputs] each; codes have none.

    Raises:
        AssertionError: they differ; the message names the first such output.
    """
    for name, part, label in zip((SYMBOL, *rule.signals), classes.T, right.T, strict=True):
        wrong = (part != label) & (label >= 0) & (name not in rule.codes)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise AssertionError(
                f"in {int(wrong.sum()):,} of {len(wrong):,} reachable inputs the table returns "
                f"another {name} than the rule: first {part[i]}, where it is {label[i]}"
            )
