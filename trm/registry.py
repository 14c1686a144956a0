"""Dotted names of what the core loads from other rooms: families of models, and sharing.

Nothing here is imported before a name is used. A new family is a line in `FAMILIES`; what differs
between families is in its record, see `trm.solving.families`.
"""

import importlib
from typing import Any, NamedTuple


class FamilyEntry(NamedTuple):
    """Dotted names of a family."""

    network: str  # base class of its networks
    record: str  # its `trm.solving.families.Family`
    name: str  # for people
    # Called with a checkpoint's path, content and task, and a function that returns its network:
    # returns a predictor that needs none as yet, or None. Empty: all predictors need one.
    look_up: str = ""


FAMILIES = {  # by the name in checkpoints
    "cell": FamilyEntry(
        "trm.cells.model.CellModel",
        "trm.cells.family.FAMILY",
        "cell model",
        "trm.cells.proof.notes.looked_up",
    ),
    "iterative": FamilyEntry(
        "trm.models.iterative.IterativeModel", "trm.solving.families.ITERATIVE", "recursive"
    ),
    "gpt": FamilyEntry("trm.models.gpt.GPT", "trm.solving.families.SEQUENCE", "GPT"),
}
# Families of earlier versions, and why they are not read.
EARLIER = {"local": "it is of an earlier version, which called cell models local"}
# Modules with networks that a checkpoint may name without `--import`.
NETWORKS = ("trm.models.gpt", "trm.models.recursive", "trm.cells.model", "trm.cells.integer")
# Called with a solver, a checkpoint's path and its content, if there is a note of `trm prove`:
# returns a solver that makes use of it.
RESTORE_NOTE = "trm.cells.proof.notes.restored"
# Module with the functions of `Solver.from_pretrained`, `save_pretrained` and `push_to_hub`.
SHARING = "trm.extras.sharing"


def load(name: str) -> Any:
    """Import what a dotted name of today names, such as ``trm.cells.model.CellModel``."""
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(module), own)
