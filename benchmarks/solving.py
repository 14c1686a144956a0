"""Rows per second of free-running solving with an untrained model of the shape of trm/quick.

The shape and the number of supervision steps are read from configs/trm/quick.yaml.
Untrained, so that the number of supervision steps is known: every row takes all of them. A trained
model halts earlier and is quicker by the share of steps it saves.
"""

import argparse
import statistics
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
import yaml

from canvas.multiplication import Multiplication
from canvas.render import Drawing, draw
from canvas.sampling import sample
from trm.models.recursive import RecursiveConfig, TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor

CONFIG = Path(__file__).parents[1] / "configs/trm/quick.yaml"


def timed(predictor: IterativePredictor, drawing: Drawing, bf16: bool) -> float:
    """Seconds to fill every row of every canvas."""
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
        predictor.free_running(drawing)
    return time.perf_counter() - start


def main() -> None:
    """Time batch sizes and precisions in turn."""
    settings = yaml.safe_load(CONFIG.read_text())["model"]["init_args"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, nargs=2, default=(3, 2), help="of a and b")
    parser.add_argument("--batches", type=int, nargs="+", default=(1, 16, 128))
    parser.add_argument(
        "--steps", type=int, default=settings["solve_steps"], help="supervision steps a row"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    torch.manual_seed(0)
    model = TinyRecursiveModel(RecursiveConfig(**settings["network"]["init_args"]["config"])).eval()
    predictor = IterativePredictor(model, options.steps, halt=False)
    n, m = options.digits
    task = Multiplication("lattice", digits_a=(n, n), digits_b=(m, m))
    height, width = (cells + 2 for cells in task.extent())
    drawings = {}
    for batch in options.batches:
        problems = sample(task, 0, "test", 0, np.arange(batch))
        drawings[batch] = draw(task.rules.prompt(problems), height, width, 1, 1)

    cases = [(batch, bf16) for batch in options.batches for bf16 in (False, True)]
    seconds: dict[tuple[int, bool], list[float]] = {case: [] for case in cases}
    for repeat in range(options.repeats + 1):
        for batch, bf16 in cases:
            took = timed(predictor, drawings[batch], bf16)
            if repeat:  # the first round also allocates
                seconds[batch, bf16].append(took)

    print(
        f"{n} x {m} digits, lattice on {height} x {width}, {options.steps} steps a row, "
        f"{options.threads} thread(s), median of {options.repeats} interleaved repeats"
    )
    print(f"{'batch':>6}  {'fp32 rows/s':>12}  {'bf16 rows/s':>12}  {'ratio':>6}")
    for batch in options.batches:
        rows = int(drawings[batch].steps.sum())
        full, half = (rows / statistics.median(seconds[batch, bf16]) for bf16 in (False, True))
        print(f"{batch:>6}  {full:>12,.1f}  {half:>12,.1f}  {half / full:>6.2f}")


if __name__ == "__main__":
    main()
