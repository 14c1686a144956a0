"""What blank cells cost: training steps and solved problems a second, with and without them.

The network, the optimiser and the problems are those of configs/generalise/decimal.yaml; only
`skip_blank` differs. The rows of the problems solved are longer than any of its training's.
"""

import argparse
import statistics
import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from row_steps import Config

from canvas.sampling import sample
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.training.configs import DepthConfig, OptimizerConfig
from trm.training.depth import fresh_step
from trm.training.losses import step_loss
from trm.training.optimisers import build_optimizer

CONFIG = "generalise/decimal"
STEPS = 4  # supervision steps a row, whatever the untrained model makes of it


class Model:
    """A model in training, and as it solves."""

    def __init__(self, config: Config, skip_blank: bool) -> None:
        torch.manual_seed(0)
        settings = config.model
        shape = RecursiveConfig(**config.network | {"skip_blank": skip_blank})
        self.model = TinyRecursiveModel(shape)
        self.optimizer = build_optimizer(self.model, OptimizerConfig(**settings["optimizer"]))
        self.depth = DepthConfig(**settings["depth"])
        self.loss = partial(step_loss, halt_weight=settings["loss"]["halt_weight"])
        predictor = IterativePredictor(self.model, STEPS, halt=False)
        self.solver = Solver(predictor, config.task, config.canvas)

    def train(self, batch: dict[str, torch.Tensor], step: int) -> float:
        """Seconds of one training step."""
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            result = fresh_step(self.model, batch, self.depth, self.loss, seed=step)
        result.loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.perf_counter() - start

    def solve(self, problems: Any) -> float:
        """Seconds to work problems out."""
        start = time.perf_counter()
        self.solver.solve(problems)
        return time.perf_counter() - start


def main() -> None:
    """Time both in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="training steps timed of each")
    parser.add_argument("--digits", type=int, default=8, help="of both operands that are solved")
    parser.add_argument("--problems", type=int, default=16, help="that are solved, three times")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    config = Config.read(CONFIG)
    batches = config.batches(config.data["batch_size"])
    tokens = {"all": False, "written": True}
    models = {name: Model(config, skip) for name, skip in tokens.items()}
    training: dict[str, list[float]] = {name: [] for name in models}
    for step in range(options.repeats + 1):  # the first warms up
        batch = batches[step]
        for name, model in models.items():
            training[name].append(model.train(batch, step))
    lengths = (options.digits, options.digits)
    long = replace(config.task, digits_a=lengths, digits_b=lengths)
    problems = sample(long, 0, "test", 0, np.arange(options.problems))
    solving: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(3):
        for name, model in models.items():
            solving[name].append(model.solve(problems))
    print(
        f"tokens    training steps a second    {options.digits} x {options.digits} solved a second"
    )
    rates = {}
    for name in models:
        rates[name] = (
            1 / statistics.median(training[name][1:]),
            options.problems / statistics.median(solving[name]),
        )
        print(f"{name:8}  {rates[name][0]:23.2f}  {rates[name][1]:20.2f}")
    ratios = [b / a for a, b in zip(rates["all"], rates["written"], strict=True)]
    print(f"ratio     {ratios[0]:23.2f}  {ratios[1]:20.2f}")


if __name__ == "__main__":
    main()
