"""`trm doctor` and `trm completion`: small things that people expect."""

import shutil
import subprocess

import pytest

from trm.cli import COMMANDS, TRAINING
from trm.commands import doctor


def test_a_sound_installation_lacks_nothing(command):
    ran = command("doctor")
    assert ran.code == 0, ran.err
    for told in ("python", "torch", "lightning", "cpu", "compile", "Nothing is missing."):
        assert told in ran.out


def test_what_is_missing_is_named_with_what_to_do(command, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_PACKAGES", ("torch", "no-such-package"))
    monkeypatch.setattr(doctor, "SHIPPED", tmp_path / "gone.safetensors")
    ran = command("doctor")
    assert ran.code == 1
    assert "pip install no-such-package" in ran.out
    assert "gone.safetensors" in ran.out


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
