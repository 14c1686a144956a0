import pytest

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import SPLITS, split_of
from canvas.sampling import FAMILIES, family_problems

TASK = Multiplication(digits_a=(1, 4), digits_b=(1, 4))
every_family = pytest.mark.parametrize("family", FAMILIES)


def asked(family: str, digits: int, task: Multiplication | Addition = TASK, seed: int = 0):
    return family_problems(task, family, digits, 12, seed).to_ints()


@every_family
@pytest.mark.parametrize("base", [2, 3, 10])
@pytest.mark.parametrize("digits", [1, 4, 9, 100])
def test_problems_are_different_and_of_the_digits_that_are_asked(family, base, digits):
    task = Multiplication(base=base, digits_a=(1, 4), digits_b=(1, 4))
    problems = family_problems(task, family, digits, 12, 0)
    found = problems.to_ints()
    assert len(set(found)) == len(found) <= 12
    assert digits < 20 or len(found) >= 10
    assert all(max(lengths) == digits for lengths in problems.lengths.tolist())
    assert all(min(pair) > 0 for pair in found)


@every_family
def test_none_can_have_been_trained_on(family):
    problems = family_problems(TASK, family, 3, 12, 0)
    assert (split_of(problems) == SPLITS.index("test")).all()
    longer = family_problems(TASK, family, 12, 12, 0)
    assert not TASK.in_range(longer).any()
    assert len(longer) >= 10


@every_family
def test_the_seed_decides_and_the_layout_does_not(family):
    assert asked(family, 30) == asked(family, 30)
    lattice = Multiplication(layout="lattice", digits_a=(1, 4), digits_b=(1, 4))
    assert asked(family, 30, lattice) == asked(family, 30)
    if family in ("random", "near powers", "extreme digits"):
        assert asked(family, 30, seed=1) != asked(family, 30)


def test_families_are_what_they_are_called():
    assert (10**30 - 1, 10**30 - 1) in asked("nines", 30)
    assert (10**29, 10**29) in asked("powers", 30)
    assert (10**29 + 2, 10**29 + 2) in asked("10..02", 30)
    assert (10**29 + 1, 10**30 - 1) in asked("10..01 and nines", 30)
    for a, b in asked("squares", 30):
        assert a == b
    for a, b in asked("palindromes", 30):
        assert str(a) == str(a)[::-1]
        assert str(b) == str(b)[::-1]
    for a, b in asked("alternating digits", 30):
        assert {len(set(str(n)[k::2])) for n in (a, b) for k in (0, 1) if n > 9} == {1}
    for a, b in asked("sparse digits", 30):
        assert sum(digit != "0" for digit in str(a)) <= 3 >= sum(digit != "0" for digit in str(b))
    for a, b in asked("extreme digits", 30):
        assert set(str(a) + str(b)) <= set("0159")
    for a, b in asked("one digit of a", 30):
        assert (len(str(a)), len(str(b))) == (1, 30)
    for _, b in asked("equal digits of b", 30):
        assert len(set(str(b))) == 1


def test_addition_has_them_too():
    task = Addition(digits=(1, 4))
    found = family_problems(task, "nines", 50, 12, 0)
    assert (10**50 - 1, 10**50 - 1) in found.to_ints()
    assert not task.in_range(found).any()
