"""A training step of an iterative model: its recursion depth and its loss.

`fresh_step` starts every batch from initial states. It takes a random number of steps without
gradient and then some supervised ones, so that a model stays correct when it is iterated longer
than in training (progressive loss of Bansal et al. 2022, "End-to-end algorithm synthesis with
recurrent networks"). Some samples may start from random states, so that the answer depends on the
canvas and not on the path to it (Anil et al. 2022, "Path independent equilibrium models can better
exploit test-time computation"). `trm.training.published_step` has the step of the published TRM.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.choices import check_choices, one_of
from canvas.sequences import IGNORE
from trm.models.iterative import Batch, IterativeModel, Loop
from trm.runtime.limits import MOST_STEPS
from trm.training.auxiliary import AuxiliaryHeads
from trm.training.configs import Stages, check_range
from trm.training.random_bits import random_starts

SCHEDULES = ("carry", "fresh")
Metrics = dict[str, Tensor]  # of a training step, by name; with ``loss``


@dataclass
class DepthStage:
    """Fewer cycles or steps for the first epochs of a run: a stage of a depth curriculum.

    A network first learns with few cycles, in a fraction of the time, and later with its own number
    (after "Accelerating Training Speed of Tiny Recursive Models", arXiv 2511.08653, which adds
    cycles on a schedule). For settings that are null the network's or those of ``depth`` hold.

    Attributes:
        until: epochs of the run after which the stage is over; below 1: a share of
            `trainer.max_epochs`, so that a run may get another length.
        H_cycles, L_cycles: of the network until then.
        no_grad_steps, supervised_steps: of `DepthConfig` until then.
    """

    until: int | float
    H_cycles: int | None = None
    L_cycles: int | None = None
    no_grad_steps: tuple[int, int] | None = None
    supervised_steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("H_cycles", "L_cycles", "supervised_steps"):
            if (value := getattr(self, name)) is not None:
                check_range(f"depth.stages: {name}", value, 1, MOST_STEPS)


@dataclass
class DepthConfig:
    """Recursion depth in training.

    Attributes:
        schedule: `carry` keeps states from step to step, `fresh` starts every batch from initial
            states.
        halt_max_steps: `carry`: highest number of supervision steps for a sample.
        exploration: `carry`: probability that a sample must take a random number of steps.
        no_grad_steps: `fresh`: fewest and most steps without gradient.
        supervised_steps: `fresh`: steps with a loss after them; the losses are averaged.
        random_start: `fresh`: share of samples that start from random states.
        stages: fewer cycles for the first epochs, in order of their ends, see `DepthStage`.
            Validation and solving always take the network's own number.
    """

    schedule: str = one_of("fresh", SCHEDULES)
    halt_max_steps: int = 16
    exploration: float = 0.1
    no_grad_steps: tuple[int, int] = (0, 5)
    supervised_steps: int = 2
    random_start: float = 0.0
    stages: list[DepthStage] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_choices(self, "depth.")
        # A stage's own ranges are checked as those of the whole.
        stages = [(stage.until, self._of(stage)) for stage in self.stages]
        self._by_epoch = Stages("depth.stages", stages, (self, {}))
        if not 0 <= self.no_grad_steps[0] <= self.no_grad_steps[1] <= MOST_STEPS:
            raise ValueError(
                f"depth.no_grad_steps is [fewest, most] from 0 to {MOST_STEPS:,}, not "
                f"{list(self.no_grad_steps)}"
            )
        for name in ("supervised_steps", "halt_max_steps"):
            check_range(f"depth.{name}", getattr(self, name), 1, MOST_STEPS)
        for name in ("exploration", "random_start"):
            check_range(f"depth.{name}", getattr(self, name), 0, 1)

    @property
    def usual_steps(self) -> tuple[int, int]:
        """Steps without gradient, the middle number of them, and supervised ones.

        Of the schedule `carry` these are none, and the most.
        """
        if self.schedule == "carry":
            return 0, self.halt_max_steps
        return sum(self.no_grad_steps) // 2, self.supervised_steps

    def at(self, epoch: float, epochs: int | None = None) -> tuple["DepthConfig", dict[str, int]]:
        """Return the depth in an epoch, see `Stages.at`.

        Returns:
            The config with the numbers of steps of the epoch, and the settings of the network that
            differ in it, such as ``H_cycles``.
        """
        return self._by_epoch.at(epoch, epochs)

    def _of(self, stage: DepthStage) -> tuple["DepthConfig", dict[str, int]]:
        """Return the depth in the epochs of a stage, see `at`."""
        own = {name: value for name, value in vars(stage).items() if value is not None}
        steps = {name: value for name, value in own.items() if name.endswith("_steps")}
        cycles = {name: value for name, value in own.items() if name.endswith("_cycles")}
        return replace(self, stages=[], **steps), cycles


def fresh_step(
    model: IterativeModel,
    batch: Batch,
    no_grad_steps: int,
    supervised_steps: int,
    random_start: float = 0.0,
    loss: str = "softmax",
    heads: AuxiliaryHeads | None = None,
) -> Metrics:
    """Start from initial states, take some steps without gradient, then the supervised ones.

    Args:
        model: an iterative model.
        batch: ``inputs`` and ``labels``, integers [B, H, W]; ``answer``, bool [B, H, W]; ``seeds``,
            int64 [B], of random initial states; ``auxiliary``, uint8 [B, H, W, N], labels of the
            auxiliary heads, until their losses end; ``correct``, bool [B], see `step_loss`.
        no_grad_steps: number of steps without gradient.
        supervised_steps: number of steps with a loss after them.
        random_start: share of samples that start from random states.
        loss: of cells, a name in `LOSSES`.
        heads: auxiliary heads, which learn sub-tasks; None: no auxiliary losses.

    Returns:
        The metrics of the last step, see `step_loss`, with the mean loss of all supervised steps.
    """
    loop = Loop(model, batch["inputs"])
    if random_start:
        loop.state = random_starts(loop.state, random_start, batch["seeds"])
    loop.advance(no_grad_steps)
    steps = []
    for _ in range(supervised_steps):
        loop.step()
        steps.append(supervise(loop, loop.read(), batch, loss, heads))
    return steps[-1] | {"loss": torch.stack([step["loss"] for step in steps]).mean()}


def supervise(
    loop: Loop,
    outputs: tuple[Tensor, Tensor],
    batch: Batch,
    loss: str = "softmax",
    heads: AuxiliaryHeads | None = None,
) -> Metrics:
    """Return `step_loss` of a loop's ``outputs``, with the auxiliary losses of its state."""
    correct = batch.get("correct")
    metrics = step_loss(*outputs, batch["labels"], batch["answer"], loss, correct)
    if heads is None:
        return metrics
    model: Any = loop.model  # with `cell_states`, see `IterativeModel`
    states = model.cell_states(loop.state, loop.context)
    more = heads(states, batch.get("auxiliary"), correct)
    return metrics | more | {"loss": metrics["loss"] + more["loss"]}


