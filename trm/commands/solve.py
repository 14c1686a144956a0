"""`trm solve`: solve problems with a trained model."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from augment.symmetry import apply
from canvas.picture import to_terminal
from canvas.problems import Problems
from canvas.sampling import sample
from trm.checkpoints import SHIPPED
from trm.commands import puzzles
from trm.commands.arguments import Arguments, check_problems
from trm.commands.output import results
from trm.commands.parser import Parser, whole
from trm.io.files import check_file
from trm.io.problem_files import format_of
from trm.runtime.precision import computing_in
from trm.runtime.progress import progress

if TYPE_CHECKING:
    from trm.solving.solution import Solution
    from trm.solving.solver import Solver
    from trm.solving.watching import Moment

EXAMPLES = """\
examples:
  trm solve --checkpoint trm-lattice-whole-seed0 1234x5678 7x8
  trm solve --checkpoint trm-lattice-whole-seed0 --view random 1234x5678   # turned
  trm solve --checkpoint runs/trm-quick --views 8 --watch 123x45           # views that vote
  trm solve 123x456                                      # by the shipped cell model
  trm solve --quiet 123x456                              # the answer alone, without the canvas
  trm solve --checkpoint C --input problems.csv --output answers.jsonl --views 16 --devices 8
  printf 'a,b\\n12,34\\n' | trm solve --input - --output -

A file of problems is CSV with the columns a and b, JSON Lines with those keys, or text with a
problem in each line (problems.txt). Each line gets a
record, in order, which repeats the line's other values; a line without a problem gets an error.
After a stop of any kind the same command continues; the output appears once it is complete.

A checkpoint of puzzles (docs/arrays.md) solves texts, a character for each cell, or reads .npy, or
text with a puzzle in each line:
  trm solve --checkpoint sudoku6-trm-seed1 --views 4 3..456.4......164...5..3...23.......
  trm solve --checkpoint C --input puzzles.npy --views 8 --vote max_confidence
