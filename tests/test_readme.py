import re
from pathlib import Path

import pytest
import torch
import yaml

from trm.models.gpt import GPT, GPTConfig
from trm.models.recursive import RecursiveConfig, TinyRecursiveModel

README = "README.md"
CONFIGS = Path(__file__).parents[1] / "configs"


def test_every_file_that_the_readme_links_to_is_there(repository: Path):
    links = re.findall(r"\]\(([^)#]+)\)", (repository / README).read_text())
    assert links
    assert [link for link in links if not (repository / link).exists()] == []


def test_the_tree_shows_every_module_and_nothing_that_is_not_there(repository: Path):
    tree = (repository / README).read_text().split("## Where things live")[1].split("## Add")[0]
    folders: list[tuple[int, str]] = []
    shown = set()
    for line in re.findall(r"^ {4}( *)(\S+)", tree, flags=re.MULTILINE):
        indent, name = len(line[0]), line[1]
        folders = [folder for folder in folders if folder[0] < indent]
        path = repository.joinpath(*(folder for _, folder in folders), name)
        assert path.exists(), path
        shown.add(path)
        if name.endswith("/"):
            folders.append((indent, name))
    modules = {
        path for part in ("canvas", "augment", "trm") for path in (repository / part).rglob("*.py")
    }
    commands = repository / "trm/commands"  # are in one line
    unseen = {m for m in modules - shown if m.name != "__init__.py" and m.parent != commands}
    assert not unseen


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_parameters_are_counted_as_the_readme_says(repository: Path, path: Path):
    name = path.relative_to(repository)
    row = re.search(rf"\({name}\).*\| ([\d,]+) \|", (repository / README).read_text())
    settings = yaml.safe_load(path.read_text())
    shape, canvas = settings["model"]["init_args"]["model"], settings["data"]["canvas"]
    size = {side: canvas[side] for side in ("height", "width") if canvas.get(side)}
    with torch.device("meta"):  # sizes without memory
        if "GPT" in settings["model"]["class_path"]:
            count = GPT(GPTConfig(**shape, **size)).num_parameters
        else:
            count = TinyRecursiveModel(RecursiveConfig(**shape)).num_parameters
    assert row is not None
    assert int(row[1].replace(",", "")) == count
