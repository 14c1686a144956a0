"""Activation patching: activations of one problem that make a model write another one's answer.

The model fills in the same row of two problems A and B that lie in the same cells. Then it fills in
A's row once more for each cell or head, with activations of that cell or head from the run on B
(interchange interventions: Vig et al. 2020, Meng et al. 2022). The measure is the one that Zhang
and Nanda 2024, "Towards Best Practices of Activation Patching in Language Models", recommend. LD is
the logit difference of B's symbols against A's, the mean over the cells of the row in which the two
answers differ. Effects are on the scale of the two runs:

    effect = (LD of the patched run - LD of A) / (LD of B - LD of A)

0: A's answer stays; 1: B's answer is as clear as in the run on B. The rows above are the true ones
in both runs. Attention and positions that depend on written cells, or on where numbers begin, use
those of A (`local_farthest`, `abacus`). Effects of heads are means over many pairs of problems
(`trm.extras.analysis.pairs`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canvas.symbols import MASK, ROW_END
from trm.evaluation.grid_cells import size_name
from trm.evaluation.statistics import bootstrap
from trm.extras.analysis.pairs import draw_pairs, kinds_of
from trm.extras.analysis.record import Change, SequenceRecorder, StepRecorder, check_cells
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.families import family_of
from trm.solving.predictor import Predictor
from trm.solving.solver import Solver

_PAIRS = 2**21  # most pairs of tokens in attention, over all simultaneous runs
_SITES = 12  # most sites with a map of effects


@dataclass(frozen=True)
class Patching:
    """Effects on the answer to A at L sites, in order of computation.

    Effects of cells are ``float32 [L, h, w]``, with all channels of a cell patched, and NaN where
    there is no token. Effects of heads are ``float32 [L, heads]``, with each head patched in all
    cells. Canvases are A and B with the row filled in, as the model reads them. For a GPT they end
    with the row, and have the row ends on the left.
    """

    sites: list[str]
    effects: np.ndarray
    canvases: np.ndarray  # uint8 [2, h, w]
    scored: np.ndarray  # bool [h, w], the cells of the row in which A and B differ
    differences: tuple[float, float]  # logit differences LD of the runs on A and on B
    right: tuple[bool, bool]  # True where every cell of A's row, and of B's row, is correct


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

    Cells are patched in the embedded symbols (``input``) and in the outputs of layers. In a GPT
    these are the outputs of each block in each loop. In a model with supervision steps they are the
    whole state after each of ``steps``. Of more than twelve such sites, twelve evenly spaced ones
    are patched. Heads are patched in their outputs before the output projection, in all supervision
    steps at once.

    ``inputs`` and ``labels`` are ``uint8 [2, H, W]``, A and B; the same row is masked in the inputs
    and filled in in the labels. The last of ``steps`` gives the answer.

    Raises:
        ValueError: A's and B's rows are the same, the model's tokens lie in other cells, the model
            has no such sites, or its logit difference on B does not exceed that on A.
    """
    masked = inputs == MASK
    scored = masked[0] & (labels[0] != labels[1])
    if not scored.any():
        raise ValueError(
            "the two problems have the same symbols in this row, so no effect on it can be "
            "measured: choose another row, or another problem"
        )
    recorder, canvases, grid = open_pair(predictor, inputs, labels, steps)
    sites = recorder.heads() if heads else []
    if not heads:
        sites = [*recorder.inputs(), *recorder.states(sorted(steps))]
        shown = np.linspace(0, len(sites) - 1, min(len(sites), _SITES))  # with the first and last
        sites = [sites[i] for i in shown.round().astype(int)]
    base, (rows, columns) = recorder.run(sites), np.nonzero(scored)
    count = base.values[sites[0]][0].shape[1] if heads else recorder.length
    a, b = torch.from_numpy(labels[:, rows, columns].astype(np.int64)).to(base.logits.device)

    def difference(logits: Tensor) -> Tensor:
        """LD of runs, float64 [N], from logits [N, H, W, V]."""
        logits, cells = logits[:, rows, columns].float(), torch.arange(len(a), device=a.device)
        return (logits[:, cells, b] - logits[:, cells, a]).double().mean(dim=1)

    of_a, of_b = difference(base.logits).tolist()
    if not of_b > of_a:
        raise ValueError(
            "the model does not distinguish the two problems in this row: the logit difference "
            f"is {of_a:.3g} in the run on A and {of_b:.3g} in the run on B, so there is no scale "
            "for effects. Choose another row, or another problem"
        )
    effects, at_once = np.zeros((len(sites), count), np.float32), _PAIRS // grid.size**2
    alone = torch.eye(count, dtype=torch.bool)  # each head, or each token
    for done, (site, of_site) in enumerate(zip(sites, effects, strict=True)):
        report("patching", done, len(sites))
        recorded = base.values[site]
        values = recorded if heads else [recorder.by_token(site.name, v) for v in recorded]
        differ = torch.stack([(one != other).flatten(1).any(dim=1) for one, other in values])
        changed = differ.any(dim=0).cpu()  # [heads or S]; others have no effect
        for index in changed.nonzero().flatten().split(max(1, at_once)):
            put = replacement(alone[index], recorded)
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
    """Open a recorder of the model on A and B.

    Returns the recorder; the two canvases as the model reads them, ``uint8 [2, h, w]``; and the
    token of each place, ``int64 [h, w]`` (-1: none).

    Raises:
        ValueError: the model is a cell model, or its tokens lie in other cells in A than in B.
    """
    check_cells(predictor.model)
    _, height, width = labels.shape
    if family_of(predictor.model).reads_sequences:
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
            "cells only, or turned one canvas): choose a problem whose rows are as long, or "
            "another row"
        )
    flat = np.full(height * width + 1, -1)
    flat[of_a] = np.arange(len(of_a))
    return recorder, labels, flat[:-1].reshape(height, width)


