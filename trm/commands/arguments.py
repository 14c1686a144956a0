"""Values of a command line, and what they name: models, tasks, sizes and settings of solving.

As in `trm.commands.parser`, frameworks are imported where they are used.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canvas.choices import shortened
from trm.checkpoints import SHIPPED, find_checkpoint, read_task
from trm.commands.output import print_note, results
from trm.commands.parser import options_of
from trm.runtime.precision import NO_UNITS, settle

if TYPE_CHECKING:
    from rich.console import Console

    from canvas.task import Task
    from trm.solving.predictor import Sampling
    from trm.solving.solver import Solver
    from trm.solving.voting import Voting


def check_problems(texts: list[str], checkpoint: str | Path | None = None) -> None:
    """Check typed problems before a framework or a model is loaded.

    Args:
        texts: as typed, like 123x456.
        checkpoint: file of the model, whose task is checked too if it can be read without a
            framework.

    Raises:
        ValueError: there is no such checkpoint, which may be of other problems; or a text is not a
            problem of any task, or not of the checkpoint's task.
    """
    settings = {} if checkpoint is None else read_task(find_checkpoint(checkpoint))
    own = "." in settings.get("task", "")  # its problems may be of any form
    for text in () if own else texts:
        numbers = re.split(r"[^0-9A-Fa-f]", text.replace(" ", ""))  # digits of base 16, too
        if len(numbers) < 2 or not all(numbers):
            raise ValueError(
                f"{shortened(text)} is not a problem; write it like 123x456, or 12+34+5 for a "
                "model that adds"
            )
    if task := _task_of(settings):
        task.parsed(texts)


def _task_of(settings: dict[str, Any]) -> Task | None:
    """Return a task from its settings; None: loading the checkpoint raises a better error."""
    from trm.checkpoints.loading import restored_task

    try:
        return restored_task(settings)
    except (KeyError, TypeError, ValueError):
        return None


class Arguments(argparse.Namespace):
    """Values of a command line, and values derived from them."""

    defaults: dict[str, Any]  # of all options, see `Parser.parse_known_args`

    @property
    def info(self) -> Console:
        """Console for output beside results, such as file names; `--quiet` silences it."""
        console = results()
        console.quiet = self.quiet
        return console

    def refuse(self, why: str, *names: str) -> None:
        """Raise a ValueError for options without effect that differ from their defaults."""
        given = [name for name in names if getattr(self, name) != self.defaults[name]]
        if given:
            raise ValueError(f"{why}: leave out {options_of(given, ', ')}")

    @property
    def checkpoints(self) -> list[str | Path]:
        """Checkpoints of `Parser.add_checkpoint`, at least one."""
        several = isinstance(self.checkpoint, list)
        return self.checkpoint or [SHIPPED] if several else [self.checkpoint]

    def find_checkpoints(self, *paths: str | Path) -> None:
        """Find checkpoints, and print the file of each folder or name.

        Raises:
            FileNotFoundError, ValueError: see `trm.checkpoints.find_checkpoint`.
        """
        for path in paths:
            file = find_checkpoint(path)
            if file != Path(path) and not self.quiet:
                print_note(f"checkpoint: {file}")

    def find_all(self) -> list[str | Path]:
        """Find the checkpoints and check the devices of the arguments; return the former.

        Raises:
            FileNotFoundError, ValueError: there is no such checkpoint or device.
        """
        self.find_checkpoints(*self.checkpoints)

        from trm.runtime.devices import check_devices

        check_devices(getattr(self, "accelerator", "cpu"), getattr(self, "devices", 1))
        return self.checkpoints

    def one_device(self) -> str:
        """Return the one device of `Parser.add_devices`: cpu, gpu, or like cuda:1.

        Raises:
            ValueError: several devices were named.
        """
        indices = self.devices if isinstance(self.devices, list) else None
        if (len(indices) if indices else self.devices) != 1:
            raise ValueError(
                "problems are solved one after the other on one device: use --devices 1"
            )
        return f"{self.accelerator}:{indices[0]}" if indices else self.accelerator

    def settled_precision(self) -> str:
        """Return the requested precision; float32, with a note, where bfloat16 is emulated."""
        precision: str = settle(self.precision, self.accelerator)
        if precision != self.precision:
            print_note(f"note: {NO_UNITS}")
        return precision

    def voting(self) -> Voting | None:
        """Return the voting of the options; None: one view.

        Raises:
            ValueError: the options of views do not fit together.
        """
        from trm.solving.voting import Voting

        if not hasattr(self, "views"):
            return None
        usual = ("majority", "row") if self.view is None else ("max_confidence", "solution")
        vote, per = self.vote or usual[0], self.vote_per or usual[1]
        names = ("views", "symmetries", "orders", "rollouts", "noise")
        asked = {name: getattr(self, name) for name in names}
        voting = Voting(vote=vote, per=per, orientation=self.view, **asked)
        if voting.solutions > 1 or self.view is not None:
            return voting
        alone = "one view does not vote, so add views by --views"
        self.refuse(alone, "symmetries", "vote", "vote_per")
        return None

    def sampling(self) -> Sampling | None:
        """Return the sampling of the options; None: the likeliest symbols.

        Raises:
            ValueError: a value is out of its range, or has no effect without a temperature.
        """
        if getattr(self, "temperature", None) is None:
            if hasattr(self, "temperature"):
                alone = "only with --temperature symbols are drawn, so add it"
                self.refuse(alone, "top_k", "sampling_seed")
            return None
        from trm.solving.predictor import Sampling

        return Sampling(self.temperature, self.top_k, self.sampling_seed)

    def note_views(self, share: float, where: str = "") -> None:
        """Print a note if problems got a smaller share than 1 of the requested views."""
        requested = getattr(self, "views", 1)
        if share < 1 and not self.quiet and self.view is None:
            print_note(
                f"note: {share * requested:g} views instead of the requested {requested}{where}: "
                "the canvas has no room for more shifts that the model can tell apart. For more "
                "views, name more --symmetries, or solve on a larger canvas (`trm solve` has "
                "--height and --width)"
            )

    def solvers(self, device: str, steps: int | None = None) -> list[Solver]:
        """Load the models that the arguments name, ready to solve on a device.

        They use ``steps`` supervision steps, and the canvas and the views of the arguments.

        Raises:
            FileNotFoundError, ValueError: see `trm.checkpoints.loading.load_solver`.
            ValueError: a model cannot start from a random state.
        """
        voting, sampling, checkpoints = self.voting(), self.sampling(), self.find_all()

        from trm.checkpoints.loading import load_solver

        size = getattr(self, "height", None), getattr(self, "width", None)
        solvers = [load_solver(path, steps, *size, device, voting) for path in checkpoints]
        noise = getattr(self, "start", "initial") == "noise"
        solvers = [solver.from_noise() if noise else solver for solver in solvers]
        return [solver.sampled(sampling) if sampling else solver for solver in solvers]

    def described_task(self, what: str) -> Task:
        """Return the task of the options of `Parser.add_task`, with the sizes of training.

        ``what`` names the option that needs the task.

        Raises:
            ValueError: the layout or a size is missing, or they do not fit together.
        """
        from canvas.tasks import TASKS, task_class
        from trm.evaluation.grid_format import AXES

        if self.layout is None:
            raise ValueError(f"{what} needs the layout of the worked solutions: name --layout")
        names = [name for name, kind in TASKS.items() if self.layout in kind.layouts]
        kind: Any = task_class(self.task or (names or ["multiplication"])[0])
        named = {"layout": self.layout}
        if any(part.name == "base" for part in fields(kind)):
            named["base"] = self.base
        kind(**named)  # raises if there is no such layout
        axes = [part.name for part in fields(kind) if part.name in AXES]
        given = self._given_sizes
        if sorted(given) != sorted(axes):
            raise ValueError(
                f"{what} needs the sizes of the problems in training: name {options_of(axes)} and "
                "no other sizes, as ranges like 1..5"
            )
        for axis, numbers in given.items():
            low, high = numbers[0], numbers[-1]
            if numbers != list(range(low, high + 1)):
                option = options_of([axis])
                raise ValueError(
                    f"{option} is a range of sizes here, without gaps: write {option} {low}..{high}"
                )
        task: Task = kind(**named, **{axis: (n[0], n[-1]) for axis, n in given.items()})
        return task

    @property
    def _given_sizes(self) -> dict[str, list[int]]:
        """Sorted sizes of `Parser.add_sizes` that are given, by measure."""
        from trm.evaluation.grid_format import AXES

        return {axis: n for axis in AXES if (n := getattr(self, axis)) is not None}

    def check_sizes(self) -> None:
        """Check the measures of `sizes` by the first checkpoint, before a framework is loaded.

        Raises:
            ValueError: its task has other measures.
        """
        if task := _task_of(read_task(self.checkpoints[0])):
            self.sizes(task, lambda low, high: [low, high])

    def sizes(self, task: Task, usual: Callable[[int, int], Iterable[int]]) -> dict[str, list[int]]:
        """Return the sizes of problems by two measures of the task, such as digits and addends.

        A measure that is not given gets ``usual(smallest, largest)`` of training.

        Raises:
            ValueError: the given measures are not two of one task.
        """
        given = self._given_sizes
        axes = next((axes for axes in task.grids if set(given) <= set(axes)), None)
        if axes is None:
            known = "; ".join(map(options_of, task.grids))
            raise ValueError(f"{task.name.capitalize()} uses {known}, not {options_of(given)}")
        found = {axis: given.get(axis) or [*usual(*task.ranges.get(axis, (1, 3)))] for axis in axes}
        if "texts" in axes and "texts" not in given:
            found["texts"] = [task.arity[0]]
        return found
