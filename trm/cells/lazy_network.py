"""Network of a cell model that is built, and PyTorch imported, when it is first needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from trm.cells.configs import CellConfig

if TYPE_CHECKING:
    from trm.cells.model import CellModel


class LazyNetwork:
    """Network that is built when it is first needed; copies of a predictor share it.

    Args:
        build: returns the network, on the device where it is to run.
        config: of the network.
        bits: hash of its weights, see `trm.models.weights.weights_hash`.
        in_integers: True if it computes in integers, which are the same in every setting.
    """

    def __init__(
        self, build: Callable[[], CellModel], config: CellConfig, bits: str, in_integers: bool
    ) -> None:
        self.build, self.config, self.bits, self.in_integers = build, config, bits, in_integers
        self.built = False

    @cached_property
    def model(self) -> CellModel:
        """The network; it is built at the first access."""
        model = self.build()
        self.built = True
        return model

    @property
    def computes_as_proved(self) -> bool:
        """True if the network would now compute in the arithmetic of its proof."""
        if self.in_integers or "torch" not in sys.modules:  # then nobody has changed its settings
            return True
        import torch

        from trm.cells.precision import computes_float32

        return computes_float32(torch.empty(0, dtype=torch.float32, device="cpu"))
