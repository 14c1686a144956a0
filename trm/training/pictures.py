"""Pictures of a validation on TensorBoard: single rows, and all of them step by step."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import lightning as L
import numpy as np

from canvas.layouts import ROW_KINDS
from canvas.picture import pixels
from canvas.render import RowSteps
from canvas.task import Task
from trm.figures.row_panels import sample_panels, steps_figure
from trm.solving.iterative_predictor import IterativePredictor
from trm.training.canvas_module import CanvasModule, Validated
from trm.training.configs import check_range
from trm.training.data import CanvasDataModule
from trm.training.tensorboard import writers

_LONGEST_NAME = 23  # characters of a title's problem
_TRACED = 64  # rows that are followed over supervision steps


class Pictures(L.Callback):
    """Draws rows of each validation of a run: the same ones each time, and wrong ones.

    They are `panels/row_1` and so on, built on the true rows: input, label, prediction, and the
    confidence on the way; and `panels/wrong_1` and so on, the surest errors first. Beside them
    `figures/supervision_steps`, how many rows are right after each step. Several devices draw the
    first one's share of the problems.

    Args:
        num_samples: rows of each kind that are drawn, 1 or more.
    """

    def __init__(self, num_samples: int = 6) -> None:
        check_range("panels.num_samples", num_samples, 1)
        self.num_samples = num_samples
        self._parts: list[Validated] = []

    # The model is not asked at the validation's end, where averaged weights may be gone already.
    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        data = getattr(trainer, "datamodule", None)  # set only where there is one
        if not (isinstance(pl_module, CanvasModule) and isinstance(data, CanvasDataModule)):
            return
        shown = not trainer.sanity_checking and trainer.is_global_zero and writers(trainer)
        if dataloader_idx or not shown:
            return
        self._parts = [*(self._parts if batch_idx else ()), outputs["validated"]]
        if batch_idx + 1 == trainer.num_val_batches[0]:
            with trainer.precision_plugin.forward_context():
                self._draw_rows(trainer, pl_module, data.task)
                self._draw_steps(trainer, pl_module)
            self._parts = []

    def _draw_rows(self, trainer: L.Trainer, module: CanvasModule, task: Task) -> None:
        chosen = chosen_rows(self._parts, self.num_samples)
        names, steps, given = [], [], []
        for part, i in chosen.values():
            names.append(title(task, part, i))
            steps.append([getattr(part.forced.steps, f.name)[i : i + 1] for f in fields(RowSteps)])
            given.append(part.drawing.given[part.forced.steps.problem[i]])
        shown = RowSteps(*map(np.concatenate, zip(*steps, strict=True)))
        seen = module.predictor().trace(shown.inputs)
        image = pixels(sample_panels(shown, np.stack(given), seen, names))
        for tag, panel in zip(chosen, np.split(image, len(chosen)), strict=True):
            _add(trainer, f"panels/{tag}", panel)

    def _draw_steps(self, trainer: L.Trainer, module: CanvasModule) -> None:
        """Which of some rows are right after each supervision step, if the model takes any."""
        predictor, steps = module.predictor(), self._parts[0].forced.steps
        if isinstance(predictor, IterativePredictor):
            seen = predictor.trace(steps.inputs[:_TRACED])
            figure = steps_figure(seen.rows_exact(steps.labels[:_TRACED]))
            _add(trainer, "figures/supervision_steps", pixels(figure))


def _add(trainer: L.Trainer, tag: str, image: np.ndarray) -> None:
    step = max(0, trainer.global_step - 1)  # where the curves have a validation's figures
    for writer in writers(trainer):
        writer.add_image(tag, image, step, dataformats="HWC")


def chosen_rows(parts: Sequence[Validated], number: int) -> dict[str, tuple[Validated, int]]:
    """Rows of a validation by what they are called, each as its batch and its number there.

    So many `row_1` and on are always the same ones, and as many are wrong, the surest ones first.
    """
    rows = [(part, i) for part in parts for i in range(len(part.forced.rows_exact))]
    right = np.concatenate([part.forced.rows_exact for part in parts])
    confidence = np.concatenate([part.forced.filled.confidence for part in parts])
    same = np.linspace(0, len(rows) - 1, min(number, len(rows))).astype(int)
    wrong = np.flatnonzero(~right)
    kinds = {"row": same, "wrong": wrong[np.argsort(-confidence[wrong], kind="stable")][:number]}
    return {f"{kind}_{n}": rows[i] for kind, found in kinds.items() for n, i in enumerate(found, 1)}


def title(task: Task, part: Validated, row: int) -> str:
    """What a row is: its problem, which of the problem's rows, and the row's kind."""
    drawing, problem = part.drawing, part.forced.steps.problem[row]
    step = part.forced.steps.step[row]
    name = task.names(part.problems)[problem].replace("x", "×")
    name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    kind = ROW_KINDS[drawing.kinds[problem, drawing.first_step[problem] + step]]
    return f"{name}   row {step + 1} of {drawing.steps[problem]}: {kind}"
