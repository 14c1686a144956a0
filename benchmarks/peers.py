"""Comparison of training, inference and decoding with the code of others, in one run.

    python benchmarks/peers.py --reference TinyRecursiveModels --nano-trm nano-trm --nanogpt nanoGPT

The options take checkouts of the public repositories SamsungSAILMontreal/TinyRecursiveModels,
olivkoch/nano-trm and karpathy/nanoGPT. Their requirements must be installed (einops, pydantic;
scikit-learn and hydra-core for nano-trm). Each of them may be left out.

Recursive models have the shape of configs/trm/reference.yaml and get the same row steps of its
task: up to 7 x 7 digits anywhere on a canvas of 20 x 20. GPTs have the shape of nanoGPT's
character model, 6 layers of 384 channels, and the same canvases as sequences. All are trained with
one optimiser, PyTorch's AdamW, in float32, so only the code of the models differs. Further lines
are for models of this package that compute less: they process only the box of all written or masked
cells, or only these cells. The GPT of this package caches keys and values.

With `--arrays FOLDER` recursive models alone are compared, on puzzles of `docs/arrays.md` with the
shape of `--shape`. Their cells all count, so that none are left out.

With `--race MINUTES` recursive models are trained instead until they solve nearly all held-out
problems of configs/trm/quick.yaml. The model of this package has exactly that config. Peers have
its width, heads and layers and the cycles of trm/reference. They are trained by AdamW at ten times
the published learning rate, on a canvas of one size, which they require. Evaluation is not timed.
"""

import argparse
import importlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from timing import Config, even, in_turn, show
from torch import Tensor

from canvas.canvas_size import Canvas
from canvas.sampling import sample
from canvas.symbols import VOCAB_SIZE
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.iterative import Loop
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.predictor import Predictor
from trm.solving.rows import Prediction
from trm.solving.solver import Solver
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.optimisers import Schedule, build_optimizer
from trm.training.published_step import Carry, carried_step
from trm.training.puzzle_data import PuzzleDataModule, PuzzleSamples
from trm.training.step import DepthConfig, fresh_step

SHAPE, TASK = "trm/reference", "trm/quick"
IGNORED = -100  # label of a cell that does not count, in both peers
ENOUGH, PROBLEMS, JUDGED = 0.95, 100, 50  # accuracy on so many problems; steps per evaluation


@contextmanager
def imported_from(folder: Path, *packages: str) -> Iterator[None]:
    """Import packages of these names from a checkout in a context; unload them afterwards."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))
        for name in [name for name in sys.modules if name.split(".")[0] in packages]:
            del sys.modules[name]


def title(folder: Path) -> str:
    """Return the name of a checkout and its commit."""
    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return f"{folder.resolve().name} {commit}"


class Theirs(Predictor):
    """Recursive model of a peer, with flattened canvases as inputs, and its own carry and loss.

    Args:
        model: has ``initial_carry(batch)`` and ``model(carry=, batch=)``.
        loss: (carry, batch) → next carry, and loss of a training step.
        names: keys of the inputs and of the labels in a batch.
    """

    def __init__(self, model: Any, loss: Callable[..., Any], names: tuple[str, str]) -> None:
        self.model, self._loss, self.names = model, loss, names
        self.carry: Any = None
        self.size = (0, 0)  # height and width of its only canvas

    def batch(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Convert a batch of row steps to the peer's form."""
        labels = batch["labels"].long().masked_fill(~batch["answer"], IGNORED)
        size = len(labels)
        return {
            self.names[0]: batch["inputs"].int().view(size, -1),
            self.names[1]: labels.view(size, -1),
            "puzzle_identifiers": torch.zeros(size, dtype=torch.int32, device=labels.device),
        }

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the loss of a training step, which is one supervision step."""
        theirs = self.batch(batch)
        if self.carry is None:
            self.carry = self.model.initial_carry(theirs)
        self.carry, loss = self._loss(self.carry, theirs)
        return loss / len(batch["inputs"])

    def infer(self, batch: dict[str, Tensor]) -> None:
        """Compute a supervision step of inference with its logits."""
        theirs = self.batch(batch)
        self.model(carry=self.model.initial_carry(theirs), batch=theirs)

    def accepts(self, height: int, width: int) -> bool:
        """Test if a size is that of the canvas in training."""
        return (height, width) == self.size

    @torch.inference_mode()
    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        """Compute all supervision steps, as in the peers' evaluation."""
        self.model.eval()
        cells = torch.from_numpy(inputs).long()
        nothing = torch.zeros_like(cells, dtype=torch.bool)
        batch = self.batch({"inputs": cells, "labels": cells, "answer": nothing})
        carry = self.model.initial_carry(batch)
        halted, steps = False, 0
        while not halted:
            carry, out = self.model(carry=carry, batch=batch)
            halted, steps = bool(carry.halted.all()), steps + 1
        written = out["logits"].argmax(dim=-1).view_as(cells).to(torch.uint8)
        sure = out["q_halt_logits"].float().view(-1).sigmoid().numpy()
        numbers = np.full(len(inputs), steps)
        return Prediction(written.numpy(), sure, numbers, numbers > 0)


