"""Effective ranks of feed-forward weights and of states, layer by layer.

The effective rank of a matrix is the exponential of the entropy of its singular values, taken as
shares of their sum (Roy and Vetterli 2007, "The effective rank: a measure of effective
dimensionality"). It is 1 where all but one are 0, and the full rank where all are equal. A
feed-forward layer narrower than the model cannot have the model's rank. This may explain why depth
at an equal number of parameters stops helping (Petty et al. 2024, "The impact of depth on
compositional generalization in transformer language models", arXiv 2310.19956).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from canvas.drawing import row_steps
from trm.evaluation.grid_cells import cell_problems
from trm.extras.analysis.features import INPUT, observe_all
from trm.models.attention import PostNormBlock, SwiGLU
from trm.models.gpt import Block
from trm.runtime.torch_settings import standard_settings
from trm.solving.families import CELL_STATES, family_of
from trm.solving.solver import Solver

WEIGHTS, STATES = "weights", "states"
_TOKENS = 4096  # most tokens whose states are used


@dataclass(frozen=True)
class Rank:
    """Effective rank of one matrix: of feed-forward weights, or of the states of tokens."""

    kind: str  # `WEIGHTS` or `STATES`
    layer: int  # layer that outputs the states; 0: input of the first; loops continue the count
    name: str  # ``up``, ``gate`` or ``down``; the state's tensor, a GPT's ``block``, or ``input``
    rank: float
    full: int  # largest rank of a matrix of this shape
    tokens: int | None = None  # number of tokens, for states
    values: tuple[float, ...] = ()  # singular values, as shares of the largest, which is the first

    @property
    def share(self) -> float:
        """Share of the full rank, above 0 and up to 1."""
        return self.rank / self.full


def effective_rank(matrix: Tensor) -> float:
    """Return the effective rank of a matrix ``[N, M]`` of finite numbers; 0 for a zero matrix."""
    return rank_of(WEIGHTS, 0, "", matrix, min(matrix.shape)).rank


def rank_of(
    kind: str, layer: int, name: str, matrix: Tensor, full: int, tokens: int | None = None
) -> Rank:
    """Return the `Rank` of a matrix ``[N, M]`` of finite numbers."""
    values, rank = torch.linalg.svdvals(matrix.double()), 0.0
    if values.any():
        rank = float(torch.special.entr(values / values.sum()).sum().exp())
        values = values / values[0]
    return Rank(kind, layer, name, rank, full, tokens, tuple(values.tolist()))


@standard_settings()
def weight_ranks(model: nn.Module) -> list[Rank]:
    """Return the ranks of each layer's feed-forward weights; none for layers of unknown classes."""
    found = []
    for layer, block in enumerate(getattr(model, "layers", ()), start=1):
        named: dict[str, Tensor] = {}
        if isinstance(block, Block):
            named = {"up": block.up.weight, "down": block.down.weight}
        elif isinstance(block, PostNormBlock) and isinstance(block.mlp, SwiGLU):
            gate, up = block.mlp.gate_up.weight.chunk(2)
            named = {"gate": gate, "up": up, "down": block.mlp.down.weight}
        for name, weight in named.items():
            found.append(rank_of(WEIGHTS, layer, name, weight.detach(), min(weight.shape)))
    return found


@standard_settings()
def state_ranks(solver: Solver, problems: int = 32, seed: int = 0, step: int = 8) -> list[Rank]:
    """Return the ranks of the states after each layer, with their mean subtracted.

    The states are those of at most 4,096 tokens, after supervision step ``step`` (ignored for a
    GPT). The tokens belong to rows of test problems, built on true rows; operands have the largest
    lengths of training. Fewer tokens give a lower rank: compare models over similar numbers of
    tokens, several times their number of channels. A cell model gets none, as no cell reads
    another's state.

    Raises:
        ValueError: no such problem is held out, or states are not made of tokens.
    """
    task, model = solver.task, solver.predictor.model
    family = family_of(model)
    if CELL_STATES in family.lacks:
        return []
    drawn = cell_problems(task, task.longest, problems, seed)
    if not len(drawn):
        raise ValueError("no problem of training's longest operands is held out: train on longer")
    gpt, layers = family.reads_sequences, len(getattr(model, "layers", ()))
    drawing, states = solver.draw_worked(drawn), dict[tuple[int, str], list[Tensor]]()
    inputs = drawing.truth if gpt else row_steps(drawing).inputs
    for _, observed in observe_all(solver.predictor, inputs, (step,), layers=True):
        tokens = observed.cells < inputs[0].size
        for point, value in observed.features.items():
            place = 0 if point.name == INPUT else point.step if gpt else point.layer or layers or 1
            states.setdefault((place, point.name), []).append(value[tokens].float())
    ranks = []
    for (number, name), parts in sorted(states.items()):
        value = torch.cat(parts)
        chosen = np.linspace(0, len(value) - 1, min(len(value), _TOKENS)).round().astype(np.int64)
        value = value[torch.from_numpy(chosen).to(value.device)]
        value = value - value.mean(dim=0)  # N tokens then have a rank of at most N - 1
        full = max(1, min(len(value) - 1, value.shape[1]))
        ranks.append(rank_of(STATES, number, name, value, full, len(value)))
    return ranks
