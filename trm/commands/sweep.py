"""`trm sweep`: the runs of a study, trained, evaluated and laid side by side.

A study is a YAML file: a config, the settings that are varied, seeds, what is held equal, and what
is evaluated at the end. Every setting takes a few steps before the first run starts. Started again,
the command goes on where it was.
"""

import argparse
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trm.commands import evaluate
from trm.commands.arguments import info_console, whole

if TYPE_CHECKING:
    from rich.console import Console

    from canvas.task import Task
    from trm.sweeps.plan import Plan
    from trm.sweeps.running import State
    from trm.sweeps.study import Point, Study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "study",
        metavar="STUDY",
        help="a YAML file, or the name of one of the package's own, such as studies/small_lattices",
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for all of it")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say what would run and what it would take, and start nothing",
    )
    parser.add_argument(
        "--jobs",
        type=whole(1),
        help="runs at once (default: one for each GPU; without any, one for each CPU core)",
    )
    parser.add_argument(
        "--seed", type=whole(0), help="the first seed; the study says how many (default: its own)"
    )
    parser.add_argument(
        "--gather",
        action="store_true",
        help="start nothing: write the page of what is there, for example from SLURM's nodes",
    )
    parser.add_argument(
        "--slurm",
        nargs="*",
        metavar="KEY=VALUE",
        help="send the runs to SLURM as an array instead, by submitit: options of sbatch, like "
        "partition=gpu gpus_per_node=1 timeout_min=600; --jobs of them at once",
    )


def run(args: argparse.Namespace) -> int:
    """Plan, train, evaluate, and write the page."""
    from trm.configs import find_config
    from trm.files import alone, make_folder
    from trm.sweeps.study import EQUAL_LOSS, check_settings, read_study

    study = read_study(find_config(args.study))
    check_settings(study)
    check = _check_evaluations(study)
    if args.seed is not None:
        study = study.with_seed(args.seed)
    options = _slurm_options(args.slurm)
    if options is not None:
        from trm.sweeps.slurm import check_available

        check_available()

    from rich.console import Console

    from trm.sweeps.plan import PLAN, make_plan, read_plan
    from trm.sweeps.running import DONE, TRAINED, Workers, check_unchanged, let_wait, state_of
    from trm.sweeps.slurm import submit

    output, beside = Path(args.output), info_console(args)
    if output.exists() and not output.is_dir():
        raise ValueError(f"--output {output} is no folder to write to: choose another")
    plan = make_plan(
        study, read_plan(output), lambda name: beside.print(f"trying out {name}"), check
    )
    check_unchanged(output, plan)
    points, todo = list(plan.points()), _unfinished(output, plan)
    at_once = Workers(args.jobs, len(todo)).number
    _tell_plan(Console(highlight=False), plan, len(points) - len(todo), at_once)
    if args.dry_run:
        return 0
    make_folder(output)
    with alone(output / PLAN):
        plan.write(output, study)
    _write_page(output, plan)
    if plan.others:
        beside.print(
            f"{len(plan.others)} settings of earlier calls are not in the study any more: their "
            "runs stay, and the page leaves them out"
        )
    if args.gather:
        return _finish(output, plan, beside)
    if options is not None and todo:
        sent = submit(output, plan, todo, options, args.jobs)
        array = sent[0].job_id.partition("_")[0]
        beside.print(
            f"SLURM has {len(sent)} runs as array {array}. The same command with --gather in place "
            "of --slurm tells how far they are"
        )
        if plan.checkpoint == EQUAL_LOSS:
            beside.print("Once all are trained, send the same again: they are evaluated then")
        return 0
    for point in todo:
        let_wait(output, point)
    _work(args.jobs, output, plan, todo, beside)
    # Runs that waited for others to be trained, or whose checkpoint is another one now.
    again = [p for p in _unfinished(output, plan) if state_of(output, p).stage in (TRAINED, DONE)]
    _work(args.jobs, output, plan, again, beside)
    return _finish(output, plan, beside)


def _work(
    jobs: int | None, output: Path, plan: "Plan", todo: "Sequence[Point]", beside: "Console"
) -> None:
    """Train and evaluate some runs, as far as that is left to do."""
    from trm.sweeps.running import Workers

    Workers(jobs, len(todo)).run(
        output,
        plan,
        todo,
        lambda point, state: _tell(beside, point, state),
        lambda ended: _write_page(output, plan, drawn=ended),
    )


def _unfinished(output: Path, plan: "Plan") -> "list[Point]":
    """The runs of which something is left to do."""
    from trm.sweeps.running import finished, states_of, wanted

    states = states_of(output, plan)
    asked = wanted(plan, states)
    return [point for point, state in states.items() if not finished(state, asked[point])]


