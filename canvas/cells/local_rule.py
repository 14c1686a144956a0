"""Base class of local rules: the messages of a layout's cells, and the function of a cell."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from canvas import symbols
from canvas.cells.encoding import OpEncoding
from canvas.cells.spec import (
    MOST_CODES,
    NEIGHBOURS,
    OWN,
    SYMBOL,
    TOKEN,
    Op,
    RowKind,
    Seen,
    input_name,
)
from canvas.drawing import WorkedDrawing


class LocalRule(ABC):
    """Messages of the cells of a layout, and the function of a cell; see this module."""

    # The signals that a cell hands in each direction. Those handed left depend on its row, the
    # others are all that rows below learn of it.
    left: tuple[str, ...]
    down: tuple[str, ...]
    down_right: tuple[str, ...] = ()
    down_left: tuple[str, ...] = ()
    ops: tuple[Op, ...] = ()  # the ops, in order; none: one that reads all
    probe_targets: tuple[str, ...] = ()  # what no cell decides, but probes can look for
    # How `canvas.cells.reachable` enumerates states of a row. True: each message from the right is
    # kept together with the exact message from above. False: with what `kept` keeps of that one,
    # for rules in which nothing follows from both.
    kept_together = True
    most_operands: int | None = None  # of a page; None: any number
    rows: Mapping[str, RowKind]  # the kinds that a page has; more than pages show, never less

    def __init__(self, base: int) -> None:
        self.base = base  # of the digits
        self.codes: dict[str, int] = {}  # of signals that networks are not told, see `with_codes`
        self.digits = tuple(symbols.DIGIT_IDS[:base].tolist())

    def with_codes(self, codes: Mapping[str, int]) -> Self:
        """Return the same rule for a network without hints for some signals: they are latent codes.

        How many there are of each such signal; what they mean is the network's affair: the classes
        that `cell` gives count for nothing. ValueError: no such signal, or cells work in steps.
        """
        if unknown := sorted(set(codes) - set(self.signals)):
            raise ValueError(
                f"codes name {', '.join(unknown)}, and cells hand on {', '.join(self.signals)}"
            )
        if codes and self.ops:
            raise ValueError("codes are for cells that read all at once, and these work in steps")
        if some := [name for name, number in codes.items() if not 2 <= number <= MOST_CODES]:
            raise ValueError(f"{some[0]} has 2 to {MOST_CODES} codes, not {codes[some[0]]}")
        rule = type(self)(self.base)
        rule.codes = dict(codes)
        return rule

    @abstractmethod
    def classes(self, signal: str) -> int:
        """Number of classes of a signal, the first of which is none."""

    @abstractmethod
    def cell(self, outputs: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        """Compute the outputs of an op from N op inputs: int64 [N] each.

        The id of the `SYMBOL` to write, and the class of each signal. A function of the op inputs
        alone: of each, never of its place on a page.
        """

    def kept(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Reduce `classes` to the few numbers that `canvas.cells.reachable` keeps of a neighbour.

        That a signal is none, its first class, or another.
        """
        return np.minimum(classes, 2)

    def draw_probe_targets(self, drawing: WorkedDrawing) -> dict[str, np.ndarray]:
        """The classes of `probe_targets`, as `draw_signals` has them."""
        return {}

    @cached_property
    def signals(self) -> dict[str, int]:
        """All signals, and how many classes each has: those in messages, then the others."""
        handed = (name for direction in self.messages.values() for name in direction)
        decided = (name for op in self.ops for name in op.outputs if name != SYMBOL)
        names = dict.fromkeys((*handed, *decided))
        return {name: self.codes.get(name) or self.classes(name) for name in names}

    @property
    def messages(self) -> dict[str, tuple[str, ...]]:
        """The signals that are handed in each direction, by the names of `NEIGHBOURS`."""
        return {name: getattr(self, name) for name in NEIGHBOURS}

    @cached_property
    def encoding(self) -> OpEncoding:
        """The ops, and how what they see is numbered."""
        return self._encode(self.ops) if self.ops else self.whole

    @cached_property
    def whole(self) -> OpEncoding:
        """A single op that reads all: its op inputs are cell inputs."""
        return self._encode((Op((SYMBOL, *self.signals)),))

    def _encode(self, ops: Sequence[Op]) -> OpEncoding:
        return OpEncoding(self.messages, self.signals, ops, symbols.vocab_size(self.base))

    def message_id(self, names: Sequence[str], values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Messages of these signals as numbers from 1 up, int64 as the classes; of no signal 0."""
        if not names:
            return np.zeros(np.shape(next(iter(values.values()))), dtype=np.int64)
        sizes = [self.signals[name] for name in names]
        return 1 + np.ravel_multi_index([values[name] for name in names], sizes)

    def message(self, names: Sequence[str], message_id: np.ndarray) -> dict[str, np.ndarray]:
        """Decode messages from their ids, see `message_id`; "": the presence of the cell."""
        there = (message_id > 0).astype(np.int64)
        sizes = [self.signals[name] for name in names]
        parts = np.unravel_index(message_id - there, sizes) if names else ()
        return {"": there, **dict(zip(names, parts, strict=True))}

    def cell_inputs(self, numbers: np.ndarray) -> Seen:
        """Decode cell inputs from their numbers as op inputs of `whole`."""
        ((_, _, seen),) = self.whole.shown(numbers)
        return seen

    def around(
        self, handed: np.ndarray, page: np.ndarray, row: np.ndarray, column: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Read the messages of N cells' neighbours, int64 [N] by the names by which ops read.

        ``handed [B, H + 1, W + 2, 1 + signals]`` is what all cells hand on, first 1 for there being
        such a cell; around the cells is a margin of 0, above and on both sides.
        """
        place = {name: i for i, name in enumerate(("", *self.signals))}
        found: dict[str, np.ndarray] = {}
        for direction, names in self.whole.directions.items():
            down, right = NEIGHBOURS[direction]
            there = handed[page, row + 1 + down, column + 1 + right].astype(np.int64, copy=False)
            found |= {input_name(direction, name): there[:, place[name]] for name in ("", *names)}
        return found

    def apply(self, cell_inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All that follows from cell inputs, op after op: int64 [N] by output.

        Of cell inputs what they show, int64 [N] each, by the names by which ops read.
        """
        found: dict[str, np.ndarray] = {}
        seen = Seen(cell_inputs)
        for outputs, inputs in self.encoding.ops:
            said = self.cell(
                outputs, seen if inputs is None else Seen({n: seen[n] for n in inputs})
            )
            found |= said
            seen |= {input_name(OWN, name): part for name, part in said.items()}
        return found

    def seen(
        self, cell_inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all op inputs in some cells, and the cell of each, int64 [M] each.

        Where the symbol is given, an op that outputs the symbol alone does not run.

        Args:
            cell_inputs: of N cells, int64 [N] by name, see `apply`.
            outputs: of these cells, int64 [N] by name.
        """
        seen = {**cell_inputs, **{input_name(OWN, name): part for name, part in outputs.items()}}
        everywhere = np.arange(len(cell_inputs[TOKEN]))
        asked = np.flatnonzero(cell_inputs[TOKEN] == symbols.MASK)
        of = [asked if op.outputs == (SYMBOL,) else everywhere for op in self.encoding.ops]
        numbers = [self.encoding.numbers(op, seen)[here] for op, here in enumerate(of)]
        return np.concatenate(numbers), np.concatenate(of)

    def samples(
        self, cell_inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
    ) -> "OpSamples":
        """Return each distinct op input in some cells once, with its label; arguments as `seen`."""
        ids, cells = self.seen(cell_inputs, outputs)
        ids, first = np.unique(ids, return_index=True)
        ops, cells = self.encoding.op_of(ids), cells[first]
        seen = {**cell_inputs, **{input_name(OWN, name): part for name, part in outputs.items()}}
        found = OpSamples.empty(self, ops)
        for op in range(len(self.encoding.ops)):
            here = np.flatnonzero(ops == op)
            read = {name: seen[name][cells[here]] for name in self.encoding.reads[op]}
            said = {name: outputs[name][cells[here]] for name in self.encoding.ops[op].outputs}
            found.fill(self, op, here, read, said)
        return found

    def samples_of(self, ids: np.ndarray) -> "OpSamples":
        """Return op inputs with their labels, from their ids, int64 [N]."""
        found = OpSamples.empty(self, self.encoding.op_of(ids))
        for number, (op, here, seen) in enumerate(self.encoding.shown(ids)):
            found.fill(self, number, here, seen, self.cell(op.outputs, seen))
        return found

    def answers(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Compute the outputs of op inputs: int64 [N] by output, −1 where an op has no such output.

        The symbol's is −1 where it is given, too.
        """
        found = {name: np.full(len(numbers), -1) for name in (SYMBOL, *self.signals)}
        for op, here, seen in self.encoding.shown(numbers):
            said = self.cell(op.outputs, seen)
            for name in op.outputs:
                found[name][here] = said[name]
            if op.inputs is None:
                found[SYMBOL][here[seen[TOKEN] != symbols.MASK]] = -1
        return found


class OpSamples(NamedTuple):
    """Inputs of N ops with the right outputs."""

    ops: np.ndarray  # int64 [N], indices of the ops
    inputs: np.ndarray  # int64 [N, width], what each op reads, see `OpEncoding.table`
    labels: np.ndarray  # int64 [N, 1 + signals]: symbol, then signals; −1: no label

    @classmethod
    def empty(cls, rule: LocalRule, ops: np.ndarray) -> "OpSamples":
        """Return samples of these ops, int64 [N], that are still to be filled in."""
        inputs = np.zeros((len(ops), rule.encoding.width), dtype=np.int64)
        return cls(ops, inputs, np.full((len(ops), 1 + len(rule.signals)), -1))

    def fill(
        self,
        rule: LocalRule,
        op: int,
        here: np.ndarray,
        seen: Mapping[str, np.ndarray],
        outputs: Mapping[str, np.ndarray],
    ) -> None:
        """Fill in the samples of one op, in place.

        Given symbols get no label.

        Args:
            rule: of the op.
            op: its index.
            here: indices of its samples, int64 [M].
            seen: what it reads in them, int64 [M] by name.
            outputs: its right outputs, int64 [M] by name.
        """
        self.inputs[here] = rule.encoding.table(op, seen)
        for column, name in enumerate((SYMBOL, *rule.signals)):
            if name in outputs:
                self.labels[here, column] = outputs[name]
        if rule.encoding.ops[op].inputs is None:
            self.labels[here[seen[TOKEN] != symbols.MASK], 0] = -1
