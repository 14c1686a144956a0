"""The command `trm`, with a table of its subcommands."""

import argparse
import importlib
import logging
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from canvas.choices import import_code
from trm.commands.arguments import Arguments
from trm.commands.parser import VERBOSE, Parser
from trm.commands.streams import open_closed_streams, write_similar_characters
from trm.io.files import removing_empty_folders
from trm.runtime.processes import (
    INTERRUPTED,
    TERMINATED,
    Terminated,
    ending_by_signals,
    one_of_several,
    settle_slurm,
)

# One line for the help. The module of a name is imported only when its command runs, so that
# drawing a canvas does not wait for a training framework.
COMMANDS = {
    "render": "draw a problem in the terminal or to a file",
    "solve": "solve problems with a trained model",
    "prove": "prove a model correct at every length, or find an error",
    "inspect": "show a model at work on one problem; export its weights",
    "analyse": "study a model: probes, heads, programs, ranks",
    "evaluate": "measure accuracy on problems of many sizes, digits x digits",
    "report": "compare evaluations, or check confidence against accuracy",
    "sweep": "train and evaluate the runs of a study, and compare them",
    "convert": "convert weights of the published TRM and of nanoGPT, in and out",
    "benchmark": "export or score a benchmark for models of any kind",
    "configs": "list or print the shipped configs",
    "models": "list the weights that a name loads, or print their cards",
}
TRAINING = {
    "fit": "train a model",
    "validate": "score a checkpoint on the validation split",
    "test": "score a checkpoint on the test split",
    "predict": "solve the test split",
}
DESCRIPTION = """\
Tiny recursive transformers that learn long multiplication on a 2D canvas, row by row.

examples:
  trm render 321x654 --layout lattice                      # a solution, row by row
  trm fit --config trm/quick_turned                        # `trm configs` lists others
  trm solve --checkpoint runs/trm-quick-turned --demo      # some held-out problems, step by step
  trm solve --checkpoint trm-lattice-whole-seed0 --view random 1234x5678
  trm evaluate --checkpoint runs/trm-quick-turned --digits-a 1..5 --digits-b 1..3 --output grid
  trm inspect --checkpoint trm-lattice-whole-seed0 1234x5678 --output inspected
  tensorboard --logdir runs                                # curves, samples, votes, attention

  trm fit --config quickstart                              # a cell model, in a minute
  trm prove --checkpoint runs/quickstart                   # correct at every length
  trm solve 123x456                                        # by the shipped cell model
"""
EPILOG = """\
Help on a command: `trm COMMAND --help`. Every command takes -q, --quiet: print results and errors
only, and -v, --verbose: print the log, and tracebacks of errors.

Exit codes: 0 done, 1 a file had lines with errors, a model is not proved, training met numbers that
are not finite or lost one of its processes, or something is not installed, 2 the call was wrong,
130 stopped by Ctrl-C, 141 by a closed pipe, 143 by a SIGTERM.
"""
# A process whose connection breaks waits: the launcher finds the lost process, and ends the others.
_BROKEN, _PATIENCE = re.compile(r"gloo|nccl|connection|socket|peer|rendezvous", re.I), 20.0
_SAME = "; the same command goes on where it was"
_GOES_ON = {"solve": _SAME, "evaluate": _SAME, "sweep": _SAME}  # after a Ctrl-C or a SIGTERM
_GOES_ON["fit"] = (
    "; with --ckpt_path last it goes on from the end of its last epoch, if one has ended"
)


