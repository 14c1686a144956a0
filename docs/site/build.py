"""Build the website of the docs: `python docs/site/build.py`, or `make docs`.

The source of the site, in build/docs, is laid out like the repository, so that links between pages
stay as they are:

- the first page is README.md, with the web page of the shipped model in place of its pictures,
- Markdown files that pages link to are pages,
- other files and folders that pages link to are pages that show them; notebooks with their stored
  outputs; large and binary files are copied,
- api/ has a page for each package, which mkdocstrings fills from docstrings.

Zensical, as mkdocs.yml describes it, makes build/site of that. Its warnings are errors, and so is
every link, picture or anchor of the built pages that leads nowhere.
"""

import argparse
import ast
import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from os.path import normpath, relpath
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pygments import highlight
from pygments.filter import simplefilter
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import Name, Operator, Punctuation, Text, Whitespace

ROOT = Path(__file__).resolve().parents[2]
SOURCE, SITE = ROOT / "build/docs", ROOT / "build/site"
START = ("README.md", "CHANGELOG.md", "docs/*.md")  # all other pages are linked from these
DEMO = "demo.html"
FRAME = f"""\
<iframe class="demo" src="{DEMO}" title="Cell models at work" onload="fit(this)">
</iframe>

Cell models work in your browser. Type a problem, step through it, or point at a cell; *Scribble*
writes an incorrect digit, and the canvas heals. *Compared with*: a model that was tested, not
proved, or the layout that people write. [The demo on a page of its own]({DEMO})
"""
LINE = "line"  # anchors of the lines of a file: line-1, line-2, ...
SHOWN = 100_000  # bytes of the largest file that is shown as a page
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".sbatch": "bash"}
# Packages with a page of the API reference. Commands are in the manual.
PACKAGES = ("canvas", "augment", "trm")
# Models of the demo beside the shipped one: tested only; on the canvas that people write; sums.
BESIDE = ("untold-neighbours-seed0", "tiny-seed0", "column-seed0")
NOT_IN_API = ("trm.commands", "trm.extras.page")

