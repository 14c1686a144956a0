import re
from pathlib import Path

import pytest
import yaml

from trm import shipped_configs
from trm.configs import check_call, read_config
from trm.shipped_configs import about, find_config


def test_they_are_the_projects_own_by_name(repository):
    found = shipped_configs.shipped_configs()
    assert {"debug", "quickstart", "generalise/decimal", "gpt/small_learned"} <= found.keys()
    assert set(found.values()) == set((repository / "configs").rglob("*.yaml"))


def test_an_installation_has_them_elsewhere(monkeypatch, tmp_path):
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt/tiny.yaml").write_text("# Tiny.")
    monkeypatch.setattr(shipped_configs, "_INSTALLED", tmp_path)
    assert shipped_configs.shipped_configs() == {"gpt/tiny": tmp_path / "gpt/tiny.yaml"}


@pytest.mark.parametrize(
    "name", ["gpt/small_learned", "gpt/small_learned.yaml", "configs/gpt/small_learned.yaml"]
)
def test_a_name_can_be_written_in_several_ways(monkeypatch, tmp_path, repository, name):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == repository / "configs/gpt/small_learned.yaml"


@pytest.mark.parametrize("own", ["debug", "debug.yaml"])
def test_a_file_in_the_working_folder_wins(monkeypatch, tmp_path, own):
    monkeypatch.chdir(tmp_path)
    (tmp_path / own).write_text("model: {}")
    assert find_config("debug") == Path(own)


def test_a_folder_of_the_name_is_no_config(monkeypatch, tmp_path, repository):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "debug").mkdir()
    assert find_config("debug") == repository / "configs/debug.yaml"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("quikstart", "Did you mean quickstart?"),
        ("quikstart.yaml", "Did you mean quickstart.yaml?"),
        ("configs/quikstart.yaml", "Did you mean configs/quickstart.yaml?"),
        ("decimal", "Did you mean generalise/decimal?"),
        ("mime.yaml", "Did you mean mine.yaml?"),
        ("frobnicate", "`trm configs` lists those of the package."),
    ],
)
def test_the_nearest_one_is_suggested(monkeypatch, tmp_path, name, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("model: {}")
    with pytest.raises(ValueError, match=f"^{re.escape(f'there is no config {name}. {told}')}$"):
        find_config(name)


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ("# Some seconds: trm fit --config configs/debug.yaml", "Some seconds"),
        (
            "# Up to 4 x 4 digits,\n# in an hour. More is\n# elsewhere.",
            "Up to 4 x 4 digits, in an hour",
        ),
        ("# Learns in 0.5 hours.\n#   trm fit --config a.yaml\n\n# Other.", "Learns in 0.5 hours"),
        ("model: {}", ""),
    ],
)
def test_what_a_config_is_stands_in_its_first_sentence(tmp_path, comment, told):
    (tmp_path / "own.yaml").write_text(comment)
    assert about(tmp_path / "own.yaml") == told


def test_every_one_says_what_it_is():
    told = {name: about(file) for name, file in shipped_configs.shipped_configs().items()}
    assert all(10 < len(sentence) < 150 for sentence in told.values()), told


@pytest.mark.parametrize("words", [["--config", "debug"], ["-c", "debug"], ["--config=debug"]])
def test_a_call_gets_files_for_names(monkeypatch, tmp_path, repository, words):
    monkeypatch.chdir(tmp_path)
    *option, named = check_call(["fit", *words, "--trainer.max_epochs", "1"])[1:-2]
    assert named.removeprefix("--config=") == str(repository / "configs/debug.yaml")
    assert option == words[:-1]


def test_a_large_one_is_refused_like_any_other(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped_configs, "_INSTALLED", tmp_path)
    (tmp_path / "large.yaml").write_text("a: " + "[" * 3000 + "]" * 3000)
    with pytest.raises(ValueError, match="at most 50 levels deep"):
        check_call(["fit", "--config", "large"])


def test_training_takes_a_name_and_keeps_the_whole_config(command, tmp_path):
    ran = command("fit", "--config", "debug", "--trainer.max_epochs", 1, folder=tmp_path)
    assert ran.code == 0, ran.err
    kept = read_config(tmp_path / "runs/debug/version_0/config.yaml")
    shipped = yaml.safe_load(find_config("debug").read_text())
    assert kept["data"]["batch_size"] == shipped["data"]["batch_size"]
