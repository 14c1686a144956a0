"""The function of a cell as arrays: solving by looking decisions up, without the network.

Imports no framework, except where a network runs.

A cell reads a symbol and decided messages, so its function is a finite table (`CellTable`). Each
decision that occurs has a number, its *state*; each direction has a class for every message that
occurs in it. One array per direction leads from the symbol to the decision:

    value = symbol
    for each direction: value = array[value, class of the neighbour's message]
    state = value

0 in an array stands for an input that is not in the table. State 0 stands for a missing neighbour.

A closed table, made of all reachable inputs by `closed_table`, merges values and classes with equal
entries: the 1,204,976 inputs of the decimal lattice take an array of 1,342 x 700. A `MemoTable` has
no arrays: it begins without inputs, and runs the network on those that it meets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from canvas.boxes import written_box
from canvas.cells.encoding import OpEncoding
from canvas.cells.local_rule import Decide
from canvas.cells.order import wavefront
from canvas.cells.spec import NEIGHBOURS, OWN, SYMBOL, TOKEN, Op, input_name
from canvas.symbols import MASK
from trm.runtime.progress import report

if TYPE_CHECKING:
    from trm.cells.cache import CellCache

_MOST_INPUTS = 2**20  # of a memo
_MOST_IDS = 2**62  # of its inputs
_HASH = np.uint64(0x9E3779B97F4A7C15)  # factor of Fibonacci hashing (Knuth)


class UnknownInputError(LookupError):
    """A cell has an input that is not in a table, and the table cannot grow."""


class CellTable:
    """The function of a cell as arrays; see this module's docstring.

    Args:
        directions: of the messages, in the order of the arrays.
        arrays: int32 [values, classes], one per direction; the first has a row for every symbol id.
        classes: class of the message that a state passes in each direction, int64 [states] each.
        decided: 1, then the decided symbol and signals of each state, int16 [states, 1 + outputs];
            row 0 is 0.
    """

    def __init__(
        self,
        directions: Sequence[str],
        arrays: Sequence[np.ndarray],
        classes: Sequence[np.ndarray],
        decided: np.ndarray,
    ) -> None:
        self.directions = list(directions)
        self.arrays, self.classes, self.decided = list(arrays), list(classes), decided
        self.symbol = decided[:, 1].astype(np.uint8)

    def look_up(self, tokens: np.ndarray, neighbours: Sequence[np.ndarray]) -> np.ndarray:
        """Return the states of N cells, int32 [N].

        Args:
            tokens: symbol ids, uint8 [N].
            neighbours: states of the neighbour in each direction, integers [N] each.

        Raises:
            UnknownInputError: an input is not in the table.
        """
        value = tokens
        for array, classes, states in zip(self.arrays, self.classes, neighbours, strict=True):
            index = np.multiply(value, array.shape[1], dtype=np.intp)
            index += classes.take(states)
            value = array.take(index)
        if not value.all():
            raise UnknownInputError
        return value

    def fill(self, canvases: np.ndarray) -> np.ndarray:
        """Return canvases with all masked cells filled in, uint8 [B, H, W].

        The symbols are those of `trm.cells.computing.run_wavefront`. Memory beside the canvases
        grows with their height alone.

        Args:
            canvases: uint8 [B, H, W].

        Raises:
            UnknownInputError: an input is not in the table.
        """
        filled = np.array(canvases, order="C")
        boxes = np.array([_box(canvas) for canvas in canvases]).reshape(-1, 4)
        different, which = np.unique(boxes, axis=0, return_inverse=True)
        for number, box in enumerate(different.tolist()):
            alike = np.flatnonzero(which.reshape(-1) == number)
            if len(alike) == len(filled):
                self._fill(filled, *box)
            else:
                some = filled[alike]
                self._fill(some, *box)
                filled[alike] = some
        return filled

    def _fill(self, cells: np.ndarray, top: int, bottom: int, left: int, right: int) -> None:
        """Compute the cells of a box in place by `canvas.cells.order.wavefront`.

        The cells of a front lie two columns apart, in one row after the other. So in the flat
        canvas they are a slice, and in the fronts before their neighbours are slices, too. A front
        is its number, its first row and the row after its last one.
        """
        B, H, W = cells.shape
        height, width = bottom - top, right - left
        flat, step = cells.reshape(B, H * W), W + 2
        numbers = range(width + 2 * height - 2 if height and width else 0)
        fronts = [(n, max(0, (n - width + 2) // 2), min(height, n // 2 + 1)) for n in numbers]
        done = 0

        def decide(front: tuple[int, int, int], neighbours: list[np.ndarray]) -> np.ndarray:
            nonlocal done
            number, low, high = front
            start = top * W + right - 1 - number + low * step
            symbols = flat[:, start : start + (high - low) * step : step]
            token = symbols.copy()
            found = self.look_up(token, neighbours)
            np.copyto(symbols, self.symbol.take(found), where=token == MASK)
            done += found.size
            report("cells", done, B * height * width, solving=True)
            return found

        states = _LastFronts(self.directions, B, height)
        wavefront(decide, states, zip(fronts, fronts, strict=True))

    def write(self, file: IO[bytes], **notes: str) -> None:
        """Write the table, compressed, with notes by name."""
        parts = {"decided": self.decided, "directions": np.array(self.directions)}
        parts |= {name: np.array(text) for name, text in notes.items()}
        for number, (array, classes) in enumerate(zip(self.arrays, self.classes, strict=True)):
            parts |= {f"array{number}": array, f"classes{number}": classes}
        narrow = {
            name: part.astype(np.min_scalar_type(int(part.max(initial=0))))
            if part.dtype.kind == "i"
            else part
            for name, part in parts.items()
        }
        np.savez_compressed(file, **narrow)  # type: ignore[arg-type]

    @classmethod
    def read(cls, file: Path, **notes: str) -> CellTable | None:
        """Read what `write` has written; None if the file has other notes.

        Raises:
            ValueError: the file is damaged.
            PermissionError: it may not be read.
        """
        try:
            with file.open("rb") as raw, np.load(raw, allow_pickle=False) as parts:
                if any(str(parts[name]) != text for name, text in notes.items()):
                    return None
                directions = [str(one) for one in parts["directions"]]
                arrays, classes = (
                    [parts[f"{name}{i}"].astype(dtype) for i in range(len(directions))]
                    for name, dtype in (("array", np.int32), ("classes", np.intp))
                )
                found = cls(directions, arrays, classes, parts["decided"].astype(np.int16))
            found._check()
        except PermissionError:
            raise
        except Exception as error:  # a damaged archive raises errors of many kinds
            raise ValueError(
                f"{file} is damaged: delete it, or write it again with `trm prove --decisions`"
            ) from error
        return found

    def _check(self) -> None:
        """Raise ValueError unless every entry leads to a row of the next array."""
        rows = [len(array) for array in self.arrays[1:]] + [len(self.decided)]
        known = all(direction in NEIGHBOURS for direction in self.directions)
        fits = known and len(self.arrays) > 0 and len(self.arrays[0]) > MASK
        for array, classes, most in zip(self.arrays, self.classes, rows, strict=True):
            fits = fits and array.min() >= 0 and array.max() < most
            fits = fits and len(classes) == len(self.decided)
            fits = fits and classes.min() >= 0 and classes.max() < array.shape[1]
        if not fits:
            raise ValueError("entries lead out of the arrays")


class _LastFronts:
    """States of the cells of the last four fronts, which a front reads; 0 without a cell."""

    def __init__(self, directions: Sequence[str], canvases: int, height: int) -> None:
        self.steps = [NEIGHBOURS[direction] for direction in directions]
        # By row, after a row that is missing.
        self.states = np.zeros((4, canvases, height + 1), dtype=np.intp)
        self.lows = [0] * 4

    def __getitem__(self, front: tuple[int, int, int]) -> list[np.ndarray]:
        """Return the states of a front's neighbours in each direction, integers [B, rows] each."""
        number, low, high = front
        return [
            self.states[(number - beside + 2 * below) % 4, :, low + 1 + below : high + 1 + below]
            for below, beside in self.steps
        ]

    def __setitem__(self, front: tuple[int, int, int], states: np.ndarray) -> None:
        """Replace the front four before; the rows above the first one are missing from now on."""
        number, low, high = front
        here = self.states[number % 4]
        here[:, self.lows[number % 4] + 1 : low + 1] = 0
        here[:, low + 1 : high + 1] = states
        self.lows[number % 4] = low


