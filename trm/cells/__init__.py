"""Cell models: their networks, training, solving and proofs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trm.cells.configs import CellConfig as CellConfig
    from trm.cells.configs import IntegerCellConfig as IntegerCellConfig
    from trm.cells.configs import rule_settings as rule_settings
    from trm.cells.integer import IntegerCellModel as IntegerCellModel
    from trm.cells.latent_module import LatentModule as LatentModule
    from trm.cells.model import CellModel as CellModel
    from trm.cells.module import CellModule as CellModule

# Name → its module, imported at the first use: nobody loads Lightning to solve a problem.
_MODULES = {
    "CellConfig": "configs",
    "CellModel": "model",
    "CellModule": "module",
    "IntegerCellConfig": "configs",
    "IntegerCellModel": "integer",
    "LatentModule": "latent_module",
    "rule_settings": "configs",
}


def __getattr__(name: str) -> Any:
    from trm.families import load

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"{__name__}.{_MODULES[name]}.{name}")


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
