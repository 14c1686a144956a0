"""Traces: the confidence in rows while a model fills them in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from canvas import symbols


class ConfidenceCurve(NamedTuple):
    """Confidence while one row is filled in, at N points."""

    confidence: np.ndarray  # float [N], 0 to 1
    correct: np.ndarray  # bool [N], whether the row or symbol is correct at that point
    halt: int  # the point, from 1, at which the model stops; 0 where it does not
    outcome: str  # the result in words


class Trace(NamedTuple):
    """Rows that a model has filled in, with a curve of its confidence in each."""

    heading: str  # of the curves
    answers: np.ndarray  # uint8 [B, H, W], the model's output; only masked cells count
    curves: list[ConfidenceCurve]  # one for each row
    points: str = "supervision step"  # name of the axis that counts the points of a curve

    @classmethod
    def by_step(
        cls,
        inputs: np.ndarray,
        cells: np.ndarray,
        confidence: np.ndarray,
        settled: np.ndarray,
        labels: np.ndarray,
    ) -> Trace:
        """Trace rows that are filled in at once: a point for each supervision step.

        Args:
            inputs: masked canvases, uint8 [B, H, W].
            cells: after each step, uint8 [T, B, H, W].
            confidence: in each row after each step, float32 [T, B].
            settled: whether each row has settled then, bool [T, B].
            labels: true canvases, uint8 [B, H, W].
        """
        exact = ((cells == labels) | (inputs != symbols.MASK)).all(axis=(2, 3))  # [T, B]
        halts = np.where(settled.any(axis=0), settled.argmax(axis=0) + 1, 0)
        curves = []
        for i, halt in enumerate(halts.tolist()):
            end = f"halts at step {halt}" if halt else f"does not halt in {len(cells)} steps"
            outcome = f"{end}, row {'correct' if exact[halt - 1, i] else 'incorrect'}"
            curves.append(ConfidenceCurve(confidence[:, i], exact[:, i], halt, outcome))
        answers = cells[halts - 1, np.arange(len(inputs))]  # -1, the last step, without a halt
        return cls("confidence over supervision steps", answers, curves)

    @classmethod
    def by_symbol(
        cls, inputs: np.ndarray, answers: np.ndarray, log_probs: np.ndarray, labels: np.ndarray
    ) -> Trace:
        """Trace rows written symbol by symbol: a point for each symbol, lowest digit first.

        Args:
            inputs: masked canvases, uint8 [B, H, W].
            answers: the model's output, uint8 [B, H, W].
            log_probs: of each symbol given those before it, float32 [B, H, W].
            labels: true canvases, uint8 [B, H, W].
        """
        curves = []
        for i, masked in enumerate(inputs == symbols.MASK):
            correct = (answers[i] == labels[i])[masked][::-1]
            outcome = f"row {'correct' if correct.all() else 'incorrect'}"
            curves.append(ConfidenceCurve(np.exp(log_probs[i][masked][::-1]), correct, 0, outcome))
        points = "symbol of the row, lowest digit first"
        return cls("confidence symbol by symbol, as it writes", answers, curves, points)
