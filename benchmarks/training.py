"""Training steps per second of configs/trm/reference.yaml, fp32 and bf16.

The network, the optimiser, the loss, the carried state and the problems are the config's. A step is
samples drawn, forward, backward and optimiser, without the config's transforms and weight
averaging, on smaller batches.
"""

import argparse
import statistics
import time
from contextlib import nullcontext
from functools import partial

import torch
from row_steps import Batches, Config

from trm.models.configs import RecursiveConfig
from trm.models.halting import Carry
from trm.models.recursive import TinyRecursiveModel
from trm.training.configs import DepthConfig, LossConfig, OptimizerConfig
from trm.training.depth import carried_step
from trm.training.losses import step_loss
from trm.training.optimisers import build_optimizer

CONFIG = "trm/reference"


class Trainer:
    """A model in training at one precision, with the settings of a config."""

    def __init__(self, batches: Batches, config: Config, bf16: bool) -> None:
        torch.manual_seed(0)
        settings = config.model
        self.batches, self.bf16 = batches, bf16
        self.model = TinyRecursiveModel(RecursiveConfig(**config.network)).train()
        self.optimizer = build_optimizer(self.model, OptimizerConfig(**settings["optimizer"]))
        self.depth = DepthConfig(**settings["depth"])
        loss = LossConfig(**settings["loss"])
        self.loss = partial(
            step_loss,
            loss=loss.name,
            givens_weight=loss.givens_weight,
            halt_weight=loss.halt_weight,
        )
        self.carry: Carry | None = None
        self.steps = 0

    def step(self) -> float:
        """One training step; returns the seconds it took."""
        start = time.perf_counter()
        batch = self.batches[self.steps]
        precision = torch.autocast("cpu", torch.bfloat16) if self.bf16 else nullcontext()
        with precision:
            result, self.carry = carried_step(self.model, batch, self.carry, self.depth, self.loss)
        result.loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        return time.perf_counter() - start


def main() -> None:
    """Time both precisions in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2, help="steps timed at each precision")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    config = Config.read(CONFIG)
    config.network.update(height=config.canvas.height, width=config.canvas.width)
    batches = config.batches(options.batch)
    trainers = {"fp32": Trainer(batches, config, False), "bf16": Trainer(batches, config, True)}
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(options.repeats):
        for name, trainer in trainers.items():
            seconds[name].append(trainer.step())

    count = trainers["fp32"].model.num_parameters
    print(
        f"{count / 1e6:.1f}M parameters, batch {options.batch}, {options.threads} thread(s), "
        f"median of {options.repeats} interleaved steps"
    )
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in medians.items():
        print(f"{name:>6}  {1 / value:>7.3f} steps/s  {options.batch / value:>7.2f} samples/s")
    print(f"{'ratio':>6}  {medians['fp32'] / medians['bf16']:>7.2f}")


if __name__ == "__main__":
    main()
