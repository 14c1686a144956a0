"""Families of models: one record for each, with its classes and its missing features.

A new family is a `Family` in `FAMILIES`. A missing feature is a sentence there, which commands
print.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from trm.models.cell import CellModel
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel
from trm.solving.cell_predictor import CellPredictor
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.predictor import Predictor

# Features that only some families have.
CELL_STATES, PROOF, PAGE = "states of cells", "proof", "page"
TRM_WEIGHTS, NANOGPT_WEIGHTS = "weights of the published TRM", "weights of nanoGPT"


# Builds the network that an entry of a checkpoint describes, with its weights.
Build = Callable[[dict[str, Any]], Any]
# Called with a `Build`, the entry, and the most supervision steps or loops; None: the checkpoint's.
Restore = Callable[[Build, dict[str, Any], int | None], Predictor]


@dataclass(frozen=True)
class Family:
    """One kind of model."""

    name: str  # in checkpoints
    network: type[nn.Module]  # base class of its networks
    modules: tuple[str, ...]  # LightningModules that train it; each names its samples
    # Makes a predictor of a checkpoint: see `Restore`.
    predictor: Restore
    reads_sequences: bool = False  # True: a canvas is a sequence; False: rows are filled in masked
    # Missing feature → the sentence with which commands refuse.
    lacks: Mapping[str, str] = field(default_factory=dict)

    def require(self, what: str) -> None:
        """Raise a ValueError with the family's sentence if it lacks a feature."""
        if what in self.lacks:
            raise ValueError(self.lacks[what])


def _cell(build: Build, about: dict[str, Any], steps: int | None) -> Predictor:
    return CellPredictor(build(about), max_steps=steps)


def _iterative(build: Build, about: dict[str, Any], steps: int | None) -> Predictor:
    patience = about.get("patience")
    return IterativePredictor(build(about), steps or about["solve_steps"], patience=patience)


def _gpt(build: Build, about: dict[str, Any], steps: int | None) -> Predictor:
    most = steps or about.get("solve_steps")
    if most and about["model"].get("loops", 1) > 1:
        about = about | {"model": about["model"] | {"loops": most}}
    return GPTPredictor(build(about), about["calibration"])


NO_PAGE = (
    "a web page shows models whose cells pass decided messages, in a layout of this package, such "
    "as those of `trm fit --config quickstart`"
)
_NO_PROOF = (
    "passes more than decided messages, so that its cells have too many inputs to enumerate; "
    "--search N searches for a problem that it gets wrong"
)
_NO_TRM = (
    "the published TRM is a recursive transformer, which this model is not: convert one, such as "
    "those of `trm fit --config trm/reference`"
)
_NO_NANOGPT = (
    "nanoGPT is a GPT, which this model is not: convert one, such as those of `trm fit --config "
    "gpt/small_rope_2d`"
)
# The cell model is an iterative model, too: the first record that fits counts.
FAMILIES = (
    Family(
        "cell",
        CellModel,
        modules=("trm.training.CellModule", "trm.training.LatentModule"),
        predictor=_cell,
        lacks={
            CELL_STATES: "the cells of a cell model read decided messages of their neighbours, not "
            "their states, so that there are no states to probe, to patch or to compare: "
            "`trm prove` lists the inputs that each of its outputs depends on. Of the lattice's "
            "models, docs/models/decimal-seed0.safetensors has attention between cells",
            TRM_WEIGHTS: _NO_TRM,
            NANOGPT_WEIGHTS: _NO_NANOGPT,
        },
    ),
    Family(
        "iterative",
        IterativeModel,
        modules=("trm.training.IterativeModule",),
        predictor=_iterative,
        lacks={PROOF: _NO_PROOF, PAGE: NO_PAGE, NANOGPT_WEIGHTS: _NO_NANOGPT},
    ),
    Family(
        "gpt",
        GPT,
        modules=("trm.training.GPTModule",),
        predictor=_gpt,
        reads_sequences=True,
        lacks={PROOF: _NO_PROOF, PAGE: NO_PAGE, TRM_WEIGHTS: _NO_TRM},
    ),
)


def family_of(model: nn.Module) -> Family:
    """Return the family of a network.

    Raises:
        ValueError: it belongs to no family.
    """
    found = next((family for family in FAMILIES if isinstance(model, family.network)), None)
    if found is None:
        names = ", ".join(family.network.__name__ for family in FAMILIES)
        raise ValueError(
            f"{type(model).__name__} belongs to no family: derive it from one of {names}"
        )
    return found
