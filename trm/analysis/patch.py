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

from canvas.symbols import MASK, ROW_END
from trm.analysis.pairs import draw_pairs, kinds_of
from trm.analysis.record import Change, SequenceRecorder, StepRecorder, attention_of, check_cells
from trm.grid_cells import size_name
from trm.models.gpt import GPT
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver
from trm.statistics import bootstrap
from trm.torch_settings import standard_settings

_PAIRS = 2**21  # of tokens that attend to each other, over all runs at once
_SITES = 12  # maps at most


@dataclass(frozen=True)
class Patching:
    """How the answer to A changes, thing by thing, at L sites in the order of computation.

    Effects are of cells ``float32 [L, h, w]``, what is in a cell in all channels, not a number
    where there is no token; or of heads ``[L, heads]``, each head in all cells. Canvases are A and
    B with the row filled in, as the model reads them: of a GPT with the row ends on the left, down
    to the row.
    """

    sites: list[str]
    effects: np.ndarray
    canvases: np.ndarray  # uint8 [2, h, w]
    scored: np.ndarray  # bool [h, w], the cells of the row in which A and B differ
    differences: tuple[float, float]  # of the runs on A and on B, their logit differences LD
    right: tuple[bool, bool]  # whether the model is right in every cell of A's row, and of B's


@standard_settings()
@torch.no_grad()
def patch(
    predictor: Predictor,
    inputs: np.ndarray,
    labels: np.ndarray,
    steps: Sequence[int] = (1,),
    *,
    heads: bool = False,
) -> Patching:
    """Put activations of a run on B into a run on A.

    Cells are patched in the embedded symbols (``input``) and in what the layers pass on: of a GPT
    after each block of each loop; of a model that takes supervision steps in its whole state after
    some of them. Of many such sites twelve are taken, evenly. Heads are patched in what they give
    before the output projection, in all supervision steps at once.

    ``inputs`` and ``labels`` are ``uint8 [2, H, W]``, A and B with the same row masked, and filled
    in. The last of the steps is that of the answer. ValueError: A's and B's rows are the same, the
    model's tokens lie in other cells, it has no such thing, or answers A and B alike.
    """
    masked = inputs == MASK
    scored = masked[0] & (labels[0] != labels[1])
    if not scored.any():
        raise ValueError(
            "the two problems have the same symbols in this row, so no effect on it can be "
            "measured: take another row, or another problem"
        )
    recorder, canvases, grid = open_pair(predictor, inputs, labels, steps)
    if heads:  # groups of channels are patched, else single tokens
        sites, layer = recorder.heads(), attention_of(recorder.model)[0]
        size = layer.out.in_features // layer.num_heads
        groups = torch.eye(layer.num_heads, dtype=torch.bool).repeat_interleave(size, dim=1)
    else:
        sites = [*recorder.input_sites(), *recorder.states(sorted(steps))]
        shown = np.linspace(0, len(sites) - 1, min(len(sites), _SITES))  # with the first and last
        sites = [sites[i] for i in shown.round().astype(int)]
        groups = torch.eye(recorder.length, dtype=torch.bool)
    base, (rows, columns) = recorder.run(sites), np.nonzero(scored)
    a, b = torch.from_numpy(labels[:, rows, columns].astype(np.int64)).to(base.logits.device)

    def difference(logits: Tensor) -> Tensor:
        """LD of runs, float64 [N], from logits [N, H, W, V]."""
        logits, cells = logits[:, rows, columns].float(), torch.arange(len(a), device=a.device)
        return (logits[:, cells, b] - logits[:, cells, a]).double().mean(dim=1)

    of_a, of_b = difference(base.logits).tolist()
    if not of_b > of_a:
        raise ValueError(
            "the model does not tell the two problems apart in this row: the logit difference is "
            f"{of_a:.3g} in the run on A and {of_b:.3g} in the run on B, so there is no scale for "
            "effects. Take another row, or another problem"
        )
    effects, at_once = np.zeros((len(sites), len(groups)), np.float32), _PAIRS // grid.size**2
    for site, of_site in zip(sites, effects, strict=True):
        seen = base.values[site]
        values = seen if heads else [recorder.by_token(site.name, value) for value in seen]
        differ = torch.stack([one != other for one, other in values]).any(dim=0).cpu()  # [S, D]
        changed = (groups & differ.any(dim=0 if heads else 1)).any(dim=1)  # or nothing would be
        for index in changed.nonzero().flatten().split(max(1, at_once)):
            put = replacement(groups[index], seen, heads)
            patched = difference(recorder.run([site], [0] * len(index), put).logits)
            of_site[index.cpu().numpy()] = ((patched - of_a) / (of_b - of_a)).cpu().numpy()
    if not heads:
        effects = np.where(grid < 0, np.float32(np.nan), effects[:, grid])
    written = base.logits.argmax(dim=-1).cpu().numpy()
    same = (written == labels[:, : written.shape[1]]) | ~masked[0][: written.shape[1]]
    right_a, right_b = same.all(axis=(1, 2)).tolist()
    scored = np.pad(scored[: len(grid)], ((0, 0), (canvases.shape[2] - labels.shape[2], 0)))
    names = [site.name for site in sites]
    return Patching(names, effects, canvases, scored, (of_a, of_b), (right_a, right_b))


