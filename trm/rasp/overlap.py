"""How much of its attention a head puts where a selector selects."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from trm.rasp.language import Selector

_CLOSE = 0.05  # gains that differ by less are as large


@dataclass(frozen=True)
class Overlap:
    """The attention of one head on what one selector selects.

    Means over problems, of each the mean over its cells. A cell counts if the selector selects
    another cell (or the cell itself) that the model has a token for.

    Attributes:
        selector: its name.
        overlap: attention on the selected cells, 0 to 1.
        low, high: its 95 % interval over problems, 1.96 standard errors to either side, within 0
            and 1; not known (0 and 1) of a single problem.
        baseline: what attention that is uniform over all that the head can see would put there.
        cells: how many counted.
        problems: in how many problems.
        in_program: whether the program of the layout uses the selector.
    """

    selector: str
    overlap: float
    low: float
    high: float
    baseline: float
    cells: int
    problems: int
    in_program: bool

    @property
    def gain(self) -> float:
        """Overlap above the baseline, by which selectors are ranked.

        A wide selector has a high overlap with any head, and a high baseline.
        """
        return self.overlap - self.baseline


@dataclass(frozen=True)
class Head:
    """One head with all selectors.

    Attributes:
        update: the tensor of the state that it takes part in updating, such as z_L; of a GPT
            tokens, or which loop.
        layer, head: from 1; a GPT's layers are its blocks.
        overlaps: the largest gain first; of gains that differ by less than 0.05, the program's.
    """

    update: str
    layer: int
    head: int
    overlaps: tuple[Overlap, ...]

    @property
    def best(self) -> Overlap:
        """The selector that matches the head best."""
        return self.overlaps[0]

    def of(self, selector: str) -> Overlap:
        """The overlap with one selector, by its name."""
        return next(one for one in self.overlaps if one.selector == selector)


class Overlaps:
    """Adds up overlaps over batches of canvases, for all heads of one update of a state.

    Args:
        update: the tensor that is updated.
    """

    def __init__(self, update: str) -> None:
        self.update = update
        self._mass: dict[str, dict[int, list[np.ndarray]]] = {}  # by selector and problem
        self._used: set[str] = set()

    def add(
        self,
        attention: ArrayLike,
        selectors: Mapping[str, Selector],
        cells: np.ndarray,
        problem: np.ndarray,
        used: set[str],
        visible: np.ndarray | None = None,
    ) -> None:
        """Count a batch of canvases.

        Args:
            attention: ``float [layers, B, heads, N, K]``, queries second to last, as
                `trm.models.introspection` gives it; rows of cells that are no tokens are 0. Keys
                are the N cells, and then whatever else heads attend to, which no selector selects.
            selectors: by name, bool [N, N] or [B, N, N].
            cells: ``bool [B, N]``, the queries that count.
            problem: ``int64 [B]``, which problem each canvas is of.
            used: names of those that the program uses.
            visible: ``bool [N, K]``, what heads can see; None: what any head of the layer gives
                some attention to, as a mask gives exactly none.

        Raises:
            ValueError: a selector is of other cells than the attention.
        """
        self._used |= used
        attention = np.asarray(attention)
        batch, positions, keys = attention.shape[1], *attention.shape[-2:]
        tokens = np.asarray(attention.any(axis=(0, 2, 4)))  # [B, N]
        sample, query = np.nonzero(cells & tokens)
        weights = attention.swapaxes(1, 2)[:, :, sample, query]  # [layers, heads, M, K]
        if visible is None:
            seen = weights.any(axis=1)  # [layers, M, K]
        else:
            seen = np.broadcast_to(visible[query], (len(weights), len(query), keys))
        for name, selector in selectors.items():
            if selector.chosen.shape[-2:] != (positions, positions):
                raise ValueError(
                    f"the selector {name} is of {selector.chosen.shape[-1]} cells, the attention "
                    f"of {positions}: make both of the same canvases"
                )
            everyone = np.broadcast_to(selector.chosen, (batch, positions, positions))
            chosen = everyone[sample, query] & tokens[sample]  # [M, N]
            counted = chosen.any(axis=1)
            chosen = np.pad(chosen, ((0, 0), (0, keys - positions)))
            mass = (weights * chosen).sum(axis=-1)[..., counted]
            uniform = ((seen & chosen).sum(axis=-1) / seen.sum(axis=-1))[:, counted]
            parts = np.concatenate([mass, uniform[:, None]], axis=1)  # [layers, heads + 1, cells]
            of_problem = problem[sample[counted]]
            for one in np.unique(of_problem).tolist():
                found = self._mass.setdefault(name, {}).setdefault(one, [])
                found.append(parts[..., of_problem == one])

    def heads(self) -> list[Head]:
        """All heads, layer by layer; none before anything was added."""
        found: dict[tuple[int, int], list[Overlap]] = {}
        for name, problems in self._mass.items():
            joined = [np.concatenate(parts, axis=-1) for parts in problems.values()]
            cells = sum(part.shape[-1] for part in joined)
            means = np.stack([part.mean(axis=-1) for part in joined])  # [P, layers, heads + 1]
            mean, number = means.mean(axis=0), len(means)
            margin = np.ones_like(mean)
            if number > 1:
                margin = 1.96 * means.std(axis=0, ddof=1) / number**0.5
            for layer, row in enumerate(mean):
                for head, overlap in enumerate(row[:-1]):
                    known = float(margin[layer, head])
                    ends = max(0.0, float(overlap) - known), min(1.0, float(overlap) + known)
                    told = Overlap(
                        name,
                        float(overlap),
                        *(ends if number > 1 else (0.0, 1.0)),
                        float(row[-1]),
                        cells,
                        number,
                        name in self._used,
                    )
                    found.setdefault((layer, head), []).append(told)
        return [
            Head(self.update, layer + 1, head + 1, _ranked(overlaps))
            for (layer, head), overlaps in sorted(found.items())
        ]


def _ranked(overlaps: list[Overlap]) -> tuple[Overlap, ...]:
    """The largest gain first; but of gains as large, the program's, and then as they were named.

    What a head cannot see at all comes last.
    """
    found = sorted(overlaps, key=lambda one: (not one.baseline, -one.gain))
    close = [one for one in overlaps if one.baseline and one.gain > found[0].gain - _CLOSE]
    best = min(close, key=lambda one: not one.in_program, default=found[0])
    return best, *(one for one in found if one is not best)
