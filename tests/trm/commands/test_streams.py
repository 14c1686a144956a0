"""Output in encodings that lack some characters: similar ones stand there, and answers stay."""

import io
import json
import locale
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import NoReturn

import pytest
from forked import forked

from trm.batch import Summary
from trm.commands import cli
from trm.commands.streams import write_similar_characters
from trm.runtime.progress import progress, report
from trm.training.callbacks import Lines


@contextmanager
def in_encoding(encoding: str) -> Iterator[list[io.TextIOWrapper]]:
    """Put other streams in place of standard output and standard error."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        yield streams


def written(encoding: str, text: str) -> bytes:
    """Text on standard output; standard error is treated in the same way."""
    with in_encoding(encoding) as streams:
        write_similar_characters()
        for stream in (sys.stdout, sys.stderr):
            print(text, end="", file=stream, flush=True)
    out, err = (stream.buffer.getvalue() for stream in streams)
    assert out == err
    return out


@pytest.mark.parametrize(
    ("encoding", "text", "there"),
    [
        ("ascii", "✓ 12 × 34 · −5 … é", b"ok 12 x 34 . -5 ... e"),
        ("cp1252", "✓ 12 × 34 · é", "ok 12 × 34 · é".encode("cp1252")),
        ("ascii", "漢", b"\\u6f22"),
        ("utf-8", "✓ ×", "✓ ×".encode()),
    ],
)
def test_similar_characters_or_escapes_stand_for_missing_ones(encoding, text, there):
    assert written(encoding, text) == there


def test_records_are_escaped_where_characters_may_be_missing():
    record = {"correct": True, "error": None, "in_range": True, "name": "é×"}
    for encoding, there in (
        ("ascii", b"\\u00e9\\u00d7"),
        ("cp1252", b"\\u00e9"),
        ("utf-8", b"\xc3"),
    ):
        sink = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        Summary().write(sink, [record])
        sink.flush()
        assert there in sink.buffer.getvalue()
        assert json.loads(sink.buffer.getvalue()) == record


@pytest.mark.parametrize(
    ("encoding", "words", "there"),
    [
        ("ascii", "render 12x34 --step 1", "3  4"),
        ("ascii", "solve 12x34", "12 x 34 = 408 (correct; confidence 100.0%)"),
        ("cp1252", "inspect --help", "usage: trm inspect"),
        ("cp437", "configs quickstart", "model:"),
        ("ascii", "--help", "usage: trm COMMAND"),
    ],
)
def test_commands_print_their_results_in_any_encoding(encoding, words, there):
    with in_encoding(encoding) as streams:
        try:
            assert cli.run(words.split()) == 0
        except SystemExit as stop:  # after a help text
            assert stop.code == 0  # noqa: PT017
        for stream in streams:
            stream.flush()
    assert there in streams[0].buffer.getvalue().decode(encoding)
    assert streams[1].buffer.getvalue() == b""


@pytest.mark.parametrize("how", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}], ids=str)
def test_an_error_is_a_sentence_in_any_encoding(how, repository):
    environment = os.environ | {"PYTHONPATH": str(repository)} | how
    words = [sys.executable, "-m", "trm", "render", "12×34", "--layout", "l×ttice"]
    ran = subprocess.run(words, env=environment, capture_output=True)
    assert ran.returncode == 2
    assert b"Did you mean lattice?" in ran.stderr
    assert b"Traceback" not in ran.stderr


@pytest.mark.skipif(os.name == "nt", reason="closes streams by a shell")
def test_a_closed_stream_changes_no_output(repository, tmp_path):
    (tmp_path / "problems.csv").write_text("a,b\n12,34\n")
    words = "-m trm solve --input problems.csv --output - >answers.jsonl 2>&-"
    environment = os.environ | {"PYTHONPATH": str(repository)}
    how = {"env": environment, "cwd": tmp_path}
    assert subprocess.run(["sh", "-c", f"{sys.executable} {words}"], **how).returncode == 0
    assert json.loads((tmp_path / "answers.jsonl").read_text())["answer"] == "408"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the process is a fork")
def test_closed_streams_change_no_file(tmp_path, monkeypatch):
    """Services and pythonw close streams; libraries may open files by their numbers."""
    (tmp_path / "problems.csv").write_text("a,b\n12,34\n")
    monkeypatch.chdir(tmp_path)

    def without_streams() -> NoReturn:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.close(number)
            setattr(sys, name, None)
        sys.argv = ["trm", "solve", "--input", "problems.csv", "--output", "answers.jsonl"]
        cli.main()

    assert forked(without_streams, 1) == [0]
    assert json.loads((tmp_path / "answers.jsonl").read_text())["answer"] == "408"


def test_streams_that_are_none_fail_nowhere(monkeypatch):
    """In Python, where no command has opened them."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with progress():
        report("cells", 1, 2)
    disabled: list[bool] = []
    bar = SimpleNamespace(disable=lambda: disabled.append(True))
    Lines().setup(SimpleNamespace(progress_bar_callback=bar))
    assert disabled


def test_pictures_need_no_backend(repository, tmp_path):
    """A notebook's commands inherit that of the notebook, whose package they may lack."""
    backend = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    environment = os.environ | {"PYTHONPATH": str(repository)} | backend
    words = [sys.executable, "-m", "trm", "render", "12x3", "--output", "1.png"]
    ran = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    assert list(tmp_path.glob("*.png"))


@pytest.fixture
def ascii_system():
    """The C locale, in which Python opens files as ASCII unless an encoding is given."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    yield
    locale.setlocale(locale.LC_CTYPE, before)


@pytest.mark.skipif(os.name == "nt", reason="has another way to say it")
@pytest.mark.usefixtures("ascii_system")
def test_files_are_utf8_in_any_encoding_of_the_system(command, tmp_path):
    """Windows has files in cp1252 unless an encoding is given; here ASCII stands for that."""
    (tmp_path / "problems.csv").write_text("a,b,name\n12,34,café\n", encoding="utf-8")
    with pytest.raises(UnicodeDecodeError):
        (tmp_path / "problems.csv").read_text()
    for words, file, there in (
        ("solve --input problems.csv --output answers.csv", "answers.csv", "café"),
        ("render 12x34 --output canvas.svg", "canvas.svg", "<svg"),
        ("inspect --export page.html", "page.html", "×"),
    ):
        command(*words.split(), folder=tmp_path)
        assert there in (tmp_path / file).read_text(encoding="utf-8")