@standard_settings()
def open_pair(
    predictor: Predictor, inputs: np.ndarray, labels: np.ndarray, steps: Sequence[int]
) -> tuple[StepRecorder | SequenceRecorder, np.ndarray, np.ndarray]:
    """The model on A and B, both as it reads them ``uint8 [2, h, w]``, and each place's token.

    That is ``int64 [h, w]``; -1: there is none.
    """
    check_cells(predictor.model)
    _, height, width = labels.shape
    if isinstance(predictor.model, GPT):
        last = int(np.argwhere(inputs[0] == MASK)[0, 0]) + 1  # below, nothing is read
        token = 1 + np.arange(last * (width + 1)).reshape(last, width + 1)
        grid = token[:, ::-1].copy()  # row ends on the left
        grid[-1, 0] = -1
        ends = np.full((2, last, 1), ROW_END, dtype=np.uint8)
        canvases = np.concatenate((ends, labels[:, :last]), axis=2)
        return SequenceRecorder(predictor.model, labels[:, :last], height), canvases, grid
    recorder = StepRecorder(predictor.model, inputs, max(steps))
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


def replacement(groups: Tensor, seen: Sequence[Tensor], heads: bool) -> Change:
    """What puts groups of B's activations into N runs on A.

    Groups are bool [N, S] the tokens, or bool [N, D] the channels of the heads side by side, that
    are replaced in each run. ``seen`` is, of each time that a site comes by, what the runs on A and
    B had there, [2, ...].
    """

    def change(_: object, number: int, value: Tensor) -> Tensor:
        chosen = groups.to(value.device)
        if heads:
            chosen = chosen.unsqueeze(1)
        else:
            prefix = chosen.new_zeros(len(chosen), value.shape[1] - chosen.shape[1])
            chosen = torch.cat((prefix, chosen), dim=1).unsqueeze(-1)
        return torch.where(chosen, seen[number][1], value)

    return change


@dataclass(frozen=True)
class HeadEffects:
    """The effects of heads over pairs of one kind (`trm.analysis.pairs.KINDS`)."""

    kind: str
    meaning: str
    sites: list[str]  # the names of L layers, in the order in which the model computes
    mean: list[list[float]]  # [L][heads], the mean effect, see this module
    low: list[list[float]]  # its 95 % interval, a percentile bootstrap over pairs
    high: list[list[float]]
    pairs: list[tuple[str, str, int]]  # that count: the two problems, and the row from 1
    left_out: int  # pairs in which the model has a wrong symbol in one of both rows


@standard_settings()
def head_effects(
    solver: Solver,
    size: dict[str, int],
    kinds: Sequence[str] = (),
    pairs: int = 50,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
) -> list[HeadEffects]:
    """Patch each head in turn, in pairs of held-out problems that differ in one thing.

    The size is in two measures of the task; pairs are of each kind, at most; without kinds, of all.
    Kinds of which there are no pairs are left out. ``note`` is told what is going on, a line at a
    time. ValueError: there are no pairs, the model is right in none of them, or its heads cannot be
    patched.
    """
    meanings, found, predictor = kinds_of(solver.task), list[HeadEffects](), solver.predictor
    name = size_name(size, size.values())
    for kind in kinds or meanings:
        drawn = draw_pairs(solver, kind, size, pairs, seed)
        note(f"{kind}: {len(drawn)} pairs of {name}")
        patched, counted = list[Patching](), []
        for pair in drawn:
            written = predictor(pair.inputs)
            if (written.canvases == pair.labels)[pair.inputs == MASK].all():
                used = max(1, int(written.steps.max()))
                patched.append(patch(predictor, pair.inputs, pair.labels, (used,), heads=True))
                counted.append((*pair.names, pair.row + 1))
        if not drawn:
            continue
        if not patched:
            raise ValueError(
                f"the model is right in none of {len(drawn)} pairs ({kind}): what brings it to a "
                "wrong row is no answer. Name a size that it solves"
            )
        values = np.stack([one.effects for one in patched]).astype(np.float64)  # [P, L, heads]
        shares = values.mean(axis=0), *bootstrap(values, seed=seed)
        mean, low, high = (part.tolist() for part in shares)
        left, sites = len(drawn) - len(patched), patched[0].sites
        found.append(HeadEffects(kind, meanings[kind], sites, mean, low, high, counted, left))
    if not found:
        raise ValueError(
            f"no held-out problems of {name} differ in {' or '.join(kinds or meanings)} alone in "
            f"the layout {solver.task.layout}: name another size"
        )
    return found
