"""The tasks by their names."""

from dataclasses import asdict, fields
from typing import Any

from canvas.addition import Addition
from canvas.choices import class_name, resolve
from canvas.division import Division
from canvas.modular import Modular
from canvas.multiplication import Multiplication
from canvas.subtraction import Subtraction
from canvas.task import ADDED, Task

TASKS: dict[str, type[Task]] = {
    "multiplication": Multiplication,
    "addition": Addition,
    "subtraction": Subtraction,
    "division": Division,
    "modular": Modular,
}


def task_class(name: str) -> type[Task]:
    """The task of that name, or a class of one's own, like ``mine.Subtraction``; or ValueError."""
    found = resolve(name, TASKS, Task, "task")
    assert isinstance(found, type)
    return found


def task_of(text: str, task: str | None = None, layout: str | None = None, base: int = 10) -> Task:
    """The task of a problem as it is typed: as named, or by its sign; in a layout, or its first."""
    kinds = reversed(TASKS.values())  # a sign of a later one decides: a product may be modulo p
    signed = (kind for kind in kinds if any(sign in text for sign in kind.signs))
    kind = task_class(task) if task else next(signed, Multiplication)
    layout = layout or next(iter(kind.layouts))
    if any(one.name == "base" for one in fields(kind)):  # type: ignore[arg-type]
        return kind(**{"layout": layout, "base": base})
    if base != 10:
        raise ValueError(f"the task {task} has an alphabet and no base: leave --base out")
    return kind(**{"layout": layout})


def task_data(task: Task) -> dict[str, Any]:
    """A task as plain data: the name by which `task_class` finds its class, and its settings.

    A setting that is marked `ADDED` is left out at its default.
    """
    kind = type(task)
    name = next((name for name, known in TASKS.items() if known is kind), class_name(kind))
    settings = asdict(task)  # type: ignore[call-overload]
    for one in fields(task):  # type: ignore[arg-type]
        if ADDED in one.metadata and settings[one.name] == one.default:
            del settings[one.name]
    return {"task": name, **settings}
