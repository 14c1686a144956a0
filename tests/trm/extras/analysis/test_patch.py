"""Pairs of problems that differ in one thing, and what activations of one do to the other."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from canvas import symbols
from canvas.addition import Addition
from canvas.drawing import row_steps
from canvas.multiplication import Multiplication
from canvas.problems import SPLITS, Problems, split_of
from canvas.symbols import MASK
from trm.extras.analysis.pairs import CARRY, DIGIT, FACTOR, KINDS, TOTAL, Pair, draw_pairs, kinds_of
from trm.extras.analysis.patch import HeadEffects, head_effects, open_pair, patch, replacement
from trm.solving.solver import Solver

FOUR = {"digits_a": 4, "digits_b": 4}
ADDED = {"digits": 5, "addends": 2}


@pytest.fixture(scope="module")
def adding(stepping) -> Solver:
    """Pairs are drawn alike whatever the model."""
    return replace(stepping, task=Addition("column", digits=(1, 5), addends=(2, 2)))


def operands(pair: Pair) -> list[tuple[str, ...]]:
    """Of both problems, the numbers as written."""
    return [tuple(name.replace("+", "x").split(" x ")) for name in pair.names]


def places(one: object, other: object) -> list[int]:
    """Places where two numbers differ, from the lowest digit."""
    x, y = str(one), str(other)
    assert len(x) == len(y)
    return [k for k in range(len(x)) if x[-1 - k] != y[-1 - k]]


def differing(pair: Pair) -> list[list[int]]:
    """Places where each operand differs."""
    return [places(*both) for both in zip(*operands(pair), strict=True)]


@pytest.fixture(scope="module")
def drawn(stepping, adding) -> dict[tuple[str, str], list[Pair]]:
    solvers = (stepping, FOUR), (adding, ADDED)
    return {
        (solver.task.name, kind): draw_pairs(solver, kind, size, 20, seed=0)
        for solver, size in solvers
        for kind in kinds_of(solver.task)
    }


def test_pairs_are_held_out_and_a_carry_keeps_the_lower_digit(drawn):
    for pairs in drawn.values():
        numbers = [tuple(map(int, one)) for pair in pairs for one in operands(pair)]
        assert (split_of(Problems.from_ints(numbers)) == SPLITS.index("test")).all()
        assert len({pair.names for pair in pairs}) == len(pairs) == 20
    for pair in drawn["multiplication", CARRY]:
        (a, b), (other, _) = operands(pair)
        ((place,), none), row = differing(pair), pair.row
        # The same digits meet there and farther left.
        products = (int(number) * int(b[-1]) for number in (a, other))
        assert (none, row, places(*products)[0]) == ([], 0, place + 1)


def test_pairs_differ_in_one_digit_and_the_rows_that_follow(drawn):
    for kind in (DIGIT, FACTOR, TOTAL):
        for pair in drawn["multiplication", kind]:
            (a, b), (row, *_) = differing(pair), np.argwhere(pair.inputs[0] == symbols.MASK)[0]
            differ = np.argwhere(pair.inputs[0] != pair.inputs[1])[:, 0]
            if kind == DIGIT:  # changes the first row that its multiplier digit is not 0 in
                assert (len(a), b) == (1, [])
                assert pair.row == 0 or operands(pair)[0][1].endswith("0" * pair.row)
            elif kind == FACTOR:  # its own row, and none above
                assert (a, b, differ.tolist()) == ([], [pair.row], [row])
            else:  # the row above: its total, and the digit in the margin
                assert (a, b, set(differ)) == ([], [pair.row - 1], {row - 1})
                assert len(differ) > 1


def test_pairs_of_sums_differ_in_one_addend_or_by_a_carry(drawn):
    for pair in drawn["addition", DIGIT]:
        assert sum(map(len, differing(pair))) == 1
    for pair in drawn["addition", CARRY]:
        one, other = operands(pair)
        (place,) = {k for of in differing(pair) for k in of}
        columns = [sum(int(number[-1 - place]) for number in of) for of in (one, other)]
        assert abs(columns[0] - columns[1]) == 10
        assert places(*(sum(map(int, of)) for of in (one, other)))[0] == place + 1


@pytest.mark.parametrize("layout", ["standard", "accumulate", "interleaved", "running_sum"])
@pytest.mark.parametrize("kind", KINDS["multiplication"])
def test_symbols_stand_in_the_same_cells_in_every_layout(stepping, layout, kind):
    solver = replace(stepping, task=Multiplication(layout))
    pairs = draw_pairs(solver, kind, {"digits_a": 3, "digits_b": 3}, 6, seed=0)
    assert len(pairs) == 6
    for pair in pairs:
        masked = pair.inputs == symbols.MASK
        assert (masked[0] == masked[1]).all()
        assert (pair.labels[0] != pair.labels[1])[masked[0]].any()
        for cells in (pair.inputs, pair.labels):
            assert ((cells[0] == symbols.BLANK) == (cells[1] == symbols.BLANK)).all()


def test_missing_pairs_or_correct_rows_are_named(stepping, adding, make_solver):
    solver = replace(stepping, task=Multiplication("direct"))
    assert draw_pairs(solver, CARRY, {"digits_a": 3, "digits_b": 2}, 3, seed=0) == []
    assert len(draw_pairs(solver, DIGIT, {"digits_a": 3, "digits_b": 2}, 3, seed=0)) == 3
    with pytest.raises(ValueError, match="factor"):
        draw_pairs(adding, FACTOR, ADDED, 3, seed=0)
    bits = replace(stepping, task=Multiplication("lattice", base=2))
    with pytest.raises(ValueError, match="held-out problems of 1 x 1 digits differ only in digit"):
        head_effects(bits, {"digits_a": 1, "digits_b": 1}, (DIGIT,))
    with pytest.raises(
        ValueError, match="1 x 1 digits differ only in digit or factor or carry or total"
    ):
        head_effects(bits, {"digits_a": 1, "digits_b": 1})
    with pytest.raises(ValueError, match="the model gets rows wrong in all of 3 pairs"):
        head_effects(make_solver(), {"digits_a": 3, "digits_b": 3}, (DIGIT,), pairs=3)


OF = {"stepping": ("253x83", "254x83"), "gpt": ("1212+5613", "1212+5643")}
STEPS = (1, 3)


def read(solver: Solver, texts: tuple[str, str], row: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two problems with a row masked, and with it filled in."""
    pages = [solver.draw_worked(solver.task.parsed([text])) for text in texts]
    steps = [row_steps(page, np.array([row])) for page in pages]
    parts = zip(*((step.inputs, step.labels) for step in steps), strict=True)
    return tuple(map(np.concatenate, parts))


