"""Pictures of puzzles on TensorBoard."""

from typing import Any

import lightning as L
import numpy as np
from matplotlib.figure import Figure

from canvas.picture import pixels
from trm.figures.puzzle_panels import puzzle_panels, puzzles_figure
from trm.figures.row_panels import steps_figure
from trm.training.puzzle_data import PuzzleSamples
from trm.training.tensorboard import Pictures, add_image, chosen

_TRACED = 64  # puzzles watched over supervision steps
_SHOWN = 8  # samples of training


class PuzzlePictures(Pictures):
    """Draws puzzles of each validation of a run: the same ones each time, and incorrect ones.

    - `panels/puzzle_1` and so on: puzzle, solution and the model's solution.
    - `panels/wrong_1` and so on: incorrect ones, the most confident first.
    - `figures/supervision_steps`: share of correct puzzles after each step.
    - `figures/samples`: puzzles of training as the model gets them, if in random views; once.

    Args:
        num_samples: number of puzzles of each kind, 1 or more.
    """

    def _samples(self, data: PuzzleSamples, first: int) -> Figure | None:
        if len(data.symmetries) == 1 and not data.shifts:
            return None
        inputs = data.__getitems__(range(first, first + min(_SHOWN, len(data))))["inputs"]
        return puzzles_figure(data.puzzles.format, inputs.numpy())

    def _draw_rows(self, trainer: L.Trainer, module: Any) -> None:
        parts: list[Any] = self._parts
        inputs, labels, answer = (
            np.concatenate(part) for part in zip(*(one.problems for one in parts), strict=True)
        )
        exact = np.concatenate([part.exact for part in parts])
        confidence = np.concatenate([part.solved.confidence for part in parts])
        canvases = np.concatenate([part.solved.canvases for part in parts])
        solutions = np.where(answer, labels, inputs).astype(np.uint8)
        for tag, i in chosen(exact, confidence, self.num_samples, "puzzle").items():
            title = f"{'correct' if exact[i] else 'incorrect'}, confidence {confidence[i]:.0%}"
            panels = inputs[i], solutions[i], canvases[i], answer[i], title
            figure = puzzle_panels(module.data.format, *panels)
            add_image(trainer, f"panels/{tag}", pixels(figure))

    def _draw_steps(self, trainer: L.Trainer, module: Any) -> None:
        first: Any = self._parts[0]
        inputs, labels, answer = (part[:_TRACED] for part in first.problems)
        canvases, _ = module.solver().watched(inputs)
        correct = ((canvases == labels) | ~answer).all(axis=(2, 3))
        add_image(trainer, "figures/supervision_steps", pixels(steps_figure(correct, "puzzles")))
