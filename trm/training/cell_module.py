"""A `CellModel` as a LightningModule: every cell of every page is a sample."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor

from canvas.cell_inputs import SYMBOL, LocalRule
from canvas.pages import draw_signals
from canvas.render import WorkedDrawing
from canvas.rule_check import check_rule
from trm.models.cell import CellModel
from trm.models.iterative import Batch
from trm.solving.cell_predictor import CellPredictor, right_cells
from trm.solving.rollout import TeacherForced
from trm.torch_settings import standard_settings
from trm.training.canvas_module import SIGNAL, CanvasModule, Figures
from trm.training.configs import OptimizerConfig, ScheduleConfig, check_range
from trm.training.data import CanvasDataModule
from trm.training.samples import CellInputSamples, PageSamples, op_input_batch

_HARD = "counterexamples"  # of a checkpoint
_NARROW = 2.0  # margin between a right logit and the next below which an op input is hard
_AT_ONCE = 16384
HALT_WEIGHT = 0.1  # of the loss of the halting head, which learns whether a cell says it right


class BaseCellModule(CanvasModule):
    """Trains a `CellModel` on whole pages: no rollout, as each cell is worked out once.

    Args:
        network: the model.
        optimizer: which optimiser.
        schedule: of the learning rate.
        seed: of what is drawn while training.

    Attributes:
        untold: whether it is kept from the model what the codes of its config should be.
    """

    samples: type[CellInputSamples] | type[PageSamples]
    charted = ("train/cell_accuracy", "train/op_input_accuracy", "train/loss_halting")
    threads = 1  # an operation is small
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
    def validated_figures(self) -> list[str]:
        return [*super().validated_figures, *(f"{SIGNAL}{name}" for name in self.model.signals)]

    def check(self, data: CanvasDataModule) -> None:
        if data.transform or data.blanks.rows or data.blanks.columns:
            raise ValueError(
                "a cell model knows which neighbour is on its right: leave out "
                "data.transforms and data.blanks"
            )
        check_rule(data.task, data.task.local_rule(self.latent))

    @property
    def rule(self) -> LocalRule:
        """What cells hand on."""
        return self.data.task.local_rule(self.latent)

    def work(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the cells of a batch say, and halt logits, as `CellModel.cells`."""
        return self.model.cells(batch["numbers"])

    def cross_entropy(self, logits: Tensor, label: Tensor) -> Tensor:
        """The mean loss of one thing that cells say; labels of −1 do not count."""
        return F.cross_entropy(logits, label, ignore_index=-1)

    def entropy_penalty(self, logits: dict[str, Tensor]) -> Tensor | float:
        """What the loss has beside cross entropies."""
        return 0.0

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The cross entropies of all that N cells are told, added up; and shares that are right.

        The symbol's counts in cells that are filled in.
        """
        outputs, halt_logits = self.work(batch)
        logits = self.model.parts(outputs)
        total = self.entropy_penalty(logits)
        shares: dict[str, Tensor] = {}
        right = torch.ones_like(batch["labels"][:, 0], dtype=torch.bool)
        for (name, said), label in zip(logits.items(), batch["labels"].unbind(1), strict=True):
            if name in self.model.config.codes and "numbers" not in batch:
                continue  # nobody knows what it should be
            total = total + self.cross_entropy(said.float(), label)
            same, counts = said.detach().argmax(dim=-1) == label, label >= 0
            right = right & (same | ~counts)
            shares[name] = (same & counts).sum() / counts.sum().clamp(min=1)
        halt = F.binary_cross_entropy_with_logits(halt_logits, right.float())
        shares["cells"], shares["loss_halting"] = right.float().mean(), halt.detach()
        return total + HALT_WEIGHT * halt, shares

    @standard_settings(threads=1)
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, shares = self.loss(batch)
        figures = {"loss": loss.detach(), "loss_halting": shares["loss_halting"]}
        figures |= {"cell_accuracy": shares[SYMBOL], "op_input_accuracy": shares["cells"]}
        told = {f"{SIGNAL}{n}": shares[n] for n in self.model.signals if n in shares}
        self.log_training(figures | told)
        return loss

    @torch.no_grad()
    def loss_on(self, drawing: WorkedDrawing) -> tuple[float, int]:
        """On all rows of each problem."""
        batch = move_data_to_device(self.samples.batch(self.rule, drawing), self.device)
        return float(self.loss(batch)[0]), len(drawing)

    def predictor(self) -> CellPredictor:
        return CellPredictor(self.model)

    def about(self) -> dict[str, Any]:
        return {"family": "cell"}


class CellModule(BaseCellModule):
    """Trains on all that cells see, with the true messages.

    Args:
        counterexamples: share of a batch that is drawn evenly from op inputs that were wrong or
            nearly so when an epoch began, of all that training's problems had shown by then: of
            those that only longer numbers show, none.
        more: see `BaseCellModule`; of a seed are the counterexamples of a batch.
    """

    samples = CellInputSamples

    def __init__(self, *, counterexamples: float = 0.0, **more: Any) -> None:
        check_range("model.counterexamples", counterexamples, 0, 1)
        super().__init__(**more)
        self.counterexamples = counterexamples
        self.seen: list[np.ndarray] = []  # numbers of op inputs that training has shown
        self.hard = np.zeros(0, dtype=np.int64)  # of those that were wrong or nearly so

    def check(self, data: CanvasDataModule) -> None:
        super().check(data)
        if self.model.config.codes:
            raise ValueError(
                "a CellModule tells all that cells hand on: leave out codes, or train the model "
                "with trm.training.LatentModule"
            )

    def cross_entropy(self, logits: Tensor, label: Tensor) -> Tensor:
        """The mean over all op inputs: a head that says less weighs less."""
        return F.cross_entropy(logits, label, reduction="none", ignore_index=-1).mean()

    @standard_settings(threads=1)
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if self.counterexamples:
            self.seen.append(batch["numbers"].cpu().numpy())
            number = round(self.counterexamples * len(batch["numbers"])) if len(self.hard) else 0
            random = np.random.default_rng(self.batch_seed(batch_idx))
            more = self._sights(random.choice(self.hard, number)) if number else {}
            more = {name: torch.cat((batch[name], part)) for name, part in more.items()}
            batch = {**batch, **more}
        return super().training_step(batch, batch_idx)

    def batches_of(self, epochs: Iterable[int]) -> Iterator[Batch]:
        """All batches of epochs before this one, drawn once more."""
        loader: Any = self.data.train_dataloader()
        for epoch in epochs:
            loader.sampler.set_epoch(epoch)
            yield from loader

    def _sights(self, numbers: np.ndarray) -> Batch:
        return move_data_to_device(op_input_batch(self.rule, numbers), self.device)

    @standard_settings(threads=1)
    @torch.no_grad()
    def on_train_epoch_start(self) -> None:
        """Run the model on all op inputs that training has shown, and keep those that are hard."""
        if not self.counterexamples or not self.current_epoch:
            return
        if not self.seen:  # it goes on from a checkpoint, which does not hold them
            before = self.batches_of(range(self.current_epoch))
            self.seen = [batch["numbers"].numpy() for batch in before]
        self.seen = [np.unique(np.concatenate(self.seen))]
        tables, hard = self.model.message_tables(), [self.hard]
        for numbers in np.array_split(self.seen[0], -(-len(self.seen[0]) // _AT_ONCE)):
            batch = self._sights(numbers)
            outputs, _ = self.model.cells(batch["numbers"], tables)
            labels = dict(zip(self.model.outputs, batch["labels"].unbind(1), strict=True))
            least = self.model.margins(outputs.float(), labels)
            hard.append(numbers[(least < _NARROW).cpu().numpy()])
        self.hard = np.unique(np.concatenate(hard))
        self.log("train/counterexamples", float(len(self.hard)), sync_dist=True)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if self.counterexamples:
            checkpoint[_HARD] = self.gathered(torch.from_numpy(self.hard))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        hard = checkpoint.get(_HARD)  # taken over by as many devices as had it
        if hard and len(hard) == self.trainer.world_size:
            self.hard = hard[self.global_rank].numpy()

    def more_figures(self, drawing: WorkedDrawing, forced: TeacherForced) -> Figures:
        """The share of cells in which each field is right, in the last row and all above it."""
        last = np.cumsum(drawing.steps) - 1
        decided = self.predictor().signals(forced.steps.inputs[last])
        figures: Figures = {}
        for name, truth in draw_signals(self.rule, drawing).items():
            right, counted = right_cells(decided[name], truth)
            number = int(counted.sum())
            figures[f"{SIGNAL}{name}"] = right.sum() / max(1, number), number
        return figures
