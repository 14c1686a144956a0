"""A program as people run it: the Python file that is written."""

from collections.abc import Callable

import numpy as np
import pytest

from canvas.symbols import decode, encode
from trm.cells.proof.program import CellProgram, write_python


@pytest.fixture
def work() -> Callable[[CellProgram, np.ndarray], np.ndarray]:
    """Works pages out by the written program, uint8 [B, H, W] to the same."""
    modules: list[tuple[CellProgram, dict]] = []  # of programs that ran before

    def work_out(program: CellProgram, tokens: np.ndarray) -> np.ndarray:
        module = next((module for known, module in modules if known is program), None)
        if module is None:
            exec(write_python(program), module := {})
            modules.append((program, module))
        pages = [module["work"]([decode(row) for row in page]) for page in tokens]
        return np.array([[encode(row) for row in page] for page in pages])

    return work_out
