"""Programs of the folder `benchmarks`, as modules."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def program(repository: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Function that imports a program by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(repository / "benchmarks")
        yield importlib.import_module
