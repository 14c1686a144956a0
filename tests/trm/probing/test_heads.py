"""Effects of heads, a mean over pairs."""

import numpy as np
import pytest

from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.evaluation.statistics import bootstrap
from trm.probing.heads import HeadEffects, head_effects
from trm.probing.pairs import CARRY, DIGIT, FACTOR, draw_pairs
from trm.probing.patching import patch
from trm.solving.solver import Solver

SMALL = {"digits_a": 3, "digits_b": 1}


@pytest.fixture(scope="module")
def lattice() -> Solver:
    return load_solver(SHIPPED, device="cpu")


@pytest.fixture(scope="module")
def found(lattice) -> list[HeadEffects]:
    return head_effects(lattice, SMALL, (DIGIT, FACTOR), pairs=4)


def test_the_digit_comes_by_one_head_of_the_shipped_model_and_the_factor_by_another(found):
    digit, factor = (np.array(one.mean) for one in found)
    assert digit.shape == (2, 8)
    assert digit[0, 7] > 0.9 > 0.1 > abs(factor[0, 7])
    assert factor[0, 2] > 0.9 > digit[0, 2]  # which brings the carry, too
    assert [(one.kind, len(one.pairs), one.left_out) for one in found] == [
        ("digit", 4, 0),
        ("factor", 4, 0),
    ]


def test_effects_are_the_mean_of_those_of_single_pairs(found, lattice):
    pairs = draw_pairs(lattice, DIGIT, SMALL, 4, seed=0)
    assert found[0].pairs == [(*pair.names, pair.row + 1) for pair in pairs]
    effects = [patch(lattice.predictor, p.inputs, p.labels, "heads").effects for p in pairs]
    np.testing.assert_allclose(found[0].mean, np.mean(effects, axis=0), atol=1e-5)
    assert (np.array(found[0].low) <= np.array(found[0].mean)).all()
    assert (np.array(found[0].mean) <= np.array(found[0].high)).all()


def test_pairs_in_which_the_model_is_wrong_do_not_count(make_solver):
    solver = make_solver("looped")  # of random weights
    with pytest.raises(ValueError, match="the model is right in none of 3 pairs"):
        head_effects(solver, {"digits_a": 3, "digits_b": 3}, (DIGIT,), pairs=3)


def test_a_gpt_that_adds_takes_the_carry_by_the_heads_that_look_at_the_column_on_the_right(
    repository,
):
    file = repository / "docs/models/addition-gpt-blanks-seed0.safetensors"
    solver = load_solver(file, device="cpu")
    size = {"digits": 7, "addends": 2}
    carry, digit = head_effects(solver, size, (CARRY, DIGIT), pairs=6)
    assert carry.sites == [f"block {block}" for block in (1, 2, 3, 4)]
    for block, head in ((2, 1), (3, 2)):  # by `trm rasp`
        assert carry.mean[block - 1][head - 1] > 0.2 > 0.1 > digit.mean[block - 1][head - 1]
    assert digit.mean[2][3] > 0.2 > carry.mean[2][3]  # block 3, head 4: the column itself


def test_the_interval_of_a_mean_narrows_with_the_pairs_and_is_none_where_all_are_alike():
    values = np.random.default_rng(1).random((400, 2))
    wide, narrow = (np.subtract(*bootstrap(values[:n])[::-1]) for n in (25, 400))
    assert (narrow > 0.05).all()
    assert (narrow < wide).all()
    standard = 2 * 1.96 * values.std(axis=0) / 20
    np.testing.assert_allclose(narrow, standard, rtol=0.1)
    low, high = bootstrap(np.full((5, 1), 0.25))
    assert (low, high) == (0.25, 0.25)


def test_a_size_without_pairs_is_refused(repository):
    bits = load_solver(repository / "docs/models/lattice-base2-seed0.safetensors", device="cpu")
    with pytest.raises(ValueError, match="no two held-out problems of 1 x 1 digits differ in a"):
        head_effects(bits, {"digits_a": 1, "digits_b": 1}, (DIGIT,))
    with pytest.raises(ValueError, match="no pairs of held-out problems of 1 x 1 digits"):
        head_effects(bits, {"digits_a": 1, "digits_b": 1})
