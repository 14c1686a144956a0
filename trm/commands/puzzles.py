"""`trm solve`, `evaluate` and `inspect` with checkpoints that were trained on arrays of puzzles."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trm.checkpoints import read_puzzle_format
from trm.checkpoints.puzzles import load_puzzle_solver, puzzle_format
from trm.commands.arguments import Arguments
from trm.io.files import check_place, make_folder, replacing, writing
from trm.io.markdown import known
from trm.io.puzzle_files import inputs_of, read_inputs, read_puzzles
from trm.runtime.precision import computing_in
from trm.runtime.progress import progress, report

if TYPE_CHECKING:
    from trm.solving.puzzles import PuzzleSolver, SolvedPuzzles

_ENDINGS = (".jsonl", ".txt", ".jsonl.gz", ".txt.gz", ".npy")
_PRINTED = 20  # puzzles that are printed as canvases
_DRAWN = 12  # canvases of a picture, at most
_FILM, _PICTURE, _SECONDS = "solving.gif", "steps.png", 0.6  # files of `inspect`; of a frame
_ONLY = (
    "puzzles are solved with --steps, --views and --surest on one device, without other settings"
)
_OTHER = (
    *("nodes", "view", "start", "temperature", "top_k", "sampling_seed"),
    *("vote_per", "orders", "rollouts", "noise"),
)
_OTHERS = (
    "{} was trained on arrays of puzzles, and {} on arithmetic: evaluate one kind at a time, the "
    "first by --data FOLDER"
)


def of_puzzles(args: Arguments) -> bool:
    """Return whether the checkpoints of a command were trained on arrays of puzzles.

    Raises:
        ValueError: only some of them were; or none, and an option is of puzzles alone.
    """
    kinds = {str(path): bool(read_puzzle_format(path)) for path in args.checkpoints}
    if len(set(kinds.values())) > 1:
        raise ValueError(_OTHERS.format(*sorted(kinds, key=kinds.__getitem__, reverse=True)[:2]))
    puzzles = all(kinds.values())
    if not puzzles and hasattr(args, "surest"):
        args.refuse("only the cells of puzzles are written some at a time", "surest")
    return puzzles


def solve(args: Arguments) -> int:
    """Solve puzzles; print the solutions, or write them to ``--output``."""
    if (args.input is None) == (not args.problems):
        raise ValueError(
            "this checkpoint solves puzzles: give each as a text with a character for each cell, "
            "or give a file of them by --input, .npy or text"
        )
    if args.input == "-":
        raise ValueError("puzzles are read from a file: name it by --input")
    args.refuse(_ONLY, "watch", "demo", "canvases", "batch_size", *_OTHER)
    form = puzzle_format(args.checkpoint)
    output = None if args.output in (None, "-") else Path(args.output)
    ending = ""
    if output is not None:
        ending = next((one for one in _ENDINGS if output.name.endswith(one)), "")
        if not ending:
            raise ValueError(
                f"--output {output} has to end in {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}"
            )
        check_place(output, "--output")
        if args.input is not None and output.exists() and output.samefile(args.input):
            raise ValueError(f"--output {output} is the input itself: choose another")
    size = args.height, args.width
    if args.input is None:
        inputs = inputs_of(args.problems, form, *size)
    else:
        inputs = read_inputs(args.input, form, *size)
    ((_, solver),) = _solvers(args)
    device = solver.predictor.device
    with computing_in(args.settled_precision(), device), progress(args.quiet):
        solved = solver.solve(inputs)
    if output is None:
        _print_solutions(args, solver, inputs, solved)
        return 0
    if ending == ".npy":
        with replacing(output) as part, part.open("wb") as file:
            np.save(file, solved.canvases)
    else:
        with writing(output) as sink:
            sink.writelines(_lines(solver, inputs, solved, as_text=".txt" in ending))
    sure = f"mean confidence {100 * float(solved.confidence.mean()):.1f} %"
    args.info.print(f"{len(inputs):,} puzzles, {sure} → {output}")
    return 0


def evaluate(args: Arguments) -> int:
    """Measure the accuracy on a folder's test split; print it, and write the figures."""
    if args.data is None:
        raise ValueError(
            "this checkpoint solves puzzles: name a folder of arrays by --data; its test split is "
            "measured"
        )
    from trm.evaluation.grid_format import AXES

    others = ("tensorboard", "seed", "problems", "batch_size", *AXES)
    args.refuse("all puzzles of the test split are measured", *others)
    args.refuse(_ONLY, *_OTHER)
    form = puzzle_format(args.checkpoints[0])
    puzzles = read_puzzles(args.data, "test", characters=form.characters)
    make_folder(Path(args.output))
    models = _solvers(args)

    from trm.evaluation.puzzles import FILES, write_measured
    from trm.evaluation.statistics import Share

    device = models[0][1].predictor.device
    with computing_in(args.settled_precision(), device), progress(args.quiet):
        found = write_measured(Path(args.output), models, puzzles, str(args.data))
    for one in found:
        exact = Share(one["exact"]["right"], one["exact"]["total"])
        print(f"{one['model']}: {exact} exact, {100 * one['cells']:.2f} % of cells")
        print(
            f"  confidence {100 * one['confidence']:.1f} %, calibration error "
            f"{one['calibration_error']:.3f}, AUROC {known(one['auroc'], '{:.3f}')}; a puzzle "
            f"takes {one['steps']:.1f} supervision steps in {one['views']:.1f} views"
        )
    for name in FILES:
        args.info.print(str(Path(args.output) / name))
    return 0


