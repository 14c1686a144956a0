import re
from pathlib import Path

import pytest

from trm.io.config_files import about, find_config, read_config, shipped_configs


def test_a_key_that_stands_twice_is_named_with_its_line(tmp_path):
    (tmp_path / "twice.yaml").write_text("data:\n  seed: 1\n  batch_size: 2\n  seed: 3\n")
    with pytest.raises(ValueError, match=r"twice\.yaml, line 4: seed stands there twice$"):
        read_config(tmp_path / "twice.yaml")
    (tmp_path / "once.yaml").write_text("b: &b {seed: 1}\nc: [*b, *b]\nd: {<<: *b, seed: 2}\n")
    assert read_config(tmp_path / "once.yaml")["c"] == [{"seed": 1}, {"seed": 1}]
    (tmp_path / "deep.yaml").write_text("data: " + "[" * 1000 + "]" * 1000)
    with pytest.raises(ValueError, match=r"deep\.yaml: this is no YAML$"):
        read_config(tmp_path / "deep.yaml")


def test_configs_are_listed_with_what_they_are_and_printed(repository, command):
    found = shipped_configs()
    assert {"debug", "quickstart", "generalise/latent", "gpt/small_learned"} <= found.keys()
    assert set(found.values()) == set((repository / "configs").rglob("*.yaml"))
    assert all(10 < len(about(file)) < 150 for file in found.values())
    told = dict(line.split(maxsplit=1) for line in command("configs").out.splitlines())
    assert told.keys() == shipped_configs().keys()
    assert told["debug"] == "Some seconds of training, to test an installation"
    ran = command("configs", "gpt/small_learned")
    assert ran.out == (repository / "configs/gpt/small_learned.yaml").read_text()


def test_a_name_is_written_in_several_ways_and_own_files_win(monkeypatch, tmp_path, repository):
    monkeypatch.chdir(tmp_path)
    for name in ("gpt/small_learned", "gpt/small_learned.yaml", "configs/gpt/small_learned.yaml"):
        assert find_config(name) == repository / "configs/gpt/small_learned.yaml"
    (tmp_path / "quickstart").mkdir()
    assert find_config("quickstart") == repository / "configs/quickstart.yaml"
    for own in ("debug.yaml", "debug"):
        (tmp_path / own).write_text("model: {}")
        assert find_config("debug") == Path(own)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("quikstart", "Did you mean quickstart?"),
        ("latent", "Did you mean generalise/latent?"),
        ("mime.yaml", "Did you mean mine.yaml?"),
        ("small_lerned", "Did you mean gpt/small_learned?"),
        ("reference", "Did you mean trm/reference?"),
        ("zzzzzz", "There are debug and quickstart, and more in folders: `trm configs` lists all."),
    ],
)
def test_the_nearest_one_is_suggested(monkeypatch, tmp_path, name, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("model: {}")
    with pytest.raises(ValueError, match=f"^{re.escape(f'there is no config {name}. {told}')}$"):
        find_config(name)


def test_the_summary_of_a_config_is_its_first_sentence(tmp_path):
    file = tmp_path / "own.yaml"
    for comment, told in (
        ("# Some seconds: trm fit --config configs/debug.yaml", "Some seconds"),
        ("# Learns in 0.5\n# hours.\n#   trm fit -c a.yaml\n\n# Other.", "Learns in 0.5 hours"),
        ("model: {}", ""),
    ):
        file.write_text(comment)
        assert about(file) == told


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252"])
def test_a_config_in_another_encoding_is_refused_by_its_name(command, tmp_path, encoding):
    file = tmp_path / "mine.yaml"
    file.write_text("# Mine \u00d7.\nmodel: {}\n", encoding=encoding)
    for words in (("fit", "--config"), ("sweep", "--output", "runs")):
        error = command(*words, "mine.yaml", folder=tmp_path, code=2).err
        assert "mine.yaml is no text in UTF-8, perhaps UTF-16" in error
    file.write_text("# Mine \u00d7.\nmodel: {}\n", encoding="utf-8-sig")
    assert read_config(file) == {"model": {}}
    assert about(file) == "Mine \u00d7"
