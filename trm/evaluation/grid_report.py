"""Report of a grid as Markdown, and its summary for the terminal.

Shares are pooled over cells: correct ones are summed, and divided by the sum of all. They carry
their Wilson 95 % interval.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from canvas.task import describe_ranges
from trm.checkpoints.names import FAMILY_NAMES
from trm.evaluation.comparison import by_setting, shared_problems
from trm.evaluation.diagnosis import KINDS, OTHER
from trm.evaluation.grid import (
    Cell,
    Grid,
    Model,
    cells_by_length,
    cells_in,
    cells_of,
    errors,
    in_order,
    mean_of,
    pooled,
    trust,
)
from trm.evaluation.grid_cells import FAMILY, INSIDE
from trm.evaluation.grid_format import COMPARED, ERRORS, FILES, OUTCOMES, SHARES, STEPS
from trm.evaluation.statistics import (
    SEEDS_MEANING,
    Share,
    auroc,
    of_seeds,
    reliability,
    risk_coverage,
)
from trm.io.markdown import known, safe, table

_NAMES = {"solutions": "whole solutions", "answers": "answers"}  # in a sentence
_MEANS = {  # of a summary's lines
    "steps": ("supervision steps", "{:.1f}"),
    "longest_chain": ("longest chain of cells", "{:.1f}"),
    "seconds_per_problem": ("seconds a problem", "{:.3g}"),
    "flops_per_problem": ("operations a problem", "{:.2g}"),
    "views": ("views", "{:.3g}"),
    "agreement": ("agreement", "{:.3f}"),
    "confidence": ("mean confidence", "{:.3f}"),
}
_MOST_KINDS = 10  # rows about errors in a terminal
_AT_COVERAGE = 0.5  # of the problems, those of the highest confidence


def print_summary(console: Console, grid: Grid, report: str | Path | None = None) -> None:
    """Print each model's accuracy and errors by region; for structured problems also by family.

    Of the errors, the most frequent explanations are printed, and ``report`` is named, the file
    that has all of them; None: there is no such file.
    """
    families = _by_cell(grid) if grid.axes[0] == FAMILY else []
    frequent, left_out = _most_frequent(grid)
    found = _errors_by_region(grid, frequent)
    if found:
        found = ["**First wrong cells**, by the explanation that fits", *found]
    if found and left_out:
        rest = f"the {left_out} others are in {report}" if report else f"{left_out} others"
        found.append(f"The most frequent explanations; {safe(rest)}.")
    console.print(Markdown("\n\n".join([*families, *_summary(grid), *found])))


def _most_frequent(grid: Grid) -> tuple[set[tuple[str, str]], int]:
    """Return the model and kind of the most frequent errors, and how many others there are.

    Kinds without an error do not count.
    """
    counts = {
        (model["name"], kind): share.right
        for model in grid.models
        for kind, (share, _) in errors(model["cells"]).items()
        if share.right
    }
    ranked = sorted(counts, key=lambda one: -counts[one])
    return {*ranked[:_MOST_KINDS]}, len(ranked[_MOST_KINDS:])


def markdown(grid: Grid) -> str:
    """Return a whole grid as Markdown: pictures, models, summary, comparisons, cells, errors.

    Comparisons are those of each setting with the first.
    """
    first, second = (grid.labels[axis] for axis in grid.axes)
    parts = ["# Accuracy beyond training"]
    if created := grid.get("created"):
        versions = ", ".join(f"{name} {version}" for name, version in grid["versions"].items())
        parts.append(f"Evaluated {created} with {versions}.")
    what = f"{SHARES[grid.share_shown]}, by"
    parts += [
        *(f"![{what} {Path(name).stem}]({name})" for name in FILES[1:3]),
        *([f"![Supervision steps, by length]({STEPS})"] if grid.shows_steps else []),
        *("## Models", _models(grid)),
        *("## Summary", *_summary(grid)),
        *_by_length(grid),
        *_problem_by_problem(grid),
        f"## {grid.share_shown.capitalize()} by cell",
        f"Percent correct (Wilson 95 % interval). Rows: {first}; columns: {second}; bold: sizes "
        "that the model was trained on.",
        *_by_cell(grid),
        *_errors(grid),
    ]
    return "\n\n".join(parts) + "\n"


def _by_length(grid: Grid) -> list[str]:
    """Return a table of all models by length: accuracy, agreement, confidence and time."""
    rows = []
    for model in grid.models:
        for length, cells in cells_by_length(grid, model).items():
            means = [
                known(mean_of(cells, key), _MEANS[key][1])
                for key in ("agreement", "confidence", "seconds_per_problem")
            ]
            rows.append([safe(model["name"]), str(length), grid.pooled(cells).short, *means])
    if not rows:
        return []
    digits = grid.length_in_words.partition(" ")[0]
    heads = ["model", digits, "correct", "agreement", "confidence", "seconds a problem"]
    picture = f"![Accuracy, agreement, confidence and seconds a problem, by length]({COMPARED})"
    return ["## By length", picture, f"By the {grid.length_in_words}.", table(heads, rows)]


def _problem_by_problem(grid: Grid) -> list[str]:
    """Compare settings on the same problems; empty without results per problem."""
    settings = by_setting(grid.models)
    name, reference = next(iter(settings.items()))
    rows = []
    for other, models in settings.items() if not grid.differing_problems else ():
        for where in [*grid.regions, "all"] if other != name else ():
            region = None if where == "all" else where
            found = shared_problems(models, reference, region, OUTCOMES[grid.share_shown])
            if found is None:
                continue
            points, low, high = (100 * n for n in (found.difference, *found.interval))
            p = known(found.p, "{:.2g}")
            difference = f"{points:+.1f} ({low:+.1f} to {high:+.1f})"
            alone = map(str, found.alone or ("–", "–"))
            rows.append([safe(other), where, f"{found.problems:,}", difference, *alone, p])
    if not rows:
        return []
    heads = ["setting", "range", "problems", "difference", "this alone", "that alone", "p"]
    return [
        f"## Problem by problem, against {safe(name)}",
        "Over all cells that both have: the difference in percentage points; the number of "
        "problems that one alone solves, and the p of McNemar's exact test, for one seed each. "
        "The interval is then Newcombe's, 95 %; of several seeds it is by a bootstrap over seeds "
        "and problems, and too narrow where they are few, or again Newcombe's where all of them "
        "solved the same problems.",
        table(heads, rows),
    ]


def _models(grid: Grid) -> str:
    """Return a table that identifies each checkpoint."""
    heads = ["model", "family", "layout", "parameters", "trained on", "step", "cost", "sha256"]
    rows = []
    for model in grid.models:
        cost = "not known"
        if spent := model["cost"]:
            cost = f"{spent['flops'] / 1e12:,.3g} TFLOP, {spent['seconds'] / 60:,.3g} min"
            if before := spent.get("before"):
                cost += f", begun with weights of {before['seconds'] / 60:,.3g} min"
        numbers = (model["parameters"], model["step"])
        parameters, step = ("not known" if n is None else f"{n:,}" for n in numbers)
        ranges = model["ranges"]
        sizes = describe_ranges(ranges, unit=grid.unit) if ranges else "not known"
        family = FAMILY_NAMES.get(model["family"], model["family"])
        who = [safe(model["name"]), family or "–", model["task"]["layout"] or "–"]
        row = [*who, parameters, sizes, step, cost, f"`{model['sha256'][:12]}`"]
        rows.append([*row, grid.settings_in_words(model) or "in one view"])
    return table([*heads, "solved"], rows)


def _summary(grid: Grid) -> list[str]:
    """Return a table for each model, one for settings with several seeds, and notes."""
    parts, rows = [], list[list[str]]()
    for model in grid.models:
        parts += [f"**{safe(model['name'])}**", _by_region(model, grid)]
    for name, models in by_setting(grid.models).items():
        words = []
        for where in grid.regions:
            shares = [grid.pooled(cells_in(model, where)) for model in models]
            words.append(of_seeds([share for share in shares if share.total]))
        if len(models) > 1:
            rows.append([f"{safe(name)}, {len(models)} seeds", *words])
    if rows:
        parts += [
            "**Seeds together**",
            table(["setting", *grid.regions], rows),
            "Models that are named and made alike but for the seed. "
            f"{_NAMES[grid.share_shown].capitalize()} correct, in percent: {safe(SEEDS_MEANING)}.",
        ]
    return [*parts, "\n".join(f"- {safe(note)}" for note in _notes(grid))]


def _by_region(model: Model, grid: Grid) -> str:
    """Return a model's table with a line for each figure and a column for each region."""
    columns = []
    for where in grid.regions:
        cells = cells_in(model, where)
        entries = _entries([cell for cell in cells if cell["applicable"]], grid)
        refused = cells and not any(cell["applicable"] for cell in cells)
        columns.append(dict.fromkeys(entries, "n/a") if refused else entries)
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return table(["", *grid.regions], [row for row in rows if set(row[1:]) != {"–"}])


