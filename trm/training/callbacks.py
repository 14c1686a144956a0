"""Callbacks of training: checkpoints, gradients, cost and speed, and printed metrics."""

import json
import os
import sys
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.callbacks import (
    BasePredictionWriter,
    BatchSizeFinder,
    DeviceStatsMonitor,
    LearningRateFinder,
    ModelCheckpoint,
    StochasticWeightAveraging,
)
from lightning.pytorch.utilities import rank_zero_info
from rich.console import Console
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from canvas.choices import did_you_mean
from trm.checkpoints import CHECKPOINTS, COST_KEY
from trm.checkpoints.content import load_checkpoint
from trm.checkpoints.names import named_weights
from trm.evaluation.statistics import Share
from trm.io.files import replacing
from trm.runtime.flops import counted_flops
from trm.runtime.processes import end_at_once_by_signals
from trm.training.canvas_module import SIGNAL, CanvasModule
from trm.training.loggers import logs_at

_UNSUITABLE = {
    LearningRateFinder: "searches a rate that a schedule would replace. Set model.optimizer.lr, or "
    "compare some by `trm sweep`",
    BatchSizeFinder: "would change the samples of an epoch. Set data.batch_size, or data.workers "
    "if the processor waits for samples",
    StochasticWeightAveraging: "averages weights when the last checkpoint is written already, so "
    "that no command would load them. Take WeightAveraging or EMAWeightAveraging, whose averages "
    "are validated, and loaded from checkpoints",
}


def check_callbacks(trainer: Any) -> None:
    """Raise a ValueError, before a run has a folder, for a callback of Lightning's without use."""
    on_cpu = isinstance(trainer.accelerator, CPUAccelerator)
    for one in trainer.callbacks:
        name = type(one).__name__
        for kind, why in _UNSUITABLE.items():
            if isinstance(one, kind):
                raise ValueError(f"trainer.callbacks: {name} {why}")
        if not isinstance(one, DeviceStatsMonitor) or find_spec("psutil"):
            continue
        if one._cpu_stats or (one._cpu_stats is None and on_cpu):
            raise ValueError(
                f"trainer.callbacks: {name} measures a CPU by psutil: install it by "
                "`pip install psutil`, or leave the callback out"
            )


class EndAtOnce(L.Callback):
    """Lets a signal end one of several processes at once.

    Lightning's signal handler would inform the other processes in a collective call, which hangs if
    they are in another call by then.
    """

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Replace the signal handlers that Lightning has just installed."""
        if trainer.world_size > 1:
            end_at_once_by_signals()

    on_validation_start = on_test_start = on_predict_start = on_train_start


class CheckpointFiles(TorchCheckpointIO):
    """Safe reading and writing of checkpoints.

    A file gets its name once it is complete on the disk; Lightning moves it from the folder for
    temporary files, which may be on another disk. A checkpoint that contains code is refused.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, *_: Any, **more: Any
    ) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as part, part.open("wb") as written:
            torch.save(checkpoint, written)  # with a path, it would hide that the disk is full

    def load_checkpoint(self, path: str | Path, *_: Any, **more: Any) -> dict[str, Any]:
        # Lightning requires the version that wrote a file; exported weights do not contain it.
        return {"pytorch-lightning_version": L.__version__, **load_checkpoint(path)}


