"""The mixture of training problems: a task's, a few longer ones, and some with narrow carries."""

from dataclasses import dataclass

import numpy as np

from canvas.problems import Problems, Split, keys, random_below, random_words
from canvas.sampling import sample
from canvas.task import Task
from trm.training.carry_practice import CarryPractice
from trm.training.curriculum import Curriculum
from trm.training.priming import PrimedProblems
from trm.training.random_bits import Purpose


@dataclass(frozen=True)
class Mixture:
    """Problems of training samples.

    Attributes:
        curriculum: the part of the task for each epoch; None: the whole task.
        primed: a set of longer problems, which replace a share of the others.
        practice: replaces a share by problems with many narrow carries.
        pool: number of problems, the first ones without a pool, from which all are chosen evenly;
            0: new problems in each batch.
    """

    curriculum: Curriculum | None = None
    primed: PrimedProblems | None = None
    practice: CarryPractice | None = None
    pool: int = 0

    def sample(
        self,
        task: Task,
        seed: int,
        split: Split,
        epoch: int,
        index: np.ndarray,
        epochs: int | None = None,
    ) -> Problems:
        """Draw the problems of training samples, as `canvas.sampling.sample` does.

        Args:
            task: the whole task.
            seed: of the samples.
            split: that the problems belong to.
            epoch: of the samples.
            index: of each sample, int64 [B].
            epochs: of the whole run, for a curriculum with shares of it; None: unknown.
        """
        if self.curriculum:
            task = self.curriculum.at(epoch, epochs)

        def words(purpose: Purpose) -> np.ndarray:
            return random_words(keys(seed, split, epoch, index, purpose), 2)

        place = epoch, index
        if self.pool:
            place = 0, random_below(words(Purpose.POOL)[:, 0], self.pool)
        problems = sample(task, seed, split, *place)
        if self.primed:
            problems = self.primed.mixed(problems, words(Purpose.PRIMED))
        if self.practice:
            problems = self.practice.mixed(task, problems, epoch, index, words(Purpose.PRACTICE))
        return problems
