"""What TensorBoard shows of a run beside pictures: its config, and what its curves mean."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from lightning.pytorch.cli import SaveConfigCallback
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.compat.proto import summary_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard.summary import hparams
from torch.utils.tensorboard.writer import SummaryWriter

from trm.training.canvas_module import BEYOND_FIGURES, FIELD, FIGURES, CanvasModule
from trm.training.data import BEYOND, VALIDATED
from trm.training.runs import keep_config

_PROBLEMS = dict(zip(VALIDATED, ("validation", "training, the first that are drawn"), strict=True))
_LONGER = "Problems with twice the digits of the longest in training; nothing is chosen by them"

CURVES = {
    "train/loss": "what training minimises, on the batch of a step",
    "train/loss_cells": "the cells' part of the loss, after the last supervision step",
    "train/loss_halting": "the halting head's part of the loss, before its weight",
    "train/row_accuracy": "share of the batch's rows that are right",
    "train/cell_accuracy": "share of the cells to fill in that are right",
    "train/sight_accuracy": "share of cells that say everything rightly, symbol and fields",
    "train/counterexamples": "sights that were wrong or nearly so when the epoch began",
    "train/temperature": "of the softmax of codes: 1 while they are mixed, 0.1 when decided",
    "train/sights": "different sights that pages have shown, once codes are merged",
    "train/halting_accuracy": "share of rows that the halting head rightly holds right, or wrong: "
    "1 as well where no row is right, and rightly held wrong, see train/row_accuracy",
    "train/supervision_steps": "supervision steps that the batch's samples have had so far",
    "train/gradient_norm": "norm of all gradients together, before clipping",
    "learning_rate/matrices": "learning rate of the matrices, which Muon moves",
    "learning_rate/decayed": "learning rate of the weights that decay",
    "learning_rate/rest": "learning rate of biases, norms and embeddings, which do not decay",
    "speed/samples_per_second": "training samples a second, over all devices; mean over the steps "
    "since it was last logged",
    "speed/memory_gib": "most memory that training has taken so far, in GiB",
    "epoch": "epochs that are complete",
    **{
        f"{group}/{name}": f"{meaning}. Problems of {of}"
        for group, of in _PROBLEMS.items()
        for name, meaning in FIGURES.items()
    },
    **{f"{BEYOND}/{name}": f"{FIGURES[name]}. {_LONGER}" for name in BEYOND_FIGURES},
}
PICTURES = {
    "panels/row": "the same row of validation at each step, built on the true rows: input, label, "
    "prediction, and the confidence on the way. Once it is above one half, and the row stays as it "
    "is, a recursive model halts",
    "panels/wrong": "a row of validation that went wrong, the surest errors first",
    "figures/supervision_steps": "rows that are right after each supervision step, up to twice as "
    "many as in training",
}
_GOOD = ("solved", "loss", "free_running_rows", "teacher_forced_rows")
_TRAINS = ("train/loss", "train/row_accuracy", "train/gradient_norm", "learning_rate/decayed")
_RECURSION = (  # whether rows are rightly held right beside how many are: both 1 where none is
    "validation/supervision_steps",
    "validation/confidence_accuracy validation/teacher_forced_rows",
    "train/halting_accuracy train/row_accuracy",
    *("train/loss_cells", "train/loss_halting"),
)
CONFIG_KEY = "trm.config"  # of a checkpoint: the config of its run
_ENDS = ("validation/solved", "validation/free_running_rows", "validation/loss", "train/loss")
_COMPARED = ("model", "data", "seed_everything", "trainer")  # of a config, what runs differ in
_NOT_COMPARED = ("callbacks", "logger", "profiler", "plugins", "enable_", "limit_", "log_every")
# Columns of HParams unasked, by name. What does differ between runs TensorBoard finds out only
# where no run says which figures to show.
_COLUMNS = {
    "data.task.layout",
    "model.network.config.position",
    "model.optimizer.lr",
    "seed_everything",
    "model.depth.schedule",
    "model.network.config.num_layers",
}


def custom_scalars(groups: Collection[str], recursive: bool) -> dict[str, dict[str, list[object]]]:
    """The charts that stand side by side, as `SummaryWriter.add_custom_scalars` takes them.

    Of the groups of problems that are validated.
    """
    names = {group: BEYOND_FIGURES if group == BEYOND else _GOOD for group in groups}
    charts = {"How good": [f"{group}/{name}" for group in names for name in names[group]]}
    charts["How it trains"] = [*_TRAINS, "speed/samples_per_second", "speed/memory_gib"]
    if recursive:
        charts["Recursion"] = list(_RECURSION)
    # A tag is a pattern there: without its end it would also find longer names.
    return {
        title: {tags: ["Multiline", [f"{tag}$" for tag in tags.split()]] for tags in of}
        for title, of in charts.items()
    }


def meaning_of(tag: str) -> str | None:
    """What a curve or a picture means; None of one that is not this project's."""
    if found := re.fullmatch(rf"(train|validation|test|{BEYOND})/{FIELD}(.+)", tag):
        return f"share of cells that rightly decide the field {found[2]}, in rows on the true rows"
    # The rows of panels are numbered.
    return CURVES.get(tag) or PICTURES.get(tag.rstrip("_0123456789"))


