"""What blank cells cost: training steps and solved problems a second, with and without them.

The network, the optimiser and the problems are those of configs/generalise/decimal.yaml; only
`skip_blank` differs. The rows of the problems solved are longer than any of its training's.
"""

import argparse
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.sampling import sample
from trm.models.recursive import RecursiveConfig, TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.training.depth import DepthConfig, fresh_step
from trm.training.losses import step_loss
from trm.training.optimisers import OptimizerConfig, build_optimizer
from trm.training.samples import RowStepSamples

CONFIG = Path(__file__).parents[1] / "configs/generalise/decimal.yaml"
STEPS = 4  # supervision steps a row, whatever the untrained model makes of it


class Model:
    """A model in training, and as it solves."""

    def __init__(
        self, settings: dict[str, Any], task: Multiplication, canvas: Canvas, skip_blank: bool
    ) -> None:
        torch.manual_seed(0)
        network = settings["network"]["init_args"]["config"]
        config = RecursiveConfig(**network | {"skip_blank": skip_blank})
        self.model = TinyRecursiveModel(config)
        self.optimizer = build_optimizer(self.model, OptimizerConfig(**settings["optimizer"]))
        self.depth = DepthConfig(**settings["depth"])
        self.loss = partial(step_loss, halt_weight=settings["loss"]["halt_weight"])
        predictor = IterativePredictor(self.model, STEPS, halt=False)
        self.solver = Solver(predictor, task, canvas)

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

    config = yaml.safe_load(CONFIG.read_text())
    settings, data = config["model"]["init_args"], config["data"]
    task, canvas = Multiplication(**data["task"]["init_args"]), Canvas(**data["canvas"])
    size = data["batch_size"]
    samples = RowStepSamples(task, canvas, "train", 0, size * (options.repeats + 1), size)
    tokens = {"all": False, "written": True}
    models = {name: Model(settings, task, canvas, skip) for name, skip in tokens.items()}
    training: dict[str, list[float]] = {name: [] for name in models}
    for step in range(options.repeats + 1):  # the first warms up
        batch = samples.__getitems__(range(step * size, (step + 1) * size))
        for name, model in models.items():
            training[name].append(model.train(batch, step))
    lengths = (options.digits, options.digits)
    long = replace(task, digits_a=lengths, digits_b=lengths)
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
