"""Puzzles from a folder of arrays as a LightningDataModule; see `trm.io.puzzle_files`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from augment.equivalents import Equivalents, reveal
from augment.symmetry import SYMMETRIES
from augment.views import View, apply_views, possible_shifts
from canvas.choices import check_choice
from canvas.problems import random_below, random_shares
from canvas.sequences import IGNORE
from trm.io.puzzle_files import arrays_hash, read_puzzles
from trm.io.puzzle_format import PuzzleFormat, Puzzles
from trm.training.configs import check_range
from trm.training.data import EpochDataModule
from trm.training.random_bits import SampleKeys


class PuzzlePurpose(IntEnum):
    """Purpose of random numbers of puzzles, see `SampleKeys`."""

    ORDER = 1  # of the groups in a round
    VARIANT = 2  # the puzzle of a group
    VIEW = 3
    MODEL = 4  # the model's own random numbers
    HELD_OUT = 5  # for validation
    EQUIVALENT = 6  # and the cells that are revealed
    OWN = 7  # samples in which the model reveals these


class PuzzleBatch(NamedTuple):
    """Puzzles of a validation, with their solutions."""

    inputs: np.ndarray  # uint8 [B, H, W]
    labels: np.ndarray  # int64 [B, H, W], `IGNORE` where a cell is not scored
    answer: np.ndarray  # bool [B, H, W], cells that are scored


@dataclass(eq=False)
class PuzzleSamples(Dataset):
    """Training samples; an index is epoch · size + i.

    A batch has ``inputs``: uint8 [B, H, W], ``labels``: int64 [B, H, W], `IGNORE` where a cell is
    not learned, ``answer``: bool [B, H, W], the others, and ``seeds``: int64 [B]. With
    ``revealed_own`` it has ``correct``, bool [B], and ``above``, bool [B, H, W], see
    `trm.training.negatives.with_own_rows`: the cells that the model is to reveal.

    One puzzle of each group is shown before a group is shown again.
    """

    puzzles: Puzzles
    groups: np.ndarray  # int64 [G], groups of training
    seed: int
    size: int  # of an epoch, over all devices
    symmetries: Sequence[str] = ("e",)
    shifts: bool = False
    equivalents: Equivalents | None = None
    revealed: float = 0.0  # share of the samples, see `augment.equivalents.reveal`
    revealed_own: float = 0.0  # share of these

    def __len__(self) -> int:
        return self.size

    def __getitems__(self, indices: Sequence[int]) -> dict[str, torch.Tensor]:
        keys = self.keys(indices)
        arrays = self.changed(_with_labels(self.puzzles, self.rows(keys)), keys)
        views = self.views(arrays["inputs"], keys)
        arrays = {name: apply_views(views, part) for name, part in arrays.items()}
        if self.revealed_own:
            arrays["correct"] = np.ones(len(indices), dtype=bool)  # until the model fills cells in
        arrays["seeds"] = keys.of(PuzzlePurpose.MODEL).view(np.int64)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def keys(self, indices: Sequence[int], epoch: int = 0) -> SampleKeys:
        """Return random keys. Those of samples are of epoch 0: their indices count on."""
        return SampleKeys(self.seed, "train", epoch, np.asarray(indices, dtype=np.int64))

    def rows(self, keys: SampleKeys) -> np.ndarray:
        """Return the row of the arrays that each sample shows, int64 [B]."""
        rounds, place = np.divmod(keys.indices, len(self.groups))
        groups = np.empty_like(keys.indices)
        for number in np.unique(rounds).tolist():
            every = self.keys(range(len(self.groups)), number)
            order = np.argsort(every.of(PuzzlePurpose.ORDER))
            mine = rounds == number
            groups[mine] = self.groups[order[place[mine]]]
        first, end = self.puzzles.ends(groups)
        return first + random_below(keys.words(PuzzlePurpose.VARIANT, 1)[:, 0], end - first)

    def changed(self, batch: PuzzleBatch, keys: SampleKeys) -> dict[str, np.ndarray]:
        """Return equivalents of puzzles, with cells revealed and labels of unknown cells alone."""
        key = keys.of(PuzzlePurpose.EQUIVALENT)
        arrays = batch._asdict()
        if self.revealed:
            arrays["inputs"] = reveal(*batch, self.revealed, key)
        learned = batch.answer
        if self.puzzles.format.unknown:
            learned = learned & self.puzzles.format.unknown_cells(arrays["inputs"])
        own = np.zeros_like(learned)
        if self.revealed_own:
            random = random_shares(keys.words(PuzzlePurpose.OWN, 1))
            own = (random < self.revealed_own)[:, :, None] & (arrays["inputs"] != batch.inputs)
            arrays["above"] = own
        arrays |= {"labels": np.where(learned | own, batch.labels, IGNORE), "answer": learned}
        if self.equivalents is None:
            return arrays
        return self.equivalents.apply(arrays, key, self.puzzles.format.characters)

    def views(self, inputs: np.ndarray, keys: SampleKeys) -> list[View]:
        """Return the view of each sample; shifts move padding alone over an edge."""
        words = keys.words(PuzzlePurpose.VIEW, 3)
        which = random_below(words[:, 0], len(self.symmetries)).tolist()
        views = [View(self.symmetries[i]) for i in which]
        if not self.shifts:
            return views
        inside = self.puzzles.format.inside(apply_views(views, inputs))
        up, down, left, right = possible_shifts(inside)
        moved = random_below(words[:, 1], up + down + 1) - up
        across = random_below(words[:, 2], left + right + 1) - left
        parts = zip(views, moved.tolist(), across.tolist(), strict=True)
        return [View(view.symmetry, *shift) for view, *shift in parts]


@dataclass(eq=False)
class ValidationPuzzles(Dataset):
    """Batches of puzzles that a validation or a test solves, in the order of their rows."""

    puzzles: Puzzles
    rows: np.ndarray  # int64 [N]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: Sequence[int]) -> PuzzleBatch:
        return _with_labels(self.puzzles, self.rows[np.asarray(indices) % len(self.rows)])


def _with_labels(puzzles: Puzzles, rows: np.ndarray) -> PuzzleBatch:
    answer = puzzles.answer[rows]
    labels = np.where(answer, puzzles.labels[rows].astype(np.int64), IGNORE)
    return PuzzleBatch(puzzles.inputs[rows], labels, answer)


class PuzzleDataModule(EpochDataModule):
    """Puzzles of a folder of arrays, all of whose cells are filled in at once.

    Some groups of the training puzzles are held out for validation, the same ones for every seed.

    Args:
        folder: with ``train`` and ``test``, as HRM and the published TRM read it, see
            `trm.io.puzzle_files`; `write_puzzles` there writes one.
        batch_size: puzzles of a training step, over all devices.
        batches_per_epoch: steps of one (virtual) epoch, at whose end a checkpoint is written.
        validation_problems: number of groups held out for validation, which has one puzzle of each.
        symmetries: in which training shows puzzles, names like e, r90, h, or all; none: as given.
            The rules of the puzzles have to allow them.
        shifts: whether training moves puzzles that are smaller than the canvas.
        equivalents: of Sudoku, symbols and lines that training exchanges; null: none.
        revealed: share of the training samples in which random cells of the solution are given as
            well, so that easier puzzles are learned beside those of the folder.
        revealed_own: share of these in which the model fills in the revealed cells itself; the
            confidence learns from the incorrect ones.
        height: of the canvas; null: that of the folder, or else it is a square.
        width: as ``height``.
        characters: one for each symbol, in files of text; null: those of the folder.
        unknown: character of the cells to fill in. All others are copied, and not learned; null:
            all cells are filled in.
        seed: of all random numbers.
        workers: processes that make samples; 0: the training process makes them.

    Raises:
        FileNotFoundError: there is no such folder, or a file is missing.
        ValueError: a setting is out of range, or the arrays do not fit together.
    """

    def __init__(
        self,
        folder: str,
        batch_size: int = 128,
        batches_per_epoch: int = 200,
        validation_problems: int = 256,
        symmetries: list[str] | str | None = None,
        shifts: bool = False,
        equivalents: Equivalents | None = None,
        revealed: float = 0.0,
        revealed_own: float = 0.0,
        height: int | None = None,
        width: int | None = None,
        characters: str | None = None,
        unknown: str | None = None,
        seed: int = 0,
        workers: int = 0,
    ) -> None:
        super().__init__(batch_size, batches_per_epoch, validation_problems, seed, workers)
        self.folder, self.shifts = folder, shifts
        names = symmetries or ["e"]
        self.symmetries = [*SYMMETRIES] if names in ("all", ["all"]) else [*names]
        for name in self.symmetries:
            check_choice("data.symmetries: a name", name, SYMMETRIES)
        self._more: dict[str, Any] = {
            "height": height,
            "width": width,
            "characters": characters,
            "unknown": unknown,
        }
        high, wide = self.format.height, self.format.width
        check_range("data.revealed", revealed, 0, 1)
        check_range("data.revealed_own", revealed_own, 0, 1)
        self.equivalents, self.revealed, self.revealed_own = equivalents, revealed, revealed_own
        if revealed_own:
            self._check_revealed_own()
        if equivalents is not None:
            equivalents.check(self.format.characters, high, wide)
        if high != wide and self.transposes:
            raise ValueError(
                f"data.symmetries exchange rows and columns, and the canvas is {high} x {wide}: "
                "leave out r90, r270, t and hvt"
            )
        if shifts and self.format.pad is None:
            raise ValueError(
                "data.shifts: these puzzles have no padding, and fill their canvas: set it to false"
            )
        if len(self.held_out) == len(self.training.groups) - 1:
            raise ValueError(
                f"data.validation_problems {validation_problems} holds out all "
                f"{len(self.held_out)} groups of puzzles: set it lower"
            )

    def _check_revealed_own(self) -> None:
        """Raise a ValueError unless it shows which cells a model has written."""
        if not (self.revealed and self.format.unknown):
            raise ValueError(
                "data.revealed_own is a share of the samples with revealed cells, which a model "
                "tells from those to fill in: set data.revealed and data.unknown, too"
            )
        solved = self.training.labels[self.training.answer]
        if self.format.unknown_cells(solved).any():
            raise ValueError(
                f"data.revealed_own: in these puzzles a solution has the symbol "
                f"{self.format.unknown!r} of the cells to fill in, so that what a model has "
                "written does not show: leave it out"
            )

    @property
    def has_negatives(self) -> bool:
        return self.revealed_own > 0

    @cached_property
    def training(self) -> Puzzles:
        """Puzzles of the folder's training split, those held out among them."""
        return read_puzzles(self.folder, "train", **self._more)

    @cached_property
    def test(self) -> Puzzles:
        """Puzzles of the folder's test split."""
        return read_puzzles(self.folder, "test", **self._more)

    @property
    def format(self) -> PuzzleFormat:
        """Canvas and symbols of the puzzles."""
        return self.training.format

    @cached_property
    def held_out(self) -> np.ndarray:
        """Groups of validation, int64 [G]."""
        every = SampleKeys(0, "validation", 0, np.arange(len(self.training.groups) - 1))
        order = np.argsort(every.of(PuzzlePurpose.HELD_OUT))
        return np.sort(order[: self.validation_problems])

    @cached_property
    def _arrays(self) -> str:
        return arrays_hash(self.folder)

    def state_dict(self) -> dict[str, Any]:
        """Return the settings that a checkpoint needs to read and solve puzzles like these.

        The last ones are facts of training: two for its card, and by ``arrays`` a resumed run knows
        its puzzles.
        """
        equivalents = self.equivalents and asdict(self.equivalents)
        return {
            "puzzles": asdict(self.format),
            "seed": self.seed,
            "symmetries": self.symmetries,
            "shifted": self.shifts,
            "equivalents": equivalents,
            "revealed": self.revealed,
            "revealed_own": self.revealed_own,
            "arrays": self._arrays,
        }

    def train_dataloader(self) -> DataLoader:
        every = np.arange(len(self.training.groups) - 1)
        groups = np.setdiff1d(every, self.held_out)
        size = self.batch_size * self.batches_per_epoch
        shown = self.symmetries, self.shifts, self.equivalents, self.revealed, self.revealed_own
        return self._loader(PuzzleSamples(self.training, groups, self.seed, size, *shown))

    def val_dataloader(self) -> DataLoader:
        first, _ = self.training.ends(self.held_out)
        return self._loader(ValidationPuzzles(self.training, first), whole=True)

    def test_dataloader(self) -> DataLoader:
        return self._loader(ValidationPuzzles(self.test, np.arange(len(self.test))), whole=True)

    predict_dataloader = test_dataloader
