"""What goes on inside a recursive model while it works on a row: states and attention.

Read off with forward hooks, so that the model computes what it always does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from trm.models.bias import all_pairs
from trm.models.layers import Attention, Rotation
from trm.models.recursive import Context, TinyRecursiveModel


@dataclass(frozen=True)
class Probe:
    """Some supervision steps of a batch of rows.

    Attributes:
        changes_H: float32 [T, H_cycles, B], how far z_H went in each of its updates over T
            supervision steps: the root mean square of the difference over a sample's tokens and
            channels. The states themselves have about 1.
        changes_L: float32 [T, H_cycles * L_cycles, B], the same of z_L.
        attention_L: float32 [layers, B, heads, H * W, H * W], what every cell (second to last)
            looked at in the last update of z_L; rows of blank cells that are no tokens are 0.
            None: the model has no attention.
        attention_H: the same of z_H.
    """

    changes_H: Tensor  # noqa: N815
    changes_L: Tensor  # noqa: N815
    attention_L: Tensor | None  # noqa: N815
    attention_H: Tensor | None  # noqa: N815


@torch.no_grad()
def probe(model: TinyRecursiveModel, tokens: Tensor, steps: int) -> Probe:
    """Watch a model for a number of supervision steps from its initial state.

    Args:
        model: on the device of the tokens.
        tokens: canvases, uint8 [B, H, W].
        steps: supervision steps; attention is that of the last.

    Raises:
        ValueError: fewer than one step, or canvases that the model refuses.
    """
    if steps < 1:
        raise ValueError(f"a probe takes at least one supervision step, not {steps}")
    context = model.encode(tokens)
    state = model.initial_state(context)
    before = {"z_L": state.z_L, "z_H": state.z_H}
    changes: dict[str, list[Tensor]] = {"z_L": [], "z_H": []}
    with _watching(model) as seen:
        for _ in range(steps):
            seen.outputs.clear()
            state = model.iterate(context, state)
            for i, output in enumerate(seen.outputs):
                which = "z_H" if (i + 1) % (model.config.L_cycles + 1) == 0 else "z_L"
                changes[which].append(_distance(output, before[which], context))
                before[which] = output
    layers = len(model.layers)
    weights = [_on_canvas(_weights(*call), context) for call in seen.calls[-2 * layers :]]
    by_H, by_L = (
        torch.stack(changes[which]).unflatten(0, (steps, -1)).cpu() for which in ("z_H", "z_L")
    )
    return Probe(
        by_H,
        by_L,
        torch.stack(weights[:layers]).cpu() if weights else None,
        torch.stack(weights[layers:]).cpu() if weights else None,
    )


_Call = tuple[Attention, Tensor, Rotation | None, Tensor | None, Tensor | None]


@dataclass(frozen=True)
class _Seen:
    """The network's outputs, and the arguments of its attention layers, in their order."""

    outputs: list[Tensor]
    calls: list[_Call]


@contextmanager
def _watching(model: TinyRecursiveModel) -> Iterator[_Seen]:
    seen = _Seen([], [])

    def called(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.calls.append((cast(Attention, module), *arguments))
        del seen.calls[: -2 * len(model.layers)]  # those of the last two updates stay

    last = model.layers[-1]
    hooks = [last.register_forward_hook(lambda *call: seen.outputs.append(call[2]))]
    for layer in model.modules():
        if isinstance(layer, Attention):
            hooks.append(layer.register_forward_pre_hook(called))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _distance(one: Tensor, other: Tensor, context: Context) -> Tensor:
    """Root mean square of the difference [B, S, D], padding left out: float32 [B]."""
    places = torch.arange(one.shape[1], device=one.device)
    there = places < context.lengths.unsqueeze(1)
    squares = (one.float() - other.float()).square().mean(-1)
    return ((squares * there).sum(1) / context.lengths).sqrt()


def _weights(
    layer: Attention,
    x: Tensor,
    rotation: Rotation | None,
    bias: Tensor | None,
    keys: Tensor | None,
) -> Tensor:
    """The layer's attention, float32 [B, heads, S, S]."""
    q, k, _ = layer.project(x, rotation)
    scores = (q.float() * q.shape[-1] ** -0.5) @ k.float().mT
    if bias is not None:
        scores = scores + (bias if keys is None else all_pairs(keys, bias)).float()
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
