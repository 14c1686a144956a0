"""Solving with a GPT: a canvas is a sequence, its rows reversed, decoded greedily or sampled."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from augment.views import View, apply_views, undo_views
from canvas import symbols
from canvas.drawing import Drawing
from canvas.sequences import from_sequences, to_sequences, tokens_to_write
from trm.models.gpt import GPT, Generated
from trm.models.sampling import Sampler
from trm.runtime.torch_settings import standard_settings, tensor_for
from trm.solving.noise import generator_of
from trm.solving.predictor import Predictor
from trm.solving.rows import FilledCanvases, Prediction
from trm.solving.trace import Trace

TO_WRITE = -1  # in place of a token that the model writes
FREE = TO_WRITE  # its released name


class GPTPredictor(Predictor):
    """Fills rows with a GPT, token by token.

    The confidence in a row is the sum of its symbols' log-probabilities, calibrated to the
    probability that the row is correct. In a free-running solution the last row also covers tokens
    outside rows: row ends, blank rows below, the end token.

    With a halting head the sum is over the head's log-probabilities of "this symbol is correct".
    The steps of a row are then the most loops of one of its symbols, and a row has settled if all
    of them have.
    """

    fills = "symbol"

    def __init__(self, model: GPT, calibration: Callable[[np.ndarray], np.ndarray]) -> None:
        self.model, self._calibration = model, calibration
        self.max_steps = model.config.loops if model.config.loops > 1 else None

    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        """See `Predictor`. The model reads nothing below the masked row."""
        answers, log_probs, loops, unsettled = self._write(inputs)
        confidence = self._calibration(log_probs.sum(axis=(1, 2)))
        steps = loops.max(axis=(1, 2)) * self._halts
        return Prediction(answers, confidence, steps, np.asarray(~unsettled.any(axis=(1, 2))))

    @property
    def _halts(self) -> bool:
        return self.model.config.halting

    def trace(self, inputs: np.ndarray, labels: np.ndarray, steps: int | None = None) -> Trace:
        answers, log_probs, *_ = self._write(inputs)
        return Trace.by_symbol(inputs, answers, log_probs, labels)

    def last_changes(self, drawing: Drawing) -> np.ndarray:
        """Return the loop, from 1, that last changed each cell of the free-running solutions.

        A cell's symbol after a loop is the likeliest one then. The result is int64 [B, H, W], 0 for
        cells that were not filled in.
        """
        size, found = drawing.canvases.shape[1:], self._sequences(drawing)
        with standard_settings(), torch.no_grad():
            states = self.model.loop_states(tensor_for(self.model, found.ids[:, :-1]), *size)
            likeliest = torch.stack([self.model.head(x).argmax(dim=-1) for x in states])
        best = likeliest.cpu().numpy()  # [loops, B, T - 1], of the tokens after the start
        changed = np.concatenate([np.ones_like(best[:1], dtype=bool), best[1:] != best[:-1]])
        loop = np.arange(1, len(best) + 1)[:, None, None]
        last = np.where(changed & (loop <= found.loops[:, 1:]), loop, 0).max(axis=0)
        return _on_canvas(np.pad(last, ((0, 0), (1, 0))), *size) * drawing.unknown

    def _write(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Fill in masked rows.

        Returns:
            Filled canvases, uint8, and of each symbol its log-probability, float32, its loops,
            int64, and whether it did not settle, bool; [B, H, W] each.
        """
        answers, log_probs = inputs.copy(), np.zeros(inputs.shape, dtype=np.float32)
        loops, unsettled = np.zeros(inputs.shape, np.int64), np.zeros(inputs.shape, bool)
        rows = (inputs == symbols.MASK).any(axis=2).argmax(axis=1)
        _, height, width = inputs.shape
        for row in np.unique(rows):  # one length of prompt at a time
            chosen = rows == row
            forced = to_sequences(inputs[chosen, : row + 1])[:, :-1]  # its end is no cell
            forced[forced == symbols.MASK] = TO_WRITE
            written = self._generate(forced, height, width)
            answers[chosen, row] = from_sequences(written.ids, row + 1, width)[:, row]
            of_row = slice(None), slice(None, -width - 1, -1)
            log_probs[chosen, row] = written.log_probs[of_row]
            loops[chosen, row] = written.loops[of_row]
            unsettled[chosen, row] = written.unsettled[of_row]
        return answers, log_probs, loops, unsettled

    def free_running(
        self,
        drawing: Drawing,
        views: Sequence[View] | None = None,
        problem_of: np.ndarray | None = None,
    ) -> FilledCanvases:
        """See `Predictor`. The whole sequence is decoded at once.

        Views are shifts alone, as a GPT writes in one direction. It has no rollouts.
        """
        if views is None:
            return self._decode(drawing)
        canvases, given = (apply_views(views, part) for part in (drawing.canvases, drawing.given))
        top = drawing.top + [view.down for view in views]
        left = drawing.left + [view.right for view in views]
        shifted = replace(drawing, canvases=canvases, given=given, top=top, left=left)
        filled = self._decode(shifted)
        return filled._replace(canvases=undo_views(views, filled.canvases))

    def _decode(self, drawing: Drawing) -> FilledCanvases:
        """Decode whole solutions."""
        B, height, width = drawing.canvases.shape
        found = self._sequences(drawing)
        written = found.log_probs
        canvases = from_sequences(found.ids, height, width)
        sample, row = np.arange(B), np.arange(int(drawing.num_rows.max()))
        present = row < drawing.num_rows[:, None]  # [B, R]
        rows = (drawing.canvas_row(0)[:, None] + row).clip(max=height - 1)
        by_cell = written[:, 1:-1].reshape(B, height, width + 1)[:, :, :width]
        symbol_log_probs = np.where(present, by_cell.sum(axis=2)[sample[:, None], rows], 0.0)
        # Blank rows that an early end leaves out count as written.
        known = [np.where(np.isneginf(p), 0, p) for p in (written, symbol_log_probs)]
        of_all, of_rows = (part.sum(axis=-1) for part in known)
        symbol_log_probs[sample, drawing.num_rows - 1] += of_all - of_rows
        confidence = np.where(present, self._calibration(symbol_log_probs), np.float32(1))
        filled = FilledCanvases.begun(drawing)._replace(canvases=canvases, confidence=confidence)
        if not self._halts:
            return filled
        loops, unsettled = (
            _on_canvas(part, height, width)[sample[:, None], rows]
            for part in (found.loops, found.unsettled)
        )
        most = np.where(present, loops.max(axis=2), 0)
        return filled._replace(steps=most, settled=~unsettled.any(axis=2) | ~present)

    def _sequences(self, drawing: Drawing) -> Generated[np.ndarray]:
        """Write the sequences of whole solutions."""
        ids = np.pad(to_sequences(drawing.canvases), ((0, 0), (0, 1)))
        forced = np.where(tokens_to_write(drawing), TO_WRITE, ids)
        return self._generate(forced, *drawing.canvases.shape[1:])

    @standard_settings()
    def _generate(self, forced: np.ndarray, height: int, width: int) -> Generated[np.ndarray]:
        """Return sequences in which the model has written all tokens that are not given.

        The log-probability of a token that is missing, after an early end, is minus infinity.

        Args:
            forced: token ids, int64 [B, T]; `TO_WRITE` where the model writes.
            height: of the canvas.
            width: of the canvas.
        """
        tokens = tensor_for(self.model, forced)
        sampler = None
        if (how := self.options.sampling) is not None:
            generators = [generator_of(how.seed, one, "sampling") for one in forced]
            sampler = Sampler(how.temperature, how.top_k, generators)
        generated = self.model.generate(tokens, height, width, symbols.END, sampler)
        written = Generated(*(part.cpu().numpy() for part in generated))
        cells = slice(0, 1 + height * (width + 1))  # no end token belongs here
        missing = (written.ids == symbols.END) & (forced == TO_WRITE)
        log_probs = written.log_probs.astype(np.float32)
        log_probs[:, cells][missing[:, cells]] = -np.inf
        return written._replace(log_probs=log_probs)


def _on_canvas(of_tokens: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the values of cells, [B, H, W], from those of a whole sequence's tokens, [B, T]."""
    rows = of_tokens[:, 1:-1].reshape(len(of_tokens), height, width + 1)
    return rows[:, :, width - 1 :: -1]
