"""Overlaps of heads with selectors: by hand, and of trained models beside their programs."""

from copy import copy
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from canvas import symbols
from canvas.drawing import row_steps
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.sequences import to_sequences
from trm.evaluation.statistics import bootstrap
from trm.extras.analysis.rasp import Selector, select
from trm.extras.analysis.rasp_heads import Head, compare_heads, heads_of, overlaps, watch
from trm.extras.analysis.record import SequenceRecorder
from trm.solving.gpt_predictor import GPTPredictor

CELLS = np.arange(3)
LEFT = select(CELLS, CELLS - 1, np.equal)
ITSELF = select(CELLS, CELLS, np.equal)
SO_FAR = select(CELLS, CELLS, np.less_equal)

# One layer of two heads on three cells, of which each sees those up to itself.
FIRST = [[1, 0, 0], [0.9, 0.1, 0], [0.1, 0.7, 0.2]]  # at the left, mostly
SECOND = [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]
ATTENTION = np.array([FIRST, SECOND])[None, None]  # [1, 1, 2, 3, 3]
ALL = np.ones((1, 3), dtype=bool)
LAST = np.array([[False, False, True]])


def tally(selectors: dict[str, Selector], used=(), attention=ATTENTION, cells=ALL) -> list[Head]:
    """The heads of a model watched on one row."""
    return [*heads_of([overlaps({"state": attention}, selectors, cells)], used)]


def test_the_best_selector_is_most_above_its_baseline():
    first, second = tally({"left": LEFT})
    assert (first.update, first.layer, first.head, second.head) == ("state", 1, 1, 2)
    # Cell 0 has no cell on its left and does not count; 1 sees two cells, 2 sees three.
    assert first.best.overlap == pytest.approx((0.9 + 0.7) / 2)
    assert second.best.overlap == pytest.approx((0.5 + 0.25) / 2)
    assert first.best.baseline == second.best.baseline == pytest.approx((1 / 2 + 1 / 3) / 2)
    first, second = tally({"so far": SO_FAR, "left": LEFT, "itself": ITSELF})
    assert first.best.selector == "left"
    assert first.of("so far").overlap == pytest.approx(1)  # and so is its baseline
    assert first.of("so far").gain == pytest.approx(0)
    assert second.best.selector == "itself"
    gains = [one.gain for one in first.overlaps]
    assert gains == sorted(gains, reverse=True)


def test_ties_prefer_the_programs_own_selector():
    for used in ("left", "the same"):
        (first, _) = tally({"left": LEFT, "the same": LEFT}, {used})
        assert first.best.selector == used
        assert first.best.in_program
        assert not first.overlaps[1].in_program
    right = select(CELLS, CELLS + 1, np.equal)
    (first, _) = tally({"right": right, "so far": SO_FAR}, {"right"})
    assert first.best.selector == "so far"
    assert (first.of("right").overlap, first.of("right").baseline) == (0, 0)


def test_overlap_counts_requested_cells_and_tokens_without_cells():
    assert tally({"left": LEFT}, cells=LAST)[0].best.overlap == pytest.approx(0.7)
    attention = ATTENTION.copy()
    attention[..., 0, :] = attention[..., 0] = 0  # cell 0 is no token
    best = tally({"left": LEFT}, attention=attention)[0].best
    assert best.overlap == pytest.approx(0.7)  # cell 2, beside a token
    attention = np.pad(ATTENTION * 0.5, ((0, 0),) * 4 + ((0, 1),), constant_values=0.5)
    first = tally({"left": LEFT}, attention=attention)[0].best
    assert first.overlap == pytest.approx((0.9 + 0.7) / 4)
    assert first.baseline == pytest.approx((1 / 3 + 1 / 4) / 2)