def step_loss(
    logits: Tensor,
    halt_logits: Tensor,
    labels: Tensor,
    answer: Tensor,
    loss: str = "softmax",
    correct: Tensor | None = None,
) -> Metrics:
    """Compute loss and metrics of one supervision step of a canvas model.

    Losses are averaged over a sample's answer cells, then over samples (the reference TRM sums), so
    that a wide canvas counts no more than a narrow one. The halting head learns, at half the
    weight, whether all answer cells of a sample are correct. A sample without answer cells counts
    as correct. A sample whose canvas is not ``correct`` has no loss of cells, and its row is never
    correct for the head.

    Args:
        logits: float [B, H, W, V].
        halt_logits: float [B], above 0 where the model predicts that its row is correct.
        labels: symbol ids, uint8 or int64 [B, H, W]; `IGNORE` at most outside the answer.
        answer: cells that are learned and scored, bool [B, H, W].
        loss: a name in `LOSSES`.
        correct: whether the canvas of a sample is upright and correct, bool [B], see
            `trm.training.negatives.NegativesConfig`; None: all are.

    Returns:
        A dictionary by the names of curves:

        - ``loss``: ``loss_cells + loss_halting / 2``, these three with gradient.
        - ``cell_accuracy``: share of correct answer cells.
        - ``row_accuracy``: share of samples whose answer cells are all correct.
        - ``halting_accuracy``: share of samples whose halting prediction is correct.
        - ``negatives_rejected``: share of the canvases that are not ``correct`` of which the head
          predicts an incorrect row; the accuracies are then of correct canvases alone.

        All are float32 [].
    """
    B, H, W, V = logits.shape
    positive = torch.ones_like(halt_logits, dtype=torch.bool) if correct is None else correct
    positives = B if correct is None else correct.sum().clamp(min=1)
    labels, counted = labels.reshape(B * H * W), answer.reshape(B, H * W) & positive[:, None]
    weights = counted.float()
    # A sample without a counted cell has weight 0 everywhere; the clamp only avoids 0 / 0.
    weights = weights / weights.sum(1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)

    cell_logits = logits.reshape(B * H * W, V)
    kept: Tensor | slice = slice(None)
    if logits.device.type == "cpu":
        # An answer is one row of many, so selecting its cells is three times quicker. On a GPU all
        # cells cost nothing, whereas counting the selected ones would wait for the device.
        kept = counted.flatten().nonzero().squeeze(1)
        # The gradient of index_select is far cheaper than that of cell_logits[kept].
        cell_logits = cell_logits.index_select(0, kept)
    targets = labels[kept].long()
    losses = LOSSES[loss](cell_logits.float(), targets)
    loss_cells = ((losses * weights.flatten()[kept]).sum() / positives).float()

    with torch.no_grad():
        wrong = torch.zeros(B * H * W, dtype=torch.bool, device=logits.device)
        wrong[kept] = cell_logits.float().argmax(-1) != targets
        wrong = wrong.view(B, H * W) & counted
        row_exact = positive & ~wrong.any(1)
        cell_accuracy = 1 - wrong.sum() / counted.sum().clamp(min=1)
        predicted = (halt_logits > 0) == row_exact
    halt = F.binary_cross_entropy_with_logits(halt_logits.float(), row_exact.float())
    metrics = {
        "loss": loss_cells + 0.5 * halt,
        "loss_cells": loss_cells,
        "loss_halting": halt,
        "cell_accuracy": cell_accuracy,
        "row_accuracy": row_exact.sum() / positives,
        "halting_accuracy": (predicted & positive).sum() / positives,
    }
    if correct is not None:
        negatives = (~correct).sum().clamp(min=1)
        metrics["negatives_rejected"] = (predicted & ~correct).sum() / negatives
    return metrics


