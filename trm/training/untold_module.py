"""Training of a `LocalRecursiveModel` that invents what its cells hand on: it sees pages alone.

Of the fields that its config calls codes nothing is told. A code is learned from the symbols that
other cells write with its help: while it is learned cells hand on shares of all codes, the softmax
of their logits at a temperature that falls, so that a gradient comes back through all cells of a
page (Jang et al. 2017, "Categorical Reparameterization with Gumbel-Softmax", here without noise).
While it falls, the entropy of shares joins the loss. In the end the shares are nearly those of one
code alone, which is what is handed on in solving.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.problems import Problems
from canvas.render import WorkedDrawing
from canvas.windows import SYMBOL
from trm.models.iterative import Batch
from trm.models.local import LocalRecursiveModel
from trm.solving.rollout import TeacherForced
from trm.training.canvas_module import FIELD, CanvasModule, Figures, logs_at
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.local_module import HALT_WEIGHT, LocalModule
from trm.training.samples import page_batch

_COLDEST = 0.1  # the temperature at the end
_DECISIVE = 0.05  # weight of the shares' entropy where the temperature has fallen


class UntoldModule(LocalModule):
    """Trains a `LocalRecursiveModel` on whole pages, of which it is told what stands there.

    Args:
        network: the model, with codes.
        optimizer: which optimiser.
        schedule: of the learning rate.
        cooling: when the temperature begins to fall from 1, and when it has fallen, as shares of
            the run.
        compile: compile the model for training (needs a C++ compiler on a CPU).
        seed: unused by this model, which draws nothing.
    """

    samples = "pages"
    compiled_method = "relaxed"

    def __init__(
        self,
        network: LocalRecursiveModel,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        cooling: tuple[float, float] = (0.5, 0.85),
        compile: bool = False,
        seed: int = 0,
    ) -> None:
        if not 0 <= cooling[0] < cooling[1] <= 1:
            raise ValueError(f"model.cooling is [begin, end] from 0 to 1, not {list(cooling)}")
        super().__init__(network, optimizer, schedule, compile=compile, seed=seed)
        self.cooling = cooling

    def check(self, data: CanvasDataModule) -> None:
        super().check(data)
        if not self.model.config.codes:
            raise ValueError(
                "an UntoldModule trains models with codes: name the fields that are not told in "
                "model.network.init_args.config.codes, or take trm.training.LocalModule"
            )

    @property
    def temperature(self) -> float:
        """That of the training step that begins."""
        begin, end = self.cooling
        done = self.global_step / self.trainer.estimated_stepping_batches
        return _COLDEST ** min(1.0, max(0.0, (done - begin) / (end - begin)))

    def loss(
        self, batch: Batch, temperature: float | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the cells of pages, and what is worth logging: shares that are right.

        The cross entropies of all that is told, added up; the symbol's counts in cells that are
        filled in. Without a temperature, that of the end of training.
        """
        temperature, codes = temperature or _COLDEST, self.model.config.codes
        outputs, halt_logits = work_relaxed(self.trained(), batch, temperature)
        logits = self.model.parts(outputs)
        labels = {SYMBOL: batch["symbols"]}
        for name, classes in zip(self.model.fields, batch["classes"].unbind(1), strict=True):
            if name not in codes:
                labels[name] = classes
        shares: dict[str, Tensor] = {}
        total = torch.zeros((), device=batch["tokens"].device)
        if temperature < 1:
            logs = [(logits[name] / temperature).log_softmax(dim=-1) for name in codes]
            entropy = sum(-(log.exp() * log).sum(dim=-1).mean() for log in logs)
            total = _DECISIVE * math.log(temperature) / math.log(_COLDEST) * entropy
        right = torch.ones_like(batch["tokens"], dtype=torch.bool)
        for name, label in labels.items():
            total = total + F.cross_entropy(logits[name].float(), label, ignore_index=-1)
            same, counts = logits[name].detach().argmax(dim=-1) == label, label >= 0
            right = right & (same | ~counts)
            shares[name] = (same & counts).sum() / counts.sum().clamp(min=1)
        halt = F.binary_cross_entropy_with_logits(halt_logits, right.float())
        return total + HALT_WEIGHT * halt, shares | {"loss_halting": halt.detach()}

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        temperature = self.temperature
        loss, shares = self.loss(batch, temperature)
        if logs_at(self.trainer, self.global_step + 1):
            figures = {"loss": loss.detach(), "temperature": temperature}
            figures["loss_halting"] = shares["loss_halting"]
            told = {f"{FIELD}{n}": shares[n] for n in shares if n in self.model.fields}
            self.log_training(figures | {"cell_accuracy": shares[SYMBOL]} | told)
        return loss

    @torch.no_grad()
    def loss_on(self, problems: Problems, drawing: WorkedDrawing) -> tuple[float, int]:
        """On all rows of each problem, of codes that are all but decided."""
        data: CanvasDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        batch = page_batch(data.task.local_rule(untold=True), drawing)
        return float(self.loss({k: v.to(self.device) for k, v in batch.items()})[0]), len(drawing)

    def more_figures(self, drawing: WorkedDrawing, forced: TeacherForced) -> Figures:
        """What a code should be nobody knows."""
        return CanvasModule.more_figures(self, drawing, forced)


def work_relaxed(
    model: LocalRecursiveModel, batch: Batch, temperature: float
) -> tuple[Tensor, Tensor]:
    """What the cells of pages say where codes are shares: as `LocalRecursiveModel.cells`.

    Cells that no code leads from one to another are worked out together. Of what is told they see
    what is true.

    Args:
        model: with codes.
        batch: N cells, see `trm.training.samples.PageSamples`.
        temperature: of the softmax.
    """
    codes, starts = model.config.codes, model.class_starts
    place = {name: i for i, name in enumerate(model.fields)}
    ways = list(model.heads.ways.items())
    down = any(name in codes for way, names in ways if way != "left" for name in names)
    row, column = batch["places"].unbind(1)
    front = column + 2 * row if down else column
    order = torch.argsort(front, stable=True)
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=order.device)
    present = batch["sources"][order] >= 0  # [N, ways]
    sources = torch.where(present, number[batch["sources"][order]], -1)
    classes = batch["classes"][order]
    messages = torch.zeros(*sources.shape, starts[""], device=order.device)
    for way, (_, names) in enumerate(ways):
        for name in names:
            if name not in codes:
                told = starts[name] + classes[sources[:, way], place[name]]
                messages[:, way].scatter_(1, told[:, None], present[:, way, None].float())
    shares = torch.zeros(1, sum(codes.values()), device=order.device)  # of no cell, then of each
    found: list[tuple[Tensor, Tensor]] = []
    for cells in torch.arange(len(order)).split(front[order].bincount().tolist()):
        if not len(cells):
            continue
        here = slice(int(cells[0]), int(cells[-1]) + 1)
        message = messages[here].clone()
        for way, (_, names) in enumerate(ways):
            begin = 0
            for name, count in codes.items():
                if name in names:
                    known = shares[1 + sources[here, way], begin : begin + count]
                    message[:, way, starts[name] : starts[name] + count] = known
                begin += count
        outputs, halt_logits = model.relaxed(batch["tokens"][order[here]], message, present[here])
        found.append((outputs, halt_logits))
        logits = model.parts(outputs)
        decided = [(logits[name] / temperature).softmax(dim=-1) for name in codes]
        shares = torch.cat((shares, torch.cat(decided, dim=-1)))
    outputs, halt_logits = (torch.cat(parts)[number] for parts in zip(*found, strict=True))
    return outputs, halt_logits
