"""Saved config of a run, and charts and pictures of rows on TensorBoard."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import yaml
from lightning.pytorch.cli import SaveConfigCallback
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from matplotlib.figure import Figure
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from torch.utils.tensorboard.summary import hparams
from torch.utils.tensorboard.writer import SummaryWriter

from canvas.drawing import RowSteps
from canvas.layouts import ROW_KINDS
from canvas.picture import pixels
from canvas.task import Task
from trm.figures.row_panels import sample_panels, samples_figure, steps_figure
from trm.io.config_files import DUMPER
from trm.io.files import write_text
from trm.released import today
from trm.training.canvas_module import CanvasModule, Validated
from trm.training.configs import check_range
from trm.training.loggers import IDS, lock_run, run_ids, without_run
from trm.training.negatives import SamplesWithNegatives
from trm.training.runs import CONFIG
from trm.training.samples import RowStepSamples

CONFIG_KEY = "trm.config"  # entry of a checkpoint: the config of its run
# Curves in one chart, by page and title; a tag is a regular expression. The accuracy of the
# confidence is in one chart with that of rows, as it is also 1 if no row is correct or trusted.
CUSTOM_SCALARS = {
    "How good": {
        metric: f"(validation|training_problems|beyond)/{metric}$"
        for metric in ("solved", "loss", "free_running_rows", "teacher_forced_rows")
    },
    "How it trains": {
        "train/loss": "train/loss$",
        "training accuracy": r"train/(?!halting)\w+_accuracy$",
        "auxiliary losses": "train/auxiliary/.*$",
        "accuracy of auxiliary heads": "train/auxiliary_accuracy/.*$",
        "train/gradient_norm": "train/gradient_norm$",
        "learning rates": "learning_rate/.*$",
        "speed/samples_per_second": "speed/samples_per_second$",
    },
    "Confidence": {
        "validation": "validation/(confidence_accuracy|teacher_forced_rows)$",
        "training": "train/(halting|row|exact)_accuracy$",
        "supervision steps": "validation/supervision_steps$",
        "parts of the loss": "train/loss_(cells|halting)$",
        "turned and incorrect canvases rejected": (
            "(train/negatives_rejected|validation/turned_rejected)$"
        ),
        "confidence, upright and turned": "validation/confidence_(correct|turned)$",
    },
}
# Metrics in charts that callbacks log for all modules.
_OF_ALL = ("train/gradient_norm", "learning_rate/rest", "speed/samples_per_second")
_LONGEST_NAME = 23  # characters of the problem in a title
_TRACED = 64  # rows traced over supervision steps
_SHOWN = 96  # samples of a batch that the pictured ones are chosen from
_COMPARED = ("model", "data", "seed_everything", "trainer")  # parts of configs that are compared
_NOT_COMPARED = ("callbacks", "logger", "profiler", "plugins", "enable_", "limit_", "log_every")


def writers(trainer: L.Trainer) -> list[SummaryWriter]:
    """Return the TensorBoard writers of a trainer."""
    return [log.experiment for log in trainer.loggers if isinstance(log, TensorBoardLogger)]


def charts(module: Any) -> dict[str, dict[str, list[Any]]]:
    """Return pages of charts for TensorBoard, without charts that a module logs nothing for."""
    trained = (f"train/{metric}" for metric in module.training_metrics)
    validated = (f"validation/{metric}" for metric in module.validated_metrics)
    logged = (*_OF_ALL, *trained, *validated)
    return {
        page: {
            title: ["Multiline", [tags]]
            for title, tags in of.items()
            if any(re.match(tags, name) for name in logged)
        }
        for page, of in CUSTOM_SCALARS.items()
    }


class SavedConfig(SaveConfigCallback):
    """Saves a run's config as a file, in its checkpoints and on TensorBoard.

    The file contains no checkpoint, version or id of a logger, so that it begins a new run if used
    again. TensorBoard compares its settings with those of other runs. The curves of a resumed run
    continue from its checkpoint; later values of the interrupted run are dropped. No other process
    can train in its folder at the same time.

    Args:
        arguments: of Lightning's callback: parser and config.
        values: the config as plain data.
    """

    def __init__(self, *arguments: Any, values: dict[str, Any]) -> None:
        super().__init__(*arguments)
        self._values = without_run(values)
        self._lock = ExitStack()  # of the run's folder, while it is trained

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        text = yaml.dump(self._values, Dumper=DUMPER, sort_keys=False, allow_unicode=True)
        self._text = "".join(f"# {line}\n" for line in self.parser.dump_header or ()) + text
        if self.config.ckpt_path:
            self._text = f"# went on from {self.config.ckpt_path}\n{self._text}"

    def teardown(self, *args: Any, **more: Any) -> None:
        self._lock.close()

    def on_exception(self, *args: Any, **more: Any) -> None:
        self._lock.close()

    def on_save_checkpoint(self, trainer: L.Trainer, _: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint[CONFIG_KEY] = self._values
        checkpoint[IDS] = run_ids(trainer.loggers)
        for logger in trainer.loggers:
            if isinstance(logger, CSVLogger):  # else a killed run lacks rows before its checkpoint
                logger.save()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # needs all processes
        if not trainer.is_global_zero:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock_run(trainer.loggers)
        write_text(folder / CONFIG, self._text)
        # Without the summaries of an experiment TensorBoard finds differing settings itself.
        _, settings, _ = hparams(hyperparameters(self._values), {})
        for writer in writers(trainer):
            if trainer.global_step:  # hides an earlier file's values from here on
                started = SessionLog(status=SessionLog.START)
                event = Event(step=trainer.global_step, session_log=started)
                writer._get_file_writer().add_event(event)
            writer.add_text("config", f"```yaml\n{self._text}```", trainer.global_step)
            writer.add_custom_scalars(charts(pl_module))
            writer._get_file_writer().add_summary(settings)


def flattened(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a config's values with their dotted names, as on a command line.

    Example: ``{"model": {"init_args": {"seed": 1}}}`` gives ``("model.seed", 1)``.
    """
    if not isinstance(value, dict):
        yield name, value
        return
    for key, below in value.items():
        yield from flattened(below, name if key == "init_args" else f"{name}.{key}".lstrip("."))