def test_problems_of_any_number_of_cells_weigh_the_same():
    found = []
    for cells in (ALL, LAST, ~ALL):  # the last problem has no such cell
        found.append(overlaps({"state": ATTENTION}, {"left": LEFT}, cells))
    one = heads_of(found, ())[0].best
    assert one.overlap == pytest.approx((0.8 + 0.7) / 2)
    assert (one.low, one.high) == pytest.approx(bootstrap(np.array([0.8, 0.7])))


def test_heads_attend_where_the_program_of_the_lattice_selects(stepping):
    found = compare_heads(stepping, {"digits_a": 4, "digits_b": 4}, problems=3)
    places = [(head.update, head.layer, head.head) for head in found.heads]
    assert places == [*product(("z_L", "z_H"), (1, 2), range(1, 9))]
    best = {place: head.best for place, head in zip(places, found.heads, strict=True)}
    for place, selector in ((("z_L", 1, 3), "right"), (("z_L", 1, 8), "above left")):
        assert best[place].selector == selector
        assert best[place].in_program
        assert best[place].overlap > 0.95
    assert (found.problems, found.rows, found.program_right) == (3, 12, 12)
    assert found.program_selectors == ["above", "above left", "right", "same row"]


def test_a_gpt_attends_to_the_digits_of_a_column_and_its_carry(gpt_of_blanks):
    decoded = compare_heads(gpt_of_blanks, {"digits": 7, "addends": 2}, problems=8)
    assert (decoded.problems, decoded.rows, decoded.program_right) == (8, 8, 8)
    places = [(head.layer, head.head) for head in decoded.heads]
    assert places == [*product((1, 2, 3, 4), repeat=2)]
    meet, carry = (decoded.heads[places.index(place)] for place in ((3, 4), (3, 2)))
    assert meet.best.selector == "same column"
    assert meet.best.overlap > 0.95
    assert carry.best.selector == "right column"
    assert carry.best.overlap > 0.75
    for head in decoded.heads:  # uniform attention is over row ends and the start, too
        assert head.of("right").baseline < head.of("same column").baseline < 0.1


def test_gpt_attention_is_of_the_token_before_the_cell(gpt_of_blanks):
    gpt = gpt_of_blanks
    """The attention of one cell, taken from the sequence itself."""
    row = row_steps(gpt.draw_worked(Problems.from_ints([(4812, 7935)])))
    seen = watch(gpt.predictor, row.inputs, row.labels)
    height, width = row.inputs.shape[1:]
    ids, recorder = to_sequences(row.labels), SequenceRecorder(gpt.predictor.model, row.labels)
    weights = recorder.attention()["tokens"].numpy()
    i, j = np.argwhere(row.labels[0] == symbols.encode("7"))[-1]  # of 12747
    token = 1 + i * (width + 1) + width - 1 - j
    cell, N = i * width + j, height * width
    assert ids[0, token] == row.labels[0, i, j]
    above, right = ((i - 1) * width + j, i * width + j + 1)
    here = seen["tokens"][:, 0, :, cell]
    np.testing.assert_array_equal(here[..., right], weights[:, 0, :, token - 1, token - 1])
    above_token = token - (width + 1)
    np.testing.assert_array_equal(here[..., above], weights[:, 0, :, token - 1, above_token])
    np.testing.assert_allclose(here.sum(axis=-1), 1, rtol=1e-5)  # nothing is left out
    assert here.shape[-1] == N + height + 1  # the row ends, and the start
    looped = copy(gpt.predictor.model)
    looped.config = replace(looped.config, loops=2)
    loops = watch(GPTPredictor(looped, gpt.predictor._calibration), row.inputs, row.labels)
    assert list(loops) == ["loop 1", "loop 2"]
    np.testing.assert_array_equal(loops["loop 1"], seen["tokens"])
    assert not np.allclose(loops["loop 2"], seen["tokens"])


def test_a_size_without_two_problems_held_out_is_refused(stepping):
    bits = replace(stepping, task=Multiplication("lattice", base=2))
    with pytest.raises(ValueError, match="fewer than two problems of 1 x 1 digits"):
        compare_heads(bits, {"digits_a": 1, "digits_b": 1})
