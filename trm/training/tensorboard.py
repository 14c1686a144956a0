"""What TensorBoard shows of a run beside pictures: its config, and which curves, with what meaning.

A chart has one curve a run: TensorBoard gives a run one colour, whatever it shows of it.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from lightning.pytorch.cli import SaveConfigCallback
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard.summary import hparams
from torch.utils.tensorboard.writer import SummaryWriter

from trm.figures.tensorboard_curves import describe
from trm.training.canvas_module import BEYOND_FIGURES, FIGURES, CanvasModule
from trm.training.data import BEYOND, VALIDATED
from trm.training.runs import keep_config
from trm.training.samples import hint_key

_PROBLEMS = dict(zip(VALIDATED, ("validation", "training, the first that are drawn"), strict=True))
_LONGER = "Problems with twice the digits of the longest in training; nothing is chosen by them"
_EVERY = "mean over the steps since it was last logged"

CURVES = {
    "train/loss": "what training minimises, on the batch of a step",
    "train/loss_cells": "the cells' part of the loss, after the last supervision step",
    "train/loss_halting": "the halting head's part of the loss, before its weight",
    "train/row_accuracy": "share of the batch's rows that are right",
    "train/cell_accuracy": "share of the cells to fill in that are right",
    "train/halting_accuracy": "share of rows that the halting head rightly holds right, or wrong: "
    "1 as well where no row is right, and rightly held wrong, see train/row_accuracy",
    "train/solved_teacher_forced": "share of problems whose rows are all right, each built on the "
    "true rows",
    "train/supervision_steps": "supervision steps that the batch's samples have had so far",
    "train/gradient_norm": "norm of all gradients together, before clipping",
    "learning_rate/matrices": "learning rate of the matrices, which Muon moves",
    "learning_rate/decayed": "learning rate of the weights that decay",
    "learning_rate/rest": "learning rate of biases, norms and embeddings, which do not decay",
    "speed/samples_per_second": f"training samples a second, over all devices; {_EVERY}",
    "speed/seconds_per_step": f"seconds from one optimiser step to the next; {_EVERY}",
    "speed/memory_gib": "most memory that training has taken so far, in GiB",
    "epoch": "epochs that are complete",
    **{
        f"{group}/{name}": f"{meaning}. Problems of {of}"
        for group, of in _PROBLEMS.items()
        for name, meaning in FIGURES.items()
    },
    **{f"{BEYOND}/{name}": f"{FIGURES[name]}. {_LONGER}" for name in BEYOND_FIGURES},
}
_HINTS = {  # accuracy by hint, of each group of problems
    "train": "the batch of a step",
    "validation": "problems of validation, rows built on the true rows",
    "test": "problems of the test split, rows built on the true rows",
    BEYOND: f"rows built on the true rows. {_LONGER}",
}
PICTURES = {
    "panels/row": "the same row of validation at each step, built on the true rows: input, label, "
    "prediction, and the confidence on the way. Once it is above one half, and the row stays as it "
    "is, a recursive model halts",
    "panels/wrong": "a row of validation that went wrong, the surest errors first",
    "panels/least_sure": "a row of validation that is right, those that were the least sure first",
    "figures/by_size": "whole solutions that are right, by the sizes of their problems",
    "figures/by_kind": "rows that are right, by what they hold, built on the true rows",
    "figures/reliability": "whether rows held right with 90 % are right 90 times in 100",
    "figures/supervision_steps": "rows that are right after each supervision step, up to twice as "
    "many as in training",
}
_CHARTS: dict[str, dict[str, str | tuple[str, ...]]] = {  # of custom scalars
    "How good": {
        "validation: whole solutions": "validation/solved",
        "validation: loss": "validation/loss",
        "validation: rows on its own rows": "validation/free_running_rows",
        "validation: rows on true rows": "validation/teacher_forced_rows",
        "beyond: whole solutions": "beyond/solved",
        "beyond: rows on true rows": "beyond/teacher_forced_rows",
        "training problems: whole solutions": "training_problems/solved",
        "training problems: loss": "training_problems/loss",
    },
    "How it trains": {
        "training: loss": "train/loss",
        "training: rows of a batch": "train/row_accuracy",
        "gradient norm": "train/gradient_norm",
        "learning rate": "learning_rate/decayed",
        "samples a second": "speed/samples_per_second",
        "memory, GiB": "speed/memory_gib",
    },
    "Recursion": {
        "validation: supervision steps a row": "validation/supervision_steps",
        "validation: confidence rightly above or below 1/2, beside rows right": (
            "validation/confidence_accuracy",
            "validation/teacher_forced_rows",
        ),
        "training: halting head right, beside rows right": (
            "train/halting_accuracy",
            "train/row_accuracy",
        ),
        "training: loss of the cells": "train/loss_cells",
        "training: loss of the halting head": "train/loss_halting",
    },
}
_ENDS = ("validation/solved", "validation/free_running_rows", "validation/loss", "train/loss")
_COMPARED = ("model", "data", "seed_everything", "trainer")  # of a config, what runs differ in
_NOT_COMPARED = ("callbacks", "logger", "profiler", "plugins", "enable_", "limit_", "log_every")
# Five settings are columns of HParams unasked, by name, those known to differ before others. What
# does differ between runs TensorBoard finds out only where no run says which figures to show.
_COLUMNS = 5
_FIRST = (
    "data.task.layout",
    "model.network.config.position",
    "model.optimizer.lr",
    "seed_everything",
    "model.depth.schedule",
    "model.network.config.num_layers",
)


def custom_scalars(
    groups: Collection[str], recursive: bool, hints: Collection[str] = ()
) -> dict[str, dict[str, list[object]]]:
    """The charts that stand side by side, as `SummaryWriter.add_custom_scalars` takes them.

    Of the groups of problems that are validated, and of the hints that are learned.
    """
    absent = tuple(f"{group}/" for group in (*VALIDATED, BEYOND) if group not in groups)
    of_hints = {
        f"{name}: {group}": f"{group}/{hint_key(name)}"
        for name in hints
        for group in (VALIDATED[0], BEYOND)
    }
    found: dict[str, dict[str, list[object]]] = {}
    for title, charts in (_CHARTS | ({"Hints": of_hints} if hints else {})).items():
        if recursive or title != "Recursion":
            tags = {n: (of,) if isinstance(of, str) else of for n, of in charts.items()}
            present = {name: of for name, of in tags.items() if not of[0].startswith(absent)}
            # A tag is a pattern there: without its end it would also find longer names.
            found[title] = {
                n: ["Multiline", [f"{tag}$" for tag in of]] for n, of in present.items()
            }
    return found


def meaning_of(tag: str) -> str | None:
    """What a curve or a picture means; None of one that is not this project's."""
    if found := re.fullmatch(rf"(\w+)/{hint_key('(.+)')}", tag):
        group, name = found.groups()
        if group in _HINTS:
            return f"share of cells in which the hint {name} is right, on {_HINTS[group]}"
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


