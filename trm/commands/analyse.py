"""`trm analyse`: what a trained model computes, and where: probes, heads, programs, ranks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trm.checkpoints import SHIPPED
from trm.commands.arguments import (
    add_checkpoint,
    add_devices,
    add_import,
    add_verbosity,
    find_checkpoints,
    info_console,
    lengths,
    one_device,
    print_table,
    results,
    sizes_given,
    whole,
)
from trm.evaluation.grid import AXES, size_name, versions
from trm.files import make_own_folder, write_object

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from canvas.task import Task
    from trm.solving.solver import Solver

EXAMPLES = """\
examples:
  trm analyse probe --checkpoint C --digits-a 4,8 --digits-b 4,8 --steps 1..4,16 --output probed
  trm analyse heads --checkpoint C --digits 7 --addends 2 --kinds carry --output heads
  trm analyse rasp --checkpoint C --output compared
  trm analyse ranks --checkpoint depth-1 depth-2 depth-4 --output ranks   # side by side

Into the folder go all figures as JSON, and pictures.
"""
STEPS = 8  # supervision steps that are probed, and the one whose ranks are told, unless named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", dest="kind", required=True)
    for name, run_kind in KINDS.items():
        about = run_kind.__doc__ or ""
        what = about.split(".")[0].split(":")[0].lower()
        kind = kinds.add_parser(name, help=what, description=about)
        kind.set_defaults(run_kind=run_kind)
        add, several = kind.add_argument, {"nargs": "+", "action": "extend"}
        # Of several without a default of argparse's own, which would be extended, too.
        add_checkpoint(kind, **several | {"default": None} if name == "ranks" else {})
        add("--output", required=True, metavar="DIR", help="folder for the results")
        for axis, meaning in AXES.items() if name != "ranks" else ():
            what = f"{meaning}, like 4 or 1..4,8: all combinations (default: training's longest)"
            add(f"--{axis.replace('_', '-')}", type=lengths, metavar="N", help=what)
        what, most = ("pairs", 50) if name == "heads" else ("problems", 16 * (1 + (name != "rasp")))
        least = 2 if name in ("heads", "rasp") else 1  # of which there are intervals
        add(f"--{what}", type=whole(least), default=most, help=f"held out (default: {most})")
        add("--seed", type=whole(0), default=0, help="which ones (default: 0)")
        if name == "probe":
            what = "of the training split, to fit the probes to (default: 400)"
            add("--train-problems", type=whole(1), default=400, help=what)
            what = f"supervision steps, or loops of a GPT, like 1..8,16 (default: up to {STEPS})"
            add("--steps", type=lengths, metavar="N", help=what)
        elif name == "heads":
            what = "what differs in a pair, like digit,carry, of digit, factor, carry and total"
            add("--kinds", type=_names, default=(), metavar="KIND", help=f"{what} (default: all)")
        add_devices(kind)
        add_import(kind)
        add_verbosity(kind, argparse.SUPPRESS)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def run(args: argparse.Namespace) -> int:
    """Run one kind of analysis."""
    checkpoints = args.checkpoint or SHIPPED
    args.checkpoints = checkpoints if isinstance(checkpoints, list) else [checkpoints]
    find_checkpoints(args, *args.checkpoints)
    fresh = not Path(args.output).exists()
    try:
        args.run_kind(args)
    except BaseException:
        if fresh:  # of a refused call no empty folder stays
            with suppress(OSError):
                Path(args.output).rmdir()
        raise
    return 0


def run_probe(args: argparse.Namespace) -> None:
    """Linear probes: which sub-tasks a model's states hold.

    One for each sub-task (what the layout's local rule decides), each state and each supervision
    step, or each block of a GPT; fitted to problems of the training split, read on held-out ones.
    """
    from trm.analysis.probe_study import Settings, run_probes
    from trm.figures.analysis import probing_figure

    solver = _solver(args, None if args.steps is None else args.steps[-1])
    sizes, output = _sizes(args, solver.task), _folder(args, "probe", "main")
    usual = range(1, min(STEPS, getattr(solver.predictor, "max_steps", STEPS)) + 1)
    settings = Settings(args.seed, tuple(args.steps or usual), args.problems, args.train_problems)
    study = run_probes(solver, sizes, settings, info_console(args).print)
    (about,) = _about(args)
    study, by_step, at_last = replace(study, model=about), [], []
    for subtask in study.subtasks:
        for number, size in enumerate(study.sizes):
            *_, last = found = study.of(subtask, size)
            first = "" if number else subtask, size
            by_step.append((*first, *(f"{100 * one.probe.value:.1f}" for one in found)))
            at_last.append((*first, last.probe.short, f"{100 * last.majority.value:.1f}"))
    steps = (str(one.step or "input") for one in found)
    print_table(("sub-task", "size", *steps), by_step, f"cells right, %, by {study.unit}")
    columns = ("sub-task", "size", "cells right", "majority")
    print_table(columns, at_last, f"at the last {study.unit}")
    results().print(
        f"Probes: logistic regressions on {study.train['cells']:,} cells of "
        f"{study.train['problems']:,} training problems, read in the rows that are filled in of "
        "held-out ones, with 95 % intervals by problems. Majority: the class most frequent in "
        "training."
    )
    _write(args, output, "probe", study.to_json(), {"probe": probing_figure(study)})


def run_heads(args: argparse.Namespace) -> None:
    """What each head brings to the answer, by activation patching over many pairs of problems."""
    from trm.analysis.patch import head_effects
    from trm.analysis.record import check_cells
    from trm.figures.analysis import heads_figure

    solver = _solver(args)
    check_cells(solver.predictor.model)
    size, *more = _sizes(args, solver.task)
    if more:
        raise ValueError("heads are patched in problems of one size: name one of each length")
    output = _folder(args, "heads", "head_effects")
    found = head_effects(solver, size, args.kinds, args.pairs, args.seed, info_console(args).print)
    (about,), (low, high) = _about(args), size.values()
    name = size_name(tuple(size), (low, high))
    title = f"{about['name']}: what heads bring to the answer, {name}"
    settings = {"pairs": args.pairs, "seed": args.seed, "size": size}
    effects = [asdict(one) for one in found]
    data = {"model": about, "settings": settings, "head_effects": effects}
    rows = []
    for layer, site in enumerate(found[0].sites):
        for head in range(len(found[0].mean[layer])):
            ends = [[of[layer][head] for of in (one.mean, one.low, one.high)] for one in found]
            shown = ["{} ({}–{})".format(*map(_signed, of_kind)) for of_kind in ends]
            rows.append(("" if head else site, str(head + 1), *shown))
    print_table(("layer", "head", *(one.kind for one in found)), rows)
    for one in found:
        left = f"; {one.left_out} left out, as the model is wrong in a row of them"
        line = f"{one.kind}: {one.meaning}, {len(one.pairs)} pairs"
        results().print(line + (left if one.left_out else ""))
    results().print(
        "Effect: 0, the first problem's answer stands; 1, the model says the second's as clearly "
        "as in its own run. With the 95 % bootstrap interval over pairs."
    )
    _write(args, output, "heads", data, {"heads": heads_figure(found, title)})


def _signed(value: float) -> str:
    """Like −0.12; no minus before a zero."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def run_ranks(args: argparse.Namespace) -> None:
    """Effective ranks of feed-forward weights and of states, layer by layer.

    States are those of the rows of held-out problems as long as the longest of training.
    """
    from trm.analysis.ranks import state_ranks, weight_ranks
    from trm.figures.analysis import ranks_figure

    solvers = [_solver(args, checkpoint=checkpoint) for checkpoint in args.checkpoints]
    output, found, models = _folder(args, "ranks", "effective_ranks"), {}, []
    for solver, about in zip(solvers, _about(args), strict=True):
        name = about["name"]
        info_console(args).print(f"reading {name}")
        ranks = weight_ranks(solver.predictor.model)
        found[name] = ranks = ranks + state_ranks(solver, args.problems, args.seed, STEPS)
        models.append(about | {"ranks": [asdict(one) for one in ranks]})
    settings = {"problems": args.problems, "seed": args.seed, "step": STEPS}
    for name, ranks in found.items():
        rows, kind = [], ""
        for one in ranks:
            first, kind = one.kind if one.kind != kind else "", one.kind
            share = f"{one.rank:.1f}", str(one.full), f"{one.share:.2f}"
            rows.append((first, str(one.layer), one.name, *share))
        tokens = next((one.tokens for one in ranks if one.tokens), 0)
        columns = ("", "layer", "", "effective rank", "of", "share")
        print_table(columns, rows, name, f"states of {tokens:,} tokens")
    data = {"settings": settings, "effective_ranks": models}
    _write(args, output, "ranks", data, {"ranks": ranks_figure(found)})


def run_rasp(args: argparse.Namespace) -> None:
    """The program that a model should implement, beside its heads.

    Programs are written in RASP (Weiss, Goldberg and Yahav 2021, "Thinking like transformers"): one
    for the rows of each layout, see trm/analysis/rasp_programs.py. The attention of a model's heads
    is compared with its selectors.
    """
    from trm.analysis.rasp_heads import compare_heads
    from trm.figures.analysis import head_name, overlap_figure

    solver = _solver(args)
    output, note = _folder(args, "rasp", "sizes", "overlap*.png"), info_console(args).print
    found = [
        compare_heads(solver, size, args.problems, args.seed, note)
        for size in _sizes(args, solver.task)
    ]
    (about,) = _about(args)
    for old in output.glob("overlap*.png"):
        old.unlink()
    figures = {}
    for one in found:
        ending = "" if len(found) == 1 else "_" + "x".join(map(str, one.size.values()))
        of_size = f"{one.problems} problems of {one.name}, {solver.task.layout}"
        heading = f"{about['name']}: attention on what is selected\n{of_size}"
        figures[f"overlap{ending}"] = overlap_figure(one.heads, heading)
        several, rows = len({head.update for head in one.heads}) > 1, []
        for head in one.heads:
            best = head.best
            selector = f"{best.selector} *" if best.in_program else best.selector
            overlap = f"{best.overlap:.2f} ({best.low:.2f}–{best.high:.2f})"
            rows.append((head_name(head, several), selector, overlap, f"{best.baseline:.2f}"))
        columns = ("head", "selector", "overlap", "baseline")
        print_table(columns, rows, f"{one.name}: {one.problems} problems, {one.rows} rows")
        results().print(
            f"* in the program of {solver.task.layout}, which writes {one.program_right} of these "
            "rows right. Overlap: attention on the selected cells, with its 95 % interval; "
            "baseline: that of uniform attention over all that the head can see."
        )
    settings = {"problems": args.problems, "seed": args.seed}
    data = {"model": about, "settings": settings, "sizes": [asdict(one) for one in found]}
    _write(args, output, "rasp", data, figures)


KINDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "probe": run_probe,
    "heads": run_heads,
    "rasp": run_rasp,
    "ranks": run_ranks,
}


