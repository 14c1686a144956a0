"""What TensorBoard shows of a run beside its panels: its configuration, and validation figures."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import yaml
from lightning.pytorch.cli import SaveConfigCallback
from lightning.pytorch.loggers import TensorBoardLogger
from matplotlib.figure import Figure
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard.summary import hparams
from torch.utils.tensorboard.writer import SummaryWriter

from canvas.layouts import ROW_KINDS
from canvas.picture import pixels
from trm.evaluation.grid_schema import AXES
from trm.evaluation.selective_prediction import reliability, reliability_figure
from trm.evaluation.statistics import Share
from trm.figures.validation import kind_figure, size_figure, steps_figure
from trm.solving.trace import Trace
from trm.training.canvas_module import CanvasModule, Validated
from trm.training.charts import CURVES, describe_all, page
from trm.training.data import VALIDATED
from trm.training.runs import keep_config

_TRACED = 64  # rows that are followed over supervision steps
_COMPARED = ("model", "data", "seed_everything", "trainer")  # of a config, what runs differ in
_PLUMBING = ("callbacks", "logger", "profiler", "plugins", "enable_", "limit_", "log_every")
_ENDS = ("validation/solved", "validation/free_running_rows", "validation/loss", "train/loss")
# Five settings are columns of HParams unasked, by name, those known to differ before others. What
# does differ between runs TensorBoard finds out only where no run says which figures to show.
_FIRST = (
    "data.task.layout",
    "model.network.config.position",
    "model.optimizer.lr",
    "seed_everything",
    "model.depth.schedule",
    "model.network.config.num_layers",
)
_COLUMNS = 5


class RunPage(SaveConfigCallback):
    """Keeps a run's config as a file, and on TensorBoard as text and as hyperparameters.

    The hyperparameters stand beside the last validation figures, so that the HParams tab compares
    runs; the page of custom scalars puts the curves that people need side by side. A run that goes
    on with another config keeps that one, too, as `config-2.yaml` and so on; its curves go on
    where its checkpoint was written, without what was logged after that.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Write the config, whole or not at all, where a run begins or goes on."""
        if stage != "fit":
            return
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked by every process
        if trainer.is_global_zero:
            for board in writers(trainer):
                describe_all(board)
            if keep_config(self.parser.dump(self.config, skip_none=False), folder):
                self.save_config(trainer, pl_module, stage)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Let the curves go on from the checkpoint."""
        if trainer.global_step and trainer.is_global_zero:
            started = SessionLog(status=SessionLog.START)
            for board in writers(trainer):  # which hide what an earlier file has from here on
                event = Event(step=trainer.global_step, session_log=started)
                board._get_file_writer().add_event(event)

    def save_config(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Write the pages, in the first of several processes."""
        config = self.parser.dump(self.config, skip_none=False)
        recursive = isinstance(pl_module, CanvasModule) and pl_module.deepest > 0
        groups = getattr(getattr(trainer, "datamodule", None), "groups", VALIDATED[:1])
        hints = pl_module.hints if isinstance(pl_module, CanvasModule) else ()
        for board in writers(trainer):
            board.add_text("config", f"```yaml\n{config}```")
            board.add_custom_scalars(page(groups, recursive, hints))
            for summary in hparams_page(hyperparameters(yaml.safe_load(config))):
                board._get_file_writer().add_summary(summary)


def hyperparameters(config: dict[str, Any]) -> dict[str, str | float]:
    """What the HParams tab compares: the settings below `_COMPARED`, by their names with dots.

    Those of the trainer that say nothing of the model are left out.
    """
    flat: dict[str, str | float] = {}

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                walk(f"{name}.{key}" if name else key, below)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            flat[name.replace("init_args.", "")] = value
        elif value is not None:
            flat[name.replace("init_args.", "")] = str(value)

    walk("", {key: config[key] for key in _COMPARED if key in config})
    plumbing = tuple(f"trainer.{name}" for name in _PLUMBING)
    return {name: value for name, value in flat.items() if not name.startswith(plumbing)}


def hparams_page(chosen: dict[str, str | float]) -> list[Summary]:
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


class ValidationFigures(L.Callback):
    """Draws what a validation came to, as `figures/…`.

    Accuracy by the sizes of problems and by the kind of row, whether the confidence can be
    believed, and of a recursive model how many rows are right after each supervision step, twice
    as many as in training. Several devices draw the first one's share of the problems.

    Args:
        every_n_validations: 1 draws at each, 2 at every other, from the first one on.

    Raises:
        ValueError: a number below 1.
    """

    def __init__(self, every_n_validations: int = 1) -> None:
        if every_n_validations < 1:
            raise ValueError(
                f"every_n_validations of ValidationFigures is 1 or more, not {every_n_validations}"
            )
        self.every_n_validations = every_n_validations
        self._validations = 0
        self._clear()

    def _clear(self) -> None:
        self._parts: list[Validated] = []
        self._right_by_step: np.ndarray | None = None

    def on_validation_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin anew."""
        self._clear()

    # The rows' way over supervision steps is looked at while weight averaging has its weights in
    # place, see `SamplePanels`.
    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep what the batch came to, and follow some rows of the first one."""
        if dataloader_idx or not self._draws(trainer) or not isinstance(pl_module, CanvasModule):
            return
        validated: Validated = outputs["validated"]
        self._parts.append(validated)
        predictor = pl_module.predictor()
        if batch_idx or not pl_module.deepest or predictor.in_order:
            return
        steps = validated.forced.steps
        with trainer.precision_plugin.forward_context():
            seen = predictor.look(steps.inputs[:_TRACED], 2 * pl_module.deepest)
        if isinstance(seen, Trace):
            self._right_by_step = seen.rows_exact(steps.labels[:_TRACED])

    # After the epoch's end, at which a GPT's confidence is calibrated.
    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Draw."""
        if trainer.sanity_checking:
            return
        if self._parts and isinstance(pl_module, CanvasModule):
            figures = self._figures(pl_module)
            for board in writers(trainer):
                for name, figure in figures.items():
                    board.add_image(
                        f"figures/{name}", pixels(figure), last_step(trainer), dataformats="HWC"
                    )
        self._validations += 1
        self._clear()

    def _draws(self, trainer: L.Trainer) -> bool:
        due = self._validations % self.every_n_validations == 0
        return (
            due
            and not trainer.sanity_checking
            and trainer.is_global_zero
            and bool(writers(trainer))
        )

    def _figures(self, module: CanvasModule) -> dict[str, Figure]:
        parts = self._parts
        task = module.trainer.datamodule.task  # type: ignore[attr-defined]
        first, second = task.axes
        sizes = [task.measures(part.problems) for part in parts]
        right = np.concatenate([part.forced.rows_exact for part in parts])
        scores = np.concatenate([part.forced.filled.confidence for part in parts])
        bins = reliability(module.calibrated(scores), right)
        figures = {
            "by_size": size_figure(
                np.concatenate([size[first] for size in sizes]),
                np.concatenate([size[second] for size in sizes]),
                np.concatenate([part.solved for part in parts]),
                (AXES[first], AXES[second]),
            ),
            "by_kind": kind_figure(_by_kind(parts)),
            "reliability": reliability_figure({f"{len(right):,} rows": bins}),
        }
        if self._right_by_step is not None:
            figures["supervision_steps"] = steps_figure(self._right_by_step, module.deepest)
        return figures


def _by_kind(parts: list[Validated]) -> dict[str, Share]:
    """Right rows among the rows of each kind."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for part in parts:
        steps = part.forced.steps
        kinds = part.drawing.kinds[
            steps.problem, part.drawing.first_step[steps.problem] + steps.step
        ]
        for kind in np.unique(kinds).tolist():
            mine = part.forced.rows_exact[kinds == kind]
            counts[kind][0] += int(mine.sum())
            counts[kind][1] += len(mine)
    return {ROW_KINDS[kind]: Share(*counts[kind]) for kind in sorted(counts)}


def writers(trainer: L.Trainer) -> list[SummaryWriter]:
    """The TensorBoard writers of a trainer."""
    return [log.experiment for log in trainer.loggers if isinstance(log, TensorBoardLogger)]


def last_step(trainer: L.Trainer) -> int:
    """Where the curves have a validation's figures: at the last step before it."""
    return max(0, trainer.global_step - 1)