@pytest.mark.parametrize("family", OF)
def test_patching_the_only_differing_symbol_has_the_whole_effect(family, request):
    solver = request.getfixturevalue(family)
    pair = read(solver, OF[family])
    found = patch(solver.predictor, *pair, STEPS)
    assert found.sites[0] == "input"
    assert found.right == (True, True)
    of_input = np.nan_to_num(found.effects[0])
    differ = found.canvases[0] != found.canvases[1]
    differ &= ~found.scored  # of a GPT the row itself, too, is read
    assert differ.sum() == 1
    np.testing.assert_allclose(of_input[differ], 1, atol=1e-3)
    np.testing.assert_allclose(of_input[~differ], 0, atol=1e-3)
    if family == "gpt":  # the last block matters only where the answer is written, from the right
        last, writers = np.nan_to_num(found.effects[-1]), np.roll(found.scored, 1, axis=1)
        np.testing.assert_allclose(last[writers], 1, atol=1e-3)
        np.testing.assert_allclose(last[~writers], 0, atol=1e-3)


@pytest.mark.parametrize("heads", [False, True])
def test_the_effect_is_the_share_of_the_logit_difference(gpt, heads):
    """Computed once more from the logits that a patched run ends with."""
    inputs, labels = read(gpt, OF["gpt"])
    found = patch(gpt.predictor, inputs, labels, heads=heads)
    row, column = np.argwhere(found.scored)[-1].tolist()
    recorder, _, grid = open_pair(gpt.predictor, inputs, labels, STEPS)
    sites = recorder.heads() if heads else [*recorder.inputs(), *recorder.states()]
    site = next(one for one in sites if one.name == found.sites[2])
    base = recorder.run([site])
    place = (0,) if heads else (row, column)
    chosen = torch.zeros(1, found.effects.shape[1] if heads else recorder.length, dtype=torch.bool)
    chosen[0, 0 if heads else grid[row, column]] = True
    patched = recorder.run([site], [0], replacement(chosen, base.values[site]))
    a, b = labels.astype(int)
    differ = np.argwhere((a != b) & (inputs[0] == MASK))
    differences = [
        np.mean([float(of[i, j, b[i, j]] - of[i, j, a[i, j]]) for i, j in differ])
        for of in (*base.logits, *patched.logits)
    ]
    assert found.differences == pytest.approx(differences[:2], rel=1e-4)
    expected = (differences[2] - differences[0]) / (differences[1] - differences[0])
    assert found.effects[2][place] == pytest.approx(expected, abs=1e-3)


