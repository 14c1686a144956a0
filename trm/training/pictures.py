"""Pictures of a validation on TensorBoard: single rows, and figures of all of them."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import lightning as L
import numpy as np
from matplotlib.figure import Figure

from canvas.layouts import ROW_KINDS
from canvas.picture import pixels
from canvas.problems import Problems
from canvas.render import RowSteps, WorkedDrawing, row_step
from canvas.task import Task
from trm.evaluation.grid import AXES
from trm.evaluation.statistics import Share, reliability
from trm.figures.calibration import reliability_figure
from trm.figures.row_panels import sample_panels
from trm.figures.validation import kind_figure, size_figure, steps_figure
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

    Rows are drawn as `panels/…`, the same ones each time and the worst, figures of all rows and
    problems as `figures/…`. Several devices draw the first one's share of the problems.

    Args:
        num_samples: rows of each kind that are drawn, 1 or more.
    """

    def __init__(self, num_samples: int = 6) -> None:
        check_range("panels.num_samples", num_samples, 1)
        self.num_samples = num_samples
        self._parts: list[Validated] = []
        self._right_by_step: np.ndarray | None = None

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
                self._right_by_step = self._follow_rows(pl_module)

    # After the epoch's end, at which a GPT's confidence is calibrated.
    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._parts and isinstance(pl_module, CanvasModule):
            for name, figure in self._figures(pl_module).items():
                _add(trainer, f"figures/{name}", pixels(figure))
        self._parts = []

    def _draw_rows(self, trainer: L.Trainer, module: CanvasModule, data: CanvasDataModule) -> None:
        examples = example_steps(data, self.num_samples)
        chosen = [examples, *worst_steps(self._parts, self.num_samples)]
        parts = ([getattr(one, field.name) for *_, one in chosen] for field in fields(RowSteps))
        shown = RowSteps(*map(np.concatenate, parts))
        given = np.concatenate([drawing.given[one.problem] for _, drawing, one in chosen])
        names = [name for part in chosen for name in titles(data.task, *part)]
        seen = module.predictor().trace(shown.inputs)
        image = pixels(sample_panels(shown, given, seen, names))
        wrong = sum(int((~part.forced.rows_exact).sum()) for part in self._parts)
        wrong = min(wrong, len(chosen) - 1)
        kinds = {"row": len(examples[2].step), "wrong": wrong}
        kinds["least_sure"] = len(chosen) - 1 - wrong
        tags = [f"{kind}_{i + 1}" for kind, number in kinds.items() for i in range(number)]
        for tag, part in zip(tags, np.split(image, len(tags)), strict=True):
            _add(trainer, f"panels/{tag}", part)

    def _follow_rows(self, module: CanvasModule) -> np.ndarray | None:
        """Which of some rows are right after each supervision step, if any: ``bool [T, N]``."""
        predictor, steps = module.predictor(), self._parts[0].forced.steps
        if not module.deepest:
            return None
        seen = predictor.trace(steps.inputs[:_TRACED], 2 * module.deepest)
        return seen.rows_exact(steps.labels[:_TRACED]) if isinstance(seen, StepTrace) else None

    def _figures(self, module: CanvasModule) -> dict[str, Figure]:
        parts, task = self._parts, module.trainer.datamodule.task  # type: ignore[attr-defined]
        right = np.concatenate([part.forced.rows_exact for part in parts])
        scores = np.concatenate([part.forced.filled.confidence for part in parts])
        kinds = np.concatenate([_kinds(part.drawing, part.forced.steps) for part in parts])
        by_kind = {
            ROW_KINDS[kind]: Share(int(right[kinds == kind].sum()), int((kinds == kind).sum()))
            for kind in np.unique(kinds).tolist()
        }
        sizes = [task.measures(part.problems) for part in parts]
        along = [np.concatenate([size[axis] for size in sizes]) for axis in task.axes]
        solved = np.concatenate([part.solved for part in parts])
        names = AXES[task.axes[0]], AXES[task.axes[1]]
        reliable = {f"{len(right):,} rows": reliability(module.calibrated(scores), right)}
        figures = {
            "by_size": size_figure(along[0], along[1], solved, names),
            "by_kind": kind_figure(by_kind),
            "reliability": reliability_figure(reliable),
        }
        if self._right_by_step is not None:
            figures["supervision_steps"] = steps_figure(self._right_by_step, module.deepest)
        return figures


def _add(trainer: L.Trainer, tag: str, image: np.ndarray) -> None:
    step = max(0, trainer.global_step - 1)  # where the curves have a validation's figures
    for writer in writers(trainer):
        writer.add_image(tag, image, step, dataformats="HWC")


def _kinds(drawing: WorkedDrawing, steps: RowSteps) -> np.ndarray:
    """The kind of each row, an index in `ROW_KINDS`."""
    return drawing.kinds[steps.problem, drawing.first_step[steps.problem] + steps.step]


def worst_steps(
    parts: Sequence[Validated], number: int
) -> list[tuple[Problems, WorkedDrawing, RowSteps]]:
    """So many of the worst rows of a validation, each with its batch's problems and drawings.

    Wrong ones come before right ones, the surest of the wrong and the least sure of the right.
    """
    rows = [(part, i) for part in parts for i in range(len(part.forced.rows_exact))]
    right = np.concatenate([part.forced.rows_exact for part in parts])
    confidence = np.concatenate([part.forced.filled.confidence for part in parts])
    found = []
    for index in np.lexsort((np.where(right, confidence, -confidence), right))[:number]:
        part, i = rows[index]
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
    rows = zip(steps.problem, steps.step, _kinds(drawing, steps), strict=True)
    return [
        f"{names[problem]}   row {step + 1} of {drawing.steps[problem]}: {ROW_KINDS[kind]}"
        for problem, step, kind in rows
    ]
