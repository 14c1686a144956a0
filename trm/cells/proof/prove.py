"""Find a proof or a refutation of a model."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from canvas.cells.local_rule import LocalRule
from canvas.task import Task
from trm.cells.cache import CellCache
from trm.cells.model import CellModel
from trm.cells.proof.compare import (
    Comparison,
    DrawnCanvases,
    Tested,
    compare,
    compare_with_canvases,
    provable,
)
from trm.cells.proof.latent import Explored, explore
from trm.cells.proof.laws import (
    Laws,
    Survey,
    by_checker,
    in_the_package,
    of_rule,
    of_the_package,
    surveyed,
)
from trm.cells.proof.notes import COMPUTES, LAWFUL, OPEN, PROVED, REFUTED
from trm.cells.proof.program import CellProgram
from trm.cells.proof.proof import Proof
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
    model = solver.predictor.model
    if isinstance(model, CellModel) and model.H_init.dtype == torch.float64:
        model.float()  # a model that was proved in float64 before is loaded so
    rule = provable(model, solver.task)
    prove_one = _with_codes if rule.codes else _with_hints
    return prove_one(solver, rule, search, bounded)


def _with_hints(solver: Solver, rule: LocalRule, search: int, bounded: bool) -> Proof:
    """Compare a network with its rule in all reachable inputs; arguments as for `prove`."""
    task, model = solver.task, solver.predictor.model
    report("enumerating", 0, 1)
    numbers, survey = surveyed(task, rule)
    drawn = compare_with_canvases(rule, task, numbers)
    comparison = compare(model, numbers, rule.decide(numbers), bounded)
    shown, tested = (int(drawn.in_training.sum()), drawn.trained), drawn.tested
    proof = Proof(solver, OPEN, rule=rule, comparison=comparison, shown=shown, tested=tested)
    if comparison.arithmetic:
        program = _program(task, rule, comparison)
        holds = holds_with_hints(task, rule, program, numbers, drawn, survey)
        return replace(proof, program=program, **holds._asdict())
    cell_inputs, looked, found = ByOpInputs(model, rule, task, comparison), 0, None
    if len(comparison.wrong):
        found, looked = smallest_wrong(cell_inputs)
        search = search or SEARCHED
    if found is None and search:
        found = hunt(cell_inputs, search)
        looked += search
    found = found and shown_on(found, solver)
    verdict = REFUTED if found else OPEN
    return replace(proof, verdict=verdict, looked=looked, counterexample=found)


def _with_codes(solver: Solver, rule: LocalRule, search: int, bounded: bool) -> Proof:
    """Compare a network with latent codes in all inputs that it can have with these codes."""
    task, model = solver.task, solver.predictor.model
    explored = explore(task.local_rule(latent=True), rule, CellCache(model).decide, task)
    comparison = compare(model, explored.numbers, explored.labels, bounded)
    if comparison.arithmetic and explored.complete:
        program = _program(task, rule, comparison)
        proof = Proof(solver, program=program, **holds_with_codes(task, explored)._asdict())
    else:
        proof = replace(refute(solver, search or SEARCHED), tested=explored.tested)
    return replace(proof, rule=rule, comparison=comparison, explored=explored)


def _program(task: Task, rule: LocalRule, comparison: Comparison) -> CellProgram:
    report("extracting the program", 0, 1)
    program = CellProgram.extract(task.layout, rule, comparison.numbers, comparison.decided)
    report("checking the laws", 0, 1)
    return program


class Holds(NamedTuple):
    """Facts about a model that computes its rule: parts of a `Proof`."""

    verdict: str
    tested: Tested
    laws: Laws = Laws()


def holds_with_hints(
    task: Task,
    rule: LocalRule,
    program: CellProgram,
    numbers: np.ndarray,
    drawn: DrawnCanvases,
    survey: Survey | None,
) -> Holds:
    """Decide what holds of a model that computes a rule with hints.

    Args:
        task: of the model.
        rule: of its layout.
        program: its table.
        numbers: sorted ids of the op inputs, all of which were run, int64 [N].
        drawn: the canvases that agree with the rule.
        survey: of the op inputs, see `surveyed`.

    Raises:
        OwnCodeError: a law of the rule failed with an exception.
    """
    if survey is None:
        laws = by_checker(program, rule, numbers)
        return Holds(PROVED if laws.hold else COMPUTES, drawn.tested, laws)
    laws = survey.laws()
    words = [f"can_occur in row {row}, column {column}" for row, column in survey.left_out]
    never = survey.never(drawn.cells)
    verdict = COMPUTES
    if laws.hold:
        verdict = PROVED if in_the_package(task, rule) and not words else LAWFUL
    return Holds(verdict, drawn.tested._replace(words=words, never=never), laws)


def holds_with_codes(task: Task, explored: Explored) -> Holds:
    """Decide the same for a model with latent codes, whose rule has the true classes."""
    rule = task.local_rule(latent=True)
    if explored.left_out:
        return Holds(COMPUTES, explored.tested._replace(words=["can_occur"]))
    if not of_the_package(task, rule):
        return Holds(COMPUTES, explored.tested)
    laws = of_rule(task, rule)
    return Holds(PROVED if laws.hold else COMPUTES, explored.tested, laws)


def refute(solver: Solver, problems: int) -> Proof:
    """Try so many structured problems on any model, and return the first incorrect one if any."""
    found = hunt(BySolving(solver), problems)
    found = found and shown_on(found, solver)
    return Proof(solver, REFUTED if found else OPEN, problems, found)
