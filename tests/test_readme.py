import re
from pathlib import Path

import pytest
import yaml

from trm.models.recursive import RecursiveConfig, TinyRecursiveModel

README = "README.md"


def test_every_file_that_the_readme_links_to_is_there(repository: Path):
    links = re.findall(r"\]\(([^)#]+)\)", (repository / README).read_text())
    assert links
    assert [link for link in links if not (repository / link).exists()] == []


def test_every_file_of_the_tree_is_there(repository: Path):
    tree = (repository / README).read_text().split("## Where things live")[1].split("## Add")[0]
    folders: list[tuple[int, str]] = []
    for line in re.findall(r"^ {4}( *)(\S+)", tree, flags=re.MULTILINE):
        indent, name = len(line[0]), line[1]
        folders = [folder for folder in folders if folder[0] < indent]
        path = repository.joinpath(*(folder for _, folder in folders), name)
        assert path.exists(), path
        if name.endswith("/"):
            folders.append((indent, name))


@pytest.mark.parametrize("config", ["debug", "quickstart", "trm/small", "trm/note"])
def test_parameters_are_counted_as_the_readme_says(repository: Path, config: str):
    row = re.search(
        rf"\(configs/{config}\.yaml\).*\| ([\d,]+) \|", (repository / README).read_text()
    )
    settings = yaml.safe_load((repository / f"configs/{config}.yaml").read_text())
    model = TinyRecursiveModel(RecursiveConfig(**settings["model"]["init_args"]["model"]))
    assert row is not None
    assert int(row[1].replace(",", "")) == model.num_parameters
