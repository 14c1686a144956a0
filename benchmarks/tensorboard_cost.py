"""What TensorBoard costs: the share of training time that goes into logging and figures.

A run is profiled by Lightning's own profiler, hook by hook; what callbacks and loggers take is
compared with the whole. Figures are drawn at validations, of which a run has fewer than this one:
they are counted once for as many batches as lie between two validations in the config.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from lightning.pytorch.loggers import TensorBoardLogger

from trm.training.cli import train
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule

CONFIG = Path(__file__).parents[1] / "configs/generalise/decimal.yaml"
STEP = ("Cost", "Gradients", "LearningRateMonitor")  # callbacks of every step
FIGURES = ("Pictures",)  # of validations


class Stopwatch:
    """Adds up what calls of some methods take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, kind: type, name: str) -> None:
        """Time a method from now on."""
        method: Callable[..., Any] = getattr(kind, name)

        def timed(*args: Any, **more: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*args, **more)
            finally:
                self.seconds += time.perf_counter() - start

        setattr(kind, name, timed)


def main() -> None:
    """Train for a while, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = yaml.safe_load(options.config.read_text())
    epochs = config["trainer"].get("check_val_every_n_epoch", 1)
    between = config["data"]["batches_per_epoch"] * epochs

    logged = Stopwatch()  # what modules log, and what loggers write of it
    logged.around(L.LightningModule, "log")
    logged.around(TensorBoardLogger, "log_metrics")
    charged = Stopwatch()  # validation's loss, which nothing but its curve needs
    for family in (IterativeModule, GPTModule):
        charged.around(family, "loss_on")
    with tempfile.TemporaryDirectory() as folder:
        words = ["fit", "--config", str(options.config), "--trainer.profiler", "SimpleProfiler"]
        words += ["--trainer.profiler.dirpath", folder, "--trainer.profiler.filename", "spent"]
        words += ["--trainer.max_epochs", "1", "--trainer.check_val_every_n_epoch", "1"]
        words += ["--data.batches_per_epoch", str(options.batches)]
        words += ["--trainer.enable_progress_bar", "false", "--trainer.logger.save_dir", folder]
        sys.argv = ["trm"]
        spent = train(words).trainer.profiler.recorded_durations

    def seconds(hooks: tuple[str, ...]) -> float:
        return sum(
            sum(took) for name, took in spent.items() if any(f"]{h}." in name for h in hooks)
        )

    a_batch = sum(spent["run_training_batch"]) / options.batches
    a_step = (seconds(STEP) + logged.seconds) / options.batches
    drawn = seconds(FIGURES) + charged.seconds
    print(
        f"{options.batches} batches of {options.config.name}, {options.threads} thread(s): "
        f"{1000 * a_batch:.1f} ms a batch"
    )
    print(f"logging  {1000 * a_step:.2f} ms a batch: {a_step / a_batch:.2%}")
    print(
        f"figures  {drawn:.2f} s a validation ({charged.seconds:.2f} s its loss), every "
        f"{between:,} batches: {drawn / (between * a_batch):.2%}"
    )
    print(f"together {a_step / a_batch + drawn / (between * a_batch):.2%} of training time")


if __name__ == "__main__":
    main()
