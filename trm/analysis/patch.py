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
or positions go by it (`local_nearest`, `abacus`). Of heads there are means over many pairs of
problems (`trm.analysis.pairs`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canvas.choices import check_choice
from canvas.symbols import MASK, ROW_END
from trm.analysis.pairs import draw_pairs, kinds_of
from trm.analysis.record import (
    Change,
    Recorder,
    SequenceRecorder,
    Site,
    StepRecorder,
    attention_of,
)
from trm.evaluation.grid import size_name
from trm.evaluation.statistics import bootstrap
from trm.models.gpt import GPT
from trm.models.iterative import named
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver

PATCHED = ("cells", "rows", "columns", "heads", "steps")
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
            is in a cell, or in its row or column of the canvas, in all channels; not a number where
            there is no token.
        canvases: ``uint8 [2, h, w]``, A and B with the row filled in, as the model reads them: of a
            GPT with the row ends on the left, down to the row.
        scored: ``bool [h, w]``, the cells of the row in which A and B differ.
        differences: of the runs on A and on B, their logit differences LD.
        right: whether the model is right in every cell of A's row, and of B's.
        things: of heads and steps, what the columns of the effects are; else empty.
    """

    by: str
    sites: list[str]
    effects: np.ndarray
    canvases: np.ndarray
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
        inputs, labels: ``uint8 [2, H, W]``, A and B with the same row masked, and filled in.
        by: of `PATCHED`.
        steps: supervision steps after which states are patched; the last one is that of the answer.

    Raises:
        ValueError: A's and B's rows are masked in other cells or are the same, the model's tokens
            lie in other cells, it has no such thing, or its answers to A and B cannot be told
            apart.
    """
    check_choice("what is patched", by, PATCHED)
    masked = inputs == MASK
    if not masked[0].any() or (masked[0] != masked[1]).any():
        raise ValueError("the two problems have to be masked in the same cells of one row")
    model, answer = predictor.model, np.nonzero(masked[0])
    recorder, canvases, grid = open_pair(predictor, inputs, labels, int(answer[0][0]), steps)
    shift = canvases.shape[2] - labels.shape[2]  # of row ends on the left
    score = _Score(labels, answer)
    iterative = isinstance(recorder, StepRecorder) and not predictor.in_order
    states = recorder.states(sorted(steps)) if isinstance(recorder, StepRecorder) else []
    things: list[str] = []
    place: np.ndarray | None = None
    if by == "heads":
        sites, layer = recorder.heads(), attention_of(model)[0]
        size = layer.out.in_features // layer.num_heads
        groups = torch.eye(layer.num_heads, dtype=torch.bool).repeat_interleave(size, dim=1)
        things = [f"head {number}" for number in range(1, layer.num_heads + 1)]
    elif by == "steps":
        if not iterative:
            raise ValueError(
                f"{type(model).__name__} takes no supervision steps here, after which a state "
                "could be patched: patch cells, rows, columns or heads"
            )
        assert isinstance(recorder, StepRecorder)
        sites, things = _spread(states), list(named(recorder.initial))
        groups = torch.eye(len(things), dtype=torch.bool)
        if len(things) > 1:  # each alone, then all together
            groups = torch.cat((groups, torch.ones_like(groups[:1])))
            things.append("all")
    else:
        passed = states if iterative else [site for part in recorder.layers() for site in part]
        sites = _spread([*recorder.input_sites(), *passed])
        groups, place = _tokens(grid, recorder, by)
    effects = np.stack([_effects(recorder, site, groups, score, by, grid.size) for site in sites])
    if place is not None:
        effects = np.where(place < 0, np.float32(np.nan), effects[:, place])
    scored = np.zeros(grid.shape, dtype=bool)
    scored[answer[0], shift + answer[1]] = score.differ
    ends, names = (score.differences, score.right), [site.name for site in sites]
    return Patching(by, names, effects, canvases, scored, *ends, tuple(things))


def open_pair(
    predictor: Predictor, inputs: np.ndarray, labels: np.ndarray, row: int, steps: Sequence[int]
) -> tuple[Recorder, np.ndarray, np.ndarray]:
    """The model on A and B, both as it reads them ``uint8 [2, h, w]``, and each place's token.

    That is ``int64 [h, w]``; -1: there is none.
    """
    _, height, width = labels.shape
    if isinstance(predictor.model, GPT):
        last = row + 1  # below, nothing is read
        token = 1 + np.arange(last * (width + 1)).reshape(last, width + 1)
        grid = token[:, ::-1].copy()  # row ends on the left
        grid[-1, 0] = -1
        ends = np.full((2, last, 1), ROW_END, dtype=np.uint8)
        canvases = np.concatenate((ends, labels[:, :last]), axis=2)
        return SequenceRecorder(predictor, labels[:, :last], height), canvases, grid
    # What works in order comes to the canvas that no step changes; so does a patched run, in which
    # whatever is replaced is replaced in all steps. A cell may depend on all cells before it.
    ordered = predictor.in_order
    last = height * width + 2 if ordered else max(steps)
    recorder = StepRecorder(predictor.model, inputs, last, settle=ordered, finished=ordered)
    of_a, of_b = recorder.cells.cpu().numpy()
    if (of_a != of_b).any():
        raise ValueError(
            "the model's tokens are not in the same cells in the two problems (it reads written "
            "cells alone, or turned one canvas): take a problem whose rows are as long, or another "
            "row"
        )
    flat = np.full(height * width + 1, -1)
    flat[of_a] = np.arange(len(of_a))
    return recorder, labels, flat[:-1].reshape(height, width)


class _Score:
    """The effect of runs on the answer in some rows and columns of ``uint8 [2, H, W]``, A and B."""

    def __init__(self, labels: np.ndarray, answer: tuple[np.ndarray, ...]) -> None:
        self.rows, self.columns = answer
        self.symbols = torch.from_numpy(labels[:, self.rows, self.columns].astype(np.int64))
        self.differ = (self.symbols[0] != self.symbols[1]).numpy()
        if not self.differ.any():
            raise ValueError(
                "the two problems have the same symbols in this row, so no effect on it can be "
                "measured: take another row, or another problem"
            )
        self.differences, self.right = (0.0, 0.0), (False, False)

    def base(self, logits: Tensor) -> None:
        """Take the runs on A and B, logits [2, H, W, V], as the ends of the scale."""
        self.differences = of_a, of_b = tuple(self.difference(logits).tolist())
        written = logits[:, self.rows, self.columns].argmax(dim=-1).cpu()
        a, b = (written == self.symbols).all(dim=1).tolist()
        self.right = a, b
        if not of_b > of_a:
            raise ValueError(
                "the model does not tell the two problems apart in this row: the logit difference "
                f"is {of_a:.3g} in the run on A and {of_b:.3g} in the run on B, so there is no "
                "scale for effects. Take another row, or another problem"
            )

    def difference(self, logits: Tensor) -> Tensor:
        """LD of runs, float64 [N], from logits [N, H, W, V]."""
        logits = logits[:, self.rows, self.columns].float()
        a, b = (one.expand(len(logits), -1).unsqueeze(-1) for one in self.symbols.to(logits.device))
        each = (logits.gather(-1, b) - logits.gather(-1, a)).squeeze(-1).double()
        return each[:, torch.from_numpy(self.differ).to(each.device)].mean(dim=1)


def _effects(
    recorder: Recorder, site: Site, groups: Tensor, score: _Score, by: str, places: int
) -> np.ndarray:
    """The effect of each group at a site, float32 [G], see `replacement`.

    Where A's and B's activations of a group are equal, nothing is run: its effect is 0. By the
    places of the canvas the runs at once are reckoned.
    """
    base = recorder.run([site])
    score.base(base.logits)
    seen = base.values[site]
    differs = torch.zeros_like(groups[0])
    for number, value in enumerate(seen):
        if by == "steps":
            differs[number] = (value[0] != value[1]).any().cpu()
            continue
        of_a, of_b = value if by == "heads" else recorder.by_token(site.name, value)
        other = of_a != of_b
        differs |= (other.flatten(0, -2).mT if by == "heads" else other).any(dim=-1).cpu()
    effects = np.zeros(len(groups), dtype=np.float32)
    matter = (groups & differs).any(dim=1).nonzero().flatten()
    for index in matter.split(max(1, _PAIRS // places**2)):
        put = replacement(groups[index], seen, by)
        logits = recorder.run([site], [0] * len(index), put).logits
        of_a, of_b = score.differences
        effect = (score.difference(logits) - of_a) / (of_b - of_a)
        effects[index.cpu().numpy()] = effect.cpu().numpy()
    return effects


def replacement(groups: Tensor, seen: Sequence[Tensor], by: str) -> Change:
    """What puts groups of B's activations into N runs on A.

    Args:
        groups: bool [N, S] the tokens, bool [N, D] the channels of the heads side by side, or bool
            [N, P] the tensors of a state, that are replaced in each run.
        seen: of each time that a site comes by, what the runs on A and B had there, [2, ...]; if it
            comes by more often, the last one's is taken.
        by: of `PATCHED`.
    """

    def change(_: Site, number: int, value: Tensor) -> Tensor:
        of_b = seen[min(number, len(seen) - 1)][1]
        chosen = groups.to(value.device)
        if by == "steps":
            chosen = chosen[:, number].view(-1, *[1] * (value.ndim - 1))
        elif by == "heads":
            chosen = chosen.unsqueeze(1)
        elif value.ndim == 4:
            chosen = chosen.view(*value.shape[:3], 1)
        else:
            prefix = chosen.new_zeros(len(chosen), value.shape[1] - chosen.shape[1])
            chosen = torch.cat((prefix, chosen), dim=1).unsqueeze(-1)
        return torch.where(chosen, of_b, value)

    return change


def _tokens(grid: np.ndarray, recorder: Recorder, by: str) -> tuple[Tensor, np.ndarray]:
    """Groups of tokens, bool [G, S], and the group of each place of the canvas, int64 [h, w]."""
    there = grid >= 0
    own = np.arange(grid.size).reshape(grid.shape)
    if by != "cells":
        own = np.indices(grid.shape)[0 if by == "rows" else 1]
    names, place = np.unique(own[there], return_inverse=True)
    groups = torch.zeros(len(names), recorder.length, dtype=torch.bool)
    groups[torch.from_numpy(place), torch.from_numpy(grid[there])] = True
    on_canvas = np.full(grid.shape, -1)
    on_canvas[there] = place
    return groups, on_canvas


def _spread(sites: list[Site]) -> list[Site]:
    """At most twelve of them, evenly, the first and the last among them."""
    shown = np.linspace(0, len(sites) - 1, min(len(sites), _SITES))
    return [sites[i] for i in shown.round().astype(int)]


@dataclass(frozen=True)
class HeadEffects:
    """The effects of heads over pairs of one kind (`trm.analysis.pairs.KINDS`).

    Attributes:
        sites: the names of L layers, in the order in which the model computes.
        mean: ``[L][heads]``, the mean effect, see this module.
        low, high: its 95 % interval, a percentile bootstrap over pairs.
        pairs: of each pair that counts the two problems, and the row from 1.
        left_out: pairs that do not count, as the model has a wrong symbol in one of both rows.
    """

    kind: str
    meaning: str
    sites: list[str]
    mean: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]
    pairs: list[tuple[str, str, int]]
    left_out: int


def head_effects(
    solver: Solver,
    size: dict[str, int],
    kinds: Sequence[str] = (),
    pairs: int = 50,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
) -> list[HeadEffects]:
    """Patch each head in turn, in pairs of held-out problems that differ in one thing.

    Args:
        solver, size: the model, and the size of the problems, by two measures of the task.
        kinds: of `trm.analysis.pairs.kinds_of`; none named: all of which there are pairs.
        pairs: of each kind, at most.
        seed: which ones, and of the bootstrap.
        note: is told what is going on, a line at a time.

    Raises:
        ValueError: there are no pairs, the model is right in none of them, or its heads cannot be
            patched.
    """
    meanings, found, predictor = kinds_of(solver.task), list[HeadEffects](), solver.predictor
    a, b = size.values()
    name = size_name(tuple(size), (a, b))
    for kind in kinds or meanings:
        drawn = draw_pairs(solver, kind, size, pairs, seed)
        note(f"{kind}: {len(drawn)} pairs of {name}")
        if not drawn and kinds:
            raise ValueError(
                f"no two held-out problems of {name} differ in a {kind} alone in the layout "
                f"{solver.task.layout}: name another size, or other kinds"
            )
        patched, counted = list[Patching](), []
        for pair in drawn:
            written = predictor(pair.inputs)
            if (written.canvases == pair.labels)[pair.inputs == MASK].all():
                used = max(1, int(written.steps.max()))
                patched.append(patch(predictor, pair.inputs, pair.labels, "heads", (used,)))
                counted.append((*pair.names, pair.row + 1))
        if drawn and not patched:
            raise ValueError(
                f"the model is right in none of {len(drawn)} pairs ({kind}): what brings it to a "
                "wrong row is no answer. Name a size that it solves"
            )
        if patched:
            values = np.stack([one.effects for one in patched]).astype(np.float64)  # [P, L, heads]
            shares = values.mean(axis=0), *bootstrap(values, seed=seed)
            mean, low, high = (part.tolist() for part in shares)
            left, sites = len(drawn) - len(patched), patched[0].sites
            of_kind = HeadEffects(kind, meanings[kind], sites, mean, low, high, counted, left)
            found.append(of_kind)
    if not found:
        raise ValueError(f"there are no pairs of held-out problems of {name}: name another size")
    return found
