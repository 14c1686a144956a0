"""`trm sweep`: the runs of a study, trained, evaluated and laid side by side.

A study is a YAML file: a config, the settings that are varied, seeds, what is held equal, and what
is evaluated at the end. Every setting's model is built before the first run starts. Started again,
the command goes on where it was.
"""

import argparse
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trm.commands import evaluate
from trm.commands.arguments import info_console, whole

if TYPE_CHECKING:
    from canvas.task import Task
    from trm.sweep.runs import Jobs
    from trm.sweep.study import Study


_PATIENCE = 10  # seconds: the runs of a sweep that was ended look at its lock each second


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "study",
        metavar="STUDY",
        help="a YAML file, or the name of one of the package's own, such as studies/small_lattices",
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for all of it")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would run, and start nothing"
    )
    parser.add_argument(
        "--jobs",
        type=whole(1),
        help="runs at once (default: one for each GPU; without any, one for each CPU core; with "
        "--slurm all)",
    )
    parser.add_argument(
        "--seed", type=whole(0), help="the first seed; the study says how many (default: its own)"
    )
    parser.add_argument(
        "--slurm",
        nargs="*",
        metavar="KEY=VALUE",
        help="start the runs through SLURM, and wait for them: options of sbatch, like "
        "partition=gpu gpus_per_node=1 timeout_min=600",
    )


def run(args: argparse.Namespace) -> int:
    """Plan, train, evaluate, and write the page."""
    from filelock import FileLock, Timeout

    from trm.configs import find_config
    from trm.files import make_folder
    from trm.sweep.report import write_report
    from trm.sweep.runs import Jobs, Run, begin, is_done, lock_of, plan, states_of, wanted
    from trm.sweep.study import read_study

    study = read_study(find_config(args.study))
    check = _check_evaluations(study)
    slurm = _slurm_options(args.slurm)
    if args.seed is not None:
        study = study.with_seed(args.seed)
    output, console = Path(args.output), info_console(args)
    if output.exists() and not output.is_dir():
        raise ValueError(f"--output {output} is no folder to write to: choose another")
    study = plan(study, lambda name: console.print(f"building {name}"), check)
    states = states_of(output, study)
    asked = wanted(study, states)
    todo = [run for run, state in states.items() if not is_done(state, asked[run])]
    devices = [] if args.slurm is not None else _devices()
    at_once = args.jobs or (len(todo) if slurm is not None else len(devices) or _cores())
    at_once = max(1, min(at_once, len(todo)))
    _show_plan(study, len(states) - len(todo), at_once)
    if args.dry_run:
        return 0
    make_folder(output)
    try:
        with FileLock(lock_of(output), timeout=_PATIENCE):
            jobs = Jobs(output, study, begin(output, study), at_once, slurm, devices)
            if slurm is None:
                os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // at_once)))

            def tell(run: Run | None) -> None:
                ended = run is not None and run not in jobs.stages
                if run is not None:
                    console.print(f"{run.name}: {jobs.stage(run)}")
                write_report(output, study, jobs.states, jobs.stages, drawn=ended)

            write_report(output, study, jobs.states, jobs.stages)
            jobs.work(tell)
            write_report(output, study, jobs.states, jobs.stages)
    except Timeout:
        raise ValueError(
            f"another trm sweep is at work in {output}: let it finish, or choose another --output"
        ) from None
    return _finish(args, output, jobs)


def _cores() -> int:
    from trm.devices import cores

    return cores()


def _devices() -> list[str]:
    """The GPUs of this machine that may be used, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    there = torch.cuda.device_count()
    return named.split(",")[:there] if named else [str(i) for i in range(there)]


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
    """Says what is wrong by a ValueError."""

    def error(self, message: str) -> NoReturn:
        """See `argparse.ArgumentParser`."""
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


def _show_plan(study: "Study", done: int, jobs: int) -> None:
    """Print what is going to run."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, table = Console(highlight=False), Table(pad_edge=False)
    for heading in ("setting", "parameters", "steps"):
        table.add_column(heading, overflow="fold")
    for one in study.settings:
        table.add_row(Text(one.name), f"{one.parameters:,}", f"{one.steps:,}")
    console.print(table)
    settings, seeds = len(study.settings), len(study.seeds)
    already = f", {done} of them done already" if done else ""
    console.print(
        f"{settings} settings x {seeds} seeds: {settings * seeds} runs{already}, {jobs} at once",
        soft_wrap=True,
    )


def _finish(args: argparse.Namespace, output: Path, jobs: "Jobs") -> int:
    """Say where everything is; returns the exit code."""
    from trm.evaluation.grid import BOARD
    from trm.sweep.report import PAGE
    from trm.sweep.runs import grid_of, is_done, wanted

    asked = wanted(jobs.study, jobs.states)
    done = [run for run, state in jobs.states.items() if is_done(state, asked[run])]
    console = info_console(args)
    console.print(
        f"page      {output / PAGE}\n"
        f"curves    tensorboard --logdir {shlex.quote(str(output / 'runs'))}\n"
        f"HParams   tensorboard --logdir {shlex.quote(str(output / BOARD))}"
    )
    for name in jobs.study.evaluations if len(done) > 1 else ():
        folders = " ".join(shlex.quote(str(grid_of(output, name, run).parent)) for run in done)
        console.print(f"together  trm report {folders} --output {name}")
    if left := len(jobs.states) - len(done):
        console.print(f"{left} of {len(jobs.states)} runs are not done: the page says why")
    return 1 if left else 0