class BestCheckpoint(ModelCheckpoint):
    """Keeps the best checkpoint, and of equally good ones the latest.

    A few hundred validation problems are soon all solved. From then on a falling learning rate
    still improves accuracy on longer numbers, which validation does not measure.
    """

    def setup(self, trainer: L.Trainer, pl_module: Any, stage: str) -> None:
        """Check the monitored metric.

        Raises:
            ValueError: it is of problems longer than those of training, or is not logged.
        """
        if (self.monitor or "").startswith("beyond/"):
            raise ValueError(
                f"checkpoint.monitor: {self.monitor} measures problems longer than those of "
                "training, which must not choose a checkpoint: use validation/solved"
            )
        if stage == "fit":
            self._check_monitor(pl_module)
        super().setup(trainer, pl_module, stage)

    def _check_monitor(self, module: Any) -> None:
        """Raise a ValueError before training if no validation logs the monitored metric."""
        name = self.monitor
        if name is None or not isinstance(module, CanvasModule):
            return
        known = [f"validation/{metric}" for metric in module.validated_metrics]
        data = module.data
        if data is not None and data.training_problems:
            known += [
                f"training_problems/{metric}"
                for metric in module.validated_metrics
                if not metric.startswith(SIGNAL)
            ]
        if name not in known:
            near = did_you_mean(name, known) or " Take validation/solved."
            raise ValueError(f"checkpoint.monitor: no validation logs {name}.{near}")
        if name.endswith("/loss") and self.mode == "max":
            raise ValueError(
                f"checkpoint.monitor: {name} is better the smaller it is: set checkpoint.mode: min"
            )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state, also if the run's folder was moved or is given by another path.

        Lightning would lose the best score and write best-v1.ckpt beside a best.ckpt that stays. In
        a new run's folder there is no best checkpoint yet.
        """

        def here(path: str) -> str:  # in Lightning's spelling
            return os.path.join(str(self.dirpath), os.path.basename(path)) if path else path

        if os.path.isfile(here(state_dict["best_model_path"])):
            paths = ("best_model_path", "kth_best_model_path", "last_model_path")
            state_dict = state_dict | {name: here(state_dict[name]) for name in paths}
            of_paths = {here(path): score for path, score in state_dict["best_k_models"].items()}
            state_dict |= {"dirpath": self.dirpath, "best_k_models": of_paths}
        super().load_state_dict(state_dict)

    def check_monitor_top_k(self, trainer: L.Trainer, current: Tensor | None = None) -> bool:
        worst = self.best_k_models.get(self.kth_best_model_path)
        equal = current is not None and worst is not None and bool(torch.eq(current, worst))
        return equal or super().check_monitor_top_k(trainer, current)

    def on_fit_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        super().on_fit_end(trainer, pl_module)
        if self.best_model_path:
            rank_zero_info(f"The best checkpoint is {self.best_model_path}")
            return
        kept = [getattr(one, "best_model_path", "") for one in trainer.checkpoint_callbacks]
        for path in filter(None, kept):
            rank_zero_info(f"No validation has chosen a best checkpoint; the last one is {path}")


class Gradients(L.Callback):
    """Logs `train/gradient_norm`, before clipping, and learning rates; stops a diverged run.

    On a CPU a gradient that is not finite ends training before it reaches the weights. On other
    devices it ends training when the trainer logs and before a checkpoint is written, so that no
    step waits for the device.
    """

    _lost: Tensor | None = None  # int64 [], the first step with such a gradient, from 1; 0: none

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: Any, optimizer: Any) -> None:
        # Gradients have been averaged, so all devices decide alike.
        gradients = [p.grad for p in pl_module.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        step = trainer.global_step + 1
        if logs := logs_at(trainer, step):
            pl_module.log("train/gradient_norm", norm)
            for group in optimizer.param_groups:
                pl_module.log(f"learning_rate/{group.get('name', 'rest')}", group["lr"])
        before = norm.new_zeros((), dtype=torch.int64) if self._lost is None else self._lost
        self._lost = torch.where((before == 0) & ~torch.isfinite(norm), step, before)
        if logs or norm.device.type == "cpu":
            self._refuse_lost(trainer)

    def on_save_checkpoint(self, trainer: L.Trainer, *_: Any) -> None:
        self._refuse_lost(trainer)

    def _refuse_lost(self, trainer: L.Trainer) -> None:
        """Raise a FloatingPointError if a gradient was not finite."""
        if lost := 0 if self._lost is None else int(self._lost):
            raise FloatingPointError(
                f"the gradient of optimiser step {lost:,} is not finite (epoch "
                f"{trainer.current_epoch + 1}); no checkpoint has been written since. Resume with "
                "--ckpt_path last and lower learning rates (model.optimizer.lr, matrix_lr of "
                "muon), --trainer.gradient_clip_val 1, more model.schedule.warmup_steps, or "
                "--trainer.precision 32-true"
            )


class Cost(L.Callback):
    """Adds up the cost of training, stores it in every checkpoint, and logs the speed.

    A checkpoint's entry `COST_KEY` has three sums, over all interruptions and devices:

    - ``flops`` of training, estimated from every `every`-th batch.
    - ``samples``; under the `carry` schedule a sample counts once for each supervision step.
    - ``seconds``, without validation.

    Beside them, ``before``: ``steps``, ``samples`` and ``seconds`` of the weights that the run
    began with (`--weights`), where there are any.

    Metrics `speed/…` are means since they were last logged, without the first batch of a run.
    """

    _STATE = ("counted_batches", "batches", "samples", "counted_flops", "seconds")

    def __init__(self, every: int = 64) -> None:
        self.every = every
        self.counted_batches, self.batches, self.samples = 0, 0, 0
        self.counted_flops, self.seconds = 0, 0.0
        self.before: dict[str, Any] = {}  # cost of the weights that the run began with
        self._begun: float | None = None  # start of the time that is not added yet
        self._counting = ExitStack()
        self._counter: FlopCounterMode | None = None
        self._logged: tuple[int, float, int] | None = None  # step, seconds, samples

    def on_train_batch_start(self, *args: Any, **more: Any) -> None:
        self._begun = time.perf_counter() if self._begun is None else self._begun
        if self.batches % self.every == 0:
            self._counter = self._counting.enter_context(counted_flops())

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, _: Any, batch: Any, *more: Any
    ) -> None:
        if self._counter is not None:
            self.counted_flops += self._counter.get_total_flops()
            self.counted_batches += 1
            self._stop_counting()
        now = time.perf_counter()
        self.seconds += now - (now if self._begun is None else self._begun)
        self._begun = now
        self.batches += 1
        self.samples += len(next(iter(batch.values()))) * trainer.world_size
        state = trainer.global_step, self.seconds, self.samples
        before = self._logged = self._logged or state
        if state[0] == before[0] or not logs_at(trainer, state[0]):
            return
        self._logged = state
        _, seconds, samples = (b - a for a, b in zip(before, state, strict=True))
        pl_module.log("speed/samples_per_second", samples / seconds)

    def on_validation_start(self, *args: Any, **more: Any) -> None:
        self._begun = None

    def on_train_end(self, *args: Any, **more: Any) -> None:
        self._begun = self._logged = None

    def on_exception(self, *args: Any, **more: Any) -> None:
        self._stop_counting()

    def _stop_counting(self) -> None:
        """Stop counting operations, if this batch is counted."""
        self._counting.close()
        self._counter = None

    def on_save_checkpoint(self, trainer: L.Trainer, _: Any, checkpoint: dict[str, Any]) -> None:
        flops = self.counted_flops / max(1, self.counted_batches) * self.batches
        cost: dict[str, Any] = {"samples": self.samples, "seconds": self.seconds}
        cost |= {"before": self.before} if self.before else {}
        checkpoint[COST_KEY] = {"flops": flops * trainer.world_size, **cost}
        checkpoint["trm.cost"] = [getattr(self, name) for name in self._STATE]

    def on_load_checkpoint(self, trainer: L.Trainer, _: Any, checkpoint: dict[str, Any]) -> None:
        if trainer.state.fn == "fit":
            vars(self).update(zip(self._STATE, checkpoint.get("trm.cost", ()), strict=False))
            self.before = checkpoint.get(COST_KEY, {}).get("before", {})

    def begin_with(self, content: dict[str, Any]) -> None:
        """Note the cost of the weights that a run begins with, from their checkpoint's content."""
        if cost := content.get(COST_KEY):
            sums = {"steps": content.get("global_step") or 0}
            sums |= {name: cost[name] for name in ("samples", "seconds")}
            earlier = cost.get("before", {})
            self.before = {name: value + earlier.get(name, 0) for name, value in sums.items()}


