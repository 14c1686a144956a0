from importlib.metadata import version

import pytest

from trm import cli


def test_the_version_is_the_packages(command):
    ran = command("--version")
    assert (ran.code, ran.out) == (0, f"trm {version('canvas-trm')}\n")


def test_the_help_lists_every_command_with_what_it_does(command):
    ran = command("--help")
    assert ran.code == 0
    words = " ".join(ran.out.split())
    lines = cli.TRAINING | {name: line for name, (_, line) in cli.COMMANDS.items()}
    for name, line in lines.items():
        assert f"{name} {line}" in words


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(command, name):
    ran = command(name, "--help")
    assert ran.code == 0
    assert f"usage: trm {name}" in ran.out


def test_training_explains_its_keys(command):
    ran = command("fit", "--help")
    assert ran.code == 0
    for key in ("--data.task.digits_a", "--data.canvas.margin", "--checkpoint.monitor"):
        assert key in ran.out


@pytest.mark.parametrize("words", [["multiply"], [], ["--frobnicate"], ["Render", "1x2"]])
def test_anything_else_is_refused_with_exit_code_2(command, words):
    ran = command(*words)
    assert ran.code == 2
    assert "usage: trm" in ran.err
