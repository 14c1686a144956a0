"""How deep recursion is trained.

`carry` is the reference's way: one supervision step a training step, the state carried over to the
next one, samples replaced as they halt (Jolicoeur-Martineau 2025, "Less is more: recursive
reasoning with tiny networks"; after the ACT wrapper of SamsungSAILMontreal/TinyRecursiveModels).
`fresh` starts every batch anew, takes a random number of steps without gradient and then some
supervised ones, so that a model stays right when it is iterated longer than in training
(progressive loss of Bansal et al. 2022, "End-to-end algorithm synthesis with recurrent networks").
Some samples may start from random states, so that the answer depends on the canvas and not on the
way to it (Anil et al. 2022, "Path independent equilibrium models can better exploit test-time
computation").
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trm.models.draws import normal_pair, uniform
from trm.models.iterative import (
    Batch,
    IterativeModel,
    Loop,
    State,
    map_state,
    named,
    unnamed,
    where,
)
from trm.training.configs import DepthConfig
from trm.training.losses import StepLoss

LossFunction = Callable[[Tensor, Tensor, Tensor, Tensor], StepLoss]


@dataclass(frozen=True)
class StepResult:
    """One training step: what to minimise, and the last supervised step's loss for the log."""

    loss: Tensor
    last: StepLoss
    steps: Tensor | float  # supervision steps a sample has had, mean over the batch


def random_starts(state: State, share: float, seeds: Tensor) -> State:
    """A share of the samples' initial states replaced by standard normal noise.

    Which samples these are, and their noise, follows from their ``seeds``, int64 [B].
    """
    chosen, parts = uniform(seeds) < share, named(state)
    names = list(parts)
    for first in range(0, len(names), 2):  # noise comes in pairs
        pair = [(name, math.prod(parts[name].shape[1:])) for name in names[first : first + 2]]
        # Counter 0 decides which samples; every pair has counters of its own.
        most = max(size for _, size in pair)
        counter = torch.arange(1, most + 1, device=seeds.device) + (first << 40)
        drawn = normal_pair(seeds[:, None], counter)
        for (name, size), noise in zip(pair, drawn, strict=False):
            z = parts[name]
            parts[name] = where(chosen, noise[:, :size].reshape(z.shape).to(z.dtype), z)
    return unnamed(state, parts)


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


@dataclass
class Carry:
    """What one training step hands to the next."""

    state: dict[str, Tensor]  # by the names of its tensors, without history; empty at the start
    steps: Tensor  # supervision steps that each sample has had, int64 [B]
    halted: Tensor  # whose place the next batch takes, bool [B]
    batch: Batch  # the samples being worked on

    def to(self, device: torch.device) -> "Carry":
        """The carry on a device; itself if it is there."""
        if self.steps.device == device:
            return self
        parts = (self.state, self.steps, self.halted, self.batch)
        return Carry(*map_state(lambda part: part.to(device), parts))


def initial_carry(batch: Batch) -> Carry:
    """A carry in which every sample has halted, so that the first step takes the whole batch."""
    halted = torch.ones(len(batch["inputs"]), dtype=torch.bool, device=batch["inputs"].device)
    return Carry({}, torch.zeros_like(halted, dtype=torch.long), halted, batch)


def carry_step(
    model: IterativeModel, carry: Carry, batch: Batch, halt_max_steps: int, exploration: float
) -> tuple[Carry, Loop]:
    """One supervision step, in which halted samples are first replaced from ``batch``.

    In training a sample halts when its halt logit is above 0 or after ``halt_max_steps``; with
    probability ``exploration`` not before a number of steps drawn from 2 to the maximum. In
    evaluation every sample takes all steps.

    The batch has "inputs" [B, H, W], "seeds" of each sample's own draws, int64 [B], and whatever
    else belongs to a sample, [B, ...] each.

    Returns:
        The new carry, in whose batch are the labels of the samples, and the loop after its step.
    """
    halted = carry.halted
    current = where(halted, batch, carry.batch)
    loop = Loop(model, current["inputs"])
    if carry.state:
        loop.state = where(halted, loop.state, unnamed(loop.state, carry.state))
    loop.step()

    steps = torch.where(halted, 0, carry.steps) + 1
    halts = steps >= halt_max_steps
    if model.training and halt_max_steps > 1:
        halts |= loop.read()[1].detach() > 0
        draw = uniform(current["seeds"], 2 * steps)
        least = 2 + uniform(current["seeds"], 2 * steps + 1) * (halt_max_steps - 1)
        halts &= (steps >= least.floor()) | (draw >= exploration)
    state = {name: part.detach() for name, part in named(loop.state).items()}
    return Carry(state, steps, halts, current), loop


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
