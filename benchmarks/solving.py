"""Rows and problems a second of trained models, and their accuracy.

    python benchmarks/solving.py --checkpoint A B --batches 1 128
    python benchmarks/solving.py --digits 1024 1024 --problems 4 --batches 1 --repeats 1

All models solve the same held-out problems in turn, each row built on their own rows. A proved cell
model solves them twice: by looking decisions up, and by running its network. Python's own product
of the same numbers is timed beside them. Batches of 1 measure the latency of a single problem. The
memory of `trm evaluate` grows with the cube of the digits: problems that are too long for it are
solved here one by one.
"""

import argparse
from copy import copy
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import torch
from timing import in_turn, show

from canvas.problems import Problems
from canvas.sequences import tokens_to_write
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.evaluation.grid_cells import cell_problems
from trm.evaluation.models import labels
from trm.evaluation.statistics import Share
from trm.models.gpt import GPT
from trm.solving.solution import Solution
from trm.solving.solver import Solver


def solve(
    solver: Solver, problems: Problems, size: int, bf16: bool, _: int = 0, truth: bool = False
) -> list[Solution]:
    """Solve problems in batches of ``size``, and draw the true solutions if ``truth``."""
    found = []
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        for start in range(0, len(problems), size):
            found += solver.solve(problems[start : start + size], with_truth=truth)
    return found


def with_network(solvers: dict[str, Solver]) -> dict[str, Solver]:
    """Return solvers by name, those that look decisions up also with their network."""
    found = {}
    for name, solver in solvers.items():
        found[name] = solver
        if getattr(solver.predictor, "looks_up", False):
            network: Any = copy(solver.predictor)
            network.may_look_up = False
            found[f"{name}, network"] = replace(solver, predictor=network)
    return found


def product(operands: list[tuple[int, ...]], _: int = 0) -> list[int]:
    """Return Python's products."""
    return [prod(numbers) for numbers in operands]


def main() -> None:
    """Time models in turn, batch size by batch size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", nargs="*", help="models of one task; the shipped one")
    parser.add_argument("--digits", type=int, nargs=2, help="of both; default: training's longest")
    parser.add_argument("--problems", type=int, default=128)
    parser.add_argument("--batches", type=int, nargs="+", default=(1, 16, 128))
    parser.add_argument("--bf16", action="store_true", help="both precisions in turn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    files = options.checkpoint or [str(SHIPPED)]
    solvers = {n: load_solver(f, device="cpu") for n, f in zip(labels(files), files, strict=True)}
    first = next(iter(solvers.values())).task
    digits = tuple(options.digits or first.longest)
    problems = cell_problems(first, digits, options.problems, 0)
    print(
        f"{len(problems)} problems of {' x '.join(map(str, digits))} digits, "
        f"{options.threads} thread(s), {options.repeats} interleaved rounds"
    )
    for name, solver in solvers.items():
        solutions = solve(solver, problems, max(options.batches), False, truth=True)
        rows = sum(len(one.rows) for one in solutions)
        right = Share(sum(one.correct_rows for one in solutions), rows)
        whole = Share(sum(bool(one.exact) for one in solutions), len(solutions))
        model, tokens = solver.predictor.model, ""
        if isinstance(model, GPT):
            tokens = f"; {int(tokens_to_write(solver.draw(problems)).sum()):,} tokens written"
        count = sum(p.numel() for p in model.parameters())
        print(f"{name}: {count:,} parameters; {whole} solutions right, {right} rows{tokens}")
    solvers = with_network(solvers)
    for batch in options.batches:
        runs: dict[str, Any] = {}
        for name, solver in solvers.items():
            for bf16 in (False, True) if options.bf16 else (False,):
                label = f"{name}{' in bfloat16' * bf16}"
                runs[label] = partial(solve, solver, problems, batch, bf16)
        if first.name == "multiplication":
            runs["Python's product"] = partial(product, problems.to_ints())
        taken = in_turn(runs, options.repeats, warm_up=0)
        print(f"\n{batch} at once, seconds a problem")
        show(taken, len(problems))
        print("rows a second")
        show(taken, rows, "rows/s")


if __name__ == "__main__":
    main()