def describe_all(writer: SummaryWriter) -> None:
    """Have the first value of every curve and picture of a writer say what it means."""
    file = writer._get_file_writer()
    add, described = file.add_summary, set[str]()

    def add_described(summary: Summary, *when: Any) -> None:
        for value in summary.value:
            meaning = meaning_of(value.tag)
            if meaning and value.tag not in described:
                described.add(value.tag)
                describe(value, meaning)
        add(summary, *when)

    file.add_summary = add_described


def describe(value: Summary.Value, meaning: str) -> None:
    """Have a curve's or a picture's first value say what it means, for TensorBoard to show."""
    value.metadata.summary_description = f"{meaning[0].upper()}{meaning[1:]}."
    # TensorBoard's quicker reader drops descriptions of values that do not say what they are.
    image = value.WhichOneof("value") == "image"
    scalar, images = summary_pb2.DATA_CLASS_SCALAR, summary_pb2.DATA_CLASS_BLOB_SEQUENCE
    value.metadata.data_class = images if image else scalar
    value.metadata.plugin_data.plugin_name = "images" if image else "scalars"


def writers(trainer: L.Trainer) -> list[SummaryWriter]:
    """The TensorBoard writers of a trainer."""
    return [log.experiment for log in trainer.loggers if isinstance(log, TensorBoardLogger)]


class SavedConfig(SaveConfigCallback):
    """Keeps a run's config as a file and in its checkpoints, and on TensorBoard.

    The hyperparameters stand beside the last validation figures, so that the HParams tab compares
    runs; custom scalars put the curves that people need side by side. A run that goes on with
    another config keeps that one, too, as `config-2.yaml` and so on; its curves go on where its
    checkpoint was written, without what was logged after that.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._text = self.parser.dump(self.config, skip_none=False)

    def on_save_checkpoint(self, trainer: L.Trainer, _: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint[CONFIG_KEY] = yaml.safe_load(self._text)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked by every process
        if not trainer.is_global_zero:
            return
        for writer in writers(trainer):
            describe_all(writer)
            if trainer.global_step:  # an earlier file is not shown from here on
                started = SessionLog(status=SessionLog.START)
                event = Event(step=trainer.global_step, session_log=started)
                writer._get_file_writer().add_event(event)
        if not keep_config(self._text, folder):
            return
        recursive = isinstance(pl_module, CanvasModule) and pl_module.deepest > 0
        groups = getattr(getattr(trainer, "datamodule", None), "groups", VALIDATED[:1])
        for writer in writers(trainer):
            writer.add_text("config", f"```yaml\n{self._text}```")
            writer.add_custom_scalars(custom_scalars(groups, recursive))
            for summary in hparams_summaries(hyperparameters(yaml.safe_load(self._text))):
                writer._get_file_writer().add_summary(summary)


def hyperparameters(config: dict[str, Any]) -> dict[str, str | float]:
    """What the HParams tab compares: settings of the run, by their names with dots."""
    found: dict[str, str | float] = {}

    def flatten(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                flatten(below, name if key == "init_args" else f"{name}.{key}")
        elif value is not None and not name.startswith(left_out):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            found[name] = value if number else str(value)

    left_out = tuple(f"trainer.{name}" for name in _NOT_COMPARED)
    for key in _COMPARED:
        flatten(config.get(key), key)
    return found


def hparams_summaries(chosen: dict[str, str | float]) -> list[Summary]:
    """What the HParams tab needs of a run: its settings, and which figures stand beside them."""
    # Only the names of the figures: their values are those of the curves.
    experiment, start, _ = hparams(chosen, dict.fromkeys(_ENDS, 0))
    content = HParamsPluginData.FromString(experiment.value[0].metadata.plugin_data.content)
    for info in content.experiment.hparam_infos:
        info.differs = info.name in _COLUMNS
    for metric in content.experiment.metric_infos:
        metric.description = CURVES[metric.name.tag]
    experiment.value[0].metadata.plugin_data.content = content.SerializeToString()
    return [experiment, start]
