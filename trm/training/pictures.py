"""Pictures of a validation on TensorBoard: single rows, and all of them step by step."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import lightning as L
import numpy as np

from canvas.layouts import ROW_KINDS
from canvas.picture import pixels
from canvas.problems import Problems
from canvas.render import RowSteps, WorkedDrawing, row_step
from canvas.task import Task
from trm.figures.row_panels import sample_panels, steps_figure
from trm.solving.iteration import StepTrace
from trm.training.canvas_module import CanvasModule, Validated
from trm.training.configs import check_range
from trm.training.data import CanvasDataModule
from trm.training.samples import SolvedProblems
from trm.training.tensorboard import writers

_POOL = 1024  # problems that samples are chosen among, at most
_GOLDEN_RATIO = 0.618034  # its multiples spread evenly over 0..1, however many there are
_LONGEST_NAME = 23  # characters of a title's problem
_TRACED = 64  # rows that are followed over supervision steps


class Pictures(L.Callback):
    """Draws each validation of a run; what each picture shows, `trm.training.tensorboard` says.

    Rows are drawn as `panels/…`, the same ones each time and wrong ones, and how many rows are
    right after each supervision step. Several devices draw the first one's share of the problems.

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
                self._draw_rows(trainer, pl_module, data)
                self._draw_steps(trainer, pl_module)
            self._parts = []

    def _draw_rows(self, trainer: L.Trainer, module: CanvasModule, data: CanvasDataModule) -> None:
        examples = example_steps(data, self.num_samples)
        wrong = wrong_steps(self._parts, self.num_samples)
        chosen = [examples, *wrong]
        parts = ([getattr(one, field.name) for *_, one in chosen] for field in fields(RowSteps))
        shown = RowSteps(*map(np.concatenate, parts))
        given = np.concatenate([drawing.given[one.problem] for _, drawing, one in chosen])
        names = [name for part in chosen for name in titles(data.task, *part)]
        seen = module.predictor().trace(shown.inputs)
        image = pixels(sample_panels(shown, given, seen, names))
        kinds = {"row": len(examples[2].step), "wrong": len(wrong)}
        tags = [f"{kind}_{i + 1}" for kind, number in kinds.items() for i in range(number)]
        for tag, part in zip(tags, np.split(image, len(tags)), strict=True):
            _add(trainer, f"panels/{tag}", part)

    def _draw_steps(self, trainer: L.Trainer, module: CanvasModule) -> None:
        """Which of some rows are right after each supervision step, if the model takes any."""
        steps = self._parts[0].forced.steps
        if module.deepest:
            seen = module.predictor().trace(steps.inputs[:_TRACED], 2 * module.deepest)
            if isinstance(seen, StepTrace):
                figure = steps_figure(seen.rows_exact(steps.labels[:_TRACED]), module.deepest)
                _add(trainer, "figures/supervision_steps", pixels(figure))


def _add(trainer: L.Trainer, tag: str, image: np.ndarray) -> None:
    step = max(0, trainer.global_step - 1)  # where the curves have a validation's figures
    for writer in writers(trainer):
        writer.add_image(tag, image, step, dataformats="HWC")


def wrong_steps(
    parts: Sequence[Validated], number: int
) -> list[tuple[Problems, WorkedDrawing, RowSteps]]:
    """So many of a validation's wrong rows at most, each with its batch's problems and drawings.

    Those that the model is surest of come first.
    """
    rows = [(part, i) for part in parts for i in np.flatnonzero(~part.forced.rows_exact).tolist()]
    rows.sort(key=lambda row: -row[0].forced.filled.confidence[row[1]])
    found = []
    for part, i in rows[:number]:
        held = (getattr(part.forced.steps, field.name)[i : i + 1] for field in fields(RowSteps))
        found.append((part.problems, part.drawing, RowSteps(*held)))
    return found


def example_steps(data: CanvasDataModule, number: int) -> tuple[Problems, WorkedDrawing, RowSteps]:
    """So many validation problems, from short to long, their drawings, and a row step of each.

    They are always the same, and differ in length and in row; fewer if there are not as many.
    """
    pool = min(data.validation_problems, _POOL)
    held = SolvedProblems(data.task, data.canvas, "validation", data.seed, pool, pool)
    lengths = held.__getitems__(range(pool))[0].lengths
    found = np.unique(lengths, axis=0, return_index=True)[1]  # one of each lengths
    found = found if len(found) >= number else np.arange(pool)
    order = np.argsort(lengths[found].clip(min=1).prod(axis=1), kind="stable")
    places = np.linspace(0, len(order) - 1, min(number, len(order))).round().astype(int)
    problems, drawing = held.__getitems__(found[order[places]].tolist())
    share = (np.arange(len(places)) * _GOLDEN_RATIO) % 1
    return problems, drawing, row_step(drawing, (share * drawing.steps).astype(np.int64))


def titles(task: Task, problems: Problems, drawing: WorkedDrawing, steps: RowSteps) -> list[str]:
    """What each row step is: its problem, which of the rows, and the row's kind."""
    names = []
    for name, lengths in zip(task.names(problems), problems.lengths.tolist(), strict=True):
        short = len(name) <= _LONGEST_NAME
        digits = f" {task.sign} ".join(str(n) for n in lengths if n)
        names.append((name if short else f"{digits} digits").replace("x", "×"))
    kinds = drawing.kinds[steps.problem, drawing.first_step[steps.problem] + steps.step]
    rows = zip(steps.problem, steps.step, kinds, strict=True)
    return [
        f"{names[problem]}   row {step + 1} of {drawing.steps[problem]}: {ROW_KINDS[kind]}"
        for problem, step, kind in rows
    ]
