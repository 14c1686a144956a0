"""Tokens of a canvas: which of its cells are tokens, and back from tokens to cells.

A recursive transformer reads all cells, or, where its batches are ragged, those that are not blank.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trm.models.attention import Terms
from trm.models.coordinates import Coordinates


def cell_tokens(
    canvases: Tensor, prefix_length: int, kept: Tensor | None
) -> tuple[Tensor, Coordinates, Tensor | None]:
    """Return the cells of canvases that are tokens, padded to the canvas with most of them.

    Args:
        canvases: symbol ids, integers [B, H, W].
        prefix_length: number of tokens before them.
        kept: cells that are tokens, bool [B, H, W]; None: all.

    Returns:
        Their symbols, [B, S]; coordinates of the prefix and then of these cells; and their numbers,
        see `Context.cell_numbers`.
    """
    _, height, width = canvases.shape
    coordinates = Coordinates.canvas(height, width, prefix_length, canvases.device)
    if kept is None:
        return canvases.flatten(1), coordinates, None
    coordinates = coordinates.only(kept)
    assert coordinates.present is not None
    numbers = coordinates.index[:, prefix_length:] - prefix_length
    symbols = canvases.flatten(1).gather(1, numbers)
    absent = ~coordinates.present[:, prefix_length:]
    return symbols, coordinates, numbers.masked_fill(absent, height * width)


@dataclass
class Context:
    """Encoded batch of canvases, the same for all supervision steps.

    P prefix tokens precede S cells. These are all H * W cells, or some of them, padded to the
    sample with most.
    """

    inputs: Tensor  # input embeddings, [B, P + S, D]
    halt_weights: Tensor | None  # [B, P + S], see `trm.models.halting`
    height: int
    width: int
    # int64 [B, S], cells in reading order from 0, H * W for padding; None: all cells
    cell_numbers: Tensor | None
    terms: Terms  # position terms of attention

    @property
    def cells(self) -> Tensor:
        """Cells of the tokens without the prefix, int64 [B, S], H * W: padding."""
        if self.cell_numbers is not None:
            return self.cell_numbers
        every = torch.arange(self.height * self.width, device=self.inputs.device)
        return every.expand(len(self.inputs), -1)

    def on_canvas(self, values: Tensor, elsewhere: Tensor) -> Tensor:
        """Return values of the cells' tokens, [B, S, N], on their canvases, [B, H, W, N].

        Cells that are no tokens get ``elsewhere``, [N].
        """
        if self.cell_numbers is not None:
            canvas = elsewhere.repeat(len(values), self.height * self.width + 1, 1)
            numbers = self.cell_numbers.unsqueeze(-1).expand_as(values)
            values = canvas.scatter(1, numbers, values)[:, :-1]  # without the padding
        return values.unflatten(1, (self.height, self.width))

    def select(self, index: Tensor) -> Context:
        """Return the same for some samples, by bool [B] or int64 indices."""
        inputs, terms = self.inputs[index], self.terms.select(index)
        weights = None if self.halt_weights is None else self.halt_weights[index]
        numbers = None if self.cell_numbers is None else self.cell_numbers[index]
        return Context(inputs, weights, self.height, self.width, numbers, terms)
