"""What a model believes of hints: the likeliest class in every cell, see `canvas.hints`."""

import numpy as np
import torch
from torch import Tensor

from canvas.hints import UNDEFINED
from trm.models.iterative import IterativeModel, Loop


def likeliest(logits: Tensor) -> Tensor:
    """The class that a hint's head holds most likely: uint8 [...] from [..., C].

    `UNDEFINED` where all classes are equally likely: cells that are no tokens of the model, such as
    blank ones that it leaves out, have no state to be read.
    """
    unread = logits.amax(dim=-1) == logits.amin(dim=-1)
    return logits.argmax(dim=-1).to(torch.uint8).masked_fill(unread, UNDEFINED)


@torch.no_grad()
def hints_after(
    model: IterativeModel, inputs: np.ndarray, steps: np.ndarray
) -> dict[str, np.ndarray]:
    """What an iterative model believes of hints after some supervision steps.

    Args:
        model: on the device where it is to run; autocast is the caller's.
        inputs: canvases with a masked row, ``uint8 [B, H, W]``.
        steps: ``int64 [B]``, of each sample, from 1; done samples cost nothing.

    Returns:
        By name ``uint8 [B, H, W]`` classes, see `likeliest`; empty of a model without such heads.
    """
    device = next(model.parameters()).device
    loop = Loop(model, torch.from_numpy(inputs).to(device))
    left = torch.from_numpy(steps).to(device)
    samples = torch.arange(len(inputs), device=device)
    found: dict[str, Tensor] = {}
    for number in range(1, int(steps.max(initial=0)) + 1):
        loop.step()
        done = left == number
        if not done.any():
            continue
        for name, logits in loop.read_hints().items():
            if name not in found:
                found[name] = torch.empty(inputs.shape, dtype=torch.uint8, device=device)
            found[name][samples[done]] = likeliest(logits[done])
        samples, left = samples[~done], left[~done]
        loop.keep(~done)
    return {name: classes.cpu().numpy() for name, classes in found.items()}


def right_cells(believed: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a hint is right, and where there is something to be right about.

    Args:
        believed: ``uint8 [...]`` classes, see `likeliest`.
        truth: ``uint8 [...]``, see `canvas.hints.draw_hints`.

    Returns:
        ``bool [...]`` twice. Cells in which the hint is not defined, or which the model does not
        read, are neither right nor wrong.
    """
    counted = (truth != UNDEFINED) & (believed != UNDEFINED)
    return (believed == truth) & counted, counted
