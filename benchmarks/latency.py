"""Milliseconds a problem, and of a GPT a token, of trained models: latency against depth.

One problem at a time, as somebody waits for it; all models solve the same problems, in turn.
"""

import argparse
import statistics
import time

import torch

from canvas.render import tokens_to_write
from trm.checkpoints.loading import load_solver
from trm.commands.arguments import whole
from trm.evaluation.cell_problems import cell_problems
from trm.evaluation.models import labels
from trm.models.gpt import GPT


def main() -> None:
    """Time checkpoints in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", nargs="+", required=True, help="such as depth/points/*/")
    parser.add_argument(
        "--problems", type=whole(1), default=8, help="as long as the longest of training"
    )
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--threads", type=whole(1), default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    solvers = dict(
        zip(labels(options.checkpoint), map(load_solver, options.checkpoint), strict=True)
    )
    if len({(s.task.name, s.task.base, s.task.longest) for s in solvers.values()}) > 1:
        parser.error(
            "the models were trained on different problems: name some of one task and range"
        )
    first = next(iter(solvers.values())).task
    problems = cell_problems(first, first.longest, options.problems, 0)
    if not len(problems):
        parser.error("no problem of training's longest operands is held out")
    seconds: dict[str, list[float]] = {name: [] for name in solvers}
    for repeat in range(options.repeats + 1):
        for name, solver in solvers.items():
            start = time.perf_counter()
            for i in range(len(problems)):
                solver.solve(problems[i : i + 1])
            if repeat:  # the first round also allocates
                seconds[name].append(time.perf_counter() - start)
    least = statistics.median(next(iter(seconds.values())))
    print(
        f"{len(problems)} problems one by one, {options.threads} thread(s), median of "
        f"{options.repeats} interleaved repeats; ratio to the first"
    )
    print(
        f"{'model':<24}  {'parameters':>10}  {'layers':>6}  {'ms/problem':>10}  {'ms/token':>8}  "
        f"{'ratio':>6}"
    )
    for name, solver in solvers.items():
        took = statistics.median(seconds[name])
        model = solver.predictor.model
        token = "-"
        if isinstance(model, GPT):
            written = int(tokens_to_write(solver.draw(problems)).sum())
            token = f"{1000 * took / written:.2f}"
        print(
            f"{name:<24}  {sum(p.numel() for p in model.parameters()):>10,}  "
            f"{len(getattr(model, 'layers', ())):>6}  {1000 * took / len(problems):>10.1f}  "
            f"{token:>8}  {took / least:>6.2f}"
        )


if __name__ == "__main__":
    main()
