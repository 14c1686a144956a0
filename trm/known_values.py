"""The values of a training command's settings, looked at before any framework is imported.

What takes no framework to build is built: the task, its canvas, and the dataclasses that say how a
network is shaped and trained. Each refuses what it cannot be, here as in training. For what
Lightning itself is given see `trm.known_trainer`; what follows from data and model together is
looked at when training starts.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import yaml

from canvas.canvas_size import Blanks, Canvas
from canvas.task import Task
from trm.known_settings import Filled, filled
from trm.known_trainer import check_trainer
from trm.plain_data import misfit

_WITHOUT_FRAMEWORK = ("canvas.", "trm.models.configs.", "trm.training.configs.")
_SIDE = 20  # of the canvas that a network is made for where data's is cut to its problems


def check_values(words: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> None:
    """Look at the values on a command line and in configs.

    Nothing is said of a class of the user's own, of one that is replaced on the way, or of a value
    of the wrong type: the parser tells of those.

    Args:
        words: of a training command.
        configs: what its configs hold; later ones count more.

    Raises:
        ValueError: a value is refused.
    """
    try:
        parts = {part.name: part for part in filled(words, configs)}
    except yaml.YAMLError:
        return
    built = {name: _built(part, parts) for name, part in parts.items()}
    task, canvas, blanks = (built.get(f"data.{name}") for name in ("task", "canvas", "blanks"))
    if isinstance(task, Task) and isinstance(canvas, Canvas):
        more = (blanks.rows, blanks.columns) if isinstance(blanks, Blanks) else (0, 0)
        canvas.check(task, more)
    if "trainer" in parts:
        check_trainer(parts["trainer"].settings)


def _built(part: Filled, parts: Mapping[str, Filled]) -> Any:
    """What a class makes of its settings; None where it is not to be built here."""
    settings = dict(part.settings)
    if not part.kind.startswith(_WITHOUT_FRAMEWORK) or "." in str(settings.get("layout")):
        return None
    if part.name == "model.network.config":  # what training settles from the data
        canvas = parts["data.canvas"].settings if "data.canvas" in parts else {}
        settings |= {side: canvas.get(side) or _SIDE for side in ("height", "width")}
        settings["hints"] = {"": 1}  # perhaps none; what they are is not known here
    module, _, name = part.kind.rpartition(".")
    kind = getattr(import_module(module), name)
    if misfit(kind, settings):
        return None
    with suppress(TypeError):  # something is missing
        return kind(**settings)
