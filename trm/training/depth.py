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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from canvas.choices import check_choices, one_of
from trm.models.draws import random_starts, uniform
from trm.models.halting import Carry, carry_step, initial_carry
from trm.models.hints import UNDECIDED
from trm.models.iterative import Batch, IterativeModel, Loop
from trm.training.losses import StepLoss, hint_loss
from trm.training.samples import hint_key

SCHEDULES = ("carry", "fresh")

LossFunction = Callable[[Tensor, Tensor, Tensor, Tensor], StepLoss]


@dataclass
class DepthConfig:
    """How deep recursion is trained.

    Attributes:
        schedule: `carry` takes states over from step to step, `fresh` starts every batch anew.
        halt_max_steps: `carry`: supervision steps a sample gets at most.
        exploration: `carry`: probability that a sample must take a random number of steps.
        free_steps: `fresh`: fewest and most steps without gradient.
        supervised_steps: `fresh`: steps with a loss after them; the losses are averaged.
        random_start: `fresh`: share of samples that start from random states.
        teacher_forcing: `fresh`: share of batches with one supervised step alone, from states in
            which every hint is as it should be; for models whose states are built from hints. The
            other batches then teach the halting head alone how far a row has come.
        hint_dropout: share of these hints that are left out, so that no hint is relied on which is
            only by chance a sign of what is to be found (Hinton et al. 2012, of inputs).
    """

    schedule: str = one_of("fresh", SCHEDULES)
    halt_max_steps: int = 16
    exploration: float = 0.1
    free_steps: tuple[int, int] = (0, 5)
    supervised_steps: int = 2
    random_start: float = 0.0
    teacher_forcing: float = 0.0
    hint_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_choices(self, "depth.")
        low, high = self.free_steps
        if not 0 <= low <= high:
            raise ValueError(f"depth.free_steps is [fewest, most] from 0 up, not {[low, high]}")
        if self.supervised_steps < 1 or self.halt_max_steps < 1:
            raise ValueError("at least one step has to be supervised")
        for name in ("exploration", "random_start", "teacher_forcing", "hint_dropout"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"depth.{name} is a probability, not {getattr(self, name)}")

    @property
    def most_steps(self) -> int:
        """Supervision steps that a sample gets at most."""
        if self.schedule == "carry":
            return self.halt_max_steps
        return self.free_steps[1] + self.supervised_steps


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
    free = draw.randint(*depth.free_steps)
    loop = Loop(model, batch["inputs"])
    if draw.random() < depth.teacher_forcing:
        classes = {name: batch[hint_key(name)] for name in hints or {}}
        if depth.hint_dropout:
            classes = _dropped(classes, depth.hint_dropout, batch["seeds"])
        loop.state = model.taught(loop.context, classes)
        return _result(loop, batch, loss, hints, 1.0)
    if depth.random_start:
        loop.state = random_starts(loop.state, depth.random_start, batch["seeds"])
    loop.advance(free)
    results = []
    for _ in range(depth.supervised_steps):
        loop.step()
        result = _result(loop, batch, loss, hints, float(free + depth.supervised_steps))
        if depth.teacher_forcing:
            # What cannot be known yet would be far louder than what is still to be learned.
            result = replace(result, loss=result.last.total - result.last.lm)
        results.append(result)
    return replace(results[-1], loss=torch.stack([one.loss for one in results]).mean())


def _dropped(classes: Mapping[str, Tensor], share: float, seeds: Tensor) -> dict[str, Tensor]:
    """Classes [B, H, W] of hints, of which a share is undecided."""
    found = {}
    for number, (name, of_cells) in enumerate(classes.items()):
        cell = torch.arange(of_cells[0].numel(), device=seeds.device) + (number << 32)
        left_out = uniform(seeds[:, None], cell).view_as(of_cells) < share
        found[name] = of_cells.masked_fill(left_out, UNDECIDED)
    return found


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
    loop: Loop,
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
