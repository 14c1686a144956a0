"""Noise on the states of iterative models: rollouts, and random initial states."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trm.models.context import Context
from trm.models.iterative import IterativeModel, Loop
from trm.models.states import named, unnamed
from trm.runtime.torch_settings import tensor_for
from trm.solving.predictor import Options


def generator_of(seed: int, canvas: np.ndarray, purpose: object) -> torch.Generator:
    """Return a generator, on the CPU, that is a function of a seed, a canvas and a purpose.

    Args:
        seed: any whole number.
        canvas: uint8 [H, W], or any other array of integers.
        purpose: of the random numbers; generators of different purposes differ.
    """
    about = f"{seed} {purpose} {canvas.shape} ".encode() + canvas.tobytes()
    number = int.from_bytes(hashlib.sha256(about).digest()[:8], "little", signed=True)
    return torch.Generator().manual_seed(number)


class NoisyLoop(Loop):
    """Loop with Gaussian noise on z_H before each supervision step, as in PTRM (arXiv 2605.19943).

    The noise is a function of the seed, the canvas, the rollout, the step and the cell, and does
    not depend on the batch. It is computed on the CPU in float32. Rollout 0 has none.

    Args:
        model: an iterative model.
        inputs: canvases, uint8 [B, H, W].
        options: standard deviation and seed of the noise; and ``start_seed``, of random initial
            states.
        rollouts: number of the rollout of each sample, int64 [B]; None: 0 for all.
    """

    def __init__(
        self,
        model: IterativeModel,
        inputs: np.ndarray,
        options: Options,
        rollouts: np.ndarray | None = None,
    ) -> None:
        super().__init__(model, tensor_for(model, inputs))
        if rollouts is None:
            rollouts = np.zeros(len(inputs), np.int64)
        self._noise = options.noise
        self._generators = [
            generator_of(options.seed, canvas, rollout) if rollout else None
            for canvas, rollout in zip(inputs, rollouts.tolist(), strict=True)
        ]
        if options.start_seed is not None:
            self.state = random_state(self, inputs, options.start_seed, rollouts)

    def step(self) -> None:
        """Add noise, then take a supervision step."""
        if any(self._generators):
            self.add_noise()
        super().step()

    def add_noise(self) -> None:
        """Add noise to the z_H of all samples but those of rollout 0.

        Raises:
            ValueError: the state has no z_H.
        """
        state = named(self.state)
        if "z_H" not in state:
            raise ValueError(
                f"noise is added to z_H, and the state of {type(self.model).__name__} has "
                f"{' and '.join(state)}: leave out --rollouts and --noise"
            )
        z_H = state["z_H"]
        noise = self._noise * noise_like(z_H, self.context, self._generators)
        self.state = unnamed(self.state, state | {"z_H": z_H + noise.to(z_H)})

    def keep(self, index: Tensor) -> None:
        """Keep only the samples of a mask, bool [B]."""
        super().keep(index)
        kept = index.tolist()
        self._generators = [g for g, k in zip(self._generators, kept, strict=True) if k]


def noise_like(z: Tensor, context: Any, generators: Sequence[torch.Generator | None]) -> Tensor:
    """Return standard normal noise for a tensor of a state, float32 on the CPU.

    The noise of a cell does not depend on the other samples, nor on which cells are tokens.

    Args:
        z: [B, ...].
        context: of the model.
        generators: of each sample, on the CPU; None: no noise, but 0.
    """
    cells, places = z.shape[1], None  # number of tokens with noise, and which ones get it
    numbers = context.cell_numbers if isinstance(context, Context) else None
    if numbers is not None:  # only some cells are tokens
        prefix = z.shape[1] - numbers.shape[1]
        cells = prefix + context.height * context.width + 1  # the last one is for padding
        of_prefix = torch.arange(prefix).expand(len(z), -1)
        places = torch.cat([of_prefix, prefix + numbers.cpu()], dim=1)
    noise = torch.zeros(z.shape, dtype=torch.float32, device="cpu")
    how: Any = {"dtype": torch.float32, "device": "cpu"}
    for i, generator in enumerate(generators):
        if generator is not None:
            each = torch.randn((cells, *z.shape[2:]), generator=generator, **how)
            noise[i] = each if places is None else each[places[i]]
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
        name: noise_like(z, loop.context, generators).to(z)
        for name, z in state.items()
        if z.is_floating_point()
    }
    return unnamed(loop.state, state | noise)
