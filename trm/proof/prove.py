"""Find a proof or a refutation of a model."""

from dataclasses import replace
from typing import Any

from canvas.cells.reachable import reachable_op_inputs
from trm.checkpoints.proofs import OPEN, PROVED, REFUTED
from trm.progress import Report
from trm.proof.judge import compare_with_canvases, judge, provable
from trm.proof.latent import explore
from trm.proof.program import Program
from trm.proof.proof import Proof
from trm.proof.search import (
    ByOpInputs,
    BySolving,
    hunt,
    shown_on,
    smallest_wrong,
)
from trm.solving.solver import Solver

SEARCHED = 20_000  # structured problems to try where an op input is incorrect


def prove(solver: Solver, report: Report, search: int = 0, bounded: bool = True) -> Proof:
    """Prove a model correct at every length, or search for a problem that it solves incorrectly.

    Args:
        solver: of the model, on a CPU.
        report: called as the work goes on.
        search: structured problems to try in any case if the model is not proved.
        bounded: False: leave out the bound on rounding errors.

    Raises:
        NotProvableError: nothing can be proved of the model.
        OwnCodeError: rule, layout, task and reachable inputs do not agree on drawn canvases.
    """
    task, model = solver.task, solver.predictor.model
    rule, explored = provable(model, task), None
    known: dict[str, Any] = {"rule": rule}
    if rule.codes:
        explored = explore(task.local_rule(latent=True), rule, model, report, task)
        known |= {"explored": explored, "agreed": explored.agreed}
        judged = judge(model, rule, explored.numbers, report, bounded, explored.labels)
    else:
        report("enumerating", 0, 1)
        numbers = reachable_op_inputs(rule)
        seen, drawn, known["agreed"] = compare_with_canvases(rule, task, numbers, report)
        known["shown"] = int(seen.sum()), drawn
        judged = judge(model, rule, numbers, report, bounded)
    known["judged"] = judged
    if judged.arithmetic and (explored is None or explored.complete):
        report("extracting the program", 0, 1)
        program = Program.extract(task.layout, rule, judged.numbers, judged.outputs)
        return Proof(solver, PROVED, program=program, **known)
    if explored:
        return replace(refute(solver, search or SEARCHED, report), **known)
    cell_inputs, looked = ByOpInputs(model, rule, task, judged), 0
    found = None
    if len(judged.wrong):
        found, looked = smallest_wrong(cell_inputs, report)
        search = search or SEARCHED
    if found is None and search:
        found = hunt(cell_inputs, search, report)
        looked += search
    found = found and shown_on(found, solver)
    return Proof(solver, REFUTED if found else OPEN, looked, found, **known)


def refute(solver: Solver, problems: int, report: Report) -> Proof:
    """Try so many structured problems on any model, and return the first incorrect one if any."""
    found = hunt(BySolving(solver), problems, report)
    found = found and shown_on(found, solver)
    return Proof(solver, REFUTED if found else OPEN, problems, found)
