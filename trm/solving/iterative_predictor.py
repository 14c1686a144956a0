"""The recursive model as it solves: supervision steps until a row has settled."""

import math

import numpy as np
import torch

from canvas import symbols
from trm.models.positions import ABSOLUTE
from trm.models.recursive import Context, State, TinyRecursiveModel
from trm.solving.rollout import OnStep, Prediction, Predictor
from trm.solving.trace import PATIENCE, Trace, trace, unchanged


class IterativePredictor(Predictor):
    """Fills rows with a recursive model, in as many supervision steps as each sample needs.

    A sample stops when its row has settled, see `unchanged`; from then on it costs nothing.

    Args:
        model: on the device where it is to run.
        max_steps: supervision steps at most; may exceed those of training.
        halt: False runs every sample to ``max_steps``.
        noise: standard deviation of normal noise on both states of samples that have a key, before
            every supervision step (PTRM, arXiv 2605.19943).
        on_step: told of each supervision step.

    Raises:
        ValueError: no step, or a negative deviation.
    """

    def __init__(
        self,
        model: TinyRecursiveModel,
        max_steps: int,
        halt: bool = True,
        noise: float = 0.0,
        on_step: OnStep | None = None,
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        if not 0 <= noise < math.inf:
            raise ValueError(f"noise is a standard deviation from 0 up, not {noise}")
        self.model, self.max_steps, self.halt, self.noise = model, max_steps, halt, noise
        self.on_step = on_step
        config = model.config
        # Without blank cells, and with offsets for places, a canvas has no edges.
        self.placeless = config.tokens == "written" and config.position not in ABSOLUTE

    def accepts(self, height: int, width: int) -> bool:
        """See `Predictor`."""
        return self.model.accepts(height, width)

    def perturbed(self, noise: float, temperature: float) -> "IterativePredictor":
        """See `Predictor`."""
        if temperature:
            raise ValueError(
                "temperature is of a GPT, which draws its symbols; a recursive model's rollouts "
                "differ by noise"
            )
        return IterativePredictor(self.model, self.max_steps, self.halt, noise, self.on_step)

    def watched(self, on_step: OnStep) -> "IterativePredictor":
        """See `Predictor`."""
        return IterativePredictor(self.model, self.max_steps, self.halt, self.noise, on_step)

    def look(self, inputs: np.ndarray, steps: int | None = None) -> Trace:
        """See `Predictor`: its confidence after each of ``steps`` or else ``max_steps`` steps."""
        return trace(self.model, inputs, steps or self.max_steps)

    @torch.no_grad()
    def __call__(
        self, inputs: np.ndarray, keys: np.ndarray | None = None, log_probs: bool = False
    ) -> Prediction:
        """See `Predictor`."""
        device = next(self.model.parameters()).device
        tokens = torch.from_numpy(inputs).to(device)
        cells = torch.empty_like(tokens)
        confidence = torch.empty(len(tokens), device=device)
        used = torch.empty(len(tokens), dtype=torch.long, device=device)
        settled = torch.empty(len(tokens), dtype=torch.bool, device=device)
        context = self.model.encode(tokens)
        state = self.model.initial_state(context)
        noise = _Noise(self.noise, keys, device) if self.noise and keys is not None else None
        said = None
        active = torch.arange(len(tokens), device=device)
        before, masked = tokens, tokens == symbols.MASK
        calm = torch.zeros_like(used)  # steps in succession that changed nothing
        for step in range(1, self.max_steps + 1):
            if noise is not None:
                state = noise.on(state, context, active)
            state = self.model.iterate(context, state)
            logits, halt_logits = self.model.read(state, context)
            now = logits.argmax(dim=-1).to(cells.dtype)
            if self.on_step is not None:
                sure = halt_logits.float().sigmoid()
                self.on_step(step, *(x.cpu().numpy() for x in (active, now, sure)))
            calm = (calm + 1) * unchanged(now, before, masked)
            still = (halt_logits > 0) & (calm >= PATIENCE)
            done = still & self.halt
            if step == self.max_steps:
                done = torch.ones_like(done)
            before = now
            if not done.any():
                continue
            finished = active[done]
            cells[finished] = now[done]
            confidence[finished] = halt_logits[done].float().sigmoid()
            used[finished], settled[finished] = step, still[done]
            if log_probs:
                if said is None:
                    said = torch.empty((*cells.shape, logits.shape[-1]), device=device)
                said[finished] = logits[done].float().log_softmax(dim=-1)
            active, before, masked, calm = (x[~done] for x in (active, before, masked, calm))
            if not len(active):
                break
            state, context = state.select(~done), context.select(~done)
        return Prediction(
            cells.cpu().numpy(),
            confidence.cpu().numpy(),
            used.cpu().numpy(),
            None if said is None else said.cpu().numpy(),
            settled.cpu().numpy(),
        )


class _Noise:
    """Normal noise that each sample draws by itself: what it gets depends on no other sample."""

    def __init__(self, deviation: float, keys: np.ndarray, device: torch.device) -> None:
        self.deviation = deviation
        self.generators = [
            torch.Generator(device).manual_seed(int(key)) if key else None for key in keys
        ]

    def on(self, state: State, context: Context, active: torch.Tensor) -> State:
        """The states of the samples that are still active, with noise on what are tokens."""
        noise = state.z_H.new_zeros((2, *state.z_H.shape), dtype=torch.float32)
        lengths = context.lengths.tolist()
        for i, (sample, length) in enumerate(zip(active.tolist(), lengths, strict=True)):
            generator = self.generators[sample]
            if generator is not None:
                # Into memory of its own: PyTorch draws other numbers into a part of a tensor.
                own = noise.new_empty((2, length, noise.shape[-1]))
                noise[:, i, :length] = own.normal_(0, self.deviation, generator=generator)
        return State(
            state.z_H + noise[0].to(state.z_H.dtype), state.z_L + noise[1].to(state.z_L.dtype)
        )
