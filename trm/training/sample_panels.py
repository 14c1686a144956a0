"""Pictures of single rows of a validation: the same ones each time, and the worst."""

from collections import Counter
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import lightning as L
import numpy as np

from canvas.layouts import ROW_KINDS
from canvas.picture import pixels
from canvas.problems import Problems
from canvas.render import RowSteps, WorkedDrawing, row_step
from canvas.task import Task
from trm.figures.row_panels import sample_panels
from trm.training.canvas_module import CanvasModule, Validated
from trm.training.data import Canvas, CanvasDataModule
from trm.training.run_page import last_step, writers
from trm.training.samples import SolvedProblems

_POOL = 1024  # problems that samples are chosen among, at most
_GOLDEN_RATIO = 0.618034  # its multiples spread evenly over 0..1, however many there are
_LONGEST_NAME = 23  # characters of a title's problem


@dataclass(frozen=True)
class Row:
    """A row of a validation.

    Attributes:
        rank: whether it is right, and how sure the model is of that verdict; the worst is least.
        steps: the row step, a batch of one.
        given: ``bool [H, W]``.
        title: what it is.
    """

    rank: tuple[bool, float]
    steps: RowSteps
    given: np.ndarray
    title: str


class SamplePanels(L.Callback):
    """Draws rows of validation at every validation, a picture each.

    `panels/row_1` and on are the same rows each time, chosen to differ in their problems' lengths
    and in their place. `panels/worst_1` and on are those that went worst, built on the true rows:
    wrong ones, the surest first, then right ones, the least sure first. A picture shows input,
    label, prediction, and the confidence: the halting head's after each supervision step, or a
    GPT's symbol by symbol. Several devices show the worst of the first one's share.

    Args:
        num_samples: rows of each kind.
        steps: supervision steps to show, of a recursive model; None: as many as it solves with.
        every_n_validations: 1 draws at each, 2 at every other, from the first one on.

    Raises:
        ValueError: a number below 1.
    """

    def __init__(
        self, num_samples: int = 6, steps: int | None = None, every_n_validations: int = 1
    ) -> None:
        for name, value in (
            ("num_samples", num_samples),
            ("steps", steps),
            ("every_n_validations", every_n_validations),
        ):
            if value is not None and value < 1:
                raise ValueError(f"{name} of SamplePanels is 1 or more, not {value}")
        self.num_samples, self.steps = num_samples, steps
        self.every_n_validations = every_n_validations
        self._validations = 0
        self._worst: list[Row] = []

    # Not at the validation's end: weight averaging has its weights in place from the start of a
    # validation epoch to its end, and whose end hook comes first is a matter of their order.
    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Look for bad rows, on one device only, and draw after the last batch."""
        data = getattr(trainer, "datamodule", None)  # set only where there is one
        if (
            trainer.sanity_checking
            or dataloader_idx
            or not isinstance(pl_module, CanvasModule)
            or not isinstance(data, CanvasDataModule)
        ):
            return
        last = batch_idx + 1 == trainer.num_val_batches[0]
        due = self._validations % self.every_n_validations == 0
        self._validations += last
        if not (due and trainer.is_global_zero and writers(trainer)):
            return
        if not batch_idx:
            self._worst = []
        found = [*self._worst, *worst_rows(data.task, outputs["validated"], self.num_samples)]
        self._worst = sorted(found, key=lambda row: row.rank)[: self.num_samples]
        if last:
            self._draw(trainer, pl_module, data)

    def _draw(self, trainer: L.Trainer, module: CanvasModule, data: CanvasDataModule) -> None:
        problems, drawing, steps = example_steps(
            data.task, data.canvas, data.seed, data.validation_problems, self.num_samples
        )
        rows, worst = len(steps.inputs), len(self._worst)
        shown = _joined([steps, *(row.steps for row in self._worst)])
        given = np.stack([*drawing.given, *(row.given for row in self._worst)])
        names = [*titles(data.task, problems, drawing, steps), *(row.title for row in self._worst)]
        with trainer.precision_plugin.forward_context():
            seen = module.predictor().look(shown.inputs, self.steps)
        image = pixels(sample_panels(shown, given, seen, names))
        tags = [f"row_{i + 1}" for i in range(rows)] + [f"worst_{i + 1}" for i in range(worst)]
        for board in writers(trainer):
            for tag, part in zip(tags, np.split(image, rows + worst), strict=True):
                board.add_image(f"panels/{tag}", part, last_step(trainer), dataformats="HWC")


def worst_rows(task: Task, validated: Validated, number: int) -> list[Row]:
    """The worst rows of a batch, the worst first.

    Wrong ones come before right ones, the surest of the wrong and the least sure of the right.

    Args:
        task: of the problems.
        validated: a batch of them, worked out.
        number: how many; fewer if there are not as many rows.
    """
    problems, drawing, _, forced = validated
    confidence, right = forced.filled.confidence, forced.rows_exact
    unsure = np.where(right, confidence, -confidence)
    rows = []
    for i in np.lexsort((unsure, right))[:number].tolist():
        steps = _taken(forced.steps, slice(i, i + 1))
        (title,) = titles(task, problems, drawing, steps)
        rank = (bool(right[i]), float(unsure[i]))
        rows.append(Row(rank, steps, drawing.given[steps.problem[0]], title))
    return rows


def _taken(steps: RowSteps, part: slice) -> RowSteps:
    return RowSteps(*(getattr(steps, field.name)[part] for field in fields(RowSteps)))


def _joined(parts: list[RowSteps]) -> RowSteps:
    names = [field.name for field in fields(RowSteps)]
    return RowSteps(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def example_steps(
    task: Task, canvas: Canvas, seed: int, validation_problems: int, num_samples: int
) -> tuple[Problems, WorkedDrawing, RowSteps]:
    """Row steps of the first validation's problems, unlike in length and in row; always the same.

    Args:
        task, canvas, seed, validation_problems: as in `CanvasDataModule`.
        num_samples: how many; fewer if there are not as many validation problems.

    Returns:
        The problems, from short to long, their drawings, and one row step of each.
    """
    pool = min(validation_problems, _POOL)
    data = SolvedProblems(task, canvas, "validation", seed, validation_problems, pool)
    problems, _ = data.__getitems__(range(pool))
    lengths = list(map(tuple, problems.lengths.tolist()))
    seen: Counter[tuple[int, ...]] = Counter()
    occurrence = []  # of the same lengths earlier in the pool
    for one in lengths:
        occurrence.append(seen[one])
        seen[one] += 1
    # One problem of each lengths, and more only where there are fewer of them than samples.
    unlike = sorted(range(pool), key=lambda i: occurrence[i])[: max(num_samples, len(seen))]
    unlike.sort(key=lambda i: (prod(filter(None, lengths[i])), lengths[i], i))
    places = np.linspace(0, len(unlike) - 1, min(num_samples, len(unlike))).round().astype(int)
    chosen = [unlike[place] for place in places]
    problems, drawing = data.__getitems__(chosen)
    share = (np.arange(len(chosen)) * _GOLDEN_RATIO) % 1
    return problems, drawing, row_step(drawing, (share * drawing.steps).astype(np.int64))


def titles(task: Task, problems: Problems, drawing: WorkedDrawing, steps: RowSteps) -> list[str]:
    """What each row step is: its problem, which of the rows, and the row's kind."""
    names = []
    for name, lengths in zip(task.names(problems), problems.lengths.tolist(), strict=True):
        short = len(name) <= _LONGEST_NAME
        digits = f" {task.sign} ".join(str(n) for n in lengths if n)
        names.append((name if short else f"{digits} digits").replace("x", "×"))
    kinds = drawing.kinds[steps.problem, drawing.first_step[steps.problem] + steps.step]
    return [
        f"{names[problem]}   row {step + 1} of {drawing.steps[problem]}: {ROW_KINDS[kind]}"
        for problem, step, kind in zip(steps.problem, steps.step, kinds, strict=True)
    ]
