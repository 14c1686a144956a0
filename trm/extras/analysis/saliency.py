"""Saliency: how much each cell that a model reads counts for one symbol that it writes.

The score is the logit of the symbol that the model writes into a cell, less the mean logit of all
symbols. Its gradients are those with respect to the embedded symbols e, without positions, through
all steps, cycles and loops of the run. There are two maps, with a value for each cell:

- *input x gradient*: e · ∂score/∂e (Shrikumar et al. 2016, "Not just a black box").
- *integrated gradients*: (e − b) · mean of ∂score/∂e on the way from b to e (Sundararajan et al.
  2017, "Axiomatic attribution for deep networks"). The baseline b is the canvas with every written
  symbol blank; masked cells stay masked. With enough points on the way the values add up to the
  score less that of the baseline.

A gradient shows what a small change would do, and not what a model uses: compare with patching.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from canvas.symbols import BLANK, MASK
from trm.extras.analysis.record import Recorder, SequenceRecorder, StepRecorder, check_cells
from trm.models.hooks import record
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.families import family_of
from trm.solving.predictor import Predictor

POINTS = 64  # on the way from the baseline to the canvas
_AT_ONCE = 100_000  # most tokens times passes through a layer whose activations are kept


@dataclass(frozen=True)
class Saliency:
    """Maps of one cell of the answer, after each of N steps; NaN where a cell is no token."""

    cell: tuple[int, int]  # row and column
    symbol: int  # that the model writes there
    canvas: np.ndarray  # uint8 [H, W], as the model reads it; masked where it has not yet written
    names: list[str]  # of the steps; of a GPT, which has none, ``answer``
    gradient: np.ndarray  # float32 [N, H, W], input x gradient
    integrated: np.ndarray  # float32 [N, H, W], integrated gradients
    scores: np.ndarray  # float32 [N], of the canvas
    baselines: np.ndarray  # float32 [N], of the baseline

    @property
    def sums(self) -> np.ndarray:
        """Sums of the integrated gradients, float32 [N]: near ``scores - baselines`` if exact."""
        return np.nansum(self.integrated, axis=(1, 2))

    @property
    def inexact(self) -> list[str]:
        """Names of the steps whose sum is off by more than a tenth of the difference in scores."""
        differences = self.scores - self.baselines
        off = abs(self.sums - differences) > 0.1 * np.maximum(abs(differences), 1)
        return [name for name, is_off in zip(self.names, off, strict=True) if is_off]


@standard_settings()
def explain(
    predictor: Predictor,
    canvas: np.ndarray,
    cell: tuple[int, int],
    steps: Sequence[int] = (1,),
    points: int = POINTS,
) -> Saliency:
    """Return the saliency of the cells of a canvas for a masked one.

    Args:
        predictor: with a recursive transformer, another iterative model with ``embed_tokens``, or a
            GPT, which reads its own symbols in the cells of the row before this one.
        canvas: uint8 [H, W], with a masked row.
        cell: row and column of a masked cell.
        steps: supervision steps from 1, of which the last one gives the symbol; a GPT ignores them.
        points: gradients on the way from the baseline.

    Raises:
        ValueError: the cell is not masked; the model is a cell model, or embeds no symbols.
    """
    check_embeddings(predictor.model)
    if canvas[cell] != MASK:
        raise ValueError(
            f"the cell {cell[0] + 1},{cell[1] + 1} is not to be filled in: choose one of the row"
        )
    run_of = _sequence if family_of(predictor.model).reads_sequences else _steps
    run = run_of(predictor, canvas, cell, sorted(steps))
    embedded = run.embedded()
    blank = predictor.model.embed_tokens.weight[BLANK].detach()
    baseline = torch.where(run.written[:, None], blank.to(embedded), embedded)
    with torch.enable_grad():
        last = run.logits(embedded[None])[-1]
    symbol = int(last[0].argmax())
    scores, gradients = run.gradients(embedded[None], symbol)
    first = run.gradients(baseline[None], symbol)[0]
    mean = torch.zeros_like(gradients[:, 0])
    shares = (torch.arange(points, device=embedded.device) + 0.5) / points
    at_once = max(1, _AT_ONCE // (len(embedded) * run.passes))
    for done, some in enumerate(shares.split(at_once)):
        report("gradients", done * at_once, points)
        between = baseline + some[:, None, None] * (embedded - baseline)
        mean += run.gradients(between, symbol)[1].sum(dim=1) / points
    maps = embedded * gradients[:, 0], (embedded - baseline) * mean
    on_canvas = [run.on_canvas(one.sum(dim=-1).cpu().numpy()) for one in maps]
    ends = (one[:, 0].detach().cpu().numpy() for one in (scores, first))
    return Saliency(cell, symbol, run.canvas, run.names, *on_canvas, *ends)


def check_embeddings(model: nn.Module) -> None:
    """Require a model whose cells read each other's states, and which embeds symbols.

    Raises:
        ValueError: it does not, or it has no ``embed_tokens``.
    """
    check_cells(model)
    if not hasattr(model, "embed_tokens"):
        raise ValueError(
            f"saliency is of embedded symbols, and {type(model).__name__} has no embed_tokens: "
            "give the network's embedding that name"
        )


class _Run(NamedTuple):
    """A model on one canvas, which it reads as S embedded tokens."""

    canvas: np.ndarray  # see `Saliency`
    recorder: Recorder  # of the model on it
    cells: Tensor  # int64 [S], the cell of each token; H * W: none
    names: list[str]  # of the answers
    passes: int  # tokens pass through layers so many times
    # The cell's logits, [B, V], of each answer, for other embeddings, [B, S, D].
    logits: Callable[[Tensor], list[Tensor]]

    @property
    def written(self) -> Tensor:
        """Tokens with a symbol other than blank and masked ones, bool [S]."""
        known = np.append((self.canvas != BLANK) & (self.canvas != MASK), False)
        return torch.from_numpy(known).to(self.cells.device)[self.cells]

    def embedded(self) -> Tensor:
        """Return the embedded symbols, float32 [S, D]."""
        found = self.recorder.run(sites := self.recorder.inputs()).values[sites[0]][0]
        return self.recorder.by_token(sites[0].name, found)[0].float()

    def gradients(self, embedded: Tensor, symbol: int) -> tuple[Tensor, Tensor]:
        """Return scores [N, B] and their gradients [N, B, S, D] for embeddings [B, S, D]."""
        with torch.enable_grad():
            leaf = embedded.detach().requires_grad_()
            logits = [one.float() for one in self.logits(leaf)]
            scores = [one[:, symbol] - one.mean(dim=-1) for one in logits]
            found = [torch.autograd.grad(one.sum(), leaf, retain_graph=True)[0] for one in scores]
        return torch.stack(scores).detach(), torch.stack(found)

    def on_canvas(self, values: np.ndarray) -> np.ndarray:
        """Return values of tokens, [N, S], as maps, float32 [N, H, W]; NaN: no token."""
        full = np.full((len(values), self.canvas.size + 1), np.nan, dtype=np.float32)
        full[:, self.cells.cpu().numpy()] = values
        return full[:, :-1].reshape(-1, *self.canvas.shape)


def _steps(
    predictor: Predictor, canvas: np.ndarray, cell: tuple[int, int], steps: Sequence[int]
) -> _Run:
    """Run an iterative model, with a gradient through all steps and cycles.

    A supervision step of a recursive model carries a gradient in its last H cycle alone. A copy of
    the model has one H cycle, and takes as many more steps.
    """
    model: Any = copy(predictor.model)
    recorder = StepRecorder(model, canvas[None], 1)
    cycles = getattr(model.config, "H_cycles", 1)
    if cycles > 1:
        model.config = replace(model.config, H_cycles=1)

    def logits(embedded: Tensor) -> list[Tensor]:
        with _reading(recorder, embedded):
            context = model.encode(recorder.tokens.expand(len(embedded), -1, -1))
        found, state = [], model.initial_state(context)
        for step in range(1, steps[-1] + 1):
            for _ in range(cycles):
                state = model.iterate(context, state)
            if step in steps:
                found.append(model.read(state, context)[0][:, *cell])
        return found

    passes = max(1, len(model.updates) * len(getattr(model, "layers", "_"))) * steps[-1]
    names = [f"step {step}" for step in steps]
    return _Run(canvas, recorder, recorder.cells[0], names, passes, logits)


def _sequence(
    predictor: Predictor, canvas: np.ndarray, cell: tuple[int, int], steps: Sequence[int]
) -> _Run:
    """Run a GPT, which reads its own symbols in the row; it ignores the steps."""
    filled = predictor(canvas[None]).canvases[0]
    later = (canvas == MASK) & (np.arange(canvas.shape[1]) <= cell[1])  # it writes leftwards
    recorder = SequenceRecorder(predictor.model, filled[None])
    model, writers = recorder.model, recorder.writers
    cells = writers.new_full((recorder.length,), filled.size)
    cells[writers + 1] = torch.arange(filled.size, device=writers.device)

    def logits(embedded: Tensor) -> list[Tensor]:
        ids = recorder.ids.expand(len(embedded), -1)
        with _reading(recorder, embedded):
            states = model.activations(ids, recorder.height, canvas.shape[1])
        return [model.head(states[:, writers[cell[0] * canvas.shape[1] + cell[1]]])]

    passes = len(model.layers) * recorder.last
    return _Run(np.where(later, canvas, filled), recorder, cells, ["answer"], passes, logits)


def _reading(recorder: Recorder, embedded: Tensor) -> AbstractContextManager[object]:
    """Return a context in which a recorder's model reads other embeddings, [B, S, D]."""
    site = recorder.inputs()[0].of[0]
    return record(recorder.model, [], hooks=[(site, lambda *_: embedded)])
