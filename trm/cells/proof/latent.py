"""Proof of a model with latent codes.

A latent code has no correct class, so an input with codes has no correct output by itself. But each
code that a network passes comes with the true signals of that canvas. Both are explored together,
by a rule whose cells pass the classes of the true rule and the codes of the network (`Together`).
`canvas.cells.reachable` enumerates its cell inputs from the canvas's edge inwards: all pairs of
truth and codes that can meet on any canvas. If the network writes the correct symbol and correct
labelled signals in each, every canvas of any size is correct. Equality of two automata is decided
in the same way, by their product (Hopcroft & Karp 1971).
"""

from dataclasses import dataclass

import numpy as np

from canvas import symbols
from canvas.cells.check import THOROUGH, check_reachable
from canvas.cells.local_rule import Decide, LocalRule
from canvas.cells.reachable import reachable_cell_inputs
from canvas.cells.spec import SYMBOL, TOKEN, Inputs, input_name
from canvas.task import Task
from trm.runtime.progress import report

_MOST = 20_000_000  # cell inputs to explore; an incorrect model has far more
_CODE = "code for "  # prefix of a signal's name


@dataclass(frozen=True)
class Explored:
    """All op inputs that a network with latent codes can have on any canvas."""

    # Ids of the op inputs, int64 [N], see `LocalRule.op_input_ids`. One with several labels comes
    # several times.
    numbers: np.ndarray
    labels: np.ndarray  # int64 [N, outputs]; of a code the network's own; −1: no label
    # By signal without labels: the class of the labelled signal in its message, its own true
    # class, and the code, int64 [M, 3].
    meanings: dict[str, np.ndarray]
    complete: bool  # False: there are far more than a correct model has
    agreed: int = 0  # drawn canvases that agreed with the rule and with this set
    digits: int = 0  # of the longest operand on them
    left_out: int = 0  # inputs that `LocalRule.can_occur` excluded, counted as often as they came


def explore(
    rule: LocalRule, coded: LocalRule, decide: Decide, task: Task | None = None
) -> Explored:
    """Return every pair of truth and codes that can meet on a canvas of any size.

    Args:
        rule: the true one.
        coded: the same with the network's codes.
        decide: of a network, or of its table.
        task: draws canvases that are compared with the result; None: compare with none.

    Raises:
        OwnCodeError: rule and canvases differ, or a canvas has an input that was not found.
    """
    together, complete = Together(rule, coded, decide), True
    agreed = digits = 0
    try:
        cell_inputs = reachable_cell_inputs(together)
    except OverflowError:
        complete = False
    op_inputs = np.unique(np.concatenate(together.asked), axis=0)
    meanings = {
        name: np.unique(np.concatenate(parts), axis=0) for name, parts in together.meanings.items()
    }
    if complete and task is not None:
        together.exploring = False
        agreed, digits = check_reachable(task, together, cell_inputs, THOROUGH, report)
    numbers, labels, left_out = op_inputs[:, 0].copy(), op_inputs[:, 1:], together.left_out
    return Explored(numbers, labels, meanings, complete, agreed, digits, left_out)


class Together(LocalRule):
    """A rule that passes a network's codes beside its own classes; arguments as for `explore`."""

    def __init__(self, rule: LocalRule, coded: LocalRule, decide: Decide) -> None:
        self.rule, self.coded, self.codes_of = rule, coded, decide
        for direction, names in rule.messages.items():
            setattr(
                self, direction, (*names, *(_CODE + name for name in names if name in coded.codes))
            )
        self.exact_together = rule.exact_together
        self.marks_neighbour = not rule.exact_together
        self.named_as, self.looked, self.left_out = rule, 0, 0
        self.asked: list[np.ndarray] = []
        self.meanings: dict[str, list[np.ndarray]] = {name: [] for name in coded.codes}
        super().__init__(rule.base)
        self.rows, self.most_operands = rule.rows, rule.most_operands
        self.exploring = True  # False: do not collect `asked` and `meanings`

    def classes(self, signal: str) -> int:
        name = signal.removeprefix(_CODE)
        return (self.coded if name != signal else self.rule).signals[name]

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Reduce classes as the true rule does; not at all if a mark has to tell what is passed."""
        if self.marks_neighbour:
            return classes
        if signal.startswith(_CODE):
            return super().reduced(signal, classes)
        return self.rule.reduced(signal, classes)

    def can_occur(self, row: str, column: str, cell_inputs: Inputs) -> np.ndarray:
        possible = self.rule.can_occur(row, column, cell_inputs)
        self.left_out += int(np.count_nonzero(~possible))
        return possible

    def cell(self, outputs: tuple[str, ...], seen: Inputs) -> dict[str, np.ndarray]:
        """Return the outputs of the true rule, and the codes that the network passes."""
        if self.exploring:
            self.looked += len(seen[TOKEN])
            report("exploring", self.looked, _MOST)
            if self.looked > _MOST:
                raise OverflowError
        _, first, index = np.unique(
            self.whole.encode(0, seen), return_index=True, return_inverse=True
        )
        found = self._cell(Inputs({name: part[first] for name, part in seen.items()}))
        return {name: part[index] for name, part in found.items()}

    def _cell(self, seen: Inputs) -> dict[str, np.ndarray]:
        """Compute `cell` of different inputs."""
        found = self.rule.apply(seen)
        codes = {
            input_name(direction, name): seen[input_name(direction, _CODE + name)]
            for direction, names in self.coded.whole.directions.items()
            for name in names
            if name in self.coded.codes
        }
        op_inputs = self.coded.op_input_ids(seen | codes, {})[0]
        different, index = np.unique(op_inputs, return_inverse=True)
        classes = self.codes_of(different)
        decided = dict(zip((SYMBOL, *self.coded.signals), classes.T, strict=True))
        if not self.exploring:
            return found | {_CODE + name: decided[name][index] for name in self.coded.codes}
        labels = []
        for name in (SYMBOL, *self.coded.signals):
            if name in self.coded.codes:
                labels.append(decided[name][index])
                # Labelled signals in the first message that contains the code.
                together = next(of for of in self.rule.messages.values() if name in of)
                beside = [signal for signal in together if signal not in self.coded.codes]
                hint = found[beside[0]] if len(beside) == 1 else np.zeros_like(index)
                meaning = np.stack((hint, found[name], labels[-1]), axis=1)
                self.meanings[name].append(np.unique(meaning, axis=0))
            else:
                labels.append(found[name])
        labels[0] = np.where(seen[TOKEN] == symbols.MASK, labels[0], -1)
        self.asked.append(np.unique(np.stack((op_inputs, *labels), axis=1), axis=0))
        return found | {_CODE + name: decided[name][index] for name in self.coded.codes}