COLOUR = r"\x1b\[[\d;]*m"  # as terminals read it
CODE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?s:.*?)^(?P=fence)[ \t]*$"  # a fenced block
    r"|(?P<ticks>`+)(?!`)(?s:.+?)(?<!`)(?P=ticks)(?!`)",  # code within a line
    re.MULTILINE,
)
LINK = re.compile(
    r"(?P<text>!?\[(?:[^\[\]]|!?\[[^\[\]]*\](?:\([^()]*\))?)*\])"
    r"\((?P<to>[^()\s]+)(?: \"[^\"\n]*\")?\)"  # a title, as of a link to a line, is left out
)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to a Markdown text whose code is replaced by marks, then put the code back."""
    code: list[str] = []

    def mark(found: re.Match[str]) -> str:
        code.append(found[0])
        return f"\x00{len(code) - 1}\x00"

    changed = change(CODE.sub(mark, text))
    return re.sub("\x00(\\d+)\x00", lambda found: code[int(found[1])], changed)


class Stage:
    """Source of the site: pages and files, each written when the first link to it is found."""

    def __init__(self, root: Path, folder: Path):
        self.root, self.folder = root, folder
        self.waiting: list[Path] = []  # Markdown files and folders, relative to root
        self.found: dict[Path, Path] = {}  # from a path to its page or copy, relative to folder

    def add(self, path: Path) -> Path:
        """Return the page or the copy of a file or folder of the repository; write it later."""
        if (self.root / path / "README.md").is_file():
            path /= "README.md"
        if path not in self.found:
            self.found[path] = self.place(path)
            self.waiting.append(path)
        return self.found[path]

    def place(self, path: Path) -> Path:
        """Path of the page or of the copy, like index.md, or trm/batch.py.md; none is hidden."""
        place = Path(*(part.lstrip(".") for part in path.parts))
        if (self.root / path).is_dir():
            return place / "index.md"
        if path.suffix == ".md":
            return place.with_name("index.md") if path.name == "README.md" else place
        if path.suffix == ".ipynb":
            return place.with_name(f"{place.name}.md")
        return place if self.text(path) is None else place.with_name(f"{place.name}.md")

    def text(self, path: Path) -> str | None:
        """Text of a file to be shown, or None if it is a picture, too large, or not text."""
        if path.suffix == ".svg" or (self.root / path).stat().st_size > SHOWN:
            return None
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return None

    def write(self) -> None:
        """Write everything that was added, and everything that it links to."""
        while self.waiting:
            path = self.waiting.pop()
            source, target = self.root / path, self.folder / self.found[path]
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                target.write_text(self.listing(path), encoding="utf-8")
            elif path.suffix == ".md":
                target.write_text(self.page(path), encoding="utf-8")
            elif path.suffix == ".ipynb":
                target.write_text(self.notebook(path), encoding="utf-8")
            elif target.suffix == ".md":
                target.write_text(source_page(path, str(self.text(path))), encoding="utf-8")
            else:
                shutil.copyfile(source, target)

    def page(self, path: Path) -> str:
        """Text of a Markdown file for the site: its links lead to pages, its lists are lists."""
        text = (self.root / path).read_text(encoding="utf-8")
        if path == Path("README.md"):
            text = with_demo(text)
        if path.match("docs/log/2*"):
            text += "\n---\n\n[All entries of the lab log](README.md)\n"
        return outside_code(as_python_markdown(text), lambda part: self.linked(path, part))

    def notebook(self, path: Path) -> str:
        """Page of a notebook: its text, its code, and its stored outputs."""
        parts = []
        for cell in json.loads((self.root / path).read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                text = as_python_markdown(text)
                parts.append(outside_code(text, lambda part: self.linked(path, part)))
            else:
                parts += [shown(text, "python"), *map(output, cell["outputs"])]
        return "\n\n".join(parts) + "\n"

    def linked(self, path: Path, text: str) -> str:
        """The text, with links that lead from the page of `path` to other pages of the site."""
        return LINK.sub(lambda link: self.link(path, link["text"], link["to"]), text)

    def link(self, path: Path, text: str, to: str) -> str:
        """A link of the page of `path`, for the site."""
        file, hash_, anchor = to.partition("#")
        if re.match(r"\w+:", to) or not file or file == DEMO:
            return f"{text}({to})"
        if "](" in text:  # a picture as the text of a link
            text = f"[{self.linked(path, text[1:-1])}]"
        target = Path(normpath(path.parent / file))
        if target.parts[0] == "..":
            raise ValueError(f"{path} links to {to}, which is outside of the repository.")
        if not (self.root / target).exists():
            if any(path.match(pattern) for pattern in START):
                raise ValueError(f"{path} links to {to}, which does not exist.")
            return text[1:-1]  # no entry of the log is rewritten: what it names may be gone
        anchor = re.sub(r"^L(\d+)$", rf"{LINE}-\1", anchor)  # a line of a file
        return f"{text}({self.address(path, target)}{hash_}{anchor})"

    def address(self, path: Path, target: Path) -> str:
        """Relative address of the page of `target` on the page of `path`."""
        return Path(relpath(self.add(target), self.found[path].parent)).as_posix()

    def listing(self, path: Path) -> str:
        """Page of a folder: a link to each thing in it."""
        inside = sorted((self.root / path).iterdir(), key=lambda one: (one.is_file(), one.name))
        lines = [f"{HIDDEN}# {path.as_posix()}", ""]
        for one in inside:
            if not one.name.startswith((".", "_")):
                name = f"{one.name}/" if one.is_dir() else one.name
                lines.append(f"- [{name}]({self.address(path, path / one.name)})")
        return "\n".join(lines) + "\n"


HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"  # from the search


def source_page(path: Path, text: str) -> str:
    """Page that shows a file."""
    return f"{HIDDEN}# {path.as_posix()}\n\n{shown(text, LANGUAGES.get(path.suffix, 'text'), LINE)}"


@simplefilter
def without_plain(self: Any, lexer: Any, stream: Iterable[Any], options: Any) -> Iterator[Any]:
    """Leave names and signs without a colour: without them a page has a third of its tags."""
    for kind, text in stream:
        yield Text if kind in (Name, Operator, Punctuation, Whitespace) else kind, text


def shown(text: str, language: str, lines: str = "") -> str:
    """A text as HTML: Zensical looks for links in fenced code, too. ``lines``: of their anchors."""
    lexer = get_lexer_by_name(language)
    lexer.add_filter(without_plain())
    marked = highlight(text, lexer, HtmlFormatter(wrapcode=True, lineanchors=lines))
    return marked.replace("[", "&#91;")


def output(stored: dict[str, Any]) -> str:
    """A stored output of a notebook: its picture, or else its text without colours."""
    data = stored.get("data", {"text/plain": stored.get("text", "")})
    svg = re.search(r"(?s)<svg.*</svg>", "".join(data.get("text/html", "")))
    if "image/png" in data:
        kind, content = "png", "".join("".join(data["image/png"]).split())
    elif svg:
        kind, content = "svg+xml", base64.b64encode(svg[0].encode()).decode()
    else:
        return shown(re.sub(COLOUR, "", "".join(data.get("text/plain", ""))), "text")
    return f'<p><img alt="output of the cell" src="data:image/{kind};base64,{content}"></p>'


def with_demo(readme: str) -> str:
    """README with the demo below its title and first paragraph, in place of its pictures."""
    title, _, rest = readme.partition("\n\n")
    first, _, rest = rest.partition("\n\n")
    text = re.sub(r"(?m)^!.*\n+", "", rest)
    return f"{title}\n\n{first}\n\n{FRAME}\n\n{text}"


def as_python_markdown(text: str) -> str:
    """The text of a page as GitHub reads it, for Python-Markdown."""
    # Code in an item of a list is indented by eight columns, where GitHub needs six.
    text = re.sub(
        r"(?m)(^- .*\n\n)((?: {6}.*\n)+)",
        lambda item: item[1] + item[2].replace("      ", "        "),
        text,
    )
    return text.replace("<details>", '<details markdown="1">')


# The API reference


def packages() -> Iterator[tuple[str, list[Path]]]:
    """Yield each package of the reference, and the files of its modules."""
    for top in PACKAGES:
        for init in sorted(ROOT.glob(f"{top}/**/__init__.py")):
            package = init.parent.relative_to(ROOT)
            name = ".".join(package.parts)
            if name not in NOT_IN_API:
                yield name, [package / path.name for path in sorted(init.parent.glob("[!_]*.py"))]


def source(module: str) -> str:
    """Text of a module or package, like trm.models."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8")


