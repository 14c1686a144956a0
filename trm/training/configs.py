"""Training settings in a config file; invalid values raise a ValueError."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from canvas.choices import check_choices, one_of
from trm.runtime.limits import MOST_STEPS

OPTIMIZERS = ("adamw", "adam_atan2", "muon")
DECAYS = ("constant", "cosine", "linear")
SCHEDULES = ("carry", "fresh")
T = TypeVar("T")


def check_range(name: str, value: float | None, low: float, high: float = math.inf) -> None:
    """Raise a ValueError unless a setting is a finite number from ``low`` to ``high``."""
    if value is None or not (low <= value <= high and math.isfinite(value)):
        among = f"{low} or more" if high == math.inf else f"from {low:,} to {high:,}"
        raise ValueError(f"{name} is {among}, not {value}")


class Stages(Generic[T]):
    """A setting that changes from stage to stage of a run.

    Example: ``Stages("depth.stages", [(0.25, "a"), (0.5, "b")], "c")`` is "a" in the epochs 0 to 2
    of ten, "b" in 3 and 4, and "c" from 5 on.

    Args:
        name: of the setting, for messages.
        stages: the `until` of each, in epochs, or for all a share of the run below 1; its value.
        after: value after the last stage.

    Raises:
        ValueError: the ends are not positive, do not increase, or mix epochs and shares.
    """

    def __init__(self, name: str, stages: Sequence[tuple[float, T]], after: T) -> None:
        self.stages, self.after = stages, after
        ends = [end for end, _ in stages]
        shares = [end for end in ends if end < 1]
        if not all(end > 0 and (end < 1 or end % 1 == 0) for end in ends):
            raise ValueError(
                f"{name}: until is a number of epochs, or a share of the run between 0 and 1, not "
                f"{', '.join(map(str, ends))}"
            )
        if shares and len(shares) < len(ends):
            raise ValueError(
                f"{name}: until is in epochs for all stages, or for all a share of the run below "
                f"1, not {', '.join(map(str, ends))}"
            )
        if list(ends) != sorted(set(ends)):
            raise ValueError(
                f"{name} are listed in order, each with a later `until` than the one before, not "
                f"{', '.join(map(str, ends))}"
            )

    def at(self, epoch: float, epochs: int | None = None) -> T:
        """Return the value in an epoch.

        Args:
            epoch: from 0.
            epochs: of the whole run; None or -1: unknown.

        Raises:
            ValueError: the ends are shares of a run of unknown length.
        """
        if any(end < 1 for end, _ in self.stages) and (epochs is None or epochs < 0):
            raise ValueError(
                "an `until` below 1 is a share of the run's epochs, which are not known: set "
                "trainer.max_epochs, or give `until` in epochs"
            )
        for end, value in self.stages:
            if epoch < (end * (epochs or 0) if end < 1 else end):
                return value
        return self.after


@dataclass
class OptimizerConfig:
    """Optimiser and its settings."""

    name: str = one_of("adamw", OPTIMIZERS)  # muon: on the hidden matrices, AdamW on the rest
    lr: float = 1e-3  # learning rate; under "muon", of everything but the hidden matrices
    betas: tuple[float, float] = (0.9, 0.95)  # decay of Adam's two running means, per step
    weight_decay: float = 0.1  # decoupled, per step and unit of lr; weights of linear layers only
    matrix_lr: float = 0.02  # Muon: learning rate of the hidden matrices
    matrix_weight_decay: float = 0.01  # Muon: decoupled, per step and unit of matrix_lr

    def __post_init__(self) -> None:
        check_choices(self, "optimizer.")
        for name in ("lr", "matrix_lr", "weight_decay", "matrix_weight_decay"):
            check_range(f"optimizer.{name}", getattr(self, name), 0)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"optimizer.betas are from 0 to below 1, not {self.betas}")


@dataclass
class ScheduleConfig:
    """Schedule of the learning rate over a run, as a factor on every group's own rate."""

    warmup_steps: int = 0  # optimiser steps of linear increase; the first step is never 0
    decay: str = one_of("constant", DECAYS)  # after warmup, to the end of the run
    min_ratio: float = 0.0  # the factor at the end of the run, unless constant

    def __post_init__(self) -> None:
        check_choices(self, "schedule.")
        check_range("schedule.warmup_steps", self.warmup_steps, 0)
        check_range("schedule.min_ratio", self.min_ratio, 0, 1)


