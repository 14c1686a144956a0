"""Effective ranks: how many directions feed-forward weights and states make use of, layer by layer.

The effective rank of a matrix is the exponential of the entropy of its singular values, taken as
shares of their sum (Roy and Vetterli 2007, "The effective rank: a measure of effective
dimensionality"): 1 where all but one are 0, the full rank where all are equal. A feed-forward
narrower than the model cannot have the model's rank, which is one account of why depth at an equal
number of parameters stops helping (Petty et al. 2024, "The impact of depth on compositional
generalization in transformer language models", arXiv 2310.19956).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from canvas.render import row_steps
from trm.analysis.probe import INPUT, observe_all
from trm.grid_cells import cell_problems
from trm.models.attention import PostNormBlock, SwiGLU
from trm.models.cell import CellModel
from trm.models.gpt import GPT, Block
from trm.solving.solver import Solver
from trm.torch_settings import standard_settings

WEIGHTS, STATES = "weights", "states"
_TOKENS = 4096  # whose states are taken, at most


@dataclass(frozen=True)
class Rank:
    """The effective rank of one matrix: of a feed-forward's weights, or of the states of tokens."""

    kind: str  # `WEIGHTS` or `STATES`
    layer: int  # that passes the states on; 0: what the first is given; loops are counted on
    name: str  # ``up``, ``gate`` or ``down``; the state's tensor, a GPT's ``block``, or ``input``
    rank: float
    full: int  # the largest rank that such a matrix can have
    tokens: int | None = None  # whose states these are

    @property
    def share(self) -> float:
        """Of the full rank, above 0 to 1."""
        return self.rank / self.full


def effective_rank(matrix: Tensor) -> float:
    """The effective rank of a matrix ``[N, M]`` of finite numbers; 0 of one that is zero."""
    values = torch.linalg.svdvals(matrix.double())
    if not values.any():
        return 0.0
    return float(torch.special.entr(values / values.sum()).sum().exp())


@standard_settings()
def weight_ranks(model: nn.Module) -> list[Rank]:
    """Of the feed-forward weights of each layer; none of a model whose layers are its own."""
    found = []
    for layer, block in enumerate(getattr(model, "layers", ()), start=1):
        named: dict[str, Tensor] = {}
        if isinstance(block, Block):
            named = {"up": block.up.weight, "down": block.down.weight}
        elif isinstance(block, PostNormBlock) and isinstance(block.mlp, SwiGLU):
            gate, up = block.mlp.gate_up.weight.chunk(2)
            named = {"gate": gate, "up": up, "down": block.mlp.down.weight}
        for name, weight in named.items():
            rank = effective_rank(weight.detach())
            found.append(Rank(WEIGHTS, layer, name, rank, min(weight.shape)))
    return found


@standard_settings()
def state_ranks(solver: Solver, problems: int = 32, seed: int = 0, step: int = 8) -> list[Rank]:
    """Of the states after each layer, with their mean taken away.

    Over the tokens of the rows of problems of the test split, as long as the longest of training
    and built on true rows; at most 4,096 of them, after a supervision step (of a GPT no matter).
    The fewer there are the lower the rank: compare models over about as many, several times as many
    as they have channels. None of a cell model, whose states no other cell reads. ValueError: no
    problem is held out, or states are not made of tokens.
    """
    task, model = solver.task, solver.predictor.model
    if isinstance(model, CellModel):
        return []
    asked = cell_problems(task, task.longest, problems, seed)
    if not len(asked):
        raise ValueError("no problem of training's longest operands is held out: train on longer")
    gpt, layers = isinstance(model, GPT), len(getattr(model, "layers", ()))
    drawing, states = solver.draw_worked(asked), dict[tuple[int, str], list[Tensor]]()
    inputs = drawing.truth if gpt else row_steps(drawing).inputs
    for _, seen in observe_all(solver.predictor, inputs, (step,), layers=True):
        tokens = seen.cells < inputs[0].size
        for point, value in seen.features.items():
            tensor, _, layer = point.name.partition(", layer ")
            place = 0 if tensor == INPUT else point.step if gpt else int(layer or layers or 1)
            states.setdefault((place, tensor), []).append(value[tokens].float())
    ranks = []
    for (number, name), parts in sorted(states.items()):
        value = torch.cat(parts)
        chosen = np.linspace(0, len(value) - 1, min(len(value), _TOKENS)).round().astype(np.int64)
        value = value[torch.from_numpy(chosen).to(value.device)]
        value = value - value.mean(dim=0)  # of N tokens at most N - 1 directions are left
        full = max(1, min(len(value) - 1, value.shape[1]))
        ranks.append(Rank(STATES, number, name, effective_rank(value), full, len(value)))
    return ranks
