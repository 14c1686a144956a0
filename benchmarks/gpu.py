"""Training and solving on an accelerator, as a table: speed, share of its peak, memory, data.

    python benchmarks/gpu.py --reference TinyRecursiveModels --output gpu.md

The shape, the task and the batches of configs/trm/reference.yaml: training steps in bfloat16 and
float32, eager and compiled, beside a checkout of the published TRM (optional; it needs einops and
pydantic); the share of a step that drawing its batch takes; rows that the shipped model and that
shape solve; `trm fit` on one device and on all. What matters most comes first. The table is written
anew after each line, and a case that fails is a line of it, too; one that runs out of memory is
then tried with half as many samples.

It runs anywhere: `--device cpu --tiny --batch 4 --steps 1 --eager` tries it out, and says nothing
of speed.
"""

import argparse
import gc
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peer_models import reference, revision
from row_steps import Config
from torch import Tensor

from augment.random_views import RandomViews
from canvas.sampling import sample
from trm import load_solver
from trm.devices import cores
from trm.flops import counted_flops
from trm.markdown import safe, table
from trm.models.configs import RecursiveConfig
from trm.models.halting import Carry
from trm.models.recursive import TinyRecursiveModel
from trm.precision import cpu_multiplies_bfloat16
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.training.configs import DepthConfig
from trm.training.data import CanvasDataModule
from trm.training.depth import carried_step
from trm.training.losses import step_loss

CONFIG = "trm/reference"
TINY = {"hidden_size": 16, "num_heads": 2, "H_cycles": 2, "L_cycles": 1, "prefix_size": 16}
SOLVING_STEPS = 4  # supervision steps a row of a model that has learned nothing
WARM_UP = 3  # steps that are not timed: they allocate, compile and record graphs
SECONDS = 30  # after which a case goes on no longer, once it has been timed
LOGGED = 10  # steps of `trm fit` that one figure of its speed is of
# bfloat16 without sparsity, in TFLOP a second, by data sheets; the first name that fits.
PEAKS = {
    r"H100 PCIe": 756,
    r"H100 NVL": 835,
    r"H100|H200|GH200": 989,
    r"B200": 2250,
    r"A100": 312,
    r"L40S": 362,
    r"L40": 181,
    r"L4": 121,
    r"A10": 125,
    r"A10G": 70,
    r"RTX 4090$": 165,
    r"RTX 3090$": 71,
}
FLOAT32, BFLOAT16 = "float32", "bfloat16"
TRAINING, DATA, SOLVING, DEVICES = (
    "Training steps",
    "Data in a training step",
    "Rows solved",
    "`trm fit`",
)
COLUMNS = {
    TRAINING: ("batch", "steps/s", "samples/s", "ratio", "TFLOP/step", "of peak", "GiB"),
    DATA: ("batch", "data, ms", "step, ms", "share of data"),
    SOLVING: ("problems", "rows/s"),
    DEVICES: ("batch", "samples/s", "ratio"),
}
OUT_OF_MEMORY = "out of memory"

Cells = dict[str, str]  # of a line of a table, by column


