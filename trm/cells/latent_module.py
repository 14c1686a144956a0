"""Training of a `CellModel` with latent codes: messages without labels.

Signals listed in the config's ``codes`` get no labels. A latent code is learned from the symbols
that other cells write with its help. During training a cell passes a probability for every class of
a code, the softmax of its logits at a falling temperature. So gradients flow through all cells of
a solution (Jang et al. 2017, "Categorical Reparameterization with Gumbel-Softmax", here without
noise). While the temperature falls, the entropy of these probabilities is added to the loss. In the
end nearly all probability is on one class, which is the one passed in solving.

Example: with ``codes: {carry: 8}`` a cell passes one of 8 classes in place of a carry.

If codes have many classes, the last epochs may merge classes with the same effect. They then train
on all op inputs in solutions with the remaining classes: see `trm.cells.state_merging`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor

from canvas.cells.local_rule import LocalRule
from canvas.cells.order import front_of, in_fronts, wavefront
from trm.cells.cache import CellCache
from trm.cells.model import CellModel
from trm.cells.module import BaseCellModule
from trm.cells.samples import SolutionSamples
from trm.cells.state_merging import SolutionCells, merged_messages
from trm.models.iterative import Batch
from trm.runtime.torch_settings import standard_settings
from trm.training.configs import check_range
from trm.training.data import CanvasDataModule
from trm.training.loggers import logs_at

_DECISIVE = 0.05  # weight of the entropy penalty once the temperature has fallen
_OP_INPUTS = 4096  # in a batch at most, once codes are merged
_EPOCHS = 40  # of solutions are drawn for a merge, so that rare op inputs occur, too
_OFTEN = 8  # an op input is rare until so many cells have had it
_CANVASES = 512  # solutions drawn at once for a merge
_KEPT = ("tokens", "labels", "sources", "written", "codes")


class LatentModule(BaseCellModule):
    """Trains a `CellModel` on whole solutions, without labels for its codes.

    Args:
        cooling: begin and end of the temperature's fall from 1, as shares of the run.
        coldest: the temperature after its fall. At 0.1 nearly all probability is on one class, and
            what was learned with several classes at once can be lost again.
        merging: share of the run after which each epoch merges codes and trains on the resulting
            op inputs. They come from solutions drawn for this purpose, 40 times as many as an epoch
            has. 1: no epoch merges.
        more: see `BaseCellModule`; the seed is that of the choice of op inputs after merging.
    """

    samples_class = SolutionSamples
    latent = True

    def __init__(
        self,
        *,
        cooling: tuple[float, float] = (0.5, 0.85),
        merging: float = 1.0,
        coldest: float = 0.1,
        **more: Any,
    ) -> None:
        if not cooling or not 0 <= cooling[0] < cooling[1] <= 1:
            raise ValueError(f"model.cooling is [begin, end] from 0 to 1, not {cooling}")
        check_range("model.merging", merging, cooling[1], 1)
        check_range("model.coldest", coldest, 0.01, 0.99)
        super().__init__(**more)
        self.cooling, self.merging, self.coldest = cooling, merging, coldest
        self.op_inputs: Batch | None = None  # of drawn solutions, with merged codes

    def check(self, data: CanvasDataModule) -> None:
        super().check(data)
        if not self.model.config.codes:
            raise ValueError(
                "a LatentModule trains models with codes: name the signals without labels in "
                "model.network.init_args.config.codes, or use trm.cells.CellModule"
            )

    def on_fit_start(self) -> None:
        if self.merging < 1 and self.trainer.world_size > 1:
            raise ValueError("model.merging needs one device: give --trainer.devices 1")

    @property
    def temperature(self) -> float:
        """Temperature of the current training step; in a validation the lowest one."""
        if not self.training:
            return self.coldest
        begin, end = self.cooling
        done = self.global_step / self.trainer.estimated_stepping_batches
        return self.coldest ** min(1.0, max(0.0, (done - begin) / (end - begin)))

    def merges(self, epoch: int) -> bool:
        """Return whether an epoch trains on merged codes."""
        assert self.trainer.max_epochs is not None
        return epoch > 0 and epoch >= self.merging * self.trainer.max_epochs

    def work(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if "op_inputs" in batch:
            return super().work(batch)
        return work_relaxed(self.model, batch, self.temperature)

    def entropy_penalty(self, logits: dict[str, Tensor]) -> Tensor | float:
        """Return the weighted entropy of the codes' probabilities; 0 before the cooling."""
        temperature, codes = self.temperature, self.model.config.codes
        if temperature == 1:
            return 0.0
        logs = [(logits[name] / temperature).log_softmax(dim=-1) for name in codes]
        entropy = sum(-(log.exp() * log).sum(dim=-1).mean() for log in logs)
        return _DECISIVE * math.log(temperature) / math.log(self.coldest) * entropy

    @standard_settings(threads=1)
    def on_train_epoch_start(self) -> None:
        """Merge the codes in freshly drawn solutions, in an epoch that merges."""
        if self.merges(self.current_epoch):
            self.op_inputs = merged_op_inputs(self.rule, self.model, self.more_solutions())
            self.log("train/op_inputs", float(len(self.op_inputs["op_inputs"])))

    def more_solutions(self) -> Iterator[Batch]:
        """Yield solutions of the training split, different ones for each epoch."""
        drawn = self.data.train_dataloader().dataset
        assert isinstance(drawn, SolutionSamples)
        for epoch in range(self.current_epoch * _EPOCHS, (self.current_epoch + 1) * _EPOCHS):
            canvases = range(epoch * drawn.size, (epoch + 1) * drawn.size)
            for first in range(0, drawn.size, _CANVASES):
                yield drawn.__getitems__(canvases[first : first + _CANVASES])

    @standard_settings(threads=1)
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if self.op_inputs is not None:
            random = np.random.default_rng(self.batch_seed(batch_idx))
            total = len(self.op_inputs["op_inputs"])
            some = torch.from_numpy(random.integers(0, total, min(total, _OP_INPUTS)))
            few = {name: part[some] for name, part in self.op_inputs.items()}
            batch = move_data_to_device(few, self.device)
        if logs_at(self.trainer, self.global_step + 1):
            self.log("train/temperature", self.temperature)
        return super().training_step(batch, batch_idx)