def hyperparameters(config: dict[str, Any]) -> dict[str, str | float]:
    """Return the run's settings for the HParams tab, by dotted names."""
    left_out = tuple(f"trainer.{name}" for name in _NOT_COMPARED)
    return {
        name: value if type(value) in (int, float) else str(value)
        for name, value in flattened({key: config.get(key) for key in _COMPARED})
        if value is not None and not name.startswith(left_out)
    }


def settings_of_run(config: dict[str, Any]) -> dict[str, str | float]:
    """Return the settings by which a run is compared with its beginning, by dotted names.

    These are `hyperparameters`, and what else decides how it trains: the callbacks, the limits of
    the trainer, and the metric that chooses the best checkpoint.
    """
    trainer = config["trainer"]
    limits = {f"trainer.{key}": trainer[key] for key in trainer if key.startswith("limit_")}
    callbacks = trainer.get("callbacks") or []
    listed = ", ".join(map(_call, callbacks if isinstance(callbacks, list) else [callbacks]))
    more = {
        "trainer.callbacks": listed or "none",
        "checkpoint.monitor": config["checkpoint"]["monitor"],
    }
    settings = hyperparameters(config) | limits | more
    return {name: today(value) for name, value in settings.items()}


def _call(settings: dict[str, Any]) -> str:
    """Return a class with its settings, such as ``EMAWeightAveraging(decay=0.9)``."""
    given = {k: v for k, v in (settings.get("init_args") or {}).items() if v is not None}
    arguments = ", ".join(f"{key}={value}" for key, value in given.items())
    return f"{settings['class_path'].rpartition('.')[2]}({arguments})"


