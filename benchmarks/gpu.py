"""Table of training and solving on an accelerator: speed, share of its peak, memory, data.

    python benchmarks/gpu.py --reference TinyRecursiveModels --output gpu.md

Shape, task and batches are those of configs/trm/reference.yaml. Measured are:

- training steps in bfloat16 and float32, eager and compiled, compared with a checkout of the
  published TRM (optional; it needs einops and pydantic)
- the share of a step's time for drawing its batch
- rows a second that the shipped model and a model of that shape solve
- `trm fit` on one device and on all

The most important cases come first. The table is rewritten after each line. A failed case has a
line, too; a case that runs out of memory is repeated with half as many samples.

It runs anywhere: `--device cpu --tiny --batch 4 --steps 1 --eager` is a trial without meaningful
speeds.
"""

import argparse
import gc
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import albumentations as A
import numpy as np
import torch
from peers import Ours, reference, title
from timing import Config, even

from augment.transforms import CanvasShift
from canvas.sampling import sample
from trm import load_solver
from trm.io.markdown import safe, table
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.runtime.devices import cores
from trm.runtime.flops import counted_flops, known_peak
from trm.runtime.limits import lacks_memory
from trm.runtime.precision import cpu_multiplies_bfloat16
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.training.data import CanvasDataModule

CONFIG = "trm/reference"
TINY = {"hidden_size": 16, "num_heads": 2, "H_cycles": 2, "L_cycles": 1, "prefix_size": 16}
SOLVING_STEPS = 4  # supervision steps a row of an untrained model
WARM_UP = 3  # steps that are not timed: they allocate and compile
SECONDS = 30  # most time of a case, after at least one timed step
LOGGED = 10  # steps of `trm fit` for one figure of its speed
FLOAT32, BFLOAT16 = "float32", "bfloat16"
TRAINING, DATA, SOLVING = "Training steps", "Data in a training step", "Rows solved"
FIT = "`trm fit`"
COLUMNS = {
    TRAINING: ("batch", "steps/s", "samples/s", "ratio", "TFLOP/step", "of peak", "GiB"),
    DATA: ("batch", "data, ms", "step, ms", "share of data"),
    SOLVING: ("problems", "rows/s"),
    FIT: ("batch", "samples/s", "ratio"),
}
OUT_OF_MEMORY, NO_TIME = "out of memory", "not run: the time was up"

Cells = dict[str, str]  # column → text, for a line of a table
Case = tuple[str, str, str, Callable[..., Cells]]  # section, name, precision, measuring function