class MemoTable(CellTable):
    """Table of the inputs met so far. The network decides each one once; each one is a state.

    Args:
        cache: of the model, on a CPU.

    Raises:
        UnknownInputError: an id of an input would not be an int64.
    """

    def __init__(self, cache: CellCache) -> None:
        encoding, self.cache = cache.model.encoding, cache
        names = list(cache.model.outputs)[1:]
        passed = {d: of for d, of in encoding.directions.items() if d != OWN}
        whole = OpEncoding(passed, encoding.classes, (Op((SYMBOL, *names)),), encoding.ids)
        if whole.starts[-1] > _MOST_IDS:
            raise UnknownInputError
        units = whole.units(0)
        self.directions = list(passed)
        self.unit = units[TOKEN]
        # By direction the weight in an id of "there is a neighbour", then of its signals.
        self.units = np.array(
            [[units.get(input_name(d, name), 0) for name in ("", *names)] for d in passed]
        ).reshape(len(passed), -1)
        # Pages of these arrays take no memory before they are written to.
        self.decided = np.zeros((_MOST_INPUTS, 2 + len(names)), dtype=np.int16)
        self.symbol = np.zeros(_MOST_INPUTS, dtype=np.uint8)
        self.passed = np.zeros((len(passed), _MOST_INPUTS), dtype=np.int64)  # parts of ids
        self.count = 1  # states in use, with state 0
        # A hash table of ids, 1 higher, and their states; 0 is an empty slot.
        self.keys = np.zeros(4 * _MOST_INPUTS, dtype=np.int64)
        self.states = np.zeros(4 * _MOST_INPUTS, dtype=np.int32)

    def look_up(self, tokens: np.ndarray, neighbours: Sequence[np.ndarray]) -> np.ndarray:
        """See `CellTable.look_up`; new inputs are added.

        Raises:
            UnknownInputError: there are too many inputs.
        """
        keys = np.multiply(tokens, self.unit, dtype=np.int64) + 1
        for passed, states in zip(self.passed, neighbours, strict=True):
            keys += passed.take(states)
        slots = self._slots(keys.reshape(-1))
        if not (found := self.states.take(slots)).all():
            new = np.flatnonzero(found == 0)
            new = new[np.unique(keys.reshape(-1)[new], return_index=True)[1]]
            self._learn(tokens.reshape(-1)[new], [of.reshape(-1)[new] for of in neighbours])
            self._add(keys.reshape(-1)[new])
            found = self.states.take(self._slots(keys.reshape(-1)))
        return found.reshape(keys.shape)

    def _slots(self, keys: np.ndarray) -> np.ndarray:
        """Return the slot of each key, int64 [N]; for a new key, the one that it would get."""
        slots = (keys.astype(np.uint64) * _HASH >> np.uint64(40)).astype(np.intp) % len(self.keys)
        other = np.arange(len(keys))
        while len(other):
            there = self.keys.take(slots[other])
            other = other[(there != keys[other]) & (there != 0)]
            slots[other] = (slots[other] + 1) % len(self.keys)
        return slots

    def _learn(self, tokens: np.ndarray, neighbours: Sequence[np.ndarray]) -> None:
        """Add the decisions of N new inputs as states; arguments as for `look_up`."""
        import torch

        from trm.runtime.torch_settings import standard_settings

        here = slice(self.count, self.count + len(tokens))
        if here.stop > _MOST_INPUTS:
            raise UnknownInputError
        # 1, then the signals, without the symbol.
        signals = np.arange(self.decided.shape[1]) != 1
        around = np.stack([self.decided[states][:, signals] for states in neighbours], axis=1)
        with standard_settings(threads=1), torch.inference_mode():
            seen = tokens.astype(np.int64), around.astype(np.int64)
            classes = self.cache.of_cells(*map(torch.from_numpy, seen)).classes.numpy()
        self.decided[here, 0], self.decided[here, 1:] = 1, classes
        self.symbol[here] = classes[:, 0]
        self.passed[:, here] = self.units @ self.decided[here][:, signals].T

    def _add(self, keys: np.ndarray) -> None:
        """Add N keys with consecutive states; keys for the same slot are added in turn."""
        states = np.arange(self.count, self.count + len(keys))
        self.count += len(keys)
        while len(keys):
            slots = self._slots(keys)
            self.keys[slots] = keys
            self.states[slots] = states
            lost = self.keys[slots] != keys
            keys, states = keys[lost], states[lost]