class Report:
    """Tables that grow line by line, on the terminal and in a file.

    Args:
        output: the file, if there is to be one.
        title: its first lines.
    """

    def __init__(self, output: Path | None, title: str) -> None:
        self.output, self.title = output, title
        self.rows: dict[str, list[list[str]]] = {}
        print(title, flush=True)

    def add(self, section: str, name: str, precision: str, cells: Cells, remark: str = "") -> None:
        """A line, written at once."""
        measured = [cells.get(column, "-") for column in COLUMNS[section]]
        self.rows.setdefault(section, []).append([name, precision, *measured, remark])
        told = (f"{column} {cell}" for column, cell in cells.items() if cell != "-")
        end = ", ".join((*told, *([remark] if remark else [])))
        print(f"{section}: {name}, {precision}: {end}", flush=True)
        if self.output:
            self.output.write_text(self.text())

    def text(self) -> str:
        """All of it, as Markdown."""
        parts = [self.title]
        for section, columns in COLUMNS.items():
            if section in self.rows:
                heads = ["", "computed in", *columns, "remarks"]
                parts += [f"## {section}", table(heads, self.rows[section])]
        return "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class Case:
    """What one line is about.

    Attributes:
        section, name, precision: where it stands, and what is measured.
        measure: does so; of how many samples at once.
        batch: how many to begin with. It is halved where they do not fit.
    """

    section: str
    name: str
    precision: str
    measure: Callable[[int], Cells]
    batch: int

    def run(self, report: Report) -> None:
        """Measure, and write down what came out or what went wrong."""
        line = partial(report.add, self.section, self.name, self.precision)
        sizes = COLUMNS[self.section][0]
        for size in (self.batch, self.batch // 2, self.batch // 4, self.batch // 8):
            if not size:
                return
            wrong = ""
            try:
                line({sizes: f"{size}", **self.measure(size)})
            except Exception as error:  # of any kind: the next case has nothing to do with it
                wrong = in_few_words(error)
            # Outside of the clause: till then the error holds on to the tensors of its frames.
            release()
            if not wrong:
                return
            line({sizes: f"{size}"}, wrong)
            if wrong != OUT_OF_MEMORY:
                return


def in_few_words(error: Exception) -> str:
    """What went wrong, in the cell of a table."""
    text = " ".join(str(error).split())
    no_memory = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if no_memory or re.search("out of memory|can't allocate memory", text):
        return OUT_OF_MEMORY
    short = text if len(text) <= 100 else f"{text[:100]} ..."
    return safe(f"failed: {type(error).__name__}: {short}")


def release() -> None:
    """Give back what the last case took: graphs, compiled code, memory."""
    torch.compiler.reset()
    gc.collect()
    if torch.accelerator.is_available():
        with suppress(RuntimeError):  # of a device that is beyond use, as the next case will tell
            torch.accelerator.empty_cache()
            torch.accelerator.reset_peak_memory_stats()


class Training:
    """Training steps of one model.

    Args:
        model: on its device.
        loss: of a batch.
        precision: that it is computed in.
    """

    def __init__(
        self, model: torch.nn.Module, loss: Callable[[dict[str, Tensor]], Tensor], precision: str
    ) -> None:
        self.model, self.loss, self.precision = model.train(), loss, precision
        self.device = next(model.parameters()).device
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(self, batch: dict[str, Tensor]) -> None:
        """Loss, gradients, AdamW."""
        with computed_in(self.precision, self.device.type):
            loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def seconds(self, batches: Iterator[dict[str, Tensor]]) -> list[tuple[float, float]]:
        """Of each step that is timed: until its batch is there, and of the step itself."""
        taken: list[tuple[float, float]] = []
        begun = time.perf_counter()
        while len(taken) <= WARM_UP or time.perf_counter() - begun < SECONDS:
            clock = [self._now()]
            batch = next(batches, None)
            if batch is None:
                break
            clock.append(self._now())
            self.step(batch)
            clock.append(self._now())
            taken.append((clock[1] - clock[0], clock[2] - clock[1]))
        return taken[WARM_UP:]

    def _now(self) -> float:
        """The time when the device has done all that it was given."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)
        return time.perf_counter()


def computed_in(precision: str, kind: str) -> AbstractContextManager[Any]:
    """As Lightning's bf16-mixed and 32-true do."""
    return torch.autocast(kind, torch.bfloat16, enabled=precision == BFLOAT16)


def ours(config: Config, device: str, precision: str, mode: bool, **tokens: bool) -> Training:
    """This package's model."""
    torch.manual_seed(0)
    model = TinyRecursiveModel(RecursiveConfig(**config.network | tokens)).to(device)
    depth = DepthConfig(**config.model["depth"])
    if mode:
        model.iterate = torch.compile(model.iterate, dynamic=True)  # type: ignore[method-assign]
    carry: Carry | None = None

    def loss(batch: dict[str, Tensor]) -> Tensor:
        nonlocal carry
        result, carry = carried_step(model, batch, carry, depth, _loss)
        return result.loss

    return Training(model, loss, precision)


def _loss(*tensors: Tensor) -> Any:
    return step_loss(*tensors, loss="stablemax", givens_weight=0.0, halt_weight=0.5)


def theirs(
    folder: Path, config: Config, device: str, precision: str, mode: bool, batch: int
) -> Training:
    """The published TRM, whose model casts its weights itself."""
    cells = config.data["canvas"]["height"] * config.data["canvas"]["width"]
    with torch.device(device):
        peer = reference(folder, config.model, batch, cells, precision)
    if mode:
        peer.model = torch.compile(peer.model)

    def loss(batch: dict[str, Tensor]) -> Tensor:
        with torch.device(device):  # its states are made where the code says
            return peer.loss(batch)

    return Training(peer.model, loss, precision)


class Benchmark:
    """All that is measured, on one device.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, options.device
        self.end = time.monotonic() + 60 * options.minutes
        self.config = Config.read(CONFIG)
        if options.tiny:
            self.config.network.update(TINY)
        self.kind = torch.device(self.device).type
        self.halves = self.kind != "cpu" or cpu_multiplies_bfloat16()
        self.best = BFLOAT16 if self.halves else FLOAT32  # what is trained in
        self.count = options.devices
        if self.count is None:
            self.count = 1 if self.kind == "cpu" else torch.accelerator.device_count()
        self.peak = options.peak or known_peak(device_name(self.device))
        self.repeats = min(options.steps, 5)
        self.flops: dict[tuple[str, int], float] = {}  # of a step, in TFLOP
        self.first: dict[str, float] = {}  # samples a second of each section's first line

    def title(self) -> str:
        """What stands above the tables."""
        options, name = self.options, device_name(self.device)
        several = f"{self.count} of {name}" if self.count > 1 else name
        peak = f"{self.peak:g} TFLOP/s in bfloat16" if self.peak else "not known, give --peak"
        return (
            f"# {CONFIG}{' with a tiny network' if options.tiny else ''} on {several}\n\n"
            f"PyTorch {torch.__version__}, CUDA {torch.version.cuda or 'none'}, {cores()} CPU "
            f"cores; peak {peak}. Medians; a case ends after {options.steps} steps, "
            f"{self.repeats} rounds of solving, or {SECONDS} s. float32 is without TF32."
        )

    def cases(self) -> Iterator[Case]:
        """What is measured, what matters most first."""
        both = (BFLOAT16, FLOAT32) if self.halves else (FLOAT32,)
        yield from self._theirs("eager", False)
        yield self._ours("eager", self.best, False)
        if not self.options.eager:
            yield self._ours("compiled", self.best, True)
        for workers in (0, min(cores(), self.config.data["workers"])):
            for views in (None, RandomViews(**self.config.data["views"])):
                yield self._data(workers, views)
        for precision in both:
            yield self._solved("the shipped model, in order", precision)
        untrained = f"{CONFIG}, untrained, {SOLVING_STEPS} steps a row"
        yield self._solved(untrained, self.best)
        for number in sorted({1, self.count}) if self.count else ():
            name = f"{number} device{'s' * (number > 1)}"
            yield self._case(DEVICES, name, self.best, partial(self.fit, number))
        if self.halves:
            yield self._ours("eager", FLOAT32, False)
        if not self.options.eager:
            yield from self._theirs("compiled", True)
        yield self._ours("eager, `crop: true`", self.best, False, crop=True)
        yield self._ours("eager, `skip_blank: true`", self.best, False, skip_blank=True)
        if self.halves:
            yield self._solved(untrained, FLOAT32)
            if not self.options.eager:
                yield self._ours("compiled", FLOAT32, True)

    def _case(
        self, section: str, name: str, precision: str, measure: Callable[[int], Cells]
    ) -> Case:
        return Case(section, name, precision, measure, self.options.batch)

    def _theirs(self, how: str, mode: bool) -> Iterator[Case]:
        """Of the published TRM, if there is a checkout."""
        if folder := self.options.reference:
            name = f"{folder.resolve().name} {revision(folder)}"
            make = partial(theirs, folder, self.config, self.device, self.best, mode)
            yield self._case(TRAINING, f"{name}, {how}", self.best, partial(self.step, name, make))

    def _ours(self, how: str, precision: str, mode: bool, **tokens: bool) -> Case:
        def make(size: int) -> Training:
            return ours(self.config, self.device, precision, mode, **tokens)

        run = partial(self.step, f"ours {tokens}", make)
        return self._case(TRAINING, f"ours, {how}", precision, run)

    def _data(self, workers: int, views: RandomViews | None) -> Case:
        who = f"by {workers} worker processes" if workers else "by the training process"
        name = f"drawn {who}" + (", views on the device" if views else "")
        return self._case(DATA, name, self.best, partial(self.data, workers, views))

    def _solved(self, name: str, precision: str) -> Case:
        return self._case(SOLVING, name, precision, partial(self.solve, name, precision))

    def step(self, model: str, make: Callable[[int], Training], batch: int) -> Cells:
        """Training steps; a model's operations are counted once."""
        count = self.options.steps + WARM_UP
        drawn = self.config.batches(batch)
        batches = [self._moved(drawn[i]) for i in range(count)]
        training = make(batch)
        median = statistics.median(step for _, step in training.seconds(iter(batches)))
        memory = "-" if self.kind in ("cpu", "mps") else f"{_gibibytes():.1f}"
        flops = self._flops((model, batch), training, batches[0])
        peak = self.peak if training.precision == BFLOAT16 else None
        return {
            "steps/s": f"{1 / median:.3f}",
            "samples/s": f"{batch / median:,.1f}",
            "ratio": self._ratio(TRAINING, batch / median),
            "TFLOP/step": f"{flops:.3g}" if flops else "-",
            "of peak": f"{flops / median / peak:.1%}" if flops and peak else "-",
            "GiB": memory,
        }

    def _flops(self, key: tuple[str, int], training: Training, batch: dict[str, Tensor]) -> float:
        """0 where a step runs out of memory uncompiled, as operations are counted."""
        if key not in self.flops:
            try:
                with counted_flops() as counter:
                    training.step(batch)
            except torch.OutOfMemoryError:
                return 0.0
            self.flops[key] = counter.get_total_flops() / 1e12
        return self.flops[key]

    def _ratio(self, section: str, rate: float) -> str:
        return f"{rate / self.first.setdefault(section, rate):.2f}x"

    def _moved(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: part.to(self.device, non_blocking=True) for name, part in batch.items()}

    def data(self, workers: int, views: RandomViews | None, batch: int) -> Cells:
        """What of an eager step is waiting for its batch: drawing, moving, turning."""
        count = self.options.steps + WARM_UP
        asked = self.config.task, self.config.canvas, batch, count
        module = CanvasDataModule(*asked, views=views, workers=workers)
        training = ours(self.config, self.device, self.best, False)
        batches = (
            module.on_after_batch_transfer(self._moved(one), 0) for one in module.train_dataloader()
        )
        waited, steps = map(statistics.median, zip(*training.seconds(batches), strict=True))
        return {
            "data, ms": f"{1000 * waited:.2f}",
            "step, ms": f"{1000 * steps:.1f}",
            "share of data": f"{waited / (waited + steps):.1%}",
        }

    def solve(self, name: str, precision: str, batch: int) -> Cells:
        """Rows a second, each built on the model's own rows."""
        if name.startswith(CONFIG):
            torch.manual_seed(0)
            model = TinyRecursiveModel(RecursiveConfig(**self.config.network)).to(self.device)
            predictor = IterativePredictor(model.eval(), SOLVING_STEPS, halt=False)
            solver = Solver(predictor, self.config.task, self.config.canvas)
        else:
            solver = load_solver(device=self.device)
        rates: list[float] = []
        began = time.perf_counter()
        for size in (max(1, batch // 8), *[batch] * self.repeats):
            problems = sample(solver.task.evenly(), 0, "test", 0, np.arange(size))
            if len(rates) > 1 and time.perf_counter() - began > SECONDS:
                break
            begun = time.perf_counter()
            with computed_in(precision, self.kind):
                solutions = solver.solve(problems)
            rows = sum(len(solution.rows) for solution in solutions)
            rates.append(rows / (time.perf_counter() - begun))
        return {"rows/s": f"{statistics.median(rates[1:]):,.0f}"}

    def fit(self, number: int, batch: int) -> Cells:
        """Samples a second of `trm fit` itself, which share a batch among devices."""
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
            rate = statistics.median(_logged(Path(folder))[1:])
        ratio = self._ratio(DEVICES, rate)
        return {"batch": f"{batch}", "samples/s": f"{rate:,.1f}", "ratio": ratio}

    def run(self, report: Report) -> None:
        """Measure one case after the other, until the time is up."""
        for case in self.cases():
            if time.monotonic() < self.end:
                case.run(report)
            else:
                report.add(case.section, case.name, case.precision, {}, "not run: the time was up")


def run_until(end: float, command: list[str], folder: Path) -> None:
    """Run a command in a folder, with the processes that it starts, until a moment at most.

    Raises:
        TimeoutError: it was not done by then.
        RuntimeError: it failed.
    """
    with (folder / "stderr").open("w+") as told:
        ran = subprocess.Popen(command, cwd=folder, stderr=told, start_new_session=True)
        try:
            code = ran.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TimeoutError("the time was up") from None
        finally:
            if ran.poll() is None:
                os.killpg(ran.pid, signal.SIGKILL)
                ran.wait()
        told.seek(0)
        text = told.read().strip()
    if code:
        last = text.splitlines()[-1] if text else f"it ended with {code}"
        raise RuntimeError(OUT_OF_MEMORY if OUT_OF_MEMORY in text else last)


def _logged(folder: Path) -> list[float]:
    """The samples a second that a run in a folder has logged."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(next(folder.glob("runs/*/version_0"))))
    events.Reload()
    return [event.value for event in events.Scalars("speed/samples_per_second")]


def _gibibytes() -> float:
    return torch.accelerator.max_memory_allocated() / 2**30


def device_name(device: str) -> str:
    """What the maker calls it."""
    kind = torch.device(device)
    return torch.cuda.get_device_name(kind) if kind.type == "cuda" else kind.type


def known_peak(name: str) -> float | None:
    """What a device can do in bfloat16, in TFLOP a second, if it is among `PEAKS`."""
    fits = (peak for words, peak in PEAKS.items() if re.search(rf"\b(?:{words})\b", name))
    return next(fits, None)


def main() -> None:
    """Measure one after the other."""
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
