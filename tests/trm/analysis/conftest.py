"""Tiny models that multiply in base 3, with random weights, and a study of one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from trm.analysis.probe_report import ProbeStudy
from trm.analysis.probe_study import Settings, run_probes
from trm.models.configs import GPTConfig, LocalConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.local import LocalRecursiveModel
from trm.models.recursive import TinyRecursiveModel
from trm.solving.gpt_predictor import Calibration, GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.local_predictor import LocalPredictor
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver

TASK = Multiplication("standard", base=3, digits_a=(1, 2), digits_b=(1, 2))
SMALL = {"hidden_size": 16, "num_heads": 2, "num_layers": 2, "intermediate_size": 16}
CANVAS = {"position": "relative_2d", "neighbourhood": "local_lines", "halt_pool": "mask"}
QUICK = Settings(steps=(1, 2), problems=4, train_problems=24, cells=6, iterations=8)
SIZES = [{"digits_a": 2, "digits_b": 2}, {"digits_a": 3, "digits_b": 2}]

Make = Callable[..., Solver]


class Looped(TinyRecursiveModel):
    """One state, to which the input is added in every loop, an H cycle: a model of another kind."""

    @property
    def updates(self):
        return ("state",) * self.config.H_cycles

    def initial_state(self, context):
        return torch.zeros_like(context.inputs)

    def iterate(self, context, state):
        for _ in range(self.config.H_cycles):
            state = self.network(state + context.inputs, context)
        return state

    def read(self, state, context):
        return self.heads(state, context)


@pytest.fixture(scope="session")
def make_solver() -> Make:
    def make(family: str = "recursive", canvas: Canvas | None = None, **more: Any) -> Solver:
        torch.manual_seed(0)
        predictor: Predictor
        if family == "gpt":
            gpt = GPT(
                GPTConfig(**{"position": "rope_2d", "hidden_size": 16, "num_heads": 2} | more)
            )
            predictor = GPTPredictor(gpt.eval(), Calibration())
        elif family == "local":
            shape = {"hidden_size": 16, "num_heads": 2, "intermediate_size": 16}
            local = LocalRecursiveModel(LocalConfig(**TASK.local_rule().network, **shape))
            predictor = LocalPredictor(local.eval())
        elif family == "looped":
            looped = Looped(RecursiveConfig(**SMALL | CANVAS | {"H_cycles": 1} | more))
            predictor = IterativePredictor(looped.eval(), 4)
        else:
            config = RecursiveConfig(**SMALL | CANVAS | {"H_cycles": 1, "L_cycles": 1} | more)
            predictor = IterativePredictor(TinyRecursiveModel(config).eval(), 4)
        return Solver(predictor, TASK, canvas or Canvas())

    return make


@pytest.fixture(scope="session")
def study(make_solver: Make) -> ProbeStudy:
    """A study of a model with heads, on two sizes and one that has no problem."""
    solver = make_solver("local")
    found = run_probes(solver, [*SIZES, {"digits_a": 1, "digits_b": 1}], QUICK)
    return replace(found, model={"name": "tiny", "solve_steps": 4})
