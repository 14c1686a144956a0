"""`trm sweep`: the runs of a study, trained, evaluated and laid side by side.

A study is a YAML file: a config, the settings that are varied, seeds, what is held equal, and what
is evaluated at the end. Every setting's model is built before the first run starts. Started again,
the command goes on where it was.
"""

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from trm.commands import evaluate
from trm.commands.arguments import Arguments, Parser, print_table, results, whole

if TYPE_CHECKING:
    from canvas.task import Task


def add_arguments(parser: Parser) -> None:
    """The command's arguments."""
    add = parser.add_argument
    about = "a YAML file, or the name of one of the package's own, such as studies/blanks"
    add("study", metavar="STUDY", help=about)
    add("--output", required=True, metavar="DIR", help="folder for all of it")
    add("--dry-run", action="store_true", help="say what would run, and start nothing")
    about = "runs at once (default: one for each GPU, or else CPU core)"
    add("--jobs", type=whole(1), help=about)


def run(args: Arguments) -> int:
    """Plan, train, evaluate, and write the page."""
    from trm.config_files import find_config
    from trm.sweep.study import read_study

    study = read_study(find_config(args.study))

    import torch

    from trm.devices import cores
    from trm.files import alone, make_folder
    from trm.sweep.report import PAGE, write_report
    from trm.sweep.runs import Jobs, Run, plan

    evaluations = {name: _options(name, words) for name, words in study.evaluations.items()}

    def check(task: "Task") -> None:
        for name, asked in evaluations.items():
            try:
                evaluate.grid_sizes(asked, task)
            except ValueError as error:
                raise ValueError(f"evaluate: {name}: {error}") from None

    output, console = Path(args.output), args.info
    if output.exists() and not output.is_dir():
        raise ValueError(f"--output {output} is no folder to write to: choose another")
    study = plan(study, lambda name: console.print(f"building {name}"), check)
    jobs = Jobs(output, study)
    runs, left = len(jobs.states), len(jobs.left())
    devices = [str(i) for i in range(torch.cuda.device_count())]
    if named := os.environ.get("CUDA_VISIBLE_DEVICES", ""):
        devices = named.split(",")[: len(devices)]
    at_once = max(1, min(args.jobs or len(devices) or cores(), left))
    rows = [(one.name, f"{one.parameters:,}", f"{one.steps:,}") for one in study.settings]
    print_table(("setting", "parameters", "steps"), rows, wrap=True)
    already = f", {runs - left} of them done already" if left < runs else ""
    results().print(
        f"{len(study.settings)} settings x {len(study.seeds)} seeds: {runs} runs{already}, "
        f"{at_once} at once"
    )
    if args.dry_run:
        return 0
    make_folder(output)
    with alone(output):
        jobs.begin()
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // at_once)))

        def tell(run: Run) -> None:
            console.print(f"{run.name}: {jobs.stage(run)}")
            write_report(jobs)

        write_report(jobs)
        try:
            jobs.work(tell, at_once, devices)
        finally:  # nothing runs any more, also where this was ended
            write_report(jobs)
    console.print(
        f"page      {output / PAGE}\n"
        f"curves    tensorboard --logdir {shlex.quote(str(output / 'runs'))}"
    )
    if missing := len(jobs.left()):
        console.print(f"{missing} of {runs} runs are not done: the page says why")
    return 1 if missing else 0


def _options(name: str, words: list[str]) -> Arguments:
    """An evaluation's options as `trm evaluate` takes them; ValueError: it would not."""
    parser = Parser(
        prog=f"evaluate: {name}", add_help=False, allow_abbrev=False, exit_on_error=False
    )
    evaluate.add_arguments(parser)
    try:
        found, unknown = parser.parse_known_args([*words, "--output", "."], Arguments())
    except argparse.ArgumentError as error:
        raise ValueError(f"{parser.prog}: {error}") from None
    if unknown:
        raise ValueError(f"{parser.prog}: unrecognized arguments: {' '.join(unknown)}")
    return found