def parser_of(name: str) -> Parser:
    """Return the parser of a command, with the arguments that all commands have."""
    command = importlib.import_module(f"trm.commands.{name}")
    parser = Parser(prog=f"trm {name}", description=command.__doc__)
    parser.epilog = getattr(command, "EXAMPLES", None)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_arguments(parser)
    parser.add_verbosity()
    parser.set_defaults(run=command.run)
    return parser


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    name = arguments[0] if arguments else ""
    verbose = any(word in VERBOSE for word in arguments)
    write_similar_characters()
    try:
        with _logged(verbose), ending_by_signals(), removing_empty_folders():
            settle_slurm()
            return _run(name, arguments)
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _closed_pipe()
    except RuntimeError as error:
        if one_of_several() and _BROKEN.search(str(error)):
            time.sleep(_PATIENCE)
        raise
    except (ValueError, OSError, MemoryError, FloatingPointError, ImportError) as error:
        if verbose:
            traceback.print_exc()
        message: object = error
        if isinstance(error, OSError) and error.filename and error.strerror:
            message = f"{error.filename}: {error.strerror}"
        if isinstance(error, ImportError):
            message = f"{error}. Use pip install; `python -m pip check` lists what is missing"
        if isinstance(error, ChildProcessError):
            message = f"{error}{_GOES_ON.get(name, '')}"
        print(f"trm {name}: {message}", file=sys.stderr)
        return 1 if isinstance(error, FloatingPointError | ChildProcessError | ImportError) else 2
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Rich answers it by a SystemExit
            return _closed_pipe()
        # Lightning answers Ctrl-C by a SystemExit of its own.
        interrupted = any(isinstance(e, KeyboardInterrupt) for e in (stop, stop.__context__))
        if not interrupted and not isinstance(stop, Terminated):
            raise
        goes_on = _GOES_ON.get(name, "") if _continues(name, arguments) else ""
        print(f"trm {name}: stopped{goes_on}", file=sys.stderr)
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


def _continues(name: str, arguments: list[str]) -> bool:
    """Return whether a stopped command has left work that the same command continues."""
    if name not in ("solve", "evaluate"):
        return True
    from trm.commands.puzzles import of_puzzles

    args = parser_of(name).parse_args(arguments[1:], Arguments())
    with suppress(ValueError, OSError):  # the checkpoint may be gone
        if of_puzzles(args):
            return False  # all puzzles are solved at once
    return name == "evaluate" or (args.input is not None and "-" not in (args.input, args.output))


def _closed_pipe() -> int:
    return 128 + getattr(signal, "SIGPIPE", 13)  # Windows lacks its name


def _run(name: str, arguments: list[str]) -> int:
    if name in TRAINING:
        from trm.io.config_files import check_call

        parser = Parser(prog=f"trm {name}", add_help=False)
        parser.add_import()
        parser.add_verbosity()
        args, words = parser.parse_known_args(check_call(arguments))

        _check_working_folder()
        from trm.training.cli import run as train

        for word in args.imports:
            import_code(word, f"--import {word}")
        train(words, quiet=args.quiet)
        return 0
    if name in COMMANDS:
        args = parser_of(name).parse_args(arguments[1:], Arguments())
        _check_working_folder()
        for word in getattr(args, "imports", ()):
            import_code(word, f"--import {word}")
        code: int = args.run(args)
        return code
    from importlib.metadata import version
    from platform import python_version

    from trm import __version__

    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "lightning", "numpy"))
    versions = f"trm {__version__} (python {python_version()}, {packages})"
    parser = Parser("trm", "trm COMMAND ...", description=DESCRIPTION, epilog=EPILOG)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--version", action="version", version=versions)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, line in (TRAINING | COMMANDS).items():
        commands.add_parser(name, help=line, add_help=False)
    parser.parse_args(arguments)  # prints help, version or an error, and exits
    return 2


def _check_working_folder() -> None:
    """Raise a ValueError if the working folder was removed, which ends libraries without words."""
    try:
        Path.cwd()
    except OSError:
        raise ValueError(
            "the folder in which this command runs is not there any more: change to another"
        ) from None


@contextmanager
def _logged(verbose: bool) -> Iterator[None]:
    """Send this package's log to standard error: warnings, or everything if ``verbose``."""
    handler, logger = logging.StreamHandler(), logging.getLogger("trm")
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def main() -> None:
    """Run the command line (entry point)."""
    open_closed_streams()
    os.environ["MPLBACKEND"] = "agg"  # notebooks name theirs, and pictures need none
    sys.exit(run(sys.argv[1:]))
