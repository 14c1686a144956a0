"""Inputs of a cell model's ops as tensors: their ids, and what they read.

A cell model embeds what an op reads by looking it up: a row of a table for each neighbour's message
(`CellModel.message_tables`). `OpReader` finds these rows. It has indices and no parameters.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from canvas.cells.encoding import OpEncoding
from canvas.cells.spec import OWN, TOKEN, input_name


class OpInputs(NamedTuple):
    """Inputs of N ops."""

    op: Tensor  # int64 [N], indices of the ops
    token: Tensor  # int64 [N], symbol ids
    reads_token: Tensor  # bool [N, 1], whether the op reads the symbol
    places: Tensor  # int64 [N, directions], rows of `CellModel.message_tables`
    present: Tensor  # bool [N, directions], whether there is something to read


class Indexed(nn.Module):
    """Module with tensors of indices, which move with it to another device.

    They are no buffers, as averages of weights (`EMAWeightAveraging`) average all buffers, and an
    average of integers is rounded down.
    """

    _indices: tuple[str, ...] = ()

    def keep(self, **indices: Tensor) -> None:
        """Add integer or boolean tensors under their names."""
        self._indices = (*self._indices, *indices)
        for name, values in indices.items():
            setattr(self, name, values)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Indexed":
        super()._apply(fn, recurse)
        for name in self._indices:
            setattr(self, name, fn(getattr(self, name)))
        return self


class OpReader(Indexed):
    """Finds the inputs of ops.

    Args:
        encoding: of the ops.
        outputs: of a cell, by name the number of classes: the symbol, then every signal.
    """

    _units: Tensor  # int64 [ops, all that cells see], the weight of each thing in an id
    _starts: Tensor  # int64 [ops], the first id of each op
    _sizes: Tensor  # int64 [ops, directions], number of message ids
    _strides: Tensor  # int64 [ops, directions], the weight of a message id in an id
    _tables: Tensor  # int64 [ops, directions], where an op's messages begin in the tables
    _least: Tensor  # int64 [ops, directions], the least message id with something to read
    _token: Tensor  # bool [ops], which read the symbol
    _outputs: Tensor  # int64 [ops, outputs], 1 for the outputs of each op

    def __init__(self, encoding: OpEncoding, outputs: Mapping[str, int]) -> None:
        super().__init__()
        self.encoding, count = encoding, len(encoding.ops)
        neighbours = [direction for direction in encoding.directions if direction != OWN]
        signals = list(outputs)[1:]
        names = (input_name(direction, name) for direction in neighbours for name in ("", *signals))
        sees = (TOKEN, *names, *(input_name(OWN, name) for name in outputs))
        units = [encoding.units(op) for op in range(count)]
        # With NumPy: a cumulative sum on the meta device imports PyTorch's compiler, in a second.
        sizes = np.array(encoding.sizes, dtype=np.int64).reshape(count, -1)
        before = sizes.T.reshape(-1).cumsum() - sizes.T.reshape(-1)  # direction after direction
        # Of an op that reads everything, message id 0 stands for no cell.
        least = [
            [int(not names or op.inputs is None) for names in of]
            for op, of in zip(encoding.ops, encoding.inputs, strict=True)
        ]
        parts = {
            "units": torch.tensor([[of.get(name, 0) for name in sees] for of in units]),
            "starts": torch.tensor(encoding.starts[:-1]),
            "sizes": torch.from_numpy(sizes),
            "strides": torch.from_numpy(sizes[:, ::-1].cumprod(axis=1)[:, ::-1] // sizes),
            "tables": torch.from_numpy(before.reshape(-1, count).T.copy()),
            "least": torch.tensor(least).view(count, -1),
            "token": torch.tensor([TOKEN in of for of in units]),
            "outputs": torch.tensor([[n in op.outputs for n in outputs] for op in encoding.ops]),
        }
        self.keep(**{f"_{name}": part for name, part in parts.items()})

    def ids(self, ops: list[int], seen: Tensor) -> Tensor:
        """Return the ids of the inputs of some ops in N cells, int64 [ops * N].

        Args:
            ops: indices of the ops.
            seen: all that the cells see, int64 [N, ...]: the symbol; of each neighbour whether
                there is one, and its signals; the cell's own outputs.
        """
        read = (seen * self._units[ops].unsqueeze(1)).sum(-1)  # [ops, N]
        return (read + self._starts[ops].unsqueeze(1)).flatten()

    def decode(self, ids: Tensor) -> OpInputs:
        """Return op inputs from their ids, int64 [N]."""
        op = self._op_of(ids)
        rest, sizes = ids - self._starts[op], self._sizes[op]
        message_ids = rest.unsqueeze(1) // self._strides[op]  # [N, directions]
        token = message_ids[:, 0] // sizes[:, 0] if self.encoding.directions else rest
        message_ids = message_ids % sizes
        places, present = message_ids + self._tables[op], message_ids >= self._least[op]
        return OpInputs(op, token, self._token[op, None], places, present)

    def outputs_of(self, ids: Tensor) -> Tensor:
        """Return which outputs the op of each id has, int64 [N, outputs], 1 or 0."""
        return self._outputs[self._op_of(ids)]

    def _op_of(self, ids: Tensor) -> Tensor:
        return torch.bucketize(ids, self._starts, right=True) - 1
