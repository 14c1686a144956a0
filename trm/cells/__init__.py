"""Cell models: their networks, training, solving and proofs."""

from typing import TYPE_CHECKING

from trm.released import lazy

if TYPE_CHECKING:
    from trm.cells.configs import CellConfig as CellConfig
    from trm.cells.configs import IntegerCellConfig as IntegerCellConfig
    from trm.cells.configs import rule_settings as rule_settings
    from trm.cells.integer import IntegerCellModel as IntegerCellModel
    from trm.cells.latent_module import LatentModule as LatentModule
    from trm.cells.model import CellModel as CellModel
    from trm.cells.module import CellModule as CellModule

# Nobody loads Lightning to solve a problem.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "CellConfig": "configs",
        "CellModel": "model",
        "CellModule": "module",
        "IntegerCellConfig": "configs",
        "IntegerCellModel": "integer",
        "LatentModule": "latent_module",
        "rule_settings": "configs",
    },
)
