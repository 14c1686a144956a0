"""How the learning rate changes over a run."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from trm.training.configs import ScheduleConfig


def learning_rate_factor(
    step: int, config: ScheduleConfig, total_steps: float | None = None
) -> float:
    """The factor, 0 to 1, on the learning rate of update number ``step`` (the first is 0).

    Warmup reaches 1 at its last step; the decay then runs from 1 to ``min_ratio`` at the total.
    A run that is shorter than its warmup (a trial of a few steps) only warms up.

    Args:
        step: updates made so far.
        config: the schedule; its own ``total_steps``, if set, comes first.
        total_steps: the length of the run; None, infinite or below 1 where it has none.

    Raises:
        ValueError: a decay without an end.
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.decay == "constant":
        return 1.0
    total = config.total_steps if config.total_steps is not None else total_steps
    if total is None or not 1 <= total < math.inf:
        raise ValueError(
            f"a {config.decay} decay has to end somewhere: set the schedule's total_steps or the "
            'trainer\'s max_steps, or choose decay: "constant"'
        )
    progress = min(1.0, (step - config.warmup_steps) / max(1, total - config.warmup_steps))
    left = 1 - progress if config.decay == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return config.min_ratio + (1 - config.min_ratio) * left


def build_schedule(
    optimizer: Optimizer, config: ScheduleConfig, total_steps: float | None = None
) -> LambdaLR:
    """A schedule, stepped once per update, that scales every group by `learning_rate_factor`.

    Raises:
        ValueError: a decay without an end.
    """
    learning_rate_factor(config.warmup_steps, config, total_steps)  # complain now, not after warmup
    return LambdaLR(optimizer, lambda step: learning_rate_factor(step, config, total_steps))
