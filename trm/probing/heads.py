"""What each head brings to the answer: activation patching, a mean over many pairs of problems."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from canvas.symbols import MASK
from trm.evaluation.grid import size_name
from trm.evaluation.statistics import bootstrap
from trm.probing.pairs import Pair, draw_pairs, kinds_of
from trm.probing.patching import patch
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver


@dataclass(frozen=True)
class HeadEffects:
    """The effects of heads over pairs of one kind.

    Attributes:
        kind, meaning: what differs in a pair, see `trm.probing.pairs.KINDS`.
        sites: the names of L layers, in the order in which the model computes.
        mean: ``[L][heads]``, the mean effect, see `trm.probing.patching`.
        low, high: its 95 % interval, a percentile bootstrap over pairs.
        pairs: of each pair that counts the two problems, and the row from 1.
        left_out: pairs that do not count, as the model has a wrong symbol in one of both rows.
    """

    kind: str
    meaning: str
    sites: list[str]
    mean: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]
    pairs: list[tuple[str, str, int]]
    left_out: int

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def head_effects(
    solver: Solver,
    size: dict[str, int],
    kinds: Sequence[str] = (),
    pairs: int = 50,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
) -> list[HeadEffects]:
    """Patch each head in turn, in pairs of held-out problems that differ in one thing.

    Args:
        solver: with the model.
        size: of the problems, by two measures of the task.
        kinds: of `trm.probing.pairs.kinds_of`; none named: all of which there are pairs.
        pairs: of each kind, at most.
        seed: which ones, and of the bootstrap.
        note: is told what is going on, a line at a time.

    Raises:
        ValueError: there are no pairs, the model is right in none of them, or its heads cannot be
            patched.
    """
    meanings, found = kinds_of(solver.task), []
    low, high = size.values()
    name = size_name(tuple(size), (low, high))
    for kind in kinds or meanings:
        drawn = draw_pairs(solver, kind, size, pairs, seed)
        note(f"{kind}: {len(drawn)} pairs of {name}")
        if drawn:
            found.append(_of_kind(solver.predictor, kind, meanings[kind], drawn, seed))
        elif kinds:
            raise ValueError(
                f"no two held-out problems of {name} differ in a {kind} alone in the layout "
                f"{solver.task.layout}: name another size, or other kinds"
            )
    if not found:
        raise ValueError(f"there are no pairs of held-out problems of {name}: name another size")
    return found


def _of_kind(
    predictor: Predictor, kind: str, meaning: str, pairs: Sequence[Pair], seed: int
) -> HeadEffects:
    """See `head_effects`."""
    effects, counted = [], []
    sites: list[str] = []
    for pair in pairs:
        written = predictor(pair.inputs)
        if (written.canvases != pair.labels)[pair.inputs == MASK].any():
            continue
        used = max(1, int(written.steps.max()))
        one = patch(predictor, pair.inputs, pair.labels, "heads", (used,))
        sites = one.sites
        effects.append(one.effects)
        counted.append((*pair.names, pair.row + 1))
    if not effects:
        raise ValueError(
            f"the model is right in none of {len(pairs)} pairs ({kind}): what brings it to a wrong "
            "row is no answer. Name a size that it solves"
        )
    values = np.stack(effects).astype(np.float64)  # [P, L, heads]
    low, high = bootstrap(values, seed=seed)
    return HeadEffects(
        kind,
        meaning,
        sites,
        values.mean(axis=0).tolist(),
        low.tolist(),
        high.tolist(),
        counted,
        len(pairs) - len(effects),
    )
