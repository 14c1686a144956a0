"""Training steps a second of shipped configs: eager, compiled, in bfloat16, without blank tokens.

    python benchmarks/training.py --configs trm/quick gpt/small_rope_2d --ways eager compiled bf16

A step is forward, backward and optimiser. All ways use the same batches, and start from the same
weights. The time of compilation is not included; that of the first steps, which compile, is printed
separately.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import lightning as L
import torch
from timing import in_turn, show

from trm.io.config_files import find_config
from trm.training.cli import TrainingCLI
from trm.training.data import CanvasDataModule

WAYS = ("eager", "compiled", "bf16", "compiled bf16", "skip_blank")
WORDS = ("--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.logger=false")


def module_and_data(name: str, *words: str) -> tuple[Any, Any]:
    """Return the module and the data of a config, prepared as by Lightning for training."""
    cli = TrainingCLI(
        L.LightningModule,
        CanvasDataModule,
        subclass_mode_model=True,
        run=False,
        args=[f"--config={find_config(name)}", *WORDS, *words],
    )
    module, data = cli.model, cli.datamodule
    data.trainer = SimpleNamespace(world_size=1, global_rank=0, lightning_module=module)
    step = SimpleNamespace(log_every_n_steps=0, global_step=0, current_epoch=0)
    module._trainer = SimpleNamespace(**vars(step), global_rank=0, world_size=1)
    return module.train(), data


def stepper(module: Any, batches: list[Any], way: str) -> Callable[[int], None]:
    """Return a function that does a training step on the batch with a given number."""
    if "compiled" in way:
        module.compile_steps = True
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

    def step(number: int) -> None:
        with torch.autocast("cpu", torch.bfloat16) if "bf16" in way else nullcontext():
            loss = module.training_step(dict(batches[number]), number)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    """Time config after config."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    configs = ["trm/quick", "quickstart", "gpt/small_rope_2d"]
    parser.add_argument("--configs", nargs="+", default=configs, metavar="NAME")
    parser.add_argument("--ways", nargs="+", default=["eager", "compiled"], choices=WAYS)
    parser.add_argument("--batch", type=int, help="samples; default: those of the config")
    parser.add_argument("--warm-up", type=int, default=8, help="steps that are not timed")
    parser.add_argument("--repeats", type=int, default=20, help="steps that are")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # LightningCLI warns about options that are not its own
    torch.set_num_threads(options.threads)
    print(f"PyTorch {torch.__version__}, {options.threads} thread(s), in turn")
    size = [f"--data.batch_size={options.batch}"] if options.batch else []
    for name in options.configs:
        module, data = module_and_data(name, *size)
        weights = module.state_dict()
        drawn = iter(data.train_dataloader())
        batches = [next(drawn) for _ in range(options.warm_up + options.repeats)]
        steps = {}
        for way in options.ways:
            more = ["--model.network.config.skip_blank=true", "--model.depth.schedule=fresh"]
            more = more if way == "skip_blank" else []
            one, _ = module_and_data(name, *size, *more)
            one.load_state_dict(weights)
            steps[way] = stepper(one, batches, way)
        start = time.perf_counter()
        taken = in_turn(steps, options.repeats, options.warm_up)
        rest = time.perf_counter() - start - sum(map(sum, taken.values()))
        print(f"\n{name}, seconds a step; the first {options.warm_up} of all took {rest:.0f} s")
        show(taken)


if __name__ == "__main__":
    main()
