"""Training samples and validation problems as a LightningDataModule.

A training sample is one row step of one problem, or, for a sequence model, the whole problem.
Which problem, which of its rows, where on the canvas and which augmentation are functions of (seed,
split, epoch, index) alone: the same for any number of workers or devices, and after any resume. A
canvas that is cut to its batch is the one exception: how large it is, and so where a problem lies
on it, depends on the rest of the batch. Batches are drawn as a whole, vectorised.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_info
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from augment.symmetry import recognise
from augment.transforms import BasicTransform, SampleTransform
from canvas.canvas_size import Canvas
from canvas.hints import ORIENTATION, draw_hints, hint_sequences
from canvas.problems import Problems, Split, keys, random_below, random_words
from canvas.render import WorkedDrawing, draw_worked, row_step, sequences
from canvas.sampling import sample
from canvas.task import Task
from canvas.tasks import task_data
from trm.training.beyond import BEYOND, Longer, longer

TrainingBatch = dict[str, Any]

# Purposes of random keys; 0 draws the problem.
_STEP, _PLACE, _TRANSFORM, _MARGIN, _MODEL = range(1, 6)


class _Samples(Dataset):
    """Common to both data sets: an index is epoch · size + i, and a batch is drawn at once.

    ``size`` is that of an epoch and ``batch_size`` that of a batch, both over all devices.
    """

    def __init__(
        self, task: Task, canvas: Canvas, split: Split, seed: int, size: int, batch_size: int
    ) -> None:
        self.task, self.canvas, self.split = task, canvas, split
        self.seed, self.size, self.batch_size = seed, size, batch_size

    def __len__(self) -> int:
        return self.size

    def _draw(self, problems: Problems, size: tuple[int, int], words: np.ndarray) -> WorkedDrawing:
        """Problems on canvases of that size, at places drawn from random words ``[B, 2]``.

        What is placed is the room that the operands' lengths alone call for: the place of the
        operands must not tell how long their product is.
        """
        worked = self.task.rules.work(problems)
        rows, columns = worked.heights, worked.widths
        free = np.stack([size[0] - rows, size[1] - columns], axis=1)
        assert (free >= 0).all(), "the canvas was checked against the task, or cut to fit"
        top, left = random_below(words, free + 1).T
        return draw_worked(worked, *size, top=top, left=left)


class _TrainingSamples(_Samples):
    """Common to what models of both families train on: the same problems at the same places."""

    def __init__(
        self, *args: Any, transform: SampleTransform | None = None, hints: Sequence[str] = ()
    ) -> None:
        super().__init__(*args)
        self.transform, self.hints = transform, tuple(hints)

    def __getitem__(self, index: int) -> TrainingBatch:
        return self.__getitems__([index])

    def _hints(
        self, problems: Problems, drawing: WorkedDrawing, step: np.ndarray | None
    ) -> np.ndarray:
        """The classes of the hints asked for, ``uint8 [B, H, W, hints]``.

        In place of the orientation, which follows from the view, stands each cell's row number; its
        column number comes last.
        """
        drawn = draw_hints(self.task.rules, problems, drawing, step, self.hints)
        if ORIENTATION in self.hints:
            rows, columns = np.indices(drawing.canvases.shape[1:], dtype=np.uint8)
            shape = drawing.canvases.shape
            drawn[ORIENTATION] = np.broadcast_to(rows, shape)
            drawn[""] = np.broadcast_to(columns, shape)
        names = [*self.hints, *(name for name in drawn if not name)]
        return np.stack([drawn[name] for name in names], axis=-1)

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        raise NotImplementedError

    def _drawing(self, indices: Sequence[int]) -> tuple[Problems, WorkedDrawing, int, np.ndarray]:
        epoch, index = indices[0] // self.size, np.asarray(indices) % self.size
        problems = sample(self.task, self.seed, self.split, epoch, index)
        # The spare room belongs to the batch, wherever its samples are drawn.
        batch = keys(self.seed, self.split, epoch, index[:1] // self.batch_size, _MARGIN)
        spare = random_below(random_words(batch, 2), self.canvas.margin + 1)[0]
        rows, columns = (int(room.max()) for room in self.task.rules.sizes(problems))
        size = self.canvas.size(rows, columns, (int(spare[0]), int(spare[1])))
        where = keys(self.seed, self.split, epoch, index, _PLACE)
        return problems, self._draw(problems, size, random_words(where, 2)), epoch, index


class RowStepSamples(_TrainingSamples):
    """Batches of row steps: ``inputs``, ``labels`` uint8 and ``answer`` bool, [B, H, W] each.

    And ``seeds`` int64 [B], of what the model draws for each sample; and of each hint asked for its
    classes, uint8 [B, H, W], under `hint_key`.
    """

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        problems, drawing, epoch, index = self._drawing(indices)
        word = random_words(keys(self.seed, self.split, epoch, index, _STEP), 1)[:, 0]
        steps = row_step(drawing, random_below(word, drawing.steps))
        arrays = [steps.inputs, steps.labels, steps.answer]
        if self.hints:
            arrays.append(self._hints(problems, drawing, steps.step))
        if self.transform is not None:
            seeds = keys(self.seed, self.split, epoch, index, _TRANSFORM) >> np.uint64(33)
            turned = [
                self.transform(inputs, labels, answer, int(seed), *hints)
                for inputs, labels, answer, *hints, seed in zip(*arrays, seeds, strict=True)
            ]
            if any(one[0].shape != arrays[0].shape[1:] for one in turned):
                raise ValueError(
                    "the transforms exchange rows and columns: give data.canvas an equal height "
                    "and width, or square: true"
                )
            arrays = [np.stack(part) for part in zip(*turned, strict=True)]
        arrays.append(keys(self.seed, self.split, epoch, index, _MODEL).view(np.int64))
        if self.hints:
            hints = list(np.moveaxis(arrays.pop(3), -1, 0))
            if ORIENTATION in self.hints:
                which = self.hints.index(ORIENTATION)
                orientation = recognise(hints[which], hints.pop())
                hints[which] = np.broadcast_to(
                    orientation.astype(np.uint8)[:, None, None], hints[which].shape
                )
            arrays += [np.ascontiguousarray(one) for one in hints]
        names = ("inputs", "labels", "answer", "seeds", *map(hint_key, self.hints))
        return {name: torch.from_numpy(a) for name, a in zip(names, arrays, strict=True)}


class SequenceSamples(_TrainingSamples):
    """Batches of whole problems as `canvas.render.sequences`: ``ids`` and ``labels``, int64 [B, S].

    ``height`` and ``width`` are those of the canvas. And of each hint asked for the class of the
    cell that each token's label stands in, uint8 [B, S], under `hint_key`.

    Raises:
        ValueError: there are transforms; a sequence is written in one direction only.
    """

    def __init__(
        self, *args: Any, transform: SampleTransform | None = None, hints: Sequence[str] = ()
    ) -> None:
        if transform is not None:
            raise ValueError(
                "data.transforms turn and flip row steps, but a GPT writes from the lowest digit "
                "up, row below row: remove them (its canvases are shifted without them)"
            )
        super().__init__(*args, hints=hints)

    def __getitems__(self, indices: Sequence[int]) -> TrainingBatch:
        problems, drawing, _, _ = self._drawing(indices)
        ids, labels = (torch.from_numpy(part) for part in sequences(drawing))
        height, width = drawing.canvases.shape[1:]
        batch = {"ids": ids, "labels": labels, "height": height, "width": width}
        if self.hints:
            hints = np.moveaxis(self._hints(problems, drawing, None), -1, 0)
            for name, classes in zip(self.hints, hints, strict=True):
                batch[hint_key(name)] = torch.from_numpy(hint_sequences(classes))
        return batch


def hint_key(name: str) -> str:
    """Under which name a batch has the classes of a hint."""
    return f"hint_{name}"


# What a validation works out, and under which names it is logged; see also `BEYOND`.
VALIDATED = ("validation", "training_problems")

SAMPLES: dict[str, type[_TrainingSamples]] = {
    "row_steps": RowStepSamples,
    "sequences": SequenceSamples,
}


class SolvedProblems(_Samples):
    """Batches of whole problems for validation: the operands and their drawings.

    With ``lengths``, problems of so many digits in each operand, instead of those of training.
    """

    def __init__(self, *args: Any, lengths: tuple[int, ...] | None = None) -> None:
        super().__init__(*args)
        self.lengths = lengths

    def __getitem__(self, index: int) -> tuple[Problems, WorkedDrawing]:
        return self.__getitems__([index])

    def __getitems__(self, indices: Sequence[int]) -> tuple[Problems, WorkedDrawing]:
        # Lightning counts epochs here, too; the same problems each time make scores comparable,
        # and a canvas that all of them fit on makes them independent of the batch size.
        index = np.asarray(indices) % self.size
        problems = sample(self.task, self.seed, self.split, 0, index, self.lengths)
        key = keys(self.seed, self.split, 0, index, _PLACE)
        longest = self.lengths or self.task.longest
        size = self.canvas.size(*self.task.rules.room(longest, self.task.base))
        return problems, self._draw(problems, size, random_words(key, 2))


class EpochSampler(DistributedSampler):
    """Indices epoch · size + rank, + ranks, …: each device its share, no index twice.

    Lightning tells every sampler the epoch. Being a DistributedSampler, it is left alone where
    Lightning would add its own.
    """

    def __init__(self, dataset: _Samples, replicas: int, rank: int) -> None:
        super().__init__(dataset, num_replicas=replicas, rank=rank, shuffle=False)
        self.size = len(dataset)

    def __iter__(self) -> Iterator[int]:
        first = self.epoch * self.size
        return iter(range(first + self.rank, first + self.size, self.num_replicas))

    def __len__(self) -> int:
        return len(range(self.rank, self.size, self.num_replicas))


class _Loader(DataLoader):
    """Begins an epoch when its first batch is asked for.

    Workers begin to draw as soon as they are there. In a run that goes on, Lightning makes them
    before it has read the checkpoint, and they would begin with batches of the first epoch.
    """

    def __iter__(self) -> Any:
        yield from super().__iter__()


def _as_they_are(batch: Any) -> Any:
    return batch


class CanvasDataModule(L.LightningDataModule):
    """Worked problems on canvases.

    Args:
        task: what is worked out, and in which layout.
        canvas: the canvas of training samples and of validation.
        batch_size: samples a step, over all devices.
        batches_per_epoch: steps of one (virtual) epoch; a run resumes at the end of an epoch, with
            the very samples that would have come, so keep it short.
        validation_problems: problems of the validation and test splits, whole solutions each.
        training_problems: problems of the training split, the first that are drawn, worked out
            at each validation of a run: what is right only there is remembered.
        beyond_problems: problems of the validation split with twice the digits of the longest in
            training, in every operand, worked out at each validation of a run. Nothing is chosen by
            them. They are left out where training's canvas is fixed, the model takes no larger one,
            or they would take too long.
        seed: of everything that is drawn.
        transforms: albumentations transforms for training samples, applied after masking.
        workers: processes that draw samples; 0 draws them in the training process.
    """

    def __init__(
        self,
        task: Task,
        canvas: Canvas,
        batch_size: int = 128,
        batches_per_epoch: int = 200,
        validation_problems: int = 256,
        training_problems: int = 0,
        beyond_problems: int = 0,
        seed: int = 0,
        transforms: list[BasicTransform] | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__()
        canvas.check(task)
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("batches_per_epoch", batches_per_epoch, 1),
            ("validation_problems", validation_problems, 1),
            ("training_problems", training_problems, 0),
            ("beyond_problems", beyond_problems, 0),
            ("workers", workers, 0),
        ):
            if value < least:
                raise ValueError(f"data.{name} is {least} or more, not {value}")
        self.task, self.canvas = task, canvas
        self.batch_size, self.batches_per_epoch = batch_size, batches_per_epoch
        self.validation_problems, self.training_problems = validation_problems, training_problems
        self.beyond_problems = beyond_problems
        self.seed, self.workers = seed, workers
        self.stage = ""
        self.transform = SampleTransform(transforms) if transforms else None

    def setup(self, stage: str) -> None:
        """Remember what is to be done: fit, validate, test or predict."""
        self.stage = stage
        if stage == "fit" and self.beyond_problems and self._longer().left_out:
            rank_zero_info(f"data.beyond_problems: left out, as {self._longer().left_out}.")

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint says about the data: enough to draw and solve problems like these."""
        return {
            "task": task_data(self.task),
            "canvas": asdict(self.canvas),
            "seed": self.seed,
            "symmetries": self.transform.symmetries if self.transform else ["e"],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing is carried over: samples follow from seed, epoch and index."""

    def train_dataloader(self) -> DataLoader:
        """What the module that trains asks for, row steps or sequences, a new epoch's each time."""
        size = self.batch_size * self.batches_per_epoch
        module = self.trainer.lightning_module if self.trainer else None
        kind = SAMPLES[getattr(module, "samples", "row_steps")]
        hints = tuple(getattr(module, "hints", ()))
        return self._loader(kind, "train", size, transform=self.transform, hints=hints)

    @property
    def groups(self) -> tuple[str, ...]:
        """What a validation works out, in this order: all but the first one only in a run."""
        validation, training = VALIDATED
        if self.stage != "fit":
            return (validation,)
        beyond = self.beyond_problems and not self._longer().left_out
        asked = {training: self.training_problems, BEYOND: beyond}
        return (validation, *(group for group, number in asked.items() if number))

    def val_dataloader(self) -> list[DataLoader]:
        """Whole problems of each of the `groups`."""
        validation, training = VALIDATED
        loaders = {
            validation: lambda: self._loader(
                SolvedProblems, "validation", self.validation_problems
            ),
            training: lambda: self._loader(SolvedProblems, "train", self.training_problems),
            BEYOND: lambda: self._loader(
                SolvedProblems, "validation", self.beyond_problems, lengths=self._longer().lengths
            ),
        }
        return [loaders[group]() for group in self.groups]

    def _longer(self) -> Longer:
        module = self.trainer.lightning_module if self.trainer else None
        return longer(self.task, self.canvas, getattr(module, "model", None))

    def test_dataloader(self) -> DataLoader:
        """Whole problems of the test split."""
        return self._loader(SolvedProblems, "test", self.validation_problems)

    def predict_dataloader(self) -> DataLoader:
        """Whole problems of the test split."""
        return self.test_dataloader()

    def _loader(self, kind: type[_Samples], split: Split, size: int, **more: Any) -> DataLoader:
        devices, rank = (
            (self.trainer.world_size, self.trainer.global_rank) if self.trainer else (1, 0)
        )
        if self.batch_size % devices or size < devices:
            raise ValueError(
                f"{devices} devices share data.batch_size {self.batch_size}, and take at least one "
                f"of data.validation_problems {self.validation_problems}, of "
                f"data.training_problems {self.training_problems} and of data.beyond_problems "
                f"{self.beyond_problems} each: make the first a multiple of their number and the "
                "others no smaller"
            )
        data = kind(self.task, self.canvas, split, self.seed, size, self.batch_size, **more)
        return _Loader(
            data,
            batch_size=self.batch_size // devices,
            sampler=EpochSampler(data, devices, rank),
            collate_fn=_as_they_are,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=torch.cuda.is_available(),
        )
