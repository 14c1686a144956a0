"""Version, citation, changelog and workflows agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def workflow(name: str) -> dict:
    return yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8"))


def test_citation_changelog_and_licence_agree():
    version = PROJECT["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.findall(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)[0]
    assert (citation["version"], citation["date-released"]) == newest
    assert newest[0] == version
    (author,) = citation["authors"]
    assert PROJECT["project"]["authors"] == [author]
    assert author["name"] in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert citation["keywords"] == PROJECT["project"]["keywords"]


def test_ci_runs_on_all_pythons_that_the_package_names():
    matrix = workflow("ci")["jobs"]["gate"]["strategy"]["matrix"]
    named = re.findall(r":: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert matrix["python"] == named
    assert [system.partition("-")[0] for system in matrix["os"]] == ["ubuntu", "macos", "windows"]


def test_ci_runs_the_commands_of_the_makefile():
    steps = {step.get("name"): step for step in workflow("ci")["jobs"]["gate"]["steps"]}
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    for step in ("Check", "Test"):
        for line in steps[step]["run"].splitlines():
            assert f"$(BIN)/{line}\n" in make


def test_the_website_is_built_by_the_command_of_the_makefile():
    steps = workflow("pages")["jobs"]["build"]["steps"]
    (build,) = (step["run"] for step in steps if step.get("name") == "Build")
    assert f"$(BIN)/{build}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    site = re.findall(r"^site_dir: (\S+)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert [step["with"]["path"] for step in steps if "path" in step.get("with", {})] == site
    assert PROJECT["dependency-groups"]["docs"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_each_action_has_a_version(file):
    used = re.findall(r"uses: (\S+)", file.read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not re.search(r"@v\d+(\.\d+)*$", action)] == []
