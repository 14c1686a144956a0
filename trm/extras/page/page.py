"""One HTML file with cell models, which solve problems in a browser, cell by cell.

It is `page.html` with its style, its scripts, and the data about the models that `model.js` needs.
"""

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from augment.symmetry import SYMMETRIES
from canvas.cells.spec import NEIGHBOUR_NAMES, NEIGHBOURS
from canvas.symbols import ALL_CHARACTERS, DIVIDED, MINUS, MODULO, PLUS, TIMES
from trm.cells.integer import IntegerCellModel
from trm.cells.model import CellModel
from trm.cells.proof.notes import with_new_keys
from trm.checkpoints.names import results
from trm.solving.puzzles import PuzzleSolver
from trm.solving.solver import Solver


class Shown(NamedTuple):
    """A model of a web page."""

    name: str  # shown in the list of models
    solver: Solver | PuzzleSolver  # of cell models alone a page is written
    # By name; written as float32, for which the model is proved, or as integers.
    weights: dict[str, Tensor]
    card: dict[str, Any]  # of an exported file; contains the proof if there is one


def page(models: Sequence[Shown]) -> str:
    """Return the file's text; the first model is selected at first.

    Raises:
        ValueError: a model is of another kind, or its layout does not belong to this package.
    """
    about = {
        "symbols": ALL_CHARACTERS,
        "views": [*SYMMETRIES.items()],
        "models": [_about(model) for model in models],
    }
    text = _read("page.html").replace("{}", json.dumps(about).replace("<", "\\u003c"))
    style = '<link rel="stylesheet" href="page.css">'
    text = text.replace(style, f"<style>\n{_read('page.css')}</style>")
    script = r'<script src="(.+)"></script>'
    return re.sub(script, lambda found: f"<script>\n{_read(found[1])}</script>", text)


_NO_PAGE = (
    "a web page shows models whose cells pass decided messages, in a layout of whole numbers of "
    "this package, such as those of `trm fit --config quickstart`"
)
_SIGNS = (TIMES, PLUS, MINUS, DIVIDED, MODULO)


def _about(shown: Shown) -> dict[str, Any]:
    """Return the data that the scripts need about a model."""
    solver = shown.solver
    model = getattr(solver.predictor, "model", None)
    if isinstance(solver, PuzzleSolver) or not isinstance(model, CellModel):
        raise ValueError(f"{_NO_PAGE}: {shown.name} is none")
    task = solver.task
    layout, base = task.canvas_layout, task.base
    if not type(layout).__module__.startswith("canvas.") or layout.sign not in _SIGNS:
        raise ValueError(f"{_NO_PAGE}: {shown.name} is none")
    fewest, most = task.arity
    lengths = ((1,) * fewest, (1,) * (fewest - 1) + (2,) if fewest == most else (1,) * (fewest + 1))
    rule = task.local_rule(latent=bool(model.config.codes))
    ops = zip(model.encoding.ops, model.encoding.inputs, strict=True)
    stored = {**shown.weights, **model.plain_weights()}
    integers = model.integers() if isinstance(model, IntegerCellModel) else None
    weights, dtype = (stored, "<f4") if integers is None else (integers, "<i4")
    tensors = {
        name: (part.float() if integers is None else part).numpy() for name, part in weights.items()
    }
    return {
        "name": shown.name,
        "config": asdict(model.config),
        "layout": layout.name,
        "base": base,
        "sign": "" if layout.sign is None else ALL_CHARACTERS[layout.sign],
        "operands": [fewest, min(most, rule.most_operands or most)],
        "heights": [layout.room(each, base)[0] for each in lengths],
        "ranges": [task.ranges[axis] for axis in task.grids[0]],
        "outputs": [*model.outputs.items()],
        "codes": [*model.config.codes],
        "directions": [
            {
                "name": NEIGHBOUR_NAMES[direction],
                "step": NEIGHBOURS.get(direction),
                "signals": signals,
            }
            for direction, signals in model.encoding.directions.items()
        ],
        "ops": [{"outputs": op.outputs, "inputs": op.inputs, "of": of} for op, of in ops],
        "parameters": model.num_parameters,
        "trained": solver.trained_on,
        "results": results(shown.card),
        "proof": with_new_keys(shown.card.get("proof") or {}) or None,
        "integers": integers is not None,
        "weights": [
            (n, base64.b64encode(part.astype(dtype).tobytes()).decode())
            for n, part in tensors.items()
        ],
    }


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