def reference(folder: Path, config: Config, batch: int, cells: int, dtype: str) -> Theirs:
    """Return the published TRM in the shape of a config."""
    network, depth = config.network, config.model["depth"]
    torch.manual_seed(0)
    with imported_from(folder, "models"):
        code: Any = importlib.import_module("models.recursive_reasoning.trm")
        losses: Any = importlib.import_module("models.losses")
        model = code.TinyRecursiveReasoningModel_ACTV1(
            {
                "batch_size": batch,
                "seq_len": cells,
                "puzzle_emb_ndim": network["prefix_size"],
                "puzzle_emb_len": network["prefix_length"],
                "num_puzzle_identifiers": 1,
                "vocab_size": network.get("vocab_size", VOCAB_SIZE),
                "H_cycles": network["H_cycles"],
                "L_cycles": network["L_cycles"],
                "H_layers": 0,
                "L_layers": network["num_layers"],
                "hidden_size": network["hidden_size"],
                "expansion": 4.0,
                "num_heads": network["num_heads"],
                "pos_encodings": "rope",
                "halt_max_steps": depth["halt_max_steps"],
                "halt_exploration_prob": depth["exploration"],
                "forward_dtype": dtype,
            }
        )
        head = losses.ACTLossHead(model, "stablemax_cross_entropy")
    loss = partial(head, return_keys=())
    return Theirs(model, lambda c, b: loss(carry=c, batch=b)[:2], ("inputs", "labels"))


def nano_trm(folder: Path, config: Config, batch: int, cells: int, dtype: str) -> Theirs:
    """Return nano-trm's model in the shape of a config."""
    network, depth = config.network, config.model["depth"]
    torch.manual_seed(0)
    with imported_from(folder, "src"):
        code: Any = importlib.import_module("src.nn.models.trm")
        model = code.TRMModule(
            hidden_size=network["hidden_size"],
            num_layers=network["num_layers"],
            num_heads=network["num_heads"],
            H_cycles=network["H_cycles"],
            L_cycles=network["L_cycles"],
            N_supervision=depth["halt_max_steps"],
            N_supervision_val=depth["halt_max_steps"],
            ffn_expansion=4.0,
            halt_exploration_prob=depth["exploration"],
            puzzle_emb_dim=network["prefix_size"],
            puzzle_emb_len=network["prefix_length"],
            vocab_size=network.get("vocab_size", VOCAB_SIZE),
            num_puzzles=1,
            batch_size=batch,
            seq_len=cells,
            forward_dtype=getattr(torch, dtype),
        )
    return Theirs(model, lambda c, b: model.compute_loss_and_metrics(c, b)[:2], ("input", "output"))


class NanoGPT:
    """Model of nanoGPT."""

    def __init__(self, folder: Path, side: int) -> None:
        torch.manual_seed(0)
        with imported_from(folder, "model"):
            code: Any = importlib.import_module("model")
        shape = {"n_layer": 6, "n_head": 6, "n_embd": 384, "dropout": 0.0, "bias": False}
        length = 1 + side * (side + 1)
        self.model = code.GPT(code.GPTConfig(block_size=length, vocab_size=VOCAB_SIZE, **shape))

    def loss(self, ids: Tensor) -> Tensor:
        """Return the cross entropy of the next token."""
        loss: Tensor = self.model(ids[:, :-1], ids[:, 1:].contiguous())[1]
        return loss

    def write(self, ids: Tensor, tokens: int) -> None:
        """Continue sequences greedily by a number of tokens."""
        self.model.generate(ids, tokens, top_k=1)


class OurGPT:
    """GPT of this package, with learned positions."""

    def __init__(self, side: int) -> None:
        torch.manual_seed(0)
        self.side = side
        shape: dict[str, Any] = {
            "num_layers": 6,
            "num_heads": 6,
            "hidden_size": 384,
            "position": "learned",
        }
        self.model = GPT(GPTConfig(height=side, width=side, **shape))

    def loss(self, ids: Tensor) -> Tensor:
        """Return the cross entropy of the next token."""
        logits = self.model(ids[:, :-1], self.side, self.side)
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    def write(self, ids: Tensor, tokens: int) -> None:
        """Continue sequences greedily by a number of tokens."""
        forced = torch.full((len(ids), ids.shape[1] + tokens), -1)
        forced[:, : ids.shape[1]] = ids
        self.model.generate(forced, self.side, self.side, VOCAB_SIZE)


