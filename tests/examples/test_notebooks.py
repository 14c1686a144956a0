"""Notebooks run, and their stored outputs are complete: pictures, no errors, at most 300 KiB.

The quickest one is run here without a kernel. `make notebooks` runs all in kernels.
`jupyter execute --inplace examples/NAME.ipynb` stores the outputs of changed cells.
"""

import ast
import importlib
import json
import os
import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from trm.commands.cli import TRAINING, parser_of
from trm.io.config_files import find_config

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["look_inside", "solve_puzzles", "train_and_prove", "your_own_canvas"]
QUICKEST = "your_own_canvas"


def read(name: str) -> dict[str, Any]:
    return json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))


def code(name: str) -> list[dict[str, Any]]:
    return [cell for cell in read(name)["cells"] if cell["cell_type"] == "code"]


def python_of(cell: dict[str, Any]) -> str:
    """The cell without lines of IPython, which begin with %."""
    return "".join(line for line in cell["source"] if line[0] != "%")


def test_all_notebooks_are_listed():
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == NAMES
    page = (EXAMPLES.parent / "docs/commands.md").read_text()
    assert [name for name in NAMES if f"(../examples/{name}.ipynb)" not in page] == []


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_are_complete(name):
    file = EXAMPLES / f"{name}.ipynb"
    assert file.stat().st_size <= 300 * 2**10
    cells = code(name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert "error" not in {output["output_type"] for output in outputs}
    pictures = [
        kind
        for output in outputs
        for kind, content in output.get("data", {}).items()
        if kind == "image/png" or "<svg" in "".join(content)
    ]
    assert len(pictures) >= 2
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"/(tmp|work|home|root|usr)/|Traceback|Warning", text)


@pytest.mark.parametrize("name", NAMES)
def test_cells_of_a_notebook_name_existing_files(name):
    """Links, imports, commands and their configs; the cells are run below, or by make notebooks."""
    for cell in read(name)["cells"]:
        if cell["cell_type"] == "markdown":
            links = re.findall(r"\]\(([^)#]+)", "".join(cell["source"]))
            assert [link for link in links if not (EXAMPLES / link).exists()] == []
    for cell in code(name):
        for node in ast.walk(ast.parse(python_of(cell))):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = importlib.import_module(node.module)
                for alias in node.names:  # or else it is a module
                    if not hasattr(module, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")
            if isinstance(node, ast.Constant) and str(node.value).startswith("trm "):
                first, *words = shlex.split(node.value)[1:]
                if first in TRAINING:
                    assert find_config(words[words.index("--config") + 1])
                else:
                    parser_of(first).parse_args(words)


def test_the_quickest_notebook_runs_and_its_laws_hold(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    module = type(sys)("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)  # its classes are looked up there
    threads = torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's, of few workers
        for cell in code(QUICKEST):
            exec(compile(python_of(cell), QUICKEST, "exec"), vars(module))
    assert torch.get_num_threads() == threads
    printed = capsys.readouterr().out
    assert "the local rule NoCarryRule is wrong: in row 3" in printed
    assert "its laws hold, in float32" in printed
    assert "209876543120987654310 (correct; confidence " in printed
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_in_a_kernel(name, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
        where = {"metadata": {"path": str(tmp_path)}}
        client = nbclient.NotebookClient(notebook, timeout=600, resources=where)
        client.execute()
    stored = [len(cell["outputs"]) > 0 for cell in code(name)]
    fresh = [len(cell.outputs) > 0 for cell in notebook.cells if cell.cell_type == "code"]
    assert fresh == stored
