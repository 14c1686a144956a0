"""Problems, how they are drawn on canvases, and how canvases are read."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from canvas.tasks import TASKS as TASKS
    from canvas.tasks import task_class as task_class
    from canvas.tasks import task_data as task_data
    from canvas.tasks import task_name as task_name

_TASKS = ("TASKS", "task_class", "task_data", "task_name")


def __getattr__(name: str) -> Any:
    if name in _TASKS:  # imported once they are asked for, as they need numpy
        return getattr(import_module("canvas.tasks"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
