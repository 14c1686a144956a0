"""The families of models: one record for each, of its classes and of what can be done with it.

A new family is a `Family` in `FAMILIES`. What a family lacks is one sentence there, which commands
show.
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

# What can be done with models of some families alone.
CELL_STATES, PROOF, PAGE = "states of cells", "proof", "page"


# Builds the network that an entry of a checkpoint describes, with its weights.
Build = Callable[[dict[str, Any]], Any]
# From `Build`, the entry, and the highest number of supervision steps or loops, None for that of
# the checkpoint.
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
    # By what it lacks: the sentence with which commands refuse.
    lacks: Mapping[str, str] = field(default_factory=dict)

    def require(self, what: str) -> None:
        """Raise ValueError with the family's sentence if it lacks something."""
        if what in self.lacks:
            raise ValueError(self.lacks[what])


def _cell(build: Build, about: dict[str, Any], steps: int | None) -> Predictor:
    return CellPredictor(build(about))


def _iterative(build: Build, about: dict[str, Any], steps: int | None) -> Predictor:
    return IterativePredictor(build(about), steps or about["solve_steps"])


def _gpt(build: Build, about: dict[str, Any], steps: int | None) -> Predictor:
    if steps and about["model"].get("loops", 1) > 1:
        about = about | {"model": about["model"] | {"loops": steps}}
    return GPTPredictor(build(about), about["calibration"])


NO_PAGE = (
    "a page shows models whose cells hand on decided messages, in a layout of this package, as "
    "`trm fit --config quickstart` trains them"
)
_NO_PROOF = (
    "hands on more than decided messages, so that its cells see more than can be enumerated; "
    "--search looks for a problem that it gets wrong"
)
# The cell model is an iterative model, too: the first record that fits counts.
FAMILIES = (
    Family(
        "cell",
        CellModel,
        modules=("trm.training.CellModule", "trm.training.LatentModule"),
        predictor=_cell,
        lacks={
            CELL_STATES: "the cells of a cell model read decided messages of their neighbours and "
            "nothing of each other's states, so that there is nothing to read between layers, to "
            "patch or to compare: `trm prove` lists what each of its outputs depends on. Of the "
            "lattice's models, docs/models/decimal-seed0.safetensors has attention between cells"
        },
    ),
    Family(
        "iterative",
        IterativeModel,
        modules=("trm.training.IterativeModule",),
        predictor=_iterative,
        lacks={PROOF: _NO_PROOF, PAGE: NO_PAGE},
    ),
    Family(
        "gpt",
        GPT,
        modules=("trm.training.GPTModule",),
        predictor=_gpt,
        reads_sequences=True,
        lacks={PROOF: _NO_PROOF, PAGE: NO_PAGE},
    ),
)


def family_of(model: nn.Module) -> Family:
    """Return the family of a network.

    Raises:
        ValueError: it is of none.
    """
    found = next((family for family in FAMILIES if isinstance(model, family.network)), None)
    if found is None:
        names = ", ".join(family.network.__name__ for family in FAMILIES)
        raise ValueError(f"{type(model).__name__} is of no family: derive it from one of {names}")
    return found
