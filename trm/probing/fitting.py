"""The cells that probes are fitted to, and one probe for each sub-task and site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canvas.hints import UNDEFINED
from trm.probing.cells import Examples
from trm.probing.control import control_labels
from trm.probing.features import Site, Watched
from trm.probing.linear import LinearProbes, fit


@dataclass(frozen=True)
class Cells:
    """Cells of examples, with the features of their tokens.

    Attributes:
        features: of each site, floating [N, D].
        hints: ``uint8 [N, hints]``.
        working: ``bool [N]``, cells of the row that is filled in.
        types: ``uint64 [N]``.
        example, cell: ``int64 [N]``, of which example, and where on its canvas.
    """

    features: dict[Site, Tensor]
    hints: np.ndarray
    working: np.ndarray
    types: np.ndarray
    example: np.ndarray
    cell: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence["Cells"]) -> "Cells":
        """Those of several batches; examples keep their numbers of these."""
        features = {
            site: torch.cat([part.features[site] for part in parts]) for site in parts[0].features
        }
        names = ("hints", "working", "types", "example", "cell")
        return cls(features, *(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def take(
    examples: Examples,
    watched: Watched,
    most: int | None = None,
    random: np.random.Generator | None = None,
) -> Cells:
    """The cells that are tokens and have a defined hint.

    Args:
        examples: a batch.
        watched: what the model did with it.
        most: of each example so many cells of the working row at most, and so many others; None:
            all.
        random: which ones.
    """
    B, H, W = examples.inputs.shape
    cells = watched.cells.cpu().numpy()
    example, token = np.nonzero(cells < H * W)
    cell = cells[example, token]
    hints = examples.hints.reshape(B, H * W, -1)[example, cell]
    working = examples.working.reshape(B, -1)[example, cell]
    kept = np.flatnonzero((hints != UNDEFINED).any(axis=1))
    if most is not None:
        random = random or np.random.default_rng(0)
        group = 2 * example[kept] + working[kept]
        order = np.lexsort((random.random(len(kept)), group))
        _, first, count = np.unique(group[order], return_index=True, return_counts=True)
        rank = np.arange(len(kept)) - np.repeat(first, count)
        kept = np.sort(kept[order[rank < most]])
    example, token, cell = example[kept], token[kept], cell[kept]
    device = watched.cells.device
    index = torch.from_numpy(example).to(device), torch.from_numpy(token).to(device)
    return Cells(
        {site: features[index] for site, features in watched.features.items()},
        hints[kept],
        working[kept],
        examples.types.reshape(B, -1)[example, cell],
        example,
        cell,
    )


@dataclass(frozen=True)
class Probes:
    """Linear probes of all sub-tasks, and of their control tasks, at all sites.

    Attributes:
        classes: of each sub-task.
        sites: the probes of each site: of all sub-tasks, then of their control tasks.
        majority: ``uint8 [2, hints]``, the most frequent class of the working row's training cells,
            and of all of them.
        frequencies: of each sub-task, how often its classes occur.
        types: ``uint64 [M]``, those that occur, sorted.
        seed: of the control tasks.
    """

    classes: Mapping[str, int]
    sites: Mapping[Site, LinearProbes]
    majority: np.ndarray
    frequencies: Sequence[np.ndarray]
    types: np.ndarray
    seed: int

    def __call__(self, site: Site, features: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """What probes, and probes of control tasks, say of features [N, D]: ``[N, hints]`` each."""
        both = self.sites[site](features).cpu().numpy().astype(np.uint8)
        return both[:, : len(self.classes)], both[:, len(self.classes) :]

    def control(self, types: np.ndarray, hints: np.ndarray) -> np.ndarray:
        """The control labels of cells, ``uint8 [N, hints]``, see `control_labels`."""
        return _controls(types, hints, self.frequencies, self.seed)

    def known(self, types: np.ndarray) -> np.ndarray:
        """Which types occurred in training, ``bool [N]``."""
        place = np.searchsorted(self.types, types).clip(max=len(self.types) - 1)
        return self.types[place] == types


def fit_probes(
    cells: Cells, classes: Mapping[str, int], seed: int, l2: float, iterations: int
) -> Probes:
    """A probe for each sub-task at each site, and one for its control task.

    Args:
        cells: of training problems.
        classes: of each sub-task, in the layout's order.
        seed: of the control tasks.
        l2, iterations: see `trm.probing.linear.fit`.
    """
    counted = [_counts(cells.hints[:, i], n) for i, n in enumerate(classes.values())]
    rows = [_counts(cells.hints[cells.working, i], n) for i, n in enumerate(classes.values())]
    controls = _controls(cells.types, cells.hints, counted, seed)
    labels = torch.from_numpy(np.concatenate([cells.hints, controls], axis=1))
    both = [*classes.values()] * 2
    sites = {
        site: fit(features, labels.to(features.device), both, l2, iterations)
        for site, features in cells.features.items()
    }
    majority = [[int(c.argmax()) for c in part] for part in (rows, counted)]
    return Probes(
        classes,
        sites,
        np.array(majority, dtype=np.uint8),
        counted,
        np.unique(cells.types),
        seed,
    )


def _counts(labels: np.ndarray, classes: int) -> np.ndarray:
    return np.bincount(labels[labels != UNDEFINED], minlength=classes)


def _controls(
    types: np.ndarray, hints: np.ndarray, frequencies: Sequence[np.ndarray], seed: int
) -> np.ndarray:
    parts = [
        control_labels(types, hints[:, i], counts, seed, i) for i, counts in enumerate(frequencies)
    ]
    return np.stack(parts, axis=-1)
