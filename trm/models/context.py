"""Tokens of a canvas: which of its cells are tokens, and back from tokens to cells.

A recursive transformer reads all cells, or, where its batches are ragged, those that are not blank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from trm.models.attention import Terms
from trm.models.coordinates import Coordinates


class CellTokens(NamedTuple):
    """Cells that are tokens, S of each canvas."""

    symbols: Tensor  # [B, S], dtype of the canvases
    coordinates: Coordinates  # of a prefix, and then of these cells
    places: Tensor | None  # int64 [B, S], their numbers (H * W: padding); None: all cells, in order


def cell_tokens(canvases: Tensor, prefix_length: int, kept: Tensor | None) -> CellTokens:
    """Return the cells of canvases that are tokens, padded to the canvas with most of them.

    Args:
        canvases: symbol ids, integers [B, H, W].
        prefix_length: number of tokens before them.
        kept: cells that are tokens, bool [B, H, W]; None: all.
    """
    _, height, width = canvases.shape
    coordinates = Coordinates.canvas(height, width, prefix_length, canvases.device)
    if kept is None:
        return CellTokens(canvases.flatten(1), coordinates, None)
    coordinates = coordinates.only(kept)
    assert coordinates.present is not None
    places = coordinates.index[:, prefix_length:] - prefix_length
    symbols = canvases.flatten(1).gather(1, places)
    places = places.masked_fill(~coordinates.present[:, prefix_length:], height * width)
    return CellTokens(symbols, coordinates, places)


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
    places: Tensor | None  # see `CellTokens`
    terms: Terms  # position terms of attention

    @property
    def cells(self) -> Tensor:
        """Cells of the tokens without the prefix, int64 [B, S], H * W: padding."""
        if self.places is not None:
            return self.places
        every = torch.arange(self.height * self.width, device=self.inputs.device)
        return every.expand(len(self.inputs), -1)

    def on_canvas(self, values: Tensor, elsewhere: Tensor) -> Tensor:
        """Return values of the cells' tokens, [B, S, N], on their canvases, [B, H, W, N].

        Cells that are no tokens get ``elsewhere``, [N].
        """
        if self.places is not None:
            canvas = elsewhere.repeat(len(values), self.height * self.width + 1, 1)
            places = self.places.unsqueeze(-1).expand_as(values)
            values = canvas.scatter(1, places, values)[:, :-1]  # without the padding's place
        return values.unflatten(1, (self.height, self.width))

    def select(self, index: Tensor) -> Context:
        """Return the same for some samples, by bool [B] or int64 indices."""
        inputs, terms = self.inputs[index], self.terms.select(index)
        weights = None if self.halt_weights is None else self.halt_weights[index]
        places = None if self.places is None else self.places[index]
        return Context(inputs, weights, self.height, self.width, places, terms)