def writers(trainer: L.Trainer) -> list[SummaryWriter]:
    """The TensorBoard writers of a trainer."""
    return [log.experiment for log in trainer.loggers if isinstance(log, TensorBoardLogger)]


class SavedConfig(SaveConfigCallback):
    """Keeps a run's config as a file, and on TensorBoard as text and as hyperparameters.

    The hyperparameters stand beside the last validation figures, so that the HParams tab compares
    runs; custom scalars put the curves that people need side by side. A run that goes on with
    another config keeps that one, too, as `config-2.yaml` and so on; its curves go on where its
    checkpoint was written, without what was logged after that.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked by every process
        if trainer.is_global_zero:
            for writer in writers(trainer):
                describe_all(writer)
            if keep_config(self.parser.dump(self.config, skip_none=False), folder):
                self.save_config(trainer, pl_module, stage)

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step and trainer.is_global_zero:
            started = SessionLog(status=SessionLog.START)
            for writer in writers(trainer):  # which hide what an earlier file has from here on
                event = Event(step=trainer.global_step, session_log=started)
                writer._get_file_writer().add_event(event)

    def save_config(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        config = self.parser.dump(self.config, skip_none=False)
        recursive = isinstance(pl_module, CanvasModule) and pl_module.deepest > 0
        groups = getattr(getattr(trainer, "datamodule", None), "groups", VALIDATED[:1])
        hints = pl_module.hints if isinstance(pl_module, CanvasModule) else ()
        for writer in writers(trainer):
            writer.add_text("config", f"```yaml\n{config}```")
            writer.add_custom_scalars(custom_scalars(groups, recursive, hints))
            for summary in hparams_summaries(hyperparameters(yaml.safe_load(config))):
                writer._get_file_writer().add_summary(summary)


def hyperparameters(config: dict[str, Any]) -> dict[str, str | float]:
    """What the HParams tab compares: settings of the run, by their names with dots."""

    def flat(value: Any, name: str) -> dict[str, str | float]:
        if isinstance(value, dict):
            parts = (flat(below, f"{name}.{key}") for key, below in value.items())
            return {key: held for part in parts for key, held in part.items()}
        number = isinstance(value, int | float) and not isinstance(value, bool)
        shown = {} if value is None else {name: value if number else str(value)}
        return {key.replace("init_args.", ""): held for key, held in shown.items()}

    left_out = tuple(f"trainer.{name}" for name in _NOT_COMPARED)
    return {
        name: value
        for key in _COMPARED
        for name, value in flat(config.get(key), key).items()
        if not name.startswith(left_out)
    }


def hparams_summaries(chosen: dict[str, str | float]) -> list[Summary]:
    """What the HParams tab needs of a run: its settings, and which figures stand beside them."""
    # Only the names of the figures: their values are those of the curves.
    experiment, start, _ = hparams(chosen, dict.fromkeys(_ENDS, 0))
    content = HParamsPluginData.FromString(experiment.value[0].metadata.plugin_data.content)
    first = [name for name in _FIRST if name in chosen][:_COLUMNS]
    for info in content.experiment.hparam_infos:
        info.differs = info.name in first
    for metric in content.experiment.metric_infos:
        metric.description = CURVES[metric.name.tag]
    experiment.value[0].metadata.plugin_data.content = content.SerializeToString()
    return [experiment, start]
