"""What is probed: the states of an iterative model after its supervision steps, or a GPT's blocks.

States are read where a model keeps them, and between layers by `trm.models.capture`, so that a
model computes what it always does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas.render import to_sequences
from trm.models.canvas_transformer import Context
from trm.models.capture import inputs_of, outputs_of
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel, Loop, named
from trm.probing.cells import Examples, token_of_cell
from trm.solving.rollout import Predictor

INPUT = "input"  # the embedded tokens, before anything has been computed
BLOCKS = "block"  # of a GPT, what each block passes on
NORM = "norm"  # of a GPT, what its heads read


class Site(NamedTuple):
    """Where features are read.

    Attributes:
        name: a tensor of the state, perhaps with a layer, like ``z_H`` or ``z_L, layer 1``; or
            ``input``, ``block`` or ``norm``.
        step: after which supervision step, or of a GPT after how many blocks; 0: before any.
    """

    name: str
    step: int


@dataclass(frozen=True)
class Watched:
    """A batch of examples, read by a model.

    Attributes:
        features: of each site, floating [B, S, D], one row a token.
        cells: int64 [B, S], the cell of each token, row by row; H * W where it is padding.
        heads: by step, the class uint8 [B, H, W] that the model's own head names of each hint.
        answers: uint8 [B, H, W], the symbols that the model writes after the last step.
    """

    features: dict[Site, Tensor]
    cells: Tensor
    heads: dict[int, dict[str, Tensor]]
    answers: np.ndarray


def main_name(predictor: Predictor) -> str:
    """The name of the site that the model's heads read: its last updated state, or the norm."""
    model = predictor.model
    if isinstance(model, GPT):
        return NORM
    if model.updates:
        return str(model.updates[-1])
    tokens = torch.zeros(1, 2, 2, dtype=torch.uint8, device=next(model.parameters()).device)
    return next(iter(named(Loop(model, tokens).state)))


def last_step(predictor: Predictor, steps: Sequence[int]) -> int:
    """The step of the last site: the last supervision step asked for, or a GPT's last block."""
    model = predictor.model
    return loops_of(predictor) * len(model.layers) if isinstance(model, GPT) else max(steps)


@torch.no_grad()
def watch(
    predictor: Predictor, examples: Examples, steps: Sequence[int], layers: bool = False
) -> Watched:
    """Let a model read examples.

    Args:
        predictor: with the model, where it is to run.
        examples: a batch.
        steps: the supervision steps after which an iterative model's states are read, from 1; a GPT
            is read after each block.
        layers: whether states are read after each layer of a step's last update, too.

    Raises:
        ValueError: the states are not made of tokens, layers were asked for and the model does not
            tell them, or the canvases are refused.
    """
    if isinstance(predictor.model, GPT):
        return _watch_gpt(predictor, predictor.model, examples)
    return _watch_iterative(predictor.model, examples, steps, layers)


def _watch_iterative(
    model: IterativeModel, examples: Examples, steps: Sequence[int], layers: bool
) -> Watched:
    tokens = torch.from_numpy(examples.inputs).to(next(model.parameters()).device)
    loop = Loop(model, tokens)
    cells = _cells(loop, tokens)
    features: dict[Site, Tensor] = {}
    if isinstance(loop.context, Context):
        features[Site(INPUT, 0)] = _by_token(INPUT, loop.context.inputs, cells)
    heads: dict[int, dict[str, Tensor]] = {}
    if layers and not (model.updates and hasattr(model, "layers")):
        raise ValueError(
            f"{type(model).__name__} does not tell what its layers update: leave out --layers"
        )
    settled = False  # a step would change nothing: then only those that are read are taken
    for step in range(1, max(steps) + 1):
        if settled and step not in steps:
            continue
        before = named(loop.state)
        with outputs_of(list(model.layers) if layers else []) as outputs:  # type: ignore[arg-type]
            loop.step()
        after = named(loop.state)
        settled = all(torch.equal(before[name], state) for name, state in after.items())
        if step not in steps:
            continue
        last = {name: index for index, name in enumerate(model.updates)}
        for number, made in enumerate(outputs[:-1], start=1):  # the last layer's is the state
            for name, index in last.items():
                site = Site(f"{name}, layer {number}", step)
                features[site] = _by_token(site.name, made[index], cells)
        for name, state in after.items():
            features[Site(name, step)] = _by_token(name, state, cells)
        heads[step] = {
            name: logits.argmax(dim=-1).to(torch.uint8)
            for name, logits in loop.read_hints().items()
        }
    answers = loop.read()[0].argmax(dim=-1).to(torch.uint8).cpu().numpy()
    return Watched(features, cells, heads, answers)


def _watch_gpt(predictor: Predictor, model: GPT, examples: Examples) -> Watched:
    B, H, W = examples.inputs.shape
    device = next(model.parameters()).device
    ids = torch.from_numpy(to_sequences(examples.inputs)).to(device)
    writer = torch.from_numpy(token_of_cell(H, W)).to(device)
    with inputs_of([model.layers[0]]) as (given,), outputs_of(list(model.layers)) as outputs:
        x = model.activations(ids, H, W, loops=loops_of(predictor))
    features = {Site(INPUT, 0): given[0][:, writer]}
    K = len(outputs)
    for block, made in enumerate(outputs):
        for loop, value in enumerate(made):
            step = loop * K + block + 1
            features[Site(BLOCKS, step)] = value[:, writer]
    features = dict(sorted(features.items(), key=lambda item: item[0].step))
    step = K * loops_of(predictor)
    features[Site(NORM, step)] = x = x[:, writer]
    cells = torch.arange(H * W, device=device).expand(B, -1)
    heads = {
        name: logits.argmax(dim=-1).to(torch.uint8).unflatten(1, (H, W))
        for name, logits in model.read_hints(x).items()
    }
    answers = model.head(x).argmax(dim=-1).to(torch.uint8).unflatten(1, (H, W))
    return Watched(features, cells, {step: heads}, answers.cpu().numpy())


def loops_of(predictor: Predictor) -> int:
    """How often a GPT's blocks are applied."""
    return getattr(predictor, "loops", None) or int(predictor.model.config.loops)


def _cells(loop: Loop, tokens: Tensor) -> Tensor:
    """The cell of each token of an iterative model, int64 [B, S], a prefix left out."""
    B, H, W = tokens.shape
    if isinstance(loop.context, Context) and loop.context.places is not None:
        return loop.context.places
    return torch.arange(H * W, device=tokens.device).expand(B, -1)


def _by_token(name: str, state: Tensor, cells: Tensor) -> Tensor:
    """A tensor of the state as [B, S, D], a prefix left out.

    Raises:
        ValueError: it is not made of tokens of cells.
    """
    S = cells.shape[1]
    if state.ndim == 4 and state.shape[1] * state.shape[2] == S:
        state = state.flatten(1, 2)
    if state.ndim != 3 or state.shape[1] < S:
        raise ValueError(
            f"the state {name} has the shape {list(state.shape)}; probes read states with one "
            f"vector for each cell, [batch, {S}, channels] here"
        )
    return state[:, state.shape[1] - S :]
