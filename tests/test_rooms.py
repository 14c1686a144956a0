"""Three rooms: the core, the cell models in `trm/cells`, and the extras in `trm/extras`.

A reader of the recursive transformer never needs to know that the other rooms exist: the core
neither imports nor names them, except by `trm/registry.py`.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("canvas", "augment", "trm")
REGISTRY = "trm.registry"
ABOVE = ("trm.cells", "trm.extras", "trm.api", "trm.commands")  # all else in trm is the core
ENTRANCES = ("trm", "trm.__main__", "trm.api", "trm.commands")  # through which users come


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@cache
def sources() -> dict[str, Path]:
    """Modules by dotted name."""
    found = {}
    for file in (file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(sources()[module].read_text())


@cache
def imports(module: str, at_once: bool = False) -> frozenset[str]:
    """Modules that a module imports, also within functions, or only when it is imported itself."""
    found = set()
    for node in _statements(parsed(module), at_once):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports by a relative name"
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {str(node.module)} | (below & sources().keys())
    return frozenset(found)


def _statements(tree: ast.AST, at_once: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if at_once and (function or (isinstance(node, ast.If) and "TYPE_CH" in ast.dump(node))):
            continue
        yield node
        yield from _statements(node, at_once)


def core() -> list[str]:
    inside = [module for module in sources() if within(module, "trm")]
    return [one for one in inside if not within(one, *ABOVE) and one not in ("trm", "trm.__main__")]


def test_every_room_has_modules():
    """The tests below compare these with what they import."""
    assert REGISTRY in core()
    assert {"trm.models.recursive", "trm.training.step", "trm.solving.solver"} <= {*core()}
    assert "trm.cells.model" in sources()
    assert "trm.cells.cache" in imports("trm.cells.model")
    assert "trm.extras.analysis.inspection" in imports("trm.commands.inspect")  # within a function
    assert "trm.extras.analysis.inspection" not in imports("trm.commands.inspect", at_once=True)


@pytest.mark.parametrize("module", core())
def test_the_core_imports_no_other_room(module):
    assert [name for name in imports(module) if within(name, *ABOVE)] == []


def test_only_the_ways_in_import_extras():
    users = {m for m in sources() if any(within(name, "trm.extras") for name in imports(m))}
    outside = {module for module in users if not within(module, "trm.extras")}
    assert outside
    assert [module for module in outside if not within(module, *ENTRANCES[2:])] == []


def test_cells_import_neither_extras_nor_the_ways_in():
    cells = [module for module in sources() if within(module, "trm.cells")]
    upwards = {m: [n for n in imports(m) if within(n, "trm.extras", *ENTRANCES[1:])] for m in cells}
    assert {module: names for module, names in upwards.items() if names} == {}


def test_no_modules_import_each_other_in_a_circle():
    """Imports at once alone."""
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join((*path[path.index(module) :], module))
        if module in done:
            return
        for name in imports(module, at_once=True) & sources().keys():
            # A package's module imports the package first, and that is no circle of its own.
            if name != module and not module.startswith(f"{name}."):
                visit(name, (*path, module))
        done.add(module)

    for module in sources():
        visit(module, ())
    assert done == sources().keys()


def test_no_package_imports_from_a_floor_above_its_own():
    """The floors in docs/architecture.md; a module directly in `trm` stands for itself."""
    text = (ROOT / "docs/architecture.md").read_text()
    table = text.split("\n## Who may import whom\n")[1].split("\n## ")[0]
    floors: dict[str, int] = {}
    for floor, names in re.findall(r"^\| (\d+) \| (.+) \|$", table, re.MULTILINE):
        floors |= dict.fromkeys(re.findall(r"`([\w.]+)`", names), int(floor))

    def package(module: str) -> str:
        return ".".join(module.split(".")[: 1 + within(module, "trm")])

    upwards = []
    for module in sources().keys() - {"trm", "trm.__main__"}:
        own = package(module)
        others = {package(name) for name in imports(module) if within(name, *PACKAGES)}
        upwards += [(module, one) for one in others - {"trm", own} if floors[one] >= floors[own]]
    assert upwards == []


def test_the_canvas_needs_no_network():
    """Only its pictures go up, to PyTorch's neighbours: matplotlib and pillow."""
    foreign = {"torch", "lightning", "trm", "augment"}
    users = {m: {name.partition(".")[0] for name in imports(m)} for m in sources()}
    assert "numpy" in users["canvas.layouts"]
    assert [m for m, names in users.items() if within(m, "canvas") and names & foreign] == []


# Words

# What a reader of the core need not know.
WORDS = re.compile(
    r"cell.?models?\b|CellM\w+|\btrm[./](cells|extras)\b|\bproo[fv]\w*|\bprove\w*|wavefront"
    r"|\bop.?inputs?\b|\blatent|Latent|\bautomaton",
    re.IGNORECASE,
)
# Modules of the core that use such words, and for what.
NAMED = {
    REGISTRY: "names the records of families",
    "trm.released": "what has moved, by its released name",
    "trm.checkpoints": "names of files: the note of a verdict, and the table of decisions",
    "trm.checkpoints.names": "the results in a card: verdicts and tests",
    "trm.checkpoints.loading": "asks whether there is a note, of a model of any family",
}


def named(module: str) -> list[str]:
    return [found[0] for found in WORDS.finditer(sources()[module].read_text())]


@pytest.mark.parametrize("module", sorted({*core()} - NAMED.keys()))
def test_the_core_does_not_speak_of_other_rooms(module):
    assert named(module) == []


@pytest.mark.parametrize("module", NAMED)
def test_an_exception_is_needed(module):
    assert named(module)


def test_names_of_tests_are_distinct_and_short():
    """At most 60 characters: a statement about the domain; a detail goes into its docstring."""
    long, twice = [], []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        tests = re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE)
        long += [f"{file.name}: {name}" for name in tests if len(name) > 60]
        twice += [f"{file.name}: {name}" for name in {*tests} if tests.count(name) > 1]
    assert long == []
    assert twice == []
