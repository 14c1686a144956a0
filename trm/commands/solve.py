"""`trm solve`: work problems out with a trained model."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from canvas.picture import to_terminal
from canvas.problems import Problems
from trm.batch.formats import FORMATS, check_source, format_of, output_format
from trm.checkpoints import SHIPPED, find_checkpoint
from trm.commands.arguments import (
    add_canvas_size,
    add_precision,
    add_solver,
    check_problems,
    info_console,
    one_device,
    precision_of,
    read_problems,
    whole,
)
from trm.commands.voting_arguments import add_voting, voting_of, with_voting
from trm.files import is_special, replacing
from trm.precision import computing_in

if TYPE_CHECKING:
    from trm.batch.solving import Summary
    from trm.solving.solution import Solution
    from trm.solving.solver import Solver
    from trm.solving.watching import Moment

EXAMPLES = """\
examples:
  trm solve 123x456 98765432x87654321
  trm solve --checkpoint runs/quickstart --watch 123x45
  trm solve --checkpoint runs/quickstart --views 16 --vote majority 123x45
  trm solve --input problems.csv --output answers.jsonl
  trm solve --checkpoint C --input problems.csv --output answers.csv --views 16 --devices 8
  printf 'a,b\\n12,34\\n' | trm solve --input - --output - --output-format csv

A file of problems is CSV with the columns a and b, or JSON Lines with those keys; whatever else a
line holds is carried through as it is; a spreadsheet takes cells that begin with =, +, - or @ for
formulas. There is one record for each line, in order; a line that is no problem gets an error, and
the others are solved. Stopped in whatever way, the same command goes on where it was, and the
output appears once it is complete. A pipe or a device, as input or output, is streamed through.

