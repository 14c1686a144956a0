"""Tiny networks with random weights whose answers are far apart."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver

if TYPE_CHECKING:
    from trm.training.iterative_module import IterativeModule

TASK = Multiplication("lattice", digits_a=(1, 2), digits_b=(1, 2))
PROBLEMS = Problems.from_ints([(12, 34), (98, 7)])
SIZES: dict[str, Any] = {"hidden_size": 16, "num_heads": 2, "num_layers": 1}
CYCLES: dict[str, Any] = {"intermediate_size": 16, "H_cycles": 1, "L_cycles": 1}


def tiny_gpt(height: int, width: int, **more: Any) -> GPT:
    torch.manual_seed(1)
    model = GPT(GPTConfig(height, width, **SIZES | more)).eval()
    with torch.no_grad():
        model.embed_tokens.weight.mul_(30)  # the order of sums decides nothing
    return model


def confident_gpt(**more: Any) -> GPT:
    """Return a GPT of 4 x 5 canvases whose weights are large enough that it has opinions."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(4, 5, **SIZES | {"num_layers": 2} | more)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def tiny_trm(**more: Any) -> TinyRecursiveModel:
    torch.manual_seed(3)
    model = TinyRecursiveModel(RecursiveConfig(**SIZES | CYCLES | more)).eval()
    for head in (model.halt_head, model.lm_head):
        torch.nn.init.normal_(head.weight)
    return model


def tiny_module(network: dict[str, Any] | None = None, **more: Any) -> "IterativeModule":
    """Return a training module with a new network."""
    from trm.training.configs import OptimizerConfig, ScheduleConfig
    from trm.training.iterative_module import IterativeModule  # imports Lightning: seconds
    from trm.training.step import DepthConfig

    torch.manual_seed(0)
    parts = {"optimizer": OptimizerConfig(lr=0.01), "schedule": ScheduleConfig(), "solve_steps": 3}
    parts |= {"depth": DepthConfig(no_grad_steps=(0, 0), supervised_steps=1)}
    config = RecursiveConfig(**SIZES | CYCLES | (network or {}))
    return IterativeModule(TinyRecursiveModel(config), **parts | more)


def small_solvers() -> list[Solver]:
    """Return solvers of `TASK` with networks of each kind but cell models."""
    predictors = [
        GPTPredictor(tiny_gpt(5, 8), Calibration()),
        IterativePredictor(tiny_trm(position="alibi"), 3),
        IterativePredictor(tiny_trm(position="relative_2d", neighbourhood="local_lines"), 3),
        IterativePredictor(tiny_trm(skip_blank=True, halt_pool="mask"), 3),
    ]
    return [Solver(predictor, TASK, Canvas(5, 8)) for predictor in predictors]


def figures(solver: Solver) -> list[tuple]:
    """Return the canvas, confidence and steps of each solution of `PROBLEMS`."""
    solutions = solver.solve(PROBLEMS)
    return [(one.canvas.tobytes(), one.row_confidence, one.row_steps) for one in solutions]


def uncached(solver: Solver) -> Solver:
    """Return a solver that computes everything again."""
    return replace(solver, predictor=solver.predictor.with_options())
