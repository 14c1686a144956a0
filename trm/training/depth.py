"""How deep recursion is trained.

`carry` is the reference's way: one supervision step a training step, the state carried over to the
next one, samples replaced as they halt (Jolicoeur-Martineau 2025, "Less is more: recursive
reasoning with tiny networks"). `fresh` starts every batch anew, takes a random number of steps
without gradient and then some supervised ones, so that a model stays right when it is iterated
longer than in training (progressive loss of Bansal et al. 2022, "End-to-end algorithm synthesis
with recurrent networks"). Some samples may start from random states, so that the answer depends on
the canvas and not on the way to it (Anil et al. 2022, "Path independent equilibrium models can
better exploit test-time computation").
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trm.models.draws import random_starts
from trm.models.halting import Carry, carry_step, initial_carry
from trm.models.iterative import Batch, IterativeModel, Loop
from trm.training.configs import DepthConfig
from trm.training.losses import StepLoss

LossFunction = Callable[[Tensor, Tensor, Tensor, Tensor], StepLoss]


@dataclass(frozen=True)
class StepResult:
    """One training step: what to minimise, and the last supervised step's loss for the log."""

    loss: Tensor
    last: StepLoss
    steps: Tensor | float  # supervision steps a sample has had, mean over the batch


def fresh_step(
    model: IterativeModel,
    batch: Batch,
    depth: DepthConfig,
    loss: LossFunction,
    seed: int,
) -> StepResult:
    """Start anew, take some steps without gradient and then the supervised ones.

    Args:
        batch: ``inputs``, ``labels`` [B, H, W] integers, ``answer`` [B, H, W] bool and ``seeds``
            int64 [B], from which follows which samples start from random states, and from which.
        loss: of (logits, halt_logits, labels, answer).
        seed: of the batch, for the number of steps without gradient; on every device the same.
    """
    free = random.Random(seed).randint(*depth.no_grad_steps)
    loop = Loop(model, batch["inputs"])
    if depth.random_start:
        loop.state = random_starts(loop.state, depth.random_start, batch["seeds"])
    loop.advance(free)
    results = []
    for _ in range(depth.supervised_steps):
        loop.step()
        results.append(_result(loop, batch, loss, float(free + depth.supervised_steps)))
    return replace(results[-1], loss=torch.stack([one.loss for one in results]).mean())


def carried_step(
    model: IterativeModel,
    batch: Batch,
    carry: Carry | None,
    depth: DepthConfig,
    loss: LossFunction,
) -> tuple[StepResult, Carry]:
    """One supervision step on the samples in the carry, halted ones replaced from the batch.

    See `fresh_step`; the carry, None at the start, is on any device.
    """
    # One from a checkpoint comes before the model is where it trains.
    carry = initial_carry(batch) if carry is None else carry.to(batch["inputs"].device)
    carry, loop = carry_step(model, carry, batch, depth.halt_max_steps, depth.exploration)
    # A number would wait for the device at every step; the log asks for it now and then.
    return _result(loop, carry.batch, loss, carry.steps.float().mean()), carry


def _result(loop: Loop, batch: Batch, loss: LossFunction, steps: Tensor | float) -> StepResult:
    """The loss of a step that has just been taken."""
    step = loss(*loop.read(), batch["labels"], batch["answer"])
    return StepResult(step.total, step, steps)
