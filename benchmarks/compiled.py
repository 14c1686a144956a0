"""Training steps with and without `model.compile: true`, config by config.

    python benchmarks/compiled.py --configs trm/quick quickstart gpt/small_rope_2d

A step is forward and backward of one of the config's batches, in turn by both modules, which have
the same weights. Compiling takes none of the time, but is told, as are the kinds of batches that
were met before: canvases cut to their problems differ in size from batch to batch.
"""

import argparse
import statistics
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import lightning as L
import torch

from trm.configs import find_config
from trm.models.configs import GPTConfig
from trm.training.cli import TrainingCLI
from trm.training.data import CanvasDataModule

WORDS = ("--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.logger=false")


def modules(name: str) -> tuple[dict[str, Any], Any, str]:
    """Both modules of a config, its data, and what its model is."""
    built = {}
    for way in ("eager", "compiled"):
        cli = TrainingCLI(
            L.LightningModule,
            CanvasDataModule,
            subclass_mode_model=True,
            run=False,
            args=[f"--config={find_config(name)}", *WORDS],
        )
        module, data = cli.model, cli.datamodule
        data.trainer = SimpleNamespace(world_size=1, global_rank=0, lightning_module=module)
        step = SimpleNamespace(log_every_n_steps=0, global_step=0, current_epoch=0)
        module._trainer = SimpleNamespace(**vars(step), global_rank=0, world_size=1)
        if way == "compiled":
            method = getattr(module.model, module.compiled_method)
            module._compiled = torch.compile(method, dynamic=True)
        built[way] = module.train()
    built["compiled"].load_state_dict(built["eager"].state_dict())
    gpt = isinstance(module.model.config, GPTConfig)
    return built, data, "GPT" if gpt else type(module.model).__name__


def seconds(module: Any, batch: Any, number: int, bf16: bool) -> float:
    """Of one step."""
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
        loss = module.training_step(dict(batch), number)
    loss.backward()
    module.zero_grad()
    return time.perf_counter() - start


def main() -> None:
    """Time config after config."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--configs", nargs="+", default=["trm/quick", "quickstart", "gpt/small_rope_2d"]
    )
    parser.add_argument("--warmup", type=int, default=8, help="steps that are not timed")
    parser.add_argument("--repeats", type=int, default=20, help="steps that are")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # LightningCLI warns of words that are not for it
    torch.set_num_threads(options.threads)
    kind = "bf16" if options.bf16 else "fp32"
    print(f"PyTorch {torch.__version__}, {options.threads} thread(s), {kind}, in turn")
    for name in options.configs:
        both, data, model = modules(name)
        batches = iter(data.train_dataloader())
        taken: dict[str, list[float]] = {way: [] for way in both}
        for number in range(options.warmup + options.repeats):
            batch = next(batches)
            for way, module in both.items():
                taken[way].append(seconds(module, batch, number, options.bf16))
        compiling = sum(taken["compiled"][: options.warmup])
        pairs = zip(*(values[options.warmup :] for values in taken.values()), strict=True)
        ratios = sorted(eager / quick for eager, quick in pairs)
        middle = {way: statistics.median(v[options.warmup :]) for way, v in taken.items()}
        print(
            f"{name} ({model}): eager {middle['eager']:.3f} s, compiled {middle['compiled']:.3f} s "
            f"a step, {statistics.median(ratios):.2f} x ({ratios[len(ratios) // 4]:.2f} to "
            f"{ratios[-len(ratios) // 4]:.2f}, quartiles); the first {options.warmup} steps "
            f"compiled: {compiling:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
