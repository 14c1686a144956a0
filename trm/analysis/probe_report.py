"""A probing study in words: tables for the terminal, and sentences about what breaks first."""

from collections.abc import Iterable

from rich.console import Console
from rich.markdown import Markdown

from trm.analysis.probe_study import ProbeStudy, Reading, SizeResult, pooled
from trm.evaluation.grid import INSIDE
from trm.markdown import table

JUDGES = {"head": "the model's own heads", "probe": "the probes"}
_READERS = {
    "probe": "probe",
    "head": "trained head",
    "control": "control",
    "selectivity": "selectivity",
    "majority": "majority",
}
_BREAKS = {"head": "breaks first", "probe": "is read worst"}  # what is not read may not be needed


def print_study(console: Console, study: ProbeStudy) -> None:
    """All tables, each with what it shows, and the sentences."""
    measured, last = study.measured, last_point(study)
    by_size = []  # sub-task by size, at the last step
    for hint in study.hints:
        found = [size.at(hint, study.main, study.last) for size in measured]
        for reader, name in _READERS.items():
            words = [_word(reading, reader) for reading in found]
            if any(words):
                by_size.append([hint if reader == "probe" else "", name, *words])
    known = {r.step for r in measured[0].readings if r.site == study.curve}
    steps = [step for step in study.steps if step in known]
    by_step = []  # within the training range and beyond it
    for hint in study.hints:
        for i, (name, sizes) in enumerate(regions(study).items()):
            values = [
                pooled((s.at(hint, study.curve, step) for s in sizes), "probe") for step in steps
            ]
            words = ["" if v is None else f"{100 * v:.1f}" for v in values]
            if any(words):
                by_step.append(["" if i else hint, name, *words])
    gaps = []  # sub-tasks and answers, right and wrong, by size
    for size in measured:
        for name, of in (("rows", "rows"), ("whole", "problems")) if size.gap else ():
            counts = getattr(size.gap, of)
            cells = (counts.both, counts.gap, counts.otherwise, counts.neither)
            first = size.name if of == "rows" else ""
            gaps.append([first, name, *map(str, cells), counts.gap_share.short])
    judge = next((size.gap.judge for size in measured if size.gap), "probe")
    sizes_of = [f"{size.name.removesuffix(' digits')} {size.region}" for size in measured]
    counted = ["all right", "gap", "only answer", "both wrong", "compositionality gap"]
    parts = [
        f"Cells right in rows that are filled in, {last}, % (95 % interval):",
        table(["sub-task", "", *sizes_of], by_size),
        f"Cells that a probe of {study.curve} gets right in these rows, by {study.unit}, %:",
        table(["sub-task", "sizes", *(step_name(study, step) for step in steps)], by_step),
        f"Sub-tasks (by {JUDGES[judge]}) and answers, {last}:",
        table(["size", "", *counted], gaps),
        *_notes(study),
        *filter(None, map(first_error, measured)),
    ]
    console.print(Markdown("\n\n".join(part.replace("_", "\\_") for part in parts)))


def _word(reading: Reading | None, reader: str) -> str:
    if (value := pooled([reading], reader)) is None:
        return ""
    if reader == "selectivity":  # in points
        return f"{100 * value:+.1f}".replace("-", "−")
    ends = f" ({getattr(reading, reader).span()})" if reader in ("probe", "head") else ""
    return f"{100 * value:.1f}{ends}"


def _notes(study: ProbeStudy) -> list[str]:
    """What the figures rest on, in sentences."""
    train, measured = study.train, study.measured
    lines = [
        f"Probes: logistic regressions on {train['cells']:,} cells ({train['working']:,} of rows "
        f"that are filled in) of {train['problems']:,} training problems; read on "
        f"{sum(s.problems for s in measured):,} other, held-out problems "
        f"({sum(s.cells for s in measured):,} cells), seed {study.settings['seed']}.",
        "Control: labels drawn at random by symbol, row and column (Hewitt and Liang 2019), on "
        "cells for which all three occurred together in training; selectivity is the probe's "
        "accuracy there less it, in points.",
        "Intervals: 95 %, of cells by a bootstrap over problems, of rows and problems Wilson's.",
        "all right, gap, only answer, both wrong: rows whose sub-tasks and answer are both right; "
        "sub-tasks right, answer wrong; a sub-task wrong, answer right; both wrong. The gap is the "
        "share of wrong answers among rows with right sub-tasks (Press et al. 2022).",
    ]
    solve_steps = study.model.get("solve_steps")
    if study.settled:
        lines.append("end: no further supervision step changes the states of any of these rows.")
    elif study.main == study.curve and not (solve_steps and solve_steps <= study.last):
        ends = f"with up to {solve_steps}" if solve_steps else "until no step changes a cell"
        lines.append(
            f"Answers and sub-tasks are those after {study.last} supervision steps; the model "
            f"solves {ends}. Name more in --steps to probe there, too."
        )
    return lines + [f"{s.name}: not probed, as {s.reason}." for s in study.sizes if s.reason]


def first_error(size: SizeResult) -> str:
    """Which sub-task breaks first, in a sentence; empty: not known."""
    found = size.first_error
    if found is None:
        return ""
    judged = f"judged by {JUDGES[found.judge]}"
    if found.share is None or found.place is None or found.column is None:
        return f"{size.name}: no sub-task has a wrong cell in these rows, {judged}."
    column = f"column {found.column} from its right end"
    if found.column < 1:
        column = f"column {1 - found.column} right of its end"
    return (
        f"{size.name}: {found.hint} {_BREAKS[found.judge]}: {found.share.short} of its cells are "
        f"right in rows that are filled in, {judged}; it is wrong most often in row {found.row} of "
        f"the worked solution, {column} ({found.place.right} of {found.place.total} right)."
    )


def regions(study: ProbeStudy) -> dict[str, list[SizeResult]]:
    """The sizes that are within the training range, and those that are not; no empty ones."""
    parts = {
        "in range": [size for size in study.measured if size.region == INSIDE],
        "beyond": [size for size in study.measured if size.region != INSIDE],
    }
    return {name: sizes for name, sizes in parts.items() if sizes}


def step_name(study: ProbeStudy, step: int) -> str:
    """What a step is called; "end", once no further one changes anything."""
    return "end" if study.settled and step == study.last else str(step)


def last_point(study: ProbeStudy) -> str:
    """The last point in words, like ``z_H after supervision step 8``."""
    if study.settled:
        return f"{study.main} when no step changes it any more"
    return f"{study.main} after {study.unit} {study.last}"


def curve(
    study: ProbeStudy, hint: str, sizes: Iterable[SizeResult], reader: str
) -> tuple[list[int], list[float]]:
    """The accuracy of a reader over steps, pooled over sizes: steps and shares."""
    name, sizes = study.main if reader == "head" else study.curve, list(sizes)
    points = [
        (step, pooled((size.at(hint, name, step) for size in sizes), reader))
        for step in study.steps
    ]
    known = [(step, value) for step, value in points if value is not None]
    return [step for step, _ in known], [value for _, value in known]
