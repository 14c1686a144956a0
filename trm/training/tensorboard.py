"""What a run keeps of its config, and what TensorBoard shows beside curves and pictures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from lightning.pytorch.cli import SaveConfigCallback
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from torch.utils.tensorboard.summary import hparams
from torch.utils.tensorboard.writer import SummaryWriter

from trm.files import write_text
from trm.training.runs import CONFIG

CONFIG_KEY = "trm.config"  # of a checkpoint: the config of its run
# Curves that stand side by side, by page and title. A tag is a pattern there. Whether rows are
# rightly held right is shown beside how many are right: both are 1 where none is.
CUSTOM_SCALARS = {
    "How good": {
        figure: f"(validation|training_problems)/{figure}$"
        for figure in ("solved", "loss", "free_running_rows", "teacher_forced_rows")
    },
    "How it trains": {
        tag: f"{tag}$"
        for tag in (
            *("train/loss", "train/row_accuracy", "train/gradient_norm", "learning_rate/decayed"),
            "speed/samples_per_second",
        )
    },
    "Confidence": {
        "validation": "validation/(confidence_accuracy|teacher_forced_rows)$",
        "training": "train/(halting_accuracy|row_accuracy)$",
        "supervision steps": "validation/supervision_steps$",
        "parts of the loss": "train/loss_(cells|halting)$",
    },
}
_COMPARED = ("model", "data", "seed_everything", "trainer")  # of a config, what runs differ in
_NOT_COMPARED = ("callbacks", "logger", "profiler", "plugins", "enable_", "limit_", "log_every")


def writers(trainer: L.Trainer) -> list[SummaryWriter]:
    """The TensorBoard writers of a trainer."""
    return [log.experiment for log in trainer.loggers if isinstance(log, TensorBoardLogger)]


class SavedConfig(SaveConfigCallback):
    """Keeps a run's config as a file and in its checkpoints, and on TensorBoard.

    There its settings are compared with those of other runs. The curves of a run that goes on do
    so where its checkpoint was written, without what was logged after that.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._text = self.parser.dump(self.config, skip_none=False)

    def on_save_checkpoint(self, trainer: L.Trainer, _: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint[CONFIG_KEY] = yaml.safe_load(self._text)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked by every process
        if not trainer.is_global_zero:
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / CONFIG, self._text)
        charts = {
            page: {title: ["Multiline", [tags]] for title, tags in of.items()}
            for page, of in CUSTOM_SCALARS.items()
        }
        # Without the summaries of an experiment TensorBoard finds out itself which settings differ.
        _, settings, _ = hparams(hyperparameters(yaml.safe_load(self._text)), {})
        for writer in writers(trainer):
            if trainer.global_step:  # an earlier file is not shown from here on
                started = SessionLog(status=SessionLog.START)
                event = Event(step=trainer.global_step, session_log=started)
                writer._get_file_writer().add_event(event)
            writer.add_text("config", f"```yaml\n{self._text}```", trainer.global_step)
            writer.add_custom_scalars(charts)
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
