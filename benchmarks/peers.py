"""Training, inference and decoding beside the code of others, in one run.

    python benchmarks/peers.py --reference TinyRecursiveModels --nano-trm nano-trm --nanogpt nanoGPT

Each is a checkout of a public repository, read from where it lies: SamsungSAILMontreal/
TinyRecursiveModels, olivkoch/nano-trm and karpathy/nanoGPT. What they import has to be installed
(einops, pydantic; scikit-learn for nano-trm). Any of them may be left out.

Recursive models have the shape of configs/trm/reference.yaml and get the same row steps of its
task: up to 7 x 7 digits anywhere on a canvas of 20 x 20. GPTs have the shape of nanoGPT's
character model, 6 layers of 384 channels, and the same canvases as sequences. All are trained
with one optimiser, PyTorch's AdamW, in float32, so that what differs is the model's code. A second
line of ours computes what matters alone: of a canvas the box of all that is written or masked; of
a sequence that is being written the last token.
"""

import argparse
import importlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import yaml
from torch import Tensor

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.symbols import VOCAB_SIZE
from trm.models.gpt import GPT, GPTConfig
from trm.models.halting import Carry
from trm.models.iterative import Loop
from trm.models.recursive import RecursiveConfig, TinyRecursiveModel
from trm.training.depth import DepthConfig, carried_step, fresh_step
from trm.training.losses import step_loss
from trm.training.samples import RowStepSamples

CONFIG = Path(__file__).parents[1] / "configs/trm/reference.yaml"
IGNORED = -100  # label of a cell that does not count, in both peers

Step = Callable[[dict[str, Tensor]], None]


@contextmanager
def imported_from(folder: Path, *packages: str) -> Iterator[None]:
    """Let packages of these names be found in a checkout, and forget them afterwards."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))
        for name in [name for name in sys.modules if name.split(".")[0] in packages]:
            del sys.modules[name]


def revision(folder: Path) -> str:
    """The commit of a checkout."""
    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


class Ours:
    """The recursive model of this package.

    Args:
        settings: the model section of the config.
        crop: whether cells outside the box of all that is written or masked are no tokens.
    """

    def __init__(self, settings: dict[str, Any], crop: bool) -> None:
        torch.manual_seed(0)
        network = settings["network"]["init_args"]["config"]
        self.model = TinyRecursiveModel(RecursiveConfig(**network, crop=crop))
        self.depth = DepthConfig(**settings["depth"])
        if crop:  # a box differs from batch to batch, and states are not carried over
            self.depth = DepthConfig(schedule="fresh", free_steps=(0, 0), supervised_steps=1)
        self.carry: Carry | None = None

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """That of a training step: one supervision step."""
        if self.depth.schedule == "fresh":
            return fresh_step(self.model, batch, self.depth, _our_loss, seed=0).loss
        result, self.carry = carried_step(self.model, batch, self.carry, self.depth, _our_loss)
        return result.loss

    def infer(self, batch: dict[str, Tensor]) -> None:
        """A supervision step of inference, and what it says."""
        loop = Loop(self.model, batch["inputs"])
        loop.step()
        loop.read()


def _our_loss(*tensors: Tensor) -> Any:
    return step_loss(*tensors, loss="stablemax", givens_weight=0.0, halt_weight=0.5)


class Theirs:
    """A recursive model that takes cells in a row, and has its own carry and loss.

    Args:
        model: with ``initial_carry(batch)`` and ``model(carry=, batch=)``.
        loss: of a carry and a batch: the next carry and the loss of a training step.
        names: of the inputs and of the labels in a batch.
    """

    def __init__(self, model: Any, loss: Callable[..., Any], names: tuple[str, str]) -> None:
        self.model, self._loss, self.names = model, loss, names
        self.carry: Any = None

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """That of a training step: one supervision step."""
        theirs = self._batch(batch)
        if self.carry is None:
            self.carry = self.model.initial_carry(theirs)
        self.carry, loss = self._loss(self.carry, theirs)
        return loss / len(batch["inputs"])

    def infer(self, batch: dict[str, Tensor]) -> None:
        """A supervision step of inference, and what it says."""
        theirs = self._batch(batch)
        self.model(carry=self.model.initial_carry(theirs), batch=theirs)

    def _batch(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        labels = batch["labels"].long().masked_fill(~batch["answer"], IGNORED)
        size = len(labels)
        return {
            self.names[0]: batch["inputs"].int().view(size, -1),
            self.names[1]: labels.view(size, -1),
            "puzzle_identifiers": torch.zeros(size, dtype=torch.int32),
        }


def reference(folder: Path, settings: dict[str, Any], batch: int, cells: int) -> Theirs:
    """The published TRM of the config's shape."""
    network, depth = settings["network"]["init_args"]["config"], settings["depth"]
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
                "vocab_size": VOCAB_SIZE,
                "H_cycles": network["H_cycles"],
                "L_cycles": network["L_cycles"],
                "H_layers": 0,
                "L_layers": network["num_layers"],
                "hidden_size": network["hidden_size"],
                "expansion": network["expansion"],
                "num_heads": network["num_heads"],
                "pos_encodings": "rope",
                "halt_max_steps": depth["halt_max_steps"],
                "halt_exploration_prob": depth["exploration"],
                "forward_dtype": "float32",
            }
        )
        head = losses.ACTLossHead(model, "stablemax_cross_entropy")

    def loss(carry: Any, batch: dict[str, Tensor]) -> tuple[Any, Tensor]:
        return head(return_keys=(), carry=carry, batch=batch)[:2]

    return Theirs(model, loss, ("inputs", "labels"))