class Pictures(L.Callback):
    """Draws rows of each validation of a run: the same ones each time, and incorrect ones.

    - `panels/row_1` and so on: input, label, prediction, and confidence while solving, each built
      on the true rows before it.
    - `panels/wrong_1` and so on: incorrect rows, the most confident first.
    - `figures/supervision_steps`: share of correct rows after each step.
    - `figures/samples`: row steps of training as the model gets them, if some are augmented; drawn
      once, at the start.

    With several devices the first one draws rows of its own problems.

    Args:
        num_samples: number of rows of each kind, 1 or more.
    """

    def __init__(self, num_samples: int = 6) -> None:
        check_range("panels.num_samples", num_samples, 1)
        self.num_samples = num_samples
        self._parts: list[Validated] = []

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        data = getattr(trainer.train_dataloader, "dataset", None)
        if trainer.is_global_zero and writers(trainer) and data is not None:
            figure = self._samples(data, trainer.current_epoch * len(data))
            if figure is not None:
                add_image(trainer, "figures/samples", pixels(figure))

    def _samples(self, data: Any, first: int) -> Figure | None:
        """Draw samples of training from an index on; None: they are not augmented."""
        if not isinstance(data, RowStepSamples) or (
            data.transform is None
            and not isinstance(data, SamplesWithNegatives)
            and not any(vars(data.blanks).values())
        ):
            return None
        return samples_figure(*data.shown(range(first, first + min(data.batch_size, _SHOWN))))

    # The model runs before the validation's end, when averaged weights may be replaced already.
    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: Any, outputs: Any, _: Any, index: int, group: int = 0
    ) -> None:
        shown = not trainer.sanity_checking and trainer.is_global_zero and writers(trainer)
        if group or not shown:
            return
        self._parts = [*(self._parts if index else ()), outputs["validated"]]
        if index + 1 == trainer.num_val_batches[0]:
            with trainer.precision_plugin.forward_context():
                self._draw_rows(trainer, pl_module)
                self._draw_steps(trainer, pl_module)
            self._parts = []

    def _draw_rows(self, trainer: L.Trainer, module: CanvasModule) -> None:
        chosen = chosen_rows(self._parts, self.num_samples)
        names, rows, given = [], [], []
        for part, i in chosen.values():
            names.append(title(module.data.task, part, i))
            rows.append([each[i : i + 1] for each in part.forced.rows])
            given.append(part.drawing.given[part.forced.rows.problem[i]])
        shown = RowSteps(*map(np.concatenate, zip(*rows, strict=True)))
        seen = module.predictor().trace(shown.inputs, shown.labels)
        image = pixels(sample_panels(shown, np.stack(given), seen, names))
        for tag, panel in zip(chosen, np.split(image, len(chosen)), strict=True):
            add_image(trainer, f"panels/{tag}", panel)

    def _draw_steps(self, trainer: L.Trainer, module: CanvasModule) -> None:
        """Draw the accuracy of rows after each supervision step, if the model has steps."""
        predictor, rows = module.predictor(), self._parts[0].forced.rows
        if predictor.fills == "row":
            seen = predictor.trace(rows.inputs[:_TRACED], rows.labels[:_TRACED])
            figure = steps_figure(np.stack([curve.correct for curve in seen.curves], axis=1))
            add_image(trainer, "figures/supervision_steps", pixels(figure))


def add_image(trainer: L.Trainer, tag: str, image: np.ndarray) -> None:
    """Add a picture, uint8 [height, width, 3], to the trainer's TensorBoard writers."""
    step = max(0, trainer.global_step - 1)  # the step of a validation's metrics in curves
    for writer in writers(trainer):
        writer.add_image(tag, image, step, dataformats="HWC")


def chosen_rows(parts: Sequence[Validated], number: int) -> dict[str, tuple[Validated, int]]:
    """Choose rows of a validation; return their batch and index there, by name.

    At most ``number`` rows `row_1` and so on are the same in every validation. As many, `wrong_1`
    and so on, are incorrect, the most confident first.
    """
    rows = [(part, i) for part in parts for i in range(len(part.forced.rows_exact))]
    correct = np.concatenate([part.forced.rows_exact for part in parts])
    confidence = np.concatenate([part.forced.filled.confidence for part in parts])
    return {tag: rows[i] for tag, i in chosen(correct, confidence, number, "row").items()}


def chosen(correct: np.ndarray, confidence: np.ndarray, number: int, kind: str) -> dict[str, int]:
    """Choose from N rows or puzzles, see `chosen_rows`; return the index of each by its tag.

    Args:
        correct: bool [N].
        confidence: float [N].
        number: of indices that are the same in every validation.
        kind: name of what is chosen from, in the tags.
    """
    same = np.linspace(0, len(correct) - 1, min(number, len(correct))).astype(int)
    wrong = np.flatnonzero(~correct)
    kinds = {kind: same, "wrong": wrong[np.argsort(-confidence[wrong], kind="stable")][:number]}
    return {f"{name}_{n}": int(i) for name, of in kinds.items() for n, i in enumerate(of, 1)}


def title(task: Task, part: Validated, row: int) -> str:
    """Return a title with problem, number and kind of a row.

    Example: ``12 × 34   row 1 of 3: partial product``.
    """
    drawing, problem = part.drawing, part.forced.rows.problem[row]
    number = part.forced.rows.row[row]
    name = task.names(part.problems)[problem].replace("x", "×")
    name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    kind = ROW_KINDS[drawing.kinds[problem, drawing.given_rows[problem] + number]]
    return f"{name}   row {number + 1} of {drawing.num_rows[problem]}: {kind}"
