"""Training with a carry: each sample takes its own number of supervision steps (ACT).

A batch lives on from one training step to the next; a sample that has halted gives its place to a
new one. After the ACT wrapper of SamsungSAILMontreal/TinyRecursiveModels.

Where not all cells are tokens, samples differ in how many they have, and a batch is as long as the
longest of them: when that one halts or comes in, states are cut or padded at the end. A sample's
own tokens stand in front, so that it goes on as it would beside any others.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trm.models.draws import uniform
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


@dataclass
class Carry:
    """What one training step hands to the next."""

    state: dict[str, Tensor]  # by the names of its tensors, without history; empty at the start
    steps: Tensor  # supervision steps that each sample has had, int64 [B]
    halted: Tensor  # whose place the next batch takes, bool [B]
    batch: Batch  # the samples being worked on

    def plain(self) -> dict[str, Tensor]:
        """All of it by name, on the CPU, for a checkpoint."""
        parts = {"steps": self.steps, "halted": self.halted}
        for group in ("state", "batch"):
            parts |= {f"{group}.{name}": part for name, part in getattr(self, group).items()}
        return {name: part.cpu() for name, part in parts.items()}

    @staticmethod
    def from_plain(parts: dict[str, Tensor]) -> "Carry":
        """What `plain` gave."""
        state, batch = (
            {k.removeprefix(group): v for k, v in parts.items() if k.startswith(group)}
            for group in ("state.", "batch.")
        )
        return Carry(state, parts["steps"], parts["halted"], batch)

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

    Raises:
        ValueError: the batch does not have the carry's tensors and shapes, or the carried state
            does not fit the samples.
    """
    have, got = _shapes(carry.batch), _shapes(batch)
    if have != got:
        raise ValueError(
            f"a carry goes on with batches of one shape: it holds {have}, the batch has {got}. "
            "Drop the last incomplete batch, or start a new carry with initial_carry."
        )
    halted = carry.halted
    current = where(halted, batch, carry.batch)
    loop = Loop(model, current["inputs"])
    if carry.state:
        carried = unnamed(loop.state, carry.state)
        loop.state = where(halted, loop.state, _as_long_as(loop, carried))
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


def _shapes(parts: Batch) -> dict[str, list[int]]:
    return {name: list(part.shape) for name, part in parts.items()}


def _as_long_as(loop: Loop, carried: State) -> State:
    """A carried state with as many tokens as the samples of a loop now have.

    What is cut off is padding of all that go on, and what is added no token sees.
    """
    have, need = _shapes(named(carried)), _shapes(named(loop.state))
    if have == need:
        return carried
    if loop.lengths is None:
        raise ValueError(
            f"the carried state has tensors of {have}, and that of the samples now at work {need}: "
            "a model whose states differ in size is carried over if its method `lengths` tells how "
            "many tokens a sample has."
        )

    def fitted(part: Tensor, like: Tensor) -> Tensor:
        missing = like.shape[1] - part.shape[1]  # below 0 it is cut
        return F.pad(part, (*[0, 0] * (part.ndim - 2), 0, missing))

    return map_state(fitted, carried, loop.state)
