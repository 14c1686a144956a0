"""The one door to families of models that the other packages do not know, by dotted names.

Nothing here is imported before a name is used. A new family is a line in `FAMILIES`.
"""

import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """Dotted names of a family."""

    network: str  # base class of its networks
    record: str  # its `trm.solving.families.Family`
    name: str  # for people


FAMILIES = {  # by the name in checkpoints
    "cell": Entry("trm.cells.model.CellModel", "trm.cells.family.FAMILY", "cell model"),
    "iterative": Entry(
        "trm.models.iterative.IterativeModel", "trm.solving.families.ITERATIVE", "recursive"
    ),
    "gpt": Entry("trm.models.gpt.GPT", "trm.solving.families.SEQUENCE", "GPT"),
}
# Families of earlier versions, and why they are not read.
EARLIER = {"local": "it is of an earlier version, which called cell models local"}
# Modules with networks that a checkpoint may name without `--import`.
NETWORKS = ("trm.models.gpt", "trm.models.recursive", "trm.cells.model", "trm.cells.integer")
# Called with a solver, a checkpoint's path and its content, if there is a note of `trm prove`:
# returns a solver that makes use of it.
RESTORE_NOTE = "trm.cells.proof.notes.restored"

# Released dotted name of a class that has moved → its name today. Checkpoints name networks,
# configs name networks and modules, and a proof is of a network by its released name.
RELEASED = {
    "trm.models.cell.CellModel": "trm.cells.model.CellModel",
    "trm.models.integer.IntegerCellModel": "trm.cells.integer.IntegerCellModel",
    "trm.models.CellModel": "trm.cells.CellModel",
    "trm.models.IntegerCellModel": "trm.cells.IntegerCellModel",
    "trm.models.CellConfig": "trm.cells.CellConfig",
    "trm.models.IntegerCellConfig": "trm.cells.IntegerCellConfig",
    "trm.models.rule_settings": "trm.cells.rule_settings",
    "trm.training.CellModule": "trm.cells.CellModule",
    "trm.training.LatentModule": "trm.cells.LatentModule",
}
_TODAY = {today: name for name, today in reversed(RELEASED.items())}


def today(name: str) -> str:
    """Return the dotted name of today of a class, which may be a released one."""
    return RELEASED.get(name, name)


def released(name: str) -> str:
    """Return the released dotted name of a class, as files store it."""
    return _TODAY.get(name, name)


def load(name: str) -> Any:
    """Import what a dotted name of today names, such as ``trm.cells.model.CellModel``."""
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(module), own)


def moved(package: str, own: str) -> Any:
    """Return what a package exported under a released name; for its ``__getattr__``.

    Raises:
        AttributeError: it exported no such name.
    """
    if (name := f"{package}.{own}") not in RELEASED:
        raise AttributeError(f"module {package!r} has no attribute {own!r}")
    return load(RELEASED[name])
