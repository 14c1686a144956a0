"""Training and solving on an accelerator: steps, share of its peak, data, memory, rows a second.

    python benchmarks/gpu.py --reference TinyRecursiveModels --peak 989

The shape and the task of configs/trm/reference.yaml, at its precision and batch size, eager and
compiled, beside a checkout of the published TRM (optional); then rows that the shipped model and
that shape solve. About ten minutes. --peak is what the device can do in bfloat16, in TFLOP a
second, by its data sheet: the share of it that a training step reaches is of matrix products and
attention alone. With --devices N, `trm fit` is timed on one device and on N.

It runs anywhere: `--device cpu --batch 2 --steps 1 --eager` tries it out, in float32, and says
nothing of speed.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peer_models import reference, revision
from row_steps import Config
from torch import Tensor

from canvas.sampling import sample
from trm import load_solver
from trm.flops import counted_flops
from trm.models.configs import RecursiveConfig
from trm.models.halting import Carry
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.training.compilation import GRAPHS, Compile, begin_step, compiled
from trm.training.configs import DepthConfig
from trm.training.depth import carried_step, fresh_step
from trm.training.losses import step_loss

CONFIG = "trm/reference"
STEPS = 4  # supervision steps a row of a model that has learned nothing


class Training:
    """Training steps of one model.

    Args:
        model: on its device.
        loss: of a batch.
    """

    def __init__(self, model: torch.nn.Module, loss: Callable[[dict[str, Tensor]], Tensor]) -> None:
        self.model, self.loss = model.train(), loss
        self.device = next(model.parameters()).device
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(self, batch: dict[str, Tensor]) -> None:
        """Loss, gradients, AdamW."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type != "cpu"):
            loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def seconds(self, batches: list[dict[str, Tensor]]) -> list[float]:
        """Of each step, the device being waited for."""
        taken = []
        for batch in batches:
            _wait(self.device)
            begun = time.perf_counter()
            self.step(batch)
            _wait(self.device)
            taken.append(time.perf_counter() - begun)
        return taken


def ours(config: Config, device: str, mode: Compile, **tokens: bool) -> Training:
    """This package's model; one whose tokens differ in number starts every batch anew."""
    torch.manual_seed(0)
    model = TinyRecursiveModel(RecursiveConfig(**config.network, **tokens)).to(device)
    depth = DepthConfig(**config.model["depth"])
    if mode:
        model.iterate = compiled(model.iterate, mode)  # type: ignore[method-assign]
    carry: Carry | None = None

    def loss(batch: dict[str, Tensor]) -> Tensor:
        nonlocal carry
        begin_step(mode)
        if tokens:
            fresh = DepthConfig(schedule="fresh", free_steps=(0, 0), supervised_steps=1)
            return fresh_step(model, batch, fresh, _loss, seed=0).loss
        result, carry = carried_step(model, batch, carry, depth, _loss)
        return result.loss

    return Training(model, loss)


def _loss(*tensors: Tensor) -> Any:
    return step_loss(*tensors, loss="stablemax", givens_weight=0.0, halt_weight=0.5)


def theirs(folder: Path, config: Config, device: str, batch: int, faster: bool) -> Training:
    """The published TRM."""
    cells = config.data["canvas"]["height"] * config.data["canvas"]["width"]
    with torch.device(device):
        dtype = "float32" if device == "cpu" else "bfloat16"
        peer = reference(folder, config.model, batch, cells, dtype)
    if faster:
        peer.model = torch.compile(peer.model)

    def loss(batch: dict[str, Tensor]) -> Tensor:
        with torch.device(device):  # its states are made where the code says
            return peer.loss(batch)

    return Training(peer.model, loss)


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def training(options: argparse.Namespace) -> None:
    """A line for each model."""
    config = Config.read(CONFIG)
    drawn = config.batches(options.batch)
    count = options.steps + 2  # the first ones allocate, and compile
    begun = time.perf_counter()
    several = [drawn[i] for i in range(count)]
    drawing = (time.perf_counter() - begun) / count
    batches = [
        {name: tensor.to(options.device) for name, tensor in batch.items()} for batch in several
    ]
    makers: dict[str, Callable[[], Training]] = {}
    modes: dict[str, Compile] = {"eager": False, "compiled": True, "as CUDA graphs": GRAPHS}
    for how, mode in list(modes.items())[: 1 if options.eager else None]:
        if options.reference and mode != GRAPHS:
            name = f"{options.reference.resolve().name} {revision(options.reference)}, {how}"
            makers[name] = lambda c=mode: theirs(
                options.reference, config, options.device, options.batch, bool(c)
            )
        makers[f"ours, {how}"] = lambda c=mode: ours(config, options.device, c)
    makers["ours, eager, `crop: true`"] = lambda: ours(config, options.device, False, crop=True)
    makers["ours, eager, `skip_blank: true`"] = lambda: ours(
        config, options.device, False, skip_blank=True
    )
    print(f"\ntraining, batch {options.batch}; a batch is drawn in {drawing:.3f} s by one process")
    print(f"{'steps/s':>9} {'ratio':>6} {'TFLOP/step':>11} {'of peak':>8} {'GiB':>6}")
    first = None
    for name, make in makers.items():
        if options.device != "cpu":
            torch.accelerator.empty_cache()
            torch.accelerator.reset_peak_memory_stats()
        one = make()
        median = statistics.median(one.seconds(batches)[2:])
        memory = "-" if options.device == "cpu" else _gibibytes()
        with counted_flops() as counter:
            one.step(batches[0])
        flops = counter.get_total_flops() / 1e12
        first = first or median
        share = f"{flops / median / options.peak:8.1%}" if options.peak else f"{'-':>8}"
        speed = f"{1 / median:>9.3f} {first / median:>5.2f}x"
        print(f"{speed} {flops:>11.3f} {share} {memory:>6}  {name}", flush=True)


