"""Seconds of training until models solve nearly all held-out problems of the task of trm/quick.

A part of `peers.py`. Ours is configs/trm/quick.yaml, as it is. Peers have its width, heads and
layers, and the cycles of configs/trm/reference.yaml; they are trained by AdamW at ten times the
published learning rate, as some minutes are short, on a canvas of one size, as they need it. All
get the same problems in one precision, in batches of as many row steps, and every one of them is
judged by the same held-out problems, each row built on the model's own rows. Judging takes none of
the time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peer_models import TheirPredictor, Theirs, nano_trm, reference, revision
from row_steps import Batches, Config

from canvas.canvas_size import Canvas
from canvas.sampling import sample
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.training.configs import DepthConfig, OptimizerConfig, ScheduleConfig
from trm.training.depth import fresh_step
from trm.training.losses import step_loss
from trm.training.optimisers import build_optimizer, build_schedule

TASK, SHAPE = "trm/quick", "trm/reference"
ENOUGH = 0.95  # of the problems
PROBLEMS, JUDGED = 100, 50  # held out; training steps from one judgement to the next
LEARNING_RATE = 1e-3  # of peers
SHARED = ("hidden_size", "num_heads", "num_layers")


@dataclass(frozen=True)
class Contestant:
    """One that is trained.

    Attributes:
        batches: of row steps.
        step: trains on a batch, which has a number.
        solver: with the model as it is by then.
        steps: as many as its recipe has; None: without end.
    """

    batches: Batches
    step: Callable[[dict[str, Any], int], None]
    solver: Solver
    steps: int | None = None


def ours(dtype: str) -> Contestant:
    """The TRM; what autocast leaves in float32 stays so."""
    config = Config.read(TASK)
    settings = config.model
    torch.manual_seed(0)
    model = TinyRecursiveModel(RecursiveConfig(**config.network))
    total = config.data["batches_per_epoch"] * config.trainer["max_epochs"]
    optimizer = build_optimizer(model, OptimizerConfig(**settings["optimizer"]))
    schedule = build_schedule(optimizer, ScheduleConfig(**settings["schedule"]), total)
    depth, weights = DepthConfig(**settings["depth"]), settings["loss"]
    loss = partial(
        step_loss,
        loss=weights["name"],
        givens_weight=weights["givens_weight"],
        halt_weight=weights["halt_weight"],
    )

    def step(batch: dict[str, Any], number: int) -> None:
        with torch.autocast("cpu", getattr(torch, dtype), enabled=dtype != "float32"):
            result = fresh_step(model.train(), batch, depth, loss, seed=number)
        result.loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    solver = Solver(IterativePredictor(model, settings["solve_steps"]), config.task, config.canvas)
    return Contestant(config.batches(config.data["batch_size"]), step, solver, total)


def peer(make: Callable[..., Theirs], folder: Path, dtype: str) -> Contestant:
    """A peer's model on the same task, in the precision that it is made for."""
    config, shape = Config.read(TASK), Config.read(SHAPE)
    shape.network.update({name: config.network[name] for name in SHARED})
    shape.network["prefix_size"] = shape.network["hidden_size"]
    size, batch_size = config.canvas.size(*config.task.extent()), config.data["batch_size"]
    theirs = make(folder, shape.model, batch_size, size[0] * size[1], dtype)
    optimizer = torch.optim.AdamW(
        theirs.model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1
    )

    def step(batch: dict[str, Any], number: int) -> None:
        theirs.model.train()
        theirs.loss(batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    canvas = Canvas(*size)
    solver = Solver(TheirPredictor(theirs, size), config.task, canvas)
    return Contestant(config.batches(batch_size, canvas), step, solver)


def race(folders: dict[str, Path | None], minutes: float, dtype: str) -> None:
    """Train one after the other, and print how it went.

    Args:
        folders: of the checkouts; those that are None are left out.
        minutes: of training, at most.
        dtype: of the matrix products, float32 or bfloat16.
    """
    makers = {"reference": reference, "nano-trm": nano_trm}
    contestants: dict[str, Callable[[], Contestant]] = {"ours": partial(ours, dtype)}
    for name, folder in folders.items():
        if folder is not None:
            contestants[f"{folder.resolve().name} {revision(folder)}"] = partial(
                peer, makers[name], folder, dtype
            )
    print(
        f"\ntraining on configs/{TASK}.yaml's task until {ENOUGH:.0%} of {PROBLEMS} held-out "
        f"problems are solved, for {minutes:g} minutes at most, in {dtype}"
    )
    for name, start in contestants.items():
        contestant = start()
        count = sum(p.numel() for p in contestant.solver.predictor.model.parameters())
        steps, seconds, solved = _train(contestant, 60 * minutes)
        print(
            f"    {seconds:>7.0f} s {steps:>6,} steps {solved:>7.0%} solved  {name}, "
            f"{count:,} parameters",
            flush=True,
        )


def _train(one: Contestant, most: float) -> tuple[int, float, float]:
    """Training steps, their seconds, and the share of problems that are solved after them."""
    problems = sample(one.solver.task.evenly(), 0, "test", 0, np.arange(PROBLEMS))
    seconds, steps, solved = 0.0, 0, 0.0
    while seconds < most and solved < ENOUGH and steps != one.steps:
        start = time.perf_counter()
        one.step(one.batches[steps], steps)
        seconds += time.perf_counter() - start
        steps += 1
        if not steps % JUDGED:
            one.solver.predictor.model.eval()
            with torch.inference_mode():
                solutions = one.solver.solve(problems)
            solved = float(np.mean([solution.correct for solution in solutions]))
    return steps, seconds, solved
