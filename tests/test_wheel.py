"""The package as others get it: built as a wheel, installed, and run far from the sources.

Nothing is downloaded: the packages that it needs are those of the environment that runs the tests.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

PACKAGES = ("canvas", "augment", "trm")
WEIGHTS = "docs/models/trm-lattice-whole-seed0.safetensors"  # of the recursive transformer
PIP = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check"]
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))
} | {"OMP_NUM_THREADS": "1"}


def done(*words: object, folder: Path) -> str:
    """The output of a process that had to succeed."""
    ran = subprocess.run(
        [*map(str, words)], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(repository, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in (*PACKAGES, "configs"):
        shutil.copytree(repository / name, folder / "sources" / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, folder / "sources")
    (folder / "sources/docs/models").mkdir(parents=True)
    shutil.copy(repository / WEIGHTS, folder / "sources/docs/models")
    words = ("--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder)
    done(*PIP, "wheel", *words, folder / "sources", folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The programs of an environment into which the wheel is installed."""
    folder = tmp_path_factory.mktemp("installed")
    done(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    bin_ = folder / ("Scripts" if os.name == "nt" else "bin")
    words = ("--python", bin_ / "python", "install", "--no-deps", "--no-index", wheel)
    done(*PIP, *words, folder=folder)
    # Only now, as pip would take an installation of the sources for one to be replaced.
    own = done(bin_ / "python", "-c", "import trm; print(trm.__path__[0])", folder=folder)
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    Path(own.strip()).with_name("others.pth").write_text("\n".join(others))
    return bin_


def test_a_wheel_contains_modules_configs_and_two_models(repository, wheel):
    wanted = {
        file.relative_to(repository).as_posix()
        for package in PACKAGES
        for file in (repository / package).rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }
    configs = repository / "configs"
    wanted |= {f"trm/recipes/{f.relative_to(configs).as_posix()}" for f in configs.rglob("*.yaml")}
    wanted.add(f"trm/weights/{Path(WEIGHTS).name}")
    held = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted, "`packages` in pyproject.toml names every package"
    assert {f"{package}/py.typed" for package in PACKAGES} <= held


def test_commands_run_from_the_installed_wheel_with_its_configs(repository, installed, tmp_path):
    lines = "import sys, json, trm, canvas.drawing, augment; found = map(sys.modules.get, sys.argv)"
    lines += "; print(json.dumps([sys.path, [each.__path__[0] for each in found if each]]))"
    path, folders = json.loads(done(installed / "python", "-c", lines, *PACKAGES, folder=tmp_path))
    assert str(repository) not in path
    assert [Path(folder).name for folder in folders] == list(PACKAGES)
    assert all(Path(folder).is_relative_to(installed.parent) for folder in folders)
    version, configs, quickstart, models, solved = (
        done(installed / "trm", *words.split(), folder=tmp_path)
        for words in (
            *("--version", "configs", "configs quickstart", "models"),
            "solve --checkpoint trm-lattice-whole-seed0 --view random --quiet 12x34",
        )
    )
    assert version.startswith("trm ")
    assert len(configs.splitlines()) == len(list((repository / "configs").rglob("*.yaml")))
    assert models.startswith("Recursive transformers: ")
    assert all(name in models.split() for name in ("trm-lattice-whole-seed0", "lattice"))
    assert "12 x 34 = 408 (correct" in solved
    assert "run the command in the top folder of a checkout, or name a file" in models
    in_checkout = done(installed / "trm", "models", "--all", folder=repository)
    assert "\ncolumn-seed0 " in in_checkout
    assert "\ntrm-note-seed0 " in in_checkout
    assert quickstart == (repository / "configs/quickstart.yaml").read_text()