def _check_evaluations(study: "Study") -> "Callable[[Task], None]":
    """Check the options of evaluations as `trm evaluate` would.

    Returns:
        What checks, given a task, whether it has the sizes of problems that they ask for.

    Raises:
        ValueError: `trm evaluate` would not take them.
    """
    asked = {}
    for name, words in study.evaluations.items():
        parser = _Parser(prog=f"evaluate: {name}", add_help=False, allow_abbrev=False)
        evaluate.add_arguments(parser)
        asked[name] = parser.parse_args([*words, "--output", "."])
        if asked[name].contexts:
            raise ValueError(f"evaluate: {name}: contexts are of one model, not of a study")

    def check(task: "Task") -> None:
        for name, args in asked.items():
            try:
                evaluate.sizes_of(args, task)
            except ValueError as error:
                raise ValueError(f"evaluate: {name}: {error}") from None

    return check


class _Parser(argparse.ArgumentParser):
    """Says what is wrong by an exception."""

    def error(self, message: str) -> NoReturn:
        """See `argparse.ArgumentParser`.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{self.prog}: {message}")


def _slurm_options(given: Sequence[str] | None) -> dict[str, str | int] | None:
    """What ``--slurm`` says; None where the runs are of this machine."""
    if given is None:
        return None
    options: dict[str, str | int] = {}
    for word in given:
        key, joined, value = word.partition("=")
        if not joined or not key.isidentifier():
            raise ValueError(f"--slurm takes options like partition=gpu, not {word!r}")
        options[key] = int(value) if value.isdecimal() else value
    return options


def _tell_plan(console: "Console", plan: "Plan", done: int, jobs: int) -> None:
    """Print what is going to run, and what it will take."""
    from rich.table import Table
    from rich.text import Text

    from trm.sweeps.report import duration, expected

    table = Table(pad_edge=False)
    for heading in ("setting", "parameters", "steps", "samples", "TFLOP", "about"):
        table.add_column(heading, overflow="fold")
    for one in plan.settings:
        table.add_row(Text(one.name), *expected(one))
    console.print(table)
    seeds = len(plan.seeds)
    total = sum(one.trial.steps * one.trial.seconds for one in plan.settings) * seeds
    already = f", {done} of them done already" if done else ""
    console.print(
        f"{len(plan.settings)} settings x {seeds} seeds: {len(plan.settings) * seeds} runs"
        f"{already}, {jobs} at once. All of them together train for about {duration(total)} of one "
        "process, as fast as a few steps went just now",
        soft_wrap=True,
    )


def _tell(console: "Console", point: "Point", state: "State") -> None:
    said = f": {state.error}" if state.error else ""
    console.print(f"{point.name}: {state.stage}{said}")


def _write_page(output: Path, plan: "Plan", drawn: bool = True) -> None:
    """Write the page, and if something new is to be drawn the picture and TensorBoard's page."""
    from trm.figures.studies import study_figure
    from trm.figures.study_lines import study_lines
    from trm.figures.study_map import study_maps
    from trm.files import replacing
    from trm.sweeps.board import write_board
    from trm.sweeps.report import LINES, MAP, PAGE, PICTURE, gathered, page

    with replacing(output / PAGE) as part:
        part.write_text(page(output, plan), encoding="utf-8")
    if not drawn:
        return
    evaluations = {name: gathered(output, plan, name) for name in plan.evaluations}
    figures = {
        PICTURE: study_figure(evaluations),
        LINES: study_lines(plan.settings, evaluations),
        MAP: study_maps(plan.settings, evaluations),
    }
    for file, figure in figures.items():
        if figure is not None:
            with replacing(output / file) as part:
                figure.savefig(part, format="png")
    write_board(output, plan)


def _finish(output: Path, plan: "Plan", beside: "Console") -> int:
    """Say where everything is; returns the exit code."""
    from trm.evaluation.grid import BOARD
    from trm.sweeps.report import PAGE
    from trm.sweeps.running import grid_of

    points, left = list(plan.points()), _unfinished(output, plan)
    beside.print(
        f"page      {output / PAGE}\n"
        f"curves    tensorboard --logdir {shlex.quote(str(output / 'points'))}\n"
        f"HParams   tensorboard --logdir {shlex.quote(str(output / BOARD))}"
    )
    for name in plan.evaluations:
        done = [grid_of(output, name, point).parent for point in points if point not in left]
        if len(done) > 1:
            folders = " ".join(shlex.quote(str(folder)) for folder in done)
            beside.print(f"together  trm report {folders} --output {name}")
    if left:
        beside.print(f"{len(left)} of {len(points)} runs are not done: the page says why")
    return 1 if left else 0
