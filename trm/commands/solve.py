"""`trm solve`: work problems out with a trained model."""

import argparse
import time

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from canvas.picture import to_terminal
from canvas.problems import Problems
from trm.commands.arguments import add_canvas_size, add_solver, read_problems
from trm.solving.checkpoint import SHIPPED, load_solver
from trm.solving.solver import Solution, Solver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("problems", nargs="+", help="like 123x456")
    add_solver(parser, default=SHIPPED)
    add_canvas_size(parser, "as in training, or the problem's where training cut it")
    parser.add_argument("--watch", action="store_true", help="show the canvas as it fills")


def run(args: argparse.Namespace) -> int:
    """Solve and show."""
    solver = load_solver(args.checkpoint, args.steps, args.height, args.width, args.device)
    problems = read_problems(args.problems, solver.task.base)
    solver.draw(problems)  # complain about any of them before the first is shown
    console = Console()
    if args.checkpoint == SHIPPED:
        task = solver.task
        console.print(
            f"The model that comes along: {task.layout}, practised up to {task.digits_a[1]} x "
            f"{task.digits_b[1]} digits.\n",
            style="dim",
        )
    for i in range(len(problems)):
        solve_and_show(console, solver, problems[i : i + 1], watch=args.watch)
    return 0


def solve_and_show(
    console: Console, solver: Solver, problem: Problems, watch: bool = False
) -> Solution:
    """Solve one problem and print its canvas; ``watch`` shows it while it fills."""
    if not watch:
        (solution,) = solver.solve(problem)
        console.print(describe(solution, solver))
        return solution
    drawing = solver.draw(problem)
    name, given = problem.names()[0], drawing.given[0]
    # Off a terminal there is nothing to repaint: the finished canvas alone is printed.
    pause = 0.25 if console.is_terminal else 0.0
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def on_row(step: int, canvases: np.ndarray) -> None:
            row = int(drawing.row_of_step(step)[0])
            picture = to_terminal(canvases[0], given=given, highlight_row=row)
            live.update(Group(Text(f"{name}, row {step + 1}"), picture), refresh=True)
            time.sleep(pause)

        (solution,) = solver.solve(problem, on_row)
    console.print(describe(solution, solver))
    return solution


def describe(solution: Solution, solver: Solver) -> Group:
    """A solved problem for the terminal: canvas, product, confidence, and whether it is right."""
    confidence = np.full(len(solution.canvas), np.nan)
    confidence[solution.rows] = solution.row_confidence
    canvas = to_terminal(
        solution.canvas, truth=solution.truth, given=solution.given, confidence=list(confidence)
    )
    a, b, right = (solver.write(n) for n in (solution.a, solution.b, solution.a * solution.b))
    said = "no number" if solution.product is None else solver.write(solution.product)
    verdict = Text(f"{a} × {b} = {said}  ", style="bold")
    if solution.correct:
        verdict.append("✓ right", style="bold blue")
    else:
        verdict.append(f"✗ wrong, it is {right}", style="bold yellow")
    if solution.correct and not solution.exact:
        verdict.append(", though the working has an error", style="yellow")
    told = f"confidence {solution.confidence:.1%}"
    if any(solution.row_steps):
        told += f", supervision steps a row: {', '.join(str(s) for s in solution.row_steps)}"
    return Group(canvas, verdict, Text(f"{told}\n"))