def _solved(coded: LocalRule, known: CellCache, batch: Batch) -> dict[str, np.ndarray]:
    """Run the model on the cells of `SolutionSamples` with decided codes and true signals.

    Returns:
        The batch, with ``op_inputs``: int64 [N], ``written``: symbols, int64 [N], and ``codes``:
        decided classes, int64 [N, codes].
    """
    cells = {name: part.cpu().numpy() for name, part in batch.items()}
    columns = [1 + list(coded.signals).index(name) for name in coded.codes]
    messages = np.pad(cells["labels"], ((0, 1), (0, 0)))
    messages[:-1, 0] = 1
    op_inputs, written = np.zeros((2, len(cells["tokens"])), dtype=np.int64)

    def decide(here: np.ndarray, around: np.ndarray) -> np.ndarray:
        inputs = coded.inputs_from(cells["tokens"][here], around)
        op_inputs[here] = coded.whole.encode(0, inputs)
        ids = torch.from_numpy(op_inputs[here]).to(known.tables[0].device)
        decided = known(ids).classes.cpu().numpy()
        written[here] = decided[:, 0]
        passed = messages[here]
        passed[:, columns] = decided[:, columns]
        return passed

    fronts = _fronts(known.model, batch)
    wavefront(decide, messages, ((here, cells["sources"][here]) for here in fronts))
    return cells | {"op_inputs": op_inputs, "written": written, "codes": messages[:-1, columns]}


def _with_rare_cells(
    coded: LocalRule, model: CellModel, canvases: Iterable[Batch]
) -> list[np.ndarray]:
    """Return all cells of those solutions that contain a rare cell: the arrays of `_KEPT`.

    A cell is rare if fewer than `_OFTEN` cells in earlier solutions were like it. Two cells are
    alike if they have the same op input and both are correct or both incorrect.
    """
    known, times, begin = CellCache(model), Counter[int](), 0
    kept: list[list[np.ndarray]] = []
    for batch in canvases:
        cells = _solved(coded, known, batch)
        symbol = cells["labels"][:, 0]
        wrong = (symbol >= 0) & (cells["written"] != symbol)
        alike = np.where(wrong, ~cells["op_inputs"], cells["op_inputs"])
        rare = np.array([times[op_input] < _OFTEN for op_input in alike.tolist()])
        here = np.isin(cells["canvases"], cells["canvases"][rare])
        times.update(alike[here].tolist())
        index = np.append(begin + np.cumsum(here) - 1, -1)  # the last one is for no cell
        begin += int(here.sum())
        cells["sources"] = index[cells["sources"]]
        kept.append([cells[name][here] for name in _KEPT])
    return [np.concatenate(parts) for parts in zip(*kept, strict=True)]


