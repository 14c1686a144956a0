"""Runs of a model on two problems, with activations of one put into the other, see `patching`."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canvas.symbols import MASK
from trm.models.capture import attention_of, inputs_of, outputs_of


@dataclass(frozen=True)
class Site:
    """A place in a model at which activations are read and replaced.

    Attributes:
        name: for people.
        part: the module whose output is meant; None: the state after a supervision step.
        heads: whether it is the part's input that is meant, which is the heads side by side: then
            some channels of all tokens are replaced, else some tokens in all channels.
        calls: which calls of the part, from 0, counted anew after each ``period`` of them.
        period: None: calls are counted through.
        step: of a state, after which supervision step, from 1.
        whole: whether tensors of the state are replaced whole, some of those that it has.
    """

    name: str
    part: nn.Module | None = None
    heads: bool = False
    calls: frozenset[int] = frozenset({0})
    period: int | None = None
    step: int = 0
    whole: bool = False


@dataclass(frozen=True)
class Replacement:
    """What is put into N runs.

    Attributes:
        groups: bool [N, S] the tokens, bool [N, D] the channels, or bool [N, P] the tensors of a
            state, that are replaced in each.
        seen: of each time that the site comes by, what the runs on A and B had there, [2, ...]; if
            it comes by more often, the last one's is taken.
    """

    groups: Tensor
    seen: list[Tensor]


SiteHook = Callable[[Tensor], Tensor]  # what a site holds, seen and perhaps replaced


class Runs(ABC):
    """A model on problems A and B.

    Attributes:
        model: on its device.
        grid: ``int64 [h, w]``, the token at each place of the page; -1: there is none.
        pages: ``uint8 [2, h, w]``, the symbols there, with the row filled in.
        answer: rows and columns of the canvas ``int64 [C]``, the cells that are filled in.
        page_row, page_columns: where these are on the page.
    """

    model: Any
    grid: np.ndarray
    pages: np.ndarray
    answer: tuple[np.ndarray, np.ndarray]
    page_row: int
    page_columns: np.ndarray

    def __init__(self, model: nn.Module, inputs: np.ndarray, labels: np.ndarray) -> None:
        masked = inputs == MASK
        if not masked[0].any() or (masked[0] != masked[1]).any():
            raise ValueError("the two problems have to be masked in the same cells of one row")
        self.model, self.pages, self.grid = model, labels, np.zeros((0, 0), dtype=np.int64)
        self.answer = tuple(np.nonzero(masked[0]))  # type: ignore[assignment]
        self.page_row, self.page_columns = int(self.answer[0][0]), self.answer[1]

    @abstractmethod
    def sites(self) -> list[Site]:
        """Where tokens are replaced, in the order in which the model computes."""

    @abstractmethod
    def heads(self) -> list[Site]:
        """Where heads are replaced."""

    def states(self) -> list[Site]:
        """Where states are replaced whole.

        Raises:
            ValueError: the model has none.
        """
        raise ValueError(
            f"{type(self.model).__name__} takes no supervision steps here, after which a state "
            "could be patched: patch cells, rows, columns or heads"
        )

    @property
    def state_names(self) -> list[str]:
        """The tensors of a state."""
        return []

    @property
    def head_shape(self) -> tuple[int, int]:
        """How many heads, and their channels."""
        layer = attention_of(self.model)[0]
        return layer.num_heads, layer.out.in_features // layer.num_heads

    @torch.no_grad()
    def run(
        self, samples: list[int], site: Site, put: Replacement | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Fill in the row.

        Args:
            samples: of each of N runs whether it is on A (0) or B (1).
            site: what is read.
            put: what is put there; None: nothing.

        Returns:
            Logits [N, C, V], and what the site held, [N, ...], as often as it came by.
        """
        seen: list[Tensor] = []

        def take(value: Tensor) -> Tensor:
            if put is not None:
                of_b = put.seen[min(len(seen), len(put.seen) - 1)][1]
                replaced = self._replaced(site, put.groups, value, len(seen))
                value = torch.where(replaced, of_b, value)
            seen.append(value)
            return value

        def change(_: int, call: int, value: Tensor) -> Tensor:
            number = call if site.period is None else call % site.period
            return take(value) if number in site.calls else value

        parts = [] if site.part is None else [site.part]
        hooks = inputs_of if site.heads else outputs_of
        with hooks(parts, change):
            return self._logits(samples, site, take), seen

    @abstractmethod
    def _logits(self, samples: list[int], site: Site, take: SiteHook) -> Tensor:
        """Logits [N, C, V] of a run; a state is taken here, all else by hooks."""

    def by_token(self, value: Tensor) -> Tensor:
        """What a site holds of one run, as [S, ...]: a prefix is left out.

        Raises:
            ValueError: it is not made of tokens.
        """
        S = int(self.grid.max()) + 1
        if value.ndim == 3 and value.shape[0] * value.shape[1] == S:
            value = value.flatten(0, 1)
        if value.ndim != 2 or value.shape[0] < S:
            raise ValueError(
                f"a state of the model has the shape {list(value.shape)} for a page; those with "
                f"one vector for each cell, [{S}, channels] here, can be patched by cells"
            )
        return value[value.shape[0] - S :]

    def _replaced(self, site: Site, groups: Tensor, value: Tensor, number: int) -> Tensor:
        """The groups as bool that broadcasts to a value [N, ...], the one of that number."""
        groups = groups.to(value.device)
        if site.whole:
            return groups[:, number].view(-1, *[1] * (value.ndim - 1))
        if site.heads:
            return groups.unsqueeze(1)
        if value.ndim == 4:
            return groups.view(*value.shape[:3], 1)
        prefix = groups.new_zeros(len(groups), value.shape[1] - groups.shape[1])
        return torch.cat((prefix, groups), dim=1).unsqueeze(-1)
