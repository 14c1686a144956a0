"""Solving with an iterative model: supervision steps until a row has settled."""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas import symbols
from trm.models.iterative import IterativeModel, Loop, Settling, named, unnamed
from trm.models.recursive import Context
from trm.solving.predictor import ConfidenceCurve, Predictor, Trace, generator_of
from trm.solving.rollout import Prediction
from trm.torch_settings import standard_settings


class Step(NamedTuple):
    """State of a solution after one supervision step."""

    number: int  # from 1
    samples: Tensor  # indices of the samples still being solved, int64 [N]
    halt_logits: Tensor  # [N]
    cells: Tensor  # uint8 [N, H, W], the most likely symbols
    settled: Tensor  # bool [N], see `Settling`
    last: Tensor  # bool [N], whether this is a sample's last step


class Noise:
    """Gaussian noise on z_H before each supervision step, as in PTRM (arXiv 2605.19943).

    The noise is a function of the seed, the canvas, the rollout, the step and the cell, and does
    not depend on the batch. It is drawn on the CPU in float32. Rollout 0 has none.
    """

    def __init__(self, sigma: float, seed: int, inputs: np.ndarray, rollouts: np.ndarray) -> None:
        """Create a generator for each sample.

        Args:
            sigma: standard deviation of the noise.
            seed: of all generators.
            inputs: canvases, uint8 [B, H, W].
            rollouts: number of the rollout of each sample, int64 [B].
        """
        self.sigma = sigma
        self.generators = [
            generator_of(seed, canvas, rollout) if rollout else None
            for canvas, rollout in zip(inputs, rollouts.tolist(), strict=True)
        ]

    def add(self, loop: Loop) -> None:
        """Add noise to the state of all samples that are still being solved.

        Raises:
            ValueError: the state has no z_H.
        """
        state = named(loop.state)
        if "z_H" not in state:
            raise ValueError(
                f"noise is added to z_H, and the state of {type(loop.model).__name__} has "
                f"{' and '.join(state)}: leave out --rollouts and --noise"
            )
        z_H = state["z_H"]
        changed = z_H + (self.sigma * drawn_like(z_H, loop.context, self.generators)).to(z_H)
        loop.state = unnamed(loop.state, state | {"z_H": changed})

    def keep(self, index: Tensor) -> None:
        """Continue with the samples of a mask, bool [B]."""
        kept = index.tolist()
        self.generators = [g for g, k in zip(self.generators, kept, strict=True) if k]


def drawn_like(z: Tensor, context: Any, generators: Sequence[torch.Generator | None]) -> Tensor:
    """Draw standard normal noise for a tensor of a state, float32 on the CPU.

    The noise of a cell does not depend on the other samples, nor on which cells are tokens.

    Args:
        z: [B, ...].
        context: of the model.
        generators: of each sample, on the CPU; None: no noise, but 0.
    """
    cells, places = z.shape[1], None  # number of tokens with noise, and which ones get it
    if isinstance(context, Context) and context.places is not None:  # only some cells are tokens
        prefix = z.shape[1] - context.places.shape[1]
        cells = prefix + context.height * context.width + 1  # the last one is for padding
        of_prefix = torch.arange(prefix).expand(len(z), -1)
        places = torch.cat([of_prefix, prefix + context.places.cpu()], dim=1)
    noise = torch.zeros(z.shape, dtype=torch.float32, device="cpu")
    how: Any = {"dtype": torch.float32, "device": "cpu"}
    for i, generator in enumerate(generators):
        if generator is not None:
            drawn = torch.randn((cells, *z.shape[2:]), generator=generator, **how)
            noise[i] = drawn if places is None else drawn[places[i]]
    return noise


def random_state(loop: Loop, inputs: np.ndarray, seed: int, rollouts: np.ndarray) -> Any:
    """Return a state of standard normal noise, as in training with `depth.random_start`.

    Args:
        loop: a model with its canvases, before its first step.
        inputs: canvases, uint8 [B, H, W].
        seed: of the noise.
        rollouts: number of the rollout of each sample, int64 [B].
    """
    state = named(loop.state)
    generators = [
        generator_of(seed, canvas, f"start {rollout}")
        for canvas, rollout in zip(inputs, rollouts.tolist(), strict=True)
    ]
    noise = {
        name: drawn_like(z, loop.context, generators).to(z)
        for name, z in state.items()
        if z.is_floating_point()
    }
    return unnamed(loop.state, state | noise)


