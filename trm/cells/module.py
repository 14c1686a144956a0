"""LightningModule for a `CellModel`: every cell of every solution is a sample."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor

from canvas.cells.drawn import draw_signals, right_cells
from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import SYMBOL
from canvas.check import check_once
from canvas.drawing import WorkedDrawing
from trm.cells.integer import IntegerCellModel
from trm.cells.model import CellModel
from trm.cells.predictor import CellPredictor
from trm.cells.samples import CellInputSamples, SolutionSamples, labelled
from trm.models.iterative import Batch
from trm.runtime.torch_settings import standard_settings
from trm.solving.teacher_forced import TeacherForced
from trm.training.canvas_module import SIGNAL, Calibrate, CanvasModule, Means
from trm.training.configs import OptimizerConfig, ScheduleConfig, check_range
from trm.training.data import CanvasDataModule

_HARD = "counterexamples"  # entry of a checkpoint
_NARROW = 2.0  # an op input is hard if its smallest logit margin is below
_AT_ONCE = 16384  # op inputs in a batch, when all are checked
HALT_WEIGHT = 0.1  # of the halting head's loss, which learns whether a cell's outputs are correct


class BaseCellModule(CanvasModule):
    """Trains a `CellModel` on whole solutions, without rollouts.

    Args:
        network: the model.
        optimizer: the optimiser and its settings.
        schedule: of the learning rate.
        seed: of random numbers in training.

    Attributes:
        latent: whether the signals in the config's ``codes`` get no labels.
    """

    samples_class: type[CellInputSamples] | type[SolutionSamples]
    threads = 1  # operations are too small for more
    latent = False

    def __init__(
        self,
        network: CellModel,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        seed: int = 0,
    ) -> None:
        super().__init__(network, optimizer, schedule, seed=seed)

    @property
    def training_metrics(self) -> list[str]:
        return [*super().training_metrics, "cell_accuracy", "op_input_accuracy", "loss_halting"]

    @property
    def validated_metrics(self) -> list[str]:
        return [*super().validated_metrics, *(f"{SIGNAL}{name}" for name in self.model.signals)]

    def check(self, data: CanvasDataModule) -> None:
        if isinstance(self.model, IntegerCellModel):
            raise ValueError(
                "an IntegerCellModel cannot be trained: train a CellModel, and write it in "
                "integers with `trm inspect --export FILE.safetensors --dtype int8`"
            )
        if data.transform or data.blanks.rows or data.blanks.columns:
            raise ValueError(
                "a cell model has a fixed right and left neighbour: leave out data.transforms and "
                "data.blanks"
            )
        check_once(data.task, data.task.local_rule(self.latent))

    @property
    def rule(self) -> LocalRule:
        """Local rule of the task, with the signals that cells pass."""
        return self.data.task.local_rule(self.latent)

    def work(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the outputs of a batch's cells and their halt logits, see `CellModel.cells`."""
        return self.model.cells(self.model.reader.decode(batch["op_inputs"]))

    def cross_entropy(self, logits: Tensor, label: Tensor) -> Tensor:
        """Return the mean loss of one output; labels of −1 do not count."""
        return F.cross_entropy(logits, label, ignore_index=-1)

    def entropy_penalty(self, logits: dict[str, Tensor]) -> Tensor | float:
        """Return a term added to the cross entropies."""
        return 0.0

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum of the cross entropies of all labelled outputs, and accuracies by name.

        The symbol counts in cells that are filled in.
        """
        outputs, halt_logits = self.work(batch)
        logits = self.model.parts(outputs)
        total = self.entropy_penalty(logits)
        shares: dict[str, Tensor] = {}
        right = torch.ones_like(batch["labels"][:, 0], dtype=torch.bool)
        for (name, part), label in zip(logits.items(), batch["labels"].unbind(1), strict=True):
            if name in self.model.config.codes and "op_inputs" not in batch:
                continue  # latent codes have no labels
            total = total + self.cross_entropy(part.float(), label)
            same, counts = part.detach().argmax(dim=-1) == label, label >= 0
            right = right & (same | ~counts)
            shares[name] = (same & counts).sum() / counts.sum().clamp(min=1)
        halt = F.binary_cross_entropy_with_logits(halt_logits, right.float())
        shares["cells"], shares["loss_halting"] = right.float().mean(), halt.detach()
        return total + HALT_WEIGHT * halt, shares

    @standard_settings(threads=1)
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, shares = self.loss(batch)
        metrics = {"loss": loss.detach(), "loss_halting": shares["loss_halting"]}
        metrics |= {"cell_accuracy": shares[SYMBOL], "op_input_accuracy": shares["cells"]}
        signals = {f"{SIGNAL}{n}": shares[n] for n in self.model.signals if n in shares}
        self.log_training(metrics | signals)
        return loss

    @torch.no_grad()
    def loss_on(self, drawing: WorkedDrawing) -> tuple[float, int]:
        """Return the loss on all rows of each problem, and its weight in a mean."""
        batch = move_data_to_device(self.samples_class.batch(self.rule, drawing), self.device)
        return float(self.loss(batch)[0]), len(drawing)

    def predictor(self, calibration: Calibrate | None = None) -> CellPredictor:
        return CellPredictor(self.model)


class CellModule(BaseCellModule):
    """Trains on all op inputs of solutions, with the true messages.

    Args:
        counterexamples: share of a batch that is drawn evenly from hard op inputs. An op input is
            hard if the model was incorrect or nearly so on it when the epoch began. Only op inputs
            of training problems so far are checked, none that occur in longer numbers alone.
        more: see `BaseCellModule`; the seed is that of the choice of counterexamples.
    """

    samples_class = CellInputSamples

    def __init__(self, *, counterexamples: float = 0.0, **more: Any) -> None:
        check_range("model.counterexamples", counterexamples, 0, 1)
        super().__init__(**more)
        self.counterexamples = counterexamples
        self.seen: list[np.ndarray] = []  # ids of op inputs in training so far
        self.hard = np.zeros(0, dtype=np.int64)  # ids of the hard ones

    def check(self, data: CanvasDataModule) -> None:
        super().check(data)
        if self.model.config.codes:
            raise ValueError(
                "a CellModule needs labels for all signals: leave out codes, or train the model "
                "with trm.cells.LatentModule"
            )

    def cross_entropy(self, logits: Tensor, label: Tensor) -> Tensor:
        """Return the mean over all op inputs: an output of fewer op inputs weighs less."""
        return F.cross_entropy(logits, label, reduction="none", ignore_index=-1).mean()

    @standard_settings(threads=1)
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if self.counterexamples:
            self.seen.append(batch["op_inputs"].cpu().numpy())
            count = round(self.counterexamples * len(batch["op_inputs"])) if len(self.hard) else 0
            random = np.random.default_rng(self.batch_seed(batch_idx))
            more = self._labelled(random.choice(self.hard, count)) if count else {}
            more = {name: torch.cat((batch[name], part)) for name, part in more.items()}
            batch = {**batch, **more}
        return super().training_step(batch, batch_idx)

    def batches_of(self, epochs: Iterable[int]) -> Iterator[Batch]:
        """Yield all batches of earlier epochs again."""
        loader: Any = self.data.train_dataloader()
        for epoch in epochs:
            loader.sampler.set_epoch(epoch)
            yield from loader

    def _labelled(self, ids: np.ndarray) -> Batch:
        return move_data_to_device(labelled(self.rule, ids), self.device)

    @standard_settings(threads=1)
    @torch.no_grad()
    def on_train_epoch_start(self) -> None:
        """Run the model on all op inputs of training so far, and keep the hard ones."""
        if not self.counterexamples or not self.current_epoch:
            return
        if not self.seen:  # resumed from a checkpoint, which does not contain them
            before = self.batches_of(range(self.current_epoch))
            self.seen = [batch["op_inputs"].numpy() for batch in before]
        self.seen = [np.unique(np.concatenate(self.seen))]
        tables, hard = self.model.message_tables(), [self.hard]
        for numbers in np.array_split(self.seen[0], -(-len(self.seen[0]) // _AT_ONCE)):
            batch = self._labelled(numbers)
            outputs, _ = self.model.cells(self.model.reader.decode(batch["op_inputs"]), tables)
            least = self.model.margins(outputs.float(), batch["labels"])
            hard.append(numbers[(least < _NARROW).cpu().numpy()])
        self.hard = np.unique(np.concatenate(hard))
        self.log("train/counterexamples", float(len(self.hard)), sync_dist=True)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if self.counterexamples:
            checkpoint[_HARD] = self.gathered(torch.from_numpy(self.hard))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        hard = checkpoint.get(_HARD)  # only used on the same number of devices
        if hard and len(hard) == self.trainer.world_size:
            self.hard = hard[self.global_rank].numpy()

    def more_metrics(self, drawing: WorkedDrawing, forced: TeacherForced) -> Means:
        """Return the accuracy of each signal, in the last row and all above it."""
        last = np.cumsum(drawing.num_rows) - 1
        decided = self.predictor().signals(forced.rows.inputs[last])
        metrics: Means = {}
        for name, truth in draw_signals(self.rule, drawing).items():
            right, counted = right_cells(decided[name], truth)
            total = int(counted.sum())
            metrics[f"{SIGNAL}{name}"] = right.sum() / max(1, total), total
        return metrics