class Ours:
    """Recursive model of this package; ``tokens`` are its options `crop` and `skip_blank`."""

    dtype = "float32"  # of autocast

    def __init__(self, config: Config, **tokens: bool) -> None:
        torch.manual_seed(0)
        self.model = TinyRecursiveModel(RecursiveConfig(**config.network | tokens))
        self.depth = DepthConfig(**config.model["depth"])
        self.carry: Carry | None = None

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the loss of a training step, which is one supervision step."""
        with autocast(self.dtype):
            step, self.carry = carried_step(self.model, batch, self.carry, self.depth, "stablemax")
        return step["loss"]

    def infer(self, batch: dict[str, Tensor]) -> None:
        """Compute a supervision step of inference with its logits."""
        with autocast(self.dtype):
            loop = Loop(self.model, batch["inputs"])
            loop.step()
            loop.read()


def autocast(dtype: str) -> AbstractContextManager[Any]:
    """Return a context of autocast; of float32 one that changes nothing."""
    other = dtype != "float32"
    return torch.autocast("cpu", getattr(torch, dtype)) if other else nullcontext()


def trained(one: Any, rate: float = 1e-4, decay: float = 0.01) -> Callable[[Any], None]:
    """Return a function that does a training step: loss, gradients, AdamW."""
    optimizer = torch.optim.AdamW(
        one.model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=decay
    )

    def step(batch: Any) -> None:
        one.model.train()
        one.loss(batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def compare(
    models: dict[str, Any],
    what: str,
    batches: list[Any],
    call: Any,
    unit: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Time a call of every model on the same batches; only `trained` computes gradients."""
    print(f"\n{what}")
    runs: dict[str, Any] = {}
    for name, one in models.items():
        step = call(one)

        def run(number: int, one: Any = one, step: Any = step) -> None:
            one.model.eval()
            with torch.inference_mode(call is not trained):
                step(batches[number])

        runs[name] = run
    show(in_turn(runs, len(batches) - 1, clock=clock), unit)


def puzzle_speeds(options: argparse.Namespace, peers: dict[str, tuple[Path, Any]]) -> None:
    """Time training and inference of recursive models on puzzles of a folder."""
    config, data = Config.read(options.shape), PuzzleDataModule(options.arrays)
    height, width = data.format.height, data.format.width
    config.network.update(vocab_size=data.format.vocab_size, height=height, width=width)
    config.network.update(crop=False, skip_blank=False)
    config.model["depth"].pop("stages", None)  # of a whole training
    every, size = np.arange(len(data.training.groups) - 1), options.batch
    samples = PuzzleSamples(data.training, every, 0, size)
    count = range(options.repeats + 1)
    batches = [samples.__getitems__(range(i * size, (i + 1) * size)) for i in count]
    models: dict[str, Any] = {
        name: make(folder, config, size, height * width, options.dtype)
        for name, (folder, make) in peers.items()
    }
    ours = models["ours"] = Ours(config)
    ours.dtype = options.dtype
    for name, one in models.items():
        print(f"{sum(part.numel() for part in one.model.parameters()):>10,} parameters  {name}")
    what = f"{options.dtype}, puzzles of {height} x {width}, seconds of processor time: "
    calls = {"a training step": trained, "inference, a supervision step": lambda one: one.infer}
    for name, call in calls.items():
        compare(models, what + name, batches, call, clock=time.process_time)


def speeds(options: argparse.Namespace, peers: dict[str, tuple[Path, Any]]) -> None:
    """Time training and inference of recursive models, and training and decoding of GPTs."""
    config = Config.read(SHAPE)
    height, side = config.data["canvas"]["height"], config.data["canvas"]["width"]
    drawn = config.batches(options.batch)
    batches = [drawn(i) for i in range(options.repeats + 1)]
    models: dict[str, Any] = {
        name: make(folder, config, options.batch, height * side, "float32")
        for name, (folder, make) in peers.items()
    }
    models["ours, the same arithmetic"] = Ours(config)
    models["ours, `crop: true`"] = Ours(config, crop=True)
    models["ours, `skip_blank: true`"] = Ours(config, skip_blank=True)
    compare(models, "recursive models, seconds a training step", batches, trained)
    what = "recursive models, seconds a supervision step of inference"
    compare(models, what, batches, lambda one: one.infer)
    gpts: dict[str, Any] = (
        {title(options.nanogpt): NanoGPT(options.nanogpt, side)} if options.nanogpt else {}
    )
    gpts["ours"] = OurGPT(side)
    length = 1 + side * (side + 1)
    torch.manual_seed(0)
    ids = [torch.randint(0, 10, (options.batch, length)) for _ in batches]
    compare(gpts, f"GPTs, seconds a training step of {length - 1} tokens a canvas", ids, trained)
    given = [one[:, : length - options.tokens] for one in ids]
    what = f"GPTs, seconds a token, {options.tokens} written after {length - options.tokens}"
    compare(
        gpts, what, given, lambda one: lambda ids: one.write(ids, options.tokens), options.tokens
    )


