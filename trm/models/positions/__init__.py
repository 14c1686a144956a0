"""The ways a transformer can know where its tokens are on a canvas.

A position encoding adds vectors to the embeddings, rotates queries and keys, adds vectors to keys,
or biases attention scores; a neighbourhood of `trm.models.coordinates` goes with any of them. All
but those that say otherwise serve the bidirectional recursive model (a grid of cells) and a causal
sequence model (the same cells in reading order, row ends being one more column). Shapes are those
of cells that a whole batch shares; where each sample has its own, a batch dimension comes first.
"""

import inspect
from typing import Any

from canvas.choices import check_choice
from canvas.plugins import load_class
from trm.models.configs import POSITIONS
from trm.models.positions.absolute import Learned
from trm.models.positions.base import Position, check_canvas
from trm.models.positions.relative import Relative2D

__all__ = ["Learned", "Position", "Relative2D", "check_canvas", "make_position"]


def make_position(name: str, **settings: Any) -> Position:
    """A position encoding, given those of the settings that its constructor asks for by name.

    Args:
        name: one of ``POSITIONS``, or ``module.Class`` of one's own.
        settings: hidden_size, num_heads, height and width of the canvas; perhaps prefix_length,
            radius, std (of learned vectors), amplitude (of sinusoids), bias_scale and
            direction_bias. What is left out is at the constructor's default; head_dim follows.

    Raises:
        ValueError: there is no such encoding, it asks for something else, or the head size does not
            suit the rotation.
    """
    if "." not in name:
        check_choice("position", name, POSITIONS)
    kind = load_class(POSITIONS.get(name, name), Position, "position")
    settings["head_dim"] = settings["hidden_size"] // settings["num_heads"]
    asked = inspect.signature(kind).parameters.values()
    needed = {p.name for p in asked if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    if needed - settings.keys():
        raise ValueError(
            f"position {name} asks for {', '.join(sorted(needed - settings.keys()))}; there are "
            f"{', '.join(sorted(settings))}"
        )
    return kind(**{p.name: settings[p.name] for p in asked if p.name in settings})
