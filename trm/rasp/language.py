"""RASP on numpy arrays: a language of what one layer of a transformer after another can compute.

After Weiss, Goldberg and Yahav 2021, "Thinking like transformers". A program is made of:

- s-ops, a value for each of N positions: arrays [..., N], batch dimensions in front;
- `select`: a selector, which says of each query position what key positions it attends to: the
  attention pattern of a head;
- `aggregate`: at each query the value of the keys that are selected: what a head fetches;
- `selector_width`: how many keys each query selects;
- anything elementwise: numpy's operators on s-ops of one shape, as a feed-forward layer does.

Positions are those of a sequence (`indices`), or the cells of a canvas, whose rows and columns are
s-ops, too (`trm.rasp.page`). The example of the paper that counts how often each letter occurs::

    letters = tokens("hello")
    selector_width(select(letters, letters, np.equal))  # 1, 1, 2, 2, 1
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

SOp = np.ndarray  # [..., N], of any dtype
Predicate = Callable[[Any, Any], np.ndarray]  # of keys [..., 1, K] and queries [..., Q, 1]


@dataclass(frozen=True, eq=False)
class Selector:
    """Which keys each query selects; combined with ``&``, ``|`` and ``~``.

    Attributes:
        chosen: ``bool [..., Q, K]``.

    Raises:
        ValueError: it is no array of truth values with queries and keys.
    """

    chosen: np.ndarray

    def __post_init__(self) -> None:
        if self.chosen.dtype != bool or self.chosen.ndim < 2:
            raise ValueError(
                "a selector is a truth value for each query and key, bool [..., Q, K], not "
                f"{self.chosen.dtype} {list(self.chosen.shape)}"
            )

    def __and__(self, other: "Selector") -> "Selector":
        return Selector(_together(np.logical_and, self.chosen, other.chosen))

    def __or__(self, other: "Selector") -> "Selector":
        return Selector(_together(np.logical_or, self.chosen, other.chosen))

    def __invert__(self) -> "Selector":
        return Selector(~self.chosen)

    @cached_property
    def width(self) -> SOp:
        """How many keys each query selects, ``int64 [..., Q]``."""
        return self.chosen.sum(axis=-1)

    @cached_property
    def first(self) -> SOp:
        """The first key that each query selects, ``int64 [..., Q]``; 0 where there is none."""
        return self.chosen.argmax(axis=-1)


def tokens(text: str) -> SOp:
    """A text as an s-op of its characters, ``str [len(text)]``."""
    return np.array(list(text), dtype="<U1")


def indices(values: SOp) -> SOp:
    """The position of each value, from 0: ``int64 [N]``."""
    return np.arange(values.shape[-1])


def select(keys: SOp, queries: SOp, predicate: Predicate) -> Selector:
    """The selector of all pairs of which a predicate is true.

    Args:
        keys, queries: s-ops [..., K] and [..., Q].
        predicate: such as `numpy.equal`; is given arrays that broadcast to [..., Q, K].

    Raises:
        ValueError: the predicate says something else than true or false of each pair.
    """
    keys, queries = np.asarray(keys)[..., None, :], np.asarray(queries)[..., :, None]
    try:
        shape = np.broadcast_shapes(keys.shape, queries.shape)
    except ValueError:
        raise ValueError(
            f"keys {list(keys.shape)} and queries {list(queries.shape)} are not of one batch"
        ) from None
    found = np.asarray(predicate(keys, queries))
    if found.dtype != bool:
        raise ValueError(
            f"a predicate says true or false of each key and query; this one gave {found.dtype}"
        )
    return Selector(np.broadcast_to(found, shape))


def closest(selector: Selector, keys: SOp, queries: SOp) -> Selector:
    """Of the keys that a query selects, those whose value is closest to the query's own.

    The paper has no such operation. A head with hard attention does it in one go, if its scores
    fall with the distance, as under a position bias; by `select` alone it takes two selectors.

    Args:
        selector: ``bool [..., Q, K]``.
        keys, queries: numbers [..., K] and [..., Q].
    """
    distance = np.abs(np.asarray(keys)[..., None, :] - np.asarray(queries)[..., :, None])
    distance = np.where(selector.chosen, distance, np.inf)
    least = distance.min(axis=-1, keepdims=True)
    return Selector((distance == least) & selector.chosen)


def selector_width(selector: Selector) -> SOp:
    """How many keys each query selects, ``int64 [..., Q]``."""
    return selector.width


def aggregate(selector: Selector, values: SOp, default: Any = None) -> SOp:
    """What each query fetches from the keys that it selects.

    Floats are averaged. Values of any other dtype (digits, symbols, truth values) are categories,
    of which there is no mean: the selected ones have to agree.

    Args:
        selector: ``bool [..., Q, K]``.
        values: [..., K], batch dimensions that broadcast to those of the selector.
        default: for queries that select nothing; None: there must be none.

    Returns:
        [..., Q], of the dtype of the values.

    Raises:
        ValueError: a query selects nothing, and there is no default; or categories that differ.
    """
    values = np.asarray(values)
    if values.shape[-1:] != selector.chosen.shape[-1:]:
        raise ValueError(
            f"a selector of {selector.chosen.shape[-1]} keys and values "
            f"{list(values.shape)}: give one value for each key"
        )
    there = selector.width > 0
    if default is None:
        if not there.all():
            query = int(np.argwhere(~there)[0][-1])
            raise ValueError(
                f"position {query} selects nothing, and there is no default to take instead"
            )
        default = values.dtype.type()
    if np.issubdtype(values.dtype, np.floating):
        # What is not selected counts nothing, even if it is infinite.
        total = np.where(selector.chosen, values[..., None, :], 0).sum(axis=-1)
        found = total / np.maximum(selector.width, 1)
    else:
        found = _only_value(selector, values)
    return np.where(there, found, values.dtype.type(default))


def _only_value(selector: Selector, values: np.ndarray) -> np.ndarray:
    """The value on which the keys agree that a query selects; that of key 0 if it selects none."""
    batch = np.broadcast_shapes(selector.chosen.shape[:-2], values.shape[:-1])
    spread = np.broadcast_to(values, (*batch, values.shape[-1]))
    first = np.broadcast_to(selector.first, (*batch, selector.first.shape[-1]))
    found = np.take_along_axis(spread, first, axis=-1)
    if selector.width.max(initial=0) > 1:
        differ = selector.chosen & (spread[..., None, :] != found[..., :, None])
        if differ.any():
            *one, query, key = np.argwhere(differ)[0].tolist()
            pair = found[(*one, query)], spread[(*one, key)]
            raise ValueError(
                f"position {query} selects {pair[0]} and {pair[1]}, and there is no mean of "
                "categories: select keys that agree, or give floats to be averaged"
            )
    return found


def _together(combine: Callable[..., np.ndarray], one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Two selectors combined.

    Raises:
        ValueError: they are of different positions.
    """
    if one.shape[-2:] != other.shape[-2:]:
        raise ValueError(
            f"selectors of {list(one.shape[-2:])} and {list(other.shape[-2:])} queries and keys "
            "cannot be combined: make both over the same positions"
        )
    return combine(one, other)
