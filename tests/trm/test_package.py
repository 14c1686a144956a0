"""The package as it is imported, in processes of their own: here, it was long ago."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("canvas", "augment")
WAYS = {
    "console script": [str(Path(sys.executable).with_name("trm"))],
    "module": [sys.executable, "-m", "trm"],
    "import": [sys.executable, "-c", "from trm.cli import main; main()"],
}


def python(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def working_folder(tmp_path):
    """In which a file and a package are called as this project's packages are."""
    (tmp_path / "canvas.py").write_text("raise AssertionError('the wrong one')")
    (tmp_path / "augment").mkdir()
    (tmp_path / "augment/__init__.py").write_text("raise AssertionError('the wrong one')")
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", ["", "."])
def test_a_users_own_canvas_is_not_taken_for_the_package(working_folder, way, path):
    ran = python(*WAYS[way], "render", "12x3", folder=working_folder, PYTHONPATH=path)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("first", ["trm", "canvas, augment"])
def test_the_packages_are_imported_once_in_any_order(tmp_path, first):
    lines = "import trm.cli, canvas.choices as c; assert trm.cli.did_you_mean is c.did_you_mean"
    ran = python(sys.executable, "-c", f"import {first}; {lines}", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_another_module_that_was_imported_before_is_named(tmp_path, name):
    (tmp_path / f"{name}.py").write_text("")
    ran = python(sys.executable, "-c", f"import {name}, trm", folder=tmp_path)
    assert ran.returncode == 1
    told = ran.stderr.splitlines()[-1]
    assert told.startswith(f"ImportError: trm needs its own package {name}, and another module")
    assert f"{name}.py" in told