def test_problems_that_cannot_be_compared_are_refused(stepping, make_solver):
    solver = stepping
    with pytest.raises(ValueError, match="have the same symbols in this row"):
        patch(solver.predictor, *read(solver, ("253x83", "253x93")))
    with pytest.raises(ValueError, match="tokens are not in the same cells"):
        patch(solver.predictor, *read(solver, ("253x89", "253x81"), 1))
    solver = make_solver()
    with torch.no_grad():
        solver.predictor.model.lm_head.weight.zero_()
    with pytest.raises(ValueError, match="does not distinguish the two problems"):
        patch(solver.predictor, *read(solver, ("21x2", "22x2")))


SEVEN = {"digits": 7, "addends": 2}


@pytest.fixture(scope="module")
def found(gpt_of_blanks) -> list[HeadEffects]:
    return head_effects(gpt_of_blanks, SEVEN, (CARRY, DIGIT), pairs=6)


def test_effects_are_means_over_pairs_that_a_seed_draws(found, gpt_of_blanks):
    writer = gpt_of_blanks
    pairs = draw_pairs(writer, CARRY, SEVEN, 6, seed=0)
    assert found[0].pairs == [(*pair.names, pair.row + 1) for pair in pairs]
    fewer = draw_pairs(writer, CARRY, SEVEN, 2, seed=0)
    assert [pair.names for pair in fewer] == [pair.names for pair in pairs[:2]]
    assert draw_pairs(writer, CARRY, SEVEN, 1, seed=1)[0].names != pairs[0].names
    effects = [patch(writer.predictor, p.inputs, p.labels, heads=True).effects for p in pairs]
    np.testing.assert_allclose(found[0].mean, np.mean(effects, axis=0), atol=1e-5)
    assert (np.array(found[0].low) <= np.array(found[0].mean)).all()
    assert (np.array(found[0].mean) <= np.array(found[0].high)).all()


def test_a_gpt_moves_the_carry_by_heads_of_the_right_column(found):
    carry, digit = found
    assert (carry.kind, digit.kind, carry.left_out) == ("carry", "digit", 0)
    assert carry.sites == [f"block {block}" for block in (1, 2, 3, 4)]
    for block, head in ((2, 1), (3, 2)):  # by `trm analyse rasp`
        assert carry.mean[block - 1][head - 1] > 0.2 > 0.1 > digit.mean[block - 1][head - 1]
    assert digit.mean[2][3] > 0.2 > carry.mean[2][3]  # block 3, head 4: the column itself