def _entries(cells: Sequence[Cell], grid: Grid) -> dict[str, str]:
    """Return pooled shares and means over problems as text; a dash: not known."""
    entries = {
        "solutions": grid.pooled(cells, "solutions").short,
        "answers": grid.pooled(cells, "answers").short,
        "teacher-forced rows": grid.pooled(cells, "rows_teacher_forced").short,
    }
    readable = [cell for cell in cells if cell.get("readable")]
    entries["of guesses with an answer"] = pooled(readable, "readable").short
    read_as = sum((Counter(cell["read_as"]) for cell in readable), Counter[str]())
    for name, symmetry in (("read upright", "e"), ("read reflected, hvt", "hvt")):
        entries[name] = Share(read_as[symmetry], read_as.total()).short
    for key, (name, form) in _MEANS.items():
        entries[name] = known(mean_of(cells, key), form)
    return (
        entries | _trust(cells) | {"problems": str(sum(cell["problems"] for cell in cells) or "–")}
    )


def _trust(cells: Sequence[Cell]) -> dict[str, str]:
    """Return how well the confidence in whole solutions predicts that they are correct."""
    names = "calibration error", "AUROC of the confidence", "incorrect in the surer half"
    confidence, right = trust(cells)
    if not len(confidence):
        return dict.fromkeys(names, "–")
    error = f"{100 * reliability(confidence, right).error:.1f} %"
    risk = risk_coverage(confidence, right).share_at(_AT_COVERAGE)
    area = known(auroc(confidence, right), "{:.3f}")
    return dict(zip(names, (error, area, risk.short), strict=True))


