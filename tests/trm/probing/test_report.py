"""A study in words."""

import io
from dataclasses import replace

from rich.console import Console

from trm.probing.report import first_error, print_study
from trm.probing.results import Count, FirstError, ProbeStudy


def printed(study: ProbeStudy) -> str:
    out = io.StringIO()
    print_study(Console(file=out, width=200), study)
    return out.getvalue()


def test_every_sub_task_size_and_step_is_told(study: ProbeStudy):
    text = printed(study)
    for word in (*study.hints, "2 x 2 digits", "3 x 2 digits", "in range", "beyond"):
        assert word in text
    for word in ("trained head", "control", "selectivity", "majority", "compositionality", "gap"):
        assert word in text
    assert "1 x 1 digits: not probed, as no problem of 1 x 1 digits" in text
    assert "the model solves with up to 4. Name 4 in --steps" in text
    assert "held-out problems" in text


def test_without_heads_there_is_no_line_for_them(study: ProbeStudy):
    sizes = [
        replace(size, readings=[replace(r, head=None) for r in size.readings])
        for size in study.sizes
    ]
    assert "trained head" not in printed(replace(study, sizes=sizes))


def test_what_breaks_first_is_a_sentence(study: ProbeStudy):
    size = study.measured[0]
    error = FirstError("head", "sum", Count(912, 1000, 0.9, 0.93), 7, 3, Count(20, 32, 0.4, 0.8))
    assert first_error(replace(size, first_error=error)) == (
        "2 x 2 digits: sum breaks first: 91.2 % (90.0–93.0) of its cells in the working row are "
        "right, judged by the model's own heads; it is wrong most often in row 7 of the working, "
        "column 3 from its right end (20 of 32 right)."
    )
    read = first_error(replace(size, first_error=replace(error, judge="probe")))
    assert read.startswith("2 x 2 digits: sum is read worst: 91.2 %")
    outside = first_error(replace(size, first_error=replace(error, column=0)))
    assert "column 1 right of its end" in outside
    none = first_error(replace(size, first_error=FirstError("head", "")))
    assert none.endswith(
        "no sub-task has a wrong cell in the working row, judged by the model's own heads."
    )
