"""From a checkpoint that was trained on arrays of puzzles to a solver."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY, find_checkpoint, read_puzzle_format
from trm.checkpoints.content import network_weights, read_checkpoint, with_tensors
from trm.checkpoints.loading import checked_symmetries, load_solver, restored
from trm.io.puzzle_format import PuzzleFormat
from trm.runtime.limits import MOST_STEPS, check_whole

if TYPE_CHECKING:
    from trm.solving.puzzles import PuzzleSolver
    from trm.solving.solver import Solver
    from trm.solving.voting import Voting


def load_any(path: str | Path, device: str = "auto") -> "Solver | PuzzleSolver":
    """Load a model of a task or of puzzles, see `load_solver` and `load_puzzle_solver`.

    Args:
        path: as there.
        device: as there.
    """
    load = load_puzzle_solver if read_puzzle_format(path) else load_solver
    return load(path, device=device)


def puzzle_format(path: str | Path) -> PuzzleFormat:
    """Return the canvas and the symbols of a checkpoint's puzzles, without PyTorch.

    Raises:
        ValueError: the file does not describe them.
    """
    try:
        return restored(PuzzleFormat, read_puzzle_format(path))
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{path} does not describe its puzzles ({error})") from None


def load_puzzle_solver(
    path: str | Path,
    steps: int | None = None,
    device: str = "auto",
    voting: "Voting | None" = None,
    surest: int | None = None,
) -> "PuzzleSolver":
    """Load a model that was trained on arrays of puzzles.

    Args:
        path: the file of a checkpoint; the folder of a run, which loads its best one; or a name
            that `trm models` lists.
        steps: highest number of supervision steps; None: that of the checkpoint.
        device: like cpu or cuda:1; `auto` uses an accelerator if there is one.
        voting: number of views of a puzzle, and how they vote; None: one view.
        surest: cells written at a time, the surest first, see `trm.solving.surest`; None: all.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or no checkpoint of puzzles, or the model cannot use such views.
    """
    from trm.checkpoints.networks import fitting, predictor_of, to_device
    from trm.solving.puzzles import PuzzleSolver

    check_whole("steps", steps, 1, MOST_STEPS)
    path = find_checkpoint(path)
    content: dict[str, Any] = with_tensors(read_checkpoint(path))
    about, data = content[CHECKPOINT_KEY], content[DATA_KEY]
    if "puzzles" not in data:
        raise ValueError(
            f"{path} was trained on arithmetic, not on arrays of puzzles: take a checkpoint of "
            "trm.training.PuzzleModule, such as of `trm fit --config puzzles/sudoku4`"
        )
    with fitting(path):
        form = restored(PuzzleFormat, data["puzzles"])
        found = predictor_of(about, network_weights(content), steps)
        predictor: Any = found.with_options(unknown=form.unknown_cells)
        symmetries, shifted = checked_symmetries(data), bool(data.get("shifted"))
    to_device(predictor.model.eval(), device)
    return PuzzleSolver(predictor, form, symmetries, shifted, voting, path.absolute(), surest)
