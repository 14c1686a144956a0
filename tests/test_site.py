"""The website of the docs: pages and links from the files of the repository, and a whole build."""

import ast
import json
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = runpy.run_path(str(ROOT / "docs/site/build.py"), run_name="build")
NAVIGATION = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)


@pytest.fixture
def staged(tmp_path):
    """Function from files by path to the site's files by path, from the pages that are named."""

    def stage(files: dict[str, str], *pages: str) -> dict[str, str]:
        for name, text in files.items():
            (tmp_path / "repository" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "repository" / name).write_text(text, encoding="utf-8")
        site = BUILD["Stage"](tmp_path / "repository", tmp_path / "site")
        for page in pages:
            site.add(Path(page))
        site.write()
        paths = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
        return {
            path.relative_to(tmp_path / "site").as_posix(): path.read_text("utf-8")
            for path in paths
        }

    return stage


@pytest.mark.parametrize(
    ("target", "link", "page"),
    [
        ("docs/b.md", "b.md", "docs/b.md"),
        ("docs/b.md#part", "b.md#part", "docs/b.md"),
        ("docs/log/README.md", "log/index.md", "docs/log/index.md"),
        ("docs/log", "log/index.md", "docs/log/index.md"),
        ("configs/x.yaml", "../configs/x.yaml.md", "configs/x.yaml.md"),
        ("configs", "../configs/index.md", "configs/index.md"),
        (".github/ci.yml", "../github/ci.yml.md", "github/ci.yml.md"),
    ],
)
def test_a_link_to_a_file_or_a_folder_leads_to_its_page(target, link, page, staged):
    file = target.partition("#")[0]
    file = f"{file}/README.md" if file == "docs/log" else file
    file = f"{file}/x.yaml" if file == "configs" else file
    to = f"../{target}"
    site = staged({file: "text", "docs/a.md": f"See [`x`, and {to}]({to})."}, "docs/a.md")
    assert site["docs/a.md"] == f"See [`x`, and {to}]({link})."
    assert page in site


def test_a_link_to_a_line_leads_to_it(staged):
    files = {"trm/a.py": "x = 1\ny = 2\n", "docs/a.md": 'See [`y`](../trm/a.py#L2 "y = (2").'}
    site = staged(files, "docs/a.md")
    assert site["docs/a.md"] == "See [`y`](../trm/a.py.md#line-2)."
    assert 'id="line-2"' in site["trm/a.py.md"]


def test_other_links_stay_as_they_are(staged):
    page = "[a](#part) [b](https://example.org/x) `[c](gone.md)`\n\n```text\n[d](gone.md)\n```\n"
    assert staged({"docs/a.md": page}, "docs/a.md") == {"docs/a.md": page}


def test_a_picture_is_copied_also_as_the_text_of_a_link(staged):
    files = {"docs/a.md": "[![x](x.svg)](../trm/m.py)", "docs/x.svg": "<svg/>", "trm/m.py": "1"}
    site = staged(files, "docs/a.md")
    assert site["docs/a.md"] == "[![x](x.svg)](../trm/m.py.md)"
    assert site["docs/x.svg"] == "<svg/>"


def test_a_source_file_is_shown_without_links_or_search(staged):
    site = staged(
        {"docs/a.md": "[m](../m.py)", "m.py": 'x = maps["a"][b]\n\n"""# no title"""\n'}, "docs/a.md"
    )
    head, shown = site["m.py.md"].split("\n# m.py\n")
    assert "exclude: true" in head
    assert "[" not in shown
    assert "&#91;" in shown


def test_a_folder_lists_its_files(staged):
    files = {"docs/a.md": "[f](../board)", "board/one/card.yaml": "x: 1", "board/z.py": "1"}
    site = staged(files, "docs/a.md")
    assert site["board/index.md"].endswith("- [one/](one/index.md)\n- [z.py](z.py.md)\n")
    assert site["board/one/index.md"].endswith("- [card.yaml](card.yaml.md)\n")


def test_a_dead_link_is_an_error_but_plain_text_in_the_log(staged):
    with pytest.raises(ValueError, match=r"a.md links to gone.yaml, which does not exist"):
        staged({"docs/a.md": "[x](gone.yaml)"}, "docs/a.md")
    log = "docs/log/2026-01.md"
    site = staged({log: "By [`old`](gone.yaml).\n", "docs/log/README.md": "log"}, log)
    assert site[log].startswith("By `old`.\n")
    assert site[log].endswith("[All entries of the lab log](index.md)\n")