def imports(module: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each public import of a module from the packages."""
    for node in ast.walk(ast.parse(source(module))):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in PACKAGES:
            public = (one for one in node.names if not (one.asname or "").startswith("_"))
            yield from ((str(node.module), one.name) for one in public)


def exported(package: str) -> Iterator[str]:
    """Yield a link to each class and function that a package imports from its modules."""
    for module, name in imports(package):
        if not module.startswith(f"{package}."):
            continue
        while further := [one for one, its in imports(module) if its == name]:
            (module,) = further
        if re.search(rf"(?m)^(class|def) {name}\b", source(module)):  # no constant
            yield f"[`{name}`][{module}.{name}]"


def reference(package: str, modules: Iterable[Path]) -> str:
    """Page of a package: its docstring, what it exports, and its modules with their sources."""
    parts = [f"# {package}", f"::: {package}\n    options:\n      members: false"]
    if names := ", ".join(exported(package)):
        parts.append(f"From `{package}`: {names}.")
    for path in modules:
        parts.append(f"## {path.stem}\n\n[{path.as_posix()}](../{path.as_posix()}.md)")
        parts.append(f"::: {package}.{path.stem}")
    return "\n\n".join(parts) + "\n"


# Building


def stage() -> None:
    """Write the source of the site to build/docs."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    site = Stage(ROOT, SOURCE)
    for pattern in START:
        for path in sorted(ROOT.glob(pattern)):
            site.add(path.relative_to(ROOT))
    (SOURCE / "api").mkdir(parents=True)
    for package, modules in packages():
        for path in modules:
            site.add(path)
        (SOURCE / f"api/{package}.md").write_text(reference(package, modules), encoding="utf-8")
    site.write()
    for name in ("site.css", "site.js"):
        shutil.copyfile(Path(__file__).with_name(name), SOURCE / name)
    run(
        sys.executable,
        "-m",
        "trm",
        "inspect",
        "--quiet",
        "--export",
        SOURCE / DEMO,
        "--beside",
        *BESIDE,
    )


def run(*command: object) -> str:
    """Run a command in the repository, and return its output. End if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    printed = re.sub(COLOUR, "", done.stdout.decode("utf-8", errors="replace"))
    if done.returncode:
        sys.exit(f"{printed}\n{' '.join(words)} failed: see above.")
    return printed


# Tags with an anchor or a link, and the ends of scripts, in which there are none. The parser reads
# these alone: a page that shows a file has a hundred times as many others, for its colours.
PART = r'(?:[^<>"]|"[^"]*")*'  # of a tag
TAGS = re.compile(
    r"<(?:script|style)\b[^>]*>|</(?:script|style)>"
    rf"|<[a-zA-Z]{PART}?\s(?:id|href|src)={PART}>"
)


class Page(HTMLParser):
    """Anchors of a built page, and what it links to."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.feed("".join(TAGS.findall(path.read_text(encoding="utf-8"))))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect anchors and links of an element."""
        values = dict(attrs)
        self.anchors.add(values.get("id") or "")
        self.links += [values[key] or "" for key in ("href", "src") if key in values]


def broken(site: Path) -> list[str]:
    """Return the links of the pages of a folder that lead nowhere, as "page: link"."""
    pages = {path: Page(path) for path in site.rglob("*.html") if path != site / DEMO}
    wrong = []
    for path, page in pages.items():
        if path == site / "404.html":
            continue  # its links start at the address of the site
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = Path(normpath(path.parent / unquote(parts.path))) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {unquote(parts.fragment)}
            if not target.is_file() or unquote(parts.fragment) not in anchors:
                wrong.append(f"{path.relative_to(site).as_posix()}: {link}")
    return wrong


def main() -> None:
    """Build the site, or show it while it is built."""
    parser = argparse.ArgumentParser(description="Build the website of the docs in build/site.")
    parser.add_argument("--serve", action="store_true", help="show it at localhost:8000")
    arguments = parser.parse_args()
    if find_spec("zensical") is None:
        sys.exit("The website needs the dependency group docs: run `make docs`.")
    try:
        stage()
    except ValueError as error:
        sys.exit(f"{error}")
    if arguments.serve:
        subprocess.run([sys.executable, "-m", "zensical", "serve"], cwd=ROOT, check=False)
        return
    shutil.rmtree(SITE, ignore_errors=True)
    printed = run(sys.executable, "-m", "zensical", "build", "--clean", "--strict")
    # Zensical lets warnings of docstrings pass.
    wrong = re.findall(r"griffe: (.*)", printed) + broken(SITE)
    if wrong:
        sys.exit("\n".join(["The site has faults:", *wrong]))
    print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
