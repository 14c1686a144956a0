"""Find a proof or a refutation of a model."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from canvas.cells.local_rule import LocalRule
from canvas.task import Task
from trm.cells.cache import CellCache
from trm.cells.model import CellModel
from trm.cells.proof.compare import DrawnCanvases, compare, compare_with_canvases, provable
from trm.cells.proof.latent import Explored, explore
from trm.cells.proof.laws import (
    Survey,
    by_checker,
    in_the_package,
    of_rule,
    of_the_package,
    surveyed,
)
from trm.cells.proof.notes import COMPUTES, LAWFUL, OPEN, PROVED, REFUTED
from trm.cells.proof.program import CellProgram
from trm.cells.proof.proof import Proof, Tested
from trm.cells.proof.search import ByOpInputs, BySolving, hunt, shown_on, smallest_wrong
from trm.runtime.progress import Report, listening, report
from trm.solving.solver import Solver

SEARCHED = 20_000  # structured problems to try where an op input is incorrect


def prove(
    solver: Solver, report: Report | None = None, search: int = 0, bounded: bool = True
) -> Proof:
    """Prove a model correct at every length, or search for a problem that it solves incorrectly.

    The verdict of a model that computes its rule in all inputs is that of the laws, which are
    checked in this very call, see `trm.cells.proof.laws`.

    Args:
        solver: of the model, on a CPU.
        report: called as the work goes on; None: see `trm.runtime.progress`.
        search: structured problems to try in any case if the model is not proved.
        bounded: False: leave out the bound on rounding errors.

    Raises:
        NotProvableError: nothing can be proved of the model.
        OwnCodeError: rule, layout, task and reachable inputs do not agree on drawn canvases.
    """
    with listening(report):
        return _proved(solver, search, bounded)


def _proved(solver: Solver, search: int, bounded: bool) -> Proof:
    task, model = solver.task, solver.predictor.model
    if isinstance(model, CellModel) and model.H_init.dtype == torch.float64:
        model.float()  # a model that was proved in float64 before is loaded so
    rule, explored = provable(model, task), None
    known: dict[str, Any] = {"rule": rule}
    if rule.codes:
        true = task.local_rule(latent=True)
        explored = explore(true, rule, CellCache(model).decide, task)
        tested = Tested(explored.agreed, explored.digits)
        known["explored"] = explored
        comparison = compare(model, explored.numbers, explored.labels, bounded)
    else:
        report("enumerating", 0, 1)
        numbers, survey = surveyed(task, rule)
        drawn = compare_with_canvases(rule, task, numbers)
        known["shown"] = int(drawn.in_training.sum()), drawn.trained
        tested = Tested(drawn.canvases, drawn.digits, int(drawn.shown.sum()))
        comparison = compare(model, numbers, rule.decide(numbers), bounded)
    known |= {"comparison": comparison, "tested": tested}
    if comparison.arithmetic and (explored is None or explored.complete):
        report("extracting the program", 0, 1)
        program = CellProgram.extract(task.layout, rule, comparison.numbers, comparison.decided)
        report("checking the laws", 0, 1)
        if explored is None:
            decided = by_rule(task, rule, program, comparison.numbers, drawn, tested, survey)
        else:
            decided = with_codes(task, explored, tested)
        return Proof(solver, program=program, **known | decided)
    if explored:
        return replace(refute(solver, search or SEARCHED), **known)
    cell_inputs, looked = ByOpInputs(model, rule, task, comparison), 0
    found = None
    if len(comparison.wrong):
        found, looked = smallest_wrong(cell_inputs)
        search = search or SEARCHED
    if found is None and search:
        found = hunt(cell_inputs, search)
        looked += search
    found = found and shown_on(found, solver)
    return Proof(solver, REFUTED if found else OPEN, looked, found, **known)


def by_rule(
    task: Task,
    rule: LocalRule,
    program: CellProgram,
    numbers: np.ndarray,
    drawn: DrawnCanvases,
    tested: Tested,
    survey: Survey | None,
) -> dict[str, Any]:
    """Decide what holds of a model that computes a rule with hints; return parts of a `Proof`.

    Args:
        task: of the model.
        rule: of its layout.
        program: its table.
        numbers: sorted ids of the op inputs, all of which were run, int64 [N].
        drawn: the canvases that agree with the rule.
        tested: the same in numbers.
        survey: of the op inputs, see `surveyed`.

    Raises:
        OwnCodeError: a law of the rule failed with an exception.
    """
    if survey is None:
        laws = by_checker(program, rule, numbers)
        return {"verdict": PROVED if laws.hold else COMPUTES, "laws": laws}
    laws = survey.laws()
    words = [f"can_occur in row {row}, column {column}" for row, column in survey.left_out]
    never = survey.never(drawn.cells)
    verdict = COMPUTES
    if laws.hold:
        verdict = PROVED if in_the_package(task, rule) and not words else LAWFUL
    return {"verdict": verdict, "laws": laws, "tested": tested._replace(words=words, never=never)}


def with_codes(task: Task, explored: Explored, tested: Tested) -> dict[str, Any]:
    """Decide the same for a model with latent codes, whose rule has the true classes."""
    rule = task.local_rule(latent=True)
    if explored.left_out:
        return {"verdict": COMPUTES, "tested": tested._replace(words=["can_occur"])}
    if not of_the_package(task, rule):
        return {"verdict": COMPUTES}
    laws = of_rule(task, rule)
    return {"verdict": PROVED if laws.hold else COMPUTES, "laws": laws}


def refute(solver: Solver, problems: int) -> Proof:
    """Try so many structured problems on any model, and return the first incorrect one if any."""
    found = hunt(BySolving(solver), problems)
    found = found and shown_on(found, solver)
    return Proof(solver, REFUTED if found else OPEN, problems, found)
