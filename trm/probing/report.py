"""A probing study in words: tables for the terminal, and sentences about what breaks first."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trm.evaluation.grid import INSIDE
from trm.probing.results import ROW, Count, ProbeStudy, Reading, SizeResult, pooled
from trm.probing.results import Table as Counts

JUDGES = {"head": "the model's own heads", "probe": "the probes"}
_READERS = {
    "probe": "probe",
    "head": "trained head",
    "control": "control",
    "selectivity": "selectivity",
    "majority": "majority",
}
_POINTS = "selectivity"
_BREAKS = {"head": "breaks first", "probe": "is read worst"}  # what is not read may not be needed


def print_study(console: Console, study: ProbeStudy) -> None:
    """All tables, each with what it shows, and the sentences."""
    for table in (by_size(study), by_step(study), gaps(study)):
        console.print(table)
        console.print()
    for line in (*notes(study), *first_errors(study)):
        console.print(Text(line), soft_wrap=True)


def by_size(study: ProbeStudy) -> Table:
    """Sub-task by size, at the last step."""
    heads = [
        f"{size.name.removesuffix(' digits')}\n{size.region.replace(' ', chr(10))}"
        for size in study.measured
    ]
    title = f"cells of the working row right, {site(study)}, % (95 % interval)"
    table = Table("sub-task", "", *heads, title=title, pad_edge=False)
    for hint in study.hints:
        found = [size.at(hint, study.main, study.last) for size in study.measured]
        for reader, name in _READERS.items():
            words = [_word(reading, reader) for reading in found]
            if any(words):
                table.add_row(hint if reader == "probe" else "", name, *words)
        table.add_section()
    return table


def by_step(study: ProbeStudy) -> Table:
    """Sub-task by step, within the training range and beyond it."""
    unit = "block" if study.curve != study.main else "supervision step"
    title = f"cells of the working row that a probe of {study.curve} gets right, by {unit}, %"
    steps = [step for step in study.steps if has(study, step)]
    table = Table("sub-task", "sizes", *map(str, steps), title=title, pad_edge=False)
    for hint in study.hints:
        for i, (name, sizes) in enumerate(regions(study).items()):
            values = [
                pooled((s.at(hint, study.curve, step) for s in sizes), "probe") for step in steps
            ]
            if any(value is not None for value in values):
                table.add_row(
                    "" if i else hint,
                    name,
                    *("" if v is None else f"{100 * v:.1f}" for v in values),
                )
        table.add_section()
    return table


def gaps(study: ProbeStudy) -> Table:
    """Sub-tasks and answers, right and wrong, by size."""
    heads = ("all\nright", "gap", "only\nanswer", "both\nwrong", "compositionality\ngap")
    measured = study.measured
    judge = measured[0].gap.judge if measured and measured[0].gap else "probe"
    title = f"sub-tasks (by {JUDGES[judge]}) and answers, {site(study)}"
    table = Table("size", "", *heads, title=title, pad_edge=False)
    for size in measured:
        if size.gap is None:
            continue
        for i, (name, counts) in enumerate((("rows", size.gap.rows), ("whole", size.gap.problems))):
            cells = (counts.both, counts.gap, counts.otherwise, counts.neither)
            table.add_row("" if i else size.name, name, *map(str, cells), gap_word(counts))
        table.add_section()
    return table


def gap_word(counts: Counts) -> str:
    """The compositionality gap with its interval, like ``2.0 % (0.4–10.5)``."""
    share = counts.shares["gap"]
    return f"{100 * share.value:.1f} % ({span(share)})" if share.total else "–"


def notes(study: ProbeStudy) -> list[str]:
    """What the figures rest on, in sentences."""
    train, settings = study.train, study.settings
    measured = study.measured
    lines = [
        f"Probes: logistic regressions on {train['cells']:,} cells ({train['working']:,} of the "
        f"working row) of {train['problems']:,} training problems; read on "
        f"{sum(s.problems for s in measured):,} other, held-out problems "
        f"({sum(s.cells for s in measured):,} cells), seed {settings['seed']}.",
        "Control: labels drawn at random by symbol and place (Hewitt and Liang 2019), on cells "
        "whose symbol and place occurred in training; selectivity is the probe's accuracy there "
        "less it, in points.",
        "Intervals: 95 %, of cells by a bootstrap over problems, of rows and problems Wilson's.",
        "all right, gap, only answer, both wrong: rows whose sub-tasks and answer are both right; "
        "sub-tasks right, answer wrong; a sub-task wrong, answer right; both wrong. The gap is the "
        "share of wrong answers among rows with right sub-tasks (Press et al. 2022).",
    ]
    solve_steps = study.model.get("solve_steps")
    if solve_steps and solve_steps > study.last and study.main == study.curve:
        lines.append(
            f"Answers and sub-tasks are those after {study.last} supervision steps; the model "
            f"solves with up to {solve_steps}. Name {solve_steps} in --steps to probe there, too."
        )
    lines += [f"{size.name}: not probed, as {size.reason}." for size in study.sizes if size.reason]
    return lines


def first_errors(study: ProbeStudy) -> list[str]:
    """Of each size, which sub-task breaks first, and where."""
    return [line for size in study.measured if (line := first_error(size))]


def first_error(size: SizeResult) -> str:
    """Which sub-task breaks first, in a sentence."""
    found = size.first_error
    if found is None:
        return ""
    judged = f"judged by {JUDGES[found.judge]}"
    if not found.hint or found.share is None or found.place is None or found.column is None:
        return f"{size.name}: no sub-task has a wrong cell in the working row, {judged}."
    column = f"column {found.column} from its right end"
    if found.column < 1:
        column = f"column {1 - found.column} right of its end"
    return (
        f"{size.name}: {found.hint} {_BREAKS[found.judge]}: {100 * found.share.value:.1f} % "
        f"({span(found.share)}) of its cells in the working row are right, {judged}; it is wrong "
        f"most often in row {found.row} of the working, {column} ({found.place.right} of "
        f"{found.place.total} right)."
    )


def regions(study: ProbeStudy) -> dict[str, list[SizeResult]]:
    """The sizes that are within the training range, and those that are not; no empty ones."""
    parts = {
        "in range": [size for size in study.measured if size.region == INSIDE],
        "beyond": [size for size in study.measured if size.region != INSIDE],
    }
    return {name: sizes for name, sizes in parts.items() if sizes}


def site(study: ProbeStudy) -> str:
    """The last site in words, like ``z_H after step 8``."""
    unit = "block" if study.curve != study.main else "supervision step"
    return f"{study.main} after {unit} {study.last}"


def has(study: ProbeStudy, step: int) -> bool:
    """Whether the curve over steps has a point there."""
    return any(r.site == study.curve and r.step == step for r in study.measured[0].readings)


def span(share: Count) -> str:
    """The interval of a share in percent."""
    return f"{100 * share.low:.1f}–{100 * share.high:.1f}"


def _word(reading: Reading | None, reader: str) -> str:
    value = None if reading is None else reading.value(reader)
    if value is None or reading is None:
        return ""
    if reader == _POINTS:
        return f"{100 * value:+.1f}".replace("-", "−")
    if reader in ("probe", "head"):
        share: Count = getattr(reading, reader)
        return f"{100 * value:.1f}\n({100 * share.low:.0f}–{100 * share.high:.0f})"
    return f"{100 * value:.1f}"


def curve(
    study: ProbeStudy, hint: str, sizes: Iterable[SizeResult], reader: str
) -> tuple[list[int], list[float]]:
    """The accuracy of a reader over steps, pooled over sizes: steps and shares."""
    sizes = list(sizes)
    name = study.main if reader == "head" else study.curve
    points = [
        (step, pooled((size.at(hint, name, step, ROW) for size in sizes), reader))
        for step in study.steps
    ]
    known = [(step, value) for step, value in points if value is not None]
    return [step for step, _ in known], [value for _, value in known]
