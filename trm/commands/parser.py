"""Parser of command lines: the options that several commands share, and the types of their values.

A wrong call fails at once: a command's module imports at its top only the modules that parsing
needs, above all no framework. It imports the rest where it is used.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NoReturn

from canvas.choices import did_you_mean, shortened
from trm.checkpoints import SHIPPED
from trm.runtime.limits import MOST_STEPS
from trm.runtime.precision import FLOAT32, PRECISIONS

MOST_LENGTHS = 1000  # in a range
VERBOSE = ("-v", "--verbose")


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Return an argparse type: a whole number from ``least`` to ``most``."""

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
    """Return the sorted numbers of a text: ``1..4,8`` (or ``1-4,8``) → ``[1, 2, 3, 4, 8]``."""
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"([1-9]\d{0,99})(?:(?:\.\.|-)([1-9]\d{0,99}))?", part)
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not low <= high < low + MOST_LENGTHS:
            raise argparse.ArgumentTypeError(
                f"{shortened(part)} is not a range of lengths: from 1 up, the lower one first, at "
                f"most {MOST_LENGTHS:,}. Write it like 1..10, or 1..4,8"
            )
        numbers.update(range(low, high + 1))
    return sorted(numbers)


def step_numbers(text: str) -> list[int]:
    """Return the supervision steps of a text like ``1..4,8``, see `lengths`."""
    numbers = lengths(text)
    if numbers[-1] > MOST_STEPS:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: a row takes at most {MOST_STEPS:,} supervision steps"
        )
    return numbers


def options_of(names: Iterable[str], between: str = " and ") -> str:
    """Return the options of some values: ``digits_a``, ``base`` → ``--digits-a and --base``."""
    return between.join(f"--{name.replace('_', '-')}" for name in names)


def _devices(text: str) -> int | list[int]:
    parts = text.removesuffix(",").split(",")
    if not all(re.fullmatch(r"\d{1,4}", part) for part in parts) or not text.strip("0"):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is neither a number of devices nor a list of indices like 0,2"
        )
    return [int(part) for part in parts] if "," in text else int(text)


def _symmetries(text: str) -> tuple[str, ...] | None:
    """Return names of symmetries; None: those of training."""
    from augment.symmetry import SYMMETRIES

    if text == "trained":
        return None
    names = tuple(SYMMETRIES) if text == "all" else tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in SYMMETRIES:
            raise argparse.ArgumentTypeError(
                f"{shortened(name)} is none of {', '.join(SYMMETRIES)}. Write them like e,h"
            )
    return names


def _commands_with(option: str) -> list[str]:
    """Return the commands that have an option."""
    from trm.commands.cli import COMMANDS, parser_of

    return [f"trm {name}" for name in COMMANDS if option in parser_of(name)._options()]


