"""Training with a carry: each sample takes its own number of supervision steps (ACT).

A batch lives on from one training step to the next; a sample that has halted gives its place to a
new one. After the ACT wrapper of SamsungSAILMontreal/TinyRecursiveModels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trm.models.draws import uniform
from trm.models.recursive import State, TinyRecursiveModel

Batch = dict[str, Tensor]


@dataclass
class Carry:
    """What one training step hands to the next.

    Attributes:
        state: the states, without history.
        steps: supervision steps that each sample has had, int64 [B].
        halted: whose place the next batch takes, bool [B].
        batch: the samples being worked on.
    """

    state: State
    steps: Tensor
    halted: Tensor
    batch: Batch

    def plain(self) -> dict[str, Tensor]:
        """All of it by name, on the CPU, for a checkpoint."""
        parts = {"z_H": self.state.z_H, "z_L": self.state.z_L, "steps": self.steps}
        parts |= {"halted": self.halted, **{f"batch.{k}": v for k, v in self.batch.items()}}
        return {name: part.cpu() for name, part in parts.items()}

    @staticmethod
    def from_plain(parts: dict[str, Tensor]) -> "Carry":
        """What `plain` gave."""
        batch = {k.removeprefix("batch."): v for k, v in parts.items() if k.startswith("batch.")}
        state = State(parts["z_H"], parts["z_L"])
        return Carry(state, parts["steps"], parts["halted"], batch)

    def to(self, device: torch.device) -> "Carry":
        """The carry on a device; itself if it is there."""
        if self.steps.device == device:
            return self
        return Carry(
            State(self.state.z_H.to(device), self.state.z_L.to(device)),
            self.steps.to(device),
            self.halted.to(device),
            {name: part.to(device) for name, part in self.batch.items()},
        )


def initial_carry(model: TinyRecursiveModel, batch: Batch) -> Carry:
    """A carry in which every sample has halted, so that the first step takes the whole batch."""
    inputs = batch["inputs"]
    samples, height, width = inputs.shape
    length = model.config.prefix_length + height * width
    blank = torch.zeros(samples, length, model.config.hidden_size, device=inputs.device)
    return Carry(
        State(blank, blank),
        torch.zeros(samples, dtype=torch.long, device=inputs.device),
        torch.ones(samples, dtype=torch.bool, device=inputs.device),
        batch,
    )


def carry_step(
    model: TinyRecursiveModel,
    carry: Carry,
    batch: Batch,
    halt_max_steps: int,
    exploration: float,
) -> tuple[Carry, Tensor, Tensor]:
    """One supervision step, in which halted samples are first replaced from ``batch``.

    In training a sample halts when its halt logit is above 0 or after ``halt_max_steps``; with
    probability ``exploration`` not before a number of steps drawn from 2 to the maximum. In
    evaluation every sample takes all steps.

    Args:
        model: in training or evaluation mode.
        carry: of the step before.
        batch: "inputs" [B, H, W], "seeds" of each sample's own draws, int64 [B], "prefix_ids" [B]
            if the model has prefixes, and whatever else belongs to a sample, [B, ...] each.
        halt_max_steps: most supervision steps of a sample.
        exploration: probability in 0..1.

    Returns:
        The new carry (the labels that belong to the logits are in its batch), logits
        [B, H, W, V] and halt logits [B].

    Raises:
        ValueError: the batch does not have the carry's tensors and shapes, or a setting is out
            of range.
    """
    if halt_max_steps < 1 or not 0 <= exploration <= 1:
        raise ValueError(
            "halt_max_steps must be 1 or more and exploration in 0..1, "
            f"got {halt_max_steps} and {exploration}."
        )
    _check_same_shapes(carry.batch, batch)
    halted = carry.halted
    current = {
        name: torch.where(halted.view(-1, *[1] * (new.ndim - 1)), new, carry.batch[name])
        for name, new in batch.items()
    }
    context = model.encode(current["inputs"], current.get("prefix_ids"))
    fresh = model.initial_state(context)
    restart = halted.view(-1, 1, 1)
    state = State(
        torch.where(restart, fresh.z_H, carry.state.z_H.to(fresh.z_H.dtype)),
        torch.where(restart, fresh.z_L, carry.state.z_L.to(fresh.z_L.dtype)),
    )
    state = model.iterate(context, state)
    logits, halt_logits = model.read(state, context)

    steps = torch.where(halted, 0, carry.steps) + 1
    halts = steps >= halt_max_steps
    if model.training and halt_max_steps > 1:
        halts |= halt_logits.detach() > 0
        draw = uniform(current["seeds"], 2 * steps)
        least = 2 + uniform(current["seeds"], 2 * steps + 1) * (halt_max_steps - 1)
        halts &= (steps >= least.floor()) | (draw >= exploration)
    return Carry(state.detach(), steps, halts, current), logits, halt_logits


def _check_same_shapes(carried: Batch, batch: Batch) -> None:
    have = {name: list(value.shape) for name, value in carried.items()}
    got = {name: list(value.shape) for name, value in batch.items()}
    if have != got:
        raise ValueError(
            f"a carry goes on with batches of one shape: it holds {have}, the batch has {got}. "
            "Drop the last incomplete batch, or start a new carry with initial_carry."
        )