"""

PAUSE = 0.25  # seconds that --watch shows a row, or a step of it
SHOWN = 3  # problems of a demo
MOST_PRINTED = 50_000  # cells of a canvas that is printed


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    what = "like 123x456, or 12+34+5 for a model that adds; or texts of puzzles"
    add("problems", nargs="*", help=what)
    parser.add_solver()
    what = "show the canvas as it fills, after every supervision step"
    add("--watch", action="store_true", help=what)
    what = "watch some problems, and one of a hundred digits if the model takes that length"
    add("--demo", action="store_true", help=what)
    parser.add_solving()
    what = "solve many problems, on many devices; gzip is read, and written to names in .gz"
    add = parser.add_argument_group("files", what).add_argument
    add("--input", metavar="FILE", help="file of problems; - reads standard input")
    what = "file for records, .jsonl or .csv; - writes JSON Lines to standard output"
    add("--output", metavar="FILE", help=what)
    what = "add the worked canvas to each record, as text"
    add("--canvases", action="store_true", help=what)
    what = "problems solved together (default: by the kind of device and the views)"
    add("--batch-size", type=whole(1), metavar="N", help=what)


def run(args: Arguments) -> int:
    """Solve and print problems, solve a file, or demonstrate a model."""
    if puzzles.of_puzzles(args):
        return puzzles.solve(args)
    if [bool(args.problems), args.input is not None, args.demo].count(True) != 1:
        raise ValueError(
            "give one of the three: problems, like 123x456; a file of problems by --input; --demo"
        )
    if args.view is not None:
        watched = "each guess of an orientation has a canvas of its own, none of which is watched"
        args.refuse(watched, "watch", "demo")
    if args.input is None:
        only = "only the problems of a file, see --input, are solved together"
        args.refuse(only, "nodes", "canvases", "batch_size")
    if args.demo:
        args.refuse("a demo is watched", "output")
        return _demo(args)
    if (args.input is None) != (args.output is None):
        raise ValueError("--input and --output go together: give a file for each, or -")
    if args.input is not None:
        return _work_through(args)
    check_problems(args.problems, args.checkpoint)
    (solver,) = args.solvers(args.one_device(), args.steps)
    problems = solver.task.parsed(args.problems)
    if args.quiet and not args.watch:
        with computing_in(args.settled_precision(), solver.predictor.device):
            for solution in solver.solve(problems):
                print(solution.verdict)
        return 0
    solver.draw(problems)  # raises for a problem that does not fit, before the first is shown
    if args.checkpoint == SHIPPED:
        args.info.print(
            f"The shipped model: {solver.task.layout}, trained on {solver.trained_on}.\n",
            style="dim",
        )
    if args.watch and not (args.quiet or Console().is_terminal):
        alone = "--watch repaints a terminal: here the finished canvas alone is printed"
        print(alone, file=sys.stderr)
    with computing_in(args.settled_precision(), solver.predictor.device):
        solved = [
            solve_and_show(Console(), solver, problems[i : i + 1], watch=args.watch)
            for i in range(len(problems))
        ]
    args.note_views(min(solution.views / solution.views_asked for solution in solved))
    return 0


def _work_through(args: Arguments) -> int:
    """Solve the problems of a file, on any number of devices, or of a stream, on one device."""
    args.refuse("a file is solved without display", "watch")
    streams = [name == "-" for name in (args.input, args.output)]
    if not streams[0]:
        check_file(Path(args.input), "a file of problems", "--input ")
    if not streams[1] and format_of(args.output) is None:
        raise ValueError(
            f"--output {args.output}: answers are JSON Lines or CSV, so name it .jsonl or .csv"
        )
    if not streams[1] and format_of(args.output) == "csv":
        args.refuse("a canvas fits no column of CSV, so name the output .jsonl", "canvases")
    if any(streams):
        args.refuse("a pipe uses one device", "nodes")
    device = args.one_device() if any(streams) else "cpu"
    from trm.batch import Job, Summary, stream, work_through

    (solver,) = args.solvers(device, args.steps)
    files = Path(args.checkpoint), Path(args.input), Path(args.output)
    job = Job(solver, *files, args.batch_size, args.canvases, args.settled_precision())
    summary: Summary | None
    if any(streams):
        source = _standard_input() if args.input == "-" else None
        sink = sys.stdout if args.output == "-" else None
        with computing_in(job.precision, solver.predictor.device):
            summary = stream(job, source, sink)
    else:
        summary = work_through(job, args.accelerator, args.devices, args.nodes, args.quiet)
    if summary is None:  # another process reports
        return 0
    if not args.quiet:
        print(summary if args.output == "-" else f"{summary} → {args.output}", file=sys.stderr)
    args.note_views(
        summary.share_of_views, f" at the fewest, fewer in {summary.few_views:,} problems"
    )
    return 1 if summary.errors else 0


def _standard_input() -> BinaryIO:
    """Return a stream of its own of standard input, as the process may end while it is read."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # something without a number, such as a test's
        return sys.stdin.buffer


def solve_and_show(console: Console, solver: Solver, problem: Problems, watch: bool) -> Solution:
    """Solve one problem and print its canvas; ``watch`` shows it while it fills.

    A canvas of more than `MOST_PRINTED` cells is neither printed nor compared cell by cell.
    """
    if not watch:
        small = solver.draw(problem).canvases[0].size <= MOST_PRINTED
        with progress():
            (solution,) = solver.solve(problem, with_truth=small)
        if solution.view is not None and small:
            drawing = solver.draw(problem)
            given = (apply(solution.view, part[0]) for part in (drawing.canvases, drawing.given))
            console.print(Text("given, in an orientation that is unknown to the model:"))
            console.print(to_terminal(next(given), given=next(given)), "")
        console.print(describe(solution, solver.predictor.steps_in_words, small))
        return solution
    from trm.solving.watching import solve_watched

    # Output that is not a terminal cannot be repainted: only the finished canvas is printed.
    pause = PAUSE if console.is_terminal else 0.0
    name = solver.task.names(problem)[0].replace("x", "×")
    drawing = solver.draw(problem)
    given, confidence = drawing.given[0], np.full(len(drawing.given[0]), np.nan)
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(moment: Moment) -> None:
            for row, sure in moment.confidence.items():
                confidence[row] = sure
            canvas = to_terminal(
                moment.canvas, given=given, highlight_row=moment.row, confidence=list(confidence)
            )
            where = Text(f"{name}   {moment.where(int(drawing.num_rows[0]))}")
            live.update(Group(where, canvas), refresh=True)
            time.sleep(pause)

        solution = solve_watched(solver, problem, show)
    console.print(describe(solution, solver.predictor.steps_in_words))
    return solution


