"""The package as it is imported, in processes of their own: here, it was long ago."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WAYS = {
    "console script": [str(Path(sys.executable).with_name("trm"))],
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
def test_a_users_own_canvas_is_not_taken_for_the_package(working_folder, way):
    ran = python(*WAYS[way], "render", "12x3", folder=working_folder, PYTHONPATH=".")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_another_module_that_was_imported_before_is_named(tmp_path):
    (tmp_path / "augment.py").write_text("")
    ran = python(sys.executable, "-c", "import augment, trm", folder=tmp_path)
    assert ran.returncode == 1
    told = ran.stderr.splitlines()[-1]
    assert told.startswith("ImportError: trm needs its own package augment, and another module")
    assert "augment.py" in told
