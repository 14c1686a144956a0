"""The family of cell models, as `trm.registry` names it."""

from typing import Any

from trm.cells.model import CellModel
from trm.cells.predictor import CellPredictor
from trm.solving.families import (
    CELL_STATES,
    NANOGPT_WEIGHTS,
    NO_NANOGPT,
    NO_TRM,
    TRM_WEIGHTS,
    Family,
)
from trm.solving.predictor import Predictor


def _predictor(model: Any, about: dict[str, Any], steps: int | None) -> Predictor:
    return CellPredictor(model, max_steps=steps)


FAMILY = Family(
    "cell",
    CellModel,
    predictor=_predictor,
    lacks={
        CELL_STATES: "the cells of a cell model read decided messages of their neighbours, not "
        "their states, so that there are no states to probe, to patch or to compare: "
        "`trm prove` lists the inputs that each of its outputs depends on. Recursive "
        "transformers and GPTs have attention between cells: `trm models` lists them",
        TRM_WEIGHTS: NO_TRM,
        NANOGPT_WEIGHTS: NO_NANOGPT,
    },
)
