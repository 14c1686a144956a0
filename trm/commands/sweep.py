"""`trm sweep`: train, evaluate and compare the runs of a study.

A study is a YAML file with a config, the varied settings, the seeds, the quantity held equal, and
the evaluations at the end. Every setting's model is built before the first run starts. The same
command continues a sweep that was stopped.
"""

import argparse
import os
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trm.commands import evaluate
from trm.commands.arguments import Arguments
from trm.commands.output import print_table, results
from trm.commands.parser import Parser, whole

if TYPE_CHECKING:
    from canvas.task import Task
    from trm.extras.sweep.study import Setting, Study

_MOST_MINUTES = 1e6
EXAMPLES = """\
examples:
  trm sweep studies/seeds --output seeds --dry-run       # what would run
  trm sweep studies/seeds --output seeds --jobs 2
  trm sweep mine.yaml --output mine                      # your own, see docs/studies.md
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    about = "a YAML file, or the name of a shipped study, such as studies/blanks"
    add("study", metavar="STUDY", help=about)
    add("--output", required=True, metavar="DIR", help="folder for runs and report")
    add("--dry-run", action="store_true", help="list the runs without starting them")
    about = "runs at once (default: one for each GPU, or else CPU core)"
    add("--jobs", type=whole(1), help=about)
    about = "budget in minutes of all calls together. The runs train one after the other, each for "
    about += "its share of the budget instead of the epochs of its config"
    add("--minutes", type=_minutes, help=about)


def run(args: Arguments) -> int:
    """Plan, train and evaluate the runs, and write the report."""
    from trm.extras.sweep.study import read_study
    from trm.io.config_files import find_config
    from trm.io.files import alone, make_folder

    timed, output = args.minutes is not None, Path(args.output)
    if timed and args.jobs not in (None, 1):
        raise ValueError("with --minutes runs are trained one after the other: leave out --jobs")
    study = read_study(find_config(args.study))
    if output.exists() and not output.is_dir():
        raise ValueError(f"--output {output} is not a folder: choose another name")
    if args.dry_run:
        return _work_through(args, study)
    make_folder(output)
    with alone(output):  # from here, as planning takes minutes
        return _work_through(args, study)


def _work_through(args: Arguments, study: "Study") -> int:
    """Plan a study; without ``--dry-run`` also train and evaluate its runs."""
    begun, timed = time.monotonic(), args.minutes is not None

    import torch

    from trm.extras.sweep.budget import Worker, share_of
    from trm.extras.sweep.planning import plan
    from trm.extras.sweep.report import PAGE, changes, write_report
    from trm.extras.sweep.runs import Jobs, Run
    from trm.runtime.devices import cores

    evaluations = {name: _options(name, words) for name, words in study.evaluations.items()}

    def check(setting: "Setting", task: "Task") -> None:
        for name in study.evaluations_of(setting):
            try:
                evaluate.grid_sizes(evaluations[name], task)
            except ValueError as error:
                raise ValueError(f"evaluate: {name}: {error}") from None

    output, console = Path(args.output), args.info
    study = plan(study, console.print, check, timed)
    jobs = Jobs(output, study)
    jobs.check(timed)
    runs, left = len(jobs.states), len(jobs.left())
    devices = [str(i) for i in range(torch.cuda.device_count())]
    if named := os.environ.get("CUDA_VISIBLE_DEVICES", ""):
        devices = named.split(",")[: len(devices)]
    at_once = 1 if timed else max(1, min(args.jobs or len(devices) or cores(), left))
    rows = [
        (
            one.name,
            f"{one.parameters:,}",
            f"{args.minutes * share_of(study, one):,.3g}" if timed else f"{one.steps:,}",
        )
        for one in study.settings
    ]
    last = "minutes of a run" if timed else "steps"
    print_table(("setting", "parameters", last), rows, wrap=True)
    trained = sum(jobs.states[run].trained for run in jobs.left())
    already = f", {runs - left} of them done already" if left < runs else ""
    already += f", {trained} of them trained and to be evaluated" if trained else ""
    results().print(
        f"{len(study.settings)} settings x {len(study.seeds)} seeds: {runs} runs{already}, "
        f"{at_once} at once"
    )
    for remark in changes(jobs):
        console.print(remark)
    if args.dry_run:
        return 0
    jobs.begin(timed)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // at_once)))

    def say(run: Run, text: str) -> None:
        console.print(f"{run.name}: {text}")
        write_report(jobs)

    write_report(jobs)
    try:
        if timed:
            worker = Worker(jobs, args.minutes, begun, say, (devices or [""])[0])
            worker.work()
        else:
            jobs.work(say, at_once, devices)
    finally:  # no run is active any more, also after an interrupt
        write_report(jobs)
    console.print(
        f"report    {output / PAGE}\n"
        f"curves    tensorboard --logdir {shlex.quote(str(output / 'runs'))}"
    )
    if missing := len(jobs.left()):
        console.print(f"{missing} of {runs} runs are not done: the report gives the reasons")
    if timed and missing and not any(state.error for state in jobs.states.values()):
        used = f"{max(0.0, worker.used) / 60:,.1f} of {args.minutes:g} minutes are used"
        console.print(f"{used}; the same command with more --minutes continues")
        return 0
    return 1 if missing else 0


def _minutes(text: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(text)) < _MOST_MINUTES:
            return value
    raise argparse.ArgumentTypeError(f"{text} is not a number of minutes above 0, such as 25")


def _options(name: str, words: list[str]) -> Arguments:
    """Parse an evaluation's options as `trm evaluate` does.

    Raises:
        ValueError: `trm evaluate` does not accept them.
    """
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
