"""What goes along with training: the best weights and the last, gradients and speed."""

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import (
    LearningRateMonitor,
    ModelCheckpoint,
)
from lightning.pytorch.utilities import rank_zero_info, rank_zero_only
from torch import Tensor

from canvas.choices import did_you_mean
from trm.files import replacing
from trm.training.beyond import BEYOND
from trm.training.canvas_module import FIGURES
from trm.training.data import VALIDATED
from trm.training.samples import hint_key


class BestCheckpoint(ModelCheckpoint):
    """Keeps the best checkpoint, and of equally good ones the latest.

    A few hundred validation problems are soon all right, and from there on a learning rate that
    falls to zero still gains a great deal where validation does not look: on longer numbers.
    """

    _from: Path | None = None  # the checkpoint that a run goes on from

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Refuse a figure that there will be none of, before anything is trained.

        Raises:
            ValueError: no validation of this run logs such a figure, nor may a class of the user's.
        """
        if self.monitor and self.monitor.startswith(f"{BEYOND}/"):
            raise ValueError(
                f"checkpoint.monitor: {self.monitor} is of problems longer than those of training, "
                "by which no checkpoint may be chosen: take validation/solved"
            )
        figures = validated_figures(trainer, pl_module)
        parts = (pl_module, *trainer.callbacks)  # type: ignore[attr-defined]
        ours = all(type(part).__module__.startswith(("trm.", "lightning.")) for part in parts)
        if stage == "fit" and ours and self.monitor and self.monitor not in figures:
            near = did_you_mean(self.monitor, figures) or f" There are {', '.join(figures)}."
            raise ValueError(f"checkpoint.monitor: there is no figure {self.monitor}.{near}")
        super().setup(trainer, pl_module, stage)

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remember where it is, if it is to be gone on from."""
        self._from = Path(trainer.ckpt_path) if trainer.state.fn == "fit" else None  # type: ignore[arg-type]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the best of before: its score, and its file, wherever the run goes on.

        It is looked for in the run's own folder, where it was, and beside the checkpoint that the
        run goes on from. Without a file there is no best one yet.
        """
        super().load_state_dict(state_dict)
        if self._from is None:
            return
        self.best_k_models = {}
        for path, score in state_dict["best_k_models"].items():
            place = Path(str(self.dirpath), Path(path).name)
            beside = self._from.with_name(place.name)
            found = next((file for file in (place, Path(path), beside) if file.is_file()), None)
            if found is not None:
                self._bring(found, place)
                self.best_k_models[str(place)] = score
        best_first = sorted(self.best_k_models.items(), key=lambda held: float(held[1]))
        if self.mode == "max":
            best_first.reverse()
        self.best_model_path, self.best_model_score = best_first[0] if best_first else ("", None)
        if len(best_first) == self.save_top_k:
            self.kth_best_model_path, self.kth_value = best_first[-1]

    @rank_zero_only
    def _bring(self, file: Path, place: Path) -> None:
        if file.resolve() != place.resolve():
            place.parent.mkdir(parents=True, exist_ok=True)
            with replacing(place) as part:
                shutil.copyfile(file, part)

    def check_monitor_top_k(self, trainer: L.Trainer, current: Tensor | None = None) -> bool:
        """Whether the checkpoint is to be kept, given the figure that is monitored."""
        worst = self.best_k_models.get(self.kth_best_model_path)
        equal = current is not None and worst is not None and bool(torch.eq(current, worst))
        return equal or super().check_monitor_top_k(trainer, current)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Say where it is."""
        super().on_fit_end(trainer, pl_module)
        if self.best_model_path:
            rank_zero_info(f"The best checkpoint is {self.best_model_path}")


def validated_figures(trainer: L.Trainer, module: L.LightningModule) -> list[str]:
    """The figures that each validation of a run logs, by their names."""
    training_problems = getattr(getattr(trainer, "datamodule", None), "training_problems", 0)
    groups = VALIDATED if training_problems else VALIDATED[:1]
    steps = getattr(module, "deepest", 0)
    names = [name for name in FIGURES if steps or name != "supervision_steps"]
    hints = [f"{VALIDATED[0]}/{hint_key(name)}" for name in getattr(module, "hints", ())]
    return [*(f"{group}/{name}" for group in groups for name in names), *hints]


