"""The GPT as it solves: a canvas is a sequence, its rows reversed, decoded greedily."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from canvas import symbols
from canvas.render import IGNORE, Drawing, from_sequences, sequences, to_sequences
from trm.models.gpt import GPT
from trm.solving.rollout import Curve, Filled, Filler, OnRow, Rollout

Calibrate = Callable[[np.ndarray], np.ndarray]

FREE = -1  # a token that the model is to write


@dataclass(frozen=True)
class TokenTrace:
    """Rows that a GPT wrote, symbol by symbol.

    Attributes:
        answers: ``uint8 [B, H, W]``; only masked cells count.
        log_probs: ``float32 [B, H, W]``, of each symbol that it wrote, given those before; else 0.
        masked: ``bool [B, H, W]``, the cells to fill in.
    """

    heading = "confidence symbol by symbol, as it writes"

    answers: np.ndarray
    log_probs: np.ndarray
    masked: np.ndarray

    def curves(self, labels: np.ndarray) -> list[Curve]:
        """See `trm.solving.rollout.Look`: a point for each symbol, from the lowest digit up."""
        curves = []
        for answer, label, log_probs, masked in zip(
            self.answers, labels, self.log_probs, self.masked, strict=True
        ):
            right = (answer == label)[masked][::-1]
            outcome = f"row {'right' if right.all() else 'wrong'}"
            curves.append(Curve(np.exp(log_probs[masked][::-1]), right, 0, outcome))
        return curves


class GPTFiller(Filler):
    """Fills rows with a GPT, token by token.

    A row's confidence is the calibrated log-probability of its symbols together, their mean times
    their number. That of a free-running solution's last row covers what belongs to no row, too: row
    ends, blank rows below, the end.

    Args:
        model: on the device where it is to run.
        calibration: from log-probabilities of rows to the probability that they are right.
    """

    def __init__(self, model: GPT, calibration: Calibrate) -> None:
        self.model, self.calibration = model, calibration

    def accepts(self, height: int, width: int) -> bool:
        """See `Filler`."""
        return self.model.accepts(height, width)

    def __call__(self, inputs: np.ndarray) -> Filled:
        """See `Filler`; of what is below the masked row the model sees nothing."""
        seen = self.look(inputs)
        steps = np.zeros(len(inputs), dtype=np.int64)
        return Filled(seen.answers, self.calibration(seen.log_probs.sum(axis=(1, 2))), steps)

    def look(self, inputs: np.ndarray, steps: int | None = None) -> "TokenTrace":
        """See `Filler`: its confidence in each symbol, in the order of writing."""
        masked = inputs == symbols.MASK
        answers, log_probs = inputs.copy(), np.zeros(inputs.shape, dtype=np.float32)
        rows = masked.any(axis=2).argmax(axis=1)
        for row in np.unique(rows):  # one length of prompt at a time
            chosen = rows == row
            answers[chosen, row], log_probs[chosen, row] = self._row(inputs[chosen], row)
        return TokenTrace(answers, log_probs, masked)

    def _row(self, inputs: np.ndarray, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The row that canvases mask, ``uint8 [B, W]``, and its symbols' log-probabilities."""
        _, height, width = inputs.shape
        forced = to_sequences(inputs[:, : row + 1])[:, :-1]  # its end is no cell
        forced[forced == symbols.MASK] = FREE
        ids, log_probs = self._generate(forced, height, width)
        return from_sequences(ids, row + 1, width)[:, row], log_probs[:, : -width - 1 : -1]

    def free_running(self, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
        """See `Filler.free_running`. The whole sequence is decoded, and then shown row by row."""
        B, height, width = drawing.canvases.shape
        ids, labels = sequences(drawing)
        forced = np.concatenate([ids, np.full((B, 1), symbols.END)], axis=1)
        forced[:, 1:][labels != IGNORE] = FREE
        ids, log_probs = self._generate(forced, height, width)
        canvases = from_sequences(ids, height, width)
        sample, steps = np.arange(B), np.arange(int(drawing.steps.max()))
        present = steps < drawing.steps[:, None]  # [B, S]
        rows = (drawing.row_of_step(0)[:, None] + steps).clip(max=height - 1)
        by_row = log_probs[:, 1:-1].reshape(B, height, width + 1)[:, :, :width].sum(axis=2)
        said = np.where(present, by_row[sample[:, None], rows], 0.0)
        # Blank rows that an early end leaves out are as good as written.
        other = _known_sum(log_probs) - _known_sum(said)
        said[sample, drawing.steps - 1] += other
        exact = (canvases == drawing.canvases).all(axis=2)[sample[:, None], rows] & present
        confidence = np.where(present, self.calibration(said), np.float32(1))
        if on_row:
            _show(drawing, canvases, on_row)
        return Rollout(canvases, exact, confidence, np.zeros(present.shape, dtype=np.int64))

    def _generate(
        self, forced: np.ndarray, height: int, width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sequences with the free tokens written, and their log-probabilities.

        These are minus infinity where a token is missing because the sequence has ended too early.
        """
        tokens = torch.from_numpy(forced).to(next(self.model.parameters()).device)
        written, said = self.model.generate(tokens, height, width, end=symbols.END)
        ids, log_probs = written.cpu().numpy(), said.float().cpu().numpy()
        cells = slice(0, 1 + height * (width + 1))  # where no end belongs
        missing = (ids == symbols.END) & (forced == FREE)
        log_probs[:, cells][missing[:, cells]] = -np.inf
        return ids, log_probs


def _known_sum(log_probs: np.ndarray) -> np.ndarray:
    """Sums over the last dimension, minus infinity left out."""
    return np.where(np.isneginf(log_probs), 0.0, log_probs).sum(axis=-1)


def _show(drawing: Drawing, canvases: np.ndarray, on_row: OnRow) -> None:
    """Canvases that are filled already, uncovered row by row; the last step uncovers all."""
    shown = drawing.unsolved()
    height = canvases.shape[1]
    for step in range(int(drawing.steps.max())):
        masked = drawing.answer_cells(step) & (drawing.steps > step)[:, None, None]
        on_row(step, np.where(masked, np.uint8(symbols.MASK), shown))
        done = np.arange(height) <= drawing.row_of_step(step)[:, None]
        done |= (drawing.steps <= step + 1)[:, None]
        shown = np.where(done[:, :, None], canvases, shown)
        on_row(step, shown)
