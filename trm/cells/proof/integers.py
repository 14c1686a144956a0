"""Integer models of trained cell models, from all inputs that cells can have."""

import torch

from canvas.cells.reachable import reachable_op_inputs
from trm.cells.cache import CellCache
from trm.cells.integer import IntegerCellModel
from trm.cells.proof.compare import NotProvableError, provable
from trm.cells.proof.latent import explore
from trm.cells.quantise import TUNING, differing, quantised, refined, some_of
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.solver import Solver


@standard_settings(threads=1)
def in_integers(solver: Solver, bits: int) -> tuple[IntegerCellModel, int, int]:
    """Return a cell model in integers, and how many of how many inputs it decides differently.

    Weights are rounded. If some decisions differ then, the model is fine-tuned first, with rounded
    weights; and longer, if some still differ. `trm prove` checks the result on all inputs; here
    some are compared.

    Args:
        solver: of the model, in float32 on a CPU.
        bits: of a weight, 8 or 4.

    Raises:
        NotProvableError: cells of the model have no finite set of inputs.
        ValueError: weights are too large for integers.
    """
    model, task = solver.predictor.model, solver.task
    rule = provable(model, task)
    report("enumerating", 0, 1)
    if rule.codes:
        explored = explore(task.local_rule(latent=True), rule, CellCache(model).decide)
        if not explored.complete:
            raise NotProvableError("the model's codes have too many inputs: train it longer")
        ids = torch.from_numpy(explored.numbers).unique()
    else:
        ids = torch.from_numpy(reachable_op_inputs(rule))
    some = some_of(model, ids)
    found = quantised(model, ids, bits)
    differ = differing(model, found, some)
    for steps, rate in TUNING:
        if not differ:
            break
        tuned = quantised(refined(model, ids, bits, steps=steps, rate=rate), ids, bits)
        if (left := differing(model, tuned, some)) < differ:
            found, differ = tuned, left
    return found, differ, len(some)
