"""The table of the RASP lecture: tasks on texts, each learned by two small models.

    python benchmarks/lecture.py --output lecture            # in the checkout; all tasks
    python benchmarks/lecture.py --output lecture sort.Sort --families gpt

Each model learns texts of 1 to 8 letters from labels of the answer alone; positions and attention
are given, all else is learned. Measured are whole answers to held-out texts of 8 and of 16 letters,
and how much of the attention of the best head lies on the cells that a selector of the task's
program selects. `results.json` in the folder keeps what is finished; a second call goes on.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from canvas.choices import load_class
from canvas.task import Task
from trm import load_solver
from trm.evaluation.grid_cells import cell_problems
from trm.evaluation.statistics import Share
from trm.extras.analysis.rasp_heads import compare_heads
from trm.io.markdown import table
from trm.training.cli import run

TASKS = (
    *("reverse.Reverse", "histogram.Histogram", "double_histogram.DoubleHistogram", "sort.Sort"),
    *("most_frequent.MostFrequent", "dyck1.Dyck1", "dyck2.Dyck2"),
)
FAMILIES = {"trm": "recursive transformer", "gpt": "GPT"}
LENGTHS = (8, 16)  # the longest of training, and twice that
FOLDER = Path(__file__).parents[1] / "examples/lecture"


def learned(name: str, family: str, output: Path, epochs: int, seed: int) -> dict[str, Any]:
    """Train a model, and return what is measured of it."""
    begun, run_name = time.process_time(), f"{family}-{name.partition('.')[0]}-seed{seed}"
    settings = {
        "seed_everything": seed,
        "data.seed": seed,
        "data.task": f"examples.lecture.{name}",
        "trainer.max_epochs": epochs,
        "trainer.check_val_every_n_epoch": epochs,
        "trainer.logger.init_args.save_dir": output,
        "trainer.logger.init_args.name": run_name,
    }
    options = [f"--{key}={value}" for key, value in settings.items()]
    run(["fit", f"--config={FOLDER / f'{family}.yaml'}", *options], quiet=True)
    seconds, solver = time.process_time() - begun, load_solver(output / run_name, device="cpu")
    found: dict[str, Any] = {"seconds": round(seconds), "epochs": epochs, "accuracy": {}}
    found["parameters"] = solver.predictor.model.num_parameters
    for length in LENGTHS:
        problems = cell_problems(solver.task, (length,), 200, 0)
        solutions = solver.solve(problems)
        found["accuracy"][length] = [sum(one.correct for one in solutions), len(solutions)]
    found["heads"] = {}
    compared = compare_heads(solver, {"length": LENGTHS[0], "texts": 1}, problems=16)
    for selector in compared.program_selectors:
        best = max((head.of(selector) for head in compared.heads), key=lambda one: one.gain)
        shares = (best.overlap, best.low, best.high, best.baseline)
        found["heads"][selector] = [round(share, 3) for share in shares]
    return found


def print_table(results: dict[str, dict[str, Any]]) -> None:
    """Print finished models as a table in Markdown."""
    rows = []
    for key, found in results.items():
        name, family, seed = key.split()
        shares = [Share(*counts) for counts in found["accuracy"].values()]
        heads = (
            f"{selector} {share:.2f} [{low:.2f}, {high:.2f}], uniform {uniform:.2f}"
            for selector, (share, low, high, uniform) in found["heads"].items()
        )
        task: Task = load_class(f"examples.lecture.{name}", Task, "task")()
        figures = [f"{share.short}, n = {share.total}" for share in shares]
        cells = [task.name, FAMILIES[family], seed, *figures, "; ".join(heads)]
        rows.append([*cells, str(found["seconds"])])
    lengths = [f"{length} letters, %" for length in LENGTHS]
    print(table(["task", "model", "seed", *lengths, "best head", "processor seconds"], rows))


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks", nargs="*", default=TASKS, help=f"default: {', '.join(TASKS)}")
    parser.add_argument("--output", type=Path, required=True, help="folder of runs and results")
    parser.add_argument("--families", nargs="*", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--epochs", type=int, default=6, help="of 200 steps (default: 6)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    file = args.output / "results.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name in args.tasks:
        for family in args.families:
            key = f"{name} {family} {args.seed}"
            if key not in results:
                found = learned(name, family, args.output, args.epochs, args.seed)
                results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
                file.write_text(json.dumps(results | {key: found}, indent=1), encoding="utf-8")
                results[key] = found
    print_table(results)


if __name__ == "__main__":
    main()
