"""A program in place of a network: it solves as a model does, and is never in doubt."""

from pathlib import Path

import numpy as np

from canvas.canvas_size import Canvas
from canvas.choices import check_imported
from canvas.render import Drawing
from canvas.tasks import TASKS, task_class
from trm.checkpoints.loading import restored
from trm.files import read_object
from trm.proof.program import Program
from trm.proof.proof import RECORD
from trm.solving.rollout import OnRow, Prediction, Predictor, Rollout
from trm.solving.solver import Solver


class ProgramPredictor(Predictor):
    """Works out whole pages, all rows at once."""

    translation_invariant = in_order = proved = True

    def __init__(self, program: Program):
        self.model = program

    @property
    def device(self) -> str:
        return "cpu"

    def accepts(self, height: int, width: int) -> bool:
        return True

    def pairs(self, height: int, width: int) -> int:
        return 3 * height * width

    def __call__(self, inputs: np.ndarray, log_probs: bool = False) -> Prediction:
        raise ValueError("a program works out whole pages, and no single row")

    def free_running(self, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
        """See `Predictor`."""
        rollout = Rollout.begun(drawing)
        rollout.canvases[:] = self.model.solve(drawing.masked)
        return rollout  # certain of every row


def load_program(path: str | Path) -> Solver:
    """A solver from the folder of a proof, or from its table alone.

    Raises:
        FileNotFoundError, ValueError: there is no such table.
    """
    program = Program.load(path)
    record = read_object(Path(path) / RECORD) if Path(path).is_dir() else None
    settings = dict((record or {}).get("task", {}))
    if name := settings.pop("task", None):
        check_imported(name, "task", ("canvas", "trm"))
        task = restored(task_class(name), settings)
    else:
        kind = next((kind for kind in TASKS.values() if program.layout in kind.layouts), None)
        if kind is None:
            raise ValueError(
                f"{path} is of the layout {program.layout}, and does not say of which task: name "
                "the folder of the proof"
            )
        task = kind(layout=program.layout, base=program.base)  # type: ignore[call-arg]
    return Solver(ProgramPredictor(program), task, Canvas())
