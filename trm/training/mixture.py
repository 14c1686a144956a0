"""The mixture of training problems: a task's, a few longer ones, and some with narrow carries."""

from dataclasses import dataclass

from canvas.problems import Problems, random_below
from canvas.sampling import sample
from canvas.task import Task
from trm.training.carry_practice import CarryPractice
from trm.training.curriculum import Curriculum
from trm.training.priming import PrimedProblems
from trm.training.random_bits import Purpose, SampleKeys


@dataclass(frozen=True)
class Mixture:
    """Source of the problems of training samples: a task, or parts of it, and what replaces some.

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

    def sample(self, task: Task, keys: SampleKeys, epochs: int | None = None) -> Problems:
        """Return the problems of training samples.

        Args:
            task: the whole task.
            keys: of B samples.
            epochs: of the whole run, for a curriculum with shares of it; None: unknown.
        """
        if self.curriculum:
            task = self.curriculum.at(keys.epoch, epochs)
        chosen = keys
        if self.pool:
            words = keys.words(Purpose.POOL, 1)[:, 0]
            chosen = keys._replace(epoch=0, indices=random_below(words, self.pool))
        problems = sample(task, *chosen)
        if self.primed:
            problems = self.primed.mixed(problems, keys)
        if self.practice:
            problems = self.practice.mixed(task, problems, keys)
        return problems
