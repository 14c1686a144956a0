"""RASP itself, by the examples of Weiss, Goldberg and Yahav 2021."""

import numpy as np
import pytest

from trm.rasp.language import (
    Selector,
    aggregate,
    closest,
    indices,
    select,
    selector_width,
    tokens,
)


def everything(values: np.ndarray) -> Selector:
    return select(values, values, lambda key, query: (key == key) & (query == query))


def as_text(values: np.ndarray) -> str:
    return "".join(values)


def test_reverse():
    letters = tokens("hello")
    length = selector_width(everything(letters))
    flip = select(indices(letters), length - indices(letters) - 1, np.equal)
    assert as_text(aggregate(flip, letters)) == "olleh"


def test_histogram():
    letters = tokens("hello")
    assert selector_width(select(letters, letters, np.equal)).tolist() == [1, 1, 2, 2, 1]


def test_sort_of_a_batch_with_equal_values():
    values = np.array([[3, 1, 2, 1], [9, 8, 7, 6]])
    position = indices(values)
    smaller = select(values, values, np.less)
    tied = select(values, values, np.equal) & select(position, position, np.less)
    rank = selector_width(smaller | tied)
    ranked = aggregate(select(rank, position, np.equal), values)
    assert ranked.tolist() == [[1, 1, 2, 3], [6, 7, 8, 9]]


def test_the_share_of_a_letter_so_far_is_a_mean():
    letters = tokens("abaa")
    position = indices(letters)
    so_far = select(position, position, np.less_equal)
    share = aggregate(so_far, (letters == "a").astype(float))
    np.testing.assert_allclose(share, [1, 1 / 2, 2 / 3, 3 / 4])


def test_what_is_not_selected_does_not_reach_a_mean():
    itself = select(np.arange(2), np.arange(2), np.equal)
    assert aggregate(itself, np.array([1.0, np.inf])).tolist() == [1, np.inf]


def test_the_letter_before_by_the_closest_of_those_before():
    position = indices(tokens("abc"))
    before = select(position, position, np.less)
    assert aggregate(closest(before, position, position), tokens("abc"), "-").tolist() == [
        "-", "a", "b"
    ]  # fmt: skip


def test_not_and_and_or():
    position = indices(tokens("abc"))
    same, before = (select(position, position, rule) for rule in (np.equal, np.less))
    after = ~(same | before)
    assert selector_width(after).tolist() == [2, 1, 0]
    assert not (after & before).chosen.any()


def test_a_selector_of_one_sequence_serves_a_batch():
    position = np.arange(3)
    shift = select(position, position - 1, np.equal)
    found = aggregate(shift, np.array([[4, 5, 6], [7, 8, 9]]), -1)
    assert found.tolist() == [[-1, 4, 5], [-1, 7, 8]]


def test_categories_that_agree_are_fetched_and_those_that_differ_are_refused():
    letters = tokens("abb")
    last_two = Selector(np.array([[False, True, True]] * 3))
    assert as_text(aggregate(last_two, letters)) == "bbb"
    with pytest.raises(ValueError, match="position 0 selects a and b, and there is no mean of"):
        aggregate(everything(letters), letters)


def test_nothing_selected_takes_the_default_and_without_one_is_refused():
    nothing = Selector(np.zeros((2, 2), dtype=bool))
    assert aggregate(nothing, np.array([5, 6]), -1).tolist() == [-1, -1]
    with pytest.raises(ValueError, match="position 0 selects nothing"):
        aggregate(nothing, np.array([5, 6]))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: select(np.arange(3), np.arange(3), np.subtract), "says true or false"),
        (lambda: select(np.ones((2, 3)), np.ones((4, 3)), np.equal), "not of one batch"),
        (lambda: Selector(np.ones((2, 2))), "not float64"),
        (
            lambda: aggregate(Selector(np.ones((2, 2), dtype=bool)), np.arange(3)),
            "give one value for each key",
        ),
        (
            lambda: Selector(np.ones((2, 2), dtype=bool)) & Selector(np.ones((3, 3), dtype=bool)),
            "cannot be combined",
        ),
    ],
)
def test_what_makes_no_sense_is_said_in_one_sentence(wrong, told):
    with pytest.raises(ValueError, match=told):
        wrong()
