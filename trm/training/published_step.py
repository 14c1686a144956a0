"""The training step of the published TRM: states are carried over from batch to batch.

One supervision step is taken in each training step, and samples are replaced as they halt
(Jolicoeur-Martineau 2025, "Less is more: recursive reasoning with tiny networks"; after the ACT
wrapper of SamsungSAILMontreal/TinyRecursiveModels).
"""

from typing import NamedTuple

import torch
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor

from canvas.drawing import UNDEFINED
from trm.models.iterative import Batch, IterativeModel, Loop
from trm.models.states import named, unnamed, where_samples
from trm.training.auxiliary import AuxiliaryHeads
from trm.training.random_bits import uniform
from trm.training.step import DepthConfig, Metrics, supervise


class Carry(NamedTuple):
    """State passed from one training step to the next."""

    state: dict[str, Tensor]  # tensors by name, detached; empty at the start
    steps: Tensor  # supervision steps of each sample so far, int64 [B]
    halted: Tensor  # samples that the next batch replaces, bool [B]
    batch: Batch  # the current samples


def carried_step(
    model: IterativeModel,
    batch: Batch,
    carry: Carry | None,
    depth: DepthConfig,
    loss: str = "softmax",
    heads: AuxiliaryHeads | None = None,
) -> tuple[Metrics, Carry]:
    """Take one supervision step on the samples in the carry; the batch replaces halted ones.

    A sample halts when its halt logit is above 0, or after ``halt_max_steps``. At each step, with
    probability ``exploration``, a number from 2 to the maximum is resampled, and it may halt only
    after so many steps.

    Args:
        model: an iterative model.
        batch: see `fresh_step`; may contain more tensors [B, ...].
        carry: on any device; None: at the start all samples come from the batch.
        depth: ``halt_max_steps`` and ``exploration``.
        loss: see `fresh_step`.
        heads: see `fresh_step`.

    Returns:
        The metrics, see `step_loss`, and the new carry with the samples of this step.
    """
    inputs = batch["inputs"]
    if carry is None:
        halted = torch.ones(len(inputs), dtype=torch.bool, device=inputs.device)
        carry = Carry({}, torch.zeros_like(halted, dtype=torch.long), halted, batch)
    # A carry from a checkpoint is loaded before the model is on its device.
    carry = Carry(*move_data_to_device(carry, inputs.device))
    halted = carry.halted
    batch, held = _with_same_parts(batch, carry.batch)
    batch = {name: where_samples(halted, part, held[name]) for name, part in batch.items()}
    loop = Loop(model, batch["inputs"])
    if carry.state:
        loop.state = where_samples(halted, loop.state, unnamed(loop.state, carry.state))
    loop.step()
    logits, halt_logits = loop.read()

    steps, most = torch.where(halted, 0, carry.steps) + 1, depth.halt_max_steps
    halts = steps >= most
    if most > 1:
        chance = uniform(batch["seeds"], 2 * steps)
        least = 2 + uniform(batch["seeds"], 2 * steps + 1) * (most - 1)
        confident = halt_logits.detach() > 0
        halts |= confident & ((steps >= least.floor()) | (chance >= depth.exploration))
    state = {name: part.detach() for name, part in named(loop.state).items()}
    metrics = supervise(loop, (logits, halt_logits), batch, loss, heads)
    return metrics, Carry(state, steps, halts, batch)


def _with_same_parts(batch: Batch, held: Batch) -> tuple[Batch, Batch]:
    """Return a batch and the samples of a carry with what either lacks.

    A carry from a checkpoint may lack what was added to the config since, or have what is left out
    now: auxiliary classes are undefined there, and canvases are correct.
    """
    if "auxiliary" in batch:
        held = {"auxiliary": torch.full_like(batch["auxiliary"], UNDEFINED), **held}
    if "correct" in batch or "correct" in held:
        every = {"correct": torch.ones_like(batch["seeds"], dtype=torch.bool)}
        batch, held = every | batch, every | held
    return batch, held