class IterativePredictor(Predictor):
    """Fills rows with an iterative model, in as many supervision steps as each sample needs.

    A sample stops when its row has settled, see `Settling`, and costs nothing from then on.

    Args:
        model: on the device where it is to run.
        max_steps: supervision steps after which every sample stops; may exceed those of training.
        halt: False: no sample stops before ``max_steps``.
        patience: unchanged steps after which a row stops even if the model holds it incorrect, as
            in a view that a model was trained to reject; None: it goes on.

    Raises:
        ValueError: ``max_steps`` or ``patience`` is below 1.
    """

    stepwise = True

    def __init__(
        self,
        model: IterativeModel,
        max_steps: int,
        halt: bool = True,
        patience: int | None = None,
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        if patience is not None and patience < 1:
            raise ValueError(f"a patience is one unchanged step or more, not {patience}")
        self.model, self.max_steps, self.halt, self.patience = model, max_steps, halt, patience
        self.translation_invariant = model.translation_invariant
        self.noise, self.seed = 0.0, 0  # see `with_noise`

    def with_noise(self, noise: float, seed: int) -> "IterativePredictor":
        one = copy(self)
        one.noise, one.seed = noise, seed
        return one

    @standard_settings()
    @torch.no_grad()
    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        """See `Predictor`. A curve has a point for each step, also after a row has settled."""
        seen = [
            (step.cells, step.halt_logits.float().sigmoid(), step.settled)
            for step in self._steps(inputs, steps or self.max_steps, halt=False)
        ]
        cells, confidence, stops = (
            torch.stack(parts).cpu().numpy() for parts in zip(*seen, strict=True)
        )
        exact = ((cells == labels) | (inputs != symbols.MASK)).all(axis=(2, 3))  # [T, B]
        halts = np.where(stops.any(axis=0), stops.argmax(axis=0) + 1, 0)
        curves = []
        for i, halt in enumerate(halts.tolist()):
            end = f"halts at step {halt}" if halt else f"does not halt in {len(cells)} steps"
            outcome = f"{end}, row {'correct' if exact[halt - 1, i] else 'incorrect'}"
            curves.append(ConfidenceCurve(confidence[:, i], exact[:, i], halt, outcome))
        answers = cells[halts - 1, np.arange(len(inputs))]  # -1, the last step, without a halt
        return Trace("confidence over supervision steps", answers, curves)

    @standard_settings()
    @torch.no_grad()
    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        """Fill in masked rows, in as many supervision steps as each needs."""
        parts = []
        for step in self._steps(inputs, self.max_steps, self.halt, rollouts):
            confidence = step.halt_logits.float().sigmoid()
            if self.on_step is not None:
                shown = (step.samples, step.cells, confidence)
                self.on_step(step.number, *(part.cpu().numpy() for part in shown))
            used = torch.full_like(step.samples, step.number)
            held, done = (step.cells, confidence, used, step.settled), step.last.nonzero()[:, 0]
            parts.append((step.samples[done], *(part[done] for part in held)))
        samples, *found = (torch.cat(of_steps) for of_steps in zip(*parts, strict=True))
        order = samples.argsort()
        return Prediction(*(part[order].cpu().numpy() for part in found))

    def _steps(
        self, inputs: np.ndarray, steps: int, halt: bool, rollouts: np.ndarray | None = None
    ) -> Iterator[Step]:
        """Yield at most ``steps`` supervision steps; with ``halt``, settled rows drop out."""
        tokens = self.tokens(inputs)
        loop = Loop(self.model, tokens)
        settling = Settling(tokens == symbols.MASK, self.patience)
        samples = torch.arange(len(tokens), device=tokens.device)
        if self.start_seed is not None:
            runs = np.zeros(len(inputs), np.int64) if rollouts is None else rollouts
            loop.state = random_state(loop, inputs, self.start_seed, runs)
        noise = None if rollouts is None else Noise(self.noise, self.seed, inputs, rollouts)
        for number in range(1, steps + 1):
            if noise is not None:
                noise.add(loop)
            loop.step()
            logits, halt_logits = loop.read()
            cells = logits.argmax(dim=-1).to(tokens.dtype)
            settled = settling.seen(cells, halt_logits)
            last = settled & halt if number < steps else torch.ones_like(settled)
            yield Step(number, samples, halt_logits, cells, settled, last)
            if last.all():
                return
            if last.any():
                samples = samples[~last]
                loop.keep(~last)
                settling.keep(~last)
                if noise is not None:
                    noise.keep(~last)
