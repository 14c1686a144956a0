import pytest

from trm.evaluation.seeds import by_setting


def models(*names: str, **other) -> list[dict]:
    return [{"name": name, "model": {"hidden_size": 8}} | other for name in names]


@pytest.mark.parametrize(
    ("names", "setting"),
    [
        (("wide, seed 0", "wide, seed 1"), "wide"),
        (("lattice-seed1", "lattice-seed12"), "lattice"),
        (("a_seed_0", "a_seed_1"), "a"),
    ],
)
def test_seeds_of_a_setting_are_together(names, setting):
    assert {n: len(held) for n, held in by_setting(models(*names)).items()} == {setting: 2}


def test_a_single_seed_keeps_its_name():
    assert list(by_setting(models("a, seed 0", "b, seed 0"))) == ["a, seed 0", "b, seed 0"]


def test_models_that_are_made_otherwise_are_not_one_setting():
    held = models("a, seed 0", "a, seed 1") + models("a, seed 2", model={"hidden_size": 16})
    assert {n: len(some) for n, some in by_setting(held).items()} == {"a": 2, "a, seed 2": 1}
    assert {n: len(some) for n, some in by_setting(held[::-1]).items()} == {"a": 2, "a, seed 2": 1}


def test_a_model_without_a_seed_in_its_name_joins_no_others():
    held = models("a", "a, seed 0", "a, seed 1")
    assert sorted(len(some) for some in by_setting(held).values()) == [1, 2]


def test_a_name_that_is_a_seed_alone_stays():
    assert list(by_setting(models("seed 1", "seed 2"))) == ["seed 1", "seed 2"]
