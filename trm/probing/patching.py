"""Activation patching: what of one problem's activations makes a model write another's answer.

The model fills in the same row of two problems A and B that lie in the same cells. Then it fills in
A's row once more for each thing that may matter, with that thing's activations taken from the run
on B (interchange interventions: Vig et al. 2020, Meng et al. 2022). Measured as Zhang and Nanda
2024, "Towards Best Practices of Activation Patching in Language Models", recommend: by the logit
difference LD of B's symbols against A's, the mean over the cells of the row in which the two
answers differ, on the scale of the two runs::

    effect = (LD of the patched run - LD of A) / (LD of B - LD of A)

0: A's answer stands; 1: the model says B's as clearly as in the run on B. The rows above are the
true ones in both runs. Which cells are written, and where numbers begin, is A's wherever attention
or positions go by it (`local_nearest`, `abacus`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trm.models.gpt import GPT
from trm.probing.patched_families import Canvases, InOrder, Sequences
from trm.probing.patched_runs import Replacement, Runs, Site
from trm.solving.rollout import Predictor

PATCHED = ("cells", "rows", "columns", "heads", "steps")
_ALL = "all"  # tensors of a state together
_PAIRS = 2**21  # of tokens that attend to each other, over all runs at once
_SITES = 12  # maps at most


@dataclass(frozen=True)
class Patching:
    """How the answer to A changes, thing by thing.

    Attributes:
        by: what was patched, of `PATCHED`.
        sites: the names of L places in the model, in the order in which it computes.
        effects: of heads ``float32 [L, heads]``, each head in all cells; of steps ``float32
            [L, tensors]``, each tensor of the state in all cells; else ``float32 [L, h, w]``, what
            is in a cell, or in its row or column of the page, in all channels; not a number where
            there is no token.
        pages: ``uint8 [2, h, w]``, A and B with the row filled in, as the model reads them: of a
            GPT with the row ends on the left, down to the row.
        scored: ``bool [h, w]``, the cells of the row in which A and B differ.
        differences: of the runs on A and on B, their logit differences LD.
        right: whether the model is right in every cell of A's row, and of B's.
        things: of heads and steps, what the columns of the effects are; else empty.
    """

    by: str
    sites: list[str]
    effects: np.ndarray
    pages: np.ndarray
    scored: np.ndarray
    differences: tuple[float, float]
    right: tuple[bool, bool]
    things: tuple[str, ...] = ()


@torch.no_grad()
def patch(
    predictor: Predictor,
    inputs: np.ndarray,
    labels: np.ndarray,
    by: str = "cells",
    steps: Sequence[int] = (1,),
) -> Patching:
    """Put activations of a run on B into a run on A.

    Cells, rows and columns are patched in what the layers pass on: of a GPT after each block of
    each loop; of a model that works in order after each layer, whenever the cell is worked out; of
    a model that takes supervision steps in its whole state after some of them; of all in the
    embedded symbols (``input``). Of many such sites twelve are taken, evenly. Heads are patched
    in what they give before the output projection, in all supervision steps at once. Steps are
    patched in the whole state after each of them: one of its tensors, then all together.

    Args:
        predictor: with the model, where it is to run.
        inputs: ``uint8 [2, H, W]``, A and B with the same row masked.
        labels: ``uint8 [2, H, W]``, the same with that row filled in.
        by: of `PATCHED`.
        steps: supervision steps after which states are patched; the last one is that of the answer.

    Raises:
        ValueError: A's and B's rows are masked in other cells or are the same, the model's tokens
            lie in other cells, it has no such thing, or its answers to A and B cannot be told
            apart.
    """
    if by not in PATCHED:
        raise ValueError(f"{by} cannot be patched: choose one of {', '.join(PATCHED)}")
    if isinstance(predictor.model, GPT):
        runs: Runs = Sequences(predictor, predictor.model, inputs, labels)
    else:
        kind = InOrder if predictor.in_order else Canvases
        runs = kind(predictor.model, inputs, labels, steps)
    score = _Score(labels[:, runs.answer[0], runs.answer[1]])
    place: np.ndarray | None = None
    things: list[str] = []
    if by == "heads":
        sites = runs.heads()
        groups, things = _channels(runs)
    elif by == "steps":
        sites = _spread(runs.states())
        groups, things = _tensors(runs)
    else:
        sites = _spread(runs.sites())
        groups, place = _tokens(runs.grid, by)
    found = [_effects(runs, site, groups, score) for site in sites]
    effects = np.stack(found)
    if place is not None:
        effects = np.where(place < 0, np.float32(np.nan), effects[:, place])
    row, columns = runs.page_row, runs.page_columns
    scored = np.zeros(runs.grid.shape, dtype=bool)
    scored[row, columns] = score.differ
    return Patching(
        by,
        [site.name for site in sites],
        effects,
        runs.pages,
        scored,
        score.differences,
        score.right,
        tuple(things),
    )


class _Score:
    """The effect of runs on the answer, see this module.

    Args:
        symbols: ``uint8 [2, C]``, A's and B's in the row.
    """

    def __init__(self, symbols: np.ndarray) -> None:
        self.symbols = torch.from_numpy(symbols.astype(np.int64))
        self.differ = symbols[0] != symbols[1]  # bool [C]
        if not self.differ.any():
            raise ValueError(
                "the two problems have the same symbols in this row, so no effect on it can be "
                "measured: take another row, or another problem"
            )
        self.differences = (0.0, 0.0)
        self.right = (False, False)

    def base(self, logits: Tensor) -> None:
        """Take the runs on A and B, logits [2, C, V], as the ends of the scale."""
        of_a, of_b = self.difference(logits).tolist()
        self.differences = (of_a, of_b)
        a, b = (logits.argmax(dim=-1).cpu() == self.symbols).all(dim=1).tolist()
        self.right = (a, b)
        if not of_b > of_a:
            raise ValueError(
                "the model does not tell the two problems apart in this row: the logit difference "
                f"is {of_a:.3g} in the run on A and {of_b:.3g} in the run on B, so there is no "
                "scale for effects. Take another row, or another problem"
            )

    def difference(self, logits: Tensor) -> Tensor:
        """LD of runs, float64 [N], from logits [N, C, V]."""
        a, b = (one.expand(len(logits), -1).unsqueeze(-1) for one in self.symbols.to(logits.device))
        each = (logits.gather(-1, b) - logits.gather(-1, a)).squeeze(-1).double()
        return each[:, torch.from_numpy(self.differ).to(each.device)].mean(dim=1)

    def effect(self, logits: Tensor) -> Tensor:
        """Of patched runs, float64 [N], from logits [N, C, V]."""
        of_a, of_b = self.differences
        return (self.difference(logits) - of_a) / (of_b - of_a)


def _effects(runs: Runs, site: Site, groups: Tensor, score: _Score) -> np.ndarray:
    """The effect of each group at a site, float32 [G].

    Where A's and B's activations of a group are equal, nothing is run: its effect is 0.

    Args:
        runs: of the model.
        site: in it.
        groups: bool [G, S] of tokens, bool [G, D] of channels, or bool [G, P] of tensors.
        score: of answers.
    """
    logits, seen = runs.run([0, 1], site)
    score.base(logits)
    differs = torch.zeros_like(groups[0])
    for number, value in enumerate(seen):
        other = value[0] != value[1]
        if site.whole:
            differs[number] = other.any().cpu()
            continue
        other = other.flatten(0, -2).mT if site.heads else runs.by_token(other)
        differs |= other.any(dim=-1).cpu()
    effects = np.zeros(len(groups), dtype=np.float32)
    matter = (groups & differs).any(dim=1).nonzero().flatten()
    at_once = max(1, _PAIRS // runs.grid.size**2)
    for index in matter.split(at_once):
        logits, _ = runs.run([0] * len(index), site, Replacement(groups[index], seen))
        effects[index.cpu().numpy()] = score.effect(logits).cpu().numpy()
    return effects


def _tokens(grid: np.ndarray, by: str) -> tuple[Tensor, np.ndarray]:
    """Groups of tokens, bool [G, S], and the group of each place of the page, int64 [h, w].

    Args:
        grid: ``int64 [h, w]``, the token at each place; -1: there is none.
        by: cells, rows or columns.
    """
    there = grid >= 0
    if by == "cells":
        own = np.arange(grid.size).reshape(grid.shape)
    else:
        own = np.indices(grid.shape)[0 if by == "rows" else 1]
    names, place = np.unique(own[there], return_inverse=True)
    groups = torch.zeros(len(names), int(grid.max()) + 1, dtype=torch.bool)
    groups[torch.from_numpy(place), torch.from_numpy(grid[there])] = True
    on_page = np.full(grid.shape, -1)
    on_page[there] = place
    return groups, on_page


def _channels(runs: Runs) -> tuple[Tensor, list[str]]:
    """Groups of channels of the heads side by side, bool [heads, D], and their names."""
    heads, size = runs.head_shape
    groups = torch.eye(heads, dtype=torch.bool).repeat_interleave(size, dim=1)
    return groups, [f"head {number}" for number in range(1, heads + 1)]


def _tensors(runs: Runs) -> tuple[Tensor, list[str]]:
    """Groups of tensors of the state, bool [G, P], and their names: each alone, then all."""
    names = runs.state_names
    groups = torch.eye(len(names), dtype=torch.bool)
    if len(names) == 1:
        return groups, names
    return torch.cat((groups, torch.ones_like(groups[:1]))), [*names, _ALL]


def _spread(sites: list[Site]) -> list[Site]:
    """At most twelve of them, evenly, the first and the last among them."""
    if len(sites) <= _SITES:
        return sites
    return [sites[i] for i in np.linspace(0, len(sites) - 1, _SITES).round().astype(int)]
