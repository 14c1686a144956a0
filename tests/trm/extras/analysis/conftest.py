"""Tiny models that multiply in base 3, with random weights, and trained GPTs that add."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel
from trm.cells.predictor import CellPredictor
from trm.checkpoints.loading import load_solver
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.predictor import Predictor
from trm.solving.solver import Solver

TASK = Multiplication("standard", base=3, digits_a=(1, 2), digits_b=(1, 2))
SMALL = {"hidden_size": 16, "num_heads": 2, "num_layers": 2, "intermediate_size": 16}
CANVAS = {"position": "relative_2d", "neighbourhood": "local_lines", "halt_pool": "mask"}


@pytest.fixture(scope="session")
def make_solver() -> Callable[..., Solver]:
    def make(family: str = "recursive", canvas: Canvas | None = None, **more: Any) -> Solver:
        torch.manual_seed(0)
        predictor: Predictor
        if family == "gpt":
            shape = {"position": "rope_2d", "hidden_size": 16, "num_heads": 2}
            gpt = GPT(GPTConfig(**shape | more))
            predictor = GPTPredictor(gpt.eval(), Calibration())
        elif family == "local":
            shape = {"hidden_size": 16, "num_heads": 2, "intermediate_size": 16}
            local = CellModel(CellConfig(**rule_settings(TASK.local_rule()), **shape))
            predictor = CellPredictor(local.eval())
        else:
            config = RecursiveConfig(**SMALL | CANVAS | {"H_cycles": 1, "L_cycles": 1} | more)
            predictor = IterativePredictor(TinyRecursiveModel(config).eval(), 4)
        return Solver(predictor, TASK, canvas or Canvas())

    return make


@pytest.fixture(scope="session")
def gpt() -> Solver:
    return load_solver("addition-gpt-seed0", device="cpu")


@pytest.fixture(scope="session")
def gpt_of_blanks() -> Solver:
    """It has seen blank columns in training."""
    return load_solver("addition-gpt-blanks-seed0", device="cpu")
