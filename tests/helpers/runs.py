"""Short runs, uninterrupted and resumed."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from trm.training.callbacks import CheckpointFiles

# Training of the published TRM with a tiny network: takes seconds, and learns nothing.
TINY_TRM = """
    --config trm/reference --trainer.check_val_every_n_epoch 1 --trainer.log_every_n_steps 1
    --model.network.config.hidden_size 16 --model.network.config.num_heads 2
    --model.network.config.intermediate_size 32 --model.network.config.H_cycles 2
    --model.network.config.L_cycles 1 --model.network.config.prefix_size 16
    --model.solve_steps 2 --model.schedule.decay constant --data.batch_size 4
    --data.batches_per_epoch 4 --data.workers 0 --data.validation_problems 4
    --data.training_problems 4 --data.task.digits_a [1,2] --data.task.digits_b [1,2]
    --data.canvas.height 8 --data.canvas.width 8
""".split()  # noqa: SIM905


def last_of(folder: Path) -> dict[str, Any]:
    """Load the last checkpoint of the only run in a folder."""
    (path,) = folder.rglob("last.ckpt")
    return torch.load(path, weights_only=True, map_location="cpu")


def events_of(folder: Path) -> EventAccumulator:
    """Load the TensorBoard events of the only run in a folder."""
    files = next(folder.rglob("events*")).parent
    return EventAccumulator(str(files), size_guidance={"images": 0, "tensors": 0}).Reload()


def charts_without_a_curve(folder: Path) -> list[str]:
    """Return the titles of charts without curves, for the only run in a folder."""
    events = events_of(folder)
    [config] = events.Tensors("custom_scalars__config__")
    layout = Layout.FromString(config.tensor_proto.string_val[0])
    charts = [chart for page in layout.category for chart in page.chart]
    tags = events.Tags()["scalars"]
    return [
        chart.title
        for chart in charts
        if not any(re.match(chart.multiline.tag[0], tag) for tag in tags)
    ]


def whole_and_resumed(
    command: Callable, folder: Path, *words: object, epochs: tuple[int, int] = (1, 2)
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the last checkpoints of a run, and of the same run resumed after some epochs."""
    fit = ("fit", *words, "--trainer.max_epochs", epochs[1])
    whole, resumed, save = folder / "whole", folder / "resumed", CheckpointFiles.save_checkpoint
    whole.mkdir()

    def keep(files: CheckpointFiles, checkpoint: dict[str, Any], path: Path, **_: Any) -> None:
        save(files, checkpoint, path)
        if (Path(path).name, checkpoint["epoch"]) == ("last.ckpt", epochs[0] - 1):
            shutil.copytree(whole, resumed)  # as if it had been killed then

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointFiles, "save_checkpoint", keep)
        command(*fit, folder=whole)
    assert last_of(resumed)["global_step"] < last_of(whole)["global_step"]
    command(*fit, "--ckpt_path", "last", folder=resumed)
    return last_of(whole), last_of(resumed)


def assert_same(one: dict[str, Any], other: dict[str, Any], *parts: str, near: float = 0) -> None:
    """Require that checkpoints have the same weights, and the same values of further keys."""
    for part in ("state_dict", *parts):
        torch.testing.assert_close(other[part], one[part], rtol=near, atol=near)
