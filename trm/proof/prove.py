"""Proof of a model at every length: all cell inputs, run through the network that solves.

A model that hands on decided messages sees one of finitely many cell inputs in every cell
(`canvas.cell_inputs`). If it does on each of them what the layout's rule says, induction over the
cells in the order of writing proves every page of every size; docs/proof.md has it in full.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch

from canvas.cell_inputs import LocalRule
from canvas.rule_check import THOROUGH, checked_pages, places
from canvas.task import Task
from trm.models.attention import computes_float32
from trm.models.cell import CellModel
from trm.proof.bound import RoundingBound
from trm.torch_settings import standard_settings

Report = Callable[[str, int, int], None]  # what is done, how much of how many

_BATCH = 2048  # cell inputs run at once
_NARROW = 1.0  # what has to be left of a margin, or it is looked at more finely


class NotProvableError(ValueError):
    """A model of which nothing can be proved, with the reason."""


class Judged(NamedTuple):
    """Outputs of a network on each of N cell inputs."""

    numbers: np.ndarray  # int64 [N], sorted, the op inputs as `LocalRule.seen` has them
    outputs: dict[str, np.ndarray]  # the symbol, or class, that it decides on, uint8 [N] each
    right: np.ndarray  # bool [N], all that is asked of it is right, and nothing else as likely
    margin: np.ndarray  # float32 [N], by how much a right logit at least exceeds the others
    left: np.ndarray  # float64 [N], what remains of it in the worst case of rounding
    float32: np.ndarray  # bool [N], whether that is for float32; else it is for float64
    bounded: bool = True  # whether rounding was bounded at all; else `left` is minus infinity

    @property
    def wrong(self) -> np.ndarray:
        """The numbers of the cell inputs that it gets wrong."""
        return self.numbers[~self.right]

    @property
    def arithmetic(self) -> str | None:
        """In which all cell inputs are right, however sums are rounded; None: in none that is
        known."""
        if not self.bounded:
            return "float32 as it is computed here" if self.right.all() else None
        if not (self.right & (self.left > 0)).all():
            return None
        return "float32" if self.float32.all() else "float64"

    @property
    def least_left(self) -> float:
        """Smallest margin that is left: of all in float32, or of those that need float64."""
        needed = self.right & (self.float32.all() | ~self.float32)
        return float(self.left[needed].min(initial=np.inf))


def provable(model: torch.nn.Module, task: Task) -> LocalRule:
    """The rule that a model has to follow, with its codes where it is not told all.

    NotProvableError: there is none, or the model is not one of decided messages.
    """
    codes = model.config.codes if isinstance(model, CellModel) else {}
    try:
        rule = task.local_rule(latent=bool(codes)).with_codes(codes)
    except ValueError as error:
        raise NotProvableError(str(error)) from None
    if not isinstance(model, CellModel):
        raise NotProvableError(
            f"a {type(model).__name__} hands on more than decided messages, so that its cells see "
            "more than can be enumerated; --search looks for a problem that it gets wrong"
        )
    mine, its = model.encoding, rule.encoding
    if (mine.directions, mine.classes, mine.ops) != (its.directions, its.classes, its.ops):
        raise NotProvableError(
            f"the model's cells hand on other messages than the layout {task.layout} in base "
            f"{task.base} declares: train it with those"
        )
    if not all(torch.isfinite(tensor).all() for tensor in model.state_dict().values()):
        raise NotProvableError("the model's weights are not all finite numbers")
    if not computes_float32(model.H_init):
        raise NotProvableError(
            "a proof is of float32, and this model would compute in another arithmetic: leave out "
            "autocast, TF32, and weights of other types"
        )
    return rule


@standard_settings(threads=1)
@torch.no_grad()
def judge(
    model: CellModel,
    rule: LocalRule,
    numbers: np.ndarray,
    report: Report | None = None,
    bounded: bool = True,
    labels: Mapping[str, np.ndarray] | None = None,
) -> Judged:
    """Run a network on cell inputs, by the path that solves, and bound what rounding can do.

    The model is in evaluation mode, on a CPU, in float32, the rule its own (see `provable`), the
    cell inputs' numbers are sorted. The bound takes most of the time. Labels are what is right,
    int64
    [N] by output; None: what the rule says.
    """
    report = report or (lambda *_: None)
    tables = model.message_tables()
    coarse, fine = (RoundingBound(model, "float32", fine) for fine in (False, True))
    exact = RoundingBound(model, "float64")
    hopeless = False  # for float32: the bound is far too coarse for so many cycles
    parts = []
    for start in range(0, len(numbers), _BATCH):
        some = slice(start, start + _BATCH)
        op_inputs, answers = torch.from_numpy(numbers[some]), labels or rule.answers(numbers[some])
        asked = {
            name: torch.from_numpy(part[some] if labels else part) for name, part in answers.items()
        }
        outputs, _ = model.cells(op_inputs, tables)
        margin = model.margins(outputs, asked)
        right, chosen = margin > 0, model.decided(outputs).unbind(1)
        left = torch.full_like(margin, -torch.inf, dtype=torch.float64)
        bounds = (exact,) if hopeless else (coarse, fine, exact)
        for bound in bounds if bounded else ():
            float32 = left > 0
            rest = right & ~(left > (_NARROW if bound is fine else 0))
            if rest.any():
                wanted = {name: label[rest] for name, label in asked.items()}
                left[rest] = left[rest].maximum(bound.left(op_inputs[rest], wanted))
        if not bounded:
            float32 = right
        hopeless = hopeless or (bool(right.any()) and not float32.any())
        parts.append((right, margin, left, float32, *chosen))
        report("judging", start + len(right), len(numbers))
    found = [torch.cat(part).numpy() for part in zip(*parts, strict=True)]
    by_name = {n: c.astype(np.uint8) for n, c in zip(model.outputs, found[4:], strict=True)}
    return Judged(numbers, by_name, found[0], found[1], found[2], found[3], bounded)


def held_against_pages(
    rule: LocalRule, task: Task, numbers: np.ndarray, report: Report | None = None
) -> tuple[np.ndarray, int, int]:
    """Hold a rule and its reachable inputs against drawn pages.

    Args:
        rule: of a model with hints.
        task: of which pages are drawn.
        numbers: of the reachable inputs, sorted.
        report: called after each batch of pages.

    Returns:
        Which inputs problems of training show, bool [N]; of so many problems; and how many pages
        agreed in all.

    Raises:
        OwnCodeError: see `canvas.rule_check.checked_pages`, or the inputs lack one of a page.
    """
    seen = np.zeros(len(numbers), dtype=bool)
    trained = looked = 0
    for pages in checked_pages(task, rule, THOROUGH):
        shown, cells = rule.seen(pages.found.cell_inputs, pages.found.outputs)
        at = places(numbers, shown, pages.found, cells, pages.names, rule)
        looked += len(pages.problems)
        if pages.trained:
            seen[at] = True
            trained += len(pages.problems)
        (report or (lambda *_: None))("holding the rule against pages", looked, sum(THOROUGH))
    return seen, trained, looked
