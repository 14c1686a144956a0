"""Train a recursive transformer with a Trainer, a callback and a data module of your own.

    python examples/train_with_lightning.py
    trm solve --checkpoint lightning.ckpt 12x3

`trm fit` does more: folders of runs, curves, safe checkpoints. Here each part is in your hands.
"""

import argparse
import time

import lightning as L
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch.utils.data import DataLoader

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from trm import load_solver, solve
from trm.models import RecursiveConfig, TinyRecursiveModel
from trm.training import (
    CanvasDataModule,
    DepthConfig,
    IterativeModule,
    OptimizerConfig,
    ScheduleConfig,
)


class SameBatches(CanvasDataModule):
    """Draws its batches once and repeats them in every epoch, in another order each time."""

    def train_dataloader(self) -> DataLoader:
        """Return batches of row steps: ``inputs``, ``labels`` and ``answer``, [B, H, W] each."""
        samples, size = super().train_dataloader().dataset, self.batch_size
        batches = [samples.__getitems__(range(i, i + size)) for i in range(0, len(samples), size)]
        return DataLoader(batches, batch_size=None, shuffle=True)


class Report(L.Callback):
    """Prints the accuracy of whole solutions after each validation."""

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock."""
        self.started = time.monotonic()
        print(f"{pl_module.model.num_parameters:,} parameters")

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print a line. Every figure of TensorBoard is in `trainer.callback_metrics`."""
        solved = float(trainer.callback_metrics["validation/solved"])
        seconds = time.monotonic() - self.started
        print(f"step {trainer.global_step}, {seconds:.0f} s: {100 * solved:.0f} % solved")


def main(arguments: list[str] | None = None) -> None:
    """Train, save a checkpoint that every command accepts, and solve a problem with it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batches", type=int, default=40, help="batches of an epoch")
    options = parser.parse_args(arguments)

    L.seed_everything(0)
    task = Multiplication(layout="lattice", digits_a=(1, 2), digits_b=(1, 1))
    data = SameBatches(
        task, Canvas(), batch_size=64, batches_per_epoch=options.batches, validation_problems=32
    )
    network = TinyRecursiveModel(
        RecursiveConfig(hidden_size=32, num_heads=4, position="relative_2d")
    )
    module = IterativeModule(
        network,
        depth=DepthConfig(),
        solve_steps=4,
        optimizer=OptimizerConfig(lr=0.003),
        schedule=ScheduleConfig(warmup_steps=20),
    )
    trainer = L.Trainer(
        max_epochs=options.epochs,
        accelerator="cpu",
        callbacks=[Report(), EMAWeightAveraging(decay=0.99)],
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, data)
    trainer.save_checkpoint("lightning.ckpt")
    print(solve("12x3", load_solver("lightning.ckpt")))


if __name__ == "__main__":
    main()