class Report:
    """Tables that grow line by line, on the terminal and in a file."""

    def __init__(self, output: Path | None, title: str) -> None:
        self.output, self.title = output, title
        self.rows: dict[str, list[list[str]]] = {}
        print(title, flush=True)

    def add(self, section: str, name: str, precision: str, cells: Cells, remark: str = "") -> None:
        """Add a line and write the tables at once."""
        measured = [cells.get(column, "-") for column in COLUMNS[section]]
        self.rows.setdefault(section, []).append([name, precision, *measured, remark])
        print(f"{section}: {name}, {precision}: {cells} {remark}", flush=True)
        parts = [self.title]
        for part, rows in self.rows.items():
            heads = ["", "computed in", *COLUMNS[part], "remarks"]
            parts += [f"## {part}", table(heads, rows)]
        if self.output:
            self.output.write_text("\n\n".join(parts) + "\n", encoding="utf-8")

    def run(self, case: Case, batch: int) -> None:
        """Measure a case, with fewer samples if memory is too small, and write the result."""
        section, name, precision, measure = case
        for size in (batch, batch // 2, batch // 4, batch // 8):
            cells, remark = {COLUMNS[section][0]: f"{size}"}, ""
            try:
                cells |= measure(batch=max(1, size))
            except Exception as error:  # of any kind: the next case is independent of it
                remark = in_few_words(error)
            # Outside of the clause: within it, the error keeps the tensors of its frames alive.
            torch.compiler.reset()
            gc.collect()
            if torch.accelerator.is_available():
                with suppress(RuntimeError):  # raised by a device in an unusable state
                    torch.accelerator.empty_cache()
                    torch.accelerator.reset_peak_memory_stats()
            self.add(section, name, precision, cells, remark)
            if remark != OUT_OF_MEMORY or size <= 1:
                return


def in_few_words(error: Exception) -> str:
    """Describe an error in the cell of a table."""
    if lacks_memory(error):
        return OUT_OF_MEMORY
    text = " ".join(str(error).split())
    return safe(f"failed: {type(error).__name__}: {text[:100]}")


class Benchmark:
    """Cases of the benchmark and their measurement."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, options.device
        self.end = time.monotonic() + 60 * options.minutes
        self.config = Config.read(CONFIG)
        if options.tiny:
            self.config.network.update(TINY)
        self.kind = torch.device(self.device).type
        halves = self.kind != "cpu" or cpu_multiplies_bfloat16()
        self.precisions = (BFLOAT16, FLOAT32) if halves else (FLOAT32,)
        self.best = self.precisions[0]  # precision of training
        self.count = options.devices
        if self.count is None:
            self.count = 1 if self.kind == "cpu" else torch.accelerator.device_count()
        self.name = torch.cuda.get_device_name(self.device) if self.kind == "cuda" else self.kind
        self.peak = options.peak or known_peak(self.name)
        self.flops: dict[tuple[str, int], float] = {}  # of a step, in TFLOP
        self.first: dict[str, float] = {}  # samples a second of each section's first line

    def run(self, report: Report) -> None:
        """Measure one case after the other, until the time is up."""
        for case in self.cases():
            if time.monotonic() < self.end:
                report.run(case, self.options.batch)
            else:
                report.add(*case[:3], {}, NO_TIME)

    def title(self) -> str:
        """Return the text above the tables."""
        peak = f"{self.peak:g} TFLOP/s in bfloat16" if self.peak else "not known, give --peak"
        return (
            f"# {CONFIG}{' with a tiny network' if self.options.tiny else ''} on {self.count} of "
            f"{self.name}\n\nPyTorch {torch.__version__}, CUDA {torch.version.cuda or 'none'}, "
            f"{cores()} CPU cores; peak {peak}. Medians; a case ends after {self.options.steps} "
            f"steps or {SECONDS} s. float32 is without TF32."
        )

    def cases(self) -> Iterator[Case]:
        """Yield the cases, the most important ones first."""
        best, eager = self.best, self.options.eager
        if folder := self.options.reference:
            yield TRAINING, f"{title(folder)}, eager", best, partial(self.step, "theirs", best)
        yield TRAINING, "ours, eager", best, partial(self.step, "ours", best)
        if not eager:
            yield TRAINING, "ours, compiled", best, partial(self.step, "ours", best, True)
        for workers in (0, min(cores(), self.config.data["workers"])):
            for turned in (False, True):
                who = f"by {workers} worker processes" if workers else "by the training process"
                name = f"drawn {who}{', turned' if turned else ''}"
                yield DATA, name, best, partial(self.data, workers, turned)
        for precision in self.precisions:
            name = "the shipped model, in order"
            yield SOLVING, name, precision, partial(self.solve, True, precision)
        untrained = f"{CONFIG}, untrained, {SOLVING_STEPS} steps a row"
        yield SOLVING, untrained, best, partial(self.solve, False, best)
        for number in sorted({1, self.count}) if self.count else ():
            yield FIT, f"{number} device{'s' * (number > 1)}", best, partial(self.fit, number)
        if folder and not eager:
            yield (
                TRAINING,
                f"{title(folder)}, compiled",
                best,
                partial(self.step, "theirs", best, True),
            )
        for name in ("crop", "skip_blank"):
            run = partial(self.step, f"ours {name}", best, **{name: True})
            yield TRAINING, f"ours, eager, `{name}: true`", best, run
        if len(self.precisions) > 1:
            yield TRAINING, "ours, eager", FLOAT32, partial(self.step, "ours", FLOAT32)
            if not eager:
                yield TRAINING, "ours, compiled", FLOAT32, partial(self.step, "ours", FLOAT32, True)
            yield SOLVING, untrained, FLOAT32, partial(self.solve, False, FLOAT32)

    def model(self, which: str, precision: str, batch: int, compiled: bool, **tokens: bool) -> Any:
        """Return an object with a model and a loss: this package's, or the published TRM's."""
        if which != "theirs":
            one = Ours(self.config, **tokens)
            one.model.to(self.device)
            if compiled:
                one.model.iterate = torch.compile(  # type: ignore[method-assign]
                    one.model.iterate, dynamic=True
                )
            return one
        cells = self.config.data["canvas"]["height"] * self.config.data["canvas"]["width"]
        with torch.device(self.device):
            peer = reference(self.options.reference, self.config, batch, cells, precision)
        loss = peer.loss

        def on_device(batch: dict[str, Any]) -> Any:
            with torch.device(self.device):  # the peer's code makes its states on this device
                return loss(batch)

        peer.loss = on_device  # type: ignore[method-assign]
        if compiled:
            peer.model = torch.compile(peer.model)
        return peer

    def train(
        self, one: Any, precision: str, batches: Iterator[Any]
    ) -> tuple[list[tuple[float, float]], Callable[[Any], None]]:
        """Train on batches; return the seconds of each timed step, and the step function.

        The seconds are those of waiting for the batch, and those of the step itself.
        """
        optimizer = torch.optim.AdamW(one.model.train().parameters(), lr=1e-4)

        def step(batch: Any) -> None:
            half = precision == BFLOAT16  # as Lightning's bf16-mixed
            with torch.autocast(self.kind, torch.bfloat16, enabled=half):
                loss = one.loss(batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        def now() -> float:
            if self.kind != "cpu":
                torch.accelerator.synchronize(self.device)
            return time.perf_counter()

        taken: list[tuple[float, float]] = []
        begun = clock = now()
        while len(taken) <= WARM_UP or clock - begun < SECONDS:
            if (batch := next(batches, None)) is None:
                break
            there = now()
            step(batch)
            ready = now()
            taken.append((there - clock, ready - there))
            clock = ready
        return taken[WARM_UP:], step

    def step(
        self, which: str, precision: str, compiled: bool = False, batch: int = 1, **tokens: bool
    ) -> Cells:
        """Measure training steps; a model's operations are counted once."""
        drawn = self.config.batches(batch)
        batches = [self._moved(drawn(i)) for i in range(self.options.steps + WARM_UP)]
        one = self.model(which, precision, batch, compiled, **tokens)
        seconds, step = self.train(one, precision, iter(batches))
        median = statistics.median(own for _, own in seconds)
        memory = "-" if self.kind in ("cpu", "mps") else f"{_gibibytes():.1f}"
        if (which, batch) not in self.flops:
            self.flops[which, batch] = 0.0
            with suppress(torch.OutOfMemoryError), counted_flops() as counter:
                step(batches[0])
                self.flops[which, batch] = counter.get_total_flops() / 1e12
        flops, peak = self.flops[which, batch], self.peak if precision == BFLOAT16 else None
        return {
            "steps/s": f"{1 / median:.3f}",
            "samples/s": f"{batch / median:,.1f}",
            "ratio": self._ratio(TRAINING, batch / median),
            "TFLOP/step": f"{flops:.3g}" if flops else "-",
            "of peak": f"{flops / median / peak:.1%}" if flops and peak else "-",
            "GiB": memory,
        }

    def data(self, workers: int, turned: bool, batch: int) -> Cells:
        """Measure the share of an eager step's time spent waiting for its batch.

        This includes drawing, moving and turning.
        """
        arguments = self.config.task, self.config.canvas, batch, self.options.steps + WARM_UP
        transforms = [A.D4(p=1.0), CanvasShift()] if turned else None
        module = CanvasDataModule(*arguments, transforms=transforms, workers=workers)
        loader = module.train_dataloader()
        batches = map(self._moved, loader)
        one = self.model("ours", self.best, batch, False)
        waited, own = map(
            statistics.median, zip(*self.train(one, self.best, batches)[0], strict=True)
        )
        return {
            "data, ms": f"{1000 * waited:.2f}",
            "step, ms": f"{1000 * own:.1f}",
            "share of data": f"{waited / (waited + own):.1%}",
        }

    def solve(self, shipped: bool, precision: str, batch: int) -> Cells:
        """Rows a second, each built on the model's own rows."""
        solver = load_solver(device=self.device)
        if not shipped:
            torch.manual_seed(0)
            model = TinyRecursiveModel(RecursiveConfig(**self.config.network)).to(self.device)
            predictor = IterativePredictor(model.eval(), SOLVING_STEPS).with_options(halt=False)
            solver = Solver(predictor, self.config.task, self.config.canvas)
        rates: list[float] = []
        began = time.perf_counter()
        for size in (max(1, batch // 8), *[batch] * min(self.options.steps, 5)):
            if len(rates) > 1 and time.perf_counter() - began > SECONDS:
                break
            problems = sample(even(solver.task), 0, "test", 0, np.arange(size))
            begun = time.perf_counter()
            with torch.autocast(self.kind, torch.bfloat16, enabled=precision == BFLOAT16):
                solutions = solver.solve(problems)
            rows = sum(len(solution.rows) for solution in solutions)
            rates.append(rows / (time.perf_counter() - begun))
        return {"rows/s": f"{statistics.median(rates[1:]):,.0f}"}

    def fit(self, number: int, batch: int) -> Cells:
        """Measure samples a second of `trm fit` itself; devices share a batch."""
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        steps = LOGGED * max(2, min(6, self.options.steps))
        batch = max(1, batch // number) * number
        settings = {
            "data.batch_size": batch,
            "data.batches_per_epoch": steps,
            "data.validation_problems": 8 * number,
            "data.training_problems": 0,
            "data.workers": min(cores() // number, self.config.data["workers"]),
            "trainer.accelerator": "cpu" if self.kind == "cpu" else "gpu",
            "trainer.devices": number,
            "trainer.max_steps": steps,
            "trainer.log_every_n_steps": LOGGED,
        }
        if self.options.tiny:
            settings |= {f"model.network.config.{name}": value for name, value in TINY.items()}
        words = [f"--{name}={value}" for name, value in settings.items()]
        command = [sys.executable, "-m", "trm", "fit", "--config", CONFIG, "--quiet", *words]
        with tempfile.TemporaryDirectory() as folder:
            run_until(self.end, command, Path(folder))
            events = EventAccumulator(str(next(Path(folder).glob("runs/*/version_0"))))
            events.Reload()
            logged = [event.value for event in events.Scalars("speed/samples_per_second")]
        rate = statistics.median(logged[1:])
        return {"batch": f"{batch}", "samples/s": f"{rate:,.1f}", "ratio": self._ratio(FIT, rate)}

    def _ratio(self, section: str, rate: float) -> str:
        return f"{rate / self.first.setdefault(section, rate):.2f}x"

    def _moved(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {name: part.to(self.device, non_blocking=True) for name, part in batch.items()}


def run_until(end: float, command: list[str], folder: Path) -> None:
    """Run a command in a folder; kill it and its processes at the time ``end``.

    Raises:
        TimeoutError: the command had not ended by then.
        RuntimeError: the command failed.
    """
    with (folder / "stderr").open("w+", encoding="utf-8") as err:
        ran = subprocess.Popen(command, cwd=folder, stderr=err, start_new_session=True)
        try:
            code = ran.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TimeoutError("the time was up") from None
        finally:
            if ran.poll() is None:
                os.killpg(ran.pid, signal.SIGKILL)
                ran.wait()
        err.seek(0)
        text = err.read().strip()
    if code:
        last = text.splitlines()[-1] if text else f"it ended with {code}"
        raise RuntimeError(OUT_OF_MEMORY if OUT_OF_MEMORY in text else last)


def _gibibytes() -> float:
    return torch.accelerator.max_memory_allocated() / 2**30


def main() -> None:
    """Measure all cases in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, metavar="FILE", help="Markdown, as well as printed")
    parser.add_argument("--reference", type=Path, metavar="DIR", help="a checkout of it")
    parser.add_argument("--minutes", type=float, default=10, help="after which nothing is begun")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--devices", type=int, help="of `trm fit`: all by default; 0: leave it out")
    parser.add_argument("--batch", type=int, default=Config.read(CONFIG).data["batch_size"])
    parser.add_argument("--steps", type=int, default=10, help="that are timed of each")
    parser.add_argument("--peak", type=float, help="TFLOP a second in bfloat16, by the data sheet")
    parser.add_argument("--eager", action="store_true", help="compile nothing")
    parser.add_argument("--tiny", action="store_true", help="a tiny network, to try this out")
    benchmark = Benchmark(parser.parse_args())
    benchmark.run(Report(benchmark.options.output, benchmark.title()))


if __name__ == "__main__":
    main()