@dataclass
class AuxiliaryConfig:
    """Auxiliary losses: sub-tasks that extra heads learn, see `canvas.cells.subtasks`.

    Attributes:
        weights: weight of each sub-task's loss, by name; a weight of 0 leaves a sub-task out.
        until: epochs of the run after which all weights are 0; below 1: a share of
            `trainer.max_epochs`; None: never.
    """

    weights: dict[str, float] = field(default_factory=dict)
    until: int | float | None = None

    def __post_init__(self) -> None:
        for name, weight in self.weights.items():
            check_range(f"model.auxiliary.{name}", weight, 0)
        self.weights = {name: weight for name, weight in self.weights.items() if weight}
        names = tuple(self.weights)
        ends = [] if self.until is None else [(self.until, names)]
        self._names = Stages("model.auxiliary_until", ends, () if ends else names)

    def at(self, epoch: float, epochs: int | None = None) -> tuple[str, ...]:
        """Return the sub-tasks with a loss in an epoch, see `Stages.at`."""
        return self._names.at(epoch, epochs) if self.weights else ()


@dataclass
class NegativesConfig:
    """Shares of the training samples that teach the confidence alone.

    Their cells have no loss, and the halting head learns that the row is incorrect. All other
    samples are upright, and the head learns of these whether the predicted row is correct. So the
    confidence is that of "this canvas is upright, its rows are correct, and so is this one".
    Where chance leaves a sample correct, as the identity leaves a canvas, it is learned as others.

    Attributes:
        turned: masked first, then turned by `data.transforms`.
        guessed: turned by them first, then masked in the row in which an upright canvas has it: an
            incorrect guess of the orientation.
        digit: a digit in the rows above is another one.
        other: the rows above are those of a problem that differs in one digit.
        own: the row above is the model's own, which may be correct.
    """

    turned: float = 0.0
    guessed: float = 0.0
    digit: float = 0.0
    other: float = 0.0
    own: float = 0.0

    def __post_init__(self) -> None:
        for name, share in vars(self).items():
            check_range(f"data.negatives.{name}", share, 0, 1)
        if (total := sum(vars(self).values())) > 1:
            raise ValueError(f"data.negatives: the shares are at most 1 in all, not {total:g}")

    @property
    def turns(self) -> bool:
        """True if some samples are turned, or incorrect guesses of the orientation."""
        return self.turned + self.guessed > 0


@dataclass
class CycleStage:
    """Fewer cycles for the first epochs of a run: a step of a depth curriculum.

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


class EpochDepth(NamedTuple):
    """Recursion depth in an epoch."""

    depth: "DepthConfig"  # its numbers of steps are those of the epoch
    cycles: dict[str, int]  # settings of the network that differ in it, such as ``H_cycles``


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
        stages: fewer cycles for the first epochs, in order of their ends, see `CycleStage`.
            Validation and solving always take the network's own number.
    """

    schedule: str = one_of("fresh", SCHEDULES)
    halt_max_steps: int = 16
    exploration: float = 0.1
    no_grad_steps: tuple[int, int] = (0, 5)
    supervised_steps: int = 2
    random_start: float = 0.0
    stages: list[CycleStage] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_choices(self, "depth.")
        # A stage's own ranges are checked as those of the whole.
        stages = [(stage.until, self._of(stage)) for stage in self.stages]
        self._by_epoch = Stages("depth.stages", stages, EpochDepth(self, {}))
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

    def at(self, epoch: float, epochs: int | None = None) -> EpochDepth:
        """Return the depth in an epoch, see `Stages.at`."""
        return self._by_epoch.at(epoch, epochs)

    def _of(self, stage: CycleStage) -> EpochDepth:
        """Return the depth in the epochs of a stage."""
        own = {name: value for name, value in vars(stage).items() if value is not None}
        steps = {name: value for name, value in own.items() if name.endswith("_steps")}
        cycles = {name: value for name, value in own.items() if name.endswith("_cycles")}
        return EpochDepth(replace(self, stages=[], **steps), cycles)
