"""Proof of a model with latent codes.

A latent code has no correct class, so an input with codes has no correct output by itself. But each
code that a network passes comes with the true signals of that canvas. Both are explored together,
by a rule whose cells pass the classes of the true rule and the codes of the network (`Coded`).
`canvas.cells.reachable` enumerates its cell inputs from the canvas's edge inwards: all pairs of
truth and codes that can meet on any canvas. If the network writes the correct symbol and correct
labelled signals in each, every canvas of any size is correct. Equality of two automata is decided
in the same way, by their product (Hopcroft & Karp 1971): see `Beside`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from canvas import symbols
from canvas.cells.check import THOROUGH, check_reachable
from canvas.cells.local_rule import Decide, LocalRule
from canvas.cells.reachable import reachable_cell_inputs
from canvas.cells.spec import SYMBOL, TOKEN, Inputs, input_name
from canvas.task import Task
from trm.cells.proof.compare import Tested
from trm.runtime.progress import report

_MOST = 20_000_000  # cell inputs to explore; an incorrect model has far more
BESIDE = "beside: "  # prefix of an output of the other rule


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
    tested: Tested  # drawn canvases that agreed with the rule and with this set
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
    coded_rule, complete = Coded(rule, coded, decide), True
    seen, tested = _Seen(coded_rule), Tested(0, 0)
    try:
        cell_inputs = reachable_cell_inputs(coded_rule, seen)
    except OverflowError:
        complete = False
    op_inputs = np.unique(np.concatenate(seen.op_inputs), axis=0)
    meanings = {
        name: np.unique(np.concatenate(parts), axis=0) for name, parts in seen.meanings.items()
    }
    if complete and task is not None:
        tested = Tested(*check_reachable(task, coded_rule, cell_inputs, THOROUGH, report))
    numbers, labels = op_inputs[:, 0].copy(), op_inputs[:, 1:]
    return Explored(numbers, labels, meanings, complete, tested, seen.left_out)


class Beside(LocalRule):
    """A rule with another one of its layout beside it: cells pass signals of both.

    Args:
        rule: the first one.
        other: reads its own classes of some signals, and the rule's of all others.
        own: names of these signals.
        decide: called with the cell inputs of the other; returns its outputs by name.
    """

    def __init__(
        self,
        rule: LocalRule,
        other: LocalRule,
        own: Collection[str],
        decide: Callable[[Inputs], Mapping[str, np.ndarray]],
    ) -> None:
        self.rule, self.other, self.own, self.decide_other = rule, other, own, decide
        for direction, names in rule.messages.items():
            more = (BESIDE + name for name in other.messages[direction] if name in own)
            setattr(self, direction, (*names, *more))
        self.exact_together = rule.exact_together
        self.named_as = rule
        super().__init__(rule.base)
        self.rows, self.most_operands = rule.rows, rule.most_operands

    def _of(self, signal: str) -> tuple[LocalRule, str]:
        name = signal.removeprefix(BESIDE)
        return self.rule if name == signal else self.other, name

    def classes(self, signal: str) -> int:
        """Return the number of classes of a signal of one of the two."""
        rule, name = self._of(signal)
        return rule.signals[name]

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Reduce a signal as the rule does that it belongs to."""
        rule, name = self._of(signal)
        return rule.reduced(name, classes)

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        """Return the outputs of the rule, and the symbol and the own signals of the other."""
        found = self.rule.apply(self._read_by(self.rule, inputs, ()))
        more = self.decide_other(self.inputs_of_other(inputs))
        return found | {BESIDE + name: more[name] for name in (SYMBOL, *self.own)}

    def inputs_of_other(self, inputs: Mapping[str, np.ndarray]) -> Inputs:
        """Return the cell inputs of the other, int64 [N] by name."""
        return self._read_by(self.other, inputs, self.own)

    @staticmethod
    def _read_by(rule: LocalRule, inputs: Mapping[str, np.ndarray], own: Collection[str]) -> Inputs:
        found = Inputs({TOKEN: inputs[TOKEN]})
        for direction, names in rule.whole.directions.items():
            for name in ("", *names):
                passed = BESIDE + name if name in own else name
                found[input_name(direction, name)] = inputs[input_name(direction, passed)]
        return found


class Coded(Beside):
    """The true rule with the codes of a network beside it; arguments as for `explore`."""

    def __init__(self, rule: LocalRule, coded: LocalRule, decide: Decide) -> None:
        def codes(inputs: Inputs) -> dict[str, np.ndarray]:
            ids, index = np.unique(coded.whole.encode(0, inputs), return_inverse=True)
            return dict(zip((SYMBOL, *coded.signals), decide(ids)[index].T, strict=True))

        super().__init__(rule, coded, tuple(coded.codes), codes)
        self.marks_neighbour = not rule.exact_together

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Reduce classes as the true rule does; not at all if a mark has to tell what is passed."""
        if self.marks_neighbour:
            return classes
        if signal.startswith(BESIDE):
            return LocalRule.reduced(self, signal, classes)
        return self.rule.reduced(signal, classes)

    def can_occur(self, row: str, column: str, cell_inputs: Inputs) -> np.ndarray:
        return self.rule.can_occur(row, column, cell_inputs)


class _Seen:
    """Op inputs of a network with labels, and meanings of its codes, as an enumeration finds them.

    Raises:
        OverflowError: there are more than `_MOST` inputs.
    """

    def __init__(self, rule: Coded) -> None:
        self.rule, self.looked, self.left_out = rule, 0, 0
        self.op_inputs: list[np.ndarray] = []  # int64 [N, 1 + outputs], ids and labels
        self.meanings: dict[str, list[np.ndarray]] = {name: [] for name in rule.own}

    def __call__(
        self, row: str, column: str, inputs: Inputs, outputs: dict[str, np.ndarray], out: int
    ) -> None:
        self.left_out += out
        self.looked += len(inputs[TOKEN])
        report("exploring", self.looked, _MOST)
        if self.looked > _MOST:
            raise OverflowError
        if not outputs:
            return
        first = np.unique(self.rule.whole.encode(0, inputs), return_index=True)[1]
        inputs = Inputs({name: part[first] for name, part in inputs.items()})
        outputs = {name: part[first] for name, part in outputs.items()}
        coded, codes = self.rule.other, self.rule.own
        ids = coded.whole.encode(0, self.rule.inputs_of_other(inputs))
        labels = [np.where(inputs[TOKEN] == symbols.MASK, outputs[SYMBOL], -1)]
        labels += [outputs[BESIDE + name if name in codes else name] for name in coded.signals]
        self.op_inputs.append(np.unique(np.stack((ids, *labels), axis=1), axis=0))
        for name in codes:
            # Labelled signals in the first message that contains the code.
            message = next(of for of in self.rule.rule.messages.values() if name in of)
            hints = [signal for signal in message if signal not in codes]
            hint = outputs[hints[0]] if len(hints) == 1 else np.zeros_like(ids)
            meaning = np.stack((hint, outputs[name], outputs[BESIDE + name]), axis=1)
            self.meanings[name].append(np.unique(meaning, axis=0))
