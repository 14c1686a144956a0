"""A figure laid out in pixels, from its top left corner."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from canvas.picture import INK, PAPER

DPI = 100


class Sheet:
    """What is put on a figure, and where; the y of a text is that of its middle.

    Args:
        width, height: pixels of the figure.

    Attributes:
        figure: with all that has been put there.
    """

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        # A size in inches, of which matplotlib takes whole pixels, must not fall below one.
        inches = ((width + 0.1) / DPI, (height + 0.1) / DPI)
        self.figure = Figure(inches, DPI, facecolor=PAPER)
        FigureCanvasAgg(self.figure)

    def write(self, x: float, y: float, text: str, **style: Any) -> None:
        """Put a text, with matplotlib's settings of one."""
        plain: dict[str, Any] = {"color": INK, "va": "center", "parse_math": False}
        self.figure.text(x / self.width, 1 - y / self.height, text, **(plain | style))

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes that fill a box."""
        left, low = x / self.width, 1 - (y + height) / self.height
        return self.figure.add_axes((left, low, width / self.width, height / self.height))

    def put(self, x: int, y: int, image: np.ndarray) -> None:
        """Put an image ``uint8 [h, w, 3]``, pixel by pixel."""
        self.figure.figimage(image, x, self.height - y - image.shape[0], origin="upper")