class Lines(L.Callback):
    """Prints a line for each validation, in place of a progress bar, without a terminal."""

    _SHOWN = (
        *("train/loss", "validation/loss", "train/row_accuracy", "train/exact_accuracy"),
        *(f"{group}/solved" for group in ("validation", "training_problems", "beyond")),
    )

    def setup(self, trainer: L.Trainer, *_: Any, **more: Any) -> None:
        if trainer.progress_bar_callback and not _on_terminal():
            trainer.progress_bar_callback.disable()

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking or _on_terminal():
            return
        held = trainer.callback_metrics
        metrics = ", ".join(f"{name} {held[name]:.3f}" for name in self._SHOWN if name in held)
        where = f"epoch {trainer.current_epoch + 1}, step {trainer.global_step:,}"
        rank_zero_info(f"{where}: {metrics}")


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # None: it is closed


class PredictionWriter(BasePredictionWriter):
    """Writes each solved problem as a line of JSON, one file for each device.

    The files are in the folder of the checkpoint's run, beside a checkpoint outside any run, or for
    weights that have a name in the working folder.
    """

    def on_predict_start(self, trainer: L.Trainer, *_: Any) -> None:
        file = Path(trainer.ckpt_path or trainer.default_root_dir)
        folder = file.parents[1] if file.parent.name == CHECKPOINTS else file.parent
        folder = Path() if file in named_weights().values() else folder
        self.file = folder / f"predictions-{trainer.global_rank}.jsonl"
        self.file.write_text("", encoding="utf-8")

    def write_on_batch_end(self, trainer: Any, module: Any, prediction: Any, *_: Any) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in prediction)

    def on_predict_end(self, *_: Any) -> None:
        rank_zero_info(f"The solved problems are in {self.file}")


class Scores(L.Callback):
    """Prints the metrics of a scored checkpoint: shares with counts and Wilson intervals.

    They replace Lightning's own table of means with sixteen digits.
    """

    _COUNTED = ("solved", "free_running_rows", "teacher_forced_rows", "confidence_accuracy")

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        if trainer.state.fn == "fit":
            return
        console = Console(highlight=False, soft_wrap=True, quiet=not trainer.is_global_zero)
        widest = max(map(len, trainer.callback_metrics), default=0)
        for name, tensor in sorted(trainer.callback_metrics.items()):
            (group, _, metric), value = name.rpartition("/"), float(tensor)
            text, rows = f"{value:.4g}", f"{group}/teacher_forced_rows" in trainer.callback_metrics
            correct = f"{group}/{'teacher_forced_rows' if rows else 'solved'}"
            if metric in self._COUNTED:
                sure = metric == "confidence_accuracy"  # also of metrics that a module logs itself
                total = module.counts[correct if sure else name]
                text = str(Share(round(value * total), total))
                if sure:
                    held = 100 * float(trainer.callback_metrics[correct])
                    text += f"; {held:.1f} % of these {'rows' if rows else 'puzzles'} are correct"
            elif metric in ("teacher_forced_cells", "cells") or metric.startswith(SIGNAL):
                text = f"{100 * value:.2f} %"
            console.print(f"{name:<{widest}}  {text}")

    on_test_end: Any = on_validation_end


CALLBACKS = (EndAtOnce, Cost, Gradients, Lines, PredictionWriter, Scores)  # of every run