def our_racer(dtype: str) -> tuple[Solver, Any, Callable[[Any, int], None], int]:
    """Return solver, batches, step function and most steps of the TRM of `TASK`.

    ``dtype`` is that of autocast, which keeps some operations in float32.
    """
    config = Config.read(TASK)
    settings = config.model
    torch.manual_seed(0)
    model = TinyRecursiveModel(RecursiveConfig(**config.network))
    total = config.data["batches_per_epoch"] * config.trainer["max_epochs"]
    optimizer = build_optimizer(model, OptimizerConfig(**settings["optimizer"]))
    schedule = Schedule(optimizer, ScheduleConfig(**settings["schedule"]), total)
    depth = DepthConfig(**settings["depth"])

    def step(batch: Any, number: int) -> None:
        no_grad = random.Random(number).randint(*depth.no_grad_steps)
        how = no_grad, depth.supervised_steps, depth.random_start, settings["loss"]
        with autocast(dtype):
            loss = fresh_step(model.train(), batch, *how)["loss"]
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    solver = Solver(IterativePredictor(model, settings["solve_steps"]), config.task, config.canvas)
    return solver, config.batches(config.data["batch_size"]), step, total


def their_racer(make: Any, folder: Path, dtype: str) -> tuple[Solver, Any, Any, int]:
    """Return the same for a peer's model, in the precision ``dtype``."""
    config, shape = Config.read(TASK), Config.read(SHAPE)
    shape.network.update({n: config.network[n] for n in ("hidden_size", "num_heads", "num_layers")})
    shape.network["prefix_size"] = shape.network["hidden_size"]
    size, batch = config.canvas.size(*config.task.extent()), config.data["batch_size"]
    theirs = make(folder, shape, batch, size[0] * size[1], dtype)
    theirs.size, step = size, trained(theirs, 1e-3, 0.1)
    solver, canvas = Solver(theirs, config.task, Canvas(*size)), Canvas(*size)
    return solver, config.batches(batch, canvas), lambda one, _: step(one), sys.maxsize


def race(peers: dict[str, tuple[Path, Any]], minutes: float, dtype: str) -> None:
    """Train one model after the other, and print their times, steps and accuracy."""
    print(
        f"\ntraining on configs/{TASK}.yaml's task until {ENOUGH:.0%} of {PROBLEMS} held-out "
        f"problems are solved, for {minutes:g} minutes at most, in {dtype}"
    )
    racers = {"ours": partial(our_racer, dtype)}
    racers |= {name: partial(their_racer, make, f, dtype) for name, (f, make) in peers.items()}
    for name, racer in racers.items():
        solver, batches, step, most = racer()
        problems = sample(even(solver.task), 0, "test", 0, np.arange(PROBLEMS))
        seconds, steps, solved = 0.0, 0, 0.0
        while seconds < 60 * minutes and solved < ENOUGH and steps < most:
            start = time.perf_counter()
            step(batches(steps), steps)
            seconds += time.perf_counter() - start
            steps += 1
            if not steps % JUDGED:
                solver.predictor.model.eval()
                with torch.inference_mode():
                    solved = float(np.mean([one.correct for one in solver.solve(problems)]))
        print(f"{seconds:>8.0f} s {steps:>6,} steps {solved:>7.0%} solved  {name}", flush=True)


def main() -> None:
    """Measure this package and the given peers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("reference", "nano-trm", "nanogpt"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="a checkout of it")
    parser.add_argument("--arrays", metavar="FOLDER", help="of puzzles: compare on these")
    parser.add_argument("--shape", default=SHAPE, help="config of the network, with --arrays")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64, help="that GPTs write")
    parser.add_argument("--race", type=float, metavar="MINUTES", help="train each so long at most")
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16"),
        default="float32",
        help="with --race or --arrays",
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"PyTorch {torch.__version__}, {options.threads} thread(s), batches of {options.batch}")
    makers = ((options.reference, reference), (options.nano_trm, nano_trm))
    peers = {title(folder): (folder, make) for folder, make in makers if folder}
    if options.race:
        race(peers, options.race, options.dtype)
    elif options.arrays:
        puzzle_speeds(options, peers)
    else:
        speeds(options, peers)


if __name__ == "__main__":
    main()
