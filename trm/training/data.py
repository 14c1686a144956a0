"""Training samples and validation problems as a LightningDataModule; see `trm.training.samples`."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_info
from torch.utils.data import DataLoader, DistributedSampler

from augment.symmetry import lookup
from augment.transforms import BasicTransform, SampleTransform
from canvas.canvas_size import Blanks, Canvas
from canvas.check import check_once
from canvas.problems import Split
from canvas.sampling import sample
from canvas.task import Task
from canvas.tasks import task_data
from trm.runtime.limits import MOST_SAMPLES, MOST_WORKERS, host_memory
from trm.training.carry_practice import CarryPractice
from trm.training.configs import check_range
from trm.training.curriculum import Curriculum, Stage
from trm.training.mixture import Mixture
from trm.training.negatives import NegativesConfig, SamplesWithNegatives
from trm.training.priming import PrimedProblems, Priming
from trm.training.samples import RowStepSamples, Samples, ValidationProblems

_WHOLE = 4  # a validation batch is so many times as large as one of training: no gradients
_LARGE = 10_000  # samples of a batch whose memory is estimated
_MEASURED = 256  # samples made for this estimate
_MOST_CELLS = 1024  # of a canvas for longer problems: larger ones take too long beside training


class EpochSampler(DistributedSampler):
    """Yields the indices of an epoch for one device, each index on one device alone.

    Example: in epoch 2 of size 10 with 4 devices, rank 1 gets 21, 25, 29.

    Lightning sets the epoch of a DistributedSampler and does not replace it by one of its own.
    """

    def __init__(self, dataset: Samples, replicas: int, rank: int) -> None:
        super().__init__(dataset, num_replicas=replicas, rank=rank, shuffle=False)
        self.size = len(dataset)

    def __iter__(self) -> Iterator[int]:
        first = self.epoch * self.size
        return iter(range(first + self.rank, first + self.size, self.num_replicas))

    def __len__(self) -> int:
        return len(range(self.rank, self.size, self.num_replicas))


class EpochLoader(DataLoader):
    """Starts an epoch when its first batch is requested.

    Workers make batches as soon as they exist. In a resumed run Lightning creates them before it
    reads the checkpoint, so that they would start with batches of the first epoch.
    """

    def __iter__(self) -> Any:
        yield from super().__iter__()


def _as_it_is(batch: Any) -> Any:
    return batch


class EpochDataModule(L.LightningDataModule):
    """Base of the data modules: loaders of an epoch's samples, each device with its own share.

    The arguments are those of `CanvasDataModule`.
    """

    stage = ""  # Lightning's: fit, validate, test or predict
    training_problems = 0  # of training, solved beside those of validation
    negatives: NegativesConfig | None = None
    symmetries: list[str]  # in which training shows canvases

    def __init__(
        self,
        batch_size: int,
        batches_per_epoch: int,
        validation_problems: int,
        seed: int,
        workers: int,
    ) -> None:
        super().__init__()
        self.batch_size, self.batches_per_epoch = batch_size, batches_per_epoch
        self.validation_problems, self.seed, self.workers = validation_problems, seed, workers
        check_range("data.batch_size", batch_size, 1, MOST_SAMPLES)
        check_range("data.workers", workers, 0, MOST_WORKERS)
        for name in ("batches_per_epoch", "validation_problems"):
            check_range(f"data.{name}", getattr(self, name), 1)

    def check_for(self, module: Any, epochs: int | None) -> None:
        """Check settings that depend on a `CanvasModule` and on the number of epochs.

        Raises:
            ValueError: the module cannot be trained on this data.
        """

    @property
    def has_negatives(self) -> bool:
        """True if some training samples teach the confidence alone."""
        return self.negatives is not None

    @property
    def transposes(self) -> bool:
        """True if training exchanges rows and columns of a canvas."""
        return any(lookup(name).transpose for name in self.symmetries)

    def _loader(self, data: Any, whole: bool = False) -> DataLoader:
        """Return the loader of a device's share; ``whole`` problems have no gradients."""
        devices, rank = 1, 0
        if self.trainer:
            devices, rank = self.trainer.world_size, self.trainer.global_rank
        if self.batch_size % devices or len(data) < devices:
            raise ValueError(
                f"data.batch_size {self.batch_size} has to be a multiple of the {devices} devices "
                "that share it, and each device needs at least one problem of validation"
            )
        return EpochLoader(
            data,
            batch_size=(_WHOLE if whole else 1) * self.batch_size // devices,
            sampler=EpochSampler(data, devices, rank),
            collate_fn=_as_it_is,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=torch.cuda.is_available(),
        )


