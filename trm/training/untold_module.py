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
from torch import Tensor

from canvas.render import WorkedDrawing
from trm.models.iterative import Batch
from trm.models.local import LocalRecursiveModel
from trm.training.canvas_module import logs_at
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.local_module import CellModule
from trm.training.samples import PageSamples, page_batch

_COLDEST = 0.1  # the temperature at the end
_DECISIVE = 0.05  # weight of the shares' entropy where the temperature has fallen


class UntoldModule(CellModule):
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

    samples = PageSamples
    compiled_method = "relaxed"
    untold = True

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
        super().__init__(network, optimizer, schedule, compile, seed)
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
        """That of the training step that begins; of a validation, that of the end."""
        if not self.training:
            return _COLDEST
        begin, end = self.cooling
        done = self.global_step / self.trainer.estimated_stepping_batches
        return _COLDEST ** min(1.0, max(0.0, (done - begin) / (end - begin)))

    def work(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return work_relaxed(self.trained(), batch, self.temperature)

    def batch_of(self, drawing: WorkedDrawing) -> Batch:
        return self.on_device(page_batch(self.rule, drawing))

    def indecision(self, logits: dict[str, Tensor]) -> Tensor | float:
        """The entropy of the shares, while the temperature falls."""
        temperature, codes = self.temperature, self.model.config.codes
        if temperature == 1:
            return 0.0
        logs = [(logits[name] / temperature).log_softmax(dim=-1) for name in codes]
        entropy = sum(-(log.exp() * log).sum(dim=-1).mean() for log in logs)
        return _DECISIVE * math.log(temperature) / math.log(_COLDEST) * entropy

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if logs_at(self.trainer, self.global_step + 1):
            self.log("train/temperature", self.temperature)
        return super().training_step(batch, batch_idx)


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
    classes = batch["labels"][order, 1:]
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
