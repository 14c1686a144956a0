"""Weights by short names, and what is listed of them."""

import re
import shutil

import pytest

from trm import load_solver
from trm.checkpoints import SHIPPED, find_checkpoint, names, read_task
from trm.checkpoints.content import load_checkpoint
from trm.checkpoints.names import about, named_weights


def test_a_name_leads_to_a_file_of_the_sources_or_the_package(repository):
    models = repository / "docs/models"
    for name in ("trm-quick-seed0", "trm-quick-seed0.safetensors"):
        assert find_checkpoint(name) == models / "trm-quick-seed0.safetensors"
    assert find_checkpoint("lattice") == SHIPPED
    assert named_weights().keys() == {"lattice"} | {f.stem for f in models.glob("*.safetensors")}
    solver = load_solver("tiny-seed0", device="cpu")
    assert solver.task.layout == "standard"


def test_an_existing_path_wins_over_a_name(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(repository / "docs/models/column-seed0.safetensors", "tiny-seed0.safetensors")
    assert find_checkpoint("tiny-seed0.safetensors").resolve().parent == tmp_path
    assert load_solver("tiny-seed0.safetensors", device="cpu").task.layout == "column"
    (tmp_path / "tiny-seed0").mkdir()
    shutil.copy("tiny-seed0.safetensors", "tiny-seed0/x.safetensors")
    assert find_checkpoint("tiny-seed0").name == "x.safetensors"


def test_an_unknown_name_suggests_the_nearest_and_a_path_none(command):
    nearest = r"`trm models` lists \(the nearest: trm-quick-seed0.*\); train one"
    with pytest.raises(FileNotFoundError, match=f"no checkpoint trm-quik-seed0; nor .* {nearest}"):
        find_checkpoint("trm-quik-seed0")
    assert "the nearest: tiny-seed" in command("models", "tiny-sed0", code=2).err
    with pytest.raises(FileNotFoundError, match="no checkpoint nowhere/lattice; train one"):
        find_checkpoint("nowhere/lattice")


def test_removed_weights_are_restored_from_the_git_history(repository, monkeypatch, tmp_path):
    page = (repository / "docs/models/README.md").read_text(encoding="utf-8")
    for name in ("written-7-seed0", "addition-19-gpt-blanks-seed1", "untold-decimal-seed4"):
        shown = f"git show 87e62cbc:docs/models/{name}.safetensors > {name}.safetensors"
        for given in (name, f"{name}.safetensors"):
            with pytest.raises(FileNotFoundError, match=re.escape(shown)):
                find_checkpoint(given)
    assert f"    {names.in_history('written-7-seed0')}\n" in page
    assert [name for name in named_weights() if names.in_history(name)] == []
    other = "git show 1a866c42:docs/models/trm-quick-turned-seed0.safetensors > "
    assert str(names.in_history("trm-quick-turned-seed0")).startswith(other)
    for other in ("tiny-seed9", "87e62cbc", ""):
        assert names.in_history(other) is None
    monkeypatch.setattr(names, "_ROOT", tmp_path)  # an installed package has no such table
    monkeypatch.chdir(tmp_path)
    assert names.in_history("written-7-seed0") is None


def test_a_file_wins_over_a_name_whatever_its_own_name(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(find_checkpoint("column-seed0"), "lattice")  # weights without an ending
    assert load_solver("lattice", device="cpu").task.layout == "column"
    assert read_task("lattice")["layout"] == "column"
    shutil.copy(checkpoint, "tiny-seed0.safetensors")  # a checkpoint with another one's ending
    expected = load_solver(checkpoint, device="cpu").task
    assert load_solver("tiny-seed0.safetensors", device="cpu").task == expected
    shutil.copy("lattice", "best.ckpt")
    assert load_solver("best.ckpt", device="cpu").task.layout == "column"


def test_an_installed_package_names_the_place_of_other_weights(
    monkeypatch, tmp_path, command, repository
):
    monkeypatch.setattr(names, "_ROOT", tmp_path)
    monkeypatch.chdir(repository)  # the top folder of a checkout
    assert find_checkpoint("tiny-seed0") == repository / "docs/models/tiny-seed0.safetensors"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('name = "another"\n')
    told = "in the installed package: run the command in the top folder of a checkout"
    with pytest.raises(FileNotFoundError, match=told):
        find_checkpoint("tiny-seed0")
    ran = command("models", "--all")
    assert ran.out.startswith("lattice  cell model  multiplication, lattice  50,853 parameters")
    assert told in ran.out


def test_the_overview_agrees_with_the_files(command):
    lines = {line.split()[0]: line for line in command("models", "--all").out.splitlines()}
    assert lines.keys() == named_weights().keys()
    for name, told in {
        "lattice": "cell model proved; tested: in range 500 of 500, first beyond 1,000 of 1,000, "
        "second beyond 1,000 of 1,000, both beyond 2,000 of 2,000",
        "multiplication-trm-seed0": "recursive, H 3, L 6 tested: in range ",
        "addition-gpt-seed0": "GPT tested: in range 1,000 of 1,000, first beyond 0 of 3,000",
        "lattice-hex-seed0": "cell model proved",
    }.items():
        one = about(named_weights()[name])
        solver = load_solver(name, device="cpu")
        base = "" if solver.task.base == 10 else f", base {solver.task.base}"
        assert one.task == f"{solver.task.name}, {solver.task.layout}{base}"
        assert one.parameters == solver.predictor.model.num_parameters
        assert f"{one.family} {one.results}".startswith(told)
        for part in (one.family, one.task, f"{one.parameters:,} parameters", one.results):
            assert part in lines[name]


def test_weights_of_puzzles_have_their_size_and_figures(command):
    one = about(named_weights()["maze9-trm-seed0"])
    assert one.task == "puzzles, 9 x 9"
    assert one.results.startswith("tested: data/maze9 196 of 200 in 1 view, data/maze9 200 of 200")
    for part in one[:2]:
        assert part in command("models", "--all").out


def test_the_overview_names_all_weights_by_family_on_one_screen(command):
    lines = command("models").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    named = set(re.findall(r"[a-z][\w.-]*-seed\d", text))
    assert named == named_weights().keys() - {"lattice"}
    assert ", lattice, lattice-seed0" in text
    families = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    found = [family for family in families if "model" in family or family.endswith("s")]
    kinds = ["Recursive transformers", "GPTs", "Cell models", "Cell models in integers"]
    assert found == kinds
    assert "untold-neighbours-seed0*" in text  # tested, not proved
    assert "latent-seed0*" not in text
    assert "leave it out" in command("models", "--all", "lattice", code=2).err


def test_a_file_without_metadata_is_refused(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="does not describe its model"):
        about(tmp_path / "x.safetensors")
    assert load_checkpoint("lattice")["card"]["proof"]["verdict"] == "proved"