def replacement(chosen: Tensor, recorded: Sequence[Tensor]) -> Change:
    """Return a change that puts some of B's activations into N runs on A.

    ``chosen`` marks the heads or tokens that each run replaces, bool [N, heads or S]. ``recorded``
    has the values of the runs on A and B, [2, heads or S, ...], at each visit of the site; a prefix
    may precede the tokens.
    """

    def change(_: object, number: int, value: Tensor) -> Tensor:
        prefix = chosen.new_zeros(len(chosen), value.shape[1] - chosen.shape[1])
        replaced = torch.cat((prefix, chosen), dim=1).to(value.device)
        shape = *replaced.shape, *[1] * (value.ndim - 2)
        return torch.where(replaced.view(shape), recorded[number][1], value)

    return change


@dataclass(frozen=True)
class HeadEffects:
    """Effects of heads over pairs of one kind (`trm.extras.analysis.pairs.KINDS`)."""

    kind: str
    meaning: str
    sites: list[str]  # names of L layers, in order of computation
    mean: list[list[float]]  # [L][heads], mean effect, see this module
    low: list[list[float]]  # lower end of its 95 % interval, a percentile bootstrap over pairs
    high: list[list[float]]
    pairs: list[tuple[str, str, int]]  # counted pairs: the two problems, and the row from 1
    left_out: int  # pairs in which the model has an incorrect symbol in one of the two rows


@standard_settings()
def head_effects(
    solver: Solver, size: dict[str, int], kinds: Sequence[str] = (), pairs: int = 50, seed: int = 0
) -> list[HeadEffects]:
    """Patch each head in turn, in pairs of held-out problems that differ in one respect.

    ``size`` has two measures of the task. ``pairs`` is the maximum per kind; without ``kinds`` all
    kinds of the task are patched. Kinds without pairs are left out.

    Raises:
        ValueError: there are no pairs, the model is correct in none of them, or its heads cannot be
            patched.
    """
    meanings, found, predictor = kinds_of(solver.task), list[HeadEffects](), solver.predictor
    name = size_name(size, size.values(), solver.task.unit)
    for kind in kinds or meanings:
        drawn = draw_pairs(solver, kind, size, pairs, seed)
        patched, counted = list[Patching](), []
        for done, pair in enumerate(drawn):
            report(f"{kind}: pairs of {name}", done, len(drawn))
            written = predictor(pair.inputs)
            if (written.canvases == pair.labels)[pair.inputs == MASK].all():
                used = max(1, int(written.steps.max()))
                patched.append(patch(predictor, pair.inputs, pair.labels, (used,), heads=True))
                counted.append((*pair.names, pair.row + 1))
        if not drawn:
            continue
        if not patched:
            raise ValueError(
                f"the model gets rows wrong in all of {len(drawn)} pairs ({kind}), and only "
                "effects on correct rows count. Give a size that it solves"
            )
        values = np.stack([one.effects for one in patched]).astype(np.float64)  # [P, L, heads]
        shares = values.mean(axis=0), *bootstrap(values, seed=seed)
        mean, low, high = (part.tolist() for part in shares)
        left, sites = len(drawn) - len(patched), patched[0].sites
        found.append(HeadEffects(kind, meanings[kind], sites, mean, low, high, counted, left))
    if not found:
        raise ValueError(
            f"no held-out problems of {name} differ only in {' or '.join(kinds or meanings)} in "
            f"the layout {solver.task.layout}: give another size"
        )
    return found
