"""Merging the codes of a network that invents them."""

import numpy as np
import pytest

from trm.cells.state_merging import SolutionCells, merged_messages

RANDOM = np.random.default_rng(0)


def solution_cells(cell_input, messages, sources, symbol, right=True):
    """Cells of solutions in arrays of any shape, without hints."""
    messages = messages.reshape(np.size(cell_input), -1)
    return SolutionCells(
        cell_input=cell_input.ravel(),
        messages=messages,
        hints=np.zeros_like(messages),
        sources=sources.reshape(messages.shape),
        symbol=symbol.ravel().astype(np.int64),
        right=np.broadcast_to(right, cell_input.shape).ravel(),
    )


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
    cell_input = seen + 2 * (source < 0)
    right = (codes % 3 == 0) == (sums == 0)
    return solution_cells(cell_input, codes, source, sums == 0, right), sums.ravel()


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
    return {
        (int(code), int(total)) for code, total in zip(codes.ravel(), sums.ravel(), strict=True)
    }


def test_equivalent_latent_codes_merge_by_their_correct_symbols():
    cells, sums = rows(counting_in_six_codes)
    assert len(meanings(cells.messages, sums)) == 6
    pairs = meanings(merged_messages(cells), sums)
    assert {total for _, total in pairs} == {0, 1, 2}
    assert len(pairs) == 3
    assert all(code % 3 == total for code, total in pairs)
    cells, sums = rows(counting_with_a_mistake)
    assert not cells.right.all()
    counted = cells.counted() & cells.right
    assert (5, 1) in meanings(cells.messages[counted], sums[counted])
    pairs = meanings(merged_messages(cells)[counted], sums[counted])
    assert {total for _, total in pairs} == {0, 1, 2}
    assert len(pairs) == 3


def test_a_latent_code_with_two_meanings_is_split():
    """The first cell counts nothing, and says 4; after the fourth a sum of 2 is 4 now and then."""
    number, length = 400, 8
    seen = RANDOM.integers(0, 2, (number, length))
    seen[:, 0] = 0
    sums = seen.cumsum(axis=1) % 3
    marked = np.arange(length) >= 4
    four = np.zeros(seen.shape, dtype=bool)
    for column in range(4, length):  # of a 2, if it says that for the first time, and sees 0
        four[:, column] = (sums[:, column] == 2) & (seen[:, column] == 0) & ~four[:, column - 1]
    codes = np.where(four, 4, sums)
    codes[:, 0] = 4
    cell = np.arange(seen.size).reshape(seen.shape)
    source = np.where(np.arange(length) > 0, cell - 1, -1)
    cell_input = seen + 2 * marked + 4 * (source < 0)
    symbol = np.where(source < 0, -1, sums == 0)
    found = merged_messages(solution_cells(cell_input, codes, source, symbol))
    assert found[four.ravel()].min() >= 0
    assert len(meanings(found, sums)) == 3
    assert set(found[four.ravel()].ravel()) == set(found[(sums == 2).ravel()].ravel())


def test_latent_codes_of_both_directions_merge_together():
    """Of given cells above nothing is written: what they hand on shows in the last row alone."""
    pages, height, width = 300, 3, 4
    seen = RANDOM.integers(0, 2, (pages, height, width))
    down, left = np.zeros((2, pages, height, width), dtype=np.int64)
    for row, column in np.ndindex(height, width):
        above = down[:, row - 1, column] if row else 0
        right = left[:, row, column - 1] if column else 0
        down[:, row, column] = (above + seen[:, row, column] + right) % 3
        left[:, row, column] = (right + above) % 2
    cell = np.arange(pages * height * width).reshape(pages, height, width)
    sources = np.full((*cell.shape, 2), -1)
    sources[:, 1:, :, 0], sources[:, :, 1:, 1] = cell[:, :-1], cell[:, :, :-1]
    asked = np.arange(height)[:, None] == height - 1
    cell_input = seen + 2 * (sources[..., 0] < 0) + 4 * (sources[..., 1] < 0) + 8 * asked
    symbol = np.where(asked, 2 * down + left, -1)
    codes = np.stack((down + 3 * seen, left + 2 * seen), axis=-1)  # twice as many
    found = merged_messages(solution_cells(cell_input, codes, sources, symbol))
    assert len(meanings(found[:, 0], down.ravel())) == 3
    # In the first row nothing depends on what goes left but what goes left.
    lower = (np.arange(cell.size) // width) % height > 0
    assert len(meanings(found[lower, 1], left.ravel()[lower])) == 2


def test_cells_left_of_an_incorrect_one_do_not_count():
    cells, _ = rows(counting)
    right = np.arange(len(cells.cell_input)) != 2
    expected = [True, True, True, False, False, False, True, True]
    assert cells._replace(right=right).counted()[:8].tolist() == expected


def test_a_rare_state_merges_by_the_symbols_that_follow():
    """A sum of 2 is said by a code of its own where a 7 is seen, after which one cell writes."""
    cells, sums = rows(counting)
    cell = next(i for i in range(0, len(sums), 6) if sums[i + 2] == 2 and sums[i + 3] == 0)
    cells.cell_input[cell + 2], cells.messages[cell + 2] = 7, 5
    found = merged_messages(cells)
    assert found[cell + 2] == found[np.flatnonzero(sums == 2)[0]]
    assert len(set(found.ravel().tolist())) == 3


def test_a_rare_state_that_explains_no_symbol_is_unknown():
    """It says 1 for a sum of 2, and the last cell writes the same after both, or what none does."""
    cells, sums = rows(counting)
    cells.cell_input[5::6] += 8  # of last cells, which hand nothing on
    cell = next(i for i in range(0, len(sums), 6) if sums[i + 4] == sums[i + 5] == 2)
    cells.cell_input[cell + 4], cells.messages[cell + 4] = 7, 1
    assert merged_messages(cells)[cell + 4] == 1
    cells.symbol[cell + 5] = 2
    assert merged_messages(cells)[cell + 4] == -1


@pytest.mark.parametrize(("many", "states"), [(1, 1), (5, 2), (200, 2)])
def test_one_frequent_context_is_enough_to_separate_states(many, states):
    """A first cell sees 0, 1 or 2, and says 1 or not; of the second one context writes which."""
    first = np.arange(3 * (24 + many)) % 3
    second = np.append(np.repeat(np.arange(3, 27), 3), np.full(3 * many, 27))
    cells = solution_cells(
        cell_input=np.append(first, second),
        messages=np.append(first == 1, 0 * first),
        sources=np.append(0 * first - 1, np.arange(len(first))),
        symbol=np.append(0 * first - 1, np.where(second == 27, first == 1, 2)),
    )
    assert len(set(merged_messages(cells)[: len(first), 0].tolist())) == states