def stablemax_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy under the stablemax, one loss per token, in nats.

    The stablemax is ``s(x) / sum(s(x))`` with ``s(x) = x + 1`` for ``x >= 0`` and ``1 / (1 - x)``
    below. It has no exponential, so large logits are not absorbed by rounding (Prieto et al. 2025,
    "Grokking at the Edge of Numerical Stability"). It is computed in float64, as in the reference
    TRM; Apple's MPS has no float64.

    Args:
        logits: float [..., V].
        labels: integers [...]; `canvas.sequences.IGNORE` has loss 0.

    Returns:
        The loss of each token, float64 [...].
    """
    exact = logits.double()
    # The clamp keeps 1 - x away from 0 where the branch is not taken: no infinite gradient there.
    s = torch.where(exact < 0, 1 / (1 - exact.clamp(max=0)), exact + 1)
    ignored = labels == IGNORE
    chosen = s.gather(-1, labels.long().masked_fill(ignored, 0).unsqueeze(-1)).squeeze(-1)
    return (s.sum(-1).log() - chosen.log()).masked_fill(ignored, 0.0)


LOSSES: dict[str, Callable[..., Tensor]] = {
    "softmax": partial(F.cross_entropy, reduction="none", ignore_index=IGNORE),
    "stablemax": stablemax_cross_entropy,
}
