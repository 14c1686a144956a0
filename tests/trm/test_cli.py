import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

import trm
from trm.commands import cli
from trm.commands.output import print_table

SUITE = "--suite multiply-v1 --up-to 2"


def test_the_package_has_a_version_and_is_typed(command, repository):
    ran = command("--version")
    assert ran.out.startswith(f"trm {version('canvas-trm')} (python 3.")
    assert f"torch {version('torch')}, lightning " in ran.out
    assert trm.__version__ == version("canvas-trm")
    for package in ("trm", "canvas", "augment"):
        assert (repository / package / "py.typed").exists()


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(command, name):
    assert f"usage: trm {name}" in command(name, "--help").out


@pytest.mark.parametrize(
    ("words", "listed"), [("", "solve "), ("analyse", "probe "), ("benchmark", "export ")]
)
def test_a_command_without_its_subcommand_prints_its_help(command, words, listed):
    ran = command(*words.split())
    assert ran.out == command(*words.split(), "--help").out
    assert f"\n    {listed}" in ran.out
    assert ran.err == ""


def test_a_call_is_read_before_anything_heavy_is_imported(tmp_path):
    """In a process of its own: here, everything has been imported long ago."""
    light = [
        "solve 123x456",  # of a proved model with its table
        "render 12x34",
        "models",
        f"benchmark export {SUITE} --output suite",
        f"benchmark score answers.jsonl {SUITE} --output out",
    ]
    calls = {
        "render": "12x3",
        "solve": "12x3 --views 4 --symmetries e,h",
        "prove": "--output proof --search 100",
        "inspect": "12x3 --output glass",
        "analyse": "probe --checkpoint C --output probed --digits-a 1..3 --steps 1..4,8",
        "evaluate": "--output grid --digits-a 1..3",
        "benchmark": "export --suite multiply-v1 --output suite",
        "convert": "runs/gpt ckpt.pt --to nanogpt",
        "report": "grid other --output compared",
        "configs": "quickstart",
        "models": "",
        "sweep": "studies/depth --output small --jobs 2",
    }
    wrong = [
        *("solve 12xy3", "solve 12x3 --checkpoint nowhere.ckpt", "fit", "configs nowhere"),
        *("solve 12x3 --checkpoint trm-quik-seed0", "report nowhere --output compared"),
        *("solve --input nowhere.csv --output answers.csv", "prove --check nowhere"),
        *("convert trm-quick-seed0 out.pt --to safetensors", "fit --config nowhere.yaml"),
        *("evaluate --checkpoint nowhere.ckpt --output grid", "sweep quickstart --output small"),
        *(
            "evaluate --digits 4 --output grid",
            "analyse heads --checkpoint lattice --length 3 --output h",
        ),
        f"benchmark score nowhere.jsonl {SUITE} --output scored",
    ]
    assert calls.keys() == cli.COMMANDS.keys()
    lines = f"""
import sys
from trm.commands import cli
from trm.commands.output import print_table
heavy = lambda: {{"torch", "lightning", "matplotlib"}} & set(sys.modules)
for name, words in {calls!r}.items():
    cli.parser_of(name).parse_args(words.split())
    assert not heavy(), name
for words in {wrong!r}:
    assert cli.run(words.split()) == 2, words
    assert not heavy(), words
for words in {light!r}:  # with pictures, and without PyTorch
    assert cli.run(words.split()) == 0, words
    assert "torch" not in sys.modules
"""
    answer = '{"id": "multiply-v1/1x1/000", "prediction": "1"}'
    (tmp_path / "answers.jsonl").write_text(answer)
    how = {"capture_output": True, "text": True, "cwd": tmp_path}
    ran = subprocess.run([sys.executable, "-c", lines], **how)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("render", "12x3", "--output", "canvas.png"),
        ("inspect", "--export", "weights.safetensors", "--checkpoint"),
        ("fit", "--trainer.max_epochs", 1, "--config"),
    ],
)
def test_quiet_prints_results_alone(command, repository, checkpoint, tmp_path, words):
    last = {"inspect": [checkpoint], "fit": [repository / "configs/debug.yaml"]}
    ran = command(*words, *last.get(words[0], []), "-q", folder=tmp_path)
    assert ran.out == ran.err == ""


def test_verbose_prints_progress_and_the_place_of_an_error(command):
    plain, told = (command("solve", "-q", "12x34", *more) for more in ((), ("--verbose",)))
    assert plain.err == ""
    assert "Multiplication(layout='lattice', base=10" in told.err
    assert told.out == plain.out
    assert command("solve", "-q", "12x34").err == ""  # nothing of it stays
    plain, told = (command("solve", "12y34", *more, code=2) for more in ((), ("-v",)))
    assert "Traceback" not in plain.err
    assert "Traceback (most recent call last)" in told.err
    assert told.err.endswith(plain.err)


@pytest.mark.skipif(os.name == "nt", reason="Windows does not remove a folder in use")
@pytest.mark.parametrize("words", ["solve 12x3", "fit --config debug", "models"])
def test_a_working_folder_that_was_removed_is_named(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.run(words.split()) == 2
    assert "is not there any more: change to another" in capsys.readouterr().err


def test_missing_packages_are_named_with_a_remedy(command, monkeypatch):
    monkeypatch.setattr("trm.training.cli._PARSERS", {})  # as in a new process
    monkeypatch.setitem(sys.modules, "lightning", None)  # importing it fails
    # With pictures: without them, lightning is imported before.
    ran = command("fit", "--config", "debug", pictures=True, code=1)
    assert "import of lightning" in ran.err
    assert "`python -m pip check` lists what is missing" in ran.err


@pytest.mark.parametrize("named", [True, False], ids=["", "Windows"])
@pytest.mark.parametrize("words", ["configs quickstart", "solve 12x3"])  # by print, by Rich
def test_a_closed_pipe_ends_a_command_without_an_error(words, named, monkeypatch):
    if not named:
        monkeypatch.delattr(signal, "SIGPIPE")
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert cli.run(words.split()) == 128 + 13


def test_no_number_of_a_table_is_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    print_table([f"figure {i}" for i in range(12)], [[f"{i}.00 %" for i in range(12)]])
    out = capsys.readouterr().out
    assert "…" not in out
    assert {f"{i}.00" for i in range(12)} <= set(out.split())
