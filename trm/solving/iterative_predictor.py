"""An iterative model as it solves: supervision steps until a row has settled."""

import math
from collections import OrderedDict
from copy import copy

import numpy as np
import torch

from canvas import symbols
from trm.models.draws import Noise
from trm.models.iterative import IterativeModel
from trm.models.looped import LoopedTransformer
from trm.models.ordered import RowCache, work_in_order
from trm.solving.iteration import StepTrace, SymbolTrace, Trace, hints_after, iterate, likeliest
from trm.solving.rollout import OnStep, Prediction, Predictor

_MOST = 4096  # canvases of which is kept what is known of their rows
_MOST_BYTES = 2**28


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
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"a row takes at least one supervision step, not {max_steps}")
        if not 0 <= noise < math.inf:
            raise ValueError(f"noise is a standard deviation from 0 up, not {noise}")
        self.model, self.max_steps, self.halt, self.noise = model, max_steps, halt, noise
        self.on_step = on_step
        self.cache: _Cache | None = None  # see `with_cache`
        self.translation_invariant = model.translation_invariant

    def accepts(self, height: int, width: int) -> bool:
        return self.model.accepts(height, width)

    def pairs(self, height: int, width: int) -> int:
        return self.model.pairs(height, width)

    def perturbed(self, noise: float, temperature: float) -> "IterativePredictor":
        if temperature:
            raise ValueError("--temperature applies to GPTs only; use --noise")
        return IterativePredictor(self.model, self.max_steps, self.halt, noise, self.on_step)

    def watched(self, on_step: OnStep) -> "IterativePredictor":
        return IterativePredictor(self.model, self.max_steps, self.halt, self.noise, on_step)

    def with_cache(self) -> "IterativePredictor":
        if not self.in_order or self.noise or self.cache is not None:
            return self
        other = copy(self)
        other.cache = _Cache()
        return other

    @property
    def in_order(self) -> bool:  # type: ignore[override]
        """Whether every cell is worked out once, with the same result as in steps without end."""
        return isinstance(self.model, LoopedTransformer) and self.model.in_order and self.halt

    @torch.no_grad()
    def trace(self, inputs: np.ndarray, steps: int | None = None) -> Trace:
        """See `Predictor`: its confidence after each of ``steps`` or else ``max_steps`` steps.

        In order: its confidence in each symbol.
        """
        masked = inputs == symbols.MASK
        if self.in_order:  # one by one, as only canvases of one width are worked out together
            alone = [self(canvas[None], log_probs=True) for canvas in inputs]
            written = Prediction.joined(alone)
            assert written.log_probs is not None
            return SymbolTrace(written.canvases, written.log_probs.max(axis=-1) * masked, masked)
        tokens = torch.from_numpy(inputs).to(self._device)
        steps = self.max_steps if steps is None else steps
        seen = [
            (step.cells, step.halt_logits.float())
            for step in iterate(self.model, tokens, tokens == symbols.MASK, steps, halt=False)
        ]
        cells, halting = (torch.stack(parts).cpu().numpy() for parts in zip(*seen, strict=True))
        return StepTrace(cells, halting, masked)

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

    @torch.no_grad()
    def __call__(
        self, inputs: np.ndarray, keys: np.ndarray | None = None, log_probs: bool = False
    ) -> Prediction:
        """Fill in masked rows, in as many supervision steps as each needs."""
        device, noise = self._device, None
        tokens = torch.from_numpy(inputs).to(device)
        if self.noise and keys is not None:
            noise = Noise(self.noise, [int(key) for key in keys], device)
        elif self.in_order and (written := self._fill_in_order(inputs, tokens, log_probs)):
            return written
        cells, confidence = torch.empty_like(tokens), torch.empty(len(tokens), device=device)
        used = torch.empty_like(confidence, dtype=torch.long)
        settled = torch.empty_like(confidence, dtype=torch.bool)
        log: torch.Tensor | None = None
        masked = tokens == symbols.MASK
        for step in iterate(self.model, tokens, masked, self.max_steps, self.halt, noise):
            if self.on_step is not None:
                shown = (step.samples, step.cells, step.halt_logits.float().sigmoid())
                self.on_step(step.number, *(part.cpu().numpy() for part in shown))
            if not step.last.any():
                continue
            done, last = step.samples[step.last], step.last
            cells[done], used[done] = step.cells[last], step.number
            confidence[done] = step.halt_logits[last].float().sigmoid()
            settled[done] = step.settled[last]
            if log_probs:
                if log is None:
                    log = step.logits.new_empty(*cells.shape, step.logits.shape[-1]).float()
                log[done] = step.logits[last].float().log_softmax(dim=-1)
        return Prediction(
            cells.cpu().numpy(),
            confidence.cpu().numpy(),
            used.cpu().numpy(),
            None if log is None else log.cpu().numpy(),
            settled.cpu().numpy(),
        )

    def _fill_in_order(
        self, inputs: np.ndarray, tokens: torch.Tensor, log_probs: bool
    ) -> Prediction | None:
        """See `trm.models.ordered`; None where that cannot be done."""
        assert isinstance(self.model, LoopedTransformer)
        above = self.cache.of(inputs) if self.cache else None
        worked = work_in_order(self.model, tokens, above)
        if worked is None:
            return None
        logits, halt_logits = self.model.read(worked.state, worked.context)
        cells = logits.argmax(dim=-1).byte().cpu().numpy()
        confidence = halt_logits.float().sigmoid().cpu().numpy()
        masked = inputs == symbols.MASK
        if self.cache and worked.above is not None:
            self.cache.keep(np.where(masked, cells, inputs), worked.above)
        if self.on_step is not None:  # cell by cell, from the right to the left
            place = masked[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] * masked  # from 1, in its row
            last, unknown = int(place.max()), np.full_like(confidence, np.nan)
            for number in range(1, last + 1):
                shown = np.where(place > number, symbols.MASK, cells)
                sure = confidence if number == last else unknown
                self.on_step(number, np.arange(len(inputs)), shown, sure)
        log = logits.float().log_softmax(dim=-1).cpu().numpy() if log_probs else None
        return Prediction(cells, confidence, np.zeros(len(cells), dtype=np.int64), log)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


class _Cache:
    """What is known of canvases whose last row has been filled in, until the next one is asked for.

    They are found by what stands on them. Nothing of what is kept changes an answer.
    """

    def __init__(self) -> None:
        self._of = OrderedDict[tuple[tuple[int, ...], bytes], RowCache]()  # of one canvas each

    def keep(self, filled: np.ndarray, above: RowCache) -> None:
        """Keep what is known of canvases ``uint8 [B, H, W]`` as they have been filled in."""
        for canvas, seen, places in zip(filled, above.seen, above.places, strict=True):
            self._of[canvas.shape, canvas.tobytes()] = RowCache(seen, places)
        each = above.seen[0].numel() * above.seen.element_size()
        while len(self._of) > max(1, min(_MOST, _MOST_BYTES // each)):
            self._of.popitem(last=False)

    def of(self, inputs: np.ndarray) -> RowCache | None:
        """What is known of canvases with their next row masked; None unless of all of them."""
        before = np.where(inputs == symbols.MASK, np.uint8(symbols.BLANK), inputs)
        found = [self._of.get((canvas.shape, canvas.tobytes())) for canvas in before]
        known = [one for one in found if one is not None]
        if len(known) < len(found) or len({one.seen.shape for one in known}) > 1:
            return None
        parts = zip(*((one.seen, one.places) for one in known), strict=True)
        return RowCache(*(torch.stack(part) for part in parts))
