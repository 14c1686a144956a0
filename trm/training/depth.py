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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trm.models.draws import random_starts
from trm.models.halting import Carry, carry_step, initial_carry
from trm.models.iterative import Batch, IterativeModel, Loop
from trm.training.configs import DepthConfig
from trm.training.losses import StepLoss, hint_loss
from trm.training.samples import hint_key

LossFunction = Callable[[Tensor, Tensor, Tensor, Tensor], StepLoss]


@dataclass(frozen=True)
class StepResult:
    """One training step: what to minimise, and the last supervised step's loss for the log."""

    loss: Tensor
    last: StepLoss
    steps: Tensor | float  # supervision steps a sample has had, mean over the batch
    hints: Mapping[str, Tensor]  # of the last step: the share of right cells of each hint


def fresh_step(
    model: IterativeModel,
    batch: Batch,
    depth: DepthConfig,
    loss: LossFunction,
    seed: int,
    hints: Mapping[str, float] | None = None,
) -> StepResult:
    """Start anew, take some free steps and then the supervised ones.

    Args:
        model: in training mode.
        batch: ``inputs``, ``labels`` [B, H, W] integers, ``answer`` [B, H, W] bool and ``seeds``
            int64 [B], from which follows which samples start from random states, and from which.
        depth: how many steps.
        loss: of (logits, halt_logits, labels, answer).
        seed: the number of free steps follows from it; of the batch, on every device the same.
        hints: the weight of each that is learned, whose classes [B, H, W] the batch has.
    """
    draw = random.Random(seed)
    free = draw.randint(*depth.no_grad_steps)
    buckets = _Buckets(model, batch, depth.length_buckets)
    if draw.random() < depth.hint_forcing:
        for loop, own in buckets.parts:
            classes = {name: own[hint_key(name)] for name in hints or {}}
            loop.state = model.step_from_hints(loop.context, classes)
        return _result(buckets, batch, loss, hints, 1.0)
    for loop, own in buckets.parts:
        if depth.random_start:
            loop.state = random_starts(loop.state, depth.random_start, own["seeds"])
        loop.advance(free)
    results = []
    for _ in range(depth.supervised_steps):
        for loop, _ in buckets.parts:
            loop.step()
        result = _result(buckets, batch, loss, hints, float(free + depth.supervised_steps))
        if depth.hint_forcing:
            # What cannot be known yet would be far louder than what is still to be learned.
            result = replace(result, loss=result.last.total - result.last.lm)
        results.append(result)
    return replace(results[-1], loss=torch.stack([one.loss for one in results]).mean())


class _Buckets:
    """A batch at work in parts of samples of about the same length, read as the whole batch.

    Attributes:
        parts: a loop on each part, and its samples.

    Args:
        model: that works on them.
        batch: as for `fresh_step`.
        number: of parts; 1, or a model that does not count its tokens: the batch as it is.
    """

    def __init__(self, model: IterativeModel, batch: Batch, number: int) -> None:
        lengths = model.count_tokens(batch["inputs"]) if number > 1 else None
        self._back, batches = None, [batch]
        if lengths is not None:
            order = lengths.argsort(stable=True)
            self._back = order.argsort()
            some = order.tensor_split(min(number, len(order)))
            batches = [{name: part[index] for name, part in batch.items()} for index in some]
        self.parts = [(Loop(model, own["inputs"]), own) for own in batches]

    def read(self) -> tuple[Tensor, Tensor]:
        """See `Loop`."""
        logits, halt_logits = zip(*(loop.read() for loop, _ in self.parts), strict=True)
        return self._whole(logits), self._whole(halt_logits)

    def read_hints(self) -> dict[str, Tensor]:
        """See `Loop`."""
        found = [loop.read_hints() for loop, _ in self.parts]
        return {name: self._whole([one[name] for one in found]) for name in found[0]}

    def _whole(self, parts: Sequence[Tensor]) -> Tensor:
        """In the order of the batch."""
        if self._back is None:
            return parts[0]
        return torch.cat(list(parts)).index_select(0, self._back)


def carried_step(
    model: IterativeModel,
    batch: Batch,
    carry: Carry | None,
    depth: DepthConfig,
    loss: LossFunction,
    hints: Mapping[str, float] | None = None,
) -> tuple[StepResult, Carry]:
    """One supervision step on the samples in the carry, halted ones replaced from the batch.

    Args:
        model: in training mode.
        batch: as for `fresh_step`; a sample's exploration follows from its seed.
        carry: of the step before, on any device; None at the start.
        depth: when samples halt.
        loss, hints: as for `fresh_step`.
    """
    # One from a checkpoint comes before the model is where it trains.
    carry = initial_carry(batch) if carry is None else carry.to(batch["inputs"].device)
    carry, loop = carry_step(model, carry, batch, depth.halt_max_steps, depth.exploration)
    # A number would wait for the device at every step; the log asks for it now and then.
    return _result(loop, carry.batch, loss, hints, carry.steps.float().mean()), carry


def _result(
    loop: Loop | _Buckets,
    batch: Batch,
    loss: LossFunction,
    hints: Mapping[str, float] | None,
    steps: Tensor | float,
) -> StepResult:
    """The loss of a step that has just been taken."""
    step = loss(*loop.read(), batch["labels"], batch["answer"])
    if not hints:
        return StepResult(step.total, step, steps, {})
    classes = {name: batch[hint_key(name)] for name in hints}
    auxiliary, accuracy = hint_loss(loop.read_hints(), classes, hints)
    return StepResult(step.total + auxiliary, step, steps, accuracy)