class LastCheckpoint(ModelCheckpoint):
    """Keeps the end of every epoch, beside the best one.

    With `save_last` of the best one it would be kept only where it is the best.
    """

    def __init__(self) -> None:
        super().__init__(
            filename="last", save_on_train_epoch_end=True, enable_version_counter=False
        )

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Go where the best one goes."""
        best = next((c for c in trainer.callbacks if isinstance(c, BestCheckpoint)), None)  # type: ignore[attr-defined]
        self.dirpath = best.dirpath if best is not None else self.dirpath
        super().setup(trainer, pl_module, stage)


class LearningRates(LearningRateMonitor):
    """Logs the learning rates of every step, where anything is logged."""

    def __init__(self) -> None:
        super().__init__(logging_interval="step")

    def on_train_start(self, trainer: L.Trainer, *args: Any, **more: Any) -> None:
        """See `LearningRateMonitor`, which insists on a logger."""
        if trainer.loggers:
            super().on_train_start(trainer, *args, **more)


class Gradients(L.Callback):
    """Logs `train/gradient_norm`, before clipping, and stops a run whose numbers are lost.

    A gradient that is not finite ends training before it reaches the weights, on a CPU; elsewhere
    it is looked for where the trainer logs and before a checkpoint is written, so as not to wait
    for the device at every step. Under float16 single such steps belong to the loss scaling, which
    leaves them out; `patience` of them in succession do not.

    Args:
        patience: optimiser steps in succession that float16 may leave out.
    """

    def __init__(self, patience: int = 20) -> None:
        self.patience = patience
        self._lost: Tensor | None = None  # int64 [2]: such steps in succession, the first of them
        self._loss: Tensor | None = None

    def on_before_backward(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor
    ) -> None:
        """Keep the loss, to tell it."""
        self._loss = loss.detach()

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Measure, on all devices alike: gradients have been averaged."""
        gradients = [p.grad for p in pl_module.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        step, logs = trainer.global_step, (trainer.global_step + 1) % _every(trainer) == 0
        if logs:
            pl_module.log("train/gradient_norm", norm)
        before = self._lost if self._lost is not None else norm.new_zeros(2, dtype=torch.int64)
        bad = ~torch.isfinite(norm)
        first = torch.where(before[0] > 0, before[1], step)
        self._lost = torch.stack([(before[0] + 1) * bad, first])
        if logs or norm.device.type == "cpu":
            self._check(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Write no lost weights down."""
        self._check(trainer, pl_module)

    def _check(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._lost is None:
            return
        lost, first = self._lost.tolist()
        scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
        if lost < (self.patience if scaled else 1):
            return
        loss = "unknown" if self._loss is None else f"{float(self._loss):g}"
        data = getattr(trainer, "datamodule", None)
        raise FloatingPointError(
            f"the gradient of optimiser step {first + 1:,} is not finite (loss {loss}; epoch "
            f"{trainer.current_epoch + 1}, data.seed {getattr(data, 'seed', 'unknown')}: the same "
            "config draws the same batches again, and --ckpt_path last goes on from the end of the "
            "last epoch). No checkpoint has been written since. Try lower learning rates "
            "(model.optimizer.lr, and matrix_lr of muon), --trainer.gradient_clip_val 1, more "
            "model.schedule.warmup_steps, or --trainer.precision 32-true"
        )


def _every(trainer: L.Trainer) -> int:
    """Optimiser steps from one logged figure to the next; Lightning's 0 logs none of them."""
    return int(trainer.log_every_n_steps) or sys.maxsize  # type: ignore[attr-defined]


def memory_gib(device: torch.device) -> float:
    """The most memory that training has taken so far: of the accelerator, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    if device.type == "mps":
        return torch.mps.driver_allocated_memory() / 2**30
    return _peak_resident() / 2**30


def _peak_resident() -> int:
    """Bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


class Throughput(L.Callback):
    """Logs `speed/samples_per_second` (over all devices), `speed/seconds_per_step` and
    `speed/memory_gib`, the most that one device has taken.

    The first two are means over the optimiser steps since the last time they were logged, which is
    every `log_every_n_steps` of the trainer. The time from one batch's end to the next one's
    counts; the first step and any that a validation came before do not. Under the `carry` schedule
    a sample is counted once for each of its supervision steps.
    """

    def __init__(self) -> None:
        self._end: float | None = None  # of the last batch; None: the next one is not counted
        self._logged = 0  # the optimiser step
        self._clear()

    def _clear(self) -> None:
        self._seconds, self._samples, self._batches = 0.0, 0, 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin anew."""
        self._end, self._logged = None, trainer.global_step
        self._clear()

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Leave out the time until the end of the next training batch."""
        self._end = None

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: dict[str, Any],
        batch_idx: int,
    ) -> None:
        """Count the batch, and log where the trainer does."""
        now = time.perf_counter()
        if self._end is not None:
            self._seconds += now - self._end
            self._samples += len(next(iter(batch.values()))) * trainer.world_size
            self._batches += 1
        self._end = now
        step = trainer.global_step
        if step == self._logged or step % _every(trainer) or not self._batches:
            return
        self._logged = step
        seconds_per_step = self._seconds / self._batches * trainer.accumulate_grad_batches
        pl_module.log("speed/samples_per_second", self._samples / self._seconds)
        pl_module.log("speed/seconds_per_step", seconds_per_step)
        pl_module.log("speed/memory_gib", memory_gib(pl_module.device))
        self._clear()
