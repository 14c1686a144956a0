"""Base class of local rules: the messages of a layout's cells, and the function of a cell."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np

from canvas import symbols
from canvas.cells.encoding import OpEncoding
from canvas.cells.spec import (
    AGAINST,
    MOST_CODES,
    NEIGHBOURS,
    OWN,
    SYMBOL,
    TOKEN,
    Inputs,
    Op,
    RowKind,
    input_name,
)
from canvas.drawing import WorkedDrawing


class LocalRule(ABC):
    """Messages of the cells of a layout, and the function of a cell; see `canvas.cells`."""

    # The signals that a cell passes in each direction. Those passed left depend on its row. The
    # others are all that rows below receive from it.
    left: tuple[str, ...]
    down: tuple[str, ...]
    down_right: tuple[str, ...] = ()
    down_left: tuple[str, ...] = ()
    # With a signal in one of these no cell is the first one. All cells are updated again and again
    # until no message changes; before the first update all classes are 0.
    right: tuple[str, ...] = ()
    up: tuple[str, ...] = ()
    ops: tuple[Op, ...] = ()  # the ops, in order; none: one that reads all
    probe_targets: tuple[str, ...] = ()  # quantities that no cell decides, as labels of probes
    # Enumeration of a row's states in `canvas.cells.reachable`. True: each message from the right
    # is stored with the exact message from above. False: with that message as `reduced` returns it,
    # for rules in which nothing follows from both.
    exact_together = True
    # True: what a row above can contain is stored for each two cells that lie side by side and the
    # cell on their right, with what they pass to the left. This is more exact, and takes longer.
    marks_neighbour = False
    sign: int = 0  # id of the sign of its canvases, where it is beyond the usual vocabulary
    most_operands: int | None = None  # of a canvas; None: any number
    rows: Mapping[str, RowKind]  # all kinds of rows; may allow more than canvases have, never less

    def __init__(self, base: int) -> None:
        self.base = base  # of the digits
        self.codes: dict[str, int] = {}  # number of codes of latent signals, see `with_codes`
        self.digits = tuple(symbols.ids_of(base).tolist())

    def with_codes(self, codes: Mapping[str, int]) -> Self:
        """Return the same rule for a network without hints for some signals.

        These signals are latent codes. The network chooses their meaning; the classes that `cell`
        returns for them are not used.

        Args:
            codes: number of latent codes by signal.

        Raises:
            ValueError: a signal is unknown, a number of codes is out of range, or the rule has
                several ops, or no order of writing.
        """
        if unknown := sorted(set(codes) - set(self.signals)):
            raise ValueError(
                f"codes name {', '.join(unknown)}, and cells pass {', '.join(self.signals)}"
            )
        if codes and self.ops:
            raise ValueError("codes are for cells that read all at once, and these work in steps")
        if codes and not self.ordered:
            raise ValueError("codes are for cells with an order of writing, and these have none")
        if some := [name for name, count in codes.items() if not 2 <= count <= MOST_CODES]:
            raise ValueError(f"{some[0]} has 2 to {MOST_CODES} codes, not {codes[some[0]]}")
        rule = type(self)(self.base)
        rule.codes = dict(codes)
        return rule

    @abstractmethod
    def classes(self, signal: str) -> int:
        """Number of classes of a signal. Class 0 stands for none."""

    @abstractmethod
    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        """Compute the outputs of an op from N op inputs: int64 [N] by output.

        These are the id of the `SYMBOL` to write, and the class of each signal. They depend on
        the op input alone, never on the place of the cell on a canvas.
        """

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Reduce classes of a signal to the few that `canvas.cells.reachable` distinguishes.

        The default distinguishes none (0), the first class (1) and all others (2).
        """
        return np.minimum(classes, 2)

    def can_occur(self, row: str, column: str, cell_inputs: Inputs) -> np.ndarray:
        """Return which of N cell inputs a canvas can have, bool [N], as far as the rule knows.

        `canvas.cells.reachable` leaves the others out. The default leaves out none.

        Args:
            row: the kind of row, by its name in `rows`.
            column: the kind of column, by its name in the row.
            cell_inputs: int64 [N] by input name.
        """
        return np.ones(len(cell_inputs[TOKEN]), dtype=bool)

    def laws(self, row: str, column: str) -> Sequence["Law"]:
        """Return the laws that cells of a kind of row and column obey; by default none.

        `trm prove` checks them in all reachable inputs. They take the place of the laws that
        `trm.cells.proof.check` contains for the package's own layouts.

        Args:
            row: the kind of row, by its name in `rows`.
            column: the kind of column, by its name in the row.
        """
        return ()

    def draw_probe_targets(self, drawing: WorkedDrawing) -> dict[str, np.ndarray]:
        """Return the classes of `probe_targets`: uint8 [B, H, W] by name, as `draw_signals`."""
        return {}

    @cached_property
    def signals(self) -> dict[str, int]:
        """Number of classes by signal: those in messages, then the others."""
        passed = (name for direction in self.messages.values() for name in direction)
        decided = (name for op in self.ops for name in op.outputs if name != SYMBOL)
        names = dict.fromkeys((*passed, *decided))
        return {name: self.codes.get(name) or self.classes(name) for name in names}

    @property
    def vocab_size(self) -> int:
        """Number of ids that a model needs for its canvases."""
        return max(symbols.vocab_size(self.base), 1 + self.sign)

    @property
    def messages(self) -> dict[str, tuple[str, ...]]:
        """Signals passed in each direction, by the names of `NEIGHBOURS`."""
        every = {name: getattr(self, name) for name in NEIGHBOURS}
        return {name: of for name, of in every.items() if of or name not in AGAINST}

    @property
    def ordered(self) -> bool:
        """True if cells have an order of writing: no message goes right or up."""
        return self.whole.ordered

    @cached_property
    def encoding(self) -> OpEncoding:
        """Codec of the inputs of the rule's ops."""
        return self._encode(self.ops) if self.ops else self.whole

    @cached_property
    def whole(self) -> OpEncoding:
        """Codec of a single op that reads all: its op inputs are cell inputs."""
        return self._encode((Op((SYMBOL, *self.signals)),))

    def _encode(self, ops: Sequence[Op]) -> OpEncoding:
        return OpEncoding(self.messages, self.signals, ops, self.vocab_size)

    def message_id(self, names: Sequence[str], values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the ids of messages, int64 from 1 up; 0 if the message has no signals.

        Args:
            names: the signals of the message.
            values: their classes, int64 arrays of one shape by name.
        """
        if not names:
            return np.zeros(np.shape(next(iter(values.values()))), dtype=np.int64)
        sizes = [self.signals[name] for name in names]
        return 1 + np.ravel_multi_index([values[name] for name in names], sizes)

    def message(self, names: Sequence[str], message_id: np.ndarray) -> dict[str, np.ndarray]:
        """Decode messages from their ids, see `message_id`; "": 1 if the cell exists, else 0."""
        present = (message_id > 0).astype(np.int64)
        sizes = [self.signals[name] for name in names]
        parts = np.unravel_index(message_id - present, sizes) if names else ()
        return {"": present, **dict(zip(names, parts, strict=True))}

    def cell_inputs(self, ids: np.ndarray) -> Inputs:
        """Decode cell inputs from their ids, those of the op inputs of `whole`."""
        ((_, _, inputs),) = self.whole.decode(ids)
        return inputs

    def inputs_from(self, tokens: np.ndarray, around: np.ndarray) -> Inputs:
        """Return what N cells read: their cell inputs, int64 [N] by input name.

        Args:
            tokens: symbol ids, int64 [N].
            around: messages of the neighbours in the directions of `whole`, int64
                [N, directions, 1 + signals]: 1, then classes; all 0 where there is no neighbour.
        """
        place = {name: i for i, name in enumerate(("", *self.signals))}
        found = Inputs({TOKEN: tokens})
        for number, (direction, names) in enumerate(self.whole.directions.items()):
            for name in ("", *names):
                found[input_name(direction, name)] = around[:, number, place[name]]
        return found

    def apply(self, cell_inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute all outputs of N cells, op after op: int64 [N] by output.

        Args:
            cell_inputs: of the cells, int64 [N] by input name.
        """
        found: dict[str, np.ndarray] = {}
        known = Inputs(cell_inputs)
        for names, inputs in self.encoding.ops:
            outputs = self.cell(
                names, known if inputs is None else Inputs({n: known[n] for n in inputs})
            )
            found |= outputs
            known |= {input_name(OWN, name): part for name, part in outputs.items()}
        return found

    def op_input_ids(
        self, cell_inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all op inputs in some cells, and the cell of each, int64 [M] each.

        Where the symbol is given, an op that outputs the symbol alone does not run.

        Args:
            cell_inputs: of N cells, int64 [N] by name, see `apply`.
            outputs: of these cells, int64 [N] by name.
        """
        known = {**cell_inputs, **{input_name(OWN, name): part for name, part in outputs.items()}}
        everywhere = np.arange(len(cell_inputs[TOKEN]))
        masked = np.flatnonzero(cell_inputs[TOKEN] == symbols.MASK)
        cells = [masked if op.outputs == (SYMBOL,) else everywhere for op in self.encoding.ops]
        ids = [self.encoding.encode(op, known)[here] for op, here in enumerate(cells)]
        return np.concatenate(ids), np.concatenate(cells)

    def decide(self, ids: np.ndarray) -> np.ndarray:
        """Return the correct classes for N op inputs, from their ids, see `Decide`."""
        columns = {name: i for i, name in enumerate((SYMBOL, *self.signals))}
        found = np.full((len(ids), len(columns)), -1)
        for op, here, inputs in self.encoding.decode(ids):
            outputs = self.cell(op.outputs, inputs)
            for name in op.outputs:
                found[here, columns[name]] = outputs[name]
            if op.inputs is None:
                found[here[inputs[TOKEN] != symbols.MASK], 0] = -1
        return found


# Called with the ids of N op inputs, int64 [N]; returns the class of each output, the symbol first,
# int64 [N, 1 + signals]. −1: the op does not have that output, or the symbol is given. A rule, a
# network and a table of decisions all have such a function.
Decide = Callable[[np.ndarray], np.ndarray]

# Called with the inputs and outputs of N cells, int64 [N] by name as in `LocalRule.apply`; returns
# in which of them the law holds, bool [N]. The first line of its docstring is an equation. The
# output `SYMBOL` is the cell's symbol where it is given.
Law = Callable[[Inputs, Mapping[str, np.ndarray]], np.ndarray]
