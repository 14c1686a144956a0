"""Cell models in integers beside float32: size of the files, and speed of the networks.

    python benchmarks/integers.py

Each pair of files is one model in float32, and in integers. Batches of the inputs that its cells
can have run through both networks in turn, on one thread. Seconds are of processor time, as other
programs may keep the cores busy.
"""

import argparse
import statistics
import time

import torch

from canvas.cells.reachable import reachable_op_inputs
from trm import load_solver
from trm.cells.quantise import differing, some_of
from trm.checkpoints import find_checkpoint
from trm.io.markdown import table

PAIRS = (
    ("lattice", "lattice-int8-seed2"),
    ("written-seed1", "written-int4-seed1"),
    ("column-seed0", "column-int4-seed0"),
)
_BATCH = 2048


@torch.no_grad()
def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pairs", nargs="+", default=[":".join(pair) for pair in PAIRS])
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for names in (pair.split(":") for pair in options.pairs):
        solvers = [load_solver(name, device="cpu") for name in names]
        models = [solver.predictor.model for solver in solvers]
        every = torch.from_numpy(reachable_op_inputs(solvers[0].task.local_rule()))
        ids = some_of(models[0], every)
        batch = ids[:_BATCH]
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for number in range(1 + options.rounds):
            for name, model in zip(names, models, strict=True):
                tables, inputs = model.message_tables(), model.reader.decode(batch)
                start = time.process_time()
                model.cells(inputs, tables)
                if number:  # the first round allocates
                    seconds[name].append(time.process_time() - start)
        first = statistics.median(seconds[names[0]])
        differ = differing(models[0], models[1], ids)
        for name, solver in zip(names, solvers, strict=True):
            size, middle = find_checkpoint(name).stat().st_size, statistics.median(seconds[name])
            spread = f"{min(seconds[name]) * 1e3:.1f} to {max(seconds[name]) * 1e3:.1f}"
            verdict = "proved" if solver.predictor.certain else "not proved"
            rows.append(
                [name, f"{size:,}", f"{middle * 1e3:.1f} ({spread})", f"{middle / first:.2f}"]
            )
            rows[-1] += [verdict, f"{differ:,} of {len(ids):,}"]
    head = ["model", "bytes", f"ms for {_BATCH:,} inputs at most", "time", "verdict", "differ"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
