"""What goes on inside a model while it works on a row: changes of its state, and attention.

Read off with forward hooks (`trm.models.capture`), so that a model computes what it always does.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trm.models.bias import all_pairs, all_rows
from trm.models.canvas_transformer import Context
from trm.models.capture import attention_calls, outputs_of
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel, Loop, named
from trm.models.layers import Attention


@dataclass(frozen=True)
class Introspection:
    """Some supervision steps of a batch of rows.

    Attributes:
        changes: of each tensor of the state by its name, float32 [T, C, B], how far it went in each
            of its C updates over T supervision steps: the root mean square of the difference over a
            sample's tokens and channels.
        attention: by the name of the tensor that was updated, float32 [layers, B, heads, H * W,
            H * W], what every cell (second to last) looked at in its last update; rows of blank
            cells that are no tokens are 0. Empty: the model has no attention between cells.
    """

    changes: dict[str, Tensor]
    attention: dict[str, Tensor]


@torch.no_grad()
def introspect(model: IterativeModel, tokens: Tensor, steps: int) -> Introspection:
    """Watch a model for a number of supervision steps from its initial state.

    A model that does not tell its updates has one of each tensor in a step.

    Args:
        model: on the device of the tokens.
        tokens: canvases, uint8 [B, H, W].
        steps: supervision steps; attention is that of the last.

    Raises:
        ValueError: fewer than one step, or canvases that the model refuses.
    """
    if steps < 1:
        raise ValueError(f"an introspection takes at least one supervision step, not {steps}")
    loop = Loop(model, tokens)
    before = named(loop.state)
    changes: dict[str, list[Tensor]] = {name: [] for name in (*model.updates, *before)}
    attention: dict[str, list[Tensor]] = {}
    last: Any = [model.layers[-1]] if model.updates else []  # type: ignore[index]
    for _ in range(steps):
        with outputs_of(last) as outputs, attention_calls(model) as calls:
            loop.step()
        made = [value for values in outputs for value in values]
        after = list(zip(model.updates, made, strict=True)) or list(named(loop.state).items())
        for name, value in after:
            changes[name].append(_distance(value, before[name], loop.lengths))
            before[name] = value
    context = loop.context
    if isinstance(context, Context) and calls and model.updates:
        layers = len(calls) // len(model.updates)
        for name, number in {name: i for i, name in enumerate(model.updates)}.items():
            own = calls[number * layers : (number + 1) * layers]
            attention[name] = [_on_canvas(_weights(*call), context) for call in own]
    return Introspection(
        {k: torch.stack(v).unflatten(0, (steps, -1)).cpu() for k, v in changes.items()},
        {name: torch.stack(weights).cpu() for name, weights in attention.items()},
    )


@torch.no_grad()
def gpt_attention(
    model: GPT, ids: Tensor, height: int, width: int, loops: int | None = None
) -> Tensor:
    """What every token of a GPT's sequences looks at, block by block, in every loop.

    Args:
        model: in evaluation mode, on the device of the tokens.
        ids, height, width, loops: see `GPT.forward`.

    Returns:
        float32 [loops * blocks, B, heads, T, T]: in row i the weights with which token i sees the
        tokens up to itself.
    """
    with attention_calls(model) as calls:
        model(ids, height, width, loops=loops)
    return torch.stack([_weights(*call) for call in calls]).cpu()


def _distance(one: Tensor, other: Tensor, lengths: Tensor | None) -> Tensor:
    """Root mean square of the difference [B, ...], padding left out: float32 [B]."""
    squares = (one.float() - other.float()).square()
    if lengths is None:
        return squares.flatten(1).mean(1).sqrt()
    squares = squares.flatten(2).mean(-1)
    there = torch.arange(squares.shape[1], device=one.device) < lengths.unsqueeze(1)
    return ((squares * there).sum(1) / lengths).sqrt()


def _weights(layer: Attention, given: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    """The attention of a call without a cache, float32 [B, heads, S, S]."""
    x, rotation, bias, keys = (*given, None, None, None)[:4]
    q, k, _ = layer.project(x, rotation, named.get("seen"))
    scores = (q.float() * q.shape[-1] ** -0.5) @ k.float().mT
    if bias is not None:
        if bias.ndim == 5:
            bias = all_rows(bias)
        scores = scores + (bias if keys is None else all_pairs(keys, bias)).float()
    if named.get("relative") is not None:
        scores = scores + named["relative"].scores(q).float()
    if named.get("causal"):
        scores = scores + torch.full_like(scores[0, 0], -torch.inf).triu(1)
    return scores.softmax(dim=-1)


def _on_canvas(weights: Tensor, context: Context) -> Tensor:
    """Attention between cells [B, heads, H * W, H * W], a prefix left out."""
    cells = context.height * context.width
    if context.places is None:
        return weights[..., -cells:, -cells:]
    S = context.places.shape[1]
    weights = weights[..., -S:, -S:]
    full = weights.new_zeros(*weights.shape[:2], cells + 1, cells + 1)
    rows = context.places[:, None, :, None].expand_as(weights)
    columns = context.places[:, None, None, :].expand_as(weights)
    flat = (rows * (cells + 1) + columns).flatten(2)
    full.flatten(2).scatter_(2, flat, weights.flatten(2))
    return full[..., :cells, :cells]
