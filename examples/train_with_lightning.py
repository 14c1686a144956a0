"""Train a model that adds, with a Trainer, a callback and a data module of your own.

    python examples/train_with_lightning.py
    trm solve --checkpoint runs/lightning.ckpt 123456+987654
    trm prove --checkpoint runs/lightning.ckpt

Time: 10 to 20 seconds on a CPU core, less than a minute on a busy one. Expect a line for each of
ten epochs, from some 10 % to 100 % solved, then a sum of longer numbers than any in training.

`trm fit` does more: folders of runs, curves, safe checkpoints. Here each part is in your hands.
"""

import argparse
import logging
import time
import warnings

import lightning as L
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch.utils.data import DataLoader

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from trm import load_solver, solve
from trm.cells import CellConfig, CellModel, CellModule, rule_settings
from trm.training import CanvasDataModule, OptimizerConfig, ScheduleConfig

CHECKPOINT = "runs/lightning.ckpt"

# Lightning's advice about workers, devices and products, which says nothing about this run.
warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class SameBatches(CanvasDataModule):
    """Draws its batches once and repeats them in every epoch, in another order each time."""

    def train_dataloader(self) -> DataLoader:
        """Return batches of op inputs: ``op_inputs`` [N], their ids, and ``labels`` [N, …]."""
        samples, size = super().train_dataloader().dataset, self.batch_size
        batches = [samples.__getitems__(range(i, i + size)) for i in range(0, len(samples), size)]
        return DataLoader(batches, batch_size=None, shuffle=True)


class Report(L.Callback):
    """Prints the accuracy of whole solutions before training, and after each epoch."""

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

    L.seed_everything(0, verbose=False)
    task = Addition(layout="column", digits=(1, 4), addends=(2, 2))
    data = SameBatches(
        task, Canvas(), batch_size=64, batches_per_epoch=options.batches, validation_problems=100
    )
    network = CellModel(CellConfig(**rule_settings(task.local_rule()), hidden_size=64))
    module = CellModule(
        network=network,
        optimizer=OptimizerConfig(name="muon", matrix_lr=0.02, lr=0.002, matrix_weight_decay=0.3),
        schedule=ScheduleConfig(warmup_steps=5),
    )
    trainer = L.Trainer(
        max_epochs=options.epochs,
        accelerator="cpu",
        callbacks=[Report(), EMAWeightAveraging(decay=0.9)],
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, data)
    trainer.save_checkpoint(CHECKPOINT)
    print(solve("123456+987654", load_solver(CHECKPOINT)))


if __name__ == "__main__":
    main()
