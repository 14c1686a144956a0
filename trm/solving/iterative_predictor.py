"""An iterative model as it solves: supervision steps until a row has settled."""

import math
from copy import copy

import numpy as np
import torch

from canvas import symbols
from canvas.render import Drawing
from trm.models.draws import Noise
from trm.models.iterative import IterativeModel
from trm.models.looped import LoopedTransformer
from trm.models.ordered import runs_along_fronts, work_along_fronts, work_in_order
from trm.solving.hint_reading import hints_after, likeliest
from trm.solving.iteration import iterate
from trm.solving.memory import Memory
from trm.solving.rollout import OnRow, OnStep, Prediction, Predictor, Rollout
from trm.solving.trace import SymbolTrace, Trace, trace


class IterativePredictor(Predictor):
    """Fills rows with an iterative model, in as many supervision steps as each sample needs.

    A sample stops when its row has settled, see `Settling`; from then on it costs nothing.

    Args:
        model: on the device where it is to run.
        max_steps: supervision steps at most; may exceed those of training.
        halt: False runs every sample to ``max_steps``.
        noise: standard deviation of normal noise on the states of samples that have a key, before
            every supervision step (PTRM, arXiv 2605.19943).
        on_step: shown of each supervision step, or where it works in order of each cell.
        memory: of canvases that come again with their next row, see `with_cache`.

    Raises:
        ValueError: no step, or a negative deviation.
    """

    def __init__(
        self,
        model: IterativeModel,
        max_steps: int,
        halt: bool = True,
        noise: float = 0.0,
        on_step: OnStep | None = None,
        memory: Memory | None = None,
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        if not 0 <= noise < math.inf:
            raise ValueError(f"noise is a standard deviation from 0 up, not {noise}")
        self.model, self.max_steps, self.halt, self.noise = model, max_steps, halt, noise
        self.on_step, self.memory = on_step, memory
        self.translation_invariant = model.translation_invariant

    def accepts(self, height: int, width: int) -> bool:
        """Whether the network can work on canvases of that size."""
        return self.model.accepts(height, width)

    def pairs(self, height: int, width: int) -> int:
        """See `Predictor`."""
        return self.model.pairs(height, width)

    def perturbed(self, noise: float, temperature: float) -> "IterativePredictor":
        """The same network with noise on its states."""
        if temperature:
            raise ValueError(
                "temperature is of a GPT, which draws its symbols; a recursive model's rollouts "
                "differ by noise"
            )
        return IterativePredictor(self.model, self.max_steps, self.halt, noise, self.on_step)

    def watched(self, on_step: OnStep) -> "IterativePredictor":
        """The same network; `on_step` is called after each supervision step, or each cell."""
        return IterativePredictor(self.model, self.max_steps, self.halt, self.noise, on_step)

    def with_cache(self) -> "IterativePredictor":
        """See `Predictor`."""
        if self.noise or self.memory is not None:
            return self  # under noise nothing comes to the same again
        other = copy(self)
        other.memory = Memory()
        return other

    @property
    def in_order(self) -> bool:  # type: ignore[override]
        """Whether every cell is worked out once, with the same result as in steps without end."""
        return isinstance(self.model, LoopedTransformer) and self.model.in_order and self.halt

    def look(self, inputs: np.ndarray, steps: int | None = None) -> Trace | SymbolTrace:
        """See `Predictor`: its confidence after each of ``steps`` or else ``max_steps`` steps.

        In order: its confidence in each symbol.
        """
        if not self.in_order:
            return trace(self.model, inputs, steps or self.max_steps)
        # One by one, as only pages of one width are worked out together.
        alone = [self._fill(canvas[None], log_probs=True) for canvas in inputs]
        written = Prediction.joined(alone)
        assert written.log_probs is not None
        masked = inputs == symbols.MASK
        return SymbolTrace(written.canvases, written.log_probs.max(axis=-1) * masked, masked)

    @torch.no_grad()
    def hints(self, inputs: np.ndarray, steps: np.ndarray) -> dict[str, np.ndarray]:
        """See `Predictor`. In order: what was decided while the cells were worked out."""
        if not self.in_order:
            return hints_after(self.model, inputs, steps)
        assert isinstance(self.model, LoopedTransformer)
        worked = work_in_order(self.model, torch.from_numpy(inputs).to(self._device))
        if worked is None:
            return hints_after(self.model, inputs, np.full(len(inputs), self.max_steps))
        found = self.model.read_hints(worked.state, worked.context)
        return {name: likeliest(logits).cpu().numpy() for name, logits in found.items()}

    def __call__(
        self, inputs: np.ndarray, keys: np.ndarray | None = None, log_probs: bool = False
    ) -> Prediction:
        """Fill in masked rows, in as many supervision steps as each needs."""
        if self.memory is None or log_probs:
            return self._fill(inputs, keys, log_probs)
        return self.memory.filled(inputs, self._fill)

    def free_running(self, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
        """See `Predictor`; along fronts, where the model's pages can be worked out so."""
        watched = on_row is not None or self.on_step is not None
        first = drawing.row_of_step(0)
        used = (drawing.canvases != symbols.BLANK) | drawing.answer_cells(0)
        used &= (np.arange(used.shape[1]) <= first[:, None])[:, :, None]
        whole = used.any(axis=1)[:, [0, -1]].all()  # in its whole width, from the first row on
        model = self.model
        if watched or not whole or not (self.in_order and runs_along_fronts(model)):
            return super().free_running(drawing, on_row)
        assert isinstance(model, LoopedTransformer)
        B, S = len(drawing), int(drawing.steps.max())
        canvases, confidence = drawing.canvases.copy(), np.ones((B, S), dtype=np.float32)
        answer = np.zeros(canvases.shape, dtype=bool)
        for step in range(S):
            answer |= drawing.answer_cells(step) & (drawing.steps > step)[:, None, None]
        places = np.stack([used.any(axis=2).argmax(axis=1), first, drawing.steps], axis=1)
        for place in np.unique(places, axis=0):  # of a batch, those whose rows lie alike
            these = (places == place).all(axis=1)
            top, begin, steps = place.tolist()
            shown, cells = (
                torch.from_numpy(part[these]).to(self._device) for part in (canvases, answer)
            )
            rows = list(range(begin, begin + steps))
            filled, halt_logits = work_along_fronts(model, shown, cells, top, rows)
            canvases[these] = filled.cpu().numpy()
            confidence[these, :steps] = halt_logits.sigmoid().cpu().numpy()
        nothing = np.zeros((B, S), dtype=np.int64)
        return Rollout(canvases, confidence, nothing, np.ones((B, S), dtype=bool))

    @torch.no_grad()
    def _fill(
        self, inputs: np.ndarray, keys: np.ndarray | None = None, log_probs: bool = False
    ) -> Prediction:
        device = self._device
        tokens = torch.from_numpy(inputs).to(device)
        if self.in_order and (keys is None or not self.noise):
            written = self._in_order(inputs, tokens, log_probs)
            if written is not None:
                return written
        cells = torch.empty_like(tokens)
        confidence = torch.empty(len(tokens), device=device)
        used = torch.empty(len(tokens), dtype=torch.long, device=device)
        settled = torch.empty(len(tokens), dtype=torch.bool, device=device)
        symbol_log_probs = None
        noise = None
        if self.noise and keys is not None:
            noise = Noise(self.noise, [int(key) for key in keys], device)
        masked = tokens == symbols.MASK
        for step in iterate(self.model, tokens, masked, self.max_steps, self.halt, noise):
            if self.on_step is not None:
                sure = step.halt_logits.float().sigmoid()
                shown = (step.samples, step.cells, sure)
                self.on_step(step.number, *(part.cpu().numpy() for part in shown))
            if not step.last.any():
                continue
            done, last = step.samples[step.last], step.last
            cells[done], used[done] = step.cells[last], step.number
            confidence[done] = step.halt_logits[last].float().sigmoid()
            settled[done] = step.settled[last]
            if log_probs:
                if symbol_log_probs is None:
                    symbol_log_probs = torch.empty(
                        (*cells.shape, step.logits.shape[-1]), device=device
                    )
                symbol_log_probs[done] = step.logits[last].float().log_softmax(dim=-1)
        return Prediction(
            cells.cpu().numpy(),
            confidence.cpu().numpy(),
            used.cpu().numpy(),
            None if symbol_log_probs is None else symbol_log_probs.cpu().numpy(),
            settled.cpu().numpy(),
        )

    def _in_order(
        self, inputs: np.ndarray, tokens: torch.Tensor, log_probs: bool
    ) -> Prediction | None:
        """See `trm.models.ordered`; None where that cannot be done."""
        above = None if self.memory is None else self.memory.above(inputs)
        assert isinstance(self.model, LoopedTransformer)
        worked = work_in_order(self.model, tokens, above)
        if worked is None:
            return None
        logits, halt_logits = self.model.read(worked.state, worked.context)
        cells = logits.argmax(dim=-1).byte().cpu().numpy()
        sure = halt_logits.float().sigmoid().cpu().numpy()
        if self.memory is not None:
            self.memory.keep(np.where(inputs == symbols.MASK, cells, inputs), worked.above)
        if self.on_step is not None:
            _show_cells(self.on_step, inputs, cells, sure)
        return Prediction(
            cells,
            sure,
            np.zeros(len(cells), dtype=np.int64),
            logits.float().log_softmax(dim=-1).cpu().numpy() if log_probs else None,
        )

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def _show_cells(
    on_step: OnStep, inputs: np.ndarray, cells: np.ndarray, confidence: np.ndarray
) -> None:
    """Rows ``uint8 [B, H, W]`` cell by cell, from the right to the left."""
    masked = inputs == symbols.MASK
    place = masked[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] * masked  # from 1, in its row
    samples, last = np.arange(len(inputs)), int(place.max())
    for number in range(1, last + 1):
        sure = confidence if number == last else np.full_like(confidence, np.nan)
        on_step(number, samples, np.where(place > number, symbols.MASK, cells), sure)
