"""Settings of optimiser and learning rate, and checks and stages of all settings of training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from canvas.choices import check_choices, one_of
from trm.released import moved

OPTIMIZERS = ("adamw", "adam_atan2", "muon")
DECAYS = ("constant", "cosine", "linear")
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


__getattr__ = moved(__name__)
