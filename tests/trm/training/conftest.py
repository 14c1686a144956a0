"""Fixtures of all tests of training."""

import warnings
from collections.abc import Callable
from pathlib import Path

import lightning as L
import pytest
import yaml
from lightning.pytorch.loggers import TensorBoardLogger
from tiny import tiny_module

from canvas.multiplication import Multiplication
from trm.training.cli import _NOT_OURS
from trm.training.data import Canvas, CanvasDataModule
from trm.training.iterative_module import IterativeModule


@pytest.fixture(scope="session")
def debug(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """The config debug with a quarter of its samples: two epochs of two steps."""
    config = yaml.safe_load((repository / "configs/debug.yaml").read_text())
    config["data"] |= {"batch_size": 4, "batches_per_epoch": 2}
    config["data"] |= {"validation_problems": 4, "training_problems": 2}
    file = tmp_path_factory.mktemp("config") / "debug.yaml"
    file.write_text(yaml.safe_dump(config))
    return "--config", file


def _fit(tmp_path, *added: L.Callback, module=None, **settings) -> IterativeModule:
    sizes = {"batch_size": 8, "batches_per_epoch": 6, "validation_problems": 16}
    data = CanvasDataModule(Multiplication(), Canvas(), **sizes)
    module = module or tiny_module()
    defaults = {"logger": TensorBoardLogger(tmp_path), "precision": "bf16-mixed", "max_steps": 6}
    defaults |= {"val_check_interval": 2, "log_every_n_steps": 2, "enable_progress_bar": False}
    with warnings.catch_warnings():
        for message in (*_NOT_OURS, "Precision bf16-mixed is not supported by the model summary"):
            warnings.filterwarnings("ignore", message)
        trainer = L.Trainer(
            callbacks=list(added),
            accelerator="cpu",
            enable_model_summary=False,
            enable_checkpointing=False,
            **(defaults | settings),
        )
        trainer.fit(module, data)
    return module


@pytest.fixture(scope="session")
def fit() -> Callable[..., IterativeModule]:
    """Trains for six steps, with a validation after every second one."""
    return _fit
