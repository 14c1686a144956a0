"""Training steps per second of the recursive model at the note's shape, fp32 and bf16.

Hidden 512, 8 heads, 2 layers, H 3, L 6 on 20 x 20 canvases, one supervision step a training step
on a carried state: samples drawn, forward, backward and optimiser.
"""

import argparse
import statistics
import time
from contextlib import nullcontext

import torch

from canvas.problems import Task
from trm.models.halting import Carry
from trm.models.recursive import RecursiveConfig, TinyRecursiveModel
from trm.training.data import Canvas, RowSteps
from trm.training.depth import DepthConfig, carried_step
from trm.training.losses import step_loss
from trm.training.optimisers import OptimizerConfig, build_optimizer


class Trainer:
    """A model in training at one precision."""

    def __init__(self, samples: RowSteps, config: RecursiveConfig, bf16: bool) -> None:
        torch.manual_seed(0)
        self.samples, self.bf16 = samples, bf16
        self.model = TinyRecursiveModel(config).train()
        self.optimizer = build_optimizer(self.model, OptimizerConfig())
        self.carry: Carry | None = None
        self.steps = 0

    def step(self) -> float:
        """One training step; returns the seconds it took."""
        start = time.perf_counter()
        size = self.samples.batch_size
        batch = self.samples.__getitems__(range(self.steps * size, (self.steps + 1) * size))
        precision = torch.autocast("cpu", torch.bfloat16) if self.bf16 else nullcontext()
        with precision:
            result, self.carry = carried_step(
                self.model,
                batch,
                self.carry,
                DepthConfig(schedule="carry"),
                step_loss,
                seed=self.steps,
            )
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

    task = Task("standard", digits_a=(1, 7), digits_b=(1, 7))
    size = options.batch * options.repeats
    samples = RowSteps(task, Canvas(20, 20), "train", 0, size, options.batch)
    config = RecursiveConfig(position="rope_1d")
    trainers = {"fp32": Trainer(samples, config, False), "bf16": Trainer(samples, config, True)}
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(options.repeats):
        for name, trainer in trainers.items():
            seconds[name].append(trainer.step())

    count = sum(p.numel() for p in trainers["fp32"].model.parameters())
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
