"""Arguments that several commands share, and how they are read.

A wrong call is answered at once: modules of commands import at their top what reading arguments
needs and nothing else, no framework above all, and the rest where it is used.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from canvas.choices import did_you_mean, shortened
from trm.checkpoints import SHIPPED, find_checkpoint, read_task
from trm.limits import MOST_STEPS
from trm.precision import FLOAT32, NO_UNITS, PRECISIONS, settle

if TYPE_CHECKING:
    from rich.console import Console

    from canvas.task import Task
    from trm.solving.solver import Solver
    from trm.solving.voting_settings import Voting

MOST_LENGTHS = 1000  # in a range
VERBOSE = ("-v", "--verbose")


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """A reader of whole numbers from ``least`` up, perhaps to ``most``, for argparse."""

    def read(text: str) -> int:
        with suppress(ValueError):
            if least <= (value := int(text)) <= most:
                return value
        end = "up" if most == math.inf else f"to {most:,}"
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is not a whole number from {least} {end}"
        )

    return read


def lengths(text: str) -> list[int]:
    """The whole numbers that ``3``, ``1..10``, ``1-10`` or ``1..4,8`` stand for, in order."""
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"([1-9]\d{0,99})(?:(?:\.\.|-)([1-9]\d{0,99}))?", part)
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not low <= high < low + MOST_LENGTHS:
            raise argparse.ArgumentTypeError(
                f"{shortened(part)} is no range of at most {MOST_LENGTHS:,} lengths; write it like "
                "1..10, or 1..4,8"
            )
        numbers.update(range(low, high + 1))
    return sorted(numbers)


def step_numbers(text: str) -> list[int]:
    """The supervision steps that a text like ``1..4,8`` stands for, as `lengths`."""
    numbers = lengths(text)
    if numbers[-1] > MOST_STEPS:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: a row takes at most {MOST_STEPS:,} supervision steps"
        )
    return numbers


def check_problems(texts: list[str], checkpoint: str | Path | None = None) -> None:
    """Check problems that people typed before a framework or a model is loaded.

    Args:
        texts: as typed, like 123x456.
        checkpoint: a file whose task they belong to, if it is known without a framework.

    ValueError: a text is no problem of any task, or not of the checkpoint's.
    """
    for text in texts:
        numbers = re.split(r"[^0-9A-Fa-f]", text.replace(" ", ""))  # digits of base 16, too
        if len(numbers) < 2 or not all(numbers):
            raise ValueError(
                f"{shortened(text)} is no problem; write it like 123x456, or 12+34+5 for a model "
                "that adds"
            )
    if checkpoint is not None and (task := _task_of(checkpoint)):
        task.parsed(texts)


def _task_of(checkpoint: str | Path) -> Task | None:
    """The task of a file of weights; None: loading the file will say more."""
    from canvas.tasks import TASKS

    settings = read_task(checkpoint)
    name = settings.pop("task", None)
    settings.pop("repeats", None)  # of older files
    try:
        kind = TASKS[name]
        return kind(**settings) if settings["layout"] in kind.layouts else None
    except (KeyError, TypeError, ValueError):
        return None


def results() -> Console:
    """A console for results, in the colours that they have themselves."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, markup=False)


def print_table(
    columns: Iterable[str],
    rows: Sequence[Sequence[str]],
    title: str | None = None,
    wrap: bool = False,
) -> None:
    """Results as a table."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False)
    table.padding = (0, 1, 0, 0)
    for column in columns:
        table.add_column(column, no_wrap=not wrap)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


def _tell(text: str) -> None:
    """Say something beside results, once: of several processes the first does."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(text, file=sys.stderr)


def _devices(text: str) -> int | list[int]:
    parts = text.removesuffix(",").split(",")
    if not all(re.fullmatch(r"\d{1,4}", part) for part in parts) or not text.strip("0"):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is no number of devices, nor a list of their indices like 0,2"
        )
    return [int(part) for part in parts] if "," in text else int(text)


def _symmetries(text: str) -> tuple[str, ...] | None:
    """Names of symmetries; None: those of training."""
    from augment.symmetry import SYMMETRIES

    if text == "trained":
        return None
    return tuple(SYMMETRIES) if text == "all" else tuple(dict.fromkeys(text.split(",")))