def _gibibytes() -> str:
    return f"{torch.accelerator.max_memory_allocated() / 2**30:.1f}"


def solving(options: argparse.Namespace) -> None:
    """Rows a second, each built on the model's own rows."""
    config = Config.read(CONFIG)
    torch.manual_seed(0)
    model = TinyRecursiveModel(RecursiveConfig(**config.network)).to(options.device).eval()
    untrained = Solver(IterativePredictor(model, STEPS, halt=False), config.task, config.canvas)
    print(f"\nsolving {options.batch} problems at once, rows a second")
    solvers = {
        "the shipped model, in order": load_solver(device=options.device),
        f"{CONFIG}, untrained, {STEPS} steps a row": untrained,
    }
    for name, solver in solvers.items():
        problems = sample(solver.task.evenly(), 0, "test", 0, np.arange(options.batch))
        for half in (False,) if options.device == "cpu" else (False, True):
            rates = []
            for _ in range(options.steps + 1):
                begun = time.perf_counter()
                with torch.autocast(options.device.split(":")[0], torch.bfloat16, enabled=half):
                    solutions = solver.solve(problems)
                rows = sum(len(solution.rows) for solution in solutions)
                rates.append(rows / (time.perf_counter() - begun))
            precision = "bfloat16" if half else "float32"
            print(f"{statistics.median(rates[1:]):>10,.0f}  {name}, {precision}", flush=True)


def devices(options: argparse.Namespace) -> None:
    """Samples a second of `trm fit` itself, on one device and on several."""
    print("\n`trm fit`, samples a second, as TensorBoard has them")
    words = ["-m", "trm", "fit", "--config", CONFIG, "--data.batch_size", str(options.batch)]
    words += ["--trainer.max_steps", "100", "--data.batches_per_epoch", "100"]
    words += ["--data.validation_problems", "8", "--data.training_problems", "0", "--quiet"]
    for number in sorted({1, options.devices}):
        with tempfile.TemporaryDirectory() as folder:
            more = ["--trainer.devices", str(number), "--trainer.log_every_n_steps", "10"]
            subprocess.run([sys.executable, *words, *more], cwd=folder, check=True)
            found = subprocess.run(
                [sys.executable, "-c", _READ, folder], capture_output=True, text=True, check=True
            )
        rates = [float(rate) for rate in re.findall(r"\S+", found.stdout)]
        print(f"{statistics.median(rates[1:]):>10,.0f}  {number} device(s)", flush=True)


_READ = """
import sys
from pathlib import Path
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(str(next(Path(sys.argv[1]).glob("runs/*/version_0"))))
events.Reload()
print(*(event.value for event in events.Scalars("speed/samples_per_second")))
"""


def main() -> None:
    """Measure one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, metavar="DIR", help="a checkout of it")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=Config.read(CONFIG).data["batch_size"])
    parser.add_argument("--steps", type=int, default=10, help="that are timed of each")
    parser.add_argument("--peak", type=float, help="TFLOP a second in bfloat16, by the data sheet")
    parser.add_argument("--eager", action="store_true", help="compile nothing")
    parser.add_argument("--devices", type=int, default=0, help="that `trm fit` is timed on, too")
    options = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {options.device}, {options.steps} steps of each, medians")
    training(options)
    solving(options)
    if options.devices:
        devices(options)


if __name__ == "__main__":
    main()