def inspect(args: Arguments) -> int:
    """Draw a puzzle after supervision steps, as a picture and as a film."""
    if args.problem is None or args.output is None:
        raise ValueError(
            "this checkpoint solves puzzles: give one as a text with a character for each cell, "
            "and --output DIR for its pictures"
        )
    alone = "a puzzle is filled in at once, and its canvas after each step is shown"
    args.refuse(alone, "row", "cell", "lens", "saliency", "patch")
    form = puzzle_format(args.checkpoint)
    inputs = inputs_of([args.problem], form, args.height, args.width)
    ((_, solver),) = _solvers(args)

    from canvas.picture import save_gif
    from trm.figures.puzzle_panels import puzzles_figure
    from trm.figures.style import save

    output = Path(args.output)
    with progress(args.quiet):
        report("solving", 0, 1)
        taken = int(solver.solve(inputs).steps[0])
        seen, confidence = solver.watched(inputs, taken)
        canvases = np.concatenate([inputs, seen[:, 0]])
        titles = ["puzzle"]
        titles += [f"step {i}: {sure:.1%}" for i, sure in enumerate(confidence[:, 0], start=1)]
        shown = np.unique(np.linspace(0, taken, min(taken + 1, _DRAWN)).round().astype(int))
        make_folder(output)
        picture = puzzles_figure(form, canvases[shown], [titles[i] for i in shown], inputs[0])
        save(picture, output / _PICTURE)
        frames = (
            (puzzles_figure(form, canvas[None], [title], inputs[0]), _SECONDS)
            for canvas, title in zip(canvases, titles, strict=True)
        )
        with replacing(output / _FILM) as part:
            save_gif(part, frames)
    print(f"{form.to_text(canvases[-1])}  confidence {confidence[-1, 0]:.1%} after {taken} steps")
    for name in (_FILM, _PICTURE):
        args.info.print(str(output / name))
    return 0


def _solvers(args: Arguments) -> list[tuple[str, PuzzleSolver]]:
    """Load the models of the arguments; return them with their names."""
    voting, device, files = args.voting(), args.one_device(), args.find_all()
    surest = getattr(args, "surest", None)  # `trm inspect` has no such option
    return [
        (str(file), load_puzzle_solver(file, args.steps, device, voting, surest)) for file in files
    ]


def _lines(
    solver: PuzzleSolver, inputs: Any, solved: SolvedPuzzles, as_text: bool = False
) -> list[str]:
    if as_text:
        return [f"{solver.format.to_text(canvas)}\n" for canvas in solved.canvases]
    return [f"{json.dumps(record)}\n" for record in solver.records(inputs, solved)]


def _print_solutions(
    args: Arguments, solver: PuzzleSolver, inputs: Any, solved: SolvedPuzzles
) -> None:
    """Print records for ``--output -``, else canvases, or a line each if there are many."""
    if args.output == "-":
        sys.stdout.writelines(_lines(solver, inputs, solved))
        return
    form = solver.format
    for i, canvas in enumerate(solved.canvases):
        views = f", agreement {solved.agreement[i]:.0%} of {solved.views[i]} views"
        sure = f"confidence {solved.confidence[i]:.1%}{views if solver.voting else ''}"
        if args.quiet or len(inputs) > _PRINTED:
            print(form.to_text(canvas) + ("" if args.quiet else f"  {sure}"))
            continue
        pairs = zip(inputs[i], canvas, strict=True)
        for given, found in pairs:
            print("  ".join(form.to_text(row) for row in (given, found)))
        print(f"{sure}\n")