class Parser(argparse.ArgumentParser):
    """Has options that several commands share; asks whether the nearest word was meant.

    Options are written in full: --view is no --views.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False} | more)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit with code 2."""
        options = [option for action in self._actions for option in action.option_strings]
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            near = did_you_mean(wrong[1], wrong[2].replace("'", "").split(", "))
            message += "." + (" Did you mean fit?" if wrong[1] == "train" else near)
        elif wrong := re.search(r"unrecognized arguments: (--[\w-]+)", message):
            message += "." + did_you_mean(wrong[1], options)
        elif wrong := re.search(r"unrecognized arguments: (-\d\S*)", message):
            message = f"{wrong[1]} begins with a minus sign; numbers have none"
        self.exit(2, f"{self.prog}: {message}\n`{self.prog} --help` tells more\n")

    def add_verbosity(self, default: Any = False) -> None:
        """``--quiet`` and ``--verbose``; of a sub-parser, the default is `argparse.SUPPRESS`."""
        flag: dict[str, Any] = {"action": "store_true", "default": default}
        self.add_argument("-q", "--quiet", help="results and errors alone", **flag)
        self.add_argument(*VERBOSE, help="also what goes on, and where an error arose", **flag)

    def add_import(self) -> None:
        """``--import``: code of the user's own that a checkpoint, or another argument, names."""
        what = "a module with your own classes, which a checkpoint names; repeatable"
        more: dict[str, Any] = {"dest": "imports", "action": "append", "default": []}
        self.add_argument("--import", metavar="MODULE", help=what, **more)

    def add_checkpoint(self, several: bool = False, required: bool = False) -> None:
        """``--checkpoint``, by default the shipped model, and the user's own code that one names.

        Of ``several`` it is a list, by default empty.
        """
        what = "a checkpoint, a run's folder: its best one, or a name that `trm models` lists"
        more: dict[str, Any] = {"required": True} if required else {"default": SHIPPED}
        if several:
            more = {"nargs": "+", "action": "extend", "default": []}
        what += "" if required else " (default: the shipped model)"
        self.add_argument("--checkpoint", metavar="PATH", help=what, **more)
        self.add_import()

    def add_devices(self) -> None:
        """``--accelerator`` and ``--devices``, as Lightning's trainer takes them."""
        what = "auto (default), cpu, gpu, cuda, mps, …"
        self.add_argument("--accelerator", default="auto", help=what)
        what = "how many, or which ones: 2 takes two, 0,2 two by index, 1, one by index"
        self.add_argument(
            "--devices", type=_devices, default=1, metavar="N", help=f"{what} (default: 1)"
        )

    def add_solver(self, several: bool = False) -> None:
        """The arguments of a model that solves problems, or of several."""
        from canvas.problems import MOST_CELLS

        self.add_checkpoint(several)
        what = "supervision steps a row gets at most, or loops of a GPT (default: the checkpoint's)"
        self.add_argument("--steps", type=whole(1, MOST_STEPS), help=what)
        for side in () if several else ("--height", "--width"):
            what = "as in training, or the problem's where that was cut"
            what = f"cells of the canvas (default: {what})"
            self.add_argument(side, type=whole(1, MOST_CELLS), help=what)
        self.add_devices()

    def add_sizes(self, about: str = "", group: Any = None) -> None:
        """An option for each measure of problems' sizes, which `Arguments.sizes` reads."""
        from trm.evaluation.grid import AXES

        add = (group or self).add_argument
        for axis, meaning in AXES.items():
            option = f"--{axis.replace('_', '-')}"
            add(option, type=lengths, metavar="N", help=f"{meaning}{about}")

    def add_solving(self) -> None:
        """Add the options of solving, which `Arguments` reads as precision and voting."""
        from augment.symmetry import SYMMETRIES
        from trm.solving.voting_settings import PER, VOTES

        what = "bf16-mixed is quicker where there are bfloat16 units (default: 32-true, float32)"
        self.add_argument("--precision", choices=PRECISIONS, default=FLOAT32, help=what)
        self.add_argument("--nodes", type=whole(1), default=1, help="machines (default: 1)")
        add = self.add_argument_group(
            "many views", "look at each problem in several views, and let the answers vote"
        ).add_argument
        what = "different views of a problem at most, the problem as it is among them (default: 1)"
        add("--views", type=whole(1), default=1, metavar="N", help=what)
        known = f"{', '.join(SYMMETRIES)}; or all; or trained, those of training (default)"
        what = f"of the views, like e,h: {known}"
        add("--symmetries", type=_symmetries, metavar="NAMES", help=what)
        votes = "; ".join(f"{name}: {rule.meaning}" for name, rule in VOTES.items())
        add("--vote", choices=VOTES, default="majority", help=f"{votes} (default: majority)")
        what = "vote on each row, which all views then go on from, or on the solutions of views"
        add("--vote-per", choices=PER, default="row", help=f"{what} that work alone (default: row)")
        what = "2: each problem with its operands the other way round, too (default: 1)"
        add("--orders", type=int, choices=(1, 2), default=1, help=what)
        what = "of a recursive model: how often each view is worked on, all but the first time with"
        add("--rollouts", type=whole(1), default=1, metavar="N", help=f"{what} noise (default: 1)")
        what = "standard deviation of that noise on z_H, before each supervision step"
        add("--noise", type=float, default=0.0, metavar="SIGMA", help=what)


