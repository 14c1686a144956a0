"""`trm doctor` and `trm completion`: small things that people expect."""

import shutil
import subprocess
import sys

import pytest

from trm import checkpoints
from trm.cli import COMMANDS, TRAINING
from trm.commands import doctor


def test_a_sound_installation_lacks_nothing(command):
    ran = command("doctor")
    assert ran.code == 0, ran.err
    for told in ("python", "torch", "lightning", "cpu", "compile", "Nothing is missing."):
        assert told in ran.out


def test_it_looks_for_what_the_package_says_it_needs():
    assert {"torch", "lightning", "numpy", "pyyaml"} <= set(doctor.needed())
    assert not {"pytest", "mypy"} & set(doctor.needed())


def test_what_is_missing_is_named_with_what_to_do(command, monkeypatch):
    monkeypatch.setattr(doctor, "needed", lambda: ["torch", "no-such-package"])
    ran = command("doctor")
    assert ran.code == 1
    assert "no-such-package is not installed: pip install no-such-package" in ran.out
    assert "Nothing is missing" not in ran.out


def test_a_missing_model_is_named(command, monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints, "SHIPPED", tmp_path / "gone.safetensors")
    ran = command("doctor")
    assert ran.code == 1
    assert "gone.safetensors" in ran.out


@pytest.mark.parametrize("module", ["torch", "lightning"])
def test_a_framework_that_cannot_be_imported_is_named_too(command, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)  # importing it fails
    ran = command("doctor")
    assert ran.code == 1
    assert f"{module} is installed and cannot be imported" in ran.out


def test_other_commands_send_there_when_they_lack_something(command, monkeypatch):
    monkeypatch.delitem(sys.modules, "shtab", raising=False)
    monkeypatch.setitem(sys.modules, "shtab", None)
    ran = command("completion", "bash")
    assert ran.code == 1
    assert "shtab" in ran.err
    assert "`trm doctor` tells what is missing" in ran.err


def test_it_starts_where_nothing_but_python_is_installed():
    """In a process of its own: here, everything has been imported long ago."""
    lines = f"""
import sys
sys.modules.update(dict.fromkeys({[*doctor.needed(), "yaml", "PIL"]!r}))
from trm.cli import run
sys.exit(run(["doctor"]))
"""
    ran = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    assert "torch is installed and cannot be imported" in ran.stdout
    assert "shipped model" in ran.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_and_their_options(command, tmp_path):
    script = tmp_path / "trm.bash"
    script.write_text(command("completion", "bash").out)

    def completed(*words: str) -> set[str]:
        line = " ".join(repr(word) for word in ("trm", *words))
        asked = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _shtab_trm trm {words[-1]!r}"
        shown = f"source {script}; {asked}"
        ran = subprocess.run(
            ["bash", "-c", shown + r'; printf "%s\n" "${COMPREPLY[@]}"'],
            capture_output=True,
            text=True,
        )
        return set(ran.stdout.split())

    assert completed("insp") == {"inspect"}
    assert {*COMMANDS, *TRAINING} <= completed("")
    assert {"--config", "--quiet", "--verbose"} <= completed("fit", "--")
    assert {"--views", "--vote", "--input"} <= completed("solve", "--")
    assert {"--config", "--ckpt_path"} <= completed("fit", "--")
