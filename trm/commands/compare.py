"""`trm compare`: lay evaluations side by side, and say where models differ."""

import argparse
from pathlib import Path
from typing import Any

from trm.commands.arguments import info_console
from trm.evaluation.grid_schema import FORMAT, GRID, figure_shown, reference_of
from trm.evaluation.run_names import told_apart
from trm.files import make_folder, read_json, replacing

FILES = PICTURE, ROWS, REPORT = "compare.png", "compare-rows.png", "compare.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "evaluations",
        nargs="+",
        metavar="DIR",
        help="folders that trm evaluate or trm benchmark score has written",
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="for picture and report")
    parser.add_argument(
        "--reference", metavar="NAME", help="the model to compare with (default: the first)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, compare, draw and report."""
    paths = [Path(name) for name in args.evaluations]
    grid = side_by_side([read_grid(path) for path in paths], _labels(paths))
    reference = reference_of(grid, args.reference)["name"]
    output = Path(args.output)
    make_folder(output)
    from rich.console import Console

    from trm.evaluation.report import print_summary

    drawn = write_comparison(grid, reference, output)
    print_summary(Console(highlight=False), grid)
    info_console(args).print(drawn)
    return 0


def write_comparison(grid: dict[str, Any], reference: str, output: Path) -> str:
    """Draw and describe how models differ from one of them.

    Args:
        grid: two models at least.
        reference: the name of the one.
        output: a folder.

    Returns:
        What was written, a line for each file.
    """
    from trm.evaluation.comparison import compare_markdown
    from trm.figures.heatmaps import comparison_figure
    from trm.figures.row_errors import row_errors_figure

    picture, report, rows = output / PICTURE, output / REPORT, output / ROWS
    with replacing(picture) as part:
        comparison_figure(grid, reference, figure_shown(grid)).savefig(part, format="png")
    errors = row_errors_figure(grid)
    if errors is None:
        rows.unlink(missing_ok=True)  # of an earlier comparison
    else:
        with replacing(rows) as part:
            errors.savefig(part, format="png")
    with replacing(report) as part:
        part.write_text(compare_markdown(grid, reference, PICTURE), encoding="utf-8")
    drawn = "" if errors is None else f"wrong rows {rows}\n"
    return f"heat maps  {picture}\n{drawn}report     {report}"


def read_grid(path: str | Path) -> dict[str, Any]:
    """The grid in a folder of `trm evaluate`, or in a file.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged, of another format, or something else.
    """
    file = _file(Path(path))
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}: give a folder in which trm evaluate has finished"
        )
    try:
        grid = read_json(file)
    except UnicodeDecodeError:
        raise ValueError(
            f"{file} is not a {GRID}: give a folder in which trm evaluate has finished"
        ) from None
    except ValueError as error:
        raise ValueError(
            f"{file} is damaged: {error}. Run trm evaluate once more; finished cells are kept"
        ) from None
    if not isinstance(grid, dict) or "format" not in grid:
        raise ValueError(f"{file} is not what trm evaluate writes: it names no format")
    if grid["format"] != FORMAT:
        raise ValueError(
            f"{file} has format {grid['format']}, and this version of trm reads format {FORMAT}: "
            "evaluate the checkpoints again"
        )
    if grid.get("models") == []:
        raise ValueError(f"{file} holds no model: evaluate the checkpoints again")
    from trm.evaluation.report import markdown

    try:
        markdown(grid)  # looks at everything that a comparison does
    except KeyError as error:
        raise ValueError(f"{file} is not what trm evaluate writes: it lacks {error}") from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{file} is not what trm evaluate writes: a value in it does not suit ({error})"
        ) from error
    return grid


def _file(path: Path) -> Path:
    return path / GRID if path.is_dir() else path


def side_by_side(grids: list[dict[str, Any]], labels: list[str]) -> dict[str, Any]:
    """The models of several grids as one grid, each with the settings of its own.

    A name that several models bear is followed by what their runs had set otherwise, such as the
    seed; where that does not tell them apart, it is preceded by its grid's label.

    Args:
        grids: of the same task, axes and base.
        labels: a name for each grid, all different.

    Raises:
        ValueError: these differ.
    """
    found = [
        (label, model | {"settings": grid["settings"]})
        for grid, label in zip(grids, labels, strict=True)
        for model in grid["models"]
    ]
    bases = sorted({model["task"]["base"] for _, model in found})
    if len(bases) > 1:
        raise ValueError(
            f"these evaluations are in bases {' and '.join(map(str, bases))}: lengths in different "
            "bases are different numbers. Compare models of one base"
        )
    asked = sorted({(m["task"]["task"], *m["settings"]["axes"]) for _, m in found})
    if len(asked) > 1:
        kinds = " and ".join(f"{task} by {row} and {column}" for task, row, column in asked)
        raise ValueError(f"these evaluations are of different things: {kinds}. Compare like things")
    configs = [model.get("config") for _, model in found]
    names = told_apart([model["name"] for _, model in found], configs)
    full = [f"{label}: {name}" for (label, _), name in zip(found, names, strict=True)]
    labels_shown = [
        long if names.count(name) > 1 else name for name, long in zip(names, full, strict=True)
    ]
    labels_shown = labels_shown if len(set(labels_shown)) == len(labels_shown) else full
    models = [model | {"name": name} for (_, model), name in zip(found, labels_shown, strict=True)]
    return grids[0] | {"models": models}


def _labels(paths: list[Path]) -> list[str]:
    """A name for each evaluation: its folder's, or the whole path where folders share a name."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    files = [_file(path).resolve() for path in paths]
    twice = {str(path) for path, file in zip(paths, files, strict=True) if files.count(file) > 1}
    if twice:
        raise ValueError(f"{' and '.join(sorted(twice))}: one evaluation, given more than once")
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
