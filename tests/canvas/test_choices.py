"""Names to choose from, and layouts and tasks that people write in files of their own."""

import importlib
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

from canvas import choices, symbols
from canvas.addition import Addition
from canvas.layouts import Layout
from canvas.reading import read

LAYOUT = """
    from canvas.addition import Column

    class Upper(Column):
        name = "upper"

        def room(self, lengths, base):
            height, width = super().room(lengths, base)
            return height, width + 1
"""
HALF = """
    from canvas.layouts import Layout

    class Half(Layout):
        name = "half"

        def rows(self, operands):
            return ()

    class Upper:
        pass

    x = 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or tmp_path in Path(file).parents:
            del sys.modules[name]


def written(name: str, code: str) -> Path:
    """A file in the working folder."""
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(code))
    return file


def refusal(call, *arguments) -> str:
    """The one sentence with which a call is refused."""
    with pytest.raises(ValueError, match=r".+") as error:
        call(*arguments)
    said = str(error.value)
    assert "\n" not in said
    return said


def layout(name: str) -> type:
    return choices.load_class(name, Layout, "layout")


@pytest.mark.parametrize("name", ["my_layouts", "my_package.deep.layouts"])
def test_an_own_layout_is_found_in_the_working_folder(name):
    written(f"{name.replace('.', '/')}.py", LAYOUT)
    task = Addition(f"{name}.Upper", addends=(2, 3))
    assert task.canvas_layout.name == "upper"
    assert choices.class_name(type(task.canvas_layout)) == f"{name}.Upper"
    assert task.extent() == (4, 6)
    problems = task.problems([(87, 604, 9), (1, 2)])
    drawing = task.canvas_layout.draw_worked(problems, 4, 5)
    assert symbols.decode(drawing.truth[0, -1]) == "__700"
    found = [read(canvas, task.canvas_layout).operands for canvas in drawing.truth]
    assert found == problems.to_ints()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = (2\nz = 3\n", "{file}, line 2: '(' was never closed"),
        ("def f():\n    return 1 / 0\n\nf()\n", "{file}, line 2: ZeroDivisionError: division by"),
        ("import canvas\nimport nosuchthing\n", "{file}, line 2: ModuleNotFoundError: No module"),
    ],
)
def test_code_that_cannot_be_imported_is_named_with_its_line(code, message):
    file = written("my_code.py", code)
    for call, argument, what in (
        (layout, "my_code.Upper", "layout my_code.Upper"),
        (partial(choices.import_code, "my_code"), "--import my_code", "--import my_code"),
    ):
        expected = f"{what}: {message.format(file=file.resolve())}"
        assert refusal(call, argument).startswith(expected)
        assert "my_code" not in sys.modules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine.Hal", "layout mine.Hal: mine.py has no Hal. Did you mean Half?"),
        ("mine.Upper", "derive the class from canvas.layouts.Layout"),
        ("mine.x", "derive the class from canvas.layouts.Layout"),
        ("mine.Half", "lacks read_operands, room, write_operands"),
        ("nosuchmodule.Upper", "there is no module nosuchmodule"),
        ("mine.deeper.Upper", "there is no module mine.deeper"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(name, message):
    written("mine.py", HALF)
    assert message in refusal(layout, name)


def test_a_package_that_hides_a_module_is_named():
    written("hidden.py", LAYOUT)
    Path("hidden").mkdir()
    assert layout("hidden.Upper")  # a folder without code hides nothing
    sys.modules.pop("hidden")
    written("hidden/__init__.py", "")
    importlib.invalidate_caches()
    why = "hidden/__init__.py (Python prefers it to hidden.py) has no Upper."
    assert why in refusal(layout, "hidden.Upper")


def test_choices_are_checked_and_the_nearest_name_is_suggested():
    choices.check_choice("colour", "red", ["red", "green"])
    with pytest.raises(ValueError, match=r"colour must be .*got 'gren'. Did you mean"):
        choices.check_choice("colour", "gren", ["red", "green"])
    assert choices.did_you_mean("xyz", ["red", "green"]) == ""
    assert choices.did_you_mean("red", ["red"]) == ""

    @dataclass
    class Settings:
        closed: str = choices.one_of("a", ["a", "b"])
        open: str = choices.one_of("a", ["a", "b"], open=True)

    choices.check_choices(Settings(open="mine.Own"))
    for wrong in (Settings(closed="mine.Own"), Settings(open="c")):
        with pytest.raises(ValueError, match=r"model.(closed|open) must be one of a, b"):
            choices.check_choices(wrong, "model.")