@torch.no_grad()
def merged_op_inputs(rule: LocalRule, model: CellModel, canvases: Iterable[Batch]) -> Batch:
    """Return each distinct op input of solutions once, with merged codes as labels.

    Solutions in which every op input is frequent already are left out.

    Args:
        rule: the layout's rule, without latent codes.
        model: a model with latent codes.
        canvases: batches of `SolutionSamples`.

    Returns:
        A batch as those of `CellInputSamples`; the label of a code is −1 where it is unknown.
    """
    coded = rule.with_codes(model.config.codes)
    tokens, labels, sources, written, codes = _with_rare_cells(coded, model, canvases)
    symbols, names, directions = labels[:, 0], list(coded.codes), coded.whole.directions
    signals = dict(zip(rule.signals, labels.T[1:], strict=True))
    theirs = [1 + list(rule.signals).index(name) for name in names]

    def op_inputs(codes: np.ndarray) -> np.ndarray:
        """Return the ids of all cells' inputs, given the codes that cells pass."""
        passed = np.pad(labels, ((0, 1), (0, 0)))
        passed[:-1, 0], passed[:-1, theirs] = 1, codes
        return coded.whole.encode(0, coded.inputs_from(tokens, passed[sources]))

    # For directions with codes: index of the direction, its codes, its signals with hints.
    split = (
        (w, [n for n in of if n in names], [n for n in of if n not in names])
        for w, of in enumerate(directions.values())
    )
    places, together, beside = zip(*(one for one in split if one[1]), strict=True)
    decided = dict(zip(names, codes.T, strict=True))
    cells = SolutionCells(
        cell_input=op_inputs(np.zeros_like(codes)),
        messages=np.stack([coded.message_id(of, decided) - 1 for of in together], axis=1),
        hints=np.stack([coded.message_id(of, signals) for of in beside], axis=1),
        sources=sources[:, places],
        symbol=symbols,
        right=(written == symbols) | (symbols < 0),
    ).suspected()
    messages = merged_messages(cells)
    received = np.take_along_axis(messages, cells.sources, axis=0)
    known = cells.counted() & ((cells.sources < 0) | (received >= 0)).all(axis=1)
    merged = np.full_like(codes, -1)
    for of, message in zip(together, messages.T, strict=True):
        found = coded.message(of, 1 + message)
        for name in of:
            merged[:, names.index(name)] = np.where(message >= 0, found[name], -1)
    seen = op_inputs(np.maximum(merged, 0))
    labels[:, theirs] = np.where(cells.right[:, None], merged, -1)
    unknown = (labels[:, theirs] < 0).sum(axis=1)
    shown, times = np.unique(
        np.column_stack((seen, unknown, labels))[known], axis=0, return_counts=True
    )
    # An op input may have had several labels: take the most complete, then the most frequent.
    order = np.lexsort((-times, shown[:, 1], shown[:, 0]))
    seen, which = np.unique(shown[order, 0], return_index=True)
    labels = shown[order[which], 2:]
    return {"op_inputs": torch.from_numpy(seen), "labels": torch.from_numpy(labels)}


def _fronts(model: CellModel, batch: Batch) -> list[np.ndarray]:
    """Return the indices of the cells of each front: after all cells that pass them a code.

    If codes are passed only to the left, rows do not wait for the rows above.
    """
    codes, directions = model.config.codes, model.encoding.directions.items()
    down = any(
        name in codes for direction, names in directions if direction != "left" for name in names
    )
    row, column = batch["places"].cpu().numpy().T
    return in_fronts(front_of(row if down else 0, column))


def work_relaxed(model: CellModel, batch: Batch, temperature: float) -> tuple[Tensor, Tensor]:
    """Run a model on solutions, with probabilities in place of decided codes.

    Cells of one front are computed together. Signals with labels are read from the labels.

    Args:
        model: a model with latent codes.
        batch: of `SolutionSamples`.
        temperature: of the softmax over a code's classes.

    Returns:
        Outputs and halt logits, as those of `CellModel.cells`.
    """
    codes, starts = model.config.codes, model.class_starts
    place = {name: i for i, name in enumerate(model.signals)}
    directions = list(model.encoding.directions.items())
    tokens, sources = batch["tokens"], batch["sources"]  # [N] and [N, directions]
    present, classes = sources >= 0, batch["labels"][:, 1:]
    messages = torch.zeros(*sources.shape, starts[""], device=tokens.device)
    for direction, (_, names) in enumerate(directions):
        for name in names:
            if name not in codes:
                channel = starts[name] + classes[sources[:, direction], place[name]]
                messages[:, direction].scatter_(
                    1, channel[:, None], present[:, direction, None].float()
                )
    found: list[tuple[Tensor, Tensor]] = []

    def decide(here: Tensor, around: Tensor) -> Tensor:
        message = messages[here]
        for direction, (_, names) in enumerate(directions):
            begin = 0
            for name, count in codes.items():
                if name in names:
                    known = around[:, direction, begin : begin + count]
                    message[:, direction, starts[name] : starts[name] + count] = known
                begin += count
        outputs, halt_logits = model.relaxed(tokens[here], message, present[here])
        found.append((outputs, halt_logits))
        logits = model.parts(outputs)
        decided = [(logits[name] / temperature).softmax(dim=-1) for name in codes]
        return torch.cat(decided, dim=-1)

    # Probabilities of each cell; last, a row of 0 for no cell.
    shares = torch.zeros(len(tokens) + 1, sum(codes.values()), device=tokens.device)
    fronts = [torch.from_numpy(here).to(tokens.device) for here in _fronts(model, batch)]
    wavefront(decide, shares, ((here, sources[here]) for here in fronts))
    rank = torch.cat(fronts).argsort()
    outputs, halt_logits = (torch.cat(parts)[rank] for parts in zip(*found, strict=True))
    return outputs, halt_logits