def _notes(grid: Grid) -> list[str]:
    """Return notes that a reader of a summary needs."""
    problems = grid.problems_in_words
    notes = [
        f"{problems[0].upper()}{problems[1:]}. Pooled over cells, with Wilson 95 % intervals; "
        "solutions and answers are free-running."
    ]
    notes += grid.caveats
    settings = {grid.settings_in_words(model) for model in grid.models}
    if len(settings) == 1 and settings != {""}:
        notes.append(f"Settings of every model: {settings.pop()}.")
    if not grid.differing_problems and len(grid.models) > 1:
        notes.append("All models have the same problems.")
    applicable = set()
    for model in grid.models:
        cells = cells_of(model)
        refused = [cell for cell in cells.values() if not cell["applicable"]]
        applicable.add(frozenset(key for key, cell in cells.items() if cell["applicable"]))
        if refused:
            notes.append(
                f"{model['name']}: {len(refused)} of {len(cells)} cells are not applicable and "
                f"left out; the first: {refused[0]['reason']}."
            )
    if any(cell.get("confidences") for model in grid.models for cell in model["cells"]):
        notes.append(
            "Confidence is in whole solutions. AUROC: the probability that a correct one has a "
            "higher confidence than an incorrect one. Surer half: the most confident problems, "
            "with all that are as confident as the last of them."
        )
    if any(cell.get("readable") for model in grid.models for cell in model["cells"]):
        notes.append(
            "The confidence alone chooses among the guesses of an orientation, and is judged "
            "before an answer is read; beside it the solutions of the most confident guess that "
            "yields an answer. A canvas read reflected in its anti-diagonal (hvt) is in a lattice "
            "nearly that of b x a, with the same product; it counts as incorrect."
        )
    if len(applicable) > 1:
        notes.append("The models' pooled figures cover different cells: compare cell by cell.")
    return notes