def nano_trm(folder: Path, settings: dict[str, Any], batch: int, cells: int) -> Theirs:
    """nano-trm's model of the config's shape."""
    network, depth = settings["network"]["init_args"]["config"], settings["depth"]
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
            ffn_expansion=network["expansion"],
            halt_exploration_prob=depth["exploration"],
            puzzle_emb_dim=network["prefix_size"],
            puzzle_emb_len=network["prefix_length"],
            vocab_size=VOCAB_SIZE,
            num_puzzles=1,
            batch_size=batch,
            seq_len=cells,
            forward_dtype=torch.float32,
        )

    def loss(carry: Any, batch: dict[str, Tensor]) -> tuple[Any, Tensor]:
        return model.compute_loss_and_metrics(carry, batch)[:2]

    return Theirs(model, loss, ("input", "output"))


class OurGPT:
    """The GPT of this package, with learned positions; ``cached``: it keeps keys and values."""

    def __init__(self, side: int, cached: bool) -> None:
        torch.manual_seed(0)
        self.side, self.cached = side, cached
        config = GPTConfig(
            height=side, width=side, num_layers=6, num_heads=6, hidden_size=384, position="learned"
        )
        self.model = GPT(config)

    def loss(self, ids: Tensor) -> Tensor:
        """Cross entropy of the next token."""
        logits = self.model(ids[:, :-1], self.side, self.side)
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    def write(self, ids: Tensor, tokens: int) -> None:
        """Go on greedily for so many tokens."""
        forced = torch.full((len(ids), ids.shape[1] + tokens), -1)
        forced[:, : ids.shape[1]] = ids
        self.model.generate(forced, self.side, self.side, VOCAB_SIZE, self.cached)


class NanoGPT:
    """nanoGPT's model."""

    def __init__(self, folder: Path, side: int) -> None:
        torch.manual_seed(0)
        with imported_from(folder, "model"):
            code: Any = importlib.import_module("model")
        self.model = code.GPT(
            code.GPTConfig(
                block_size=1 + side * (side + 1),
                vocab_size=VOCAB_SIZE,
                n_layer=6,
                n_head=6,
                n_embd=384,
                dropout=0.0,
                bias=False,
            )
        )

    def loss(self, ids: Tensor) -> Tensor:
        """Cross entropy of the next token."""
        loss: Tensor = self.model(ids[:, :-1], ids[:, 1:].contiguous())[1]
        return loss

    def write(self, ids: Tensor, tokens: int) -> None:
        """Go on greedily for so many tokens."""
        self.model.generate(ids, tokens, top_k=1)