class Arguments(argparse.Namespace):
    """Values of a command line, and what follows from them."""

    @property
    def info(self) -> Console:
        """A console for what is printed beside results, as file names; `--quiet` silences it."""
        console = results()
        console.quiet = self.quiet
        return console

    def refuse(self, why: str, **usual: Any) -> None:
        """Raise a ValueError for options that would do nothing: those without their usual value."""
        given = [name for name, value in usual.items() if getattr(self, name) != value]
        if given:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise ValueError(f"{why}: leave out {options}")

    @property
    def checkpoints(self) -> list[str | Path]:
        """Checkpoints of `Parser.add_checkpoint`, at least one."""
        several = isinstance(self.checkpoint, list)
        return self.checkpoint or [SHIPPED] if several else [self.checkpoint]

    def find_checkpoints(self, *paths: str | Path) -> None:
        """Look for checkpoints, and say which file a folder, or a name, leads to.

        FileNotFoundError, ValueError: see `trm.checkpoints.find_checkpoint`.
        """
        for path in paths:
            file = find_checkpoint(path)
            if file != Path(path) and not self.quiet:
                _tell(f"checkpoint: {file}")

    def one_device(self) -> str:
        """The one device that `Parser.add_devices` named: cpu, gpu, or like cuda:1.

        ValueError: several were named.
        """
        indices = self.devices if isinstance(self.devices, list) else None
        if (len(indices) if indices else self.devices) != 1:
            raise ValueError(
                "one problem after the other is worked out on one device: take --devices 1"
            )
        return f"{self.accelerator}:{indices[0]}" if indices else self.accelerator

    def settled_precision(self) -> str:
        """Precision that was asked for; float32, with a note, where bfloat16 is emulated."""
        precision: str = settle(self.precision, self.accelerator)
        if precision != self.precision:
            _tell(f"note: {NO_UNITS}")
        return precision

    def voting(self) -> Voting | None:
        """Voting that the options ask for; None: one view. ValueError: views that cannot be."""
        from trm.solving.voting_settings import Voting

        if not hasattr(self, "views"):
            return None
        names = ("views", "symmetries", "vote", "orders", "rollouts", "noise")
        voting = Voting(per=self.vote_per, **{name: getattr(self, name) for name in names})
        if voting.samples > 1:
            return voting
        alone = "one view does not vote, so ask for more by --views"
        self.refuse(alone, symmetries=None, vote="majority", vote_per="row")
        return None

    def note_views(self, share: float, where: str = "") -> None:
        """Print a note if problems have a smaller share than 1 of the views asked for."""
        asked = getattr(self, "views", 1)
        if share < 1 and not self.quiet:
            _tell(
                f"note: {share * asked:g} views instead of the {asked} asked for{where}: the "
                "canvas has no room for more shifts. For more views, name more --symmetries, or "
                "solve on a larger canvas (`trm solve` has --height and --width)"
            )

    def solvers(self, device: str, steps: int | None = None) -> list[Solver]:
        """The models that the arguments name, on a device, as they are to solve.

        In so many supervision steps, on the canvas and in the views that were asked for. Raises
        what `trm.checkpoints.loading.load_solver` does, and ValueError where no model takes steps.
        """
        voting, checkpoints = self.voting(), self.checkpoints
        self.find_checkpoints(*checkpoints)

        from trm.checkpoints.loading import load_solver

        size = getattr(self, "height", None), getattr(self, "width", None)
        solvers = [load_solver(path, steps, *size, device, voting) for path in checkpoints]
        if all(solver.predictor.cell_by_cell for solver in solvers) and steps is not None:
            self.refuse("this model works out each cell once, in no supervision steps", steps=None)
        return solvers

    def sizes(self, task: Task, usual: Callable[[int, int], Iterable[int]]) -> dict[str, list[int]]:
        """Which sizes of problems are meant, by two measures of the task.

        Of a measure that a command line does not give, the usual ones, which follow from the
        smallest and the largest of training. ValueError: it gives others than two that belong
        together.
        """
        from trm.evaluation.grid import AXES

        def options(axes: Iterable[str]) -> str:
            return " and ".join(f"--{axis.replace('_', '-')}" for axis in axes)

        given = {axis: n for axis in AXES if (n := getattr(self, axis)) is not None}
        axes = next((axes for axes in task.grids if set(given) <= set(axes)), None)
        if axes is None:
            known = "; ".join(map(options, task.grids))
            raise ValueError(f"{task.name.capitalize()} uses {known}, not {options(given)}")
        return {axis: given.get(axis) or [*usual(*task.ranges.get(axis, (1, 3)))] for axis in axes}
