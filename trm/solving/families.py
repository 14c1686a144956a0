"""Families of models: one record for each, with its classes and its missing features.

A new family is a `Family`, and a line in `trm.registry.FAMILIES`. A missing feature is a sentence
there, which commands print.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import nn

from canvas.choices import check_choice, class_name
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel
from trm.models.weights import uncompiled
from trm.registry import FAMILIES, load
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import CONFIDENCES, IterativePredictor
from trm.solving.predictor import Predictor

# Features that only some families have.
CELL_STATES = "states of cells"
TRM_WEIGHTS, NANOGPT_WEIGHTS = "weights of the published TRM", "weights of nanoGPT"


@dataclass(frozen=True)
class Family:
    """Record of a kind of model: its classes, how it is solved with, and what it lacks."""

    name: str  # in checkpoints
    network: type[nn.Module]  # base class of its networks
    # Called with a network, its entry in a checkpoint, and the most supervision steps or loops;
    # None: those of the checkpoint.
    predictor: Callable[[Any, dict[str, Any], int | None], Predictor]
    reads_sequences: bool = False  # True: a canvas is a sequence; False: rows are filled in masked
    # Settings of solving in a checkpoint, where training gives no others.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Missing feature → the sentence with which commands refuse.
    lacks: Mapping[str, str] = field(default_factory=dict)

    def require(self, what: str) -> None:
        """Raise a ValueError with the family's sentence if it lacks a feature."""
        if what in self.lacks:
            raise ValueError(self.lacks[what])


def _iterative(model: Any, about: dict[str, Any], steps: int | None) -> Predictor:
    check_choice("confidence", confidence := about.get("confidence", "head"), CONFIDENCES)
    calibration = about.get("calibration", Calibration()) if confidence == "cells" else None
    predictor = IterativePredictor(model, steps or about["solve_steps"], calibration)
    return predictor.with_options(patience=about.get("patience"))


def _gpt(model: Any, about: dict[str, Any], steps: int | None) -> Predictor:
    most = steps or about.get("solve_steps")
    if most and model.config.loops > 1:
        model = copy(model)  # its config stays as it is
        model.config = replace(model.config, loops=most)
    return GPTPredictor(model, about["calibration"])


NO_TRM = (
    "the published TRM is a recursive transformer, which this model is not: convert one, such as "
    "those of `trm fit --config trm/reference`"
)
NO_NANOGPT = (
    "nanoGPT is a GPT, which this model is not: convert one, such as those of `trm fit --config "
    "gpt/small_rope_2d`"
)
ITERATIVE = Family(
    "iterative",
    IterativeModel,
    predictor=_iterative,
    settings={"solve_steps": 16},  # the published TRM's halt_max_steps
    lacks={NANOGPT_WEIGHTS: NO_NANOGPT},
)
SEQUENCE = Family(
    "gpt",
    GPT,
    predictor=_gpt,
    reads_sequences=True,
    settings={"calibration": asdict(Calibration())},
    lacks={TRM_WEIGHTS: NO_TRM},
)


def family_named(name: str) -> Family:
    """Return the family of a name, as in checkpoints.

    Raises:
        KeyError: there is none.
    """
    found: Family = load(FAMILIES[name].record)
    return found


def family_of(model: nn.Module) -> Family:
    """Return the family of a network.

    Raises:
        ValueError: it belongs to no family.
    """
    bases = [class_name(base) for base in type(uncompiled(model)).__mro__]
    # The nearest base class counts: a family's networks may be a kind of another's.
    places = {
        bases.index(entry.network): name
        for name, entry in FAMILIES.items()
        if entry.network in bases
    }
    if not places:
        names = ", ".join(entry.network.rpartition(".")[2] for entry in FAMILIES.values())
        raise ValueError(
            f"{type(model).__name__} belongs to no family: derive it from one of {names}"
        )
    return family_named(places[min(places)])