Exit codes: 0 all solved, 1 some lines have an error, 2 the call was wrong, 130 interrupted.
"""

PAUSE = 0.25  # seconds that a row or a step of it is shown to those who watch
CELLS = 0.5  # the same of all cells of a row that are written one by one
BAR = 24  # characters of a bar of confidence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "problems", nargs="*", help="like 123x456, or 12+34+5 for a model that adds"
    )
    add_solver(parser)
    add_precision(parser)
    add_canvas_size(parser, "as in training, or the problem's where training cut it")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show the canvas as it fills, after every supervision step of a recursive model",
    )
    add_voting(parser)
    files = parser.add_argument_group("files", "work through many problems, on many devices")
    files.add_argument("--input", metavar="FILE", help="of problems; - reads standard input")
    files.add_argument("--output", metavar="FILE", help="for records; - writes standard output")
    for side in ("input", "output"):
        files.add_argument(
            f"--{side}-format", choices=FORMATS, help="(default: by the file's name)"
        )
    files.add_argument(
        "--canvases", action="store_true", help="add the worked canvas to each record, as text"
    )
    files.add_argument(
        "--batch-size",
        type=_batch_size,
        metavar="N",
        help="problems taken on together, or auto (default: by the kind of device and the views)",
    )
    files.add_argument("--nodes", type=whole(1), default=1, help="machines (default: 1)")


def _batch_size(text: str) -> int | None:
    return None if text == "auto" else whole(1)(text)


def run(args: argparse.Namespace) -> int:
    """Solve and show, or work through a file."""
    if (args.input is None) != (args.output is None):
        raise ValueError("--input and --output go together: where problems come from, and go to")
    if bool(args.problems) == (args.input is not None):
        raise ValueError("name problems, like 123x456, or a file of them, --input: one of the two")
    find_checkpoint(args.checkpoint)
    voting_of(args)
    if args.input is None:
        check_problems(args.problems)
        return _show(args)
    if args.watch:
        raise ValueError("--watch shows problems that are named, not those of a file")
    streamed = [name == "-" or is_special(name) for name in (args.input, args.output)]
    if not streamed[0]:
        check_source(Path(args.input))
    if not streamed[1]:
        output_format(args.output, args.output_format)
    if not any(streamed):
        return _work_through(args)
    if args.devices not in (1, *([n] for n in range(1000))) or args.nodes > 1:
        raise ValueError("a pipe goes through one device: take files, or leave --devices out")
    return _stream(args)


def _solver(args: argparse.Namespace, device: str) -> Solver:
    from trm.checkpoints.loading import load_solver

    solver = load_solver(args.checkpoint, args.steps, args.height, args.width, device)
    return with_voting(solver, args)


def _show(args: argparse.Namespace) -> int:
    solver = _solver(args, one_device(args))
    problems = read_problems(args.problems, solver.task)
    solver.draw(problems)  # complain about any of them before the first is shown
    console = Console()
    if args.checkpoint == SHIPPED:
        info_console(args).print(
            f"The shipped model: {solver.task.layout}, trained on {solver.trained_on}.\n",
            style="dim",
        )
    with computing_in(precision_of(args), solver.predictor.device):
        for i in range(len(problems)):
            solve_and_show(console, solver, problems[i : i + 1], watch=args.watch)
    return 0


def _stream(args: argparse.Namespace) -> int:
    from trm.batch.solving import stream

    solver = _solver(args, one_device(args))
    for path, pipe, standard in (
        (args.input, sys.stdin, "standard input"),
        (args.output, sys.stdout, "standard output"),
    ):
        if path == "-" and pipe is None:
            raise ValueError(f"{standard} is closed: name a file instead of -")
    with ExitStack() as stack:
        stack.enter_context(computing_in(precision_of(args), solver.predictor.device))
        name, input_format, sink = "standard input", args.input_format, sys.stdout
        if args.input == "-":
            source: BinaryIO = sys.stdin.buffer
        else:
            name, input_format = args.input, format_of(args.input, input_format)
            source = stack.enter_context(Path(args.input).open("rb"))
        if args.output == "-" or is_special(args.output):
            written = format_of(args.output, args.output_format) or "jsonl"
        else:
            written = output_format(args.output, args.output_format)
        if args.output != "-":
            part = stack.enter_context(replacing(Path(args.output)))
            sink = stack.enter_context(part.open("w", encoding="utf-8"))
        summary = stream(
            solver,
            source,
            sink,
            name,
            args.batch_size,
            args.canvases,
            input_format,
            written,
        )
    return _told(summary, args)


def _work_through(args: argparse.Namespace) -> int:
    from trm.batch.jobs import Job, work_through

    solver = _solver(args, "cpu")
    job = Job(
        checkpoint=Path(args.checkpoint),
        source=Path(args.input),
        output=Path(args.output),
        steps=args.steps,
        height=args.height,
        width=args.width,
        voting=solver.voting,
        batch_size=args.batch_size,
        canvases=args.canvases,
        input_format=args.input_format,
        output_format=args.output_format,
        precision=precision_of(args),
    )
    summary = work_through(job, args.accelerator, args.devices, args.nodes, args.quiet)
    return 0 if summary is None else _told(summary, args)


def _told(summary: Summary, args: argparse.Namespace) -> int:
    """Say what became of the records; the exit code."""
    if not args.quiet:
        where = "" if args.output == "-" else f" → {args.output}"
        print(f"{summary}{where}", file=sys.stderr)
    return 1 if summary.errors else 0


def solve_and_show(
    console: Console, solver: Solver, problem: Problems, watch: bool = False
) -> Solution:
    """Solve one problem and print its canvas; ``watch`` shows it while it fills."""
    if not watch:
        (solution,) = solver.solve(problem, with_truth=True)
        console.print(describe(solution))
        return solution
    from trm.solving.watching import solve_watched

    # Off a terminal there is nothing to repaint: the finished canvas alone is printed.
    pause = PAUSE if console.is_terminal else 0.0
    name = solver.task.names(problem)[0].replace("x", "×")
    drawing = solver.draw(problem)
    given, caption = drawing.given[0], f"{name}   row {{}} of {drawing.steps[0]}"
    confidence = np.full(len(given), np.nan)
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(moment: Moment) -> None:
            if moment.confidence is not None:
                confidence[moment.row] = moment.confidence
            live.update(
                _scene(caption.format(moment.number), moment, given, confidence), refresh=True
            )
            one_by_one = moment.unit == "cell" and not moment.masked
            time.sleep(CELLS / moment.canvas.shape[1] if pause and one_by_one else pause)

        solution = solve_watched(solver, problem, show)
    console.print(describe(solution))
    return solution


def _scene(caption: str, moment: Moment, given: np.ndarray, confidence: np.ndarray) -> Group:
    """A moment for the terminal: where the model is, the canvas, and how sure it is of each row."""
    canvas = to_terminal(
        moment.canvas, given=given, highlight_row=moment.row, confidence=list(confidence)
    )
    if moment.step:
        caption += f", {moment.unit} {moment.step}"
    bar = Text("")
    if moment.confidence is not None:
        filled = round(BAR * moment.confidence)
        bar.append("  confidence  ").append("█" * filled, "bold blue")
        bar.append("░" * (BAR - filled), "dim").append(f"  {moment.confidence:.1%}")
    return Group(Text(caption), canvas, bar)


def describe(solution: Solution) -> Group:
    """A solved problem for the terminal: canvas, answer, confidence, and whether it is right."""
    confidence = np.full(len(solution.canvas), np.nan)
    confidence[solution.rows] = solution.row_confidence
    canvas = to_terminal(
        solution.canvas,
        truth=solution.truth,
        given=solution.given,
        confidence=list(confidence),
        read=solution.answer_cells,
    )
    answer = solution.answer_text or "no number"
    verdict = Text(f"{solution.problem.replace('x', '×')} = {answer}  ", style="bold")
    if solution.correct:
        verdict.append("✓ right", style="bold blue")
    else:
        right = solution.write(solution.right_answer)
        verdict.append(f"✗ wrong, it is {right}", style="bold yellow")
    if solution.correct and solution.exact is False:
        verdict.append(", though the working has an error", style="yellow")
    details = f"confidence {solution.confidence:.1%}"
    if solution.votes:
        details += f", agreement {solution.agreement:.0%} of {solution.views} different samples"
    if any(solution.row_steps):
        rows = "a row, all samples together" if solution.votes else "a row"
        details += f", supervision steps {rows}: {', '.join(str(s) for s in solution.row_steps)}"
    doubt = f"\nnot calibrated: {solution.doubt}" if solution.doubt else ""
    return Group(canvas, verdict, Text(details).append(doubt, style="yellow").append("\n"))