def describe(
    solution: Solution, unit: str = "supervision steps", with_canvas: bool = True
) -> Group:
    """Return a solved problem for the terminal: canvas, answer, confidence and correctness.

    ``unit`` is the name of the model's steps. Without the canvas, its size is printed.
    """
    confidence = np.full(len(solution.canvas), np.nan)
    confidence[solution.rows] = solution.row_confidence
    height, width = solution.canvas.shape
    canvas = Text(f"a canvas of {height:,} x {width:,} cells, too large to print", style="dim")
    if with_canvas:
        canvas = to_terminal(
            solution.canvas,
            truth=solution.truth,
            given=solution.given,
            confidence=list(confidence),
            read=solution.answer_cells,
        )
    style = "bold blue" if solution.correct else "bold yellow"
    verdict = Text(f"{'✓' if solution.correct else '✗'} {solution.verdict}", style=style)
    if solution.correct and solution.exact is False:
        verdict.append(", though the worked solution has an error", style="yellow")
    details = []
    if solution.votes:
        views = "1 view" if solution.views == 1 else f"{solution.views} views"
        votes = f"agreement {solution.agreement:.0%} of {views}"
        votes += f" x {solution.rollouts} rollouts" if solution.rollouts > 1 else ""
        few = solution.views < solution.views_asked
        details.append(votes + (f" ({solution.views_asked} were requested)" if few else ""))
    if solution.guess is not None:
        details = [_orientation(solution)]
    details += filter(None, [solution.steps_text(unit)])
    return Group(canvas, verdict, Text("\n".join([*details, ""])))


def _orientation(solution: Solution) -> str:
    """Return in words which orientation the most confident guess takes a canvas for."""
    known = "correctly" if solution.guess == solution.view else f"it is {solution.view}"
    text = (
        f"recognised as {solution.guess}, {known}: the most confident of {solution.views} guesses"
    )
    text += f", with {solution.agreement:.0%} of their confidence"
    found = solution.readable
    if found is not None and found.guess != solution.guess:
        text += f"; of those with an answer {found.guess}: {found.answer_text}"
    if len(solution.votes) > 1:  # of the guesses, and of the two orders
        answers = [str(vote.answer or "no answer") for vote in solution.votes[1]]
        same = len(answers) == 1
        text += "; both orders agree" if same else f"; the orders differ: {', '.join(answers)}"
    return text


def _demo(args: Arguments) -> int:
    """Show held-out problems being solved, and one of a hundred digits if the model can."""
    (solver,) = args.solvers(args.one_device(), args.steps)
    task, console = solver.task, results()
    console.rule("Problems that are not in its training data, row by row")
    shown = sample(task, 0, "test", 0, np.arange(SHOWN), task.longest)
    for i in range(SHOWN):
        solve_and_show(console, solver, shown[i : i + 1], watch=True)
    hundred = (100,) * len(task.longest)
    if solver.predictor.fills == "canvas" and solver.for_lengths(hundred) is not None:
        problem = sample(task, 0, "test", 0, np.arange(1), hundred)
        start = time.perf_counter()
        with progress():
            (solution,) = solver.solve(problem, with_truth=True)
        took = time.perf_counter() - start
        console.rule("Numbers of a hundred digits")
        verdict = "correct in every cell" if solution.exact else "incorrect"
        console.print(f"{solution.problem}\n= {solution.answer_text}\n{verdict}, in {took:.1f} s")
    return 0