def test_a_notebook_is_a_page_with_its_outputs(staged):
    png, svg = {"image/png": "YWJj\n"}, {"text/html": ["<div><svg>", "</svg></div>"]}
    outputs = [
        {"output_type": "stream", "text": ["\x1b[1mone [two](three)\x1b[0m\n"]},
        {"output_type": "display_data", "data": png},
        {"output_type": "execute_result", "data": svg | {"text/plain": "not shown"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "[to](../docs/a.md)"]},
        {"cell_type": "code", "source": ["print(1)"], "outputs": outputs},
    ]
    files = {"examples/n.ipynb": json.dumps({"cells": cells}), "docs/a.md": "# A\n"}
    files["README.md"] = "# R\n\n[n](examples/n.ipynb)\n"
    site = staged(files, "README.md")
    assert "[n](examples/n.ipynb.md)" in site["index.md"]
    page = site["examples/n.ipynb.md"]
    assert page.startswith("# Title\n[to](../docs/a.md)\n")
    assert "print" in page
    assert "one &#91;two](three)" in page
    assert 'src="data:image/png;base64,YWJj"' in page
    assert 'src="data:image/svg+xml;base64,PHN2Zz48L3N2Zz4="' in page
    assert "not shown" not in page
    assert "\x1b" not in page


def test_the_home_page_is_the_readme_with_the_demo(staged):
    readme = "# Title\n\nText.\n\n![one](docs/page.gif) ![two](docs/two.gif)\n\n## Next\n"
    page = staged({"README.md": readme}, "README.md")["index.md"]
    assert re.sub(r"(?s)<iframe.*html\)\n", "DEMO", page) == "# Title\n\nText.\n\nDEMO\n\n## Next\n"


def test_code_in_a_list_is_code_for_python_markdown_too(staged):
    page = "- one, made with\n\n      trm a\n      trm b\n\n- two\n"
    wider = page.replace("      trm", "        trm")
    assert staged({"docs/a.md": page}, "docs/a.md")["docs/a.md"] == wider


def test_dead_links_of_built_pages_are_found(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="#gone"></a><a href="b/#there"></a>'
        '<a href="b/index.html#gone"></a><img src="x.png"><a href="https://example.org"></a>'
        '<script src="y.js">"<a href=code>"</script><b title="1 > 0" class="c" id=there></b>'
        '<a title="1 > 0" href="z.html"><span class="d">&lt;a href="text"&gt;</span></a>'
    )
    (tmp_path / "b/index.html").write_text('<h1 id="there"></h1><a href="../a.html?x=1"></a>')
    dead = ("#gone", "b/index.html#gone", "x.png", "y.js", "z.html")
    assert BUILD["broken"](tmp_path) == [f"a.html: {link}" for link in dead]


def test_a_package_page_begins_with_what_the_package_exports():
    assert list(BUILD["exported"]("trm.models"))[1:3] == [
        "[`RecursiveConfig`][trm.models.configs.RecursiveConfig]",
        "[`GPT`][trm.models.gpt.GPT]",
    ]
    assert "[`CellModel`][trm.cells.model.CellModel]" in BUILD["exported"]("trm.cells")
    assert list(BUILD["exported"]("trm")) == [
        "[`Solver`][trm.solving.solver.Solver]",
        "[`evaluate`][trm.api.evaluate]",
        "[`load_puzzle_solver`][trm.checkpoints.puzzles.load_puzzle_solver]",
        "[`load_solver`][trm.checkpoints.loading.load_solver]",
        "[`record`][trm.models.hooks.record]",
        "[`render`][trm.api.render]",
        "[`run_with_cache`][trm.api.run_with_cache]",
        "[`run_with_hooks`][trm.api.run_with_hooks]",
        "[`save_model`][trm.checkpoints.content.save_model]",
        "[`sites`][trm.models.hooks.sites]",
        "[`solve`][trm.api.solve]",
    ]


def test_the_navigation_has_all_docs_and_all_packages():
    docs = [f"docs/{path.name}" for path in ROOT.glob("docs/*.md")]
    packages = [f"api/{name}.md" for name, _ in BUILD["packages"]()]
    assert [page for page in [*docs, *packages] if page not in NAVIGATION] == []


def test_code_in_docstrings_is_indented_more_than_their_text():
    """Return a docstring without the indentation that all lines after the first share."""
    flat = []
    for _, modules in BUILD["packages"]():
        for path in modules:
            for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    lines = (ast.get_docstring(node, clean=False) or "").splitlines()[1:]
                    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
                    if indents and min(indents) > node.body[0].col_offset:
                        flat.append(f"{path}:{node.body[0].lineno}")
    assert flat == []


@pytest.mark.skipif(find_spec("zensical") is None, reason="needs the dependency group docs")
def test_the_site_has_no_warnings_and_no_dead_links():
    command = [sys.executable, ROOT / "docs/site/build.py"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert 'class="demo" src="demo.html"' in (ROOT / "build/site/index.html").read_text("utf-8")