# What they share.


def _solver(
    args: argparse.Namespace, steps: int | None = None, checkpoint: str | None = None
) -> Solver:
    from trm.checkpoints.loading import load_solver

    return load_solver(checkpoint or args.checkpoints[0], steps, device=one_device(args))


def _sizes(args: argparse.Namespace, task: Task) -> list[dict[str, int]]:
    """All combinations of what is named; a measure that is not named is training's longest."""
    given, axes = sizes_given(args, task)
    named = [given.get(axis) or [task.ranges.get(axis, (1, 3))[1]] for axis in axes]
    return [dict(zip(axes, size, strict=True)) for size in product(*named)]


def _folder(args: argparse.Namespace, name: str, key: str, *pictures: str) -> Path:
    """The folder of the results, in which nothing of others' is in the way."""
    files = (f"{name}.json", *(pictures or (f"{name}.png",)))
    make_own_folder(Path(args.output), f"trm analyse {name}", files, key)
    return Path(args.output)


def _about(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What a file of results says of each model."""
    from trm.evaluation.models import describe, labels

    return list(map(describe, args.checkpoints, labels(args.checkpoints)))


def _write(
    args: argparse.Namespace,
    output: Path,
    name: str,
    data: dict[str, Any],
    figures: dict[str, Figure],
) -> None:
    """The figures as JSON and as pictures, of which it is said where they are."""
    from trm.figures.style import save

    created = datetime.now(UTC).isoformat(timespec="seconds")
    file = output / f"{name}.json"
    write_object(file, data | {"format": 1, "created": created, "versions": versions()})
    info_console(args).print(f"figures  {file}")
    for title, figure in figures.items():
        save(figure, output / f"{title}.png")
        info_console(args).print(f"picture  {output / title}.png")
