"""Training, inference and decoding beside the code of others, in one run.

    python benchmarks/peers.py --reference TinyRecursiveModels --nano-trm nano-trm --nanogpt nanoGPT

Each is a checkout of a public repository, read from where it lies: SamsungSAILMontreal/
TinyRecursiveModels, olivkoch/nano-trm and karpathy/nanoGPT. What they import has to be installed
(einops, pydantic; scikit-learn and hydra-core for nano-trm). Any of them may be left out.

Recursive models have the shape of configs/trm/reference.yaml and get the same row steps of its
task: up to 7 x 7 digits anywhere on a canvas of 20 x 20. GPTs have the shape of nanoGPT's
character model, 6 layers of 384 channels, and the same canvases as sequences. All are trained
with one optimiser, PyTorch's AdamW, in float32, so that what differs is the model's code. More
lines of ours compute less: of a canvas the box of all that is written or masked, or these cells
alone. A GPT of ours keeps keys and values of what it has written.

With `--race MINUTES` recursive models are trained instead, see race.py.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from peer_models import NanoGPT, nano_trm, reference, revision
from race import race
from row_steps import Config
from torch import Tensor

from canvas.symbols import VOCAB_SIZE
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.halting import Carry
from trm.models.iterative import Loop
from trm.models.recursive import TinyRecursiveModel
from trm.training.configs import DepthConfig
from trm.training.depth import carried_step
from trm.training.losses import step_loss

CONFIG = "trm/reference"

Step = Callable[[dict[str, Tensor]], None]


class Ours:
    """The recursive model of this package.

    Args:
        config: of its shape, and how deep it is trained.
        tokens: settings that say which cells are no tokens.
    """

    def __init__(self, config: Config, **tokens: bool) -> None:
        torch.manual_seed(0)
        self.model = TinyRecursiveModel(RecursiveConfig(**config.network | tokens))
        self.depth = DepthConfig(**config.model["depth"])
        self.carry: Carry | None = None

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """That of a training step: one supervision step."""
        result, self.carry = carried_step(self.model, batch, self.carry, self.depth, _our_loss)
        return result.loss

    def infer(self, batch: dict[str, Tensor]) -> None:
        """A supervision step of inference, and what it says."""
        loop = Loop(self.model, batch["inputs"])
        loop.step()
        loop.read()


def _our_loss(*tensors: Tensor) -> Any:
    return step_loss(*tensors, loss="stablemax", givens_weight=0.0, halt_weight=0.5)


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


def recursive_models(options: argparse.Namespace) -> None:
    """Training and inference of recursive models."""
    config = Config.read(CONFIG)
    height, width = config.data["canvas"]["height"], config.data["canvas"]["width"]
    batches = config.batches(options.batch)
    several = [batches[i] for i in range(options.repeats + 1)]
    models: dict[str, Any] = {}
    for name, make in (("reference", reference), ("nano_trm", nano_trm)):
        if folder := getattr(options, name):
            title = f"{folder.resolve().name} {revision(folder)}"
            models[title] = make(folder, config.model, options.batch, height * width)
    models["ours, the same arithmetic"] = Ours(config)
    models["ours, `crop: true`"] = Ours(config, crop=True)
    models["ours, `skip_blank: true`"] = Ours(config, skip_blank=True)
    _count(models)
    print("\nrecursive models, seconds a training step")
    measured({name: trained(one) for name, one in models.items()}, several, 1)
    print("\nrecursive models, seconds a supervision step of inference")
    measured({name: asked(one, one.infer) for name, one in models.items()}, several, 1)


def gpts(options: argparse.Namespace) -> None:
    """Training and decoding of GPTs."""
    side = Config.read(CONFIG).data["canvas"]["width"]
    models: dict[str, Any] = {}
    if options.nanogpt:
        title = f"{options.nanogpt.resolve().name} {revision(options.nanogpt)}"
        models[title] = NanoGPT(options.nanogpt, side)
    models["ours"] = OurGPT(side, cached=True)
    _count(models)
    length = 1 + side * (side + 1)
    torch.manual_seed(0)
    ids = [torch.randint(0, 10, (options.batch, length)) for _ in range(options.repeats + 1)]
    print(f"\nGPTs, seconds a training step of {length - 1} tokens a canvas")
    measured({name: trained(one) for name, one in models.items()}, ids, 1)
    print(f"\nGPTs, seconds a token, {options.tokens} written after {length - options.tokens}")
    given = [one[:, : length - options.tokens] for one in ids]
    writers = {
        name: asked(one, lambda batch, one=one: one.write(batch, options.tokens))
        for name, one in models.items()
    }
    measured(writers, given, options.tokens)


def _count(models: dict[str, Any]) -> None:
    print()
    for name, one in models.items():
        print(f"{sum(p.numel() for p in one.model.parameters()):>12,} parameters: {name}")


def main() -> None:
    """Measure what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("reference", "nano-trm", "nanogpt"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="a checkout of it")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64, help="that GPTs write")
    parser.add_argument(
        "--race", type=float, metavar="MINUTES", help="train each recursive model so long at most"
    )
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="with --race"
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"PyTorch {torch.__version__}, {options.threads} thread(s)")
    if options.race:
        folders = {"reference": options.reference, "nano-trm": options.nano_trm}
        race(folders, options.race, options.dtype)
        return
    print(f"batch {options.batch}, median (fewest, most) of {options.repeats} interleaved repeats")
    recursive_models(options)
    gpts(options)


if __name__ == "__main__":
    main()
