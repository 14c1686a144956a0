"""What a run keeps of its config, and what TensorBoard shows beside curves: pictures of rows."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import yaml
from lightning.pytorch.cli import SaveConfigCallback
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from torch.utils.tensorboard.summary import hparams
from torch.utils.tensorboard.writer import SummaryWriter

from canvas.layouts import ROW_KINDS
from canvas.picture import pixels
from canvas.render import RowSteps
from canvas.task import Task
from trm.figures.row_panels import sample_panels, steps_figure
from trm.files import write_text
from trm.solving.iterative_predictor import IterativePredictor
from trm.training.canvas_module import CanvasModule, Validated
from trm.training.configs import check_range
from trm.training.loggers import IDS, run_ids, without_run
from trm.training.runs import CONFIG

CONFIG_KEY = "trm.config"  # of a checkpoint: the config of its run
# Curves that stand side by side, by page and title. A tag is a pattern there. Whether rows are
# rightly held right is shown beside how many are right: both are 1 where none is.
CUSTOM_SCALARS = {
    "How good": {
        figure: f"(validation|training_problems|beyond)/{figure}$"
        for figure in ("solved", "loss", "free_running_rows", "teacher_forced_rows")
    },
    "How it trains": {
        "train/loss": "train/loss$",
        "training accuracy": "train/(cell|op input|row)_accuracy$",
        "train/gradient_norm": "train/gradient_norm$",
        "learning rates": "learning_rate/.*$",
        "speed/samples_per_second": "speed/samples_per_second$",
    },
    "Confidence": {
        "validation": "validation/(confidence_accuracy|teacher_forced_rows)$",
        "training": "train/(halting_accuracy|row_accuracy)$",
        "supervision steps": "validation/supervision_steps$",
        "parts of the loss": "train/loss_(cells|halting)$",
    },
}
_OF_ALL = (  # figures of charts that modules of every kind log
    *(f"validation/{figure}" for figure in CUSTOM_SCALARS["How good"]),
    *("validation/confidence_accuracy", "train/loss", "train/gradient_norm"),
    *("learning_rate/rest", "speed/samples_per_second"),
)
_LONGEST_NAME = 23  # characters of a title's problem
_TRACED = 64  # rows that are followed over supervision steps
_COMPARED = ("model", "data", "seed_everything", "trainer")  # of a config, what runs differ in
_NOT_COMPARED = ("callbacks", "logger", "profiler", "plugins", "enable_", "limit_", "log_every")


def writers(trainer: L.Trainer) -> list[SummaryWriter]:
    """The TensorBoard writers of a trainer."""
    return [log.experiment for log in trainer.loggers if isinstance(log, TensorBoardLogger)]


def charts(module: Any) -> dict[str, dict[str, list[Any]]]:
    """Pages of charts as TensorBoard takes them, without those that a module leaves empty."""
    logged = (*_OF_ALL, *module.charted)
    return {
        page: {
            title: ["Multiline", [tags]]
            for title, tags in of.items()
            if any(re.match(tags, name) for name in logged)
        }
        for page, of in CUSTOM_SCALARS.items()
    }


class SavedConfig(SaveConfigCallback):
    """Keeps a run's config as a file and in its checkpoints, and on TensorBoard.

    The file names no checkpoint, version or id of a logger: used again, it begins a new run. On
    TensorBoard its settings are compared with those of other runs. The curves of a run that goes on
    do so where its checkpoint was written, without what was logged after that.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._text = self.parser.dump(without_run(self.config), skip_none=False)
        if self.config.ckpt_path:
            self._text = f"# went on from {self.config.ckpt_path}\n{self._text}"

    def on_save_checkpoint(self, trainer: L.Trainer, _: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint[CONFIG_KEY] = yaml.safe_load(self._text)
        checkpoint[IDS] = run_ids(trainer.loggers)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked by every process
        if not trainer.is_global_zero:
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / CONFIG, self._text)
        # Without the summaries of an experiment TensorBoard finds out itself which settings differ.
        _, settings, _ = hparams(hyperparameters(yaml.safe_load(self._text)), {})
        for writer in writers(trainer):
            if trainer.global_step:  # an earlier file is not shown from here on
                started = SessionLog(status=SessionLog.START)
                event = Event(step=trainer.global_step, session_log=started)
                writer._get_file_writer().add_event(event)
            writer.add_text("config", f"```yaml\n{self._text}```", trainer.global_step)
            writer.add_custom_scalars(charts(pl_module))
            writer._get_file_writer().add_summary(settings)


def flattened(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """A config's values by their names with dots, as a command line has them."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, below in value.items():
        yield from flattened(below, name if key == "init_args" else f"{name}.{key}".lstrip("."))


def hyperparameters(config: dict[str, Any]) -> dict[str, str | float]:
    """What the HParams tab compares: settings of the run, by their names with dots."""
    left_out = tuple(f"trainer.{name}" for name in _NOT_COMPARED)
    return {
        name: value if type(value) in (int, float) else str(value)
        for name, value in flattened({key: config.get(key) for key in _COMPARED})
        if value is not None and not name.startswith(left_out)
    }


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
        names, steps, given = [], [], []
        for part, i in chosen.values():
            names.append(title(module.data.task, part, i))
            steps.append([each[i : i + 1] for each in part.forced.steps])
            given.append(part.drawing.given[part.forced.steps.problem[i]])
        shown = RowSteps(*map(np.concatenate, zip(*steps, strict=True)))
        seen = module.predictor().trace(shown.inputs, shown.labels)
        image = pixels(sample_panels(shown, np.stack(given), seen, names))
        for tag, panel in zip(chosen, np.split(image, len(chosen)), strict=True):
            _add(trainer, f"panels/{tag}", panel)

    def _draw_steps(self, trainer: L.Trainer, module: CanvasModule) -> None:
        """Which of some rows are right after each supervision step, if the model takes any."""
        predictor, steps = module.predictor(), self._parts[0].forced.steps
        if isinstance(predictor, IterativePredictor):
            seen = predictor.trace(steps.inputs[:_TRACED], steps.labels[:_TRACED])
            figure = steps_figure(np.stack([curve.right for curve in seen.curves], axis=1))
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
