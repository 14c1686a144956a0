"""Arguments that several commands share, and how they are read.

A wrong call is answered at once: modules of commands import at their top what reading arguments
needs and nothing else, no framework above all, and the rest where it is used.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trm.checkpoints.paths import SHIPPED

if TYPE_CHECKING:
    from rich.console import Console

    from canvas.problems import Problems

QUIET, VERBOSE = ("-q", "--quiet"), ("-v", "--verbose")


def shortened(text: str, most: int = 60) -> str:
    """What was typed, in quotes, as much as an error repeats of it."""
    return repr(text if len(text) <= most else f"{text[: most - 1]}…")


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A reader of whole numbers from ``least`` up, perhaps to ``most``, for argparse."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            end = "up" if most is None else f"to {most:,}"
            raise argparse.ArgumentTypeError(
                f"{shortened(text)} is not a whole number from {least} {end}"
            )
        return value

    return read


def read_problems(texts: list[str], base: int = 10) -> Problems:
    """Problems from what people type: ``123x456``, ``123*456`` or ``123×456``.

    Raises:
        ValueError: a text is not a multiplication of two positive whole numbers, or too long.
    """
    from canvas.arithmetic import parse
    from canvas.problems import MOST_DIGITS, Problems

    pairs = []
    for text in texts:
        parts = re.split(r"[x*×X]", text)
        if len(parts) != 2 or not all(parts):
            raise ValueError(f"{shortened(text)} is not a multiplication; write it like 123x456")
        if (most := max(map(len, parts))) > MOST_DIGITS:
            raise ValueError(
                f"{shortened(text)} has a number of {most:,} digits; at most {MOST_DIGITS:,} are "
                "worked with"
            )
        pairs.append((parse(parts[0], base), parse(parts[1], base)))
    return Problems.from_ints(pairs, base)


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """``--quiet`` and ``--verbose``."""
    parser.add_argument(*QUIET, action="store_true", help="results and errors alone")
    parser.add_argument(
        *VERBOSE, action="store_true", help="also what goes on, and where an error arose"
    )


def aside(args: argparse.Namespace) -> Console:
    """A console for what is said beside results, such as where files are; `--quiet` silences it."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, markup=False, quiet=args.quiet)


def add_canvas_size(parser: argparse.ArgumentParser, default: str) -> None:
    """``--height`` and ``--width``."""
    from canvas.problems import MOST_CELLS

    for side in ("height", "width"):
        parser.add_argument(
            f"--{side}", type=whole(1, MOST_CELLS), help=f"cells (default: {default})"
        )


def number(least: float) -> Callable[[str], float]:
    """A reader of finite numbers from ``least`` up, for argparse."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} up")
        return value

    return read


def add_checkpoint(parser: argparse.ArgumentParser, **more: Any) -> None:
    """``--checkpoint``, the model that comes with the package where none is named.

    Args:
        parser: of the command.
        more: for argparse, where a command takes several.
    """
    parser.add_argument(
        "--checkpoint",
        metavar="PATH",
        help="a checkpoint, or the folder of a run, of which the best checkpoint is taken "
        "(default: the model that comes with the package)",
        **{"default": SHIPPED} | more,
    )


def add_solver(parser: argparse.ArgumentParser) -> None:
    """The arguments that `trm.checkpoints.loading.load_solver` takes."""
    add_checkpoint(parser)
    parser.add_argument(
        "--steps",
        type=whole(1),
        help="supervision steps a row gets at most (default: as the checkpoint says)",
    )
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, mps, …")