def _by_cell(grid: Grid) -> list[str]:
    """Return a table of all cells for each model."""
    corner, parts = " \\ ".join(grid.axes).replace("digits_", ""), []
    for model in grid.models:
        cells = cells_of(model)
        columns = in_order(b for _, b in cells)
        rows = [
            [str(a), *(_cell(cells.get((a, b)), grid) for b in columns)]
            for a in in_order(a for a, _ in cells)
        ]
        parts += [f"### {safe(model['name'])}", table([corner, *map(str, columns)], rows)]
    return parts


def _cell(cell: Cell | None, grid: Grid) -> str:
    """Return a cell's share in percent and its interval, bold in the model's range."""
    if cell is None:
        return ""
    if not cell["applicable"]:
        return "n/a"
    found = grid.pooled([cell])
    text = f"{found.percent} ({found.span()})" if found.total else "–"
    return f"**{text}**" if found.total and cell["region"] == INSIDE else text


def _errors(grid: Grid) -> list[str]:
    """Return the section on errors: explanations, their shares by region and by cell."""
    by_region = _errors_by_region(grid)
    if not by_region:
        return []
    corner = " x ".join(grid.axes).replace("digits_", "")
    parts = [
        "## Errors",
        f"![Errors of each size by kind]({ERRORS})",
        "Each incorrect problem counts once: in its first wrong row, the first wrong cell from the "
        "right, by the first of these explanations that fits. In brackets: Wilson 95 % interval. "
        "By chance: the share of all wrong symbols in the same cells that fit. A dash: the "
        "layout has no such signals.",
        "\n".join(
            f"- *{safe(kind)}*: {safe(KINDS[kind].meaning)}" for kind in grid.kinds if kind in KINDS
        )
        + f"\n- *{OTHER}*: none of these fits",
        *by_region,
        f"### By cell ({corner})",
    ]
    for model in grid.models:
        rows = []
        for (a, b), cell in cells_of(model).items():
            found = errors([cell])
            if found and max(share.total for share, _ in found.values()):
                shares = [found[k][0] if k in found else None for k in grid.kinds]
                words = ["–" if s is None else f"{s.percent} ({s.span()})" for s in shares]
                rows.append([f"{a} x {b}", _diagnosed(cell), *words])
        if rows:
            heads = ["size", "incorrect", *map(safe, grid.kinds)]
            parts += [f"**{safe(model['name'])}**, percent", table(heads, rows)]
    return parts


def _diagnosed(*cells: Cell) -> str:
    """Return the number of incorrect problems that were diagnosed, of all."""
    known = [cell for cell in cells if cell.get("errors")]
    wrong = sum(max(part["total"] for part in cell["errors"].values()) for cell in known)
    return f"{wrong} of {sum(cell['problems'] for cell in known)}"


def _errors_by_region(grid: Grid, chosen: set[tuple[str, str]] | None = None) -> list[str]:
    """Return a table for each model: the share of each kind of error by region, and by chance.

    ``chosen`` are the models and kinds that are listed; None: all.
    """
    parts = []
    for model in grid.models:
        everywhere = errors(model["cells"])
        if not any(share.total for share, _ in everywhere.values()):
            continue
        regions = {where: cells_in(model, where) for where in grid.regions}
        found = {where: errors(cells) for where, cells in regions.items()}
        kinds = [k for k in grid.kinds if chosen is None or (model["name"], k) in chosen]
        if not kinds:
            continue
        rows = []
        for kind in kinds:
            shares = [of[kind][0].short if kind in of else "–" for of in found.values()]
            chance = 100 * everywhere[kind][1] if kind in everywhere else None
            rows.append([safe(kind), *shares, known(chance, "{:.1f} %")])
        rows.append(["incorrect", *(_diagnosed(*cells) for cells in regions.values()), ""])
        heads = ["", *regions, "by chance"]
        parts += [f"**{safe(model['name'])}**", table(heads, rows)]
    return parts
