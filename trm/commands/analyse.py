"""`trm analyse`: study the computation of a trained model by probes, gaps, heads and ranks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trm.commands.arguments import Arguments
from trm.commands.output import print_table, results
from trm.commands.parser import Parser, step_numbers, whole
from trm.evaluation.grid_cells import size_name
from trm.io.files import make_own_folder, versions, write_json, write_text
from trm.runtime.progress import progress, report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from canvas.task import Task
    from trm.extras.analysis.gap import GapStudy
    from trm.solving.solver import Solver

    Model = dict[str, Any]  # its description in a file of results
    Found = tuple[dict[str, Any], dict[str, Figure]]

EXAMPLES = """\
examples:
  trm analyse probe --checkpoint C --digits-a 4,8 --digits-b 4,8 --steps 1..4,16 --output probed
  trm analyse gap --checkpoint C1 C2 --digits-a 3..5 --digits-b 3..5 --output gaps
  trm analyse heads --checkpoint C --digits 7 --addends 2 --kinds carry --output heads
  trm analyse induction --checkpoint C --output induction
  trm analyse rasp --checkpoint C --output compared
  trm analyse ranks --checkpoint depth-1 depth-2 depth-4 --output ranks   # side by side

The folder gets all figures as JSON, and pictures.
"""
UNSIZED = ("ranks", "induction")  # kinds that do not choose the sizes of problems
STEPS = 8  # by default: supervision steps that are probed, and the step whose ranks are computed


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", dest="kind", required=True)
    for name, analyse in KINDS.items():
        about = analyse.__doc__ or ""
        what = about.split(".")[0].split(":")[0].lower()
        kind = kinds.add_parser(name, help=what, description=about)
        add = kind.add_argument
        several = name in ("ranks", "gap")
        kind.add_checkpoint(several=several, required=not several)
        add("--output", required=True, metavar="DIR", help="folder for the results")
        if name not in UNSIZED:
            kind.add_sizes(", like 4 or 1..4,8: all combinations (default: training's longest)")
        usual = {"heads": 50, "rasp": 16, "gap": 100, "induction": 64}
        counted = {"heads": "pairs", "induction": "sequences"}
        what, most = counted.get(name, "problems"), usual.get(name, 32)
        # These have intervals over problems.
        least = 2 if name in ("heads", "rasp", "induction") else 1
        those = "repeated ones" if name == "induction" else "held-out ones"
        add(f"--{what}", type=whole(least), default=most, help=f"{those} (default: {most})")
        add("--seed", type=whole(0), default=0, help="selects them (default: 0)")
        if name in ("probe", "gap"):
            what = "problems of the training split that the probes are fitted to (default: 400)"
            add("--train-problems", type=whole(1), default=400, help=what)
        if name == "probe":
            what = f"supervision steps, or loops of a GPT, like 1..8,16 (default: up to {STEPS})"
            add("--steps", type=step_numbers, metavar="N", help=what)
        names: Any = {"type": lambda text: tuple(text.split(",")), "default": ()}
        if name == "heads":
            what = "difference within a pair: some of digit, factor, carry, total, like digit,carry"
            add("--kinds", **names, metavar="KIND", help=f"{what} (default: all)")
        if name == "gap":
            what = "sub-tasks of the layout, like carry,sum (default: those of the arithmetic)"
            add("--subtasks", **names, metavar="NAME", help=what)
            what = "supervision steps that probes choose from, like 1,2,4 (default: 1,2,4,8)"
            # The model's own steps stay those of the checkpoint. The first name is that of 1.0.0.
            more: Any = {"type": step_numbers, "dest": "read_steps", "metavar": "N"}
            add("--read-steps", "--steps", **more, help=what)
            what = "read a sub-task by the checkpoint's auxiliary head where it has one"
            add("--heads", action="store_true", help=what)
        kind.add_devices()
        kind.add_verbosity(argparse.SUPPRESS)


def run(args: Arguments) -> int:
    """Run one kind of analysis, and write its figures as JSON and as pictures."""
    steps = args.steps[-1] if getattr(args, "steps", None) else None
    if args.kind not in UNSIZED:
        args.check_sizes()
    solvers, given = args.solvers(args.one_device(), steps), args.checkpoints

    from trm.evaluation.models import describe, labels
    from trm.figures.style import save

    analyse, name, output = KINDS[args.kind], args.kind, Path(args.output)
    models = list(map(describe, given, labels(given)))
    pictures = "overlap*.png" if name == "rasp" else f"{name}.png"
    page = output / f"{name}.md"
    make_own_folder(output, f"trm analyse {name}", (f"{name}.json", pictures, page.name))
    data, figures = analyse(args, solvers, models)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    if (text := data.pop("markdown", None)) is not None:
        write_text(page, text)
        args.info.print(f"tables   {page}")
    file = output / f"{name}.json"
    write_json(file, data | {"format": 1, "created": created, "versions": versions()})
    args.info.print(f"figures  {file}")
    for old in output.glob(pictures):
        old.unlink()
    for title, figure in figures.items():
        save(figure, output / f"{title}.png")
        args.info.print(f"picture  {output / title}.png")
    return 0


# Each kind prints its tables, and returns its figures as JSON and its pictures by name.


def _most_steps(solver: Solver) -> int:
    """Return the most supervision steps of a row; `STEPS` for models without a limit of their own.

    A cell model takes as many as it needs, and a GPT none.
    """
    return solver.predictor.max_steps or STEPS


def probe(args: Arguments, solvers: list[Solver], models: list[Model]) -> Found:
    """Linear probes: sub-tasks that a model's states contain.

    One probe for each sub-task (an output of the layout's local rule), each state and each
    supervision step, or block of a GPT. Fitted to problems of the training split, measured on
    held-out ones.
    """
    from trm.extras.analysis.figures import probing_figure
    from trm.extras.analysis.probe import ProbeSettings, run_probes

    (solver,), (model,) = solvers, models
    usual = range(1, min(STEPS, _most_steps(solver)) + 1)
    settings = ProbeSettings(
        args.seed, tuple(args.steps or usual), args.problems, args.train_problems
    )
    sizes, by_step, at_last = _sizes(args, solver.task), [], []
    with progress(args.quiet):
        study = run_probes(solver, sizes, settings)
    for subtask in study.subtasks:
        for number, size in enumerate(study.sizes):
            *_, last = found = study.of(subtask, size)
            first = "" if number else subtask, size
            by_step.append((*first, *(f"{100 * one.probe.value:.1f}" for one in found)))
            at_last.append((*first, last.probe.short, f"{100 * last.majority.value:.1f}"))
    steps = (str(one.step or "input") for one in found)
    print_table(("sub-task", "size", *steps), by_step, f"cell accuracy, %, by {study.unit}")
    columns = ("sub-task", "size", "cell accuracy", "majority")
    print_table(columns, at_last, f"at the last {study.unit}")
    results().print(
        f"Probes: logistic regressions on {study.train['cells']:,} cells of "
        f"{study.train['problems']:,} training problems, measured in the rows to fill in of "
        "held-out ones, with 95 % intervals over problems. Majority: accuracy of the most frequent "
        "class of training."
    )
    return {"model": model} | study.to_json(), {"probe": probing_figure(study, model["name"])}


def gap(args: Arguments, solvers: list[Solver], models: list[Model]) -> Found:
    """Compositionality gap: problems with correct sub-tasks, less those that are solved.

    Each sub-task is read from the states by a probe, as in `trm analyse probe`, or by an auxiliary
    head. It is correct on a problem if it is read correctly in all cells of all rows. The gap is
    the share of problems on which all are correct minus the share that the model solves.
    """
    from trm.checkpoints.content import auxiliary_weights, load_checkpoint
    from trm.extras.analysis.figures import gap_figure
    from trm.extras.analysis.gap import run_gap
    from trm.extras.analysis.probe import ProbeSettings
    from trm.io.markdown import safe, table

    found: dict[str, GapStudy] = {}
    steps = tuple(args.read_steps or (1, 2, 4, STEPS))
    settings = ProbeSettings(args.seed, steps, args.problems, args.train_problems)
    for solver, model, path in zip(solvers, models, args.checkpoints, strict=True):
        most = STEPS if args.read_steps else _most_steps(solver)
        own = replace(settings, steps=tuple(step for step in steps if step <= most))
        read_by = auxiliary_weights(load_checkpoint(path)) if args.heads else {}
        if args.heads and not read_by:
            args.info.print(f"{model['name']} has no auxiliary heads: probes read all sub-tasks")
        sizes = _sizes(args, solver.task)
        with progress(args.quiet):
            found[model["name"]] = run_gap(solver, sizes, own, args.subtasks, read_by)
    ends = "size", "all sub-tasks", "solved", "gap"
    text = "# Compositionality gap\n"
    for name, study in found.items():
        tasks = [(one.size, *(of.short for of in one.subtasks.values())) for one in study.gaps]
        wholes = [
            (one.size, one.together.short, one.solved.short, one.short, one.failed.short)
            for one in study.gaps
        ]
        plain = [(size, *(cell.partition(" ")[0] for cell in cells)) for size, *cells in tasks]
        print_table(("size", *study.readers), plain, f"{name}: problems with a sub-task correct, %")
        print_table(ends, [row[:4] for row in wholes], f"{name}: the whole problem")
        by = "".join(
            f"- `{subtask}`: {safe(str(what))}\n" for subtask, what in study.readers.items()
        )
        columns, last = ["size", *study.readers], "not solved, of those with all correct"
        several = ((columns, tasks), ([*ends, last], wholes))
        tables = [table(head, [[*map(safe, row)] for row in rows]) for head, rows in several]
        text += f"\n## {safe(name)}\n\n{by}\n" + "\n\n".join(tables) + "\n"
    about = (
        f"Up to {settings.problems} held-out problems of each size. A sub-task is correct if it "
        "is read correctly in every cell with a symbol of the rows that follow from it. Solved: "
        "every row of the model's own is correct. Gap: the share with all sub-tasks correct minus "
        "the share solved, in points of percent, with its paired 95 % interval. It is negative "
        "where the probes read less than the model uses."
    )
    results().print(about)
    text += f"\n{about} The last column is the gap of Press et al. (2022).\n"
    data = [model | found[model["name"]].to_json() for model in models]
    content = {"settings": asdict(settings), "models": data, "markdown": text}
    return content, {"gap": gap_figure(found)}


def heads(args: Arguments, solvers: list[Solver], models: list[Model]) -> Found:
    """Effect of each head on the answer, by activation patching over many pairs of problems."""
    from trm.extras.analysis.figures import heads_figure, signed
    from trm.extras.analysis.patch import head_effects
    from trm.extras.analysis.record import check_cells

    (solver,), (model,) = solvers, models
    check_cells(solver.predictor.model)
    size, *more = _sizes(args, solver.task)
    if more:
        raise ValueError("heads are patched in problems of one size: give one of each length")
    with progress(args.quiet):
        found = head_effects(solver, size, args.kinds, args.pairs, args.seed)
    name = size_name(size, size.values(), solver.task.unit)
    title = f"{model['name']}: effect of heads on the answer, {name}"
    settings = {"pairs": args.pairs, "seed": args.seed, "size": size}
    data = {"model": model, "settings": settings, "head_effects": list(map(asdict, found))}
    rows = []
    for layer, site in enumerate(found[0].sites):
        for head in range(len(found[0].mean[layer])):
            ends = [[of[layer][head] for of in (one.mean, one.low, one.high)] for one in found]
            shown = ["{} ({}–{})".format(*map(signed, of_kind)) for of_kind in ends]
            rows.append(("" if head else site, str(head + 1), *shown))
    print_table(("layer", "head", *(one.kind for one in found)), rows)
    for one in found:
        left = f"; {one.left_out} left out, as the model gets a row of them wrong"
        line = f"{one.kind}: {one.meaning}, {len(one.pairs)} pairs"
        results().print(line + (left if one.left_out else ""))
    results().print(
        "Effect: 0, the first problem's answer stands; 1, the second's has the logit difference of "
        "its own run. With the 95 % bootstrap interval over pairs."
    )
    return data, {"heads": heads_figure(found, title)}


def induction(args: Arguments, solvers: list[Solver], models: list[Model]) -> Found:
    """Induction heads of a GPT: attention to the token after an earlier occurrence.

    A row of random digits is repeated in a later row of a blank canvas. The control has the same
    second row below another order of digits (Olsson et al. 2022).
    """
    from trm.extras.analysis.figures import induction_figure, signed
    from trm.extras.analysis.induction import induction_scores

    (solver,), (model,) = solvers, models
    with progress(args.quiet):
        found = induction_scores(solver, args.sequences, args.seed)
    loops, rows = len({one.update for one in found}) > 1, []
    for one in found:
        block = f"{one.update}, block {one.block}" if loops else str(one.block)
        gain = "{} ({}–{})".format(*map(signed, (one.gain, one.low, one.high)))
        means = f"{one.score:.2f}", f"{one.control:.2f}"
        rows.append(("" if one.head > 1 else block, str(one.head), *means, gain))
    print_table(("block", "head", "score", "without repetition", "difference"), rows)
    results().print(
        f"Score: attention on the token after the earlier occurrence, a mean over {args.sequences} "
        "sequences. The difference has its 95 % bootstrap interval over sequences; a head that "
        "attends by places alone has none."
    )
    settings = {"sequences": args.sequences, "seed": args.seed}
    data = {"model": model, "settings": settings, "heads": list(map(asdict, found))}
    figure = induction_figure(found, f"{model['name']}: induction scores of heads")
    return data, {"induction": figure}


def ranks(args: Arguments, solvers: list[Solver], models: list[Model]) -> Found:
    """Effective ranks of feed-forward weights and of states, layer by layer.

    States come from rows of held-out problems with the greatest lengths of training. A cell model
    gets ranks of weights only.
    """
    from trm.extras.analysis.figures import ranks_figure, spectra_figure
    from trm.extras.analysis.ranks import state_ranks, weight_ranks

    found, data = {}, list[dict[str, Any]]()
    with progress(args.quiet):
        for solver, model in zip(solvers, models, strict=True):
            report(f"reading {model['name']}", len(data), len(models))
            several = weight_ranks(solver.predictor.model)
            several += state_ranks(solver, args.problems, args.seed, STEPS)
            if not several:
                raise ValueError(
                    f"{model['name']} has no feed-forward weights in floating point and no states "
                    "that cells read. Of a model in integers take the one that it was made from"
                )
            found[model["name"]] = several
            data.append(model | {"ranks": [asdict(one) for one in several]})
    settings = {"problems": args.problems, "seed": args.seed, "step": STEPS}
    for name, several in found.items():
        rows, kind = [], ""
        for one in several:
            first, kind = one.kind if one.kind != kind else "", one.kind
            share = f"{one.rank:.1f}", str(one.full), f"{one.share:.2f}"
            rows.append((first, str(one.layer), one.name, *share))
        tokens = next((one.tokens for one in several if one.tokens), 0)
        columns = ("", "layer", "", "effective rank", "of", "share")
        print_table(columns, rows, f"{name}: states of {tokens:,} tokens" if tokens else name)
    figures = {"ranks": ranks_figure(found)}
    if (spectra := spectra_figure(found)) is not None:
        figures["spectra"] = spectra
    return {"settings": settings, "effective_ranks": data}, figures


def rasp(args: Arguments, solvers: list[Solver], models: list[Model]) -> Found:
    """Comparison of a model's heads with the program that it should implement.

    Each layout has a program for its rows, written in RASP (Weiss, Goldberg and Yahav 2021,
    "Thinking like transformers"; trm/extras/analysis/rasp_programs.py). The attention of the heads
    is compared with the program's selectors.
    """
    from canvas.symbols import Alphabet
    from trm.extras.analysis.figures import head_name, overlap_figure
    from trm.extras.analysis.rasp_heads import compare_heads

    (solver,), (model,) = solvers, models
    with progress(args.quiet):
        found = [
            compare_heads(solver, size, args.problems, args.seed)
            for size in _sizes(args, solver.task)
        ]
    figures = {}
    for one in found:
        ending = "" if len(found) == 1 else "_" + "x".join(map(str, one.size.values()))
        task = solver.task
        name = task.name if isinstance(task.base, Alphabet) else task.layout
        of_size = f"{one.problems} problems of {one.name}, {name}"
        heading = f"{model['name']}: attention on selected cells\n{of_size}"
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
            f"* in the program of {name}, which writes {one.program_right} of these "
            "rows correctly. Overlap: attention on the selected cells, with its 95 % interval; "
            "baseline: the same of uniform attention over all cells that the head may attend to."
        )
    settings = {"problems": args.problems, "seed": args.seed}
    return {"model": model, "settings": settings, "sizes": [asdict(one) for one in found]}, figures


KINDS: dict[str, Callable[[Arguments, list[Solver], list[Model]], Found]]
KINDS = {
    **{"probe": probe, "gap": gap, "heads": heads, "induction": induction},
    **{"rasp": rasp, "ranks": ranks},
}


def _sizes(args: Arguments, task: Task) -> list[dict[str, int]]:
    """All combinations of the given sizes; the default of a measure is training's greatest."""
    named = args.sizes(task, lambda _, high: [high])
    return [dict(zip(named, size, strict=True)) for size in product(*named.values())]
