"""Progress of long work: a bar on a terminal, and a line a minute elsewhere."""

import io
import sys

import pytest

from trm.runtime.progress import Meter, listening, part, progress, report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_that_disappears_at_the_end(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with progress():
        report("cells", 3, 10)
        report("cells", 10, 10)
        report("rows", 0, 2)
    shown = screen.getvalue()
    assert "rows" in shown
    assert "0/2" in shown
    assert shown.endswith(("\x1b[2K", "\x1b[?25h"))  # the line is erased, the cursor is back
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("quiet", "stream"), [(True, Terminal()), (False, io.StringIO())])
def test_quiet_and_short_calls_say_nothing_in_a_log(quiet, stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as notebooks do
    with progress(quiet):
        report("cells", 3, 10)
    assert stream.getvalue() == ""


def test_the_time_left_is_estimated_from_rare_reports_too(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    now = 0.0
    monkeypatch.setattr("rich.console.monotonic", lambda: now)
    monkeypatch.setattr("trm.runtime.progress.time.monotonic", lambda: now)
    with progress():
        for done in range(4):
            now = 100.0 * done
            report("rows", done, 5)
    assert "0:03:20" in screen.getvalue()  # two rows are left


def test_a_bar_that_moves_often_is_drawn_ten_times_a_second(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    drawn = []
    monkeypatch.setattr("rich.progress.Progress.update", lambda *_, **how: drawn.append(how))
    monkeypatch.setattr("trm.runtime.progress.time.monotonic", lambda: 100.0)
    with progress():
        for done in range(1001):
            report("cells", done, 1000)
    assert [one["completed"] for one in drawn] == [0, 1000]


def recorded(meter: Meter) -> list[float]:
    seen: list[float] = []
    meter.report = lambda what, done, total: seen.append((what, round(done, 6), total))
    return seen


def test_a_meter_moves_within_an_item_by_the_outer_reports():
    meter = Meter("cells", 4)
    seen = recorded(meter)
    with meter.part(1, 2, 4), meter.part(1, 2, 2):  # the second half of the second cell
        for row in range(2):
            meter("rows", row, 2)
            for token in range(3):
                meter("tokens", token, 3)  # of the row
    assert seen == [("cells", done, 4) for done in (1, 1.5, 1.5, 1.75)]
    with meter.part(2, 3, 4):
        meter("tokens", 1, 2)
    assert seen[-2:] == [("cells", 2, 4), ("cells", 2.5, 4)]


def test_a_meter_never_falls_when_parts_report():
    meter = Meter("cells")
    seen = recorded(meter)
    with listening(meter):
        report("rows", 1, 2)
        with part(0, 1, 8):
            report("rows", 1, 4)
            report("tokens", 1, 1)
        report("rows", 3, 4)
    assert [done for _, done, _ in seen] == [0.5, 0.5, 0.75]
    with part(0, 1, 2):  # without a meter there are no parts
        pass


def test_solving_inside_of_a_stage_does_not_report():
    seen = []
    with listening(lambda *state: seen.append(state)):
        report("rows", 0, 2, solving=True)
        report("fitting probes", 0, 1)
        report("rows", 1, 2, solving=True)
    report("rows", 2, 2, solving=True)  # nobody listens
    assert seen == [("rows", 0, 2), ("fitting probes", 0, 1)]


def test_without_a_terminal_there_is_a_line_a_minute(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr("trm.runtime.progress.time.monotonic", lambda: now)
    for quiet in (True, False):
        meter = Meter("cells", 25)
        with progress(quiet) as meter.report, listening(meter):
            for done in range(100):
                now += 20
                with meter.part(done, done + 1, 100):
                    report("rows", 0, 1, solving=True)
    said = capsys.readouterr()
    times, counts = zip(*(line.split("  ") for line in said.err.splitlines()), strict=True)
    assert counts[:3] == ("cells: 0 of 25 (2%)", "cells: 1 of 25 (5%)", "cells: 2 of 25 (8%)")
    assert len(counts) == 33  # 2,000 seconds
    assert all(time.count(":") == 2 for time in times)
    assert said.out == ""


def test_a_closed_standard_error_gets_no_lines(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    with progress(lines="trm prove"):
        report("judging", 0, 1)
    assert capsys.readouterr().out == ""


def test_without_a_terminal_each_part_is_named_once_if_wanted(capsys):
    for quiet in (False, True):
        with progress(quiet, "trm prove"):
            report("rows", 0, 1, solving=True)
            for what in ("judging", "judging", "exploring"):
                report(what, 0, 1)
    assert capsys.readouterr().err == "trm prove: judging\ntrm prove: exploring\n"
