"""Merging the codes of a network that invents them."""

import numpy as np
import pytest

from trm.training.merging import RowCells, merged_codes

RANDOM = np.random.default_rng(0)


def rows(step, *, number=400, length=6):
    """Rows of cells that see 0 or 1, and write whether the sum so far is divisible by 3.

    Args:
        step: a network: from what is seen, and the code on the right or None, to the next code;
            code modulo 3 is what it takes for the sum.

    Returns:
        The cells, and the true sums modulo 3, int64 [N].
    """
    seen = RANDOM.integers(0, 2, (number, length))
    sums, codes = seen.cumsum(axis=1) % 3, np.zeros_like(seen)
    for row in range(number):
        code = None
        for column in range(length):
            codes[row, column] = code = step(int(seen[row, column]), code)
    source = np.arange(number * length).reshape(number, length) - 1
    source[:, 0] = -1
    window = seen + 2 * (source < 0)
    cells = RowCells(
        window=window.ravel(),
        told=np.zeros(number * length, dtype=np.int64),
        code=codes.ravel(),
        source=source.ravel(),
        symbol=(sums == 0).ravel().astype(np.int64),
        right=((codes % 3 == 0) == (sums == 0)).ravel(),
    )
    return cells, sums.ravel()


def counting(seen, code):
    return ((code or 0) + seen) % 3


def counting_in_six_codes(seen, code):
    return counting(seen, (code or 0) % 3) + 3 * seen


def counting_with_a_mistake(seen, code):
    """A row that begins with 1 goes on with a code of its own, of which two follow wrongly."""
    if code is None:
        return 5 * seen
    return {0: 1, 1: 0}[seen] if code == 5 else counting(seen, code)


def meanings(codes, sums):
    return {(int(code), int(total)) for code, total in zip(codes, sums, strict=True)}


def test_codes_that_do_the_same_become_one_of_them():
    cells, sums = rows(counting_in_six_codes)
    assert len(meanings(cells.code, sums)) == 6
    pairs = meanings(merged_codes(cells, 6), sums)
    assert {total for _, total in pairs} == {0, 1, 2}
    assert len(pairs) == 3
    assert all(code % 3 == total for code, total in pairs)


def test_what_a_code_means_is_told_by_what_should_have_been_written():
    cells, sums = rows(counting_with_a_mistake)
    assert not cells.right.all()
    counted = cells.counted() & cells.right
    assert (5, 1) in meanings(cells.code[counted], sums[counted])
    pairs = meanings(merged_codes(cells, 6)[counted], sums[counted])
    assert {total for _, total in pairs} == {0, 1, 2}
    assert len(pairs) == 3


def test_cells_left_of_a_wrong_one_do_not_count():
    cells, _ = rows(counting)
    right = np.arange(len(cells.code)) != 2
    expected = [True, True, True, False, False, False, True, True]
    assert cells._replace(right=right).counted()[:8].tolist() == expected


def test_states_that_hardly_any_cell_leads_to_are_unknown():
    cells, _ = rows(counting)
    cells.window[5] = 9  # at the end of a row: nothing tells its state from others
    cells.code[5] = 3
    found = merged_codes(cells, 4)
    assert found[5] == -1
    assert (np.delete(found, 5) >= 0).all()


@pytest.mark.parametrize("codes", [1, 2])
def test_no_more_codes_are_named_than_there_are(codes):
    cells, _ = rows(counting)
    found = merged_codes(cells._replace(code=cells.code % codes), codes)
    assert set(found.tolist()) <= {-1, *range(codes)}
