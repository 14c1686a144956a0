"""Write a table, its laws and the theorem as SMT-LIB: a second opinion on `check.py`.

    trm prove --checkpoint C --smt sum.smt2       # write the file
    z3 sum.smt2                                   # or cvc5 sum.smt2
    python -m trm.cells.proof.smt sum.smt2              # with each solver that Python can import

SMT-LIB is the input language of SMT solvers. These programs decide if a formula over integers can
be true. For each law the file asks for a cell that is against it. The answer *unsat* means that
there is none. The parts of the file, in this order:

1. the table: for each output which one belongs to which inputs; -1 where there is no entry;
2. the messages that can be passed, as bounds;
3. the cells that occur: what stands in them, and messages in these bounds from their neighbours;
4. *closed*: each such cell has an entry, and passes messages in the same bounds;
5. the laws of `trm.cells.proof.check`, written once more;
6. the theorem: a row is correct, whatever its length; rows are, whatever their number.

The bounds of part 2 were written by hand, and hold in any base. They need not be trusted: if a
message was missing, part 4 would be *sat*. The theorem is an induction with unbounded integers.

Layouts: sums (`smt_sums.py`), and the lattice (`smt_lattice.py`).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from trm.cells.proof.smt_lattice import LatticeFile
from trm.cells.proof.smt_sums import Sums
from trm.cells.proof.smt_writer import Writer

if TYPE_CHECKING:
    from trm.cells.proof.program import CellProgram

_WRITERS: dict[str, Callable[[CellProgram], Writer]] = {
    "column": Sums,
    "column_carries": Sums,
    "lattice": LatticeFile,
}
LAYOUTS = tuple(_WRITERS)


def demand_layout(layout: str, codes: Sequence[str] = ()) -> None:
    """Raise ValueError for a layout that is not written, or for latent codes."""
    if codes:
        raise ValueError(
            "no SMT-LIB is written for a model with latent codes, as its laws would need what they "
            "stand for: `trm prove --check` checks its table"
        )
    if layout not in LAYOUTS:
        raise ValueError(
            f"no SMT-LIB is written for the layout {layout}, only for {', '.join(LAYOUTS)}: "
            "`trm prove --check` checks the table of any layout"
        )


def to_smt(program: CellProgram) -> str:
    """Return the table, the laws and the theorem as SMT-LIB.

    Raises:
        ValueError: the table is of another layout, or has latent codes.
    """
    demand_layout(program.layout, program.codes)
    return _WRITERS[program.layout](program).text()


# ---------------------------------------------------------------------------------------------
# Solvers
# ---------------------------------------------------------------------------------------------


def _z3(text: str) -> str:
    import z3

    context = z3.Context()  # one for each file: it keeps what was declared
    return z3.Z3_eval_smtlib2_string(context.ref(), text)


def _cvc5(text: str) -> str:
    import cvc5

    solver = cvc5.Solver()
    solver.setOption("incremental", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "file")
    lines = []
    while not (command := parser.nextCommand()).isNull():
        lines.append(command.invoke(solver, parser.getSymbolManager()))
    return "".join(map(str, lines))


SOLVERS: dict[str, Callable[[str], str]] = {"z3": _z3, "cvc5": _cvc5}


def answers(text: str, solver: str) -> list[tuple[str, str, str]]:
    """Return name, expected answer and answer of each question, by an imported solver.

    Args:
        text: of `to_smt`.
        solver: a name in `SOLVERS`.

    Raises:
        ImportError: the solver is not installed.
        ValueError: the text is not of `to_smt`.
    """
    # A solver that compares its answers with the expected ones stops at the first difference.
    questions = re.sub(r"\(set-info :status \w+\)", "", text)
    try:
        lines = [line.strip('"') for line in SOLVERS[solver](questions).splitlines()]
    except ImportError:
        raise
    except Exception:  # solvers raise exceptions of their own kinds for a damaged file
        lines = []
    found = []
    for line, answer in pairwise(lines):
        name, is_name, expected = line.rpartition(": expected ")
        if is_name:
            found.append((name, expected, answer))
    if not found or len(found) != text.count("(check-sat)"):
        raise ValueError("it is no file of `trm prove --smt`, or damaged")
    return found


def main(path: str | Path) -> int:
    """Let each installed solver answer a file; return the exit code.

    0: all answers are as expected; 1: one is not, and is printed; 2: there is no solver or file.
    """
    try:
        text, code, installed = Path(path).read_text(encoding="utf-8"), 0, 0
        for solver in SOLVERS:
            start = time.perf_counter()
            try:
                found = answers(text, solver)
            except ImportError:
                continue
            installed += 1
            took = f"{time.perf_counter() - start:.1f} s"
            for name, expected, answer in found:
                if answer != expected:
                    code = 1
                    print(f"{solver}: {name}: {answer}, and {expected} is expected")
            correct = sum(answer == expected for _, expected, answer in found)
            print(f"{solver}: {correct} of {len(found)} answers are as expected, in {took}")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        print(f"{path} cannot be checked: {error}", file=sys.stderr)
        return 2
    if not installed:
        print("no solver is installed: pip install z3-solver, or cvc5", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python -m trm.cells.proof.smt FILE.smt2, of trm prove --smt", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
