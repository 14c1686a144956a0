"""Attention to the nearest written cells: a table of all pairs, and lists of the few keys seen.

The network is untrained and of the shape of configs/generalise/decimal.yaml, and fills in the last
row of each canvas, the longest input that its problem has.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
import yaml

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.render import row_step
from canvas.sampling import sample
from canvas.symbols import BLANK
from trm.models import bias
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver

CONFIG = Path(__file__).parents[1] / "configs/generalise/decimal.yaml"
STEPS = 3


def main() -> None:
    """Time both ways in turn, for longer and longer operands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, nargs="+", default=(8, 16, 24, 32), help="of a and b")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    torch.manual_seed(0)
    network = yaml.safe_load(CONFIG.read_text())["model"]["init_args"]["network"]
    model = TinyRecursiveModel(RecursiveConfig(**network["init_args"]["config"])).eval()
    print(f"batches of {options.batch}, {STEPS} supervision steps, {options.threads} thread(s)")
    print(f"{'digits':>8}  {'tokens':>6}  {'all pairs':>9}  {'lists':>7}  {'ratio':>6}")
    for n in options.digits:
        task = Multiplication("lattice", digits_a=(n, n), digits_b=(n, n))
        solver = Solver(IterativePredictor(model, STEPS), task, Canvas())
        drawing = solver.draw_worked(sample(task, 0, "test", 0, np.arange(options.batch)))
        inputs = torch.from_numpy(row_step(drawing, drawing.steps - 1).inputs)
        ways = {"pairs": 10**9, "lists": 0}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for repeat in range(options.repeats + 1):
            for way, few_from in ways.items():
                bias.FEW_FROM = few_from
                start = time.perf_counter()
                with torch.no_grad():
                    model(inputs, steps=STEPS)
                if repeat:  # the first round also allocates
                    seconds[way].append(time.perf_counter() - start)
        pairs, lists = (statistics.median(seconds[way]) for way in ways)
        tokens = int((inputs != BLANK).sum(dim=(1, 2)).max())
        print(
            f"{n:>3} x {n:<2}  {tokens:>6}  {pairs:>8.2f}s  {lists:>6.2f}s  {pairs / lists:>6.2f}"
        )


if __name__ == "__main__":
    main()
