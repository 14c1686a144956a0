"""What tests of training share."""

import warnings
from collections.abc import Callable
from pathlib import Path

import lightning as L
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger

from canvas.multiplication import Multiplication
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.training.cli import _NOT_OURS
from trm.training.configs import DepthConfig, OptimizerConfig, ScheduleConfig
from trm.training.data import Canvas, CanvasDataModule
from trm.training.iterative_module import IterativeModule


@pytest.fixture(scope="session")
def debug(repository: Path) -> tuple:
    return "--config", repository / "configs/debug.yaml"


def _tiny_module() -> IterativeModule:
    torch.manual_seed(0)
    config = RecursiveConfig(
        hidden_size=16, num_heads=2, num_layers=1, intermediate_size=16, H_cycles=1, L_cycles=1
    )
    return IterativeModule(
        TinyRecursiveModel(config),
        OptimizerConfig(lr=0.01),
        ScheduleConfig(),
        DepthConfig(no_grad_steps=(0, 0), supervised_steps=1),
        solve_steps=3,
    )


def _little_data() -> CanvasDataModule:
    return CanvasDataModule(
        Multiplication(), Canvas(), batch_size=8, batches_per_epoch=6, validation_problems=16
    )


def _fit(
    tmp_path, *added: L.Callback, module: IterativeModule | None = None, **settings
) -> IterativeModule:
    module = module or _tiny_module()
    defaults = {
        "logger": TensorBoardLogger(tmp_path),
        "precision": "bf16-mixed",
        "max_steps": 6,
        "val_check_interval": 2,
        "log_every_n_steps": 2,
        "enable_progress_bar": False,
    }
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
        trainer.fit(module, _little_data())
    return module


@pytest.fixture(scope="session")
def tiny_module() -> Callable[[], IterativeModule]:
    return _tiny_module


@pytest.fixture(scope="session")
def fit() -> Callable[..., IterativeModule]:
    """Trains for six steps, with a validation after every second one."""
    return _fit
