"""Pictures of puzzles on TensorBoard."""

from typing import Any

import lightning as L
import numpy as np

from canvas.picture import pixels
from trm.figures.puzzle_panels import puzzle_panels, puzzles_figure
from trm.figures.row_panels import steps_figure
from trm.training.puzzle_data import PuzzleSamples
from trm.training.tensorboard import Pictures, add_image, writers

_TRACED = 64  # puzzles watched over supervision steps
_SHOWN = 8  # samples of training


class PuzzlePictures(Pictures):
    """Draws puzzles of each validation of a run: the same ones each time, and incorrect ones.

    - `panels/puzzle_1` and so on: puzzle, solution and the model's solution.
    - `panels/wrong_1` and so on: incorrect ones, the most confident first.
    - `figures/supervision_steps`: share of correct puzzles after each step.
    - `figures/samples`: puzzles of training as the model gets them, if views are drawn; once.

    Args:
        num_samples: number of puzzles of each kind, 1 or more.
    """

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        data = getattr(trainer.train_dataloader, "dataset", None)
        if not (trainer.is_global_zero and writers(trainer) and isinstance(data, PuzzleSamples)):
            return
        if len(data.symmetries) > 1 or data.shifts:
            first = trainer.current_epoch * len(data)
            inputs = data.__getitems__(range(first, first + min(_SHOWN, len(data))))["inputs"]
            figure = puzzles_figure(data.puzzles.format, inputs.numpy())
            add_image(trainer, "figures/samples", pixels(figure))

    def _draw_rows(self, trainer: L.Trainer, module: Any) -> None:
        parts: list[Any] = self._parts
        inputs, labels, answer = (
            np.concatenate(part) for part in zip(*(one.problems for one in parts), strict=True)
        )
        exact = np.concatenate([part.exact for part in parts])
        confidence = np.concatenate([part.solved.confidence for part in parts])
        canvases = np.concatenate([part.solved.canvases for part in parts])
        same = np.linspace(0, len(exact) - 1, min(self.num_samples, len(exact))).astype(int)
        wrong = np.flatnonzero(~exact)
        wrong = wrong[np.argsort(-confidence[wrong], kind="stable")][: self.num_samples]
        for kind, rows in (("puzzle", same), ("wrong", wrong)):
            for number, i in enumerate(rows.tolist(), start=1):
                outcome = "correct" if exact[i] else "incorrect"
                figure = puzzle_panels(
                    module.data.format,
                    inputs[i],
                    np.where(answer[i], labels[i], inputs[i]).astype(np.uint8),
                    canvases[i],
                    answer[i],
                    f"{outcome}, confidence {confidence[i]:.0%}",
                )
                add_image(trainer, f"panels/{kind}_{number}", pixels(figure))

    def _draw_steps(self, trainer: L.Trainer, module: Any) -> None:
        first: Any = self._parts[0]
        inputs, labels, answer = (part[:_TRACED] for part in first.problems)
        canvases, _ = module.solver().watched(inputs)
        right = ((canvases == labels) | ~answer).all(axis=(2, 3))
        add_image(trainer, "figures/supervision_steps", pixels(steps_figure(right, "puzzles")))
