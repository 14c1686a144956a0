"""Fixtures: the command `trm`, and a model that it trained for some steps."""

import contextlib
import gc
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from filelock import FileLock

from trm.commands import cli

REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True)
class Ran:
    """Output of a command."""

    out: str
    err: str


Command = Callable[..., Ran]
Once = Callable[[str, Callable[[Path], object]], Path]


os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait leave the core to others
gc.disable()  # what is imported stays, so collecting garbage meanwhile takes time for nothing


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what the tests make, not again and again at modules."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    import torch  # not above: the process that only hands tests to workers needs none

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Folder with the packages and configs."""
    return REPOSITORY


@pytest.fixture(scope="module")
def program(repository: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Function that imports a program of the folders `benchmarks` and `examples` by its name."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in ("benchmarks", "examples"):
            patch.syspath_prepend(repository / folder)
        yield importlib.import_module


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Working folder with `mine.py`, all own code of docs/extending.md; unloaded afterwards."""
    from trm.evaluation.diagnosis import KINDS

    kinds = dict(KINDS)
    text = (REPOSITORY / "docs/extending.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = [block for block in blocks if "class " in block or "KINDS" in block]
    assert len(code) == 7
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text("\n\n".join(code))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", sys.path.copy())
        patch.setattr(sys, "dont_write_bytecode", True)
        yield folder
    sys.modules.pop("mine", None)
    KINDS.clear()
    KINDS.update(kinds)


def _draw_nothing(*_: object, **__: object) -> None:
    pass


@pytest.fixture(scope="session")
def command() -> Command:
    """Function that runs `trm` in a folder like its console script, and checks the exit code.

    Runs draw pictures only with ``pictures=True``, as they take most of a short run's time.
    """

    def run(*words: object, folder: Path = Path(), pictures: bool = False, code: int = 0) -> Ran:
        arguments = [str(word) for word in words]
        if arguments and arguments[0] in cli.TRAINING:
            arguments.append("--quiet")
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.chdir(folder)
            patch.setattr("sys.argv", ["trm", *arguments])
            if not pictures and arguments and arguments[0] in (*cli.TRAINING, "sweep"):
                hook = "trm.training.tensorboard.Pictures.on_validation_batch_end"
                patch.setattr(hook, _draw_nothing)
            try:
                ended = cli.run(arguments)
            except SystemExit as stop:
                ended = stop.code
        assert ended == code, err.getvalue()
        return Ran(out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def undrawn(monkeypatch):
    """Pictures are empty files, and a pixel on TensorBoard: they take most of a command's time."""
    from matplotlib.figure import Figure

    saving = ("trm.figures.style", "trm.figures.grids", "trm.extras.sweep.report")
    for module in (*saving, "trm.commands.render", "trm.training.tensorboard"):
        importlib.import_module(module)  # first all: nothing must bind what is put in below
    for kind in ("lengths", "grid", "compared", "steps"):
        monkeypatch.setattr(f"trm.figures.grids.{kind}_figure", lambda grid: Figure())
    report = "trm.extras.sweep.report.study_figure"
    monkeypatch.setattr(report, lambda evaluations: Figure() if evaluations else None)
    for module in saving:
        monkeypatch.setattr(f"{module}.save", lambda figure, file: Path(file).touch())
    for module in ("canvas.picture", "trm.figures.grids"):
        monkeypatch.setattr(f"{module}.pixels", lambda figure: np.zeros((1, 1, 3), np.uint8))
    monkeypatch.setattr("canvas.picture.save_gif", lambda path, film: Path(path).touch())


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Function that makes a folder once for all workers of a session; tests must not change it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, part = shared / name, shared / f"{name}.part"
        with FileLock(shared / f"{name}.lock"):
            if not folder.exists():
                part.mkdir()
                make(part)
                part.rename(folder)
        return folder

    return made


@pytest.fixture(scope="session")
def trained(command: Command, once: Once) -> Path:
    """Folder with a run of `trm fit --config configs/debug.yaml`; tests must not change it."""

    def train(folder: Path) -> None:
        words = ("fit", "--config", REPOSITORY / "configs/debug.yaml")
        command(*words, folder=folder, pictures=True)

    return once("trained", train)


@pytest.fixture(scope="session")
def checkpoint(trained: Path) -> Path:
    """Best checkpoint of that run."""
    return trained / "runs/debug/version_0/checkpoints/best.ckpt"
