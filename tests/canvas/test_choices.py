"""Layouts and tasks that people write in files of their own."""

import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from canvas import symbols, task_class, task_data, task_name
from canvas.addition import Addition, Column
from canvas.choices import check_imported, class_name, import_code, load_class, resolve
from canvas.layouts import Layout
from canvas.problems import Problems
from canvas.reader import read
from canvas.render import draw_worked
from canvas.sampling import sample
from canvas.task import Task

LAYOUT = """
    from canvas.addition import Column

    class Upper(Column):
        name = "upper"

        def room(self, lengths, base):
            height, width = super().room(lengths, base)
            return height, width + 1
"""
TASK = """
    from dataclasses import dataclass

    from canvas.addition import Column
    from canvas.arithmetic import Numbers, compare
    from canvas.layouts import ANSWER, Row, table
    from canvas.task import TwoOperands, layout_field

    class Below(Column):
        name = "below"

        def rows(self, operands):
            a, b = operands
            pairs = zip(a.to_ints(), b.to_ints(), strict=True)
            difference = Numbers.from_ints([x - y for x, y in pairs], a.base)
            yield Row(ANSWER, difference, 0, 2, difference.lengths > 0)

    @dataclass
    class Subtraction(TwoOperands):
        layouts = table([Below()])
        sign, signs = "-", "-"
        smallest = 0
        layout: str = layout_field("below", layouts)

        def answer(self, operands):
            return operands[0] - operands[1]

        def allows(self, problems):
            return compare(*problems.operands) >= 0
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
    return load_class(name, Layout, "layout")


# What works


def test_an_own_layout_is_found_in_the_working_folder():
    written("my_layouts.py", LAYOUT)
    task = Addition("my_layouts.Upper", addends=(2, 3))
    assert task.rules.name == "upper"
    assert isinstance(task.rules, Column)
    assert task.extent() == (4, 6)
    problems = task.problems([(87, 604, 9), (1, 2)])
    drawing = draw_worked(task.rules.work(problems), 4, 5)
    assert symbols.decode(drawing.truth[0, -1]) == "__700"
    assert [read(canvas, task.rules).operands for canvas in drawing.truth] == problems.to_ints()


def test_an_own_layout_of_a_package_in_the_working_folder_is_found():
    written("my_package/deep/layouts.py", LAYOUT)
    assert Addition("my_package.deep.layouts.Upper").rules.name == "upper"


def test_an_own_layout_is_found_in_a_file_that_was_imported():
    file = written("elsewhere/my_file.py", LAYOUT)
    module = import_code(str(file))
    assert module.__name__ == "my_file"
    task = Addition("my_file.Upper")
    assert type(task.rules) is module.Upper
    assert import_code(str(file)) is module, "a file is imported once"
    assert import_code("my_file") is module
    assert class_name(module.Upper) == "my_file.Upper"


def test_an_own_task_is_found_named_and_drawn():
    written("my_tasks.py", TASK)
    kind = task_class("my_tasks.Subtraction")
    task = kind(digits_a=(1, 3), digits_b=(1, 3))
    assert task_name(task) == "my_tasks.Subtraction"
    data = task_data(task)
    assert task_class(data.pop("task"))(**data) == task
    problems = sample(task, 0, "train", 0, np.arange(200))
    assert all(a >= b for a, b in problems.to_ints())
    drawing = draw_worked(task.rules.work(problems), *task.extent())
    for canvas, operands in zip(drawing.truth, problems.to_ints(), strict=True):
        said = read(canvas, task.rules)
        assert (said.operands, said.answer) == (operands, task.answer(operands))
    assert task.parse("9 - 4") == (9, 4)
    assert refusal(task.parse, "4-9") == "4 - 9 is no problem of the task subtraction"


def test_a_module_installed_elsewhere_comes_before_the_working_folder(folder):
    written("tabnanny.py", "raise AssertionError('not this one')")
    assert Path(import_code("tabnanny").__file__).parent != folder


def test_names_of_a_table_are_taken_from_it():
    assert resolve("column", Addition.layouts, Layout, "layout") is Addition.layouts["column"]
    assert "must be one of column" in refusal(resolve, "colum", Addition.layouts, Layout, "layout")


def test_a_checkpoint_may_name_what_is_part_of_the_package_or_was_imported():
    file = written("my_layouts.py", LAYOUT)
    for name in ("column", "canvas.addition.Column"):
        check_imported(name, "layout", ("canvas", "trm"))
    said = refusal(check_imported, "my_layouts.Upper", "layout", ("canvas", "trm"))
    assert said.startswith("its layout is my_layouts.Upper, which is not part of this package")
    assert said.endswith("like --import my_layouts")
    assert "my_layouts" not in sys.modules, "it imports nothing"
    import_code(str(file))
    check_imported("my_layouts.Upper", "layout", ("canvas", "trm"))


# What is refused


def test_a_syntax_error_is_told_with_its_line():
    file = written("my_typo.py", "x = 1\ny = (2\nz = 3\n")
    for call, argument, what in (
        (layout, "my_typo.Upper", "layout my_typo.Upper"),
        (import_code, "my_typo.py", "--import my_typo.py"),
        (import_code, "my_typo", "--import my_typo"),
    ):
        said = refusal(call, argument)
        assert said.startswith(f"{what}: {file.resolve()}, line 2: ")
        assert "was never closed" in said
        assert "my_typo" not in sys.modules


def test_an_exception_while_importing_is_told_with_its_line():
    file = written("my_accident.py", "def f():\n    return 1 / 0\n\nf()\n")
    for call, argument, what in (
        (layout, "my_accident.Upper", "layout my_accident.Upper"),
        (import_code, "my_accident.py", "--import my_accident.py"),
    ):
        expected = f"{what}: {file.resolve()}, line 2: ZeroDivisionError: division by zero"
        assert refusal(call, argument) == expected
        assert "my_accident" not in sys.modules


def test_a_module_that_an_own_file_misses_is_told_with_its_line():
    file = written("my_needs.py", "import canvas\nimport nosuchthing\n")
    for call, argument in ((layout, "my_needs.Upper"), (import_code, "my_needs.py")):
        said = refusal(call, argument)
        assert f"{file.resolve()}, line 2: ModuleNotFoundError: No module named" in said
        assert "'nosuchthing'" in said


def test_a_class_that_is_not_there_is_refused_with_what_may_be_meant():
    written("my_layouts.py", LAYOUT)
    said = refusal(layout, "my_layouts.Uper")
    assert said == "layout my_layouts.Uper: my_layouts.py has no Uper. Did you mean Upper?"
    said = refusal(layout, "my_layouts.Zzz")
    assert said == "layout my_layouts.Zzz: my_layouts.py has no Zzz."


def test_a_class_of_another_kind_is_refused():
    written("my_things.py", "x = 1\n\nclass Upper:\n    pass\n\ndef lower():\n    pass\n")
    remedy = "derive the class from canvas.layouts.Layout"
    assert refusal(layout, "my_things.Upper") == (
        f"layout my_things.Upper (my_things.py) is not a Layout: {remedy}"
    )
    assert refusal(layout, "my_things.lower") == (
        f"layout my_things.lower (my_things.py) is not a Layout: {remedy}"
    )
    assert refusal(layout, "my_things.x") == (
        f"layout my_things.x (my_things.py) is not a Layout: {remedy}"
    )
    assert "is not a Task: derive the class from canvas.task.Task" in refusal(
        task_class, "canvas.addition.Column"
    )


def test_a_class_that_lacks_methods_is_refused_with_their_names():
    written(
        "my_parts.py",
        """
        from canvas.layouts import Layout

        class Half(Layout):
            name = "half"

            def room(self, lengths, base):
                return 2, 2

            def rows(self, operands):
                return ()

            def write_operands(self, content, problems):
                pass
        """,
    )
    assert refusal(layout, "my_parts.Half") == (
        "layout my_parts.Half (my_parts.py) lacks answer_cells, read_operands: "
        "see canvas.layouts.Layout"
    )
    assert refusal(Addition, "my_parts.Half") == refusal(layout, "my_parts.Half")
    assert "lacks answer" in refusal(load_class, "canvas.task.TwoOperands", Task, "task")


def test_a_module_that_does_not_exist_is_refused():
    nowhere = "neither installed nor in this folder"
    said = refusal(layout, "nosuchmodule.Upper")
    assert said == f"layout nosuchmodule.Upper: there is no module nosuchmodule, {nowhere}"
    said = refusal(import_code, "nosuchmodule")
    assert said == f"--import nosuchmodule: there is no module nosuchmodule, {nowhere}"
    written("my_layouts.py", LAYOUT)
    said = refusal(layout, "my_layouts.deeper.Upper")
    assert said.endswith(f"there is no module my_layouts.deeper, {nowhere}")


def test_a_file_that_does_not_exist_is_refused():
    assert refusal(import_code, "nowhere/my_file.py") == (
        "--import nowhere/my_file.py: there is no such file"
    )
    Path("folder.py").mkdir()
    assert refusal(import_code, "folder.py") == "--import folder.py: there is no such file"


@pytest.mark.parametrize("name", ["json", "canvas", "numpy"])
def test_a_file_that_is_called_like_another_module_is_refused(name):
    written(f"{name}.py", "raise AssertionError('not to be imported')")
    assert refusal(import_code, f"{name}.py") == (
        f"--import {name}.py: another module is already called {name}; rename the file"
    )


def test_two_files_of_one_name_are_refused():
    first, second = written("one/my_file.py", LAYOUT), written("two/my_file.py", LAYOUT)
    module = import_code(str(first))
    assert "another module is already called my_file" in refusal(import_code, str(second))
    assert sys.modules["my_file"] is module


@pytest.mark.parametrize(
    ("room", "message"),
    [
        ("height + 1, width", "draws 3 rows where its room() says 4: make the two agree"),
        ("height - 1, width", "writes outside the 2 x 3 cells that its room() says: make the two"),
        ("height, width - 1", "writes outside the 3 x 2 cells that its room() says: make the two"),
    ],
)
def test_an_own_layout_whose_rows_disagree_with_its_room_is_refused(room, message):
    code = f"""
        from canvas.addition import Column

        class Wrong(Column):
            name = "wrong"

            def room(self, lengths, base):
                height, width = super().room(lengths, base)
                return {room}

            def write_operands(self, content, problems):
                pass

            def rows(self, operands):
                for kind, numbers, shift, row, present in super().rows(operands):
                    yield kind, numbers, shift + 1, row, present
    """
    written("my_wrong.py", code)
    task = Addition("my_wrong.Wrong")
    said = refusal(task.rules.work, Problems.from_ints([(7, 8)]))
    assert said.startswith(f"the layout wrong {message}")
