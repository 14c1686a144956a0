"""What a checkpoint takes: its size, and the seconds to write it safely, to write it bare, to read.

One batch of a config is trained, made small enough for any machine; the checkpoint is then filled
up with the states of as many samples as the config carries from batch to batch. Written safely it
is on the disk before it takes its name (`trm.checkpoints.lightning_io`); bare is `torch.save`.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import yaml

from trm.checkpoints.lightning_io import CheckpointFiles
from trm.training.cli import train

CONFIGS = Path(__file__).parents[1] / "configs"
SMALL = """
    --data.batch_size 1 --data.batches_per_epoch 1 --data.validation_problems 1
    --data.training_problems 0 --data.workers 0 --model.solve_steps 1 --trainer.accelerator cpu
    --trainer.max_epochs 1 --trainer.check_val_every_n_epoch 1
    --trainer.enable_progress_bar false --trainer.enable_model_summary false
""".split()  # noqa: SIM905


def checkpoint_of(config: Path, folder: str) -> dict[str, Any]:
    """What a run of this config writes at the end of an epoch."""
    train(["fit", "--config", str(config), "--trainer.logger.save_dir", folder, *SMALL])
    (file,) = Path(folder).rglob("last.ckpt")
    checkpoint = torch.load(file, weights_only=True)
    samples = yaml.safe_load(config.read_text())["data"]["batch_size"]
    for carry in checkpoint.get("carry", []):
        for name, part in carry.items():
            carry[name] = part.expand(samples, *part.shape[1:]).contiguous()
    return checkpoint


def seconds(work: Callable[..., Any], *given: Any) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work(*given)
    return time.perf_counter() - start


def main() -> None:
    """Write, read, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ("trm/quick.yaml", "generalise/decimal.yaml", "trm/reference.yaml")
    parser.add_argument("--config", type=Path, nargs="+", default=[CONFIGS / n for n in names])
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    files = CheckpointFiles()
    for config in options.config:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = checkpoint_of(config, folder)
            safe, bare = Path(folder) / "safe.ckpt", Path(folder) / "bare.ckpt"
            took: dict[str, list[float]] = {"safe": [], "bare": [], "read": []}
            for _ in range(options.turns):
                took["safe"].append(seconds(files.save_checkpoint, checkpoint, safe))
                took["bare"].append(seconds(torch.save, checkpoint, bare))
                took["read"].append(seconds(files.load_checkpoint, safe))
            written, plain, read = (median(took[name]) for name in ("safe", "bare", "read"))
            print(
                f"{config.name}: {safe.stat().st_size / 2**20:.1f} MiB, written in "
                f"{1000 * written:.0f} ms ({written / plain:.1f} times torch.save), read in "
                f"{1000 * read:.0f} ms"
            )


if __name__ == "__main__":
    main()
