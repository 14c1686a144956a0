"""Overlaps of heads with selectors, by hand."""

import numpy as np
import pytest

from trm.rasp.language import Selector, select
from trm.rasp.overlap import Overlaps

CELLS = np.arange(3)
LEFT = select(CELLS, CELLS - 1, np.equal)
ITSELF = select(CELLS, CELLS, np.equal)
SO_FAR = select(CELLS, CELLS, np.less_equal)

# One layer of two heads on three cells, of which each sees those up to itself.
FIRST = [[1, 0, 0], [0.9, 0.1, 0], [0.1, 0.7, 0.2]]  # at the left, mostly
SECOND = [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]
ATTENTION = np.array([FIRST, SECOND])[None, None]  # [1, 1, 2, 3, 3]
ALL = np.ones((1, 3), dtype=bool)
ONE = np.zeros(1, dtype=np.int64)


def tally(selectors: dict[str, Selector], used: set[str] = frozenset()) -> Overlaps:
    found = Overlaps("state")
    found.add(ATTENTION, selectors, ALL, ONE, set(used))
    return found


def test_overlap_is_the_mean_attention_on_the_selected_and_the_baseline_what_uniform_would_put():
    first, second = tally({"left": LEFT}).heads()
    assert (first.update, first.layer, first.head, second.head) == ("state", 1, 1, 2)
    # Cell 0 has no cell on its left and does not count; 1 sees two cells, 2 sees three.
    assert first.best.overlap == pytest.approx((0.9 + 0.7) / 2)
    assert second.best.overlap == pytest.approx((0.5 + 0.25) / 2)
    assert first.best.baseline == second.best.baseline == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert first.best.cells == 2


def test_the_best_selector_is_that_with_the_most_above_its_baseline():
    first, second = tally({"so far": SO_FAR, "left": LEFT, "itself": ITSELF}).heads()
    assert first.best.selector == "left"
    assert first.of("so far").overlap == pytest.approx(1)  # and so is its baseline
    assert first.of("so far").gain == pytest.approx(0)
    assert second.best.selector == "itself"
    assert [one.gain for one in first.overlaps] == sorted(
        (one.gain for one in first.overlaps), reverse=True
    )


def test_of_selectors_as_good_as_each_other_the_programs_is_named():
    for used in ("left", "the same"):
        (first, _) = tally({"left": LEFT, "the same": LEFT}, {used}).heads()
        assert first.best.selector == used
        assert first.best.in_program
        assert not first.overlaps[1].in_program


def test_a_selector_that_a_head_cannot_see_is_never_the_best():
    right = select(CELLS, CELLS + 1, np.equal)
    (first, _) = tally({"right": right, "so far": SO_FAR}, {"right"}).heads()
    assert first.best.selector == "so far"
    assert (first.of("right").overlap, first.of("right").baseline) == (0, 0)


def test_cells_that_are_no_tokens_neither_ask_nor_answer():
    attention = ATTENTION.copy()
    attention[..., 0, :] = attention[..., 0] = 0  # cell 0 is no token
    found = Overlaps("state")
    found.add(attention, {"left": LEFT}, ALL, ONE, set())
    assert found.heads()[0].best.cells == 1  # cell 2, whose left neighbour is a token
    assert found.heads()[0].best.overlap == pytest.approx(0.7)


def test_what_is_no_cell_takes_its_share_of_uniform_attention():
    found = Overlaps("tokens")
    attention = np.pad(ATTENTION * 0.5, ((0, 0),) * 4 + ((0, 1),), constant_values=0.5)
    visible = np.array([[1, 0, 0, 1], [1, 1, 0, 1], [1, 1, 1, 1]], dtype=bool)
    found.add(attention, {"left": LEFT}, ALL, ONE, set(), visible)
    first = found.heads()[0].best
    assert first.overlap == pytest.approx((0.9 + 0.7) / 4)
    assert first.baseline == pytest.approx((1 / 3 + 1 / 4) / 2)


def test_a_cell_with_no_attention_at_all_can_be_visible():
    """Of a sharp head that gives a cell an exact zero, in float32."""
    attention = np.eye(3)[None, None, None].copy()
    attention[..., 2, :] = 0, 1, 0
    visible = np.tril(np.ones((3, 3), dtype=bool))
    only = np.array([[False, False, True]])
    baselines = []
    for given in (None, visible):
        found = Overlaps("tokens")
        found.add(attention, {"left": LEFT}, only, ONE, set(), given)
        baselines += [one.baseline for head in found.heads() for one in head.overlaps]
    assert baselines == pytest.approx([1, 1 / 3])


def test_only_the_cells_that_are_asked_for_count():
    found = Overlaps("state")
    found.add(ATTENTION, {"left": LEFT}, np.array([[False, False, True]]), ONE, set())
    assert found.heads()[0].best.overlap == pytest.approx(0.7)


def test_problems_count_alike_whatever_their_number_of_cells_and_give_the_interval():
    found = Overlaps("state")
    asked = np.array([[False, True, True], [False, False, True]])
    found.add(
        np.concatenate([ATTENTION] * 2, axis=1), {"left": LEFT}, asked, np.array([4, 7]), set()
    )
    one = found.heads()[0].best
    assert one.overlap == pytest.approx((0.8 + 0.7) / 2)
    half = 1.96 * np.std([0.8, 0.7], ddof=1) / 2**0.5
    assert (one.low, one.high) == pytest.approx((0.75 - half, 0.75 + half))
    assert (one.cells, one.problems) == (3, 2)


def test_batches_of_one_problem_are_one_problem():
    found = Overlaps("state")
    for _ in range(2):
        found.add(ATTENTION, {"left": LEFT}, ALL, ONE, set())
    one = found.heads()[0].best
    assert (one.problems, one.low, one.high) == (1, 0, 1)
    assert one.overlap == pytest.approx(0.8)


def test_a_selector_of_other_cells_is_refused():
    with pytest.raises(ValueError, match="the selector left is of 3 cells, the attention of 2"):
        Overlaps("state").add(ATTENTION[..., :2, :2], {"left": LEFT}, ALL[:, :2], ONE, set())