def passed_outputs(
    encoding: OpEncoding, decide: Decide, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Decide the outputs that N cells write or pass, op after op: int64 [N] by name.

    Args:
        encoding: of the ops.
        decide: of a network or a rule.
        inputs: of the cells, integers [N] by input name, see `canvas.cells.spec.input_name`.
    """
    known, outputs = dict(inputs), (SYMBOL, *encoding.classes)
    for number, op in enumerate(encoding.ops):
        decided = dict(zip(outputs, decide(encoding.encode(number, known)).T, strict=True))
        known |= {input_name(OWN, name): decided[name] for name in op.outputs}
    passed = (names for direction, names in encoding.directions.items() if direction != OWN)
    return {n: known[input_name(OWN, n)] for n in (SYMBOL, *dict.fromkeys(chain(*passed)))}


def closed_table(
    encoding: OpEncoding, ids: np.ndarray, outputs: dict[str, np.ndarray]
) -> CellTable:
    """Return the table of a cell; it contains these inputs and no others.

    Args:
        encoding: of cell inputs, as of a single op: `canvas.cells.local_rule.LocalRule.whole`.
        ids: of the inputs, int64 [N].
        outputs: decided symbols and classes by output, integers [N] each, the symbol first. See
            `passed_outputs`.
    """
    assert len(encoding.ops) == 1
    parts = np.unravel_index(ids, (encoding.ids, *encoding.sizes[0]))
    token, messages = parts[0], dict(zip(encoding.directions, parts[1:], strict=True))
    rows, states = np.unique(
        np.stack([np.ones_like(ids), *outputs.values()], axis=1).astype(np.int16),
        axis=0,
        return_inverse=True,
    )
    decided = np.concatenate([np.zeros_like(rows[:1]), rows])
    columns = {name: decided[:, 1 + i].astype(np.int64) for i, name in enumerate(outputs)}
    columns[""] = (decided[:, 0] > 0).astype(np.int64)
    # That from the right last: it has the most messages.
    directions = [direction for direction in encoding.directions if direction != OWN]
    directions.sort(key=lambda direction: direction == "left")
    arrays, classes, value, most = [], [], token, encoding.ids
    for direction in directions:
        # The message id of each state; see `OpEncoding.units`.
        place, passed = list(encoding.directions).index(direction), np.zeros_like(columns[""])
        for name in encoding.inputs[0][place]:
            passed = passed * (encoding.classes[name] if name else 2) + columns[name]
        if encoding.ops[0].inputs is None:
            passed = (passed + 1) * columns[""]
        occurs, of = np.unique(messages[direction], return_inverse=True)
        at = np.searchsorted(occurs, passed).clip(max=len(occurs) - 1)
        # The last class is of messages that no input contains: all its entries are 0.
        classes.append(np.where(occurs[at] == passed, at, len(occurs)))
        array = np.zeros((most, len(occurs) + 1), dtype=np.int32)
        index = value * array.shape[1] + of
        if direction == directions[-1]:
            array.reshape(-1)[index] = 1 + states.reshape(-1)
        else:
            new, value = np.unique(index, return_inverse=True)
            value = 1 + value
            array.reshape(-1)[new] = np.arange(1, len(new) + 1)
            most = len(new) + 1
        arrays.append(array)
    for i in reversed(range(len(arrays))):
        arrays[i], same = np.unique(arrays[i], axis=1, return_inverse=True)
        classes[i] = same.reshape(-1)[classes[i]]
        if i:  # a row of zeros, value 0, stays the first
            arrays[i], same = np.unique(arrays[i], axis=0, return_inverse=True)
            arrays[i - 1] = same.reshape(-1).astype(np.int32)[arrays[i - 1]]
        arrays[i] = np.ascontiguousarray(arrays[i])
    return CellTable(directions, arrays, classes, decided)


def _box(canvas: np.ndarray) -> tuple[int, int, int, int]:
    """Return the cells to compute as top, bottom, left and right, the ends excluded.

    See `CellModel.encode`; an empty box if nothing is masked.
    """
    masked = np.flatnonzero((canvas == MASK).any(axis=1))
    if not len(masked):
        return 0, 0, 0, 0
    rows, columns = written_box(canvas)
    return rows.start, int(masked[-1]) + 1, columns.start, columns.stop