def trained(one: Any) -> Step:
    """A training step: loss, gradients, AdamW."""
    optimizer = torch.optim.AdamW(one.model.parameters(), lr=1e-4, betas=(0.9, 0.95))

    def step(batch: Any) -> None:
        one.model.train()
        one.loss(batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def asked(one: Any, call: Callable[..., None]) -> Step:
    """The same call without gradients, in evaluation mode."""

    def step(batch: Any) -> None:
        one.model.eval()
        with torch.inference_mode():
            call(batch)

    return step


def measured(steps: dict[str, Step], batches: list[Any], unit: int) -> None:
    """Time all of them in turn, and print medians and ratios to the first one."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for number, batch in enumerate(batches):
        for name, step in steps.items():
            start = time.perf_counter()
            step(batch)
            if number:  # the first round also allocates
                taken[name].append(time.perf_counter() - start)
    slowest = statistics.median(next(iter(taken.values())))
    for name, values in taken.items():
        median = statistics.median(values)
        ratio, spread = slowest / median, f"({min(values) / unit:.4g} to {max(values) / unit:.4g})"
        print(f"    {median / unit:>9.4g} s {spread:<22} {ratio:>6.2f} x  {name}", flush=True)


def main() -> None:
    """Measure what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("reference", "nano-trm", "nanogpt"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="a checkout of it")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64, help="that GPTs write")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    config = yaml.safe_load(CONFIG.read_text())
    settings, data = config["model"]["init_args"], config["data"]
    task, canvas = Multiplication(**data["task"]["init_args"]), Canvas(**data["canvas"])
    rounds = options.repeats + 1
    samples = RowStepSamples(task, canvas, "train", 0, rounds * options.batch, options.batch)
    batches: list[dict[str, Tensor]] = [
        samples.__getitems__(range(i * options.batch, (i + 1) * options.batch))
        for i in range(rounds)
    ]
    cells, side = canvas.height * canvas.width, canvas.width
    shape = options.batch, cells
    models: dict[str, Any] = {}
    if options.reference:
        name = f"TinyRecursiveModels {revision(options.reference)}"
        models[name] = reference(options.reference, settings, *shape)
    if options.nano_trm:
        name = f"nano-trm {revision(options.nano_trm)}"
        models[name] = nano_trm(options.nano_trm, settings, *shape)
    models["ours, the same arithmetic"] = Ours(settings, crop=False)
    models["ours, `crop: true`"] = Ours(settings, crop=True)
    print(
        f"PyTorch {torch.__version__}, {options.threads} thread(s), batch {options.batch}, "
        f"median (fewest, most) of {options.repeats} interleaved repeats"
    )
    for name, one in models.items():
        print(f"{sum(p.numel() for p in one.model.parameters()):>12,} parameters: {name}")
    print("\nrecursive models, seconds a training step")
    measured({name: trained(one) for name, one in models.items()}, batches, 1)
    print("\nrecursive models, seconds a supervision step of inference")
    measured({name: asked(one, one.infer) for name, one in models.items()}, batches, 1)

    gpts: dict[str, Any] = {}
    if options.nanogpt:
        name = f"nanoGPT {revision(options.nanogpt)}"
        gpts[name] = NanoGPT(options.nanogpt, side)
    gpts["ours"] = OurGPT(side, cached=True)
    print()
    for name, one in gpts.items():
        print(f"{sum(p.numel() for p in one.model.parameters()):>12,} parameters: {name}")
    length = 1 + side * (side + 1)
    torch.manual_seed(0)
    ids = [torch.randint(0, 10, (options.batch, length)) for _ in range(rounds)]
    print(f"\nGPTs, seconds a training step of {length - 1} tokens a canvas")
    measured({name: trained(one) for name, one in gpts.items()}, ids, 1)
    print(f"\nGPTs, seconds a token, {options.tokens} written after {length - options.tokens}")
    given = [one[:, : length - options.tokens] for one in ids]
    writers = {
        name: asked(one, lambda batch, one=one: one.write(batch, options.tokens))
        for name, one in gpts.items()
    }
    measured(writers, given, options.tokens)


if __name__ == "__main__":
    main()
