"""Drawn canvases, bit for bit, and answers of every saved model: no rewrite may change them.

The tables in `tests/reference/unchanged.json` were written once; `python -m tests.test_unchanged`
writes them anew, after a change that is meant.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.cells.drawn import draw_signals
from canvas.division import Division
from canvas.drawing import row_steps
from canvas.mazes import Maze
from canvas.modular import Modular
from canvas.sampling import sample
from canvas.sequences import sequences
from canvas.tasks import TASKS as TASK_KINDS
from trm import load_puzzle_solver, load_solver, solve
from trm.checkpoints import read_puzzle_format
from trm.checkpoints.content import unpack
from trm.io.puzzle_files import inputs_of

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests/reference/unchanged.json"
MODELS = ["trm/pretrained/lattice.safetensors"]
MODELS += sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/models/*.safetensors"))
PUZZLES = {
    "maze9": [
        "##########_______##_#####_##_#_____####_######G__#S__##_#####_##_______##########",
        "##########______G##_###_####___#_#S####_#_#_##___#_#_##_###_#_##___#___##########",
    ],
    "sudoku6": ["1...3.6..4.5.5............2..14163..", "1.3.45.4.3..456..1.............3...4"],
}
TASKS = {
    f"{name} base {base}": (kind, name, base)
    for kind in TASK_KINDS.values()
    for name in kind.layouts
    for base in ((2,) if kind in (Division, Modular) else (2, 3, 10))
}


def digest(*arrays: np.ndarray) -> str:
    """A hash of the arrays' shapes, types and contents."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def drawn(name: str) -> str:
    """Samples of each split on canvases, their row steps, sequences, and what cells decide."""
    kind, layout, base = TASKS[name]
    sizes = {"digits": (1, 4), "addends": (2, min(3, base))} if kind is Addition else {}
    sizes = sizes or {"digits_a": (1, 4), "digits_b": (1, 3)}
    task = kind(layout, base=base, long_bias=0.5, **sizes)
    parts: list[np.ndarray] = []
    for split in ("train", "validation", "test"):
        problems = sample(task, 3, split, 1, np.arange(40))
        size = 32 if kind in (Division, Modular) else 14  # high canvases
        drawing = task.canvas_layout.draw_worked(problems, size, 14)
        steps = row_steps(drawing)
        parts += [drawing.truth, drawing.given, steps.inputs, steps.labels, *sequences(drawing)]
        if (
            task.canvas_layout.local_rule is not None and layout != "column_carries"
        ):  # of two addends
            maps = draw_signals(task.local_rule(), drawing)
            parts += [maps[field] for field in sorted(maps)]
    return digest(*parts)


def answered(path: str) -> list[object]:
    """A model's answers to a held-out problem of its range and a longer one, and its confidence."""
    if read_puzzle_format(ROOT / path):
        return answered_puzzles(path)
    solver = load_solver(ROOT / path, device="cpu")
    noted = (unpack(ROOT / path)["card"] or {}).get("proof", {}).get("verdict", "")
    assert getattr(solver.predictor, "proved", False) == (noted == "proved")
    assert "outdated" not in solver.predictor.uncalibrated_reason  # else convert the file anew
    # 36 times the parameters of the others: one small problem
    lengths = (3, 1) if "trm-note" in path else None
    problems = sample(solver.task, 77, "test", 0, np.arange(1), lengths).to_ints()
    one_size = "multiplication-trm" in path
    if not one_size and "trm-note" not in path:
        longest = solver.task.longest[:2]
        longer = [n + max(1, n // 2) for n in longest]
        if isinstance(solver.task, Maze):
            longer = [15 * 15]
        problems += sample(solver.task, 78, "test", 0, np.arange(1), longer).to_ints()
    solutions = solve(problems, solver)
    answers = [str(solution.answer) for solution in solutions]
    sure = [round(float(solution.confidence), 3) for solution in solutions]
    return [answers, sure, digest(*(solution.canvas for solution in solutions))]


def answered_puzzles(path: str) -> list[object]:
    """A model's solutions of puzzles of its test split, in one view."""
    solver = load_puzzle_solver(ROOT / path, device="cpu")
    puzzles = PUZZLES[Path(path).name.partition("-")[0]]
    solved = solver.solve(inputs_of(puzzles, solver.format))
    sure = [round(float(one), 3) for one in solved.confidence]
    return [list(map(solver.format.to_text, solved.canvases)), sure, digest(solved.canvases)]


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, object]]:
    return json.loads(TABLE.read_text())


@pytest.mark.parametrize("name", TASKS)
def test_prompts_samples_and_signals_are_unchanged_bit_for_bit(name, table):
    assert drawn(name) == table["drawn"][name]


@pytest.mark.parametrize("path", MODELS)
def test_saved_models_answer_as_before_by_the_proofs_they_carry(path, table):
    answers, sure, canvases = answered(path)
    expected, expected_sure, expected_canvases = table["answered"][path]
    assert (answers, canvases) == (expected, expected_canvases)
    assert sure == pytest.approx(expected_sure, abs=2e-3)


if __name__ == "__main__":
    found = {
        "drawn": {name: drawn(name) for name in TASKS},
        "answered": {path: answered(path) for path in MODELS},
    }
    parts = (
        f"{json.dumps(part)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in of.items())
        + "\n}"
        for part, of in found.items()
    )
    TABLE.write_text("{\n" + ",\n".join(parts) + "\n}\n")  # a line for each
