"""How training goes, as a config file says it.

Nothing here imports a framework, so that `trm fit` answers a wrong value at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canvas.choices import check_choices, one_of

OPTIMIZERS = ("adamw", "adam_atan2", "muon")
LR_ADJUSTMENTS = ("original", "match_rms_adamw")
DECAYS = ("constant", "cosine", "linear")
SCHEDULES = ("carry", "fresh")
LOSS_NAMES = ("softmax", "stablemax")
_LEAST = {  # of whole numbers that no dataclass holds, by section of a config
    "data": {
        "batch_size": 1,
        "batches_per_epoch": 1,
        "validation_problems": 1,
        "training_problems": 0,
        "beyond_problems": 0,
        "workers": 0,
    },
    "model": {"solve_steps": 1},
}


@dataclass
class OptimizerConfig:
    """Which optimiser, and its settings.

    Raises:
        ValueError: an unknown name, or a number outside its range.
    """

    name: str = one_of("adamw", OPTIMIZERS)  # muon: on the hidden matrices, AdamW on the rest
    lr: float = 1e-3  # learning rate; under "muon", that of everything but the hidden matrices
    betas: tuple[float, float] = (0.9, 0.95)  # decay of Adam's two running means, per step
    weight_decay: float = 0.1  # decoupled, per step and unit of lr; weights of linear layers only
    eps: float = 1e-8  # added to AdamW's denominator; Adam-atan2 needs none
    matrix_lr: float = 0.02  # Muon: learning rate of the hidden matrices
    matrix_weight_decay: float = 0.01  # Muon: decoupled, per step and unit of matrix_lr
    momentum: float = 0.95  # Muon: decay of the running mean of gradients, per step
    nesterov: bool = True  # Muon: look one step of momentum ahead
    ns_steps: int = 5  # Muon: Newton-Schulz iterations; 5 brings singular values near 1
    adjust_lr_fn: str = one_of("original", LR_ADJUSTMENTS)  # Muon: as in torch.optim.Muon

    def __post_init__(self) -> None:
        check_choices(self, "optimizer.")
        for field in ("lr", "matrix_lr", "eps"):
            if not 0 < getattr(self, field) < math.inf:
                raise ValueError(f"{field} is a number above 0, got {getattr(self, field)}")
        for field in ("weight_decay", "matrix_weight_decay"):
            if not 0 <= getattr(self, field) < math.inf:
                raise ValueError(f"{field} is a number of at least 0, got {getattr(self, field)}")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas are two numbers from 0 to below 1, got {self.betas}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum lies from 0 to below 1, got {self.momentum}")
        if not 1 <= self.ns_steps < 100:
            raise ValueError(f"ns_steps lies in 1..99 (5 is usual), got {self.ns_steps}")


@dataclass
class ScheduleConfig:
    """How the learning rate changes over a run, as a factor on every group's own rate.

    Raises:
        ValueError: an unknown decay, or a number outside its range.
    """

    warmup_steps: int = 0  # optimiser steps of linear increase; the first step is never 0
    decay: str = one_of("constant", DECAYS)  # after warmup
    min_ratio: float = 0.0  # the factor at total_steps and after, unless constant
    total_steps: int | None = None  # where the decay ends; None: the trainer's max_steps

    def __post_init__(self) -> None:
        check_choices(self, "schedule.")
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps is at least 0, got {self.warmup_steps}")
        if not 0 <= self.min_ratio <= 1:
            raise ValueError(f"min_ratio is a factor from 0 to 1, got {self.min_ratio}")
        if self.total_steps is not None and self.total_steps <= self.warmup_steps:
            raise ValueError(
                f"total_steps {self.total_steps} leaves no step after the {self.warmup_steps} of "
                "warmup; raise total_steps or lower warmup_steps"
            )


@dataclass
class DepthConfig:
    """How deep recursion is trained.

    Attributes:
        schedule: `carry` takes states over from step to step, `fresh` starts every batch anew.
        halt_max_steps: `carry`: supervision steps a sample gets at most.
        exploration: `carry`: probability that a sample must take a random number of steps.
        no_grad_steps: `fresh`: fewest and most steps without gradient.
        supervised_steps: `fresh`: steps with a loss after them; the losses are averaged.
        random_start: `fresh`: share of samples that start from random states.
        hint_forcing: `fresh`: share of batches with one supervised step alone, from states in
            which every hint is as it should be; for models whose states are built from hints. The
            other batches then teach the halting head alone how far a row has come.
        length_buckets: `fresh`: in how many parts a batch goes through the network, sorted by the
            number of tokens, so that each is padded to its own longest sample alone. Samples, draws
            and loss are those of the whole batch. For networks in which not every cell is a token.
    """

    schedule: str = one_of("fresh", SCHEDULES)
    halt_max_steps: int = 16
    exploration: float = 0.1
    no_grad_steps: tuple[int, int] = (0, 5)
    supervised_steps: int = 2
    random_start: float = 0.0
    hint_forcing: float = 0.0
    length_buckets: int = 1

    def __post_init__(self) -> None:
        check_choices(self, "depth.")
        low, high = self.no_grad_steps
        if not 0 <= low <= high:
            raise ValueError(f"depth.no_grad_steps is [fewest, most] from 0 up, not {[low, high]}")
        if self.supervised_steps < 1 or self.halt_max_steps < 1:
            raise ValueError("at least one step has to be supervised")
        if self.length_buckets < 1:
            raise ValueError(f"depth.length_buckets is 1 or more, not {self.length_buckets}")
        if self.length_buckets > 1 and self.schedule == "carry":
            raise ValueError(
                f"depth.length_buckets {self.length_buckets} splits batches that start anew: "
                "set it to 1, or depth.schedule: fresh"
            )
        for name in ("exploration", "random_start", "hint_forcing"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"depth.{name} is a probability, not {getattr(self, name)}")

    @property
    def most_steps(self) -> int:
        """Supervision steps that a sample gets at most."""
        if self.schedule == "carry":
            return self.halt_max_steps
        return self.no_grad_steps[1] + self.supervised_steps


@dataclass
class LossConfig:
    """What the loss counts.

    Attributes:
        name: cross entropy of the softmax, or of the reference's stablemax.
        givens_weight: weight of a cell outside the answer row; 1 is the whole-canvas loss.
        halt_weight: weight of the halting head's loss.
    """

    name: str = one_of("softmax", LOSS_NAMES)
    givens_weight: float = 0.0
    halt_weight: float = 0.5

    def __post_init__(self) -> None:
        check_choices(self, "loss.")
        for name in ("givens_weight", "halt_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"loss.{name} is 0 or more, not {getattr(self, name)}")


def check_least(section: str, settings: Mapping[str, Any]) -> None:
    """Raise ValueError where a number of `data` or `model`, if it is given, is too small."""
    for name, least in _LEAST[section].items():
        if settings.get(name, least) < least:
            raise ValueError(f"{section}.{name} is {least} or more, not {settings[name]}")
