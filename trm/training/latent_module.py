"""Training of a `CellModel` that invents what its cells hand on: it sees pages alone.

Of the fields that its config calls codes nothing is told. A code is learned from the symbols that
other cells write with its help: while it is learned cells hand on shares of all codes, the softmax
of their logits at a temperature that falls, so that a gradient comes back through all cells of a
page (Jang et al. 2017, "Categorical Reparameterization with Gumbel-Softmax", here without noise).
While it falls, the entropy of shares joins the loss. In the end the shares are nearly those of one
code alone, which is what is handed on in solving.

Where there are many codes, the last epochs may merge those that do the same, and train on all
op inputs that pages have shown, with the codes that are left: see `trm.training.state_merging`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor

from canvas.cell_inputs import TOKEN, LocalRule, input_name
from trm.models.cell import CellModel
from trm.models.cell_cache import CellCache
from trm.models.iterative import Batch
from trm.torch_settings import standard_settings
from trm.training.canvas_module import logs_at
from trm.training.cell_module import BaseCellModule
from trm.training.configs import check_range
from trm.training.data import CanvasDataModule
from trm.training.samples import PageSamples
from trm.training.state_merging import PageCells, merged_messages

_DECISIVE = 0.05  # weight of the shares' entropy where the temperature has fallen
_SIGHTS = 4096  # in a batch at most, once codes are merged
_EPOCHS = 40  # of pages show what codes do, so that they show what is rare, too
_OFTEN = 8  # cells that have shown an op input, from which on it is not rare
_PAGES = 512  # that are drawn at once for it
_KEPT = ("tokens", "labels", "sources", "written", "codes")


class LatentModule(BaseCellModule):
    """Trains a `CellModel` on whole pages, of which it is told what stands there.

    Args:
        cooling: when the temperature begins to fall from 1, and when it has fallen, as shares of
            the run.
        coldest: the temperature once it has fallen. At 0.1 shares are as good as decided, and what
            was learned of several codes at once can be lost again.
        merging: from which share of the run on each epoch merges the codes of pages that are drawn
            for it, forty times as many as an epoch has, and trains on their op inputs; 1: none
            does.
        more: see `BaseCellModule`; of a seed are the op inputs of a batch, once codes are merged.
    """

    samples = PageSamples
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
        self.op_inputs: Batch | None = None  # that pages have shown, with merged codes

    def check(self, data: CanvasDataModule) -> None:
        super().check(data)
        if not self.model.config.codes:
            raise ValueError(
                "a LatentModule trains models with codes: name the fields that are not told in "
                "model.network.init_args.config.codes, or take trm.training.CellModule"
            )

    def on_fit_start(self) -> None:
        if self.merging < 1 and self.trainer.world_size > 1:
            raise ValueError("model.merging takes one device: give --trainer.devices 1")

    @property
    def temperature(self) -> float:
        """That of the training step that begins; of a validation, that of the end."""
        if not self.training:
            return self.coldest
        begin, end = self.cooling
        done = self.global_step / self.trainer.estimated_stepping_batches
        return self.coldest ** min(1.0, max(0.0, (done - begin) / (end - begin)))

    def merges(self, epoch: int) -> bool:
        """Whether an epoch trains on merged codes."""
        assert self.trainer.max_epochs is not None
        return epoch > 0 and epoch >= self.merging * self.trainer.max_epochs

    def work(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if "numbers" in batch:
            return super().work(batch)
        return work_relaxed(self.model, batch, self.temperature)

    def entropy_penalty(self, logits: dict[str, Tensor]) -> Tensor | float:
        """The entropy of the shares, while the temperature falls."""
        temperature, codes = self.temperature, self.model.config.codes
        if temperature == 1:
            return 0.0
        logs = [(logits[name] / temperature).log_softmax(dim=-1) for name in codes]
        entropy = sum(-(log.exp() * log).sum(dim=-1).mean() for log in logs)
        return _DECISIVE * math.log(temperature) / math.log(self.coldest) * entropy

    @standard_settings(threads=1)
    def on_train_epoch_start(self) -> None:
        """Merge the codes of pages that are drawn for it."""
        if self.merges(self.current_epoch):
            self.op_inputs = merged_op_inputs(self.rule, self.model, self.more_pages())
            self.log("train/sights", float(len(self.op_inputs["numbers"])))

    def more_pages(self) -> Iterator[Batch]:
        """Pages of the training split, others for each epoch."""
        drawn = self.data.train_dataloader().dataset
        assert isinstance(drawn, PageSamples)
        for epoch in range(self.current_epoch * _EPOCHS, (self.current_epoch + 1) * _EPOCHS):
            pages = range(epoch * drawn.size, (epoch + 1) * drawn.size)
            for first in range(0, drawn.size, _PAGES):
                yield drawn.__getitems__(pages[first : first + _PAGES])

    @standard_settings(threads=1)
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if self.op_inputs is not None:
            random = np.random.default_rng(self.batch_seed(batch_idx))
            number = len(self.op_inputs["numbers"])
            some = torch.from_numpy(random.integers(0, number, min(number, _SIGHTS)))
            few = {name: part[some] for name, part in self.op_inputs.items()}
            batch = move_data_to_device(few, self.device)
        if logs_at(self.trainer, self.global_step + 1):
            self.log("train/temperature", self.temperature)
        return super().training_step(batch, batch_idx)


def _sights(
    mine: LocalRule, tokens: np.ndarray, sources: np.ndarray, said: np.ndarray
) -> np.ndarray:
    """Numbers of what N cells see, int64 [N], as op inputs of `LocalRule.whole`.

    ``said``, int64 [cells + 1, 1 + fields], is 1 and what each cell says, then 0, for no cell.
    """
    seen, by = {TOKEN: tokens}, dict(zip(("", *mine.signals), said.T, strict=True))
    for (direction, names), source in zip(mine.whole.directions.items(), sources.T, strict=True):
        seen |= {input_name(direction, name): by[name][source] for name in ("", *names)}
    return mine.whole.numbers(0, seen)


def _worked_out(mine: LocalRule, known: CellCache, batch: Batch) -> dict[str, np.ndarray]:
    """Cells of `PageSamples`, and what they see, write and hand on, one code at a time.

    ``op_inputs`` and ``written`` int64 [N], ``codes`` [N, codes]. What is told they see as it is.
    """
    cells = {name: part.cpu().numpy() for name, part in batch.items()}
    columns = [1 + list(mine.signals).index(name) for name in mine.codes]
    said = np.pad(cells["labels"], ((0, 1), (0, 0)))
    said[:-1, 0] = 1
    op_inputs, written = np.zeros((2, len(cells["tokens"])), dtype=np.int64)
    front = _fronts(known.model, batch).cpu().numpy()
    order = np.argsort(front, kind="stable")
    for here in np.split(order, np.flatnonzero(np.diff(front[order])) + 1):
        op_inputs[here] = _sights(mine, cells["tokens"][here], cells["sources"][here], said)
        numbers = torch.from_numpy(op_inputs[here]).to(known.tables[0].device)
        decided = known(numbers).classes.cpu().numpy()
        written[here] = decided[:, 0]
        said[here[:, None], columns] = decided[:, columns]
    return cells | {"sights": op_inputs, "written": written, "codes": said[:-1, columns]}


def _telling(mine: LocalRule, model: CellModel, pages: Iterable[Batch]) -> list[np.ndarray]:
    """All cells, of `_KEPT`, of pages with one like which few cells of pages before were.

    Cells are alike if they have the same op input, and are right both or wrong both.
    """
    known, times, begin = CellCache(model), Counter[int](), 0
    kept: list[list[np.ndarray]] = []
    for batch in pages:
        cells = _worked_out(mine, known, batch)
        symbol = cells["labels"][:, 0]
        wrong = (symbol >= 0) & (cells["written"] != symbol)
        alike = np.where(wrong, ~cells["sights"], cells["sights"])
        rare = np.array([times[op_input] < _OFTEN for op_input in alike.tolist()])
        here = np.isin(cells["pages"], cells["pages"][rare])
        times.update(alike[here].tolist())
        number = np.append(begin + np.cumsum(here) - 1, -1)  # last, of no cell
        begin += int(here.sum())
        cells["sources"] = number[cells["sources"]]
        kept.append([cells[name][here] for name in _KEPT])
    return [np.concatenate(parts) for parts in zip(*kept, strict=True)]


@torch.no_grad()
def merged_op_inputs(rule: LocalRule, model: CellModel, pages: Iterable[Batch]) -> Batch:
    """All that cells of `PageSamples` have seen and should say with merged codes, every op input
    once.

    As `trm.training.samples.op_input_batch`; a code's label is −1 where it is not known. The rule
    is of what is told. Pages all of whose op inputs were shown often enough before are left out.
    """
    mine = rule.with_codes(model.config.codes)
    tokens, labels, sources, written, codes = _telling(mine, model, pages)
    symbols, names, directions = labels[:, 0], list(mine.codes), mine.whole.directions
    signals = dict(zip(rule.signals, labels.T[1:], strict=True))
    theirs = [1 + list(rule.signals).index(name) for name in names]

    def op_inputs(codes: np.ndarray) -> np.ndarray:
        """What cells see where these codes are handed on."""
        said = np.pad(labels, ((0, 1), (0, 0)))
        said[:-1, 0], said[:-1, theirs] = 1, codes
        return _sights(mine, tokens, sources, said)

    # Of ways that hand on codes: which one, these codes, and what is told beside them.
    split = (
        (w, [n for n in of if n in names], [n for n in of if n not in names])
        for w, of in enumerate(directions.values())
    )
    places, together, beside = zip(*(one for one in split if one[1]), strict=True)
    said = dict(zip(names, codes.T, strict=True))
    cells = PageCells(
        cell_input=op_inputs(np.zeros_like(codes)),
        messages=np.stack([mine.message_id(of, said) - 1 for of in together], axis=1),
        told=np.stack([mine.message_id(told, signals) for told in beside], axis=1),
        sources=sources[:, places],
        symbol=symbols,
        right=(written == symbols) | (symbols < 0),
    ).suspected()
    messages = merged_messages(cells)
    received = np.take_along_axis(messages, cells.sources, axis=0)
    known = cells.counted() & ((cells.sources < 0) | (received >= 0)).all(axis=1)
    merged = np.full_like(codes, -1)
    for of, message in zip(together, messages.T, strict=True):
        found = mine.message(of, 1 + message)
        for name in of:
            merged[:, names.index(name)] = np.where(message >= 0, found[name], -1)
    seen = op_inputs(np.maximum(merged, 0))
    labels[:, theirs] = np.where(cells.right[:, None], merged, -1)
    unknown = (labels[:, theirs] < 0).sum(axis=1)
    shown, times = np.unique(
        np.column_stack((seen, unknown, labels))[known], axis=0, return_counts=True
    )
    # Of what an op input was followed by, what is known, and what came most often.
    order = np.lexsort((-times, shown[:, 1], shown[:, 0]))
    seen, which = np.unique(shown[order, 0], return_index=True)
    labels = shown[order[which], 2:]
    return {"numbers": torch.from_numpy(seen), "labels": torch.from_numpy(labels)}


def _fronts(model: CellModel, batch: Batch) -> Tensor:
    """When each cell can be worked out, int64 [N]: after all by which it is handed a code."""
    codes, directions = model.config.codes, model.encoding.directions.items()
    down = any(
        name in codes for direction, names in directions if direction != "left" for name in names
    )
    row, column = batch["places"].unbind(1)
    return column + 2 * row if down else column


def work_relaxed(model: CellModel, batch: Batch, temperature: float) -> tuple[Tensor, Tensor]:
    """What the cells of pages say where codes are shares: as `CellModel.cells`.

    Cells of `PageSamples` that no code leads from one to another are worked out together. Of what
    is told they see what is true.
    """
    codes, starts = model.config.codes, model.class_starts
    place = {name: i for i, name in enumerate(model.signals)}
    directions = list(model.encoding.directions.items())
    front = _fronts(model, batch)
    order = torch.argsort(front, stable=True)
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=order.device)
    present = batch["sources"][order] >= 0  # [N, ways]
    sources = torch.where(present, number[batch["sources"][order]], -1)
    classes = batch["labels"][order, 1:]
    messages = torch.zeros(*sources.shape, starts[""], device=order.device)
    for direction, (_, names) in enumerate(directions):
        for name in names:
            if name not in codes:
                told = starts[name] + classes[sources[:, direction], place[name]]
                messages[:, direction].scatter_(
                    1, told[:, None], present[:, direction, None].float()
                )
    shares = torch.zeros(1, sum(codes.values()), device=order.device)  # of no cell, then of each
    found: list[tuple[Tensor, Tensor]] = []
    for cells in torch.arange(len(order)).split(front[order].bincount().tolist()):
        if not len(cells):
            continue
        here = slice(int(cells[0]), int(cells[-1]) + 1)
        message = messages[here].clone()
        for direction, (_, names) in enumerate(directions):
            begin = 0
            for name, count in codes.items():
                if name in names:
                    known = shares[1 + sources[here, direction], begin : begin + count]
                    message[:, direction, starts[name] : starts[name] + count] = known
                begin += count
        outputs, halt_logits = model.relaxed(batch["tokens"][order[here]], message, present[here])
        found.append((outputs, halt_logits))
        logits = model.parts(outputs)
        decided = [(logits[name] / temperature).softmax(dim=-1) for name in codes]
        shares = torch.cat((shares, torch.cat(decided, dim=-1)))
    outputs, halt_logits = (torch.cat(parts)[number] for parts in zip(*found, strict=True))
    return outputs, halt_logits