class Parser(argparse.ArgumentParser):
    """Parser with options that several commands share; errors suggest the nearest word.

    Options have to be written in full: --view does not stand for --views.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False} | more)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; without any, a parser of several commands prints its help and exits."""
        if args is not None and not args and self._subparsers:
            self.print_help()
            self.exit(0)
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(self._about_unknown(unknown))
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; note the defaults of all options, also of a parser of one action."""
        found, unknown = super().parse_known_args(args, namespace)
        own = {action.dest: action.default for action in self._actions}
        found.defaults = own | getattr(found, "defaults", {})
        return found, unknown

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return a value; refuse an empty one, which as a path would be the working folder."""
        if action.option_strings and not arg_string:
            raise argparse.ArgumentError(action, "its value is empty: give one")
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Require one of an option's choices; the error suggests the nearest."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if isinstance(value, str):
                near = did_you_mean(value, [*map(str, action.choices or ())])
                error.message += "." + (" Did you mean fit?" if value == "train" else near)
            raise

    def _about_unknown(self, unknown: list[str]) -> str:
        """Return the error of arguments that no option takes; it suggests the nearest option."""
        if number := re.match(r"-\d\S*", unknown[0]):
            return f"{number[0]} begins with a minus sign; numbers have none"
        message = f"unrecognized arguments: {' '.join(unknown)}"
        if not (wrong := re.match(r"--[\w-]+", unknown[0])):
            return message
        if elsewhere := _commands_with(wrong[0]):
            return f"{message}. It is an option of {', '.join(elsewhere)}"
        options = self._options()
        near = did_you_mean(wrong[0], options, 0.7)
        if any(wrong[0].startswith(option) for option in options):
            # Nobody adds a letter to a whole option: --viewz is --views, and not --view.
            equal = [option for option in options if len(option) == len(wrong[0])]
            near = did_you_mean(wrong[0], equal, 0.8) or near
        return f"{message}.{near}"

    def error(self, message: str) -> NoReturn:
        """Print the error, with the choices of missing arguments, and exit with code 2."""
        if wrong := re.search(r"arguments are required: (.*)", message):
            missing = wrong[1].split(", ")
            for action in self._actions:
                name = "/".join(action.option_strings) or action.metavar or action.dest
                if name in missing and action.choices:
                    message += f". {name} is one of {', '.join(map(str, action.choices))}"
                if name in missing and name == "problem":
                    message += ". Write it like 123x456; numbers have no minus sign"
        self.exit(2, f"{self.prog}: {message}\nFor help: `{self.prog} --help`\n")

    def _options(self) -> list[str]:
        """Return the options of the parser and of all its actions."""
        actions = list(self._actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                actions += [one for parser in action.choices.values() for one in parser._actions]
        return [option for action in actions for option in action.option_strings]

    def add_verbosity(self, default: Any = False) -> None:
        """Add ``--quiet`` and ``--verbose``; a sub-parser passes `argparse.SUPPRESS`."""
        flag: dict[str, Any] = {"action": "store_true", "default": default}
        self.add_argument("-q", "--quiet", help="print results and errors only", **flag)
        self.add_argument(*VERBOSE, help="print the log, and tracebacks of errors", **flag)

    def add_import(self) -> None:
        """Add ``--import``: a user's own code, named by a checkpoint or another argument."""
        what = "a module with your own classes that a checkpoint names; repeatable"
        more: dict[str, Any] = {"dest": "imports", "action": "append", "default": []}
        self.add_argument("--import", metavar="MODULE", help=what, **more)

    def add_checkpoint(self, several: bool = False, required: bool = False) -> None:
        """Add ``--checkpoint``, by default the shipped model, and ``--import``.

        With ``several`` its value is a list, by default empty.
        """
        what = "a checkpoint, a run's folder (its best one), or a name listed by `trm models`"
        more: dict[str, Any] = {"required": True} if required else {"default": SHIPPED}
        if several:
            more = {"nargs": "+", "action": "extend", "default": []}
        what += "" if required else " (default: the shipped model)"
        self.add_argument("--checkpoint", metavar="PATH", help=what, **more)
        self.add_import()

    def add_devices(self) -> None:
        """Add ``--accelerator`` and ``--devices``, in the form of Lightning's trainer."""
        what = "auto (default), cpu, gpu, cuda, mps, …"
        self.add_argument("--accelerator", default="auto", help=what)
        what = "their number or their indices: 2 for any two, 0,2 for two by index, 1, for one"
        self.add_argument(
            "--devices", type=_devices, default=1, metavar="N", help=f"{what} (default: 1)"
        )

    def add_solver(self, several: bool = False) -> None:
        """Add the arguments of a model that solves problems, or of several."""
        self.add_checkpoint(several)
        what = "most supervision steps of a row, or loops of a GPT (default: the checkpoint's)"
        self.add_argument("--steps", type=whole(1, MOST_STEPS), help=what)
        if not several:
            what = "as in training, or the problem's size if training cropped canvases"
            self.add_canvas(f" (default: {what})")
        self.add_devices()

    def add_canvas(self, about: str = "", group: Any = None) -> None:
        """Add ``--height`` and ``--width``; ``about`` is the end of their help."""
        from canvas.problems import MOST_CELLS

        for side in ("--height", "--width"):
            what = f"of the canvas, in cells{about}"
            (group or self).add_argument(side, type=whole(1, MOST_CELLS), help=what)

    def add_base(self, group: Any = None) -> None:
        """Add ``--base``."""
        more: dict[str, Any] = {"choices": range(2, 17), "metavar": "2..16"}
        what = "of the digits (default: 10)"
        (group or self).add_argument("--base", type=int, default=10, help=what, **more)

    def add_sizes(self, about: str = "", group: Any = None) -> None:
        """Add an option for each measure of a problem's size, which `Arguments.sizes` reads."""
        from trm.evaluation.grid_format import AXES

        add = (group or self).add_argument
        # Labels of axes are shorter than a help has to be.
        more = {
            "digits": "digits of the longest addend",
            "length": "letters of each text, or rows of each maze",
        }
        for axis, meaning in (AXES | more).items():
            add(options_of([axis]), type=lengths, metavar="N", help=f"{meaning}{about}")

    def add_task(self, group: Any, required_for: str) -> None:
        """Add the options of a task and its sizes in training, for `Arguments.described_task`."""
        from canvas.tasks import TASKS

        add = group.add_argument
        add("--layout", help=f"of the worked solutions, like standard; needed for {required_for}")
        add("--task", help=f"{', '.join(TASKS)}, or a class of your own (default: by the layout)")
        self.add_base(group)
        self.add_sizes(" in training, like 1..5", group)

    def add_solving(self) -> None:
        """Add the options of solving, which `Arguments` turns into precision and voting."""
        from augment.symmetry import SYMMETRIES
        from trm.solving.voting import PER, RANDOM, VOTES

        what = "bf16-mixed is faster on hardware with bfloat16 (default: 32-true, float32)"
        self.add_argument("--precision", choices=PRECISIONS, default=FLOAT32, help=what)
        self.add_argument("--nodes", type=whole(1), default=1, help="machines (default: 1)")
        known = f"{', '.join(SYMMETRIES)} or {RANDOM}"
        what = (
            "give each canvas in this orientation, unknown to the model: every symmetry is a "
            f"guess with its own solution, and the most confident one wins; {known}"
        )
        choices: Any = {"choices": (*SYMMETRIES, RANDOM), "metavar": "VIEW"}
        self.add_argument("--view", help=what, **choices)
        what = "noise: a recursive model starts every canvas from a random state (default: initial)"
        self.add_argument("--start", choices=("initial", "noise"), default="initial", help=what)
        what = (
            "of a model of puzzles: write N cells at a time, the surest first (default: all cells)"
        )
        self.add_argument("--surest", type=whole(1), metavar="N", help=what)
        add = self.add_argument_group(
            "sampling", "draw the symbols of a GPT instead of writing the likeliest ones"
        ).add_argument
        what = "above 0: draw symbols from softmax(logits / T) (default: the likeliest ones)"
        add("--temperature", type=float, metavar="T", help=what)
        what = "draw from the K likeliest symbols (default: from all)"
        add("--top-k", type=whole(1), metavar="K", help=what)
        what = "of the draws, which otherwise depend on the canvas alone (default: 0)"
        add("--sampling-seed", type=whole(0), default=0, metavar="N", help=what)
        add = self.add_argument_group(
            "many views", "solve each problem in several views, and let the answers vote"
        ).add_argument
        what = "most views of a problem, the unchanged one included (default: 1)"
        add("--views", type=whole(1), default=1, metavar="N", help=what)
        known = f"{', '.join(SYMMETRIES)}; or all; or trained, those of training (default)"
        what = f"symmetries of the views, like e,h: {known}"
        add("--symmetries", type=_symmetries, metavar="NAMES", help=what)
        votes = "; ".join(f"{name}: {rule.meaning}" for name, rule in VOTES.items())
        usual = "default: majority; with --view max_confidence"
        add("--vote", choices=VOTES, help=f"{votes} ({usual})")
        what = "vote on each row, from which all views continue, or on the solutions of independent"
        usual = "default: row; with --view solution"
        add("--vote-per", choices=PER, help=f"{what} views ({usual})")
        what = "2: each problem with its operands swapped, too (default: 1)"
        add("--orders", type=int, choices=(1, 2), default=1, help=what)
        what = "runs of a recursive model on each view, all but the first with noise (default: 1)"
        add("--rollouts", type=whole(1), default=1, metavar="N", help=what)
        what = "standard deviation of that noise on z_H, before each supervision step"
        add("--noise", type=float, default=0.0, metavar="SIGMA", help=what)
