"""Training steps of shipped configs with batches in buckets by length: `depth.length_buckets`.

Network, task, loss, depth and batch size are the config's, the optimiser is AdamW. Where the config
has every cell as a token, `skip_blank` is set, and a step of a config that carries its states is
one supervision step from a new start. Times are the process's own on one thread, so that other jobs
on the machine disturb them less.
"""

import argparse
import copy
import pydoc
import random
import statistics
import time
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from row_steps import Config

from canvas.hints import hint_classes
from trm.models.configs import LoopedConfig, RecursiveConfig
from trm.models.looped import LoopedTransformer
from trm.models.recursive import TinyRecursiveModel
from trm.training.canvas_module import learned_hints
from trm.training.configs import DepthConfig
from trm.training.depth import fresh_step
from trm.training.losses import step_loss
from trm.training.samples import RowStepSamples

CONFIGS = ("generalise/decimal", "generalise/standard", "addition/quick", "trm/quick")


class Case:
    """A config, and a network of it for each number of buckets."""

    def __init__(self, name: str, size: int | None, numbers: list[int]) -> None:
        config = Config.read(name)
        task: Any = pydoc.locate(config.data["task"]["class_path"])
        task = task(**config.data["task"]["init_args"])
        classes = hint_classes(task.rules, task.base)
        self.hints = learned_hints(config.model.get("hints"), classes)
        settings = {"hints": {hint: classes[hint] for hint in self.hints}, **config.network}
        if not settings.get("crop"):
            settings["skip_blank"] = True
        self.size = size or config.data["batch_size"]
        self.rows = RowStepSamples(
            task, config.canvas, "train", 0, 2**20, self.size, hints=tuple(self.hints)
        )
        torch.manual_seed(0)
        looped = config.model["network"]["class_path"].endswith("LoopedTransformer")
        model = (
            LoopedTransformer(LoopedConfig(**settings))
            if looped
            else TinyRecursiveModel(RecursiveConfig(**settings))
        )
        self.models = {number: copy.deepcopy(model).train() for number in numbers}
        self.optimizers = {
            number: torch.optim.AdamW(one.parameters(), lr=1e-4)
            for number, one in self.models.items()
        }
        self.depth = DepthConfig(**config.model["depth"])
        if self.depth.schedule == "carry":
            self.depth = DepthConfig(no_grad_steps=(0, 0), supervised_steps=1)
        weights = config.model["loss"]
        self.loss = partial(
            step_loss,
            loss=weights["name"],
            givens_weight=weights["givens_weight"],
            halt_weight=weights["halt_weight"],
        )

    def batch(self, number: int) -> Any:
        """Of training, numbered from 0."""
        return self.rows.__getitems__(range(number * self.size, (number + 1) * self.size))

    def step(self, batch: Any, seed: int, number: int) -> float:
        """Seconds of the processor that a training step takes in so many buckets."""
        start = time.process_time()
        depth = replace(self.depth, length_buckets=number)
        result = fresh_step(self.models[number], batch, depth, self.loss, seed, self.hints)
        result.loss.backward()
        self.optimizers[number].step()
        self.optimizers[number].zero_grad()
        return time.process_time() - start

    def padding(self, batches: list[Any], number: int) -> float:
        """The share of tokens that are padding in so many buckets."""
        model, real, all_of_them = self.models[number], 0, 0
        for batch in batches:
            lengths = model.count_tokens(batch["inputs"])
            assert lengths is not None
            real += int(lengths.sum())
            parts = lengths.sort().values.tensor_split(number)
            all_of_them += sum(len(part) * int(part.max()) for part in parts)
        return 1 - real / all_of_them


def main() -> None:
    """Time all numbers of buckets in turn, config by config."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", nargs="+", default=CONFIGS, metavar="NAME")
    parser.add_argument("--buckets", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--batch", type=int, help="row steps; default: those of the config")
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    numbers = [1, *options.buckets]
    for name in options.configs:
        case = Case(name, options.batch, numbers)
        batches = [case.batch(i) for i in range(options.repeats + 1)]
        taken: dict[int, list[float]] = {number: [] for number in numbers}
        for seed, batch in enumerate(batches):
            for number in random.Random(seed).sample(numbers, len(numbers)):
                seconds = case.step(batch, seed, number)
                if seed:  # the first round also allocates
                    taken[number].append(seconds)
        print(f"\n{name}, batches of {case.size}")
        for number, values in taken.items():
            ratios = [one / mine for one, mine in zip(taken[1], values, strict=True)]
            print(
                f"{number:>5} bucket(s) {statistics.median(values):>8.3f} s "
                f"{statistics.median(ratios):>6.2f} x ({min(ratios):.2f} to {max(ratios):.2f}), "
                f"{case.padding(batches, number):.0%} padding",
                flush=True,
            )


if __name__ == "__main__":
    main()
