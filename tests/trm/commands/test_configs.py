"""`trm configs`."""

import pytest


@pytest.fixture
def configs(repository):
    return repository / "configs"


def test_they_are_listed_with_what_they_are_and_one_is_printed_as_it_is(command, configs):
    lines = command("configs").out.splitlines()
    assert len(lines) == len(list(configs.rglob("*.yaml")))
    about = dict(line.split(maxsplit=1) for line in lines)
    assert about["debug"] == "Some seconds, to see that everything runs"
    ran = command("configs", "gpt/small_learned")
    assert (ran.code, ran.out) == (0, (configs / "gpt/small_learned.yaml").read_text())
