"""Compare a model with its rule on all cell inputs, which proves it correct at every length.

A model that passes decided messages reads one of finitely many cell inputs in every cell
(`canvas.cells`). If its outputs for each of them are those of the layout's rule, induction over the
cells in the order of writing proves every canvas of every size. docs/proof.md has the proof.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from canvas.cells.check import THOROUGH, checked_canvases, places
from canvas.cells.local_rule import LocalRule
from canvas.task import Task
from trm.cells.integer import IntegerCellModel
from trm.cells.model import CellModel
from trm.cells.proof.bound import RoundingBound
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings

_BATCH = 2048  # most cell inputs run at once
_NARROW = 1.0  # what the coarse bound leaves of a margin; if less, the fine one is taken


class NotProvableError(ValueError):
    """Nothing can be proved of a model; the message gives the reason."""


class Comparison(NamedTuple):
    """Outputs of a network for N op inputs, and their margins."""

    numbers: np.ndarray  # int64 [N], sorted ids of the op inputs, see `LocalRule.op_input_ids`
    decided: np.ndarray  # uint8 [N, outputs], symbols and classes; see `right` for those that count
    right: np.ndarray  # bool [N], all labelled outputs are correct, without a tie
    margin: np.ndarray  # float32 [N], smallest margin of a correct logit over the others
    left: np.ndarray  # float64 [N], the margin less the worst case of rounding
    float32: np.ndarray  # bool [N], True: `left` is for float32; False: for float64
    bounded: bool = True  # False: rounding was not bounded, and `left` is minus infinity
    integers: bool = False  # True: the network computes in integers, and nothing is rounded

    @property
    def wrong(self) -> np.ndarray:
        """Ids of the op inputs with an incorrect output, int64."""
        return self.numbers[~self.right]

    @property
    def arithmetic(self) -> str | None:
        """Arithmetic in which all op inputs are correct in any order of summation.

        None: there is no such arithmetic among those that were tried.
        """
        if self.integers:
            return IntegerCellModel.arithmetic if self.right.all() else None
        if not self.bounded:
            return "float32 as it is computed here" if self.right.all() else None
        if not (self.right & (self.left > 0)).all():
            return None
        return "float32" if self.float32.all() else "float64"

    @property
    def least_left(self) -> float:
        """Smallest remaining margin: of all in float32, or of those that need float64."""
        needed = self.right & (self.float32.all() | ~self.float32)
        return float(self.left[needed].min(initial=np.inf))


_NO_PROOF = (
    "passes more than decided messages, so that its cells have too many inputs to enumerate; "
    "--search N searches for a problem that it gets wrong"
)


def provable(model: Any, task: Task) -> LocalRule:
    """Return the rule that a model has to follow, with the latent codes of the model if any.

    Raises:
        NotProvableError: there is no such rule, or the model does not pass decided messages.
    """
    codes = getattr(model.config, "codes", {})
    try:
        rule = task.local_rule(latent=bool(codes)).with_codes(codes)
    except ValueError as error:
        raise NotProvableError(str(error)) from None
    if not isinstance(model, CellModel):
        raise NotProvableError(f"a {type(model).__name__} {_NO_PROOF}")
    mine, its = model.encoding, rule.encoding
    if (mine.directions, mine.classes, mine.ops) != (its.directions, its.classes, its.ops):
        raise NotProvableError(
            f"the model's cells pass other messages than the layout {task.layout} in base "
            f"{task.base} declares: train it with those"
        )
    if not all(torch.isfinite(tensor).all() for tensor in model.state_dict().values()):
        raise NotProvableError("the model's weights are not all finite numbers")
    if not model.computes_as_proved:
        raise NotProvableError(
            "a proof applies to float32, and this model would compute in another arithmetic: leave "
            "out autocast, TF32, and weights of other types"
        )
    return rule


@standard_settings(threads=1)
@torch.no_grad()
def compare(
    model: CellModel, numbers: np.ndarray, labels: np.ndarray, bounded: bool = True
) -> Comparison:
    """Run a network on op inputs, with the code that solves, and bound its rounding errors.

    The bound takes most of the time. A network of integers needs none.

    Args:
        model: in evaluation mode, on a CPU, in float32.
        numbers: sorted ids of the op inputs, int64 [N].
        labels: correct classes, int64 [N, outputs], as `LocalRule.decide` returns them; −1: none.
        bounded: False: leave the bound out.
    """
    tables = model.message_tables()
    integers = isinstance(model, IntegerCellModel)
    bounded = bounded and not integers
    bounds: list[RoundingBound] = []
    if bounded:
        bounds = [RoundingBound(model, "float32", fine) for fine in (False, True)]
        bounds.append(RoundingBound(model, "float64"))
    hopeless = False  # True: the float32 bound is far too coarse, as with many cycles
    parts = []
    at_once = model.at_once(_BATCH)
    for start in range(0, len(numbers), at_once):
        some = slice(start, start + at_once)
        op_inputs, wanted = torch.from_numpy(numbers[some]), torch.from_numpy(labels[some])
        outputs, _ = model.cells(model.reader.decode(op_inputs), tables)
        margin = model.margins(outputs, wanted)
        right = margin > 0
        left = torch.full_like(margin, -torch.inf, dtype=torch.float64)
        for bound in bounds[-1:] if hopeless else bounds:
            float32 = left > 0
            rest = right & ~(left > (_NARROW if bound.fine else 0))
            if rest.any():
                left[rest] = left[rest].maximum(bound.left(op_inputs[rest], wanted[rest]))
        if not bounded:
            float32 = right & (not integers)
        hopeless = hopeless or (bool(right.any()) and not float32.any())
        parts.append((model.decided(outputs).byte(), right, margin, left, float32))
        report("running the network on all inputs", start + len(right), len(numbers))
    found = [torch.cat(part).numpy() for part in zip(*parts, strict=True)]
    decided, correct, margins, remaining, in_float32 = found
    return Comparison(numbers, decided, correct, margins, remaining, in_float32, bounded, integers)


class Tested(NamedTuple):
    """Tests of a rule, which prove nothing of other canvases."""

    canvases: int  # drawn ones on which it agreed with the layout and the task
    digits: int  # of the longest operand on them
    shown: int | None = None  # op inputs that occur on them; None: not counted
    # Unchecked claims of the rule: inputs that no canvas has, by its author's word.
    words: Sequence[str] = ()
    never: Sequence[str] = ()  # reachable inputs that these canvases lack, in words


class DrawnCanvases(NamedTuple):
    """Drawn canvases that agree with a rule and with its reachable inputs."""

    tested: Tested
    trained: int  # number of canvases of training problems among them
    in_training: np.ndarray  # bool [N], op inputs that occur in these
    shown: np.ndarray  # bool [N], op inputs that occur on any canvas
    cells: np.ndarray  # ids of all cell inputs of the canvases, int64, sorted


def compare_with_canvases(rule: LocalRule, task: Task, numbers: np.ndarray) -> DrawnCanvases:
    """Compare a rule and its reachable inputs with drawn canvases.

    Args:
        rule: of a model with hints.
        task: draws the canvases.
        numbers: sorted ids of the reachable inputs, int64 [N].

    Raises:
        OwnCodeError: rule and canvas differ (see `canvas.cells.check.checked_canvases`), or one
            has an input that is not among the reachable ones.
    """
    in_training, anywhere = np.zeros((2, len(numbers)), dtype=bool)
    trained = looked = digits = 0
    drawn = np.zeros(0, dtype=np.int64)
    for canvases in checked_canvases(task, rule, THOROUGH):
        shown, cells = rule.op_input_ids(canvases.found.cell_inputs, canvases.found.outputs)
        at = places(numbers, shown, canvases.found, cells, canvases.names, rule)
        at = np.union1d(at, np.searchsorted(numbers, canvases.found.updates))
        looked += len(canvases.problems)
        digits = max(digits, int(canvases.problems.lengths.max(initial=0)))
        drawn = np.union1d(drawn, rule.whole.encode(0, canvases.found.cell_inputs))
        anywhere[at] = True
        if canvases.trained:
            in_training[at] = True
            trained += len(canvases.problems)
        report("comparing the rule with canvases", looked, sum(THOROUGH))
    tested = Tested(looked, digits, int(anywhere.sum()))
    return DrawnCanvases(tested, trained, in_training, anywhere, drawn)