class CanvasDataModule(EpochDataModule):
    """Solved problems on canvases.

    Args:
        task: the task, with its layout.
        canvas: size of the canvas in training and validation.
        batch_size: samples of a training step, over all devices.
        batches_per_epoch: steps of one (virtual) epoch, at whose end a checkpoint is written.
        validation_problems: number of problems of the validation and test splits.
        training_problems: number of training problems, the first ones, that each validation
            of a run solves, too. Correct solutions here alone indicate memorisation.
        beyond_problems: number of problems with twice the digits of the longest training problem
            that each validation of a run solves, too. Left out if the training canvas is fixed or
            theirs is too large.
        seed: of all random numbers.
        transforms: albumentations transforms for training samples, applied after masking.
        curriculum: stages of training with a part of the task's problems.
        priming: a few longer problems among the training samples. None: there are none.
        blanks: highest number of blank rows and columns inserted into training samples.
        workers: processes that make samples; 0: the training process makes them.
        negatives: shares of the row steps that teach the confidence alone; of all samples only
            turned and guessed ones are transformed then. None: all are transformed, and learned.
        pool: number of training problems from which all samples are chosen evenly; 0: new problems
            in each batch. A model that is trained on single cells takes them evenly from the
            distinct cells of these problems.
        carry_practice: share of the samples from rows with many narrow carries, see
            `trm.training.carry_practice`.
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
        curriculum: list[Stage] | None = None,
        priming: Priming | None = None,
        blanks: Blanks | None = None,
        negatives: NegativesConfig | None = None,
        workers: int = 0,
        pool: int = 0,
        carry_practice: float = 0.0,
    ) -> None:
        super().__init__(batch_size, batches_per_epoch, validation_problems, seed, workers)
        self.task, self.canvas, self.blanks = task, canvas, blanks or Blanks()
        self.training_problems, self.beyond_problems = training_problems, beyond_problems
        self.negatives, self.pool = negatives, pool
        canvas.check(task, (self.blanks.rows, self.blanks.columns))
        check_once(task)
        self.primed = PrimedProblems(task, priming, seed) if priming else None
        if self.primed:
            canvas.check(self.primed.task, (self.blanks.rows, self.blanks.columns))
        self.practice = CarryPractice(task, carry_practice) if carry_practice else None
        if self.practice and pool:
            raise ValueError(
                "data.carry_practice adds new problems, and data.pool keeps to some: leave one out"
            )
        for name in ("training_problems", "beyond_problems", "pool"):
            check_range(f"data.{name}", getattr(self, name), 0)
        for name in ("rows", "columns"):
            check_range(f"data.blanks.{name}", getattr(self.blanks, name), 0)
        self.transform = SampleTransform(transforms) if transforms else None
        self.symmetries = self.transform.symmetries if self.transform else ["e"]
        oblong = (canvas.cut and not canvas.square) or canvas.height != canvas.width
        if oblong and self.transposes:
            raise ValueError(
                "data.transforms exchange rows and columns: give data.canvas an equal height and "
                "width, or square: true"
            )
        self._check_negatives()
        self.curriculum = Curriculum(task, curriculum or ())

    def _check_negatives(self) -> None:
        """Raise a ValueError unless transforms and negatives fit together."""
        if self.negatives is None:
            return
        if self.negatives.turns and not set(self.symmetries) - {"e"}:
            raise ValueError(
                "data.negatives has a share of turned samples, and nothing turns them: add "
                "albumentations.D4 to data.transforms"
            )
        if self.transform and not self.negatives.turns:
            raise ValueError(
                "with data.negatives, data.transforms are for turned and guessed samples alone, "
                "and there is no share of these: set data.negatives.turned, or leave the "
                "transforms out"
            )

    def check_for(self, module: Any, epochs: int | None) -> None:
        self.curriculum.at(0, epochs)
        there = getattr(getattr(module.model, "config", None), "vocab_size", None)
        if there is not None and there < (needed := self.task.vocab_size):
            raise ValueError(
                f"{self.task.name} {self.task.digits_in_words} has {needed} symbols, and the "
                f"network is built for {there}: set vocab_size={needed} in its config"
            )
        self.training_samples(module, 1, epochs)  # refuses negatives of other modules
        self.check_memory(module, epochs)

    def training_samples(self, module: Any, size: int, epochs: int | None = None) -> Any:
        """Return the data set of training batches.

        Args:
            module: has the data set's class, ``samples_class``, and may have auxiliary losses;
                None: row steps. With negatives `SamplesWithNegatives` takes that class's place.
            size: samples of an epoch, over all devices.
            epochs: of the whole run; None or -1: unknown.

        Raises:
            ValueError: there are negatives, and the module is not trained on row steps.
        """
        kind: Any = getattr(module, "samples_class", RowStepSamples)
        own: dict[str, Any] = {}
        if self.negatives:
            if kind is not RowStepSamples:
                raise ValueError(
                    "data.negatives are for recursive transformers, which are trained on row "
                    "steps: leave them out"
                )
            kind, own["negatives"] = SamplesWithNegatives, self.negatives
        if (auxiliary := getattr(module, "auxiliary_config", None)) is not None:
            own["auxiliary"] = auxiliary
        return kind(
            self.task,
            self.canvas,
            "train",
            self.seed,
            size,
            self.batch_size,
            transform=self.transform,
            mixture=Mixture(self.curriculum, self.primed, self.practice, self.pool),
            epochs=epochs,
            blanks=self.blanks,
            **own,
        )

    def setup(self, stage: str) -> None:
        self.stage = stage
        number, different = self.validation_problems, self.different_validation_problems
        if stage == "fit" and 2 * different < number:
            rank_zero_info(
                f"data.validation_problems: {number} are chosen, but only {different} of them are "
                "different, because no more of these lengths are held out. Their accuracy is "
                "imprecise: allow longer numbers, or use trm evaluate, which counts each problem "
                "once."
            )
        if stage == "fit" and self.beyond_problems and self.longer() is None:
            rank_zero_info(
                "data.beyond_problems: left out, as training's canvas is fixed, or a canvas for "
                "twice the digits would be too large for the model or take too long."
            )

    @property
    def different_validation_problems(self) -> int:
        """Number of different problems among those of the validation."""
        index = np.arange(self.validation_problems)
        problems = sample(self.task, self.seed, "validation", 0, index)
        return len(set(map(tuple, problems.to_ints())))

    def check_memory(self, module: Any, epochs: int | None = None) -> None:
        """Check that making a batch fits in this machine's memory.

        The need is estimated from a small part of a large batch; small batches are not checked.

        Args:
            module: see `training_samples`.
            epochs: see `training_samples`.

        Raises:
            ValueError: a batch needs more.
        """
        memory = host_memory()
        if memory is None or self.batch_size < _LARGE:
            return
        data = self.training_samples(module, self.batch_size, epochs)
        data.__getitems__(range(_MEASURED))  # objects created once do not belong to the batch
        tracemalloc.start()
        try:
            data.__getitems__(range(_MEASURED))
            each = tracemalloc.get_traced_memory()[1] / _MEASURED
        finally:
            tracemalloc.stop()
        machines = getattr(self.trainer, "num_nodes", 1) if self.trainer else 1
        needed = each * self.batch_size / machines * max(1, self.workers)
        if needed > memory:
            raise ValueError(
                f"data.batch_size {self.batch_size:,} takes {needed / 1e9:,.0f} GB to make, "
                f"and this machine has {memory / 1e9:,.0f} GB: take a far smaller one"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the settings that a checkpoint needs to draw and solve problems like these."""
        settings = {
            "task": task_data(self.task),
            "canvas": asdict(self.canvas),
            "seed": self.seed,
            "symmetries": self.symmetries,
        }
        more: dict[str, Any] = {"negatives": asdict(self.negatives)} if self.negatives else {}
        if self.transform and self.transform.shifts:
            more["shifted"] = True
        if self.primed:
            more["primed"] = self.primed.data()
        if self.practice:
            more["carry_practice"] = self.practice.share
        return settings | more

    def train_dataloader(self) -> DataLoader:
        """Return the loader of the samples that the module trains on, such as row steps."""
        module = self.trainer.lightning_module if self.trainer else None
        size = self.batch_size * self.batches_per_epoch
        epochs = getattr(self.trainer, "max_epochs", None)
        return self._loader(self.training_samples(module, size, epochs))

    @property
    def groups(self) -> dict[str, dict[str, Any]]:
        """Groups of problems that a validation solves, by the first part of their metrics' names.

        Groups other than "validation" exist during training alone.
        """
        groups = {"validation": {"split": "validation", "size": self.validation_problems}}
        if self.stage == "fit" and self.training_problems:
            first = self.curriculum.at(0, getattr(self.trainer, "max_epochs", None))
            first_ones = {"size": self.training_problems, "task": first}
            groups["training_problems"] = {"split": "train", **first_ones}
        if self.stage == "fit" and self.beyond_problems and (lengths := self.longer()):
            longer = {"size": self.beyond_problems, "lengths": lengths}
            groups["beyond"] = {"split": "validation", **longer}
        return groups

    def longer(self) -> tuple[int, ...] | None:
        """Return digits of operands beyond training, twice the longest; None: left out."""
        lengths = tuple(2 * n for n in self.task.longest)
        if not self.canvas.cut:
            return None
        height, width = self.canvas.size(*self.task.canvas_layout.room(lengths, self.task.base))
        module = self.trainer.lightning_module if self.trainer else None
        accepts = getattr(getattr(module, "model", None), "accepts", lambda *size: True)
        return lengths if height * width <= _MOST_CELLS and accepts(height, width) else None

    def val_dataloader(self) -> list[DataLoader]:
        return [self._solved(**group) for group in self.groups.values()]

    def test_dataloader(self) -> DataLoader:
        return self._solved("test", self.validation_problems)

    predict_dataloader = test_dataloader

    def _solved(self, split: Split, size: int, task: Task | None = None, **more: Any) -> DataLoader:
        problems = ValidationProblems(
            task or self.task, self.canvas, split, self.seed, size, self.batch_size, **more
        )
        return self._loader(problems, whole=True)
