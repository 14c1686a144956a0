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


def test_copies_are_made_and_named_of_all_or_some(command, configs, tmp_path):
    ran = command("configs", "--copy", "mine", "quickstart", "trm/small", folder=tmp_path)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == ["mine/quickstart.yaml", "mine/trm/small.yaml"]
    ran = command("configs", "--copy", "all", "--quiet", folder=tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    for name in ("mine", "all"):
        copies = {f.relative_to(tmp_path / name): f for f in (tmp_path / name).rglob("*.yaml")}
        assert all(f.read_text() == (configs / path).read_text() for path, f in copies.items())
    assert copies.keys() == {f.relative_to(configs) for f in configs.rglob("*.yaml")}


def test_nothing_is_overwritten_and_then_nothing_is_copied(command, tmp_path):
    (tmp_path / "quickstart.yaml").write_text("mine")
    ran = command("configs", "--copy", ".", folder=tmp_path)
    assert ran.code == 2
    told = "trm configs: quickstart.yaml is there already, and stays: choose another folder\n"
    assert ran.err == told
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]
