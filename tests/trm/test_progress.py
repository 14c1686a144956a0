"""Progress of long work: a bar on a terminal, and nothing elsewhere."""

import io
import sys

import pytest

from trm.progress import progress, silent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_what_is_done_and_the_bar_goes_away(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with progress() as report:
        report("cells", 3, 10)
        report("cells", 10, 10)
        report("rows", 0, 2)
    shown = screen.getvalue()
    assert "rows" in shown
    assert "0/2" in shown
    assert shown.endswith(("\x1b[2K", "\x1b[?25h"))  # the line is erased, the cursor is back
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("quiet", "stream"), [(True, Terminal()), (False, io.StringIO())])
def test_quiet_calls_and_streams_that_are_no_terminal_stay_clean(quiet, stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(quiet) as report:
        assert report is silent
        report("cells", 3, 10)
    assert stream.getvalue() == ""
